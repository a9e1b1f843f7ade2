"""The local event source for a queue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from dynamodb_outbox.core.consuming.messages import lambda_record
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded, Throttled
from dynamodb_outbox.errors import ConfigurationError, QueueRefused, QueueUnavailable
from dynamodb_outbox.local.provision import Queue, create_queue
from dynamodb_outbox.local.queue import QueueSource, main
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.stop import StopFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from conftest import Account

ARN = "arn:aws:sqs:us-east-1:000000000001:q"


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    """Return a flag that nobody has set."""
    flag = StopFlag()
    yield flag
    flag.close()


class Scripted:
    """A function that answers by a callable of the event."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Answer]) -> None:
        self.answer = answer
        self.events: list[Mapping[str, Any]] = []

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Note the event and answer."""
        self.events.append(event)
        return self.answer(event)


class FakeQueue:
    """An SQS client that hands out its messages once and notes what is deleted."""

    def __init__(self, *messages: dict[str, Any] | Exception, refuse: str | None = None) -> None:
        self.messages = list(messages)
        self.refuse = refuse
        self.deleted: list[str] = []

    def receive_message(self, **_request: Any) -> dict[str, Any]:
        """Return all messages, or raise the error that is next."""
        if self.messages and isinstance(self.messages[0], Exception):
            error = self.messages.pop(0)
            assert isinstance(error, Exception)
            raise error
        found, self.messages = self.messages, []
        return {"Messages": found} if found else {}

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        """Note what is deleted; one of them may be refused."""
        failed = [entry for entry in request["Entries"] if entry["ReceiptHandle"] == self.refuse]
        self.deleted += [entry["ReceiptHandle"] for entry in request["Entries"] if entry not in failed]
        return {"Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in failed]}


def message(name: str) -> dict[str, Any]:
    """Return a message of ReceiveMessage whose id and receipt are made of its name."""
    return {"MessageId": f"id-{name}", "ReceiptHandle": f"receipt-{name}", "Body": name, "MD5OfBody": "md5"}


def failures(*identifiers: Any) -> Responded:
    """Return an answer that names these."""
    return Responded({"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]})


def source(client: Any, answer: Answer, stop: StopFlag, **options: Any) -> QueueSource:
    """Return a source whose function always answers that."""
    return QueueSource(client, "url", ARN, Scripted(lambda _event: answer), stop, **options)


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (Responded(None), ["receipt-a", "receipt-b"]),
        (failures(), ["receipt-a", "receipt-b"]),
        (failures("id-a"), ["receipt-b"]),
        (failures("id-b", "id-a"), []),
        (failures("id-c"), []),
        (failures("id-a", ""), []),
        (failures(None), []),
        (Responded({"batchItemFailures": [{"foo": "id-a"}]}), []),
        (FunctionFailed("ValueError", "no"), []),
        (Throttled(), []),
    ],
)
def test_what_the_function_is_done_with_is_deleted(answer: Answer, deleted: list[str], stop: StopFlag) -> None:
    """Named messages stay; a useless identifier, an error and a throttle leave all of them."""
    client = FakeQueue(message("a"), message("b"))
    assert source(client, answer, stop).step() == 2
    assert client.deleted == deleted


def test_without_the_response_type_the_answer_is_not_read(stop: StopFlag) -> None:
    """Then any answer deletes the whole batch."""
    client = FakeQueue(message("a"))
    source(client, failures("id-a"), stop, report_batch_item_failures=False).step()
    assert client.deleted == ["receipt-a"]


def test_an_empty_queue_invokes_nothing(stop: StopFlag) -> None:
    """No messages, no invocation."""
    idle = source(FakeQueue(), Responded(None), stop)
    assert idle.step() == 0
    assert isinstance(idle.function, Scripted)
    assert idle.function.events == []


def test_deliveries_are_noted_before_the_function_runs(tmp_path: Path, stop: StopFlag) -> None:
    """The evidence is there even when the function takes the process with it."""
    path = tmp_path / "deliveries"
    lines: list[str] = []

    def look(_event: Mapping[str, Any]) -> Answer:
        lines.extend(path.read_text().splitlines())
        return Responded(None)

    with Journal(path) as deliveries:
        QueueSource(FakeQueue(message("a")), "url", ARN, Scripted(look), stop, deliveries=deliveries).step()
    [entry] = [json.loads(line) for line in lines]
    assert (entry["messageId"], entry["body"]) == ("id-a", "a")
    assert isinstance(entry["received_ms"], int)


def test_a_message_that_could_not_be_deleted_is_reported(
    tmp_path: Path, stop: StopFlag, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure inside a successful answer is read: the message will come again."""
    client = FakeQueue(message("a"), message("b"), refuse="receipt-b")
    with Journal(tmp_path / "log") as journal:
        source(client, Responded(None), stop, journal=journal).step()
    assert client.deleted == ["receipt-a"]
    assert '"not_deleted"' in (tmp_path / "log").read_text()
    assert "will come again" in caplog.text


def test_a_record_has_lambdas_form() -> None:
    """Every field of Lambda's SQS event, with attributes of all types."""
    full = message("a") | {
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "5"},
        "MessageAttributes": {
            "text": {"StringValue": "x", "DataType": "String"},
            "bytes": {"BinaryValue": b"\xff", "DataType": "Binary"},
        },
        "MD5OfMessageAttributes": "md5-of-attributes",
    }
    assert lambda_record(full, ARN, "us-east-1") == {
        "messageId": "id-a",
        "receiptHandle": "receipt-a",
        "body": "a",
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "5"},
        "messageAttributes": {
            "text": {"stringValue": "x", "stringListValues": [], "binaryListValues": [], "dataType": "String"},
            "bytes": {"binaryValue": "/w==", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
        },
        "md5OfBody": "md5",
        "md5OfMessageAttributes": "md5-of-attributes",
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN,
        "awsRegion": "us-east-1",
    }


