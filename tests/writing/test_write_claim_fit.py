"""Events that fit one by one and not together in one record: a claim check makes the record fit."""

from __future__ import annotations

import json
import random
import string
from typing import Any

import pytest
from write_scripted import World
from write_world import some_event

from dynamodb_outbox import ClaimCheck, Event, Layout
from dynamodb_outbox.core.codec.claim import ClaimRule
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.commit import plan
from dynamodb_outbox.core.commit.claiming import lightened
from dynamodb_outbox.core.limits import DECODED_BYTES, ITEM_BYTES, ITEM_HEADROOM_BYTES
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.encode import RecordDraft, encode_record
from dynamodb_outbox.errors import ItemTooLarge
from scripted_s3 import ScriptedS3

ROOM = ITEM_BYTES - ITEM_HEADROOM_BYTES
BELOW = 199_000
"""Bytes of data that stay below the threshold of a claim check, which is 200,000."""
DICE = random.Random(7)  # noqa: S311 -- data that does not compress, the same each time


class Claiming(World):
    """An outbox with a claim check over scripted clients."""

    def __init__(self, **options: Any) -> None:
        self.s3 = ScriptedS3()
        options = {"threshold_bytes": 200_000, "max_bytes": 64 << 20} | options
        check = ClaimCheck(
            "payloads",
            client=self.s3,
            threshold_bytes=options.pop("threshold_bytes"),
            max_bytes=options.pop("max_bytes"),
        )
        super().__init__(claim_check=check, **options)


def emit(world: World, *sizes: int, key: str = "K", noise: bool = False) -> list[Event]:
    """Commit events of these many characters of data, and return them."""
    with world.outbox.transaction() as tx:
        return [tx.emit("t", noisy(size) if noise else "x" * size, key=key) for size in sizes]


def noisy(size: int) -> str:
    """Return text that does not compress well."""
    return "".join(DICE.choices(string.ascii_letters + string.digits, k=size))


def stored(world: World, layout: Layout | None = None) -> tuple[Event, ...]:
    """Return the events of the only record, which must fit."""
    (member,) = world.sent()
    assert item_bytes(member["Put"]["Item"]) <= ROOM
    return decode(member["Put"]["Item"], layout or Layout(), source="?").events


def test_the_largest_are_claimed_until_the_record_fits() -> None:
    """Each is below the threshold, three together are too large: the largest goes, the others stay, in their order."""
    world = Claiming()
    emitted = emit(world, 150_000, BELOW, 150_001, 5)
    found = stored(world)
    assert [event.id for event in found] == [event.id for event in emitted]
    assert [event.dataref is None for event in found] == [True, False, True, True]
    assert world.s3.objects == {("payloads", f"outbox/{emitted[1].id}"): emitted[1].payload.encode()}
    assert world.s3.sent_before == [0]


def test_what_fits_is_not_claimed() -> None:
    """The claim check's threshold decides alone as long as there is room."""
    world = Claiming()
    emit(world, BELOW, BELOW)
    assert [event.dataref for event in stored(world)] == [None, None]
    assert world.s3.objects == {}


def test_as_many_as_are_needed() -> None:
    """Of ten of one size eight have to go: two fit."""
    world = Claiming()
    emit(world, *[BELOW] * 10)
    assert sum(event.dataref is not None for event in stored(world)) == 8
    assert len(world.s3.objects) == 8


def test_each_key_has_a_record_of_its_own() -> None:
    """What another key's record holds does not matter."""
    world = Claiming()
    with world.outbox.transaction() as tx:
        for key in ("A", "B", "A", "B", "B"):
            tx.emit("t", "x" * BELOW, key=key)
    records = [decode(member["Put"]["Item"], Layout(), source="?") for member in world.sent()]
    assert [[event.dataref is not None for event in record.events] for record in records] == [
        [False, False],
        [True, False, False],
    ]


def test_one_event_below_the_threshold_and_above_an_item() -> None:
    """A threshold may be above what an item takes, where the bus takes more: then the item decides."""
    for layout in (Layout(), Layout(payload_format="map")):
        world = Claiming(threshold_bytes=900_000, max_event_bytes=1_000_000, layout=layout)
        with world.outbox.transaction() as tx:
            event = tx.emit("t", {"a": "x" * 500_000}, key="K")
        (found,) = stored(world, layout)
        assert found.dataref is not None
        assert list(world.s3.objects) == [("payloads", f"outbox/{event.id}")]


