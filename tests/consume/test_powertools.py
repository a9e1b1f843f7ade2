"""Effects outside of DynamoDB over Powertools: done once for an event's copies, and set up so that this is true."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from deliveries import WAYS, order
from remembering import Noted

import dynamodb_outbox
from dynamodb_outbox.consume import Applied, Duplicate, Failed
from dynamodb_outbox.consume.powertools import PowertoolsInbox
from dynamodb_outbox.errors import ConfigurationError, PayloadUnavailable, RetryLater, Skip, UnhandledEvent
from dynamodb_outbox.event import DataRef
from spans_kept import Kept, attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Event

DONE: dict[str, Any] = {"batchItemFailures": []}


class Context:
    """What Lambda gives a function, as far as it is looked at."""

    def __init__(self, left_ms: int) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return the time left."""
        return self.left_ms


class Office:
    """A table of notes on the engine, inboxes on it, and the ids of the mails that went out."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        self.client.create_table(
            TableName="notes",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.sent: list[str] = []
        self.noted = Noted()

    def store(self, table: str = "notes") -> DynamoDBPersistenceLayer:
        """Return a persistence layer, as each process makes its own."""
        return DynamoDBPersistenceLayer(table_name=table, boto3_client=self.client)

    def inbox(self, consumer: str = "mailer", **options: Any) -> PowertoolsInbox:
        """Return an inbox that sends mails."""
        made = PowertoolsInbox(self.store(), consumer=consumer, observer=self.noted, **options)

        @made.on("order.placed")
        def mail(event: Event) -> str:
            self.sent.append(event.id)
            return "x" * 500_000  # nothing that fits into a note

        return made

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes."""
        return list(self.client.scan(TableName="notes")["Items"])


@pytest.fixture
def office(engine: Account) -> Office:
    """Make the table of notes."""
    return Office(engine)


def test_an_effect_is_had_once_whatever_is_delivered(office: Office) -> None:
    """Copies in one batch, in another process, by another way; each consumer for itself."""
    batch = WAYS["SQS behind a rule"].of(order(1), order(1), order(2))
    assert office.inbox().lambda_handler(batch, Context(10_000)) == DONE
    assert office.inbox().lambda_handler(WAYS["Kinesis"].of(order(2)), Context(10_000)) == DONE
    assert office.sent == [order(1).id, order(2).id]
    assert [type(fact) for fact in office.noted.facts] == [Applied, Duplicate, Applied, Duplicate]
    assert office.inbox("another").apply(order(1))
    assert len(office.notes()) == 3


def test_effects_are_followed(office: Office) -> None:
    """A span for each message, and a copy is marked."""
    kept = Kept()
    office.inbox(tracing=kept.tracing).lambda_handler(WAYS["Kinesis"].of(order(1), order(1)), Context(10_000))
    assert [attributes(span)["dynamodb_outbox.outcome"] for span in kept.spans("process")] == ["applied", "duplicate"]


def test_notes_are_kept_for_30_days_without_what_was_returned(office: Office) -> None:
    """Under the consumer's name, which no function's name is a part of."""
    office.inbox().apply(order(1))
    (note,) = office.notes()
    assert note["id"]["S"].startswith("mailer#")
    assert note["data"]["S"] == "null"
    left = int(note["expiration"]["N"]) - time.time()
    assert timedelta(days=29, hours=23) < timedelta(seconds=left) <= timedelta(days=30)


def test_the_same_id_with_other_content_is_an_error(office: Office) -> None:
    """Somebody's ids are not ids; the other source is another event."""
    inbox = office.inbox()
    assert inbox.apply(order(1))
    with pytest.raises(IdempotencyValidationError):
        inbox.apply(replace(order(1), payload="{}"))
    assert inbox.apply(replace(order(1), source="elsewhere"))
    assert not inbox.apply(order(1))


def test_copies_may_spell_their_data_otherwise(office: Office) -> None:
    """By way of Lambda's reading of EventBridge, and as somebody wrote a row: a duplicate, and no error."""
    event = replace(order(1), payload='{"a":1.10,"b":1E2,"c":12345678901234567890.5,"d":"\u00e9\\ud800"}')
    inbox = office.inbox()
    for way in ("SQS behind a rule", "EventBridge", "SQS, sent there by the relay"):
        inbox.lambda_handler(WAYS[way].of(event), Context(10_000))
    spaced = replace(event, payload=event.payload.replace(",", ", ").replace("\u00e9", "\\u00e9"))
    assert not inbox.apply(spaced)
    assert [type(fact) for fact in office.noted.facts] == [Applied, Duplicate, Duplicate, Duplicate]
    with pytest.raises(IdempotencyValidationError):
        inbox.apply(replace(event, payload=event.payload.replace("1.10", "1.11")))


@pytest.mark.parametrize("error", [ValueError, Skip, asyncio.CancelledError])
def test_a_function_that_raises_leaves_no_note(office: Office, error: type[BaseException]) -> None:
    """The event comes again, and the function runs again."""
    inbox = office.inbox()
    raising = [error]

    @inbox.consumer
    def fail(event: Event) -> None:
        if raising:
            raise raising.pop()
        office.sent.append(event.id)

    with pytest.raises(error if issubclass(error, Exception) else RuntimeError):
        inbox.apply(order(1, "order.paid"))
    assert office.notes() == []
    assert inbox.apply(order(1, "order.paid"))
    assert office.sent == [order(1).id]


