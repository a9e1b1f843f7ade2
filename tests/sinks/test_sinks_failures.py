"""What exceptions of botocore mean for the entries of a request."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError

from dynamodb_outbox.core.relay.outcome import Kind
from dynamodb_outbox.sinks.failures import classify


def answered(code: str, status: int = 400) -> exceptions.ClientError:
    """Return an error answer of a service."""
    return exceptions.ClientError(
        {"Error": {"Code": code, "Message": "said"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutEvents"
    )


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ThrottlingException", 400, Kind.TRANSIENT),
        ("InternalException", 500, Kind.TRANSIENT),
        ("SomethingNew", 500, Kind.TRANSIENT),
        ("SomethingNew", 503, Kind.TRANSIENT),
        ("SomethingNew", 429, Kind.TRANSIENT),
        ("SomethingNew", 413, Kind.CONTENT),
        ("ValidationException", 400, Kind.CONTENT),
        ("AccessDeniedException", 400, Kind.TARGET),
        ("UnrecognizedClientException", 400, Kind.TARGET),
        ("ResourceNotFoundException", 400, Kind.TARGET),
        ("SomethingNew", 400, Kind.TARGET),
        ("SomethingNew", 404, Kind.TARGET),
    ],
)
def test_error_answers(code: str, status: int, kind: Kind) -> None:
    """Known codes by the table; unknown ones by status, and never as content."""
    fault = classify(answered(code, status))
    assert (fault.kind, fault.code, fault.reason) == (kind, code, "said")


CONNECTION: dict[str, Any] = {"endpoint_url": "https://bus", "error": "broken"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.ReadTimeoutError(**CONNECTION), Kind.UNKNOWN),
        (exceptions.ConnectionClosedError(**CONNECTION), Kind.UNKNOWN),
        (exceptions.ResponseStreamingError(error="cut"), Kind.UNKNOWN),
        (exceptions.HTTPClientError(error="any"), Kind.UNKNOWN),
        (ResponseParserError("not JSON"), Kind.UNKNOWN),
        (exceptions.ConnectTimeoutError(**CONNECTION), Kind.TRANSIENT),
        (exceptions.EndpointConnectionError(**CONNECTION), Kind.TRANSIENT),
        (exceptions.ParamValidationError(report="secret payload"), Kind.CONTENT),
        (exceptions.NoCredentialsError(), Kind.TARGET),
        (exceptions.NoRegionError(), Kind.TARGET),
    ],
)
def test_errors_without_an_answer(error: Exception, kind: Kind) -> None:
    """Unknown where the bus may have acted, transient where it cannot have, target where the set-up is at fault."""
    fault = classify(error)
    assert (fault.kind, fault.code) == (kind, type(error).__name__)
    assert "secret" not in fault.reason


def test_other_errors_are_not_swallowed() -> None:
    """An error that is none of botocore's is the caller's."""
    with pytest.raises(ZeroDivisionError):
        classify(ZeroDivisionError())
