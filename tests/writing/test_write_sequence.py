"""Sequences: which events have one, what order it says, and what becomes of it when keys are made again."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_scripted import ITEM, KEY, World, cancelled
from write_world import START_MS, TABLE, FakeClock, create_table, records_of

from dynamodb_outbox import Keys, Layout, Outbox
from dynamodb_outbox.core.commit.numbering import sequence_text, subject_of
from dynamodb_outbox.core.commit.targets import Tables, target_of
from dynamodb_outbox.core.limits import INT64_MAX
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import ConfigurationError, InvalidAction

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Transaction

COUNTED = Layout(version="version")
CLOCKED = Layout(version="version", version_start="clock")
DENSE = Layout(version="version", dense_versions=True)


def sequences(build: Callable[[Transaction], None], layout: Layout = COUNTED) -> list[tuple[str | None, str | None]]:
    """Return (subject, sequence) of the events of a transaction, as its records carry them, key by key."""
    world = World(layout=layout)
    with world.outbox.transaction() as tx:
        build(tx)
    found = []
    for member in world.sent():
        item = member.get("Put", {}).get("Item", {})
        if "events" in item:
            found += [(each.get("subject"), each.get("sequence")) for each in json.loads(item["events"]["S"])]
        elif "payload" in item:
            found.append((item.get("subject", {}).get("S"), item.get("seq", {}).get("S")))
    return found


# --- which events -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "number"),
    [
        (lambda tx: tx.put(ITEM, if_absent=True), 1),
        (lambda tx: tx.put(ITEM, if_version=41), 42),
        (lambda tx: tx.update(KEY, set={"n": 1}, if_absent=True), 1),
        (lambda tx: tx.update(KEY, set={"n": 1}, if_version=0), 1),
        (lambda tx: tx.delete(KEY, if_version=42), 43),
    ],
)
def test_the_number_is_the_version_written(write: Callable[[Transaction], None], number: int) -> None:
    """Put and update give the version that they write, a delete the one after; the subject names the item."""

    def build(tx: Transaction) -> None:
        tx.emit("order.changed", {})
        write(tx)

    assert sequences(build) == [("ORDER#1/META", f"{number:019d}.0000")]


def test_the_events_of_one_commit_are_told_apart() -> None:
    """Several events of an item have its version and their positions, events of other keys between them left aside."""

    def build(tx: Transaction) -> None:
        tx.put(ITEM, if_version=7)
        tx.emit("a", {})
        tx.emit("b", {}, key="CUSTOMER#1")
        tx.emit("c", {}, key="ORDER#1")

    item, version = "ORDER#1/META", "0000000000000000008"
    assert sequences(build) == [(item, f"{version}.0000"), (item, f"{version}.0001"), (None, None)]


def test_a_subject_of_the_callers_own_stays() -> None:
    """It has the sequence none the less."""

    def build(tx: Transaction) -> None:
        tx.put(ITEM, if_absent=True)
        tx.emit("a", {}, subject="order 1")

    assert sequences(build) == [("order 1", "0000000000000000001.0000")]


def _nothing_counted(tx: Transaction) -> None:
    tx.put(ITEM, overwrite=True)
    tx.update({"pk": "ORDER#1", "sk": "B"}, set={"n": 1}, if_exists=True)
    tx.check({"pk": "ORDER#1", "sk": "C"}, if_version=3)
    tx.delete({"pk": "ORDER#1", "sk": "D"})


def _two_counted(tx: Transaction) -> None:
    tx.put(ITEM, if_version=7)
    tx.delete({"pk": "ORDER#1", "sk": "B"}, if_version=2)


def _two_tables(tx: Transaction) -> None:
    tx.put(ITEM, if_version=7)
    tx.put(ITEM, if_version=7, table="other")


@pytest.mark.parametrize("write", [_nothing_counted, _two_counted, _two_tables])
def test_without_one_item_to_belong_to_there_is_no_sequence(write: Callable[[Transaction], None]) -> None:
    """No version counted in the partition, or more than one: nothing would say which is meant."""

    def build(tx: Transaction) -> None:
        write(tx)
        tx.emit("a", {})

    assert sequences(build) == [(None, None)]


def test_other_partitions_do_not_matter() -> None:
    """Of two counted items in two partitions each is the only one of its own; another table's is named with it."""

    def build(tx: Transaction) -> None:
        tx.put(ITEM, if_version=7)
        tx.put({"pk": "a/b%", "sk": "c"}, if_version=2, table="other")
        tx.emit("a", {}, key="ORDER#1")
        tx.emit("b", {}, key="a/b%")

    assert sequences(build) == [
        ("ORDER#1/META", "0000000000000000008.0000"),
        ("other/a%2Fb%25/c", "0000000000000000003.0000"),
    ]


