"""Expired items on an engine without TTL: what is deleted, what is marked, and what an outage changes."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ConnectTimeoutError

from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.core.eventsource.ttl import is_ttl_delete
from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.checkpoint import CheckpointFile
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.local.source import EventSource
from dynamodb_outbox.local.ttl import ExpiredItems, TtlFileCorrupt, TtlRefused, ttl_attribute
from dynamodb_outbox.process.stop import StopFlag
from fake_streams import ARN, FakeStreams, page, refusal, shards
from fake_table import FakeTable
from source_steps import Recorder, SteadyClock

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account

NOW = 1_800_000_000_000
PAST = {"N": str(NOW // 1000 - 60)}

DELETION: dict[str, Any] = {"keys": {"pk": {"S": "a"}}, "expires": "1", "at_ms": 1, "shard": "s", "number": "9"}
WRONG: list[dict[str, Any]] = [
    {"keys": []}, {"expires": 1}, {"at_ms": "1"}, {"number": 9}, {"number": "x"}, {"number": None}, {"shard": None},
    {"more": 1},
]  # fmt: skip
DAMAGED = [json.dumps({"stream": "", "deletions": [DELETION | wrong]}) for wrong in WRONG]


def items(table: FakeTable, directory: Path) -> ExpiredItems:
    """Return the sweeper of a table."""
    return ExpiredItems(table, "shop", "expires", directory / "ttl")


def removal(key: str, number: str = "1", **more: Any) -> dict[str, Any]:
    """Return a REMOVE record in Lambda's form."""
    return {"eventName": "REMOVE", "dynamodb": {"Keys": {"pk": {"S": key}}, "SequenceNumber": number, **more}}


def test_the_table_is_looked_at_now_and_then(tmp_path: Path) -> None:
    """A scan costs a table's whole content: once a second, by a clock that does not jump."""
    table = FakeTable({})
    ttl = items(table, tmp_path)
    for steady_ms in (0, 500, 999, 1_000, 1_500, 2_000):
        ttl.sweep(NOW, steady_ms)
    assert table.scans == 3


def test_a_table_that_takes_long_is_looked_at_less_often(tmp_path: Path) -> None:
    """A tenth of the time at most, so that the stream is read meanwhile; a call that was not due changes nothing."""
    table = FakeTable({})
    ttl = items(table, tmp_path)
    ttl.sweep(NOW, 0)
    ttl.rest(0, 3_000)
    for steady_ms in (3_000, 29_999, 30_000):
        ttl.sweep(NOW, steady_ms)
        ttl.rest(steady_ms, steady_ms)
    assert table.scans == 2


class Idle(FakeStreams):
    """A stream in which nothing happens."""

    def describe_stream(self, **_request: Any) -> Any:
        """Answer with one shard."""
        return shards(("s", None))

    def get_records(self, **_request: Any) -> Any:
        """Answer with nothing."""
        return page()


def test_a_source_reads_its_stream_while_a_large_table_waits(tmp_path: Path) -> None:
    """The scan takes two seconds, and a step half a second: one step in forty has one."""
    clock, table = SteadyClock(), FakeTable({"a": PAST})
    table.before_delete["a"] = lambda: clock.sleep_ms(2_000)
    stream = DynamoDbStream(Idle(), ARN)
    checkpoint, stop = CheckpointFile(tmp_path / "checkpoint", ARN), StopFlag()
    source = EventSource(stream, Recorder(), checkpoint, stop, ttl=items(table, tmp_path), clock=clock)
    for _ in range(37):
        source.step()
        clock.sleep_ms(500)
    stop.close()
    assert table.scans == 2


def test_a_lost_answer_is_a_deletion_all_the_same(tmp_path: Path) -> None:
    """The item is gone, nobody was told, and the record is marked; the source goes on."""
    table = FakeTable({"a": PAST})
    table.failures = [ConnectTimeoutError(endpoint_url="http://x")]
    ttl = items(table, tmp_path)
    assert ttl.sweep(NOW, 0) == 0  # the scan fails
    assert set(table.items) == {"a"}
    table.before_delete["a"] = lambda: table.failures.append(ConnectTimeoutError(endpoint_url="http://x"))
    assert ttl.sweep(NOW, 1_000) == 0
    assert not table.items
    assert is_ttl_delete(ttl.mark(removal("a"), "s"))


