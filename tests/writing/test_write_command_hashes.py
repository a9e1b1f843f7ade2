"""Hashes that stand in tables: another version of the library must find what this one wrote.

A guard lives for days. If its key or its fingerprint were made otherwise after an upgrade, a command that runs again
would be a new one, or a mismatch. So these values are written down here; a change of any of them is a break.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from write_world import new_id, some_event

from dynamodb_outbox.core.commit.fingerprint import custom_fingerprint, fingerprint_of, guard_hash, token_of
from dynamodb_outbox.core.record.by_hand import id_by_keys
from dynamodb_outbox.core.record.schema import index_shard

BODY: dict[str, Any] = {
    "TableName": "shop",
    "Item": {"pk": {"S": "ORDER#1"}, "é": {"B": b"\xff\x00"}, "cents": {"N": "5"}, "tags": {"SS": ["a", "b"]}},
    "ConditionExpression": "attribute_not_exists(#ob_pk)",
    "ExpressionAttributeNames": {"#ob_pk": "pk"},
}


def action(kind: str, body: dict[str, Any], content: dict[str, Any] | None = None) -> Any:
    """Return as much of an action as a fingerprint looks at."""
    return cast("Any", SimpleNamespace(kind=kind, body=body, content=content))


def test_the_fingerprint_of_a_command() -> None:
    """Of its actions and its events, bytes among them; ids and times do not count."""
    event = some_event(key="ORDER#1", subject="s", attributes={"b": "2", "a": "1"}, payload='{"n":1.10}')
    expected = "dc7fa99d49d6bb21e4e588b8db86962709e4146e28dfe1022e810a72227aa774"
    assert fingerprint_of([action("Put", BODY)], [event]) == expected
    again = some_event(**{**vars(event), "id": new_id(9), "attributes": {"a": "1", "b": "2"}})
    assert fingerprint_of([action("Put", dict(reversed(BODY.items())))], [again]) == expected
    others: list[dict[str, Any]] = [{"key": "K"}, {"subject": None}, {"payload": '{"n":1.1}'}, {"type": "t"}]
    for other in (*others, {"attributes": {}}):
        assert fingerprint_of([action("Put", BODY)], [some_event(**{**vars(event), **other})]) != expected
    assert fingerprint_of([action("Update", BODY)], [event]) != expected
    assert fingerprint_of([], [event]) != expected


def test_what_versions_add_to_an_action_stays_out() -> None:
    """Where an action has a content of its own, that counts and not the request."""
    one, other = action("Put", {"a": 1}, {"b": 2}), action("Put", {"c": 1}, {"b": 2})
    assert fingerprint_of([one], []) == fingerprint_of([other], []) == fingerprint_of([action("Put", {"b": 2})], [])
    assert fingerprint_of([one], []) == "25fd29ece0bab734a1cee6c40404893555822c4c844d95e20ce49bf5043f6393"


def test_the_fingerprint_that_a_caller_gave() -> None:
    """No command has it by chance: it is hashed behind a word."""
    assert custom_fingerprint("order 1, 5 cents") == "3192704fd6be03bc6f825b775e61984cbb45b6b03098edc44fde4ade728038d0"


def test_the_guards_key_and_the_token() -> None:
    """Of source and key, with a border between them; the token is as long as DynamoDB takes."""
    assert guard_hash("shop.orders", "request-1") == "b189fd8b48dbc5934e10f8ca3ac99ea5f971acd591439288ab3af6ffdd261b6b"
    assert guard_hash("a", "b") != guard_hash("ab", "")
    token = token_of("guard", [{"Put": BODY}])
    assert token == "d6f6de31afbb9c9935e04a49b56235379ae3"
    assert len(token) == 36


def test_the_id_of_a_hand_written_record() -> None:
    """A UUID is kept; else partition and suffix, told apart; what is too long, or has no UTF-8, is hashed as bytes."""
    uuid = "0190163D-8694-739b-aea5-966c26f8ad91"
    assert id_by_keys("ORDER#1", uuid) == uuid
    assert id_by_keys(None, "7#8%") == "7#8%"
    assert id_by_keys("ORDER#1%", "7#8") == "ORDER%231%25#7#8"
    assert id_by_keys("P", "x" * 510) == "P#" + "x" * 510
    assert id_by_keys("P", "x" * 511) == "66325f35699ec1559ab9b62ca214074523fe8c10960e08068fa083d2e13611df"
    assert id_by_keys("P", "é" * 255) == "P#" + "é" * 255
    assert id_by_keys("P\ud800", "x" * 511) == "7a9d62f0dae890919ad83e0be4877b3c359c6b8b41a4422e254ac4dc8c4a9402"


def test_the_shard_of_a_key() -> None:
    """A key is always in the same part of the index, whatever characters it has."""
    assert [index_shard(key, 16) for key in ("ORDER#1", "ORDER#2", "é")] == ["01", "11", "14"]
    assert index_shard("ORDER#1", 1) == "00"
