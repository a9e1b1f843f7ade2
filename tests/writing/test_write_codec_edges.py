"""Edges of values, payloads, envelopes and references, and what the errors there say to the letter."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import sys
import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from write_world import some_event

from dynamodb_outbox.core.codec.claim import ClaimRule, verified
from dynamodb_outbox.core.codec.compression import CompressionFault, compress, decompress
from dynamodb_outbox.core.codec.envelope import attribute_fault, cloudevent, parse_rfc3339, raw, rfc3339, source_fault
from dynamodb_outbox.core.codec.payload import PAYLOAD_LEVELS, dump_payload, rewrite_json
from dynamodb_outbox.core.codec.size import entry_bytes
from dynamodb_outbox.core.codec.values import serialize, serialize_item
from dynamodb_outbox.core.commit.events import new_event
from dynamodb_outbox.core.limits import EVENTBRIDGE
from dynamodb_outbox.errors import InvalidEvent, InvalidValue, PayloadAltered, PayloadError, PayloadUnavailable
from dynamodb_outbox.event import DataRef
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Shout(str):
    """A str that says something else of itself."""

    __slots__ = ()

    def __str__(self) -> str:
        """Say it louder."""
        return self.upper()


class Large(int):
    """An int of another class."""


class Level(IntEnum):
    """An int that has a name."""

    HIGH = 3


def refused(read: Callable[[], object]) -> tuple[str, str]:
    """Return path and reason of the InvalidValue that is raised."""
    with pytest.raises(InvalidValue) as caught:
        read()
    return caught.value.path, caught.value.reason


@pytest.mark.parametrize(
    ("item", "path", "reason"),
    [
        ({"": 1}, "item", "has an attribute without a name; DynamoDB takes names of one byte or more."),
        ({"x" * 65_536: 1}, f"item.{'x' * 40}...", "has a name of 65,536 bytes; 65,535 are the most."),
        ({"é" * 32_768: 1}, f"item.{'é' * 40}...", "has a name of 65,536 bytes; 65,535 are the most."),
        ({"a": [{1, "1"}]}, "item.a[0]", "a set holds text only, numbers only or bytes only; use a list."),
        ({"a": {None}}, "item.a", "a set holds text only, numbers only or bytes only; use a list."),
        ({"a": set()}, "item.a", "DynamoDB has no empty set; leave the attribute out, or use a list."),
        ({"a": Decimal("1E-131")}, "item.a", "is outside DynamoDB's range of 1E-130 to 9.99E+125; use text."),
        ({"a": Decimal("1E+126")}, "item.a", "is outside DynamoDB's range of 1E-130 to 9.99E+125; use text."),
    ],
    ids=["no name", "long", "long in bytes", "mixed", "nulls", "empty", "small", "large"],
)
def test_an_item_that_cannot_be_stored_is_told(item: dict[str, Any], path: str, reason: str) -> None:
    """By the place in it; a name that is too long is cut."""
    assert refused(lambda: serialize_item(item, "item")) == (path, reason)


def test_an_attribute_may_have_a_name_of_one_byte_and_of_as_many_as_dynamodb_takes() -> None:
    """Counted in UTF-8."""
    for name in ("x", "x" * 65_535, "é" * 32_767):
        assert serialize_item({name: 1}) == {name: {"N": "1"}}


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "wire"),
    [
        (10**37, "1" + "0" * 37),
        (10**38, "1E+38"),
        (12 * 10**40, "1.2E+41"),
        (-12 * 10**40, "-1.2E+41"),
        (102 * 10**38, "1.02E+40"),
        (int("9" * 38), "9" * 38),
        (-int("9" * 38), "-" + "9" * 38),
        (Decimal("0." + "0" * 40 + "12" + "0" * 40), "1.2E-41"),
        (Decimal("1." + "0" * 60), "1E+0"),
        (Decimal("0E+200"), "0"),
        (Decimal("-0E-200"), "0"),
        (Decimal("9." + "9" * 37 + "E+125"), "9." + "9" * 37 + "E+125"),
    ],
)
def test_zeros_beyond_the_digits_kept_become_an_exponent(number: int | Decimal, wire: str) -> None:
    """One digit, two, more; of either sign and on either side of the point: the number stays the same."""
    assert serialize(number) == {"N": wire}
    assert Decimal(wire) == number


def test_38_digits_are_kept_and_39_are_not() -> None:
    """Zeros at either end are no digits."""
    most = Decimal("0." + "1" * 38)
    assert Decimal(serialize(most)["N"]) == most
    assert Decimal(serialize(Decimal("0.00" + "1" * 38 + "000"))["N"]) == Decimal("0.00" + "1" * 38)
    assert refused(lambda: serialize(Decimal("0." + "1" * 39))) == (
        "value",
        "has 39 significant digits and DynamoDB keeps 38; round it, or use text.",
    )


def test_an_item_nests_32_levels_below_itself() -> None:
    """The error has the path of the first value that is too deep."""
    deepest: Any = "x"
    deep = functools.reduce(lambda inner, _: [inner], range(31), deepest)
    assert serialize_item({"a": deep})["a"]["L"]
    assert refused(lambda: serialize_item({"a": [deep]})) == (
        "item.a" + "[0]" * 32,
        "nested more than 32 levels deep; store the inner part as JSON text.",
    )


# --- text and names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["quiet", "é"])
def test_text_of_a_subclass_is_stored_and_published_as_its_value(text: str) -> None:
    """As what it is underneath, of type str, whatever it says of itself; as a name, too."""
    assert serialize(Shout(text)) == {"S": text}
    assert type(serialize(Shout(text))["S"]) is str
    (name,) = serialize_item({Shout(text): 1})
    assert (name, type(name)) == (text, str)
    assert dump_payload([Shout(text)]) == f'["{text}"]'


def test_a_name_that_is_no_text_is_told_with_its_type() -> None:
    """A number as a name is not made into text."""
    assert refused(lambda: serialize_item({"a": {5: 1}})) == (
        "item.a",
        "has the name 5 of type int; names must be str.",
    )


def test_a_member_of_a_set_is_told_by_its_value() -> None:
    """A set has no positions."""
    path, reason = refused(lambda: serialize_item({"a": {Decimal("NaN")}}))
    assert path == "item.a{Decimal('NaN')}"
    assert reason == "NaN is not a number that DynamoDB stores; leave the attribute out, or use text."


def test_a_surrogate_is_found_behind_whole_text() -> None:
    """Containers before it, in which nothing is wrong, do not end the search."""
    text = "the text has a lone surrogate and so no form in UTF-8."
    data = {"a": {}, "b": [], "c": {"d": ["x", 1]}, "e": [[], {"f": "y"}, "z\ud800"]}
    assert refused(lambda: dump_payload(data)) == ("data.e[2]", text)
    assert refused(lambda: dump_payload({"a": [], "b": {"c": {"\udc00": 1}}})) == ("data.b.c.'\\udc00'", text)


# --- payloads ---------------------------------------------------------------------------------------------------------


def test_data_of_other_writers_keeps_what_our_rule_refuses() -> None:
    """Numbers beyond every bound, both zeros: with a Decimal among them, and without."""
    assert rewrite_json([10**30, Decimal("1E+400"), Decimal("-0"), None, True]) == f"[{10**30},1E+400,0,null,true]"
    assert rewrite_json({"a": 10**30, "b": []}) == f'{{"a":{10**30},"b":[]}}'


@pytest.mark.parametrize("more", [[], [Decimal("1.10")]])
def test_data_of_other_writers_has_a_form_in_utf_8(more: list[Decimal]) -> None:
    """Half a surrogate pair, which came as an escape, goes on as one: the same data, and any queue takes it."""
    text = rewrite_json(["\ud800\\é", *more])
    assert text.encode("utf-8").startswith(b'["\\ud800\\\\\xc3\xa9"')
    assert json.loads(text, parse_float=Decimal) == ["\ud800\\é", *more]


def test_an_int_of_a_subclass_is_written_as_its_number() -> None:
    """Also where the slower writer is at work."""
    assert dump_payload([Level.HIGH, Decimal("1.5"), False]) == "[3,1.5,false]"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, Decimal(2**63), Decimal(-(2**63) - 1), Large(2**63)])
def test_an_integer_beyond_int64_is_told_with_a_way_out(value: int | Decimal) -> None:
    """One beyond, on either side, as an int or as a Decimal; the bounds themselves pass."""
    assert refused(lambda: dump_payload(value)) == (
        "data",
        "the integer is outside int64, which EventBridge refuses and many readers round; use text.",
    )
    assert dump_payload([2**63 - 1, -(2**63), Decimal(2**63 - 1), Decimal(-(2**63)), Large(2**63 - 1)]) == (
        f"[{2**63 - 1},{-(2**63)},{2**63 - 1},{-(2**63)},{2**63 - 1}]"
    )


def test_the_largest_exponent_that_readers_take() -> None:
    """1E+307 passes; a zero may have any exponent."""
    assert dump_payload([Decimal("9.9E+307"), Decimal("0E+400")]) == "[9.9E+307,0E+400]"
    assert refused(lambda: dump_payload([Decimal("1E+308")])) == (
        "data[0]",
        "the number is beyond what readers of JSON take (1E+308); use text.",
    )


def test_a_time_without_a_zone_is_told_with_a_way_out() -> None:
    """It names no moment."""
    assert refused(lambda: dump_payload(datetime(2026, 1, 1))) == (  # noqa: DTZ001 -- the case itself
        "data",
        "a datetime without a time zone names no moment; use datetime.now(timezone.utc).",
    )


# --- envelopes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["a", "x" * 256, "awsome", "é"])
def test_a_source_that_eventbridge_takes(source: str) -> None:
    """One character to 256; only the prefix with its dot is Amazon's."""
    assert source_fault(source) is None


