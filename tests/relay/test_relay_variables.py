"""Each variable's way to its effect: what a relay made of the environment sends, with the variable and without it."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from relay_shell import Context, failures, row

from dynamodb_outbox import aws_lambda
from dynamodb_outbox.adapters.system import SystemEntropy
from dynamodb_outbox.aws_lambda import VARIABLES
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[Any, Any], Any]

BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
AUDIT = "arn:aws:events:eu-west-1:123456789012:event-bus/audit"


class Aws:
    """EventBridge and DynamoDB as one client, which notes what it was asked for."""

    def __init__(self) -> None:
        self.refused: str | None = None  # the code by which every entry is
        self.broken = 0  # so many requests fail
        self.pause_s = 0.0
        self.published: list[list[Any]] = []  # by request
        self.at_once = self.most_at_once = 0
        self.keys_read = 0
        self.table: list[tuple[str, Any]] = []  # what was written, by operation
        self._lock = threading.Lock()

    def describe_event_bus(self, **request: Any) -> Any:
        """Be there."""
        return {"Arn": request["Name"]}

    def put_events(self, **request: Any) -> Any:
        """Accept each entry, refuse each, or fail as a whole."""
        with self._lock:
            self.published.append(request["Entries"])
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.pause_s)
        with self._lock:
            self.at_once -= 1
        if len(self.published) <= self.broken:
            raise ClientError({"Error": {"Code": "InternalException", "Message": "?"}}, "PutEvents")
        count = len(request["Entries"])
        if self.refused:
            return {"FailedEntryCount": count, "Entries": [{"ErrorCode": self.refused}] * count}
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "e"}] * count}

    def batch_get_item(self, **_: Any) -> Any:
        """Know of no parked key."""
        self.keys_read += 1
        return {"Responses": {}}

    def batch_execute_statement(self, **request: Any) -> Any:
        """Do each statement."""
        self.table += [("statement", one["Statement"]) for one in request["Statements"]]
        return {"Responses": [{} for _ in request["Statements"]]}

    def put_item(self, **request: Any) -> Any:
        """Park a record."""
        self.table.append(("put", request))
        return {}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Aws:
    """Return what every client of the library's own is."""
    made = Aws()
    monkeypatch.setattr(OwnClient, "get", lambda _: made)
    monkeypatch.setattr(SystemEntropy, "unit", lambda _: 0.2)  # pauses are short
    return made


def batch(*numbers: int, **more: Any) -> dict[str, Any]:
    """Return rows, each of a key of its own unless `pk` says another."""
    return {"Records": [row(number, **{"pk": str(number), **more}) for number in numbers]}


def destination(aws: Aws, handler: Handler) -> Any:
    """Return where an event is published to."""
    handler(batch(1), Context())
    return aws.published[0][0]["EventBusName"]


def table(aws: Aws, handler: Handler) -> Any:
    """Return whether a row is settled whose stream names no table."""
    nameless = batch(1)
    nameless["Records"][0].pop("eventSourceARN")
    try:
        handler(nameless, Context())
    except ConfigurationError:
        return None
    return aws.table[0][1].split('"')[1]


def source(aws: Aws, handler: Handler) -> Any:
    """Return the source of an event of a row that names none."""
    handler(batch(1), Context())
    return aws.published[0][0]["Source"]


def envelope(aws: Aws, handler: Handler) -> Any:
    """Return which members of CloudEvents, and of the data, are published."""
    handler(batch(1), Context())
    return sorted({"specversion", "n"} & json.loads(aws.published[0][0]["Detail"]).keys())


def ordering(aws: Aws, handler: Handler) -> Any:
    """Return in how many requests two events of one key travel."""
    handler(batch(1, 2, pk="k"), Context())
    return len(aws.published)


def on_poison(aws: Aws, handler: Handler) -> Any:
    """Return what is written for an event that can never pass, and whether it is held."""
    aws.refused = "InvalidArgument"
    held = failures(handler(batch(1), Context()))
    return [operation for operation, _ in aws.table], held


def max_in_flight(aws: Aws, handler: Handler) -> Any:
    """Return whether two requests are under way at once."""
    aws.pause_s = 0.1
    handler(batch(*range(1, 21)), Context())
    return aws.most_at_once


def rate_limit(_: Aws, handler: Handler) -> Any:
    """Return from which of three events on there was no time for more."""
    return failures(handler(batch(1, 2, 3), Context(1500)))


