"""The queue and the bucket of a redrive, where they answer as no engine does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.stub import Stubber
from given_up import Streams

from dynamodb_outbox.errors import BucketUnavailable, QueueUnavailable
from dynamodb_outbox.local.client import REGION, local_client
from dynamodb_outbox.recover import FailedBatches
from source_steps import SteadyClock
from sweep_shell import Bus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOWHERE = "http://127.0.0.1:1"


def document(number: int) -> str:
    """Return what tells of a batch without a record that is one of an outbox."""
    arn = f"arn:aws:dynamodb:{REGION}:1:table/shop/stream/1"
    info = {"shardId": "s", "streamArn": arn, "startSequenceNumber": str(number), "endSequenceNumber": str(number)}
    record = {"eventName": "REMOVE", "eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": str(number)}}
    return json.dumps({"DDBStreamBatchInfo": info, "payload": {"Records": [record]}})


class Queue:
    """A queue that gives messages load by load, and notes what is done with them."""

    def __init__(self, *loads: Sequence[str] | Exception, failures: Sequence[str] = ()) -> None:
        self.loads = list(loads)
        self.failures = failures
        self.deleted: list[str] = []
        self.held: list[tuple[int, int]] = []

    def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
        """Give the next load, and between loads nothing."""
        assert (most, wait_s > 0, hold_s) == (10, True, 900)
        load = self.loads.pop(0) if self.loads else ()
        if isinstance(load, Exception):
            raise load
        return [{"messageId": body[-40:], "body": body, "receiptHandle": "r"} for body in load]

    def hold(self, records: Sequence[Mapping[str, Any]], hold_s: int) -> Sequence[str]:
        """Note it."""
        self.held.append((len(records), hold_s))
        return ()

    def delete(self, records: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Note it."""
        self.deleted += [str(record["body"]) for record in records]
        return self.failures


class LateClock(SteadyClock):
    """A clock that is much later each time that somebody looks."""

    def monotonic_ms(self) -> int:
        """Return the time, and let two minutes pass."""
        self.steady_ms += 120_000
        return self.steady_ms


def batches(monkeypatch: pytest.MonkeyPatch, queue: Queue, **options: Any) -> FailedBatches:
    """Return what redrives from this queue."""
    monkeypatch.setattr("dynamodb_outbox.recover.failed_batches.SqsMessages", lambda *_: queue)
    options.setdefault("clock", SteadyClock())
    return FailedBatches(
        Bus(), table="shop", client=local_client("dynamodb", NOWHERE), streams_client=Streams(), **options
    )


def test_messages_are_taken_load_by_load_and_those_that_stay_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each load in the order of the stream."""
    queue = Queue([document(3), document(1)], ["x"], (), [document(2)], ())
    report = batches(monkeypatch, queue).from_queue("url")
    assert queue.deleted == [document(1), document(3), document(2)]
    assert queue.held == [(1, 0)]
    assert (report.batches, report.done, [kept.why for kept in report.kept]) == (4, 3, ["the document is no JSON."])


def test_messages_are_held_on_while_others_are_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before they would come again."""
    queue = Queue([document(number) for number in range(10)], ["x", "y"])
    batches(monkeypatch, queue, clock=LateClock()).from_queue("url")
    assert (10, 900) in queue.held
    assert queue.held[-1] == (2, 0)


def test_a_dry_run_receives_messages_and_lets_them_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other way to see what a queue has."""
    queue = Queue([document(1), document(2)], ())
    report = batches(monkeypatch, queue).from_queue("url", dry_run=True)
    assert (report.done, queue.deleted, queue.held, queue.loads) == (2, [], [(2, 0)], [])


def test_a_message_that_is_not_deleted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again, and has been settled by then."""
    queue = Queue([document(1)], failures=["InternalError"])
    report = batches(monkeypatch, queue).from_queue("url")
    assert (report.done, report.undeleted, report.is_complete) == (1, 1, False)
    assert queue.held == [(1, 0)]


def test_a_queue_that_gives_no_answer_any_more_lets_go_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the error is raised."""
    queue = Queue(["x"], (), QueueUnavailable("later"))
    with pytest.raises(QueueUnavailable):
        batches(monkeypatch, queue).from_queue("url")
    assert queue.held == [(1, 0)]


def test_an_object_that_cannot_be_read_is_told_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time, or when its turn comes; a bucket that cannot be listed is an error."""
    s3 = local_client("s3", NOWHERE)
    redrive = batches(monkeypatch, Queue(), s3_client=s3)
    with Stubber(s3) as stub:
        stub.add_response("list_objects_v2", {"Contents": [{"Key": "a"}], "NextContinuationToken": "t"})
        stub.add_client_error("get_object", "AccessDenied", http_status_code=403)
        stub.add_response("list_objects_v2", {"Contents": [{"Key": "b"}, {"Key": "c"}]})
        for body in (document(2), document(1), document(1), "changed"):
            stub.add_response("get_object", {"Body": _Body(body)})
        report = redrive.from_s3("s3://bucket/")
        stub.add_client_error("list_objects_v2", "SlowDown", http_status_code=503)
        with pytest.raises(BucketUnavailable) as caught:
            redrive.from_s3("s3://bucket")
    assert caught.value.retryable
    assert (report.batches, report.done) == (2, 1)
    assert [(kept.where, kept.why) for kept in report.kept] == [
        ("s3://bucket/a", "AccessDenied"),
        ("s3://bucket/b", "the document is no JSON."),
    ]


class _Body:
    """The body of an object."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> _Body:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def read(self) -> bytes:
        """Return all of it."""
        return self.text.encode()