def test_an_item_that_a_lost_request_left_is_deleted_by_the_next_and_marked_once(tmp_path: Path) -> None:
    """One deletion is written down however often it is tried: a later removal by hand is not marked."""
    table = FakeTable({"a": PAST})

    def lost() -> None:
        raise ConnectTimeoutError(endpoint_url="http://x")

    table.before_delete["a"] = lost
    ttl = items(table, tmp_path)
    ttl.sweep(NOW, 0)
    del table.before_delete["a"]
    assert ttl.sweep(NOW, 1_000) == 1
    assert len(json.loads((tmp_path / "ttl").read_text())["deletions"]) == 1
    assert is_ttl_delete(ttl.mark(removal("a", "1"), "s"))
    assert not is_ttl_delete(ttl.mark(removal("a", "2"), "s"))


def test_an_outage_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Until the table answers again."""
    table = FakeTable({})
    ttl = items(table, tmp_path)
    table.failures = [refusal("InternalServerError", 500)] * 3
    for turn in range(4):
        assert ttl.sweep(NOW, turn * 1_000) == 0
    assert caplog.text.count("stay for now") == 1


def test_an_answer_without_anything_in_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has expired is deleted when the table answers as tables do."""
    table = FakeTable({"a": PAST})
    ttl = items(table, tmp_path)
    for method, answer in (("describe_table", {}), ("paginate", [{}])):
        with monkeypatch.context() as patch:
            patch.setattr(table, method, lambda answer=answer, **_: answer)
            assert ttl.sweep(NOW, len(method) * 10_000) == 0
    assert ttl.sweep(NOW, 1_000_000) == 1
    described = SimpleNamespace(describe_time_to_live=lambda **_: {})
    with pytest.raises(ConfigurationError, match="name the attribute"):
        ttl_attribute(described, "shop")


def test_a_refusal_ends_the_source(tmp_path: Path) -> None:
    """What trying again cannot mend is raised: by the scan, and by the deletion."""
    table = FakeTable({"a": PAST})
    table.failures = [refusal("AccessDeniedException")]
    ttl = items(table, tmp_path)
    with pytest.raises(TtlRefused, match="AccessDenied") as caught:
        ttl.sweep(NOW, 0)
    assert caught.value.table == "shop"
    table.before_delete["a"] = lambda: table.failures.append(refusal("ValidationException"))
    with pytest.raises(TtlRefused, match="ValidationException"):
        ttl.sweep(NOW, 1_000)


def test_the_old_image_tells_two_removals_of_one_key_apart(tmp_path: Path) -> None:
    """An item deleted by hand, put again and expired: the first record has another TTL attribute."""
    ttl = items(FakeTable({"a": PAST}), tmp_path)
    ttl.sweep(NOW, 0)
    by_hand = removal("a", "1", OldImage={"pk": {"S": "a"}, "expires": {"N": "1"}})
    ours = removal("a", "2", OldImage={"pk": {"S": "a"}, "expires": PAST})
    assert [is_ttl_delete(ttl.mark(body, "s")) for body in (by_hand, ours)] == [False, True]


def test_deletions_are_forgotten_when_their_record_is_done_or_never_came(tmp_path: Path) -> None:
    """By the checkpoint of the record's own shard, as a number; or after the stream's 24 hours."""
    ttl = items(FakeTable({"a": PAST, "b": PAST}), tmp_path)
    ttl.sweep(NOW, 0)
    ttl.mark(removal("a", "10"), "s")

    def kept() -> list[str]:
        return [one["keys"]["pk"]["S"] for one in json.loads((tmp_path / "ttl").read_text())["deletions"]]

    ttl.forget("other", "99", NOW)
    ttl.forget("s", "9", NOW)
    assert kept() == ["a", "b"]
    ttl.forget("s", "10", NOW)
    assert kept() == ["b"]
    ttl.forget("s", "11", NOW + STREAM_RETENTION_MS)
    assert kept() == []


@pytest.mark.parametrize("content", ["", "{", "[1]", "1", '{"a": 1}', "[" * 100_000, *DAMAGED])
def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path: Path, content: str) -> None:
    """It is not taken for an empty one."""
    (tmp_path / "ttl").write_text(content)
    with pytest.raises(TtlFileCorrupt, match="Remove it to go on") as caught:
        items(FakeTable({}), tmp_path)
    assert caught.value.path == tmp_path / "ttl"