def breaker_after(aws: Aws, handler: Handler) -> Any:
    """Return how many requests are made, of which the first seven fail."""
    aws.broken = 7
    handler(batch(1), Context(16_000))
    return len(aws.published)


def remember_accepted(aws: Aws, handler: Handler) -> Any:
    """Return how often an event is published whose batch is delivered twice."""
    for _ in range(2):
        handler(batch(1), Context())
    return len(aws.published)


def settle(aws: Aws, handler: Handler) -> Any:
    """Return how a row is settled."""
    handler(batch(1), Context())
    return aws.table[0][1].split()[0]


def layout(aws: Aws, handler: Handler) -> Any:
    """Return which of two rows is relayed: the one of the default layout, or the one with another prefix."""
    other = batch(2)
    change = other["Records"][0]["dynamodb"]
    change["Keys"]["sk"] = change["NewImage"]["sk"] = {"S": "EVENT#2"}
    handler({"Records": batch(1)["Records"] + other["Records"]}, Context())
    return [json.loads(entry["Detail"])["data"]["n"] for entry in aws.published[0]]


def metrics(_: Aws, handler: Handler) -> Any:
    """Return how many events the standard output says were published."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        handler(batch(1), Context())
    return [json.loads(line)["Published"] for line in out.getvalue().splitlines()]


def log_level(_: Aws, handler: Handler) -> Any:
    """Return from which level on this library logs."""
    handler({"Records": []}, Context())
    return logging.getLogger("dynamodb_outbox").level


EFFECTS: dict[str, tuple[str, Callable[[Aws, Handler], Any], Any, Any]] = {
    "OUTBOX_SINK": (json.dumps({"order.*": AUDIT, "*": BUS}), destination, AUDIT, BUS),
    "OUTBOX_TABLE": ("accounts", table, "accounts", None),
    "OUTBOX_SOURCE": ("shop.orders", source, "shop.orders", "shop"),
    "OUTBOX_ENVELOPE": ("raw", envelope, ["n"], ["specversion"]),
    "OUTBOX_ORDERING": ("none", ordering, 1, 2),
    "OUTBOX_ON_POISON": ("block", on_poison, ([], ["1"]), (["put"], [])),
    "OUTBOX_MAX_IN_FLIGHT": ("1", max_in_flight, 1, 2),
    "OUTBOX_RATE_LIMIT": ("1", rate_limit, ["2"], []),
    "OUTBOX_BREAKER_AFTER": ("2", breaker_after, 2, 5),
    "OUTBOX_REMEMBER_ACCEPTED": ("0", remember_accepted, 2, 1),
    "OUTBOX_SETTLE": ("delete", settle, "DELETE", "UPDATE"),
    "OUTBOX_LAYOUT": ('{"prefix": "EVENT#"}', layout, [2], [1]),
    "OUTBOX_METRICS": ("emf", metrics, [1], []),
    "OUTBOX_LOG_LEVEL": ("ERROR", log_level, logging.ERROR, logging.NOTSET),
}
"""By variable: a value, how to see what it does, and what is seen with it and without it."""


@pytest.mark.parametrize("is_set", [True, False], ids=["set", "not set"])
@pytest.mark.parametrize("name", [each.name for each in VARIABLES if "relay" in each.read_by])
def test_a_variable_has_its_effect(name: str, is_set: bool, aws: Aws) -> None:
    """Seen from outside: in what is sent, answered or logged. A variable without a row here fails."""
    value, look, with_it, without_it = EFFECTS[name]
    environment = {"OUTBOX_SINK": BUS} | ({name: value} if is_set else {})
    made = aws_lambda._one_relay(environment).get()
    assert look(aws, made.lambda_handler) == (with_it if is_set else without_it)


def test_keys_are_parked_where_the_variable_says_so(aws: Aws) -> None:
    """The third way of OUTBOX_ON_POISON: nothing is published before it is known which keys are."""
    for on_poison, keys_read in (("park", 0), ("park_key", 1)):
        made = aws_lambda.relay_from({"OUTBOX_SINK": BUS, "OUTBOX_ON_POISON": on_poison})
        assert failures(made.lambda_handler(batch(1), Context())) == []
        assert aws.keys_read == keys_read


def test_a_breaker_can_be_left_out(aws: Aws) -> None:
    """`never`: requests go on."""
    made = aws_lambda.relay_from({"OUTBOX_SINK": BUS, "OUTBOX_BREAKER_AFTER": "never"})
    assert breaker_after(aws, made.lambda_handler) == 8
