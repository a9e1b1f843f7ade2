"""What becomes of an event by what its function does, and by what others do at the same moment."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError
from deliveries import WAYS, order
from remembering import Noted, Remembering

from dynamodb_outbox import Inbox, Layout
from dynamodb_outbox.consume import Applied, Duplicate, Failed, Rejected, Skipped
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.errors import (
    ConditionFailed,
    ConfigurationError,
    LimitExceeded,
    NoGuard,
    PayloadUnavailable,
    Reject,
    RejectionUnpublished,
    RetryLater,
    Skip,
)
from dynamodb_outbox.event import DataRef
from dynamodb_outbox.local.provision import create_queue, create_table
from dynamodb_outbox.sinks import (
    Answered,
    Fault,
    Kind,
    Prepared,
    Presence,
    RequestFailed,
    SinkLimits,
    Sqs,
    Verified,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Event, Transaction

TABLE = "billing"
DONE: dict[str, Any] = {"batchItemFailures": []}
VERSIONED = Layout(version="version")


class Desk:
    """A consumer's table on the engine, and what stands in it."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        self.noted = Noted()
        create_table(self.client, TABLE)

    def inbox(self, **options: Any) -> Inbox:
        """Return an inbox on the table."""
        return Inbox(TABLE, consumer="invoices", client=self.client, observer=self.noted, **options)

    def put(self, pk: str, **attributes: Any) -> None:
        """Store an item."""
        item = {"pk": {"S": pk}, "sk": {"S": "META"}, **{name: {"N": str(n)} for name, n in attributes.items()}}
        self.client.put_item(TableName=TABLE, Item=item)

    def read(self, pk: str) -> dict[str, int]:
        """Return an item's numbers."""
        found = self.client.get_item(TableName=TABLE, Key={"pk": {"S": pk}, "sk": {"S": "META"}}).get("Item", {})
        return {name: int(value["N"]) for name, value in found.items() if "N" in value}

    def partitions(self) -> list[str]:
        """Return the partition keys of all items."""
        return sorted(item["pk"]["S"] for item in self.client.scan(TableName=TABLE)["Items"])


@pytest.fixture
def desk(engine: Account) -> Desk:
    """Make the consumer's table."""
    return Desk(engine)


INBOX_RECORD = f"INBOX#invoices#shop.orders#{order(1).id}"


def delivered(*events: Event) -> dict[str, Any]:
    """Return a batch of SQS behind a rule."""
    return dict(WAYS["SQS behind a rule"].of(*events))


# --- coroutines -------------------------------------------------------------------------------------------------------


def test_an_async_function_is_run_to_its_end_and_committed(desk: Desk) -> None:
    """By a decorator, and by a plain function that hands the coroutine on."""
    inbox = desk.inbox()

    @inbox.on("order.placed")
    async def invoice(event: Event, tx: Transaction) -> None:
        await asyncio.sleep(0)
        tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, if_absent=True)

    @inbox.on("order.paid")
    def hand_on(event: Event, tx: Transaction) -> object:
        return invoice(event, tx)

    assert inbox.lambda_handler(delivered(order(1), order(2, "order.paid"), order(1))) == DONE
    assert {"INVOICE#1", "INVOICE#2"} <= set(desk.partitions())


def test_async_functions_share_one_loop_in_a_thread_that_stays() -> None:
    """So a client that was opened at one event works at the next; another thread has a loop of its own."""
    taker = Remembering()
    loops = []

    @taker.consumer
    async def note(event: Event) -> None:
        del event
        loops.append(asyncio.get_running_loop())

    taker.apply(order(1))
    taker.apply(order(2))
    thread = threading.Thread(target=taker.apply, args=(order(3),))
    thread.start()
    thread.join()
    assert loops[0] is loops[1]
    assert loops[2] is not loops[0]
    assert (loops[0].is_closed(), loops[2].is_closed()) == (False, True)


def test_an_async_function_that_raises_sends_its_message_back() -> None:
    """As any other."""
    taker = Remembering()

    @taker.consumer
    async def fail(event: Event) -> None:
        raise KeyError(event.id)

    assert len(taker.lambda_handler(delivered(order(1), order(2)))["batchItemFailures"]) == 2


