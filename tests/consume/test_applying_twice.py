"""What becomes of an event that was applied before, or is at the same moment, and of one whose reads are overtaken."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from billing_desk import DONE, INBOX_RECORD, TABLE, Desk, Sink, delivered
from botocore.exceptions import EndpointConnectionError
from deliveries import order

from dynamodb_outbox import ClaimCheck, Layout
from dynamodb_outbox.consume import Applied, Duplicate
from dynamodb_outbox.errors import (
    ConditionFailed,
    LimitExceeded,
    NoGuard,
    PayloadUnavailable,
    Reject,
    RetryLater,
    Skip,
    UnhandledEvent,
)
from dynamodb_outbox.event import DataRef
from scripted_s3 import ScriptedS3

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Event, Inbox, Transaction


@pytest.fixture
def desk(engine: Account) -> Desk:
    """Make the consumer's table."""
    return Desk(engine)


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

    def broken(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url="x")

    desk.client = _Without(desk.client, get_item=broken)
    inbox, runs = counting(desk, read_first=True)
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


@pytest.mark.parametrize("read_first", [False, True])
def test_a_copy_whose_function_is_gone_by_now_is_a_duplicate(desk: Desk, read_first: bool) -> None:
    """A release may take a type out of the code while copies are in the queue; what is new of it goes back."""
    counting(desk)[0].apply(order(1))
    without = desk.inbox(read_first=read_first)
    assert not without.apply(order(1))
    assert desk.noted.facts == [Applied(order(1)), Duplicate(order(1))]
    with pytest.raises(UnhandledEvent):
        without.apply(order(2))
    assert desk.read("COUNT") == {"applied": 1}


VERSIONED = Layout(version="version")


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


@pytest.mark.parametrize("kept", ["in the event", "in an object"])
def test_what_a_run_changes_in_the_data_the_next_one_does_not_see(desk: Desk, kept: str) -> None:
    """Else the run that commits would add the tax to what had the tax already. Data is fetched once for all runs."""
    event, s3 = order(1), ScriptedS3()
    if kept == "in an object":
        content = s3.objects["payloads", "outbox/1"] = event.payload.encode()
        reference = DataRef("s3://payloads/outbox/1", hashlib.sha256(content).hexdigest())
        event = replace(event, payload="", dataref=reference)
    desk.put("ACCOUNT", version=2)
    inbox = desk.inbox(layout=VERSIONED, claim_check=ClaimCheck("payloads", client=s3))
    taxed: list[int] = []

    @inbox.consumer
    def pay(event: Event, tx: Transaction) -> None:
        event.data["cents"] = event.data["cents"] * 119 // 100
        taxed.append(event.data["cents"])
        tx.update({"pk": "ACCOUNT", "sk": "META"}, set={"cents": event.data["cents"]}, if_version=len(taxed))

    assert inbox.apply(event)
    assert (taxed, desk.read("ACCOUNT")["cents"]) == ([119, 119], 119)
    assert len(s3.gets) == (kept == "in an object")


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