def refusal(code: str, status: int) -> ClientError:
    """Return an error as botocore raises it."""
    return ClientError({"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Op")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refusal("AWS.SimpleQueueService.NonExistentQueue", 400), QueueRefused),
        (refusal("AccessDenied", 403), QueueRefused),
        (refusal("ThrottlingException", 400), QueueUnavailable),
        (refusal("InternalError", 500), QueueUnavailable),
        (ConnectTimeoutError(endpoint_url="http://x"), QueueUnavailable),
    ],
)
def test_errors_say_whether_trying_again_helps(error: Exception, kind: type[Exception], stop: StopFlag) -> None:
    """Outages are worth another try; a missing or forbidden queue is not."""
    with pytest.raises(kind):
        source(FakeQueue(error), Responded(None), stop).step()


def test_an_outage_is_waited_out_and_logged_once(
    stop: StopFlag, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source goes on when the queue is back, and stops when it is asked to."""
    monkeypatch.setattr("dynamodb_outbox.local.queue._UNAVAILABLE_PAUSE_S", 0.001)
    client = FakeQueue(*[refusal("InternalError", 500)] * 3, message("a"))

    def stopping(_event: Mapping[str, Any]) -> Answer:
        stop.set()
        return Responded(None)

    QueueSource(client, "url", ARN, Scripted(stopping), stop).run()
    assert client.deleted == ["receipt-a"]
    assert caplog.text.count("cannot be reached") == 1


@pytest.mark.parametrize("size", [0, 11])
def test_a_batch_is_one_to_ten_messages(size: int, stop: StopFlag) -> None:
    """More than one receive call holds is refused."""
    with pytest.raises(ConfigurationError, match="1 to 10"):
        source(FakeQueue(), Responded(None), stop, batch_size=size)


def test_on_the_engine_a_failed_message_comes_again_and_the_others_do_not(engine: Account, stop: StopFlag) -> None:
    """What is not deleted returns after the visibility time-out, as the same message."""
    client = engine.client("sqs")
    queue = create_queue(client, "invoices", visibility_timeout_s=1)
    for body in ("good", "bad"):
        client.send_message(QueueUrl=queue.url, MessageBody=body)
    bodies: list[str] = []

    def answer(event: Mapping[str, Any]) -> Answer:
        bad = [record["messageId"] for record in event["Records"] if record["body"] == "bad"]
        first = "bad" not in bodies
        bodies.extend(record["body"] for record in event["Records"])
        return failures(*bad) if first else Responded(None)

    function = Scripted(answer)
    driven = QueueSource(client, queue.url, queue.arn, function, stop)
    deadline = time.monotonic() + 15
    while len(bodies) < 3 and time.monotonic() < deadline:
        driven.step()
    assert sorted(bodies) == ["bad", "bad", "good"]
    record = function.events[0]["Records"][0]
    assert (record["eventSource"], record["eventSourceARN"]) == ("aws:sqs", queue.arn)
    assert record["attributes"]["ApproximateReceiveCount"] == "1"


HANDLER = """
    def handler(event, context):
        for record in event["Records"]:
            print(record["body"], flush=True)
"""


def program_arguments(engine: Account, directory: Path, queue: str, *more: str) -> list[str]:
    """Return the arguments of the program."""
    return [
        *("--endpoint", engine.url, "--account", engine.account, "--queue", queue, "--handler", "shop:handler"),
        *("--deliveries", str(directory / "deliveries"), "--log", str(directory / "log"), *more),
    ]


def test_as_a_program_it_delivers_and_ends_on_sigterm_with_status_0(engine: Account, tmp_path: Path) -> None:
    """A message is handed over, noted, deleted; SIGTERM is a clean end."""
    client = engine.client("sqs")
    queue: Queue = create_queue(client, "invoices")
    (tmp_path / "shop.py").write_text(textwrap.dedent(HANDLER))
    client.send_message(QueueUrl=queue.url, MessageBody="hello")
    program = subprocess.Popen(
        [sys.executable, "-m", "dynamodb_outbox.local.queue", *program_arguments(engine, tmp_path, "invoices")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"hello\n"
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
    assert json.loads((tmp_path / "deliveries").read_text())["body"] == "hello"
    counts = client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_an_answer_that_lacks_what_it_must_have_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page of a proxy, which botocore reads as an answer without anything in it, is no reason for a traceback."""
    arguments = ["--endpoint", "http://x", "--account", "0" * 12, "--queue", "q", "--handler", "a:b"]
    for url, missing in (({}, "QueueUrl"), ({"QueueUrl": "u"}, "QueueArn")):
        client = SimpleNamespace(get_queue_url=lambda url=url, **_: url, get_queue_attributes=lambda **_: {})
        monkeypatch.setattr("dynamodb_outbox.local.queue.local_client", lambda *_, client=client, **__: client)
        assert main([*arguments, "--log", str(tmp_path / "log")]) == 1
        assert capsys.readouterr().err.endswith(f" has no {missing}\n")


def test_a_mistake_is_one_line_on_standard_error(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A queue, an engine or a handler that is not there, a batch that is too large: a sentence and status 1."""
    create_queue(engine.client("sqs"), "invoices")
    for more, said in (
        (["--queue", "missing"], "queue missing"),
        (["--endpoint", "http://127.0.0.1:9"], "cannot be reached"),
        (["--batch-size", "11"], "1 to 10"),
        (["--handler", "bilig:handler"], "error: --handler bilig:handler: ModuleNotFoundError"),
    ):
        assert main(program_arguments(engine, tmp_path, "invoices", *more)) == 1
        assert said in capsys.readouterr().err