@pytest.mark.parametrize("source", ["", "x" * 257, "aws.s3", None, 5])
def test_a_source_that_eventbridge_refuses(source: object) -> None:
    """The rule is told."""
    assert source_fault(source) == "1 to 256 characters, not starting with 'aws.', which EventBridge keeps for itself."


def test_a_source_has_a_form_in_utf_8() -> None:
    """A lone surrogate could never be sent."""
    assert source_fault("a\ud800") == "it has a lone surrogate and so no form in UTF-8."


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("a1", "x", None),
        ("A", "x", "has the name 'A'; CloudEvents takes lower-case letters and digits only."),
        (5, "x", "has the name 5; CloudEvents takes lower-case letters and digits only."),
        ("id", "x", "has the name 'id', which belongs to the envelope itself."),
        ("a", None, "has nothing as the value of 'a'; text is needed."),
        ("a", 5, "has a value of type int as the value of 'a'; text is needed."),
    ],
)
def test_an_attributes_fault_is_told(name: object, value: object, fault: str | None) -> None:
    """The name, and what is wrong with it or with its value."""
    assert attribute_fault(name, value) == fault


def test_raw_names_the_field_that_it_has_no_place_for() -> None:
    """The error is about the reference, and says which envelope has a place."""
    with pytest.raises(InvalidEvent) as caught:
        raw(some_event(payload="", dataref=DataRef("s3://b/k", "0" * 64)))
    assert caught.value.field == "dataref"
    assert caught.value.reason == "the envelope 'raw' has no place for it; claim checks need 'cloudevents'."