def test_without_versions_nothing_changes() -> None:
    """A layout that counts nothing gives no event a subject or a sequence."""

    def build(tx: Transaction) -> None:
        tx.put(ITEM, if_absent=True)
        tx.emit("a", {})

    assert sequences(build, Layout()) == [(None, None)]


# --- what it says -----------------------------------------------------------------------------------------------------

numbers = st.tuples(st.integers(1, INT64_MAX) | st.integers(START_MS, START_MS + 10), st.integers(0, 9_999))


@given(numbers, numbers)
def test_the_order_of_texts_is_the_order_of_numbers(one: tuple[int, int], other: tuple[int, int]) -> None:
    """By version, then by position, for counted versions, versions of the clock, and any up to int64."""
    assert (sequence_text(*one) < sequence_text(*other)) == (one < other)


names = st.text(alphabet="ab/%2F5", min_size=1, max_size=4)
keys = {
    "shop": st.fixed_dictionaries({"pk": names, "sk": names}),
    "other": st.fixed_dictionaries({"pk": names, "sk": names}),
    "a": st.fixed_dictionaries({"id": names}),
    "b": st.fixed_dictionaries({"n": st.integers(-99, 99), "b": st.binary(min_size=1, max_size=3)}),
}
schemas = {"a": Keys("id", None), "b": Keys("n", "b", "N", "B")}
items = st.sampled_from(sorted(keys)).flatmap(lambda table: st.tuples(st.just(table), keys[table]))


@given(items, items, st.sampled_from(sorted(keys)))
def test_no_two_items_share_a_name(one: tuple[str, Any], other: tuple[str, Any], own: str) -> None:
    """The subject is the scope of a sequence: it tells items apart, whatever their tables and what their keys hold."""
    tables = Tables("shop", "shop", COUNTED, schemas)
    subjects = [subject_of(target_of("put", table, key, tables), own) for table, key in (one, other)]
    assert (subjects[0] == subjects[1]) == (one == other)


def test_how_items_are_named() -> None:
    """By the keys of their tables, with the table unless it is the outbox's own."""
    tables = Tables("shop", "shop", COUNTED, schemas)

    def named(table: str, own: str | None, **key: Any) -> str:
        return subject_of(target_of("put", table, key, tables), own)

    assert named("shop", "shop", pk="A", sk="B") == "A/B"
    assert named("shop", None, pk="A", sk="B") == "shop/A/B"
    assert named("a", "a", id="A") == "A"
    assert named("a", "shop", id="A") == "a/A/"
    assert named("b", "b", n=Decimal("1E1"), b=b"\xff\xff") == "10/%2F%2F8="


def test_a_version_beyond_int64_is_refused() -> None:
    """Its sequence would be longer than the others and so sort before them."""
    tx = World(layout=COUNTED).outbox.transaction()
    tx.put(ITEM, if_version=INT64_MAX - 1)
    with pytest.raises(InvalidAction, match="if_version="):
        tx.update({"pk": "B", "sk": "B"}, set={"a": 1}, if_version=INT64_MAX)


# --- keys that are made again -----------------------------------------------------------------------------------------


def lives(engine: Account, layout: Layout, clock: FakeClock) -> list[str]:
    """Make an item, change it, delete it, and make it again a second later; return the sequences in that order."""
    client = engine.client("dynamodb")
    create_table(client)
    outbox = Outbox(TABLE, source="s", client=client, layout=layout, clock=clock)
    steps: list[Callable[[Transaction, int], None]] = [
        lambda tx, _: tx.put(ITEM, if_absent=True),
        lambda tx, version: tx.update(KEY, set={"n": 1}, if_version=version),
        lambda tx, version: tx.delete(KEY, if_version=version),
        lambda tx, _: tx.update(KEY, set={"n": 2}, if_absent=True),
        lambda tx, version: tx.put({**ITEM, "n": 3}, if_version=version),
    ]
    version = 0
    for step in steps:
        with outbox.transaction() as tx:
            step(tx, version)
            tx.emit("order.changed", {})
        version = tx.receipt.versions.get((TABLE, "ORDER#1", "META"), 0)
        clock.pass_ms(1_000)
    stored = [decode(record, layout, source="s") for record in records_of(client, "ORDER#1")]
    return [event.sequence or "" for record in stored for event in record.events]


