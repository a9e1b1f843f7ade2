"""What boto3 says, as the commit machine hears it. Answers are injected under a real client: nothing is sent."""

from __future__ import annotations

import functools
import json
import socket
import warnings
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    NoCredentialsError,
    NoRegionError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from dynamodb_outbox.adapters.dynamodb import DynamoStore
from dynamodb_outbox.core.commit.answers import (
    Cancelled,
    Committed,
    Held,
    ItemRead,
    Lost,
    ReadFailed,
    Reason,
    Refused,
)
from dynamodb_outbox.errors import ClientRetriesWarning, ConfigurationError
from dynamodb_outbox.local.client import local_client

REQUEST = {
    "TransactItems": [{"Put": {"TableName": "shop", "Item": {"pk": {"S": "A"}, "sk": {"S": "B"}}}}],
    "ClientRequestToken": "t" * 36,
}
KEY = {"pk": {"S": "A"}, "sk": {"S": "B"}}
ONCE = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})


class Body:
    """The body of a canned HTTP response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Any:
        """Yield it at once."""
        yield self._content


@functools.cache
def session() -> boto3.session.Session:
    """Return one session for all: it keeps the service model, which is slow to load."""
    return boto3.session.Session()


def client_with(*answers: Exception | tuple[int, Any], config: Config = ONCE) -> Any:
    """Return a client whose requests get these answers, in turn, and never leave the process."""
    client = make(config)
    queue = list(answers)

    def answer(request: Any, **_: Any) -> AWSResponse:
        following = queue.pop(0)
        if isinstance(following, Exception):
            raise following
        status, content = following
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return AWSResponse(request.url, status, {}, Body(body))

    client.meta.events.register("before-send.dynamodb", answer)
    return client


def refused(code: str, status: int = 400, **more: Any) -> tuple[int, Any]:
    """Return DynamoDB's error document."""
    return status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "why", **more}


def test_a_success() -> None:
    """A 200 is committed."""
    assert DynamoStore(client_with((200, {}))).transact(REQUEST) == Committed()


def test_a_cancellation_has_a_reason_for_each_action() -> None:
    """Codes, messages and old items arrive in the order of the request."""
    reasons = [
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Message": "no", "Item": {"pk": {"S": "A"}}},
        {"Code": "TransactionConflict", "Message": "busy"},
    ]
    answer = DynamoStore(client_with(refused("TransactionCanceledException", CancellationReasons=reasons))).transact(
        REQUEST
    )
    assert answer == Cancelled(
        (
            Reason("None"),
            Reason("ConditionalCheckFailed", "no", {"pk": {"S": "A"}}),
            Reason("TransactionConflict", "busy"),
        )
    )


@pytest.mark.parametrize(
    ("message", "codes"),
    [
        ("specific reasons [None, ConditionalCheckFailed]", ["None", "ConditionalCheckFailed"]),
        ("no reasons here", ["Unknown"]),
    ],
)
def test_reasons_from_the_message(message: str, codes: list[str]) -> None:
    """Where the reasons are not listed the message's brackets say them; without these the reason is unknown."""
    error = (400, {"__type": "TransactionCanceledException", "Message": message})
    answer = DynamoStore(client_with(error)).transact(REQUEST)
    assert isinstance(answer, Cancelled)
    assert [reason.code for reason in answer.reasons] == codes


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", "throttle"),
        ("ProvisionedThroughputExceededException", "throttle"),
        ("RequestLimitExceeded", "throttle"),
        ("TransactionConflictException", "conflict"),
        ("ReplicatedWriteConflictException", "conflict"),
    ],
)
def test_turned_away_for_now(code: str, kind: str) -> None:
    """Throttling and conflicts of the whole request may be tried again, and wrote nothing."""
    answer = DynamoStore(client_with(refused(code))).transact(REQUEST)
    assert isinstance(answer, Held)
    assert answer.kind == kind


@pytest.mark.parametrize(
    "code",
    [
        "ValidationException",
        "AccessDeniedException",
        "ResourceNotFoundException",
        "IdempotentParameterMismatchException",
    ],
)
def test_turned_away_for_good(code: str) -> None:
    """Any other 4xx wrote nothing and will not pass."""
    answer = DynamoStore(client_with(refused(code))).transact(REQUEST)
    assert isinstance(answer, Refused)
    assert code in answer.detail
    assert not answer.repeated


@pytest.mark.parametrize(
    "outcome",
    [
        ReadTimeoutError(endpoint_url="x"),
        ConnectTimeoutError(endpoint_url="x"),
        ConnectionClosedError(endpoint_url="x"),
        ResponseParserError("x"),
        refused("InternalServerError", 500),
        refused("ServiceUnavailable", 503),
        (502, b"<html>bad gateway</html>"),
        refused("TransactionInProgressException"),
        refused("RequestTimeoutException", 408),
    ],
)
def test_nobody_knows(outcome: Any) -> None:
    """Time-outs, broken connections, unreadable answers, server errors, an attempt in progress: lost."""
    assert isinstance(DynamoStore(client_with(outcome)).transact(REQUEST), Lost)


def test_a_port_that_nobody_listens_on_was_sent_nothing() -> None:
    """Botocore says so itself; of a client that repeats requests it says it of the last attempt alone."""
    with socket.socket() as taken:  # bound, and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        for attempts in (1, 2):
            config = Config(retries={"total_max_attempts": attempts})
            answer = DynamoStore(local_client("dynamodb", url, config=config)).transact(REQUEST)
            assert isinstance(answer, Held)
            assert (answer.kind, answer.repeated) == ("unreached", attempts > 1)
            assert answer.detail.startswith("EndpointConnectionError: Could not connect to the endpoint")


