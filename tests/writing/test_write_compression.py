"""Compressed records: what is stored comes back, less is stored, and nothing hostile is unpacked."""

from __future__ import annotations

import base64
import builtins
import gzip
import json
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from write_scripted import ITEM, World
from write_world import LAYOUT, START_MS, TABLE, create_table, new_id, records_of, some_event

from dynamodb_outbox import Event, Outbox
from dynamodb_outbox.core.codec.compression import ENCODINGS, CompressionFault, Encoding, compress, decompress
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.limits import DECODED_BYTES
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.schema import EVENTS, PAYLOAD
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord, ItemTooLarge

if TYPE_CHECKING:
    from conftest import Account

MOST = 1_000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
repetitive = json.dumps({"lines": ["1.50"] * 400})
encodings = pytest.mark.parametrize("encoding", ENCODINGS)


def stored(*payloads: str, encoding: Encoding | None = "gzip") -> dict[str, Any]:
    """Return the record of events with these payloads."""
    events = tuple(some_event(new_id(number), payload=payload) for number, payload in enumerate(payloads))
    events = tuple(Event(**{**vars(event), "key": "ORDER#1"}) for event in events)
    draft = RecordDraft(new_id(0), "ORDER#1", events, 0, 1)
    return encode_record(draft, Origin(new_id(99), START_MS, "eu-west-1"), LAYOUT, encoding)


def payloads_of(image: dict[str, Any]) -> list[str]:
    """Return the payloads that a relay publishes of a record."""
    return [event.payload for event in decode(image, LAYOUT, source="?").events]


# --- the codec --------------------------------------------------------------------------------------------------------


@encodings
@given(text=texts)
def test_text_comes_back(encoding: Encoding, text: str) -> None:
    """Any text, of every plane, is the same after it was compressed; the same text gives the same bytes."""
    content = compress(text, encoding)
    assert decompress(content, encoding, 1_000) == text
    assert compress(text, encoding) == content


@encodings
def test_the_bound_is_exact(encoding: Encoding) -> None:
    """As many bytes as allowed come back; one more is a fault."""
    assert decompress(compress("x" * MOST, encoding), encoding, MOST) == "x" * MOST
    with pytest.raises(CompressionFault, match=r"more than 1,000 bytes"):
        decompress(compress("x" * (MOST + 1), encoding), encoding, MOST)


def test_a_zstd_frame_without_a_size_is_held_to_the_bound() -> None:
    """A frame need not declare its size: the bound holds by the output itself."""
    packer = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(packer.compress(b"x" * MOST), "zstd", MOST) == "x" * MOST
    for size in (MOST + 1, MOST + 2, 100 * MOST):
        with pytest.raises(CompressionFault, match=r"1,000 bytes"):
            decompress(packer.compress(b"x" * size), "zstd", MOST)


@encodings
def test_a_bomb_is_not_unpacked(encoding: Encoding) -> None:
    """A few kilobytes that stand for 30 MB take no memory beyond the bound before they are refused."""
    content = compress("x" * 30_000_000, encoding)
    assert len(content) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(CompressionFault, match="more than"):
            decompress(content, encoding, MOST)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@encodings
@given(cut=st.integers(0, 60))
def test_a_part_is_a_fault(encoding: Encoding, cut: int) -> None:
    """Content that is cut off anywhere is a fault and never a shorter text."""
    content = compress("".join(map(chr, range(32, 120))), encoding)
    with pytest.raises(CompressionFault):
        decompress(content[: min(cut, len(content) - 1)], encoding, MOST)


@encodings
@given(content=st.binary(max_size=100))
def test_other_bytes_are_a_fault(encoding: Encoding, content: bytes) -> None:
    """Bytes that nobody compressed raise the one error, whatever they are."""
    with pytest.raises(CompressionFault):
        decompress(content, encoding, MOST)


@encodings
def test_nothing_may_follow(encoding: Encoding) -> None:
    """Bytes after the first member or frame are refused, be they garbage or another one."""
    content = compress("abc", encoding)
    for more in (b"x", content):
        with pytest.raises(CompressionFault):
            decompress(content + more, encoding, MOST)


def test_what_other_writers_make_is_read() -> None:
    """A gzip member with a time and a name in its header, as command lines make it."""
    assert decompress(gzip.compress(b"abc", mtime=1_700_000_000), "gzip", MOST) == "abc"


def test_no_other_form_is_taken_for_gzip() -> None:
    """Zlib's own form, without gzip's header, is not gzip; and bytes that are no UTF-8 are no text."""
    with pytest.raises(CompressionFault, match="not gzip"):
        decompress(zlib.compress(b"abc"), "gzip", MOST)
    with pytest.raises(CompressionFault, match="UTF-8"):
        decompress(gzip.compress(b"\xff"), "gzip", MOST)


# --- in a record ------------------------------------------------------------------------------------------------------