def test_a_key_that_is_made_again_goes_on_with_the_clock(engine: Account) -> None:
    """With version_start="clock" the second life's sequences follow those of the first, its delete included."""
    found = lives(engine, CLOCKED, FakeClock())
    assert found == sorted(set(found))
    start, again = START_MS, START_MS + 3_000
    assert found == [sequence_text(each, 0) for each in (start, start + 1, start + 2, again, again + 1)]


def test_a_key_that_is_made_again_starts_over_without_it(engine: Account) -> None:
    """From 1 the second life repeats the numbers of the first: what the clock is for."""
    assert lives(engine, COUNTED, FakeClock()) == [sequence_text(each, 0) for each in (1, 2, 3, 1, 2)]


@pytest.mark.parametrize(
    "write",
    [
        lambda tx: tx.put({**ITEM, "lines": [1]}, if_absent=True),
        lambda tx: tx.update(KEY, set={"lines": [1]}, if_absent=True),
    ],
)
def test_a_command_that_runs_again_later_is_the_same_command(write: Callable[[Transaction], None]) -> None:
    """A version of the clock is made anew on each run and is no part of the command; a counted one is."""
    runs = []
    for later_ms in (0, 5_000):
        world = World(layout=CLOCKED)
        world.clock.pass_ms(later_ms)
        with world.outbox.transaction(idempotency_key="k") as tx:
            write(tx)
            tx.emit("order.placed", {})
        assert tx.receipt.versions == {(TABLE, "ORDER#1", "META"): START_MS + later_ms}
        runs.append(world.sent()[-1]["Put"]["Item"])
    first, second = runs
    assert first["ob_guard"]["M"]["fingerprint"] == second["ob_guard"]["M"]["fingerprint"]
    assert first["ob_guard"]["M"]["versions"] != second["ob_guard"]["M"]["versions"]
    again = World(cancelled("ConditionalCheckFailed", "None", "ConditionalCheckFailed"), layout=CLOCKED)
    again.clock.pass_ms(9_000)
    again.client.items = [first]
    with again.outbox.transaction(idempotency_key="k") as tx:
        write(tx)
        tx.emit("order.placed", {})
    assert tx.receipt.replayed
    assert tx.receipt.versions == {(TABLE, "ORDER#1", "META"): START_MS}


def test_what_a_command_says_besides_its_clock_version_counts() -> None:
    """Two commands that write other content are two, under a clock version too."""
    prints = set()
    for cents in (5, 6):
        world = World(layout=CLOCKED)
        with world.outbox.transaction(idempotency_key="k") as tx:
            tx.put({**ITEM, "cents": cents}, if_absent=True)
            tx.update({"pk": "ORDER#1", "sk": "B"}, set={"n": 1}, if_absent=True)
        prints.add(world.sent()[-1]["Put"]["Item"]["ob_guard"]["M"]["fingerprint"]["S"])
    assert len(prints) == 2


def test_an_item_may_not_bring_another_version_than_the_clocks() -> None:
    """A version in the item that would be written over is refused, as with counted ones."""
    tx = World(layout=CLOCKED).outbox.transaction()
    for wrong in (1, None):
        with pytest.raises(InvalidAction, match=f"version={wrong}"):
            tx.put({**ITEM, "version": wrong}, if_absent=True)
    tx.put({**ITEM, "version": START_MS}, if_absent=True)


# --- dense versions ---------------------------------------------------------------------------------------------------


def _without_an_event(tx: Transaction) -> None:
    tx.put(ITEM, if_absent=True)


def _with_anothers_event(tx: Transaction) -> None:
    tx.put(ITEM, if_version=1)
    tx.emit("a", {}, key="CUSTOMER#1")


def _one_of_two_without(tx: Transaction) -> None:
    tx.put(ITEM, if_version=1)
    tx.put({"pk": "B", "sk": "B"}, if_version=1)
    tx.emit("a", {}, key="ORDER#1")


def _two_in_a_partition(tx: Transaction) -> None:
    _two_counted(tx)
    tx.emit("a", {})


