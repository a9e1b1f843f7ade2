"""The loop over a queue without Lambda: what it deletes, what it leaves, what it holds, and how it stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from deliveries import FAILING, QUEUE, order, sqs_record
from remembering import Remembering

from dynamodb_outbox.adapters.queues import SqsMessages
from dynamodb_outbox.adapters.threads import ThreadResults
from dynamodb_outbox.cli import main
from dynamodb_outbox.consume.worker import QueueWorker, _Held
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.consuming.messages import units
from dynamodb_outbox.errors import ConfigurationError, QueueRefused, QueueUnavailable
from dynamodb_outbox.local.provision import create_queue, create_table
from dynamodb_outbox.process.stop import StopFlag, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from conftest import Account
    from dynamodb_outbox import Event


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    """Return a flag that nobody has set."""
    flag = StopFlag()
    yield flag
    flag.close()


def message(number: int, event_type: str = "order.placed", group: str | None = None) -> dict[str, Any]:
    """Return a record of a queue that holds an order's event."""
    return sqs_record(
        cloudevent(order(number, event_type)), number, arn=QUEUE + (".fifo" if group else ""), group=group
    )


class FakeQueue:
    """A queue that gives one batch, or raises one error, a call; when it has no more it asks to stop."""

    def __init__(self, stop: StopFlag, *batches: Sequence[Mapping[str, Any]] | Exception, fifo: bool = False) -> None:
        self.fifo = fifo
        self.batches = list(batches)
        self.stop = stop
        self.asked: list[tuple[int, int, int]] = []
        self.deleted: list[str] = []
        self.held: list[tuple[str, int]] = []
        self.failures: list[str] = []

    def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
        """Give the next batch."""
        self.asked.append((most, wait_s, hold_s))
        if not self.batches:
            self.stop.set()
            return []
        given = self.batches.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    def hold(self, records: Sequence[Mapping[str, Any]], hold_s: int) -> Sequence[str]:
        """Note what is held."""
        self.held += [(record["messageId"], hold_s) for record in records]
        return self.failures

    def delete(self, records: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Note what is deleted."""
        self.deleted += [record["messageId"] for record in records]
        return self.failures


def names(*messages: Mapping[str, Any]) -> list[str]:
    """Return the ids of messages."""
    return [each["messageId"] for each in messages]


def taker() -> Remembering:
    """Return a consumer whose function fails for some events."""
    made = Remembering()

    @made.consumer
    def apply(event: Event) -> None:
        if event.type == FAILING:
            raise ValueError(event.id)

    return made


def test_what_is_applied_is_deleted_and_what_failed_is_left(stop: StopFlag) -> None:
    """Duplicates are deleted too; a failed message comes again by itself when its hold ends."""
    good, bad, again = message(1), message(2, FAILING), message(1)
    queue = FakeQueue(stop, [good, bad], [again])
    consumer = taker()
    QueueWorker(queue, consumer.lambda_handler, stop).run()
    assert sorted(queue.deleted) == sorted(names(good, again))
    assert (consumer.ids, queue.held) == ([order(1).id], [])


def test_a_group_of_a_fifo_queue_is_worked_on_in_order_by_one_thread(stop: StopFlag) -> None:
    """After a failure the rest of the group is left; other groups go on."""
    batch = [message(1, group="a"), message(2, group="b"), message(3, FAILING, "a"), message(4, group="a")]
    assert units(batch, fifo=True) == [[batch[0], batch[2], batch[3]], [batch[1]]]
    assert units(batch, fifo=False) == [[each] for each in batch]
    queue = FakeQueue(stop, batch, fifo=True)
    consumer = taker()
    QueueWorker(queue, consumer.lambda_handler, stop).run()
    assert sorted(queue.deleted) == names(batch[0], batch[1])
    assert sorted(consumer.ids) == [order(1).id, order(2).id]


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (lambda _: None, True),
        (lambda _: {"batchItemFailures": []}, True),
        (lambda _: {"batchItemFailures": [{"itemIdentifier": ""}]}, False),
        (lambda _: "done", False),
        (lambda _: 1 / 0, False),
    ],
)
def test_any_handler_is_read_as_lambda_reads_it(
    stop: StopFlag, caplog: pytest.LogCaptureFixture, answer: Callable[[Any], Any], deleted: bool
) -> None:
    """Its answer may fail all of what it was given, and so does an error; the log says so."""
    queue = FakeQueue(stop, [message(1)])
    QueueWorker(queue, lambda event, _: answer(event), stop).run()
    assert queue.deleted == (names(message(1)) if deleted else [])
    assert ("1 message will come again" in caplog.text) is not deleted


def test_no_more_is_worked_on_at_once_than_was_said(stop: StopFlag) -> None:
    """And no more is received: messages that wait here would be nobody's elsewhere."""
    batches = [[message(number), message(number + 1)] for number in range(0, 12, 2)]
    queue = FakeQueue(stop, *batches)
    now, most = [0], [0]
    lock = threading.Lock()

    def work(_event: Any, _context: object) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1

    QueueWorker(queue, work, stop, concurrency=2).run()
    assert most[0] == 2
    assert len(queue.deleted) == 12
    assert {asked for asked, _, _ in queue.asked} <= {1, 2}
    assert {(wait, hold) for _, wait, hold in queue.asked} == {(10, 60)}


def test_what_is_worked_on_is_held_on_and_nothing_else(stop: StopFlag) -> None:
    """For as long as it takes, ten messages a request; a hold that fails is a warning."""
    queue = FakeQueue(stop)
    unit: list[Mapping[str, Any]] = [message(number) for number in range(12)]
    with _Held(queue, 30, 0.01) as held:
        held.add(unit)
        held.add(other := [message(99)])
        deadline = time.monotonic() + 10
        while len(queue.held) < 39 and time.monotonic() < deadline:
            time.sleep(0.005)
        held.remove(unit)
        held.remove(other)
        time.sleep(0.03)
        known = len(queue.held)
        time.sleep(0.03)
        assert len(queue.held) == known
    assert set(queue.held) == {(name, 30) for name in names(*unit, *other)}


def test_a_stop_lets_what_was_begun_finish_and_begins_nothing(stop: StopFlag) -> None:
    """Messages of the request that was under way are let go at once, for others to take."""
    first, second = message(1), message(2)
    begun, end = threading.Event(), threading.Event()

    class Stopping(FakeQueue):
        def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
            if len(self.batches) == 1:
                begun.wait(10)
                stop.set()
                threading.Timer(0.05, end.set).start()
            return super().receive(most, wait_s, hold_s)

    queue = Stopping(stop, [first], [second])
    consumer = Remembering()

    @consumer.consumer
    def slow(event: Event) -> None:
        del event
        begun.set()
        end.wait(10)

    QueueWorker(queue, consumer.lambda_handler, stop).run()
    assert (queue.deleted, queue.held) == (names(first), [(second["messageId"], 0)])
    assert consumer.ids == [order(1).id]


def test_what_was_done_during_the_last_request_is_not_still_at_work(
    stop: StopFlag, caplog: pytest.LogCaptureFixture
) -> None:
    """A request for more waits long: what was applied meanwhile is not counted when the stop is told."""
    caplog.set_level(logging.INFO)
    applied = threading.Event()

    class Slow(FakeQueue):
        """Answers its last request when all has been deleted."""

        def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
            """Give the batch, and then nothing."""
            if not self.batches:
                assert applied.wait(10)
            return super().receive(most, wait_s, hold_s)

    class Told(ThreadResults[object]):
        """Knows when both are done."""

        told = 0

        def put(self, result: object) -> None:
            """Add one."""
            super().put(result)
            self.told += 1
            if self.told == 2:
                applied.set()

    worker = QueueWorker(Slow(stop, [message(1), message(2)]), taker().lambda_handler, stop)
    worker._done = Told()
    worker.run()
    assert "stopping: 0 still at work" in caplog.text


def test_a_queue_that_cannot_be_reached_is_tried_again(stop: StopFlag, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, with growing pauses in between, and work goes on."""

    class NoPause:
        def bytes(self, count: int) -> bytes:
            return bytes(count)

        def unit(self) -> float:
            return 0.0

    queue = FakeQueue(stop, QueueUnavailable("down"), QueueUnavailable("down"), [message(1)], QueueUnavailable("down"))
    QueueWorker(queue, taker().lambda_handler, stop, entropy=NoPause()).run()
    assert queue.deleted == names(message(1))
    assert caplog.text.count("trying again until it can") == 2


def test_a_queue_that_refuses_ends_the_work_after_draining(stop: StopFlag) -> None:
    """What was begun is finished and deleted first."""
    queue = FakeQueue(stop, [message(1)], QueueRefused("q", "AccessDenied", "no"))
    with pytest.raises(QueueRefused):
        QueueWorker(queue, taker().lambda_handler, stop).run()
    assert queue.deleted == names(message(1))


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_a_handler_that_raises_no_exception_is_told_and_its_message_comes_again(
    stop: StopFlag, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """It ends neither the worker nor the work on other messages, and not in silence."""
    queue = FakeQueue(stop, [message(1)], [message(2)])
    handler = taker().lambda_handler

    def ends(event: Any, context: Any) -> Any:
        if names(message(1)) == names(event["Records"][0]):
            raise error
        return handler(event, context)

    QueueWorker(queue, ends, stop).run()
    assert queue.deleted == names(message(2))
    assert "the handler raised: 1 message will come again" in caplog.text


def test_what_cannot_be_deleted_or_begun_is_a_warning(
    stop: StopFlag, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The message comes again; nothing ends."""
    queue = FakeQueue(stop, [message(1)], [message(2)])
    queue.failures = ["ReceiptHandleIsInvalid: expired"]
    worker = QueueWorker(queue, taker().lambda_handler, stop)
    start, refused = worker._crew.start, [True]

    def scarce(task: Callable[[], object]) -> None:
        if refused.pop() if refused else False:
            raise RuntimeError("can't start new thread")
        start(task)

    monkeypatch.setattr(worker._crew, "start", scarce)  # a system without a thread to give
    worker.run()
    assert queue.deleted == names(message(2))
    assert "was not deleted, and may come again: ReceiptHandleIsInvalid" in caplog.text
    assert "1 message cannot be worked on now" in caplog.text


@pytest.mark.parametrize("numbers", [{"concurrency": 0}, {"hold_s": 2}, {"hold_s": 43_201}, {"wait_s": 21}])
def test_numbers_that_cannot_work_are_refused(stop: StopFlag, numbers: Any) -> None:
    """By their names."""
    (name,) = numbers
    with pytest.raises(ConfigurationError, match=f"QueueWorker: {name} is"):
        QueueWorker(FakeQueue(stop), taker().lambda_handler, stop, **numbers)


# --- SQS --------------------------------------------------------------------------------------------------------------


def test_a_queue_gives_messages_as_lambda_does_and_holds_them(engine: Account) -> None:
    """Held ones are nobody else's, let go ones at once are, deleted ones are gone."""
    sqs = engine.client("sqs")
    url = create_queue(sqs, "billing").url
    queue = SqsMessages(url, sqs)
    assert queue.receive(10, 0, 30) == []
    sqs.send_message(QueueUrl=url, MessageBody=cloudevent(order(1)))
    (record,) = queue.receive(10, 1, 30)
    assert (record["eventSource"], record["eventSourceARN"].rpartition(":")[2]) == ("aws:sqs", "billing")
    assert (record["body"], queue.fifo) == (cloudevent(order(1)), False)
    assert queue.receive(10, 0, 30) == []
    assert queue.hold([record], 0) == []
    (record,) = queue.receive(10, 1, 30)
    assert queue.delete([record]) == []
    assert sqs.receive_message(QueueUrl=url).get("Messages", []) == []


def test_a_queue_that_is_not_there_refuses(engine: Account) -> None:
    """By its URL and AWS's code, and where it was asked for."""
    sqs = engine.client("sqs")
    url = create_queue(sqs, "billing").url
    with pytest.raises(QueueRefused, match=rf"missing\.fifo: .* \(Region 'us-east-1', endpoint {engine.url}\)\."):
        SqsMessages(url.replace("billing", "missing.fifo"), sqs).receive(1, 0, 30)


class Client:
    """A client of SQS that answers, or raises, what it was made with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.meta = type("Meta", (), {"config": None, "region_name": "eu-west-1"})

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


def test_failures_inside_of_an_answer_are_read() -> None:
    """And a request that fails is a failure of all."""
    failed = {"Failed": [{"Id": "0", "Code": "ReceiptHandleIsInvalid", "Message": "m"}]}
    for client, said in ((failed, "ReceiptHandleIsInvalid: m"), (ReadTimeoutError(endpoint_url="x"), "ReadTimeout")):
        queue = SqsMessages("u", Client(client))
        for failures in (queue.delete([message(1)]), queue.hold([message(1)], 5)):
            assert [said in each for each in failures] == [True]
    with pytest.raises(QueueUnavailable):
        SqsMessages("u", Client(ReadTimeoutError(endpoint_url="x"))).receive(1, 0, 30)
    with pytest.raises(QueueUnavailable, match="no QueueArn"):
        SqsMessages("u", Client({})).receive(1, 0, 30)
    denied = ClientError({"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}, "Op")
    with pytest.raises(QueueRefused):
        SqsMessages("u", Client(denied)).receive(1, 0, 30)


# --- the command ------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys, time
from dynamodb_outbox import Inbox

inbox = Inbox("billing", consumer="invoices")

@inbox.consumer
def invoice(event, tx):
    sys.stdout.write(f"begun {event.id}\\n")
    sys.stdout.flush()
    time.sleep(0.5)
    tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, if_absent=True)

def handler(event, context):
    return inbox.lambda_handler(event, context)

number = 5


def order(order_id):
    return order_id
"""


def environment(engine: Account) -> dict[str, str]:
    """Return an environment in which clients find the engine."""
    return {
        **os.environ,
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def test_the_command_consumes_and_drains_on_sigterm(engine: Account, tmp_path: Path) -> None:
    """What was begun when the signal came is applied and deleted; the status is 0."""
    sqs, dynamodb = engine.client("sqs"), engine.client("dynamodb")
    create_table(dynamodb, "billing")
    url = create_queue(sqs, "billing").url
    (tmp_path / "billing.py").write_text(PROGRAM)
    for number in (1, 2):
        sqs.send_message(QueueUrl=url, MessageBody=cloudevent(order(number)))
    process = subprocess.Popen(
        [sys.executable, "-m", "dynamodb_outbox.cli", "consume", "billing:inbox", "--queue", url, "--concurrency", "2"],
        cwd=tmp_path,
        env=environment(engine),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = {process.stdout.readline() for _ in range(2)}
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert said == {f"begun {order(number).id}\n" for number in (1, 2)}
    partitions = {item["pk"]["S"] for item in dynamodb.scan(TableName="billing")["Items"]}
    assert {"INVOICE#1", "INVOICE#2"} <= partitions
    assert "stopped" in errors
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (left["ApproximateNumberOfMessages"], left["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("billing", "not of the form module:attribute"),
        ("no_such_module:inbox", "No module named 'no_such_module' (looked for in /"),
        ("billing_pkg.missing:inbox", "cannot be imported: ModuleNotFoundError"),
        ("billing_pkg.no.missing:inbox", "cannot be imported: ModuleNotFoundError"),
        ("billing_pkg.without:inbox", "cannot be imported: ModuleNotFoundError"),
        ("billing_broken:inbox", "cannot be imported: ZeroDivisionError"),
        ("billing_over:inbox", "ends the process when it is imported (SystemExit: 0)"),
        ("billing_worker:nothing", "no attribute 'nothing'"),
        ("billing_worker:number", "neither an Inbox nor a handler: it is not callable"),
        ("billing_worker:order", "it is called with (event, context), and takes (order_id): too many positional"),
    ],
)
def test_what_is_no_consumer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: str, said: str
) -> None:
    """With the status for arguments, before anything is received; with a traceback where the module itself failed."""
    (tmp_path / "billing_worker.py").write_text(PROGRAM)
    (tmp_path / "billing_broken.py").write_text("1 / 0")
    (tmp_path / "billing_pkg").mkdir()
    (tmp_path / "billing_pkg/without.py").write_text("import billing_pkg.needed")
    (tmp_path / "billing_over.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logging.getLogger("dynamodb_outbox"), "level", logging.WARNING)
    assert main(["consume", named, "--queue", "http://127.0.0.1:1/0/q"]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert ("Traceback" in errors) == (named in ("billing_broken:inbox", "billing_pkg.without:inbox"))


def test_a_queue_that_is_missing_ends_the_command(
    engine: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With status 3 and its name; a plain handler will do in place of an inbox."""
    (tmp_path / "billing_handler.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logging.getLogger("dynamodb_outbox"), "level", logging.WARNING)
    for name, value in environment(engine).items():
        monkeypatch.setenv(name, value)
    url = f"{engine.url}/{engine.account}/missing"
    assert main(["consume", "billing_handler:handler", "--queue", url]) == 3
    assert f"queue {url}" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--concurrency", "0"], ["--hold", "2"], ["--hold", "x"], ["--concurrency", "²"]])
def test_numbers_of_the_command_are_checked(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By argparse, with the range."""
    with pytest.raises(SystemExit):
        main(["consume", "a:b", "--queue", "u", *option])
    assert "is not a whole number from" in capsys.readouterr().err


def test_a_second_signal_does_what_it_did_before() -> None:
    """With `once`: the first asks to stop, the next one is not taken for the same request."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    try:
        with stop_on_signals(signal.SIGUSR1, once=True) as flag:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert (flag.wait(5), seen) == (True, [])
            os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
