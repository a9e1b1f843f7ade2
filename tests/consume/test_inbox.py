"""A consumer applies each event once, whatever the bus and the queue deliver."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from dynamodb_outbox.consume.inbox import Inbox
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.errors import ConfigurationError, InvalidEvent, ReservedName, UnhandledEvent
from dynamodb_outbox.event import Event
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Account
    from dynamodb_outbox.outbox import Transaction

TABLE = "billing"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:billing"


def placed(number: int, event_type: str = "order.placed") -> Event:
    """Return an event of order `number`."""
    return Event(
        id=f"event-{number}",
        type=event_type,
        source="shop.orders",
        payload=json.dumps({"order_id": str(number), "cents": 100}),
        time=datetime(2026, 11, 29, tzinfo=timezone.utc),
        key=f"ORDER#{number}",
    )


def delivery(*events: Event) -> dict[str, Any]:
    """Return the batch that Lambda gives the consumer of these events' queue."""
    return {
        "Records": [
            {
                "messageId": f"message-{number}",
                "eventSource": "aws:sqs",
                "eventSourceARN": QUEUE,
                "body": json.dumps(
                    {"detail-type": event.type, "source": event.source, "detail": json.loads(cloudevent(event))}
                ),
            }
            for number, event in enumerate(events)
        ]
    }


@pytest.fixture
def table(engine: Account) -> Callable[[], list[dict[str, Any]]]:
    """Make the consumer's table; the function returns its items, wire form."""
    client = engine.client("dynamodb")
    create_table(client, TABLE)
    return lambda: client.scan(TableName=TABLE, ConsistentRead=True)["Items"]


