"""Rows of the table: delivery, what is given up, time to live, the form of records."""

from __future__ import annotations

import base64
import errno
import io
import json
import re
import shutil
import socket
import uuid
from contextlib import nullcontext, redirect_stderr
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from shard_records import ERROR, NOW, SUCCESS, fail, failed_at, machine, numbers, record, records
from source_runs import Recorder, SetClock, source
from table_rows import row

from dynamodb_outbox.adapters.streams import lambda_form, stream_arn
from dynamodb_outbox.adapters.system import SystemEntropy
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded, Throttled
from dynamodb_outbox.core.eventsource.commands import Condition, Discard, Invoke, Response
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.on_failure import Mapped, failure_metadata, failure_object, object_key
from dynamodb_outbox.core.eventsource.records import stream_record
from dynamodb_outbox.core.eventsource.ttl import SERVICE, expired, is_ttl_delete, ttl_delete
from dynamodb_outbox.errors import InvalidRecord, StreamMissing, StreamUnavailable
from dynamodb_outbox.local.alone import InUse, alone_with
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.on_failure import FailureDirectory, mapped
from dynamodb_outbox.local.source import PATIENCE, main
from dynamodb_outbox.local.ttl import ExpiredItems
from dynamodb_outbox.process.journal import Journal
from fake_streams import ARN, FakeStreams, page, raw, shards
from fake_table import DAY_S, HOUR_S, FakeTable

if TYPE_CHECKING:
    from pathlib import Path

MAPPED = Mapped("f3a1", "arn:aws:lambda:us-east-1:000000000001:function:relay", ARN)
GIVEN_UP = Discard(Condition.RETRIES_EXHAUSTED, tuple(records(9, 10)), 3, Response("Unhandled"))
AT_MS = 1_573_690_429_717  # 2019-11-14T00:13:49.717Z


# --- delivery ---


@row("deliver-checkpoint")
def test_deliver_checkpoint(tmp_path: Path) -> None:
    """While the function runs the file has the old position."""
    seen = []

    def look() -> Answer:
        seen.append(CheckpointFile(tmp_path / "cp", ARN).position("s").after)
        return Responded(None)

    client = FakeStreams(shards(("s", None)), page(1), page(2))
    with source(client, Recorder(look, look), tmp_path / "cp") as running:
        running.step()
        running.step()
    assert seen == [None, "1"]
    assert CheckpointFile(tmp_path / "cp", ARN).position("s").after == "2"


@row("stream-disabled")
def test_stream_disabled(tmp_path: Path) -> None:
    """Whether the table tells or only the stream: what is left is delivered, and it is said once."""
    off = shards(("s", None))
    off["StreamDescription"]["StreamStatus"] = "DISABLED"
    for number, more in enumerate(({}, {"current_arn": lambda: ARN}, {"current_arn": no_stream})):
        clock, function, log = SetClock(), Recorder(), tmp_path / f"log{number}"
        client = FakeStreams(off, page(1), page(2, following=None), *[off] * 5)
        with (
            Journal(log) as journal,
            source(client, function, tmp_path / f"cp{number}", clock=clock, journal=journal, **more) as running,
        ):
            for _ in range(4):
                running.step()
                clock.at_ms += 500
        assert function.batches == [["1"], ["2"]]
        assert replaced(log)[0] == "none (the stream is disabled)"
        assert len(replaced(log)) == (2 if more.get("current_arn") is no_stream else 1)


def no_stream() -> str:
    """Be a table whose stream is off."""
    raise StreamMissing("shop", "the table has no stream that is enabled")