def test_an_async_function_that_is_cancelled_fails_alone() -> None:
    """A CancelledError is no Exception; the events behind it are applied all the same."""
    taker = Remembering()
    applied = []

    @taker.consumer
    async def wait(event: Event) -> None:
        if event.id == order(1).id:
            other = asyncio.ensure_future(asyncio.sleep(3600))
            other.cancel()
            await other
        applied.append(event.id)

    answer = taker.lambda_handler(delivered(order(1), order(2)))
    assert (len(answer["batchItemFailures"]), applied) == (1, [order(2).id])


def test_an_interruption_leaves_nothing_of_an_async_function_running() -> None:
    """What waits is cancelled, and has the time to clean up."""
    taker = Remembering()
    cleaned = []

    @taker.consumer
    async def wait(event: Event) -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append(event.id)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taker.apply(order(1))
    assert cleaned == [order(1).id]


def test_inside_of_a_running_loop_an_async_function_is_refused_with_the_way_out() -> None:
    """It would have to wait for itself. In a thread of its own it works."""
    taker = Remembering()

    @taker.consumer
    async def nothing(event: Event) -> None:
        del event

    async def both() -> None:
        with pytest.raises(ConfigurationError, match="to_thread"):
            taker.apply(order(1))
        await asyncio.to_thread(taker.apply, order(2))

    asyncio.run(both())
    assert taker.ids == [order(2).id]


# --- what a function may raise ----------------------------------------------------------------------------------------


def verdict(inbox: Inbox, raised: Callable[[], Exception]) -> list[str]:
    """Register a function that adds an effect and raises; return the list of ids that it was run for."""
    runs: list[str] = []

    @inbox.consumer
    def decide(event: Event, tx: Transaction) -> None:
        runs.append(event.id)
        tx.put({"pk": "EFFECT", "sk": "META"}, if_absent=True)
        raise raised()

    return runs


def test_skip_acknowledges_and_remembers_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """No effect, no inbox record, no failure: a copy is looked at anew."""
    inbox = desk.inbox()
    runs = verdict(inbox, lambda: Skip("not ours"))
    with caplog.at_level(logging.INFO):
        assert inbox.lambda_handler(delivered(order(1), order(1))) == DONE
    assert (runs, desk.partitions()) == ([order(1).id] * 2, [])
    assert desk.noted.facts == [Skipped(order(1), "not ours")] * 2
    assert "not ours" in caplog.text


def test_a_function_that_adds_nothing_is_remembered(desk: Desk) -> None:
    """Which is how to decide once and for all that there is nothing to do."""
    inbox = desk.inbox()
    inbox.consumer(lambda event, tx: None)  # noqa: ARG005 -- that it adds nothing is the case
    assert inbox.lambda_handler(delivered(order(1), order(1))) == DONE
    assert desk.partitions() == [INBOX_RECORD]
    assert desk.noted.facts == [Applied(order(1)), Duplicate(order(1))]


