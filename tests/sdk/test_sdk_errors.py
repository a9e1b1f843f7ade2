"""What exceptions of the SDK say."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError
from botocore.retries.standard import ThrottledRetryableChecker

from dynamodb_outbox.core import error_codes
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.errors import Said, may_pass, said


def answer(response: dict[str, Any]) -> exceptions.ClientError:
    """Return an error answer as botocore raises it."""
    return exceptions.ClientError(response, "Op")


def coded(code: str, status: int = 400) -> exceptions.ClientError:
    """Return an error answer with a code and a status."""
    return answer({"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (coded("Odd", 418), Said("Odd", "why", 418)),
        (answer({}), Said("Unknown", "", 500)),
        (answer({"Error": {"Code": None, "Message": None}}), Said("Unknown", "", 500)),
        (ZeroDivisionError("x"), Said("ZeroDivisionError", "x", 0)),
        (
            exceptions.NoCredentialsError(),
            Said(
                "NoCredentialsError",
                "Unable to locate credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                0,
            ),
        ),
    ],
)
def test_code_words_and_status(error: Exception, expected: Said) -> None:
    """An answer without a status is the server's fault; what is no answer has status 0 and its class as the code."""
    assert said(error) == expected


def test_as_text_it_is_code_and_words() -> None:
    """For logs and for reasons."""
    assert str(Said("Odd", "why", 400)) == "Odd: why"
    assert str(Said("Odd", "", 400)) == "Odd"


def test_a_refused_parameter_is_named_without_its_value() -> None:
    """Values are data; which parameter it was says enough."""
    client = boto3.session.Session().client(
        "dynamodb", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with pytest.raises(exceptions.ParamValidationError) as caught:
        client.put_item(TableName="shop", Item={"card": {"S": 31415926}, "other": {"N": 27182818}})
    assert said(caught.value) == Said("ParamValidationError", "Invalid type for parameter Item.card.S", 0)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (coded("ThrottlingException"), True),
        (coded("SlowDown", 503), True),
        (coded("Odd", 429), True),
        (coded("Odd", 500), True),
        (answer({}), True),
        (coded("TransactionConflictException"), True),
        (coded("RequestTimeout", 408), True),
        (coded("InternalServerError"), True),
        (coded("AccessDeniedException"), False),
        (coded("ValidationException"), False),
        (exceptions.EndpointConnectionError(endpoint_url="x"), True),
        (exceptions.ReadTimeoutError(endpoint_url="x"), True),
        (ResponseParserError("x"), True),
        (exceptions.CredentialRetrievalError(provider="x", error_msg="x"), True),
        (exceptions.NoCredentialsError(), False),
        (exceptions.NoRegionError(), False),
        (exceptions.ParamValidationError(report="x"), False),
        (ConfigurationError("x"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_what_may_pass_later(error: Exception, passes: bool) -> None:
    """Throttling, conflicts, a server's own fault, any broken connection; never the set-up."""
    assert may_pass(error) is passes


def test_throttling_is_what_botocore_takes_for_it() -> None:
    """But for a transaction in progress, of which nobody knows how it ends."""
    theirs = set(ThrottledRetryableChecker._THROTTLED_ERROR_CODES)
    assert theirs - error_codes.THROTTLING == {"TransactionInProgressException"}
    assert theirs >= error_codes.THROTTLING
    assert "TransactionInProgressException" in error_codes.UNFINISHED