@pytest.mark.parametrize("build", [_without_an_event, _with_anothers_event, _one_of_two_without, _two_in_a_partition])
def test_a_dense_layout_commits_no_version_without_its_event(build: Callable[[Transaction], Any]) -> None:
    """Each version written needs an event of its own: a consumer takes a missing number for a missing event."""
    world = World(layout=DENSE)
    tx = world.outbox.transaction()
    build(tx)
    with pytest.raises(InvalidAction, match=r"writes version .*dense_versions"):
        tx.commit()
    assert world.client.requests == []


@pytest.mark.parametrize(
    "build",
    [
        lambda tx: tx.put({"pk": "P", "sk": "S", "version": 7}, overwrite=True),
        lambda tx: tx.put({"pk": "P", "sk": "S", "version": 7}, if_exists=True),
        lambda tx: tx.update({"pk": "P", "sk": "S"}, set={"version": 7}, if_exists=True),
        lambda tx: tx.update({"pk": "P", "sk": "S"}, add={"version": 1}),
        lambda tx: tx.update({"pk": "P", "sk": "S"}, remove=["version"]),
        lambda tx: tx.update({"pk": "P", "sk": "S"}, expression="SET version = :v", values={":v": 7}),
        lambda tx: tx.update({"pk": "P", "sk": "S"}, expression="ADD #v :v", names={"#v": "version"}, values={":v": 7}),
    ],
)
def test_a_dense_layout_lets_nobody_set_the_version_by_hand(build: Callable[[Transaction], Any]) -> None:
    """A version that was not counted could come without an event, and would look like a gap."""
    with pytest.raises(InvalidAction, match="dense_versions"):
        build(World(layout=DENSE).outbox.transaction())


def test_a_dense_layout_leaves_attributes_of_that_name_inside_of_others_alone() -> None:
    """Only the top-level attribute is the version."""
    tx = World(layout=DENSE).outbox.transaction()
    tx.update({"pk": "P", "sk": "1"}, set={("schema", "version"): 7}, if_exists=True)
    tx.update({"pk": "P", "sk": "2"}, expression="SET a.version = :v, my_version = :v", values={":v": 7})


@pytest.mark.parametrize(
    "build",
    [
        lambda tx, n: tx.put({"pk": "P", "sk": "S", "a": 1, "version": n}, if_version=n),
        lambda tx, n: tx.update({"pk": "P", "sk": "S"}, set={"a": 1}, if_version=n),
        lambda tx, n: tx.delete({"pk": "P", "sk": "S"}, if_version=n),
        lambda tx, n: tx.check({"pk": "P", "sk": "S"}, if_version=n),
    ],
)
def test_the_version_read_is_no_part_of_a_commands_content(build: Callable[[Transaction, int], Any]) -> None:
    """A command that runs again reads the item again: it has another version, and is the same command."""
    prints = []
    for number in (3, 4):
        tx = World(layout=Layout(version="version")).outbox.transaction(idempotency_key="k")
        build(tx, number)
        guard = tx.request()["TransactItems"][-1]["Put"]["Item"]
        prints.append(guard["ob_guard"]["M"]["fingerprint"])
    assert prints[0] == prints[1]


def test_a_dense_layout_commits_what_has_its_event() -> None:
    """A version with an event; deletes and writes that count nothing need none."""

    def build(tx: Transaction) -> None:
        tx.put(ITEM, if_version=1)
        tx.emit("a", {}, key="ORDER#1")
        tx.put({"pk": "B", "sk": "B"}, overwrite=True)
        tx.delete({"pk": "C", "sk": "C"}, if_version=3)

    assert sequences(build, DENSE) == [("ORDER#1/META", "0000000000000000002.0000")]


@pytest.mark.parametrize(
    "arguments",
    [
        {"version_start": "clock"},
        {"dense_versions": True},
        {"version": "v", "version_start": 0},
        {"version": "v", "version_start": True},
        {"version": "v", "version_start": 1.0},
        {"version": "v", "version_start": "Clock"},
        {"version": "v", "version_start": None},
        {"version": "v", "dense_versions": 1},
        {"version": "v", "dense_versions": True, "version_start": "clock"},
    ],
)
def test_layouts_that_cannot_count(arguments: dict[str, Any]) -> None:
    """Settings without a version attribute, of another kind, or that contradict each other."""
    with pytest.raises(ConfigurationError, match="version"):
        Layout(**arguments)