def counting(engine: Account, consumer: str = "invoices") -> Inbox:
    """Return an inbox whose effect counts its applications, so that a second one shows."""
    inbox = Inbox(TABLE, consumer=consumer, client=engine.client("dynamodb"))

    @inbox.on("order.placed")
    def count(event: Event, tx: Transaction) -> None:
        tx.update({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, add={"applied": 1})

    return inbox


def offline(service: str) -> Any:
    """Return a client that is asked for nothing."""
    config = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
    return boto3.client(
        service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x", config=config
    )


def nothing(event: Event, tx: Transaction) -> None:
    """Apply nothing."""
    del event, tx


def applied(items: list[dict[str, Any]]) -> dict[str, int]:
    """Return how often each invoice's effect was applied."""
    return {item["pk"]["S"]: int(item["applied"]["N"]) for item in items if "applied" in item}


def test_a_batch_is_applied_and_reported_as_done(engine: Account, table: Callable[[], list[dict[str, Any]]]) -> None:
    """Each event has its effect and its inbox record, with a TTL 30 days ahead, and no message is reported."""
    before = datetime.now(timezone.utc)
    assert counting(engine).lambda_handler(delivery(placed(1), placed(2))) == {"batchItemFailures": []}
    items = table()
    assert applied(items) == {"INVOICE#1": 1, "INVOICE#2": 1}
    records = [item for item in items if item["pk"]["S"].startswith("INBOX#")]
    assert {item["pk"]["S"] for item in records} == {
        "INBOX#invoices#shop.orders#event-1",
        "INBOX#invoices#shop.orders#event-2",
    }
    for record in records:
        ahead = int(record["expires_at"]["N"]) - before.timestamp()
        assert timedelta(days=30).total_seconds() - 1 <= ahead <= timedelta(days=30).total_seconds() + 60


def test_a_duplicate_is_acknowledged_and_changes_nothing(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """Twice in one batch, and once more in another process's inbox: one effect, no failure."""
    assert counting(engine).lambda_handler(delivery(placed(1), placed(1))) == {"batchItemFailures": []}
    assert counting(engine).lambda_handler(delivery(placed(1))) == {"batchItemFailures": []}
    assert applied(table()) == {"INVOICE#1": 1}


def test_apply_says_whether_this_call_did_it(engine: Account, table: Callable[[], list[dict[str, Any]]]) -> None:
    """True the first time, False after that."""
    inbox = counting(engine)
    assert [inbox.apply(placed(1)) for _ in range(3)] == [True, False, False]
    assert applied(table()) == {"INVOICE#1": 1}


def test_copies_applied_at_the_same_moment_have_one_effect(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """Eight threads with the same event: one applies it, the others find it applied."""
    results: list[bool] = []
    barrier = threading.Barrier(8)

    def run() -> None:
        inbox = counting(engine)
        barrier.wait()
        results.append(inbox.apply(placed(1)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]
    assert applied(table()) == {"INVOICE#1": 1}


def test_each_consumer_of_a_table_applies_an_event_for_itself(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """Records of one consumer do not hide an event from another."""
    assert counting(engine, "invoices").apply(placed(1))
    assert counting(engine, "statistics").apply(placed(1))
    assert applied(table()) == {"INVOICE#1": 2}


def test_a_function_that_fails_fails_its_message_alone(
    engine: Account, table: Callable[[], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    """The failing message is reported by its id, nothing of it is written, and the others are applied."""
    inbox = Inbox(TABLE, consumer="invoices", client=engine.client("dynamodb"))

    @inbox.consumer
    def fail_on_two(event: Event, tx: Transaction) -> None:
        tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META", "applied": 1}, if_absent=True)
        if event.id == "event-2":
            raise RuntimeError("no")

    with caplog.at_level(logging.ERROR):
        answer = inbox.lambda_handler(delivery(placed(1), placed(2), placed(3)))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert applied(table()) == {"INVOICE#1": 1, "INVOICE#3": 1}
    assert "message-1" in caplog.text


def test_a_business_condition_that_fails_is_not_taken_for_a_duplicate(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """The message is reported; no inbox record remains, so that it can be applied once the condition holds."""
    inbox = Inbox(TABLE, consumer="invoices", client=engine.client("dynamodb"))

    @inbox.on("order.placed")
    def pay(event: Event, tx: Transaction) -> None:
        tx.update({"pk": f"ACCOUNT#{event.data['order_id']}", "sk": "META"}, add={"applied": 1}, if_exists=True)

    assert inbox.lambda_handler(delivery(placed(1))) == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert table() == []
    engine.client("dynamodb").put_item(TableName=TABLE, Item={"pk": {"S": "ACCOUNT#1"}, "sk": {"S": "META"}})
    assert inbox.lambda_handler(delivery(placed(1))) == {"batchItemFailures": []}
    assert applied(table()) == {"ACCOUNT#1": 1}


def test_the_consumers_own_events_are_part_of_the_effect(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """An event that a function emits is committed with the effect, once, under the consumer's own source and key."""
    inbox = Inbox(TABLE, consumer="invoices", source="billing", client=engine.client("dynamodb"))

    @inbox.on("order.placed")
    def invoice(event: Event, tx: Transaction) -> None:
        tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, if_absent=True)
        tx.emit("invoice.created", {"order_id": event.data["order_id"]})

    inbox.lambda_handler(delivery(placed(1), placed(1)))
    records = [item for item in table() if item["sk"]["S"].startswith("OUTBOX#")]
    assert [(item["pk"]["S"], item["type"]["S"], item["source"]["S"]) for item in records] == [
        ("INVOICE#1", "invoice.created", "billing")
    ]


def test_an_event_that_no_function_takes_goes_back(
    engine: Account, table: Callable[[], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported as failed with advice, not acknowledged in silence."""
    answer = counting(engine).lambda_handler(delivery(placed(1, "order.cancelled"), placed(2)))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert "@inbox.on('order.cancelled')" in caplog.text
    assert applied(table()) == {"INVOICE#2": 1}
    with pytest.raises(UnhandledEvent) as caught:
        counting(engine).apply(placed(1, "order.cancelled"))
    assert caught.value.event_type == "order.cancelled"


def test_a_message_that_is_not_an_event_goes_back_alone(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """A malformed body fails its own message only."""
    batch = delivery(placed(1), placed(2))
    batch["Records"][0]["body"] = "not json"
    assert counting(engine).lambda_handler(batch) == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert applied(table()) == {"INVOICE#2": 1}


def test_sources_and_ids_that_share_a_separator_do_not_share_a_record(
    engine: Account, table: Callable[[], list[dict[str, Any]]]
) -> None:
    """`a#b` + `c` and `a` + `b#c` are two events: neither hides the other."""
    inbox = counting(engine)
    one = replace(placed(1), source="a#b", id="c")
    other = replace(placed(1), source="a", id="b#c")
    third = replace(placed(1), source="a%23b", id="c")
    assert [inbox.apply(event) for event in (one, other, third, one)] == [True, True, True, False]
    assert applied(table()) == {"INVOICE#1": 3}


def test_an_inbox_record_cannot_be_forged_through_a_transaction(engine: Account) -> None:
    """Its keys are reserved, for items and for ordering keys."""
    outbox = Outbox(TABLE, source="shop", client=engine.client("dynamodb"))
    with pytest.raises(ReservedName, match="INBOX#"):
        outbox.transaction().put({"pk": "INBOX#c#s#1", "sk": "GUARD"}, overwrite=True)
    with pytest.raises(InvalidEvent, match="INBOX#"):
        outbox.transaction().emit("t", {}, key="INBOX#c#s#1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"consumer": ""}, "consumer"),
        ({"consumer": "a#b"}, "consumer"),
        ({"consumer": 5}, "consumer"),
        ({"consumer": "c", "remember": timedelta(seconds=1)}, "remember"),
        ({"consumer": "c", "remember": 5}, "remember"),
        ({"consumer": "c", "source": ""}, "source"),
        ({"consumer": "aws.c"}, "source"),
    ],
)
def test_an_inbox_that_cannot_work_is_refused(arguments: dict[str, Any], said: str) -> None:
    """The error names the argument."""
    with pytest.raises(ConfigurationError, match=said):
        Inbox(TABLE, **arguments)


def test_a_second_function_for_a_type_is_refused() -> None:
    """Neither replaces the other in silence; the same for the function of all types."""
    inbox = Inbox(TABLE, consumer="invoices")
    inbox.on("t")(nothing)
    inbox.consumer(nothing)
    with pytest.raises(ConfigurationError, match="'t'"):
        inbox.on("t")(nothing)
    with pytest.raises(ConfigurationError, match="all types"):
        inbox.consumer(nothing)


def generator_function(event: Event, tx: Transaction) -> Iterator[None]:
    """Would return a generator that nobody advances."""
    yield
    raise AssertionError((event, tx))


async def async_generator_function(event: Event, tx: Transaction) -> AsyncIterator[None]:
    """Would return a generator that nobody advances."""
    yield
    raise AssertionError((event, tx))


class GeneratorCallable:
    """An object that is called like a generator function."""

    __call__ = staticmethod(generator_function)


@pytest.mark.parametrize("function", [generator_function, async_generator_function, GeneratorCallable(), 5, None])
def test_what_would_not_run_is_refused_at_registration(function: Any) -> None:
    """Its messages would be acknowledged without an effect."""
    inbox = Inbox(TABLE, consumer="invoices")
    with pytest.raises(ConfigurationError, match="inbox"):
        inbox.on("t")(function)
    with pytest.raises(ConfigurationError, match="inbox"):
        inbox.consumer(function)


@pytest.mark.usefixtures("table")
def test_the_same_traceback_is_written_once_and_each_message_named(
    engine: Account, caplog: pytest.LogCaptureFixture
) -> None:
    """One cause, a batch of messages: the log shows where it is once, and which messages it met."""
    inbox = Inbox(TABLE, consumer="invoices", client=engine.client("dynamodb"))

    @inbox.consumer
    def broken(event: Event, tx: Transaction) -> None:
        del tx
        raise ValueError("other" if event.id == "event-3" else "same")

    answer = inbox.lambda_handler(delivery(*map(placed, range(4))))
    assert len(answer["batchItemFailures"]) == 4
    told = [(one.getMessage(), bool(one.exc_info)) for one in caplog.records]
    assert told == [
        (f"invoices: message 'message-0' of {QUEUE} goes back", True),
        (f"invoices: message 'message-1' of {QUEUE} goes back, with the error above: ValueError", False),
        (f"invoices: message 'message-2' of {QUEUE} goes back, with the error above: ValueError", False),
        (f"invoices: message 'message-3' of {QUEUE} goes back", True),
    ]


def takes_one(event: Event) -> None:
    """Take no transaction."""
    del event


def takes_three(event: Event, tx: Transaction, more: object) -> None:
    """Take one argument too many."""
    del event, tx, more


def takes_a_name(event: Event, *, tx: Transaction) -> None:
    """Take the transaction by name only."""
    del event, tx


@pytest.mark.parametrize(
    "function", [takes_one, takes_three, takes_a_name, lambda: None, partial(nothing, event=placed(1))]
)
def test_a_function_of_another_number_of_arguments_is_refused_at_registration(function: Any) -> None:
    """Each of its messages would fail; the error shows what it takes and what it must take."""
    inbox = Inbox(TABLE, consumer="invoices")
    for register in (inbox.on("t"), inbox.consumer):
        with pytest.raises(ConfigurationError, match=r"def invoice\(event, tx\).*It takes \("):
            register(function)
    with pytest.raises(UnhandledEvent):
        inbox._functions.of(placed(1, "t"))


class Untold:
    """Something to call that does not tell its parameters, as some that are written in C."""

    __signature__ = "none"

    def __call__(self, event: Event, tx: Transaction) -> None:
        """Take both."""

    def method(self, event: Event, tx: Transaction) -> None:
        """Take both."""


@pytest.mark.parametrize(
    "function",
    [
        nothing,
        print,
        Untold(),
        Untold().method,
        lambda event, tx, more=None: None,  # noqa: ARG005 -- what counts is that it can be called
        lambda *all_of_them: None,  # noqa: ARG005 -- as above
        partial(takes_three, more=1),
    ],
)
def test_what_can_be_called_with_both_is_taken(function: Any) -> None:
    """Whatever else it takes, and in whatever form it comes."""
    Inbox(TABLE, consumer="invoices").on("t")(function)


def test_a_client_of_another_service_is_refused_when_the_inbox_is_made() -> None:
    """With the names of both services."""
    with pytest.raises(ConfigurationError, match=r"'events'.*'dynamodb'"):
        Inbox(TABLE, consumer="invoices", client=offline("events"))


@pytest.mark.parametrize("event_type", ["", 5, nothing])
def test_on_wants_the_type(event_type: Any) -> None:
    """`@inbox.on` without parentheses would replace the function and register nothing."""
    with pytest.raises(ConfigurationError, match="name the event type"):
        Inbox(TABLE, consumer="invoices").on(event_type)


def future(event: Event, tx: Transaction) -> Any:
    """Return something to await that belongs to another loop."""
    del event, tx
    loop = asyncio.new_event_loop()
    made = loop.create_future()
    loop.close()
    return made


@pytest.mark.parametrize("function", [generator_function, async_generator_function, future])
def test_work_that_was_returned_instead_of_done_fails_the_message(
    engine: Account, table: Callable[[], list[dict[str, Any]]], function: Any
) -> None:
    """A plain function that hands on a generator has done nothing: nothing is recorded as applied."""
    inbox = Inbox(TABLE, consumer="invoices", client=engine.client("dynamodb"))

    @inbox.on("order.placed")
    def hand_on(event: Event, tx: Transaction) -> object:
        return function(event, tx)

    assert inbox.lambda_handler(delivery(placed(1))) == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert table() == []
