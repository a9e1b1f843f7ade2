"""The values that everything stands on: identifiers, events, layouts, the system's clock and entropy."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import uuid
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.core.record.schema import GUARD_SORT_KEY
from dynamodb_outbox.errors import ConfigurationError, InvalidEvent
from dynamodb_outbox.event import Event
from dynamodb_outbox.ids import ENTROPY_BYTES, uuid7
from dynamodb_outbox.keys import Keys
from dynamodb_outbox.layout import RECORD_ATTRIBUTES, Layout

NO_NAMES: tuple[object, ...] = (5, [], True, b"x", "", "\ud800", "x" * 256)
NAMES = ("pk", "sk", "ttl", "version", "index", "prefix", "guard_prefix", "inbox_prefix")


class Word(str, Enum):
    """Names as an application may keep them."""

    PK = "PK"
    VERSION = "v"
    PREFIX = "EVENT#"


entropy = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)
milliseconds = st.integers(0, 2**48 - 1)


@given(milliseconds, entropy)
def test_an_id_is_a_uuid_of_version_7_that_carries_its_time(unix_ms: int, random: bytes) -> None:
    """Version and variant bits are those of RFC 9562, and the first 48 bits are the time."""
    made = uuid.UUID(uuid7(unix_ms, random))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == unix_ms


@given(milliseconds, milliseconds, entropy, entropy)
def test_ids_sort_by_time(first: int, second: int, one: bytes, other: bytes) -> None:
    """As text, an identifier made in an earlier millisecond comes first."""
    if first < second:
        assert uuid7(first, one) < uuid7(second, other)


@given(entropy, entropy)
def test_every_random_bit_but_the_spare_ones_reaches_the_id(one: bytes, other: bytes) -> None:
    """Two ids of one millisecond are equal only when the 74 bits that are used are equal."""
    drawn = [int.from_bytes(bits, "big") for bits in (one, other)]
    used = [(bits >> 68, bits & ((1 << 62) - 1)) for bits in drawn]
    assert (uuid7(1, one) == uuid7(1, other)) == (used[0] == used[1])


@pytest.mark.parametrize(("unix_ms", "random"), [(-1, b"0" * 10), (2**48, b"0" * 10), (1, b"0" * 9), (1, b"0" * 11)])
def test_an_id_from_bad_input_is_refused(unix_ms: int, random: bytes) -> None:
    """A time or entropy out of range is an error, never a malformed identifier."""
    with pytest.raises(ValueError, match=r"must be|needed"):
        uuid7(unix_ms, random)


def test_event_data_keeps_every_digit() -> None:
    """Whole numbers come back as int, others as Decimal with the digits that were written."""
    event = Event(
        id="1",
        type="t",
        source="s",
        payload='{"a":1.10,"b":12345678901234567890,"c":1E+3}',
        time=datetime(2026, 1, 1, tzinfo=timezone.utc),
    )
    assert event.data == {"a": Decimal("1.10"), "b": 12345678901234567890, "c": Decimal(1000)}
    assert str(event.data["a"]) == "1.10"


def test_events_compare_by_value_whether_their_data_was_read_or_not() -> None:
    """Reading `data` changes nothing about an event."""
    one, other = (
        Event(id="1", type="t", source="s", payload="{}", time=datetime(2026, 1, 1, tzinfo=timezone.utc))
        for _ in range(2)
    )
    assert one.data == {}
    assert one == other


@pytest.mark.parametrize("time", [datetime(2026, 1, 1), "2026-01-01T00:00:00Z", None])  # noqa: DTZ001 -- the case itself
def test_an_event_without_a_moment_is_refused(time: Any) -> None:
    """A time without a zone is another moment on each machine; one that is no datetime would fail when published."""
    with pytest.raises(InvalidEvent, match="time zone") as caught:
        Event(id="1", type="t", source="s", payload="{}", time=time)
    assert caught.value.field == "time"


def full_event(attributes: dict[str, str]) -> Event:
    """Return an event in which every field is set, with a cache of its data."""
    time = datetime(2026, 1, 1, tzinfo=timezone.utc)
    event = Event("1", "t", "s", '{"n":1.10}', time, "k", "sub", "001", attributes=attributes)
    assert event.data == {"n": Decimal("1.10")}
    return event


def pickled(event: Event, protocol: int = pickle.DEFAULT_PROTOCOL) -> Event:
    """Return the event after a round trip through pickle."""
    read = pickle.loads(pickle.dumps(event, protocol))  # noqa: S301 -- written on the same line
    assert isinstance(read, Event)
    return read


@pytest.mark.parametrize("attributes", [{}, {"traceparent": "00-1", "a": "b"}])
def test_an_event_is_a_value(attributes: dict[str, str]) -> None:
    """Copies, by whatever way, are equal, have the same hash, and read the same."""
    event = full_event(attributes)
    copies = [copy.copy(event), copy.deepcopy(event), dataclasses.replace(event)]
    copies += [pickled(event, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    copies.append(Event(**dataclasses.asdict(event)))
    assert {event, *copies} == {event}
    assert all(each.data == event.data and repr(each) == repr(event) for each in copies)
    assert dataclasses.asdict(event)["attributes"] == attributes
    assert event != full_event({**attributes, "other": "x"})


def test_an_events_attributes_cannot_be_changed() -> None:
    """Neither through the dict that they came from nor through the event, nor through a copy of it."""
    given_attributes = {"b": "1", "a": "2"}
    event = full_event(given_attributes)
    given_attributes["b"] = "changed"
    assert event.attributes == {"a": "2", "b": "1"}
    assert list(event.attributes.items()) == [("b", "1"), ("a", "2")]
    assert (event.attributes["a"], len(event.attributes), list(event.attributes)) == ("2", 2, ["b", "a"])
    for one in (event, copy.deepcopy(event), pickled(event)):
        with pytest.raises(TypeError):
            one.attributes["b"] = "changed"  # type: ignore[index] # the case itself


@pytest.mark.parametrize(
    "arguments",
    [
        {"pk": "id"},
        {"sk": "type"},
        {"ttl": "state"},
        {"pk": ""},
        {"pk": "x", "sk": "x"},
        {"version": "pk"},
        {"version": "ob_v"},
        {"version": "ob_pending"},
        {"version": "ob_mine"},
        {"sk": "ob_mine"},
        {"ttl": "ob_guard"},
        {"version": ""},
        {"ttl": "sk"},
        {"prefix": ""},
        {"guard_prefix": ""},
        {"inbox_prefix": ""},
        {"guard_prefix": "INBOX#X"},
        {"inbox_prefix": "IDEMP#"},
        *({name: wrong} for name in NAMES for wrong in NO_NAMES),
        {"index": "a b"},
        {"index": "ab"},
        {"prefix": GUARD_SORT_KEY[:2]},
        {"index_shards": "4"},
        {"index_shards": 4.5},
        {"index_shards": True},
        {"index_shards": -1},
        {"published_for": 5},
        {"guard_for": None},
        {"index_shards": 0},
        {"index_shards": 1001},
        {"published_for": timedelta(0)},
        {"guard_for": timedelta(seconds=59)},
        {"placement": "inline"},
        {"placement": None},
        {"payload_format": "xml"},
        {"settle": "keep"},
        {"settle": None},
        {"columns": {"ob_settle": "settle"}},
        {"own_partition": 1},
        {"own_partition": True, "placement": "table"},
        {"own_partition": True, "pk_type": "N"},
        {"sk": None},
        {"sk": None, "placement": "table", "sk_type": "N"},
        {"pk_type": "X"},
        {"sk_type": "M"},
        {"sk_type": "N"},
        {"sk": None, "placement": "table", "pk_type": "B"},
        {"own_partition": True, "prefix": "IDEMP#"},
        {"sk": None, "placement": "table", "prefix": "INBOX#1"},
        {"columns": []},
        {"columns": {"unknown": "x"}},
        {"columns": {"fingerprint": "x"}},
        {"columns": {5: "x"}},
        {"columns": {"ob_v": "v"}},
        {"columns": {"type": ""}},
        {"columns": {"type": "é" * 128}},
        {"columns": {"type": "payload"}},
        {"columns": {"type": "x", "payload": "x"}},
        {"columns": {"type": "pk"}},
        {"columns": {"type": "ob_v"}},
        {"columns": {"type": "ob_type"}},
        {"columns": {"id": "x\0key\0y"}},
        {"columns": {"type": "expires_at"}},
        {"select": "EVENT"},
        {"select": {"": "x"}},
        {"select": {"kind": ""}},
        {"select": {"kind": 5}},
        {"select": {"kind": {"prefix": ""}}},
        {"select": {"kind": {"suffix": "x"}}},
        {"select": {"kind": {}}},
        {"select": {"pk": "1"}, "pk_type": "N"},
        {"select": {"expires_at": "1"}},
    ],
)
def test_a_layout_that_cannot_work_is_refused(arguments: dict[str, Any]) -> None:
    """The error names the argument at fault."""
    with pytest.raises(ConfigurationError) as caught:
        Layout(**arguments)
    assert any(name in str(caught.value) for name in arguments)


def test_what_a_layout_can_be_told_is_said_where_it_was_told_something_else() -> None:
    """All of it, as it is to be written."""
    with pytest.raises(ConfigurationError, match="settle is 'keep'; 'expire', 'mark', 'delete' or 'none' is needed"):
        Layout(settle=cast("Any", "keep"))


@pytest.mark.parametrize(("name", "advice"), [("ob_v", False), ("ob_state", False), ("type", True)])
def test_a_name_that_records_use_is_refused_with_what_can_be_done(name: str, advice: bool) -> None:
    """Records' own names can be changed, but for those that begin with `ob_`: what is said works."""
    with pytest.raises(ConfigurationError, match="another") as caught:
        Layout(pk=name)
    assert ("columns=" in str(caught.value)) is advice
    if advice:
        assert Layout(pk=name, columns={name: f"outbox_{name}"}).pk == name


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"sk_type": "N"}, "placement='table'"),
        ({"sk": None, "placement": "table", "pk_type": "N"}, r"tables=\{name: Keys\(\.\.\.\)\}"),
        ({"placement": "table", "sk_type": "B"}, r"tables=\{name: Keys\(\.\.\.\)\}"),
    ],
)
def test_keys_that_cannot_carry_a_prefix_are_refused_with_a_way_out(options: Any, advice: str) -> None:
    """Not with the placement that the layout has already."""
    with pytest.raises(ConfigurationError, match=advice) as caught:
        Layout(**options)
    assert "placement='table'" not in str(caught.value) or "placement" not in options


