"""Sizes as AWS counts them: of an item, told by the engine; of an entry, told by the sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from write_world import LAYOUT, START_MS, TABLE, FakeClock, create_table, records_of, sends, some_event

from dynamodb_outbox import Outbox
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.size import entry_bytes, item_bytes, value_bytes
from dynamodb_outbox.core.commit.claiming import check_event_size
from dynamodb_outbox.core.limits import EVENTBRIDGE, ITEM_BYTES, ITEM_HEADROOM_BYTES, SinkLimits
from dynamodb_outbox.core.relay.outcome import Prepared
from dynamodb_outbox.errors import EventTooLarge, ItemTooLarge
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Event


@pytest.mark.parametrize(
    ("wire", "size"),
    [
        ({"S": "abc"}, 3),
        ({"S": "é€"}, 5),
        ({"N": "0"}, 1),
        ({"N": "27"}, 2),
        ({"N": "-27"}, 3),
        ({"N": "461"}, 3),
        ({"N": "1000000"}, 2),
        ({"N": "007"}, 2),
        ({"N": "120"}, 3),
        ({"N": "1200"}, 2),
        ({"N": "150"}, 3),
        ({"N": "-150"}, 4),
        ({"N": "15E+1"}, 3),
        ({"N": "1.5E+20"}, 3),
        ({"N": "1.5E+21"}, 2),
        ({"N": "0.5"}, 2),
        ({"N": "-0.05"}, 3),
        ({"N": "12.5"}, 3),
        ({"N": "0.00"}, 1),
        ({"N": "1E-130"}, 2),
        ({"N": "9" * 38}, 20),
        ({"B": b"12345"}, 5),
        ({"NULL": True}, 1),
        ({"BOOL": False}, 1),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"BOOL": True}]}, 3 + 3 + 2),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
        ({"SS": ["a", "é"]}, 3),
        ({"NS": ["1", "22"]}, 4),
        ({"BS": [b"a", b"bc"]}, 3),
    ],
)
def test_the_size_of_each_type(wire: dict[str, Any], size: int) -> None:
    """Each type costs what DynamoDB's guide says."""
    assert value_bytes(wire) == size


def test_an_item_costs_its_names_too() -> None:
    """Names of top-level attributes count as UTF-8."""
    assert item_bytes({"pk": {"S": "é"}, "é": {"NULL": True}}) == 2 + 2 + 2 + 1


# --- by the engine ----------------------------------------------------------------------------------------------------


@pytest.fixture
def client(engine: Account) -> Any:
    """Return a client of an account with the table."""
    made = engine.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
    create_table(made)
    return made


wire_numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-9999, max_value=9999).map(str)
wire_integers = st.integers(-(10**12), 10**12).map(lambda n: str(n * 10 ** (n % 7)))
wire_scalars = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=5).map(lambda text: {"S": text}),
    (wire_numbers | wire_integers).map(lambda text: {"N": text}),
    st.binary(max_size=5).map(lambda content: {"B": content}),
    st.sampled_from([{"NULL": True}, {"BOOL": False}]),
    st.sets(wire_integers, min_size=1, max_size=3).map(lambda members: {"NS": sorted(members)}),
    st.sets(st.text("aé", min_size=1, max_size=3), min_size=1, max_size=3).map(lambda members: {"SS": sorted(members)}),
)
wire_values = st.recursive(
    wire_scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda members: {"L": members})
        | st.dictionaries(st.text("xé", max_size=3), inner, max_size=3).map(lambda members: {"M": members})
    ),
    max_leaves=12,
)


def test_an_items_size_is_the_engines_to_the_byte(client: Any) -> None:
    """Whatever an item is made of: filled up to 400 KB by our count the engine stores it, and one byte more not."""

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(wire_values, min_size=1, max_size=4))
    def check(values: list[dict[str, Any]]) -> None:
        item: dict[str, Any] = {"pk": {"S": "K"}, "sk": {"S": "S"}, "many": {"L": values * 50}, "fill": {"S": ""}}
        free = ITEM_BYTES - item_bytes(item)
        for more, stored in ((0, True), (1, False)):
            item["fill"] = {"S": "x" * (free + more)}
            assert sends(client, {"TransactItems": [{"Put": {"TableName": TABLE, "Item": item}}]}) is stored

    check()