@encodings
@pytest.mark.parametrize("count", [1, 2])
def test_a_record_is_smaller_and_says_the_same(encoding: Encoding, count: int) -> None:
    """Both forms: binary, with `enc`; the relay reads the same text, from Lambda's base64 as well."""
    payloads = [repetitive] * count
    image, plain = stored(*payloads, encoding=encoding), stored(*payloads, encoding=None)
    name = PAYLOAD if count == 1 else EVENTS
    assert image["enc"] == {"S": encoding}
    assert isinstance(image[name]["B"], bytes)
    assert item_bytes(image) < item_bytes(plain) / 2
    assert payloads_of(image) == payloads_of(plain) == payloads
    lambdas = {**image, name: {"B": base64.b64encode(image[name]["B"]).decode("ascii")}}
    assert payloads_of(lambdas) == payloads


@pytest.mark.parametrize("payload", ["{}", f'"{base64.b85encode(bytes(range(256))).decode()[:260]}"'])
def test_what_would_not_get_smaller_is_stored_as_it_is(payload: str) -> None:
    """Short payloads, and those without anything that repeats."""
    image = stored(payload)
    assert "enc" not in image
    assert image[PAYLOAD] == {"S": payload}


def test_more_than_a_reader_unpacks_is_not_written() -> None:
    """A record that the relay would have to park is refused where it is made."""
    fits = '"' + "x" * (DECODED_BYTES - 2) + '"'
    assert payloads_of(stored(fits)) == [fits]
    with pytest.raises(ItemTooLarge) as caught:
        stored(fits + " ")
    assert (caught.value.size, caught.value.limit) == (DECODED_BYTES + 1, DECODED_BYTES)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"enc": {"S": "brotli"}}, "'brotli'"),
        ({"enc": {"S": "zstd"}}, "zstd frame"),
        ({"enc": {"S": ""}}, "enc"),
        ({"enc": {"N": "1"}}, "enc"),
        ({"payload": {"S": repetitive}}, "not of type B"),
        ({"payload": {"B": "%%%"}}, "base64"),
        ({"payload": {"B": b"not gzip"}}, "not gzip"),
        ({"payload": {"B": gzip.compress(b"1,2")}}, "not one JSON value"),
        ({"payload": {"B": gzip.compress(b"0" * (DECODED_BYTES + 1))}}, "more than 4,194,304 bytes"),
    ],
)
def test_a_record_that_cannot_be_unpacked_is_invalid(changes: dict[str, Any], reason: str) -> None:
    """Another encoding, other content, a bomb: each an InvalidRecord, which the relay parks."""
    with pytest.raises(InvalidRecord, match=reason):
        decode({**stored(repetitive), **changes}, LAYOUT, source="?")


def test_a_hand_written_row_may_have_an_enc_of_its_own() -> None:
    """In rows without `ob_v` the name is their writer's."""
    row = {"pk": {"S": "K"}, "sk": {"S": "OUTBOX#1"}, "type": {"S": "t"}, "ts": {"N": "1"}}
    assert payloads_of({**row, "payload": {"S": "[1]"}, "enc": {"S": "gzip"}}) == ["[1]"]


# --- the outbox -------------------------------------------------------------------------------------------------------


def test_an_argument_that_cannot_work() -> None:
    """An encoding that does not exist is refused when the outbox is made."""
    for value in ("brotli", "", 1, True, "GZIP"):
        with pytest.raises(ConfigurationError, match="compression"):
            World(compression=value)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zstd says which extra it needs: to the writer at once, to the relay as configuration and not as a bad record."""
    image = stored(repetitive, encoding="zstd")
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigurationError, match=r"dynamodb-outbox\[zstd\]"):
        World(compression="zstd")
    with pytest.raises(ConfigurationError, match=r"dynamodb-outbox\[zstd\]"):
        decode(image, LAYOUT, source="?")


@encodings
def test_a_transaction_is_the_same_on_every_retry(encoding: Encoding) -> None:
    """The request holds the compressed bytes once and for all."""
    world = World(compression=encoding)
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    tx.emit("t", json.loads(repetitive))
    request = tx.request()
    tx.commit()
    assert world.client.requests == [request]
    assert request["TransactItems"][1]["Put"]["Item"]["enc"] == {"S": encoding}


@encodings
def test_the_table_keeps_it(engine: Account, encoding: Encoding) -> None:
    """Through DynamoDB and back: a commit, and a record of `records()` sent as a resource's client sends it."""
    client = engine.client("dynamodb")
    create_table(client)
    outbox = Outbox(TABLE, source="shop.orders", client=client, compression=encoding)
    with outbox.transaction(idempotency_key="1") as tx:
        tx.put(ITEM, if_absent=True)
        first = tx.emit("t", json.loads(repetitive))
        second = tx.emit("t", json.loads(repetitive))
    (image,) = records_of(client, "ORDER#1")
    assert isinstance(image[EVENTS]["B"], bytes)
    assert [(e.id, e.payload) for e in decode(image, LAYOUT, source="?").events] == [
        (first.id, first.payload),
        (second.id, second.payload),
    ]
    (member,) = outbox.records([outbox.event("t", json.loads(repetitive), key="K")], style="resource")
    assert isinstance(member["Put"]["Item"][PAYLOAD], bytes)