def test_a_layout_keeps_plain_text() -> None:
    """A member of an Enum that is a str counts as its value, in every form that it is written in."""
    layout = Layout(pk=Word.PK, version=Word.VERSION, prefix=Word.PREFIX)
    assert [type(kept) for kept in (layout.pk, layout.version, layout.prefix)] == [str, str, str]
    assert layout == Layout(pk="PK", version="v", prefix="EVENT#")


def test_a_layout_takes_other_names() -> None:
    """Key, version and TTL attributes may be called otherwise."""
    layout = Layout(pk="PK", sk="SK", version="v", ttl="ttl", index_shards=1000)
    assert (layout.pk, layout.sk, layout.version, layout.ttl) == ("PK", "SK", "v", "ttl")
    assert "expires_at" not in RECORD_ATTRIBUTES


def test_a_layout_describes_a_schema_that_is_there_already() -> None:
    """Keys, other columns, what tells a record; dicts are copied, subclasses of str are not kept."""
    columns = {"id": Word.VERSION, "type": "kind"}
    chosen: dict[str, Any] = {"entity": Word.PREFIX, "pk": {"prefix": "EVENT#"}}
    layout = Layout(pk="id", sk=None, placement="table", columns=columns, select=chosen, sk_type="S")
    columns["type"] = "changed"
    chosen["pk"]["prefix"] = "changed"
    assert layout.columns == {"id": "v", "type": "kind"}
    assert type(layout.columns["id"]) is str
    assert layout.select == {"entity": "EVENT#", "pk": {"prefix": "EVENT#"}}
    assert (layout.column("type"), layout.column("payload")) == ("kind", "payload")
    assert layout.keys == Keys("id", None)
    assert layout.keys.types == {"id": "S"}
    assert layout.marks == {"entity": "EVENT#"}
    assert (layout.carrier, Layout(sk="range").carrier) == ("id", "range")
    for one in (copy.copy(layout), copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):  # noqa: S301 -- its own
        assert one == layout
        assert hash(one) == hash(layout)
        assert one.keys == layout.keys
    assert dataclasses.replace(layout, pk="hash").keys.pk == "hash"