def test_retry_later_goes_back_without_a_complaint(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Expected, so no error in the log; nothing is written."""
    inbox = desk.inbox()
    verdict(inbox, lambda: RetryLater("the customer is not there yet"))
    with caplog.at_level(logging.INFO):
        answer = inbox.lambda_handler(delivered(order(1)))
    assert len(answer["batchItemFailures"]) == 1
    assert [record.levelname for record in caplog.records if "goes back" in record.getMessage()] == ["INFO"]
    assert "not there yet" in caplog.text
    assert desk.partitions() == []
    (fact,) = desk.noted.facts
    assert isinstance(fact, Failed)
    assert (fact.event, type(fact.error)) == (order(1), RetryLater)


def test_reject_goes_back_where_there_is_no_sink_for_it(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The queue's own limit of receives has the last word."""
    inbox = desk.inbox()
    verdict(inbox, lambda: Reject("no such product"))
    assert len(inbox.lambda_handler(delivered(order(1)))["batchItemFailures"]) == 1
    assert "no such product" in caplog.text
    assert desk.partitions() == []


def test_reject_publishes_the_event_and_acknowledges_it(engine: Account, desk: Desk) -> None:
    """It is in the queue for such events, with its id, who rejected it, and why; nothing is written here."""
    sqs = engine.client("sqs")
    queue = create_queue(sqs, "rejected")
    inbox = desk.inbox(rejected=Sqs(queue.url, client=sqs))
    verdict(inbox, lambda: Reject("no such product"))
    assert inbox.lambda_handler(delivered(order(1))) == DONE
    (message,) = sqs.receive_message(QueueUrl=queue.url, WaitTimeSeconds=2)["Messages"]
    kept = parse_cloudevent(json.loads(message["Body"]), "m")
    assert replace(kept, attributes={}) == order(1)
    assert dict(kept.attributes) == {"rejectedby": "invoices", "rejectreason": "no such product"}
    assert (desk.partitions(), desk.noted.facts) == ([], [Rejected(order(1), "no such product")])


class Sink:
    """A sink that gives what it was made with."""

    name = "attic"
    limits = SinkLimits(10, 1_000, 1_000)
    request_ms = 1_000

    def __init__(self, prepared: Any = None, outcome: Any = None) -> None:
        self.prepared = prepared or Prepared({}, 1)
        self.outcome = outcome
        self.published: list[Any] = []

    def prepare(self, event: Event) -> Any:
        """Give what was given."""
        del event
        return self.prepared

    def publish(self, entries: Any) -> Any:
        """Give what was given."""
        self.published.append(entries)
        return self.outcome

    def verify(self) -> Verified:
        """Find it there."""
        return Verified(Presence.OK)


@pytest.mark.parametrize(
    ("sink", "retryable"),
    [
        (Sink(Fault(Kind.CONTENT, "TooLarge")), False),
        (Sink(outcome=RequestFailed(Fault(Kind.UNKNOWN, "Timeout"))), True),
        (Sink(outcome=RequestFailed(Fault(Kind.TARGET, "NoQueue"))), False),
        (Sink(outcome=Answered((Fault(Kind.TRANSIENT, "Throttled"),))), True),
        (Sink(outcome=Answered(())), True),
    ],
)
def test_a_rejected_event_that_the_sink_does_not_take_goes_back(sink: Sink, retryable: bool) -> None:
    """It is acknowledged only after the sink has accepted it."""
    taker = Remembering(rejected=sink)

    @taker.consumer
    def reject(event: Event) -> None:
        del event
        raise Reject

    assert len(taker.lambda_handler(delivered(order(1)))["batchItemFailures"]) == 1
    (fact,) = taker.noted.facts
    assert isinstance(fact, Failed)
    assert isinstance(fact.error, RejectionUnpublished)
    assert (fact.error.sink, fact.error.retryable) == ("attic", retryable)
    sink.outcome = Answered((None,))
    sink.prepared = Prepared({}, 1)
    assert taker.lambda_handler(delivered(order(1))) == DONE


def test_an_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the event is applied all the same."""
    taker = Remembering()
    taker.consumer(lambda event: None)  # noqa: ARG005 -- nothing to do
    taker.noted.facts = None  # type: ignore[assignment] # so that it raises
    assert taker.lambda_handler(delivered(order(1))) == DONE
    assert "the observer raised, and was not told of Applied" in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"observer": print},
        {"rejected": "queue"},
        {"rejected": Sqs},
        {"rejected": SimpleNamespace(prepare=print, publish=print)},
        {"records": "layout"},
        {"foreign": "id"},
        {"read_first": "yes"},
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any]) -> None:
    """By their names, when the inbox is made."""
    (name,) = arguments
    with pytest.raises(ConfigurationError, match=f"Inbox: {name} is"):
        Inbox(TABLE, consumer="c", **arguments)


# --- duplicates -------------------------------------------------------------------------------------------------------


def counting(desk: Desk, **options: Any) -> tuple[Inbox, list[str]]:
    """Return an inbox whose effect counts, and the list of ids that its function was run for."""
    inbox = desk.inbox(**options)
    runs: list[str] = []

    @inbox.consumer
    def count(event: Event, tx: Transaction) -> None:
        runs.append(event.id)
        tx.update({"pk": "COUNT", "sk": "META"}, add={"applied": 1})

    return inbox, runs


def test_with_read_first_a_known_duplicate_does_not_run_the_function(desk: Desk) -> None:
    """Nor is anything fetched for it; an event that is new runs as ever."""
    inbox, runs = counting(desk, read_first=True)
    assert [inbox.apply(order(1)), inbox.apply(order(1)), inbox.apply(order(2))] == [True, False, True]
    assert runs == [order(1).id, order(2).id]
    assert desk.read("COUNT") == {"applied": 2}
    assert desk.noted.facts == [Applied(order(1)), Duplicate(order(1)), Applied(order(2))]
    without, again = counting(desk)
    assert not without.apply(order(1))
    assert again == [order(1).id]


def test_with_read_first_copies_at_one_moment_have_one_effect(desk: Desk) -> None:
    """Each finds nothing there when it looks, and one commit applies."""
    inbox = desk.inbox(read_first=True)
    both = threading.Barrier(2)

    @inbox.consumer
    def count(event: Event, tx: Transaction) -> None:
        del event
        both.wait(timeout=10)
        tx.update({"pk": "COUNT", "sk": "META"}, add={"applied": 1})

    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(inbox.apply(order(1)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, True]
    assert desk.read("COUNT") == {"applied": 1}


def test_with_read_first_a_read_that_fails_decides_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The commit finds out."""
    inbox, runs = counting(desk, read_first=True)

    def broken(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url="x")

    inbox._outbox._setting.store._client._client = _Without(desk.client, get_item=broken)  # type: ignore[attr-defined] # a fault
    with caplog.at_level(logging.INFO):
        assert inbox.apply(order(1))
    assert runs == [order(1).id]
    assert "could not be read" in caplog.text


class _Without:
    """A client with other calls in place of some of its own."""

    def __init__(self, client: Any, **calls: Any) -> None:
        self._client = client
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_with_read_first_an_item_that_is_no_inbox_record_is_told(desk: Desk) -> None:
    """It does not say whether the event was applied. A key that is too long is refused as it is at the commit."""
    inbox, runs = counting(desk, read_first=True)
    desk.client.put_item(TableName=TABLE, Item={"pk": {"S": INBOX_RECORD}, "sk": {"S": "GUARD"}})
    with pytest.raises(NoGuard):
        inbox.apply(order(1))
    with pytest.raises(LimitExceeded):
        inbox.apply(replace(order(1), id="x" * 2048))
    assert runs == []


def test_a_duplicate_is_told_from_a_condition_of_ones_own_by_the_action_at_fault(desk: Desk) -> None:
    """The function's own put stands in the way of a copy, and of another event; only the first is a duplicate.

    The error of the second names the function's action, by its index, and what was there.
    """
    inbox = desk.inbox()

    @inbox.consumer
    def invoice(event: Event, tx: Transaction) -> None:
        tx.check({"pk": "CUSTOMER", "sk": "META"}, if_absent=True)
        tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, if_absent=True)

    assert inbox.apply(order(1))
    assert not inbox.apply(order(1))
    with pytest.raises(ConditionFailed) as caught:
        inbox.apply(replace(order(1), id="another"))
    (failure,) = caught.value.failures
    assert (failure.index, failure.unmet, failure.stale) == (1, "it exists already", False)
    assert failure.item == {"pk": "INVOICE#1", "sk": "META"}
    assert desk.partitions() == [INBOX_RECORD, "INVOICE#1"]