def test_an_entry_is_counted_by_its_members() -> None:
    """Text in bytes of UTF-8, a list by its members; what is not there counts nothing."""
    names = [name for name in EVENTBRIDGE.counted if name != "Resources"]
    assert entry_bytes({}, EVENTBRIDGE) == EVENTBRIDGE.entry_overhead_bytes
    assert entry_bytes(dict.fromkeys(names, "é"), EVENTBRIDGE) == EVENTBRIDGE.entry_overhead_bytes + 2 * len(names)
    assert entry_bytes({names[0]: ["é", "ab"]}, EVENTBRIDGE) == EVENTBRIDGE.entry_overhead_bytes + 4


# --- references -------------------------------------------------------------------------------------------------------

URI = "s3://payloads/outbox/1"
RULE = ClaimRule("payloads", "outbox/", 100_000, 1_000_000)


def payload_error(kind: type[PayloadError], read: Callable[[], object]) -> tuple[str, str]:
    """Return place and reason of the error that is raised."""
    with pytest.raises(kind) as caught:
        read()
    return caught.value.uri, caught.value.reason


def test_data_that_was_altered_is_told_by_both_hashes() -> None:
    """The one found, and the one that the event says, of which no more is repeated than a hash is long."""
    found = hashlib.sha256(b"[2]").hexdigest()
    said = "0" * 64
    for sha256 in (said, said + "and more"):
        reference = DataRef(URI, sha256)
        told = payload_error(PayloadAltered, functools.partial(verified, some_event(), reference, b"[2]"))
        assert told == (URI, f"its SHA-256 is {found}, and the event says {said}.")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "it is not UTF-8, though its SHA-256 is the event's."),
        (b"[1] [2]", "it is not one JSON value, though its SHA-256 is the event's."),
    ],
)
def test_data_that_is_no_json_is_told_though_its_hash_agrees(content: bytes, reason: str) -> None:
    """Its writer was another one."""
    reference = DataRef(URI, hashlib.sha256(content).hexdigest())
    assert payload_error(PayloadAltered, lambda: verified(some_event(), reference, content)) == (URI, reason)


def test_a_reference_elsewhere_is_told_with_the_place_that_is_read() -> None:
    """Where it leads, and where this claim check looks."""
    elsewhere = DataRef("s3://other/outbox/1", "0" * 64)
    assert payload_error(PayloadUnavailable, lambda: RULE.key_of(elsewhere)) == (
        "s3://other/outbox/1",
        "it is not under s3://payloads/outbox/, where this claim check looks; no other place is read.",
    )