@pytest.mark.parametrize("noise", [False, True])
def test_compressed_records_claim_what_does_not_compress(noise: bool) -> None:
    """What fits when it is compressed stays in the table; what does not goes."""
    world = Claiming(compression="gzip")
    emit(world, *[BELOW] * 10, noise=noise)
    claims = sum(event.dataref is not None for event in stored(world))
    assert (claims > 0) is noise
    assert claims < 10


def test_compressed_records_fit_after_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an event saves in compressed data is not known, so each round takes twice as many as the one before.

    Here each saves a tenth of what is reckoned.
    """
    rounds: list[int] = []

    def counted(record: RecordDraft, *arguments: Any) -> Any:
        rounds.append(len(record.events))
        return encode_record(record, *arguments)

    monkeypatch.setattr(plan, "encode_record", counted)
    world = Claiming(compression="gzip")
    with world.outbox.transaction() as tx:
        for _ in range(510):
            tx.emit("t", "x" * 6_800 + noisy(1_200), key="K")
    claims = sum(event.dataref is not None for event in stored(world))
    assert 50 < claims < 300
    assert len(rounds) <= 2 + claims.bit_length()


def test_more_than_a_reader_decompresses() -> None:
    """The bound on decompressed data is met in the same way."""
    world = Claiming(compression="gzip")
    emit(world, *[BELOW] * 22)
    assert 22 * BELOW > DECODED_BYTES
    assert any(event.dataref is not None for event in stored(world))


def test_small_events_alone_are_too_large() -> None:
    """References would not be smaller: nothing is stored, and the error is the one without a claim check."""
    world = Claiming()
    with pytest.raises(ItemTooLarge):
        emit(world, *[300] * 1_500)
    assert world.s3.objects == {}
    with pytest.raises(ItemTooLarge):
        emit(World(), BELOW, BELOW, BELOW)


def test_what_a_reader_would_not_take_is_not_claimed() -> None:
    """Data beyond the claim check's max_bytes stays in the record, or nothing can be done."""
    world = Claiming(max_bytes=180_000)
    emit(world, 190_000, 150_000, 150_000)
    assert [event.dataref is None for event in stored(world)] == [True, False, True]
    with pytest.raises(ItemTooLarge):
        emit(Claiming(max_bytes=1_000), BELOW, BELOW, BELOW)


def test_a_command_claims_the_same_data_each_time_it_runs() -> None:
    """The same events of it, and which these are is no part of its content: a threshold may change between two runs."""
    told = []
    for threshold in (200_000, 200_000, 100_000):
        world = Claiming(threshold_bytes=threshold)
        with world.outbox.transaction(idempotency_key="c") as tx:
            for _ in range(3):
                tx.emit("t", "x" * BELOW, key="K")
        record, guard = (member["Put"]["Item"] for member in world.sent())
        by_reference = [event.dataref is not None for event in decode(record, Layout(), source="?").events]
        told.append((by_reference, guard["ob_guard"]["M"]["fingerprint"]))
    assert [claims for claims, _ in told] == [[True, False, False]] * 2 + [[True] * 3]
    assert len({fingerprint["S"] for _, fingerprint in told}) == 1


def test_the_largest_first_and_no_more_than_needed() -> None:
    """At least so many as are asked for, at least so many bytes, never one that is a reference already."""
    rule = ClaimRule("b", "p/", 1, 10_000)
    events = [some_event(f"{n}", payload=json.dumps("x" * size)) for n, size in enumerate((3_000, 9_000, 600, 100))]

    def claimed(excess: int, least: int) -> list[int]:
        lighter, claims = lightened(events, rule, excess, least=least)
        by_reference = [n for n, event in enumerate(lighter) if event.dataref is not None]
        assert sorted(int(claim.key[2:]) for claim in claims) == by_reference
        return by_reference

    assert claimed(1, least=1) == [1]
    assert claimed(9_000, least=1) == [0, 1]
    assert claimed(1, least=2) == [0, 1]
    assert claimed(99_999, least=9) == [0, 1, 2]
    again, claims = lightened(lightened(events, rule, 1, least=1)[0], rule, 1, least=1)
    assert [n for n, event in enumerate(again) if event.dataref is not None] == [0, 1]
    assert [claim.key for claim in claims] == ["p/0"]