def test_an_error_without_a_status_is_lost() -> None:
    """A client wrapped by a test or a tracer may raise errors without a status: nothing is known then."""
    client = client_with(ClientError({"Error": {"Code": "Odd"}}, "TransactWriteItems"))
    assert isinstance(DynamoStore(client).transact(REQUEST), Lost)


def test_nothing_left_the_process() -> None:
    """Missing credentials and malformed parameters are refusals: nothing was sent."""
    assert isinstance(DynamoStore(client_with(NoCredentialsError())).transact(REQUEST), Refused)
    answer = DynamoStore(client_with()).transact({"TransactItems": "x"})
    assert isinstance(answer, Refused)
    assert "ParamValidationError" in answer.detail


def test_the_sdks_own_repetition_is_reported() -> None:
    """A client that repeated the request after a lost answer says so, whatever the second answer is."""
    twice = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})

    def second(*answers: Any) -> Any:
        return DynamoStore(client_with(*answers, config=twice)).transact(REQUEST)

    lost = refused("InternalServerError", 500)
    reasons = [{"Code": "ConditionalCheckFailed"}]
    cancelled = second(lost, refused("TransactionCanceledException", CancellationReasons=reasons))
    assert isinstance(cancelled, Cancelled)
    assert cancelled.repeated
    denied = second(lost, refused("AccessDeniedException"))
    assert isinstance(denied, Refused)
    assert denied.repeated
    assert second(lost, NoRegionError()) == Refused("NoRegionError: You must specify a region.", repeated=True)


def test_reading_an_item() -> None:
    """A read is consistent, and an absent item is None."""
    client = client_with((200, {"Item": KEY}), (200, {}))
    seen: list[Any] = []
    client.meta.events.register("provide-client-params.dynamodb.GetItem", lambda params, **_: seen.append(params))
    store = DynamoStore(client)
    assert store.read("shop", KEY) == ItemRead(KEY)
    assert store.read("shop", KEY) == ItemRead(None)
    assert seen[0] == {"TableName": "shop", "Key": KEY, "ConsistentRead": True}


@pytest.mark.parametrize(
    ("outcome", "retryable"),
    [
        (refused("ThrottlingException"), True),
        (refused("InternalServerError", 500), True),
        (ReadTimeoutError(endpoint_url="x"), True),
        (refused("AccessDeniedException"), False),
        (NoCredentialsError(), False),
    ],
)
def test_reading_fails(outcome: Any, retryable: bool) -> None:
    """A failed read says whether another may succeed."""
    answer = DynamoStore(client_with(outcome)).read("shop", KEY)
    assert isinstance(answer, ReadFailed)
    assert answer.retryable is retryable


def test_a_client_of_our_own_makes_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once, on first use, with short time-outs, and finds its Region as any boto3 client does."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    store = DynamoStore()
    assert store.region == "eu-central-1"
    client = store._client.get()
    assert client is store._client.get()
    assert client.meta.config.retries["total_max_attempts"] == 1
    assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (2, 5)


def test_no_region_is_a_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Region the error says what to set."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        _ = DynamoStore().region


def test_a_table_that_there_is_not_is_told_with_where_it_was_looked_for() -> None:
    """DynamoDB's own words name neither the table nor the Region, which is the wrong one more often than not."""
    place = "Region 'eu-west-1', endpoint https://dynamodb.eu-west-1.amazonaws.com"
    missing = refused("ResourceNotFoundException")
    read = DynamoStore(client_with(missing)).read("shop", KEY)
    assert read == ReadFailed(f"ResourceNotFoundException: why (table 'shop'; {place})", retryable=False)
    check = {"ConditionCheck": {"TableName": "billing", "Key": KEY, "ConditionExpression": "attribute_exists(pk)"}}
    for more, named in (([], "table 'shop'"), ([check], "one of the tables 'billing', 'shop'")):
        request = {**REQUEST, "TransactItems": [*REQUEST["TransactItems"], *more]}
        answer = DynamoStore(client_with(missing)).transact(request)
        assert answer == Refused(f"ResourceNotFoundException: why ({named}; {place})", False)


def make(config: Config | None = None) -> Any:
    """Return a client as a user would make it."""
    return session().client(
        "dynamodb", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x", config=config
    )


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        (None, True),
        (ONCE, False),
        (Config(retries={"mode": "standard"}), False),
        (Config(retries={"mode": "standard", "total_max_attempts": 6}), True),
        (Config(read_timeout=None, retries={"total_max_attempts": 1}), True),
        (Config(connect_timeout=5, read_timeout=10), False),
    ],
)
def test_a_client_that_outlasts_the_token_is_warned_about(config: Config | None, warned: bool) -> None:
    """Attempts times time-outs above the token's ten minutes is a warning; boto3's plain default is such a client."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DynamoStore(make(config))
    assert [each.category for each in caught] == ([ClientRetriesWarning] if warned else [])


def test_the_client_of_a_resource_is_refused() -> None:
    """boto3.resource's client would wrap every value a second time; the error says which client to pass."""
    resource = session().resource(
        "dynamodb", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x", config=ONCE
    )
    with pytest.raises(ConfigurationError, match=r"boto3\.client"):
        DynamoStore(resource.meta.client)