def test_a_record_at_the_limit_can_be_settled(client: Any) -> None:
    """The 2 KB kept free are what settling needs: the largest record is written, and marked as published."""
    outbox = Outbox(TABLE, source="s", client=client, max_event_bytes=500_000, clock=FakeClock())

    def commit(length: int) -> None:
        with outbox.transaction() as tx:
            tx.emit("t", "x" * length, key="K")

    with outbox.transaction() as tx:
        tx.emit("t", "", key="K")
    (small,) = records_of(client, "K")
    room = ITEM_BYTES - ITEM_HEADROOM_BYTES - item_bytes(small)
    with pytest.raises(ItemTooLarge) as caught:
        commit(room + 1)
    assert caught.value.size - caught.value.limit == 1
    commit(room)
    largest = max(records_of(client, "K"), key=item_bytes)
    assert item_bytes(largest) == ITEM_BYTES - ITEM_HEADROOM_BYTES
    settled = DynamoRecordStates(LAYOUT, client=client).settle(TABLE, [largest], START_MS)
    assert not settled.failed
    assert [each["state"]["S"] for each in records_of(client, "K") if each["sk"] == largest["sk"]] == ["published"]


# --- the size of an entry ---------------------------------------------------------------------------------------------

any_text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20) | st.text('\x00\x1f"', min_size=1, max_size=9)
events = st.builds(
    some_event,
    type=any_text,
    source=any_text.filter(lambda source: not source.startswith("aws.")),
    payload=any_text.map(dump_payload),
    key=any_text,
    subject=st.none() | any_text,
    sequence=st.none() | any_text,
    attributes=st.dictionaries(st.text("abc", min_size=4, max_size=6), any_text, max_size=3),
)


@given(events)
def test_an_event_is_counted_as_the_sink_counts_it(event: Event) -> None:
    """An event of n bytes by the sink passes a limit of n and not one of n - 1: no shortcut changes that."""
    prepared = EventBridge("bus").prepare(event)
    assert isinstance(prepared, Prepared)
    check_event_size(event, prepared.size)
    with pytest.raises(EventTooLarge) as caught:
        check_event_size(event, prepared.size - 1)
    assert caught.value.size == prepared.size


@pytest.mark.parametrize("character", ["\x00", "\U0001f600", '"', "x"], ids=["nul", "emoji", "quote", "plain"])
@pytest.mark.parametrize("field", ["type", "source", "key", "subject", "sequence", "attributes"])
def test_the_characters_that_take_most_are_counted(field: str, character: str) -> None:
    """A field full of what JSON or UTF-8 make longest does not slip past the limit either."""
    value: Any = character * 128 if field in ("type", "source") else character * 1_000
    fields: dict[str, Any] = {"type": "t", "source": "s", "payload": "1", "key": "K"}
    event = some_event(**fields | {field: {"a": value} if field == "attributes" else value})
    prepared = EventBridge("bus").prepare(event)
    assert isinstance(prepared, Prepared)
    with pytest.raises(EventTooLarge):
        check_event_size(event, prepared.size - 1)


def test_the_least_event_is_counted() -> None:
    """What an entry has beside its fields is counted."""
    event = some_event(type="t", source="s", payload="1", key="K")
    prepared = EventBridge("bus").prepare(event)
    assert isinstance(prepared, Prepared)
    check_event_size(event, prepared.size)
    with pytest.raises(EventTooLarge):
        check_event_size(event, prepared.size - 1)


def test_an_entry_counts_what_its_bus_says() -> None:
    """The members that count, text or lists of text, and the overhead, come from the limits as data."""
    entry = {"Source": "é", "DetailType": "ab", "Detail": "{}", "Resources": ["abc", "é"], "EventBusName": "bus"}
    assert entry_bytes(entry, EVENTBRIDGE) == 14 + 2 + 2 + 2 + 3 + 2
    assert entry_bytes(entry, SinkLimits(10, 1, 1)) == 0