def test_a_version_may_be_called_like_an_attribute_of_records() -> None:
    """It is on other items."""
    assert Layout(version="seq").version == "seq"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pk": ""}, "pk "),
        ({"pk": 5}, "pk "),
        ({"pk": "x" * 256}, "pk "),
        ({"sk": ""}, "sk "),
        ({"sk": "x" * 256}, "sk "),
        ({"pk": "a", "sk": "a"}, "sk is 'a', the name of the partition key too; they need different names."),
        ({"pk_type": "s"}, "pk_type is 's'; 'S', 'N' or 'B' is needed."),
        ({"sk_type": None}, "sk_type is None; 'S', 'N' or 'B' is needed."),
        ({"sk_type": "M"}, "sk_type is 'M'; 'S', 'N' or 'B' is needed."),
    ],
)
def test_a_key_schema_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    """The error names the argument at fault."""
    with pytest.raises(ConfigurationError) as caught:
        Keys(**arguments)
    assert str(caught.value).startswith(f"Keys: {said}")


def test_a_key_schema_says_its_attributes_in_order() -> None:
    """The partition key first; without a sort key it is alone."""
    assert list(Keys("z", "a", sk_type="N").types.items()) == [("z", "S"), ("a", "N")]
    assert Keys("z", None, "B").types == {"z": "B"}
    assert type(Keys(Word.PK).pk) is str
    assert type(Keys("z", Word.PK).sk) is str


def test_the_system_clock_agrees_with_datetime() -> None:
    """Wall-clock time is epoch milliseconds, and the monotonic one advances over a wait."""
    clock = SystemClock()
    assert abs(clock.now_ms() - datetime.now(timezone.utc).timestamp() * 1000) < 60_000
    before = clock.monotonic_ms()
    clock.sleep_ms(5)
    clock.sleep_ms(-1)
    assert clock.monotonic_ms() - before >= 4


def test_entropy_repeats_nothing_after_a_fork() -> None:
    """A child process draws other bytes than its parent, and other numbers: neither is told by what was copied."""
    source = SystemEntropy()
    source.bytes(8)
    source.unit()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, source.bytes(16) + str(source.unit()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        told = pipe.read()
    assert told[:16] != source.bytes(16)
    assert float(told[16:]) != source.unit()


def test_units_are_spread_evenly() -> None:
    """From 0 to 1, the end excluded, and each tenth as often as another."""
    source = SystemEntropy()
    drawn = [source.unit() for _ in range(20_000)]
    assert all(0 <= each < 1 for each in drawn)
    tenths = Counter(int(each * 10) for each in drawn)
    assert all(1_700 < tenths[tenth] < 2_300 for tenth in range(10))