@pytest.mark.parametrize("raised", [ValueError, Reject, RetryLater, Skip, ConditionFailed])
def test_a_function_that_meets_its_own_effect_and_raises_makes_no_failure_of_a_duplicate(
    desk: Desk, raised: Any
) -> None:
    """Of a copy it says "there is one already": the copy is done, and neither fails for ever nor is rejected."""
    sink = Sink()
    inbox = desk.inbox(rejected=sink)

    @inbox.consumer
    def once(event: Event, tx: Transaction) -> None:
        if "EFFECT" in desk.partitions():
            raise raised([]) if raised is ConditionFailed else raised(event.id)
        tx.put({"pk": "EFFECT", "sk": "META"}, if_absent=True)

    assert inbox.lambda_handler(delivered(order(1), order(1))) == DONE
    assert (desk.noted.facts, sink.published) == ([Applied(order(1)), Duplicate(order(1))], [])
    inbox.lambda_handler(delivered(order(2)))
    assert not isinstance(desk.noted.facts[-1], Duplicate)


def test_a_copy_whose_data_is_gone_by_now_is_a_duplicate(desk: Desk) -> None:
    """A lifecycle rule may have been faster than the last copy."""
    claimed = replace(order(1), payload="", dataref=DataRef("s3://payloads/outbox/1", "0" * 64))
    inbox = desk.inbox()
    inbox.consumer(lambda event, tx: None)  # noqa: ARG005 -- nothing to do
    assert inbox.apply(replace(claimed, payload="{}"))
    assert not inbox.apply(claimed)
    with pytest.raises(PayloadUnavailable):
        inbox.apply(replace(claimed, id="another"))


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_a_function_whose_read_was_overtaken_is_run_again(desk: Desk) -> None:
    """An `if_version=` that failed says that what it read is no longer so: it reads again, and its effect is right."""
    desk.put("ACCOUNT", version=1, balance=10)
    inbox = desk.inbox(layout=VERSIONED)
    read: list[int] = []

    @inbox.consumer
    def pay(event: Event, tx: Transaction) -> None:
        account = desk.read("ACCOUNT")
        read.append(account["version"])
        if len(read) == 1:
            desk.put("ACCOUNT", version=2, balance=50)  # somebody else is faster
        balance = account["balance"] + event.data["cents"]
        tx.update({"pk": "ACCOUNT", "sk": "META"}, set={"balance": balance}, if_version=account["version"])

    assert inbox.lambda_handler(delivered(order(1))) == DONE
    assert (read, desk.read("ACCOUNT")) == ([1, 2], {"version": 3, "balance": 150})
    assert not inbox.apply(order(1))
    assert desk.read("ACCOUNT")["balance"] == 150