def replaced(log: Path) -> list[str]:
    """Return what a source said that its table has in place of the stream."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [entry["now"] for entry in entries if entry["event"] == "replaced"]


@row("stream-replaced")
def test_stream_replaced(tmp_path: Path) -> None:
    """Off, on, and made again: each is said once, and the old stream is read on."""
    listed = shards(("s", None))
    client = FakeStreams(listed, page(1), *[one for number in range(2, 8) for one in (page(number), listed)])
    now = iter([ARN, "off", "off", "arn:second", "arn:second", "arn:third"])

    def current_arn() -> str:
        there = next(now)
        return no_stream() if there == "off" else there

    clock, function = SetClock(), Recorder()
    with (
        Journal(tmp_path / "log") as journal,
        source(client, function, tmp_path / "cp", clock=clock, journal=journal, current_arn=current_arn) as running,
    ):
        for _ in range(7):
            running.step()
            clock.at_ms += 5_000
    assert [one.partition(" ")[0] for one in replaced(tmp_path / "log")] == ["none", "arn:second", "arn:third"]
    assert function.batches == [[str(number)] for number in range(1, 8)]


@row("stream-no-answer")
def test_stream_no_answer(tmp_path: Path) -> None:
    """A page of a proxy, `{}`, half of an answer: botocore reads them all as an answer without anything in it."""
    client = FakeStreams({}, {"StreamDescription": {}}, shards(("s", None)), page(1), {}, page(2))
    function = Recorder()
    with source(client, function, tmp_path / "cp") as running:
        for expected in ("StreamDescription", "Shards", "", "Records", ""):
            with pytest.raises(StreamUnavailable, match=f"has no {expected}:") if expected else nullcontext():
                running.step()
    assert function.batches == [["1"], ["2"]]
    for described in ({}, {"Table": None}):
        with pytest.raises(StreamUnavailable, match="has no Table:"):
            stream_arn(SimpleNamespace(describe_table=lambda described=described, **_: described), "shop")


@row("stream-hangs")
def test_stream_hangs(tmp_path: Path) -> None:
    """Each call is made once, and for no longer than said; here with a tenth of a second."""
    assert PATIENCE.connect_timeout + PATIENCE.read_timeout == 7
    short = PATIENCE.merge(Config(connect_timeout=0.1, read_timeout=0.1))
    said = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stderr(said),
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        patch.setattr("dynamodb_outbox.local.source.PATIENCE", short)
        server.settimeout(0.1)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        arguments = ("--endpoint", url, "--account", "0" * 12, "--table", "shop", "--handler", "shop:handler")
        assert main([*arguments, "--checkpoint", str(tmp_path / "cp")]) == 1
        server.accept()[0].close()
        with pytest.raises(TimeoutError):
            server.accept()
    assert "error: the stream cannot be read at the moment: ReadTimeoutError" in said.getvalue()


@row("deliver-alone")
def test_deliver_alone(tmp_path: Path) -> None:
    """One at a time; the next one finds the way free. `test_local_alone` has it as two processes."""
    (tmp_path / "link").symlink_to(tmp_path / "cp")
    with alone_with(tmp_path / "cp"), pytest.raises(InUse), alone_with(tmp_path / "link", within_s=0):
        pytest.fail("two at once")
    CheckpointFile(tmp_path / "link", ARN).keep("s", Position("7"))
    assert (tmp_path / "link").is_symlink()
    assert CheckpointFile(tmp_path / "cp", ARN).position("s") == Position("7")
    for _ in range(2):
        with alone_with(tmp_path / "cp"), pytest.raises(InUse), alone_with(tmp_path / "cp", within_s=0):
            pytest.fail("two at once")


@row("deliver-again")
def test_deliver_again() -> None:
    """What was done comes once more; another failure of it is a failure like any."""
    shard = machine()
    shard.read(records(1, 2), NOW)
    shard.answered(SUCCESS, NOW, 0)
    [command] = shard.redeliver(NOW)
    assert isinstance(command, Invoke)
    assert (numbers(command), command.attempt, shard.checkpoint) == ([1, 2], 2, "2")
    shard.answered(failed_at(2), NOW, 1.0)
    assert (shard.checkpoint, shard.drained) == ("2", False)


# --- what is given up ---


@row("discard-metadata")
def test_discard_metadata() -> None:
    """Field by field, as AWS's own example has them."""
    assert failure_metadata(GIVEN_UP, MAPPED, shard_id="shardId-1", request_id="r", now_ms=AT_MS) == {
        "requestContext": {
            "requestId": "r",
            "functionArn": MAPPED.function_arn,
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": 3,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": "2019-11-14T00:13:49.717Z",
        "DDBStreamBatchInfo": {
            "shardId": "shardId-1",
            "startSequenceNumber": "9",
            "endSequenceNumber": "10",
            "approximateArrivalOfFirstRecord": "2027-01-15T08:00:00Z",
            "approximateArrivalOfLastRecord": "2027-01-15T08:00:00Z",
            "batchSize": 2,
            "streamArn": ARN,
        },
    }


@row("discard-payload")
def test_discard_payload(tmp_path: Path) -> None:
    """In the document, and in the directory that stands for a bucket: the event as the function was given it."""
    document = failure_object(GIVEN_UP, MAPPED, shard_id="shardId-1", request_id="r", now_ms=AT_MS)
    assert json.loads(document.pop("payload")) == {"Records": [one.body for one in GIVEN_UP.records]}
    assert document == failure_metadata(GIVEN_UP, MAPPED, shard_id="shardId-1", request_id="r", now_ms=AT_MS)
    client = FakeStreams(shards(("s", None)), page(1, 2))
    function = Recorder(FunctionFailed("ValueError", "no"))
    config = MappingConfig(maximum_retry_attempts=0)
    kept = FailureDirectory(tmp_path / "failed", MAPPED)
    with source(client, function, tmp_path / "cp", config=config, on_failure=kept) as running:
        running.step()
    [path] = [path for path in (tmp_path / "failed").rglob("*") if path.is_file()]
    stored = json.loads(path.read_text())
    assert json.loads(stored["payload"]) == {"Records": function.records[0]}
    assert stored["DDBStreamBatchInfo"]["endSequenceNumber"] == "2"
    assert CheckpointFile(tmp_path / "cp", ARN).position("s").after == "2"


@row("discard-name")
def test_discard_name(tmp_path: Path) -> None:
    """The mapping's id is the same each time, the object's is not."""
    assert object_key("id", "shard", AT_MS, "u") == "aws/lambda/id/shard/2019/11/14/2019-11-14T00.13.49-u"
    same = {mapped(ARN, "relay", account="1", region="r") for _ in range(2)}
    assert len(same) == 1
    destination = FailureDirectory(tmp_path, same.pop())
    uuid.UUID(destination.mapped.mapping_id)
    paths = {destination.keep("shardId-1", GIVEN_UP, AT_MS, SystemEntropy()) for _ in range(2)}
    assert len(paths) == 2
    pattern = r"aws/lambda/[-0-9a-f]{36}/shardId-1/2019/11/14/2019-11-14T00\.13\.49-[-0-9a-f]{36}"
    assert all(re.fullmatch(pattern, path.relative_to(tmp_path).as_posix()) for path in paths)


@row("discard-response")
def test_discard_response() -> None:
    """After an error, after an answer, and after nothing."""

    def context(answer: Answer | None) -> Any:
        shard = machine(maximum_retry_attempts=0, maximum_record_age_s=60)
        if answer is None:
            [discard, *_] = shard.read([record(1, at_ms=NOW - 61_000)], NOW)
        else:
            shard.read(records(1), NOW)
            [discard, *_] = fail(shard, answer, NOW + 61_000)
        assert isinstance(discard, Discard)
        document = failure_metadata(discard, MAPPED, shard_id="s", request_id="r", now_ms=NOW)
        return document["requestContext"]["condition"], document.get("responseContext", "none")

    def response(function_error: str | None) -> dict[str, Any]:
        return {"statusCode": 200, "executedVersion": "$LATEST", "functionError": function_error}

    assert context(ERROR) == ("RetryAttemptsExhausted", response("Unhandled"))
    assert context(failed_at(1)) == ("RetryAttemptsExhausted", response(None))
    assert context(Throttled()) == ("RecordAgeExceeded", "none")
    assert context(None) == ("RecordAgeExceeded", "none")


@row("discard-first")
def test_discard_first(tmp_path: Path) -> None:
    """The disk is full, or a file stands where the directory should be; the next source tries the batch again."""
    config = MappingConfig(maximum_retry_attempts=0)
    kept = FailureDirectory(tmp_path / "failed", MAPPED)
    for obstacle in ("disk", "file"):
        client, function = FakeStreams(shards(("s", None)), page(1)), Recorder(FunctionFailed("ValueError", "no"))
        with (
            pytest.MonkeyPatch.context() as patch,
            source(client, function, tmp_path / "cp", config=config, on_failure=kept) as running,
        ):
            if obstacle == "disk":
                patch.setattr("os.fsync", full)
            with pytest.raises(OSError, match=r"(No space left|Not a directory).*/failed/aws/lambda"):
                running.step()
        if obstacle == "disk":
            assert not [path for path in (tmp_path / "failed").rglob("*") if path.is_file()]
            shutil.rmtree(tmp_path / "failed")
            (tmp_path / "failed").write_text("")
    assert CheckpointFile(tmp_path / "cp", ARN).position("s").after is None
    function = Recorder()
    with source(FakeStreams(shards(("s", None)), page(1)), function, tmp_path / "cp", config=config) as running:
        running.step()
    assert function.batches == [["1"]]


def full(_fd: int) -> None:
    """Be a disk without room."""
    raise OSError(errno.ENOSPC, "No space left on device")


# --- time to live ---


def removed(number: int, key: str, **more: Any) -> dict[str, Any]:
    """Return a REMOVE record of GetRecords."""
    record_ = raw(number) | {"eventName": "REMOVE"}
    record_["dynamodb"] |= {"Keys": {"pk": {"S": key}}, **more}
    return record_


@row("ttl-identity")
def test_ttl_identity(tmp_path: Path) -> None:
    """Of two removals of one kind, the one that was made here is marked."""
    plain = lambda_form(removed(1, "a"), ARN)
    assert ttl_delete(plain) == plain | {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
    assert (is_ttl_delete(ttl_delete(plain)), is_ttl_delete(plain)) == (True, False)
    with pytest.raises(ValueError, match="INSERT"):
        ttl_delete(lambda_form(raw(1), ARN))
    table = FakeTable({"gone": {"N": str(NOW // 1000 - HOUR_S)}})
    ttl = ExpiredItems(table, "shop", "expires", tmp_path / "ttl")
    assert ttl.sweep(NOW, 0) == 1
    pages = {"Records": [removed(1, "by hand"), removed(2, "gone"), raw(3)], "NextShardIterator": "next"}
    function = Recorder()
    with source(FakeStreams(shards(("s", None)), pages), function, tmp_path / "cp", ttl=ttl) as running:
        running.step()
    assert [one.get("userIdentity") for one in function.records[0]] == [None, SERVICE, None]


@row("ttl-number")
def test_ttl_number() -> None:
    """Text that looks like one is none."""
    past = str(NOW // 1000 - HOUR_S)
    assert expired({"e": {"N": past}}, "e", NOW)
    for value in ({"S": past}, {"NS": [past]}, {"BOOL": True}, {"N": "x"}):
        assert not expired({"e": value}, "e", NOW)
    assert not expired({"other": {"N": past}}, "e", NOW)


@row("ttl-seconds")
def test_ttl_seconds() -> None:
    """The second itself has not passed."""
    now_s = NOW // 1000
    cases = {now_s - 1: True, now_s: False, now_s + 1: False, NOW - 1: False}
    assert {value: expired({"e": {"N": str(value)}}, "e", NOW) for value in cases} == cases
    assert expired({"e": {"N": f"{now_s - 1}.5"}}, "e", NOW)


@row("ttl-five-years")
def test_ttl_five_years() -> None:
    """Zero is not "long ago" but "never"."""
    now_s = NOW // 1000
    old = now_s - 5 * 365 * DAY_S
    cases = {old: True, old - 1: False, 0: False}
    assert {value: expired({"e": {"N": str(value)}}, "e", NOW) for value in cases} == cases


@row("ttl-moved")
def test_ttl_moved(tmp_path: Path) -> None:
    """Between the look and the deletion somebody gives the item another hour."""
    past, later = str(NOW // 1000 - HOUR_S), str(NOW // 1000 + HOUR_S)
    table = FakeTable({"kept": {"N": past}, "gone": {"N": past}})
    table.before_delete["kept"] = lambda: table.items["kept"].update(expires={"N": later})
    ttl = ExpiredItems(table, "shop", "expires", tmp_path / "ttl")
    assert ttl.sweep(NOW, 0) == 1
    assert set(table.items) == {"kept"}
    by_hand = lambda_form(removed(1, "kept"), ARN)
    assert ttl.mark(by_hand, "s") == by_hand


@row("ttl-restart")
def test_ttl_restart(tmp_path: Path) -> None:
    """Before the record was read, and before it was done."""
    table = FakeTable({"gone": {"N": str(NOW // 1000 - HOUR_S)}})
    path = tmp_path / "ttl"
    ExpiredItems(table, "shop", "expires", path).sweep(NOW, 0)
    body = lambda_form(removed(7, "gone"), ARN)
    for _ in range(2):
        assert is_ttl_delete(ExpiredItems(table, "shop", "expires", path).mark(body, "s"))
    ttl = ExpiredItems(table, "shop", "expires", path)
    assert not is_ttl_delete(ttl.mark(lambda_form(removed(8, "gone"), ARN), "s"))  # put again, and deleted by hand
    ttl.forget("s", "7", NOW)
    assert not is_ttl_delete(ExpiredItems(table, "shop", "expires", path).mark(body, "s"))


# --- records ---


@row("record-form")
def test_record_form() -> None:
    """Every kind of value that JSON does not have."""
    change = raw(1)
    change["dynamodb"]["NewImage"] = {
        "b": {"B": b"\x00\xff"},
        "bs": {"BS": [b"a"]},
        "n": {"N": "1E+125"},
        "ns": {"NS": ["1", "1.10"]},
        "ß\u2028": {"S": "ä"},
    }
    made = lambda_form(change, ARN)
    assert json.loads(json.dumps(made))["dynamodb"]["NewImage"] == {
        "b": {"B": base64.b64encode(b"\x00\xff").decode()},
        "bs": {"BS": ["YQ=="]},
        "n": {"N": "1E+125"},
        "ns": {"NS": ["1", "1.10"]},
        "ß\u2028": {"S": "ä"},
    }
    compact = json.dumps(made, separators=(",", ":"), ensure_ascii=False)
    assert stream_record(made).size == len(compact.encode())


@row("record-view")
def test_record_view() -> None:
    """KEYS_ONLY."""
    made = lambda_form(raw(1), ARN)
    assert made["dynamodb"].keys() == {"SequenceNumber", "ApproximateCreationDateTime", "Keys"}
    assert stream_record(made).number == 1


@row("record-order")
def test_record_order(tmp_path: Path) -> None:
    """In a page, and below a checkpoint."""
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    for after, unread in ((None, page(5, 4)), ("7", page(6))):
        checkpoint.keep("s", Position(after))
        function = Recorder()
        with (
            source(FakeStreams(shards(("s", None)), unread), function, tmp_path / "cp") as running,
            pytest.raises(InvalidRecord, match="the one of the record before it"),
        ):
            running.step()
        assert (function.batches, CheckpointFile(tmp_path / "cp", ARN).position("s")) == ([], Position(after))


@row("record-malformed")
def test_record_malformed() -> None:
    """Nothing else is looked at."""
    good = {"SequenceNumber": "1", "ApproximateCreationDateTime": 1}
    assert stream_record({"dynamodb": good}).arrived_ms == 1_000
    assert stream_record({"dynamodb": {**good, "NewImage": {"s": {"S": "\ud800"}}}}).size > 0
    times = ("now", True, -1, float("nan"), float("inf"), 253_402_300_800)
    wrong = [{**good, "ApproximateCreationDateTime": time} for time in times]
    for change in (None, *({**good, "SequenceNumber": text} for text in (None, "1" * 41, "\u0661")), *wrong):
        with pytest.raises(InvalidRecord):
            stream_record({"dynamodb": change})