def test_on_the_engine_expired_items_go_and_their_records_are_marked(engine: Account, tmp_path: Path) -> None:
    """Numbers alone, in seconds, at most five years old; binary keys as in Lambda's form."""
    client = engine.client("dynamodb")
    client.create_table(
        TableName="shop",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "B"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    now_s = int(time.time())
    values = {
        b"past": {"N": str(now_s - 60)},
        b"text": {"S": str(now_s - 60)},
        b"ms": {"N": str((now_s - 60) * 1000)},
        b"old": {"N": "1"},
        b"future": {"N": str(now_s + 3_600)},
    }
    for key, value in values.items():
        client.put_item(TableName="shop", Item={"pk": {"B": key}, "expires": value})
    client.delete_item(TableName="shop", Key={"pk": {"B": b"future"}})
    ttl = ExpiredItems(client, "shop", "expires", tmp_path / "ttl")
    assert ttl.sweep(now_s * 1000, 0) == 1
    assert {item["pk"]["B"] for item in client.scan(TableName="shop")["Items"]} == {b"text", b"ms", b"old"}
    stream = DynamoDbStream(engine.client("dynamodbstreams"), stream_arn(client, "shop"))
    [shard] = stream.shards()
    removals = [one for one in stream.open(shard.shard_id).read().records if one["eventName"] == "REMOVE"]
    assert [is_ttl_delete(ttl.mark(one, shard.shard_id)) for one in removals] == [False, True]


class Moving:
    """A client beside which somebody gives every item another hour, just before it is deleted."""

    def __init__(self, client: Any, expires: int) -> None:
        self.client = client
        self.expires = expires

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def delete_item(self, **request: Any) -> Any:
        """Move the time, then try to delete."""
        item = request["Key"] | {"expires_at": {"N": str(self.expires)}}
        self.client.put_item(TableName=request["TableName"], Item=item)
        return self.client.delete_item(**request)


def test_on_the_engine_an_item_whose_time_is_moved_survives(engine: Account, tmp_path: Path) -> None:
    """The condition is the engine's to judge."""
    client = engine.client("dynamodb")
    create_table(client, "shop")
    now_s = int(time.time())
    key = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    client.put_item(TableName="shop", Item=key | {"expires_at": {"N": str(now_s - 60)}})
    ttl = ExpiredItems(Moving(client, now_s + 3_600), "shop", "expires_at", tmp_path / "ttl")
    assert ttl.sweep(now_s * 1000, 0) == 0
    assert client.get_item(TableName="shop", Key=key)["Item"]["expires_at"] == {"N": str(now_s + 3_600)}
    assert json.loads((tmp_path / "ttl").read_text())["deletions"] == []


def test_on_the_engine_the_table_names_its_ttl_attribute(engine: Account) -> None:
    """As it was provisioned; without TTL there is nothing to go by."""
    client = engine.client("dynamodb")
    create_table(client, "shop")
    assert ttl_attribute(client, "shop") == "expires_at"
    client.create_table(
        TableName="plain",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    with pytest.raises(ConfigurationError, match="not enabled on plain"):
        ttl_attribute(client, "plain")


def test_deletions_of_another_stream_count_for_nothing(tmp_path: Path) -> None:
    """The table was made again: shards and numbers are the same, and the item was deleted by hand this time."""
    table = FakeTable({"a": PAST})
    before = ExpiredItems(table, "shop", "expires", tmp_path / "ttl", stream="arn:1")
    before.sweep(NOW, 0)
    before.mark(removal("a"), "s")
    assert is_ttl_delete(
        ExpiredItems(table, "shop", "expires", tmp_path / "ttl", stream="arn:1").mark(removal("a"), "s")
    )
    after = ExpiredItems(table, "shop", "expires", tmp_path / "ttl", stream="arn:2")
    assert not is_ttl_delete(after.mark(removal("a"), "s"))


def test_an_engine_that_does_not_tell_the_attribute_is_a_mistake_that_can_be_mended() -> None:
    """Not every engine knows DescribeTimeToLive: the attribute can be named."""

    class Ignorant:
        def describe_time_to_live(self, **_request: Any) -> Any:
            raise refusal("UnknownOperationException")

    with pytest.raises(ConfigurationError, match=r"UnknownOperationException.*: name it"):
        ttl_attribute(Ignorant(), "shop")