def test_runs_are_bounded(desk: Desk) -> None:
    """Somebody else is faster each time: after five runs, with pauses in between, the event goes back."""
    clock = _Clock()
    inbox = desk.inbox(layout=VERSIONED, clock=clock)
    runs: list[str] = []

    @inbox.consumer
    def pay(event: Event, tx: Transaction) -> None:
        runs.append(event.id)
        tx.update({"pk": "ACCOUNT", "sk": "META"}, set={"balance": 1}, if_version=1)

    with pytest.raises(ConditionFailed) as caught:
        inbox.apply(order(1))
    assert len(runs) == 5
    assert len(clock.pauses) == 4
    assert [failure.stale for failure in caught.value.failures] == [True]
    assert desk.partitions() == []


@pytest.mark.parametrize("beside", ["nothing", "a version that was overtaken", "its own version"])
def test_any_other_condition_is_not_tried_again(desk: Desk, beside: str) -> None:
    """A condition that the function states is its own decision, whatever stands beside it, in the same action too."""
    desk.put("ACCOUNT", version=2)
    inbox = desk.inbox(layout=VERSIONED)
    runs: list[str] = []

    @inbox.consumer
    def pay(event: Event, tx: Transaction) -> None:
        runs.append(event.id)
        account = {"pk": "ACCOUNT", "sk": "META"}
        if beside == "its own version":
            tx.update(account, set={"balance": 1}, if_version=2, condition="attribute_exists(unlocked)")
            return
        tx.check({"pk": "CUSTOMER", "sk": "META"}, if_exists=True)
        if beside != "nothing":
            tx.update(account, set={"balance": 1}, if_version=1)

    with pytest.raises(ConditionFailed):
        inbox.apply(order(1))
    assert len(runs) == 1


class _Clock:
    """The system's clock, whose pauses take no time."""

    def __init__(self) -> None:
        self.pauses: list[int] = []

    def now_ms(self) -> int:
        """Return a time."""
        return 1_795_953_600_000

    def monotonic_ms(self) -> int:
        """Return a time."""
        return 0

    def sleep_ms(self, duration_ms: int) -> None:
        """Take note of a pause."""
        self.pauses.append(duration_ms)


# --- two processes ----------------------------------------------------------------------------------------------------


def test_two_processes_with_the_same_event_at_the_same_moment_have_one_effect(engine: Account, desk: Desk) -> None:
    """One applies it, the other finds it applied; the consumer's own event is there once."""
    program = Path(__file__).parent / "applying_process.py"
    path = os.pathsep.join([*sys.path, str(program.parent)])
    started = [
        subprocess.Popen(
            [sys.executable, str(program), engine.url, engine.account],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        for _ in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=30)[0].strip() for process in started)
    assert said == ["False", "True"]
    assert desk.read("INVOICE#1") == {"applied": 1}
    assert desk.partitions() == [INBOX_RECORD, "INVOICE#1", "INVOICE#1"]