# --- compression ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "encoding", "text"),
    [
        (b"abc", "gzip", "is not gzip"),
        (compress("abc", "gzip")[:-1], "gzip", "is not one whole gzip member"),
        (compress("abc", "gzip") + b"x", "gzip", "is not one whole gzip member"),
        (b"x", "zstd", "is not one whole zstd frame of at most 1,000 bytes"),
        (compress("x" * 1_001, "gzip"), "gzip", "has more than 1,000 bytes when decompressed"),
        (gzip.compress(b"\xff"), "gzip", "is not UTF-8 when decompressed"),
        (b"", "y" * 50, f"has the encoding '{'y' * 40}', which this version does not know"),
    ],
    ids=["other bytes", "cut", "more", "zstd", "too large", "no text", "encoding"],
)
def test_a_fault_reads_after_the_contents_name(content: bytes, encoding: str, text: str) -> None:
    """The text of a fault stands in an InvalidRecord, and a foreign name in it is cut."""
    with pytest.raises(CompressionFault) as caught:
        decompress(content, encoding, 1_000)
    assert str(caught.value) == text


# --- depth ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def deep_stack() -> Iterator[None]:
    """Room for 200 levels, however many calls a level takes."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize("wrap", [lambda one: [one], lambda one: {"a": one}, lambda one: (one,)])
@pytest.mark.parametrize("inner", [1, Decimal("1.5"), "x"])
def test_the_deepest_data_is_written_and_one_level_more_is_not(wrap: Callable[[object], object], inner: object) -> None:
    """200 levels of any container; the error has the path of the first that is too deep."""
    deep = inner
    for _ in range(PAYLOAD_LEVELS):
        deep = wrap(deep)
    assert dump_payload(deep).count("1" if isinstance(inner, (int, Decimal)) else "x") == 1
    path, reason = refused(lambda: dump_payload(wrap(deep)))
    assert reason == "nested more than 200 levels deep."
    assert path == "data" + (".a" if isinstance(wrap(1), dict) else "[0]") * PAYLOAD_LEVELS


class Nested(Enum):
    """Enums whose values are looked into."""

    LIST = ("x", 1.5)
    WIDE = 2**63


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"a": Nested.LIST}, "data.a[1]", "use Decimal('1.1'), text, or an int of the smallest unit."),
        ({"a": [Nested.WIDE]}, "data.a[0]", "use text."),
        ({"a": MappingProxyType({"b": {1, 2}})}, "data.a.b", "a set has no order; use sorted(value)."),
        ({"a": (1, object())}, "data.a[1]", "a value of type object cannot be published: convert it first."),
        ({"a": {Level.HIGH: 1}}, "data.a", "has the name <Level.HIGH: 3> of type Level; names must be str."),
    ],
)
def test_a_container_of_another_class_is_looked_into(data: object, path: str, said: str) -> None:
    """The path goes on inside of tuples, other mappings and the values of an Enum."""
    found, reason = refused(lambda: dump_payload(data))
    assert found == path
    assert reason.endswith(said)


def test_a_mapping_of_another_class_is_written() -> None:
    """As an object, in its order."""
    assert dump_payload({"m": MappingProxyType({"b": True, "a": None})}) == '{"m":{"b":true,"a":null}}'


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine's own zone be that of Tokyo."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_the_machines_own_zone_does_not_matter() -> None:
    """Times are written and read in UTC, wherever that is done."""
    moment = datetime(2026, 1, 31, 14, 0, 0, 100_000, timezone(timedelta(hours=2)))
    assert rfc3339(moment) == "2026-01-31T12:00:00.100000Z"
    for text in ("2026-01-31T14:00:00.1+02:00", "2026-01-31T12:00:00.100000Z", "2026-01-31T12:00:00.1Z"):
        read = parse_rfc3339(text)
        assert (read, read.utcoffset()) == (moment, timedelta(0))
        assert rfc3339(read) == "2026-01-31T12:00:00.100000Z"
    event = new_event("t", 1, id="1", source="s", time=moment, key=None, subject=None, attributes=None, layout=Layout())
    assert (event.time, event.time.utcoffset()) == (moment, timedelta(0))


def test_a_time_without_a_zone_is_told_as_the_time() -> None:
    """By the name of the field."""
    with pytest.raises(InvalidEvent) as caught:
        rfc3339(datetime(2026, 1, 1))  # noqa: DTZ001 -- the point of the test
    assert caught.value.field == "time"
    assert caught.value.reason == "has no time zone; use datetime.now(timezone.utc)."


def test_an_envelope_names_what_it_refuses() -> None:
    """An attribute that would forge a field of it."""
    with pytest.raises(InvalidEvent) as caught:
        cloudevent(some_event(attributes={"id": "2"}))
    assert caught.value.field == "attributes"
    assert caught.value.reason == "has the name 'id', which belongs to the envelope itself."
