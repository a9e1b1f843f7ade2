"""What becomes of an event by what its function does, and by what others do at the same moment."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from billing_desk import DONE, INBOX_RECORD, TABLE, Desk, Sink, delivered
from deliveries import FAILING, order
from remembering import Remembering, throw

from dynamodb_outbox import Inbox
from dynamodb_outbox.consume import Applied, Duplicate, Failed, Rejected, Skipped
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.errors import (
    ConfigurationError,
    Reject,
    RejectionUnpublished,
    RetryLater,
    Skip,
)
from dynamodb_outbox.local.provision import create_queue
from dynamodb_outbox.sinks import (
    Answered,
    Fault,
    Kind,
    Prepared,
    RequestFailed,
    Sqs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Event, Transaction


@pytest.fixture
def desk(engine: Account) -> Desk:
    """Make the consumer's table."""
    return Desk(engine)


class Unwound(BaseException):
    """As some libraries end a thread of theirs."""


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


async def await_what_is_cancelled() -> None:
    """Raise CancelledError, as an await does whose task somebody has cancelled."""
    other = asyncio.ensure_future(asyncio.sleep(3600))
    other.cancel()
    await other


class Several(BaseException):
    """What a group of errors looks like, of which one is no Exception; Python 3.10 has none."""

    exceptions = (asyncio.CancelledError(), ValueError(), GeneratorExit())


@pytest.mark.parametrize(
    "fail",
    [
        await_what_is_cancelled,
        lambda: asyncio.run(await_what_is_cancelled()),
        partial(throw, GeneratorExit()),
        partial(throw, Several()),
    ],
    ids=["awaited", "run", "closed", "several"],
)
def test_an_interruption_that_is_the_functions_own_fails_its_event_alone(
    fail: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    """It is no Exception, and ends nobody else's work: it is told, and the events behind it are applied."""
    taker = Remembering()
    taker.on(FAILING)(lambda event: fail())  # noqa: ARG005 -- whatever the event
    taker.on("order.placed")(lambda event: None)  # noqa: ARG005 -- as above
    answer = taker.lambda_handler(delivered(order(1, FAILING), order(2)))
    assert (len(answer["batchItemFailures"]), taker.ids) == (1, [order(2).id])
    assert "goes back" in caplog.text
    assert "its work is not done" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Unwound])
def test_what_ends_the_process_or_the_thread_is_nobodys_failure(error: type[BaseException]) -> None:
    """The events of the batch are not answered for, and come again."""
    taker = Remembering()
    taker.consumer(lambda event: throw(error()))  # noqa: ARG005 -- whatever the event
    with pytest.raises(error):
        taker.lambda_handler(delivered(order(1), order(2)))
    assert (taker.ids, taker.noted.facts) == ([], [])


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


# --- the event of a run -----------------------------------------------------------------------------------------------


def test_what_a_function_changes_in_the_data_stays_in_its_own_run() -> None:
    """Not the next attempt on the same event sees it, nor an observer, nor a copy in the batch."""
    taker = Remembering()
    seen = []

    @taker.consumer
    def spoil(event: Event) -> None:
        seen.append(event.data.pop("order_id"))
        if len(seen) == 1:
            raise ValueError("the first time")

    event = order(1)
    with pytest.raises(ValueError, match="the first time"):
        taker.apply(event)
    assert taker.apply(event)
    assert (seen, event.data) == (["1", "1"], {"order_id": "1", "cents": 100})


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


def test_an_observer_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the event is applied all the same."""
    taker = Remembering()
    taker.consumer(lambda event: None)  # noqa: ARG005 -- nothing to do
    monkeypatch.setattr(taker.noted, "facts", None)  # so that it raises
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