def test_a_copy_that_comes_while_one_is_worked_on_goes_back(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """Expected, so no error in the log; afterwards it is a duplicate."""
    first, second = office.inbox(), office.inbox()
    begun, end = threading.Event(), threading.Event()

    @first.consumer
    def slow(event: Event) -> None:
        begun.set()
        end.wait(10)
        office.sent.append(event.id)

    second.consumer(slow)
    thread = threading.Thread(target=first.apply, args=(order(1, "order.paid"),))
    thread.start()
    begun.wait(10)
    answer = second.lambda_handler(WAYS["SQS behind a rule"].of(order(1, "order.paid")))
    end.set()
    thread.join()
    assert len(answer["batchItemFailures"]) == 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    failed = [fact for fact in office.noted.facts if isinstance(fact, Failed)]
    assert [type(fact.error) for fact in failed] == [RetryLater]
    assert not second.apply(order(1, "order.paid"))
    assert office.sent == [order(1).id]


@pytest.mark.parametrize("outcome", ["given up", "held"])
def test_work_that_timed_out_is_given_up_when_its_time_is_up(office: Office, outcome: str) -> None:
    """The note says until when an invocation could be at work: the time it had left. Before that it holds."""
    dying = office.inbox()

    @dying.consumer
    def killed(event: Event) -> None:
        raise KeyboardInterrupt(event.id)  # nothing cleans up, as when Lambda ends the process

    with pytest.raises(KeyboardInterrupt):
        dying.lambda_handler(
            WAYS["SQS behind a rule"].of(order(1, "order.paid")), Context(-5 if outcome == "given up" else 60_000)
        )
    again = office.inbox()
    again.consumer(lambda event: office.sent.append(event.id))
    if outcome == "given up":
        assert again.apply(order(1, "order.paid"))
    else:
        with pytest.raises(RetryLater):
            again.apply(order(1, "order.paid"))


def test_outside_of_lambda_work_is_given_up_after_its_longest_time(office: Office) -> None:
    """Without a context, and after an invocation that had one: 15 minutes."""
    inbox = office.inbox()
    inbox.lambda_handler({"Records": []}, Context(1))
    seen: list[dict[str, Any]] = []
    inbox.consumer(lambda event: seen.extend(office.notes()))  # noqa: ARG005 -- the note is looked at meanwhile
    inbox.apply(order(1, "order.paid"))
    (note,) = seen
    left_ms = int(note["in_progress_expiration"]["N"]) - 1000 * time.time()
    assert 800_000 < left_ms <= 900_000


def test_a_store_that_fails_fails_the_event(office: Office) -> None:
    """No function runs without a note."""
    inbox = PowertoolsInbox(office.store("missing"), consumer="mailer")
    inbox.consumer(lambda event: office.sent.append(event.id))
    with pytest.raises(IdempotencyPersistenceLayerError):
        inbox.apply(order(1))
    assert office.sent == []


def test_an_event_without_an_id_would_be_an_error(office: Office) -> None:
    """No reader makes such an event; the setting is there all the same."""
    inbox = office.inbox()
    with pytest.raises(IdempotencyKeyError):
        inbox._once(told={"content": {}}, work=lambda: None)


def test_what_it_does_not_take_is_refused_as_by_an_inbox(office: Office) -> None:
    """Types without a function, data that cannot be fetched, functions that take something else."""
    inbox = office.inbox()
    with pytest.raises(UnhandledEvent):
        inbox.apply(order(1, "order.paid"))
    with pytest.raises(PayloadUnavailable):
        inbox.apply(replace(order(1), payload="", dataref=DataRef("s3://b/k", "0" * 64)))
    two: Callable[..., None] = lambda event, tx: None  # noqa: E731, ARG005 -- the case
    with pytest.raises(ConfigurationError, match=r"def mail\(event\):"):
        inbox.on("t")(two)
    assert office.notes() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"consumer": "a#b"}, "consumer"),
        ({"consumer": "c", "remember": timedelta(0)}, "remember"),
        ({"consumer": "c", "rejected": 5}, "rejected is 5"),
    ],
)
def test_arguments_that_cannot_work_are_refused(office: Office, options: dict[str, Any], said: str) -> None:
    """By their names; a store too that is none, or that somebody uses."""
    with pytest.raises(ConfigurationError, match=f"PowertoolsInbox: {said}"):
        PowertoolsInbox(office.store(), **options)
    with pytest.raises(ConfigurationError, match="store is"):
        PowertoolsInbox("notes", consumer="c")
    store = office.store()
    PowertoolsInbox(store, consumer="c")
    with pytest.raises(ConfigurationError, match="in use already"):
        PowertoolsInbox(store, consumer="d")


def test_without_the_extra_the_import_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a library that one has never heard of."""
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("aws_lambda_powertools"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "dynamodb_outbox.consume.powertools")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"dynamodb-outbox\[powertools\]"):
        importlib.import_module("dynamodb_outbox.consume.powertools")


def test_nothing_else_imports_powertools() -> None:
    """It is an extra: an inbox can be made without it."""
    root = Path(dynamodb_outbox.__file__).parent
    importers = [path.name for path in root.rglob("*.py") if "aws_lambda_powertools" in path.read_text("utf-8")]
    assert importers == ["powertools.py"]
