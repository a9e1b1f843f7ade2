"""Values through an engine and back: what is read is what was written, items by the table, events by their record."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import boto3
import pytest
from boto3.dynamodb.types import Binary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from write_world import LAYOUT, TABLE, create_table, get_item, records_of

from dynamodb_outbox import Outbox
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.limits import INT64_MAX, INT64_MIN
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import ConfigurationError, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Transaction

pytestmark = pytest.mark.usefixtures("uncovered")

KEY = {"pk": "K", "sk": "S"}
through_an_engine = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(codec="utf-8"), max_size=12)
mantissas = st.integers(-(10**38) + 1, 10**38 - 1)


def _decimal(mantissa: int, exponent: int) -> Decimal:
    """Return all digits of a mantissa, the first at an exponent. Not by arithmetic, which rounds to 28 of them."""
    digits = len(str(abs(mantissa)))
    return Decimal(f"{mantissa}E{exponent - digits + 1}")


numbers = st.builds(_decimal, mantissas, st.integers(-130, 125)) | st.integers(-(10**38) + 1, 10**38 - 1)
scalars = st.none() | st.booleans() | numbers | texts | st.binary(max_size=12)
sets = (
    st.sets(texts, min_size=1, max_size=4)
    | st.sets(numbers, min_size=1, max_size=4)
    | st.sets(st.binary(max_size=4), min_size=1, max_size=4)
)
values = st.recursive(
    scalars | sets,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)

_json_decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40).filter(
    lambda number: number.as_tuple().exponent != 0
)
datas = st.recursive(
    st.none() | st.booleans() | st.integers(INT64_MIN, INT64_MAX) | _json_decimals | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@pytest.fixture
def client(engine: Account) -> Any:
    """Return a client of an account with the table."""
    made = engine.client("dynamodb")
    create_table(made)
    return made


@pytest.fixture
def outbox(client: Any) -> Outbox:
    """Return an outbox over that table."""
    return Outbox(TABLE, source="s", client=client)


def stored(client: Any) -> dict[str, Any]:
    """Return the item in Python values, the key left out."""
    item = deserialize_item(get_item(client, "K", "S") or {})
    return {name: value for name, value in item.items() if name not in KEY}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one kind: True is not 1, and text is not a number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


# --- items ------------------------------------------------------------------------------------------------------------


def test_every_value_of_an_item_comes_back_equal(client: Any, outbox: Outbox) -> None:
    """Numbers to 38 digits and to both ends of their exponents, text of every plane, sets, binaries, empty ones too."""

    @through_an_engine
    @given(st.dictionaries(st.sampled_from("abcdé"), values, max_size=4))
    def check(attributes: dict[str, Any]) -> None:
        tx = outbox.transaction()
        tx.put({**KEY, **attributes}, overwrite=True)
        tx.commit()
        assert same(stored(client), attributes)

    check()


def test_every_value_of_an_update_and_of_a_condition_comes_back_equal(client: Any, outbox: Outbox) -> None:
    """What an update set can be required in a condition: both say the same value."""

    @through_an_engine
    @given(values)
    def check(value: Any) -> None:
        first = outbox.transaction()
        first.update(KEY, set={"a": value})
        first.commit()
        second = outbox.transaction()
        second.update(KEY, set={"b": [value]}, condition="a = :a", values={":a": value})
        second.commit()
        assert same(stored(client), {"a": value, "b": [value]})

    check()


@pytest.mark.parametrize(
    "value",
    [
        Decimal("9." + "9" * 37 + "E+125"),
        Decimal("-9." + "9" * 37 + "E+125"),
        Decimal("1E-130"),
        Decimal("-1E-130"),
        Decimal("1.2345678901234567890123456789012345678E-93"),
        10**125,
        Decimal("0E-100"),
        Decimal("-0"),
        Decimal("-0.000"),
        2**63,
        -(2**63) - 1,
        10**38 - 1,
        "",
        b"",
        [],
        {},
        {"": ""},
        "\x00\x1f\x7f\x80",
        "".join(chr(plane * 0x10000 + 0x1234) for plane in range(17)),
        "\ufffe\uffff\U0010ffff",
        {"x": {"y": [{"z": {b"", b"\x00"}}]}},
    ],
    ids=repr,
)
def test_values_at_the_edges(client: Any, outbox: Outbox, value: Any) -> None:
    """Each is stored and read as an equal value; zero has no sign there, which makes it no other number."""
    with outbox.transaction() as tx:
        tx.put({**KEY, "a": value}, overwrite=True)
    assert same(stored(client), {"a": value})


def test_conversions_of_an_item(client: Any, outbox: Outbox) -> None:
    """Tuples come back as lists, frozen sets as sets, every form of binary as bytes, numbers as Decimal."""

    class Kind(str, Enum):
        OPEN = "open"

    with outbox.transaction() as tx:
        tx.put(
            {**KEY, "a": (1, "b"), "b": frozenset({1}), "c": Binary(b"x"), "d": bytearray(b"y"), "e": Kind.OPEN},
            overwrite=True,
        )
    found = stored(client)
    assert found == {"a": [1, "b"], "b": {1}, "c": b"x", "d": b"y", "e": "open"}
    assert [type(found[name]) for name in "abcde"] == [list, set, bytes, bytes, str]
    assert type(found["a"][0]) is Decimal


def test_32_levels(client: Any, outbox: Outbox) -> None:
    """The deepest value that DynamoDB stores, as lists and as maps."""
    lists: Any = "x"
    maps: Any = "x"
    for _ in range(31):
        lists, maps = [lists], {"m": maps}
    with outbox.transaction() as tx:
        tx.put({**KEY, "lists": lists, "maps": maps}, overwrite=True)
    assert stored(client) == {"lists": lists, "maps": maps}


def test_one_dict_used_twice(client: Any, outbox: Outbox) -> None:
    """The same dict in an item, in another item and in an event, changed after each use: each has what it was given."""
    lines: dict[str, Any] = {"n": 1, "tags": ["a"]}
    with outbox.transaction() as tx:
        tx.put({**KEY, "lines": lines, "again": lines}, if_absent=True)
        lines["n"] = 2
        tx.put({"pk": "K", "sk": "T", "lines": lines}, if_absent=True)
        lines["tags"].append("b")
        event = tx.emit("t", lines)
        lines.clear()
    assert stored(client) == {"lines": {"n": 1, "tags": ["a"]}, "again": {"n": 1, "tags": ["a"]}}
    assert deserialize_item(get_item(client, "K", "T") or {})["lines"] == {"n": 2, "tags": ["a"]}
    assert event.data == {"n": 2, "tags": ["a", "b"]}
    (record,) = records_of(client, "K")
    assert decode(record, LAYOUT, source="s").events[0].data == event.data


def test_the_same_item_may_be_put_into_two_tables(client: Any, outbox: Outbox) -> None:
    """One dict for both puts: neither sees what the library fills in for the other."""
    create_table(client, "archive")
    item = {**KEY, "n": 1}
    with outbox.transaction() as tx:
        tx.put(item, if_absent=True)
        tx.put(item, if_absent=True, table="archive")
    assert item == {**KEY, "n": 1}
    assert stored(client) == {"n": 1}
    assert get_item(client, "K", "S", "archive") is not None


def test_the_client_of_a_resource_is_recognised(engine: Account) -> None:
    """It would wrap every value a second time; the error names the client to pass."""
    resource = boto3.session.Session().resource(
        "dynamodb", endpoint_url=engine.url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with pytest.raises(ConfigurationError, match=r"boto3\.client\('dynamodb'\)"):
        Outbox(TABLE, source="s", client=resource.meta.client)


# --- events -----------------------------------------------------------------------------------------------------------


def test_every_event_comes_back_equal(client: Any, outbox: Outbox) -> None:
    """Data of one event and of several in a record, read as the relay reads it: every digit, every plane, in order."""

    @through_an_engine
    @given(st.lists(datas, min_size=1, max_size=3), st.none() | texts.filter(bool))
    def check(several: list[Any], subject: str | None) -> None:
        tx = outbox.transaction()
        for data in several:
            tx.emit("t", data, key="EVENTS", subject=subject)
        ids = tx.commit().event_ids
        record = next(each for each in records_of(client, "EVENTS") if each["tx"]["M"]["id"]["S"] == tx_id(tx))
        events = decode(record, LAYOUT, source="?").events
        assert tuple(event.id for event in events) == ids
        assert [event.subject for event in events] == [subject] * len(several)
        assert [event.payload for event in events] == [dump_payload(data) for data in several]
        assert same([event.data for event in events], several)
        client.delete_item(TableName=TABLE, Key={name: record[name] for name in ("pk", "sk")})

    check()


def tx_id(tx: Any) -> str:
    """Return the id of a committed transaction."""
    token: str = tx._plan.tx
    return token


def test_conversions_of_an_event(client: Any, outbox: Outbox) -> None:
    """Moments, days, UUIDs and Enums are published as the text or the value that the rule says, and nothing else."""

    class Size(Enum):
        SMALL = 1
        PRICE = Decimal("1.10")

    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    with outbox.transaction() as tx:
        tx.emit(
            "t",
            {
                "at": moment,
                "on": moment.date(),
                "id": UUID(int=1),
                "size": Size.SMALL,
                "price": Size.PRICE,
                "pair": (1,),
            },
            key="EVENTS",
        )
    (record,) = records_of(client, "EVENTS")
    assert decode(record, LAYOUT, source="?").events[0].data == {
        "at": "2026-01-02T03:04:05.000006+00:00",
        "on": "2026-01-02",
        "id": "00000000-0000-0000-0000-000000000001",
        "size": 1,
        "price": Decimal("1.10"),
        "pair": [1],
    }


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (1.5, "Decimal('1.1')"),
        (float("inf"), "Decimal('1.1')"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        (Decimal("NaN"), ""),
        (Decimal("-Infinity"), ""),
        ((each for each in "ab"), "list(value)"),
        (map(str, "ab"), "list(value)"),
        (range(2), "list(value)"),
        (object(), "convert it first"),
    ],
    ids=["float", "inf", "surrogate", "surrogate-name", "nan", "-inf", "generator", "map", "range", "object"],
)
def test_what_would_change_is_refused_in_items_and_in_events(outbox: Outbox, value: Any, advice: str) -> None:
    """Neither place takes it; the error says where it stands and what to do."""
    tx = outbox.transaction()
    with pytest.raises(InvalidValue) as item:
        tx.put({**KEY, "lines": [{"x": value}]}, overwrite=True)
    with pytest.raises(InvalidValue) as event:
        tx.emit("t", {"lines": [{"x": value}]}, key="K")
    assert item.value.path.startswith("item.lines[0].x")
    assert event.value.path.startswith("data.lines[0].x")
    assert advice in item.value.reason
    assert advice in event.value.reason


def test_integers_that_the_bus_does_not_take(client: Any, outbox: Outbox) -> None:
    """An item stores them; an event with one is refused, because the bus would, with the way out."""
    with outbox.transaction() as tx:
        tx.put({**KEY, "n": 2**63}, overwrite=True)
        with pytest.raises(InvalidValue, match=r"data\.n: .*int64.*use text"):
            tx.emit("t", {"n": 2**63})
    assert stored(client) == {"n": 2**63}


def test_a_coroutine_is_no_data(outbox: Outbox) -> None:
    """Work that was not awaited is refused, in an event and in an item, with the word that is missing."""

    async def work() -> int:
        return 1

    places: list[Callable[[Transaction, object], object]] = [
        lambda tx, value: tx.emit("t", value, key="K"),
        lambda tx, value: tx.put({**KEY, "a": value}, overwrite=True),
    ]
    for place in places:
        forgotten = work()
        with pytest.raises(InvalidValue, match="await it first"):
            place(outbox.transaction(), forgotten)
        forgotten.close()
