"""Chaos: on real processes, a small day of it; and that its account sees what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from chaos import chaos
from chaos_account import Evidence, Gap, Line, Stored, account
from chaos_acts import KILLING, acts
from chaos_gate import Retention
from chaos_orders import Command, commands
from chaos_plan import Plan

from dynamodb_outbox.adapters.streams import DynamoDbStream

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account


@pytest.mark.usefixtures("uncovered")
def test_whatever_dies_nothing_is_lost(engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writers, relay and sweepers are killed and frozen, the bus fails, the stream forgets."""
    day = chaos(engine.url, engine.account, tmp_path, PLAN)
    with capsys.disabled():
        print(f"\n{day}")  # noqa: T201 -- what the test is there to show
    assert day.figures.broken == ()
    assert (day.figures.events, day.figures.accepted + day.figures.parked) == (PLAN.events, PLAN.events)
    assert day.kills >= 10
    assert day.only_swept
    assert {"entry_rejected", "entry_unacceptable"} <= day.faults.keys()


PLAN = Plan(seed=45, events=150, acts=6, pause_ms=30, without_leases=True, stalled_s=30.0)

UNASKED: Any = None
"""A client that is not used."""

A, B, C = (Command(f"0-{n}", "SHARED#1", shared=True, events=1, poison=n == 2) for n in range(3))
WELL = Evidence(
    commands=(A, B, C),
    lines={each.name: Line("SHARED#1", n, (f"e{n}",)) for n, each in enumerate((A, B, C))},
    guards={each.name: (f"e{n}",) for n, each in enumerate((A, B, C))},
    versions={"SHARED#1": 3},
    receipts={A.name: [("e0",), ("e0",)], B.name: [("e1",)]},
    accepted=("e0", "e0", "e1", "e0"),
    stored=(Stored(("e0",), "published"), Stored(("e2",), "parked")),
    pending=0,
    places={"e0": ("s", 10), "e1": ("s", 20), "e2": ("s", 30)},
)


def test_a_day_on_which_all_went_well_has_nothing_broken() -> None:
    """Each event is accepted or parked; what came again is counted."""
    figures = account(WELL)
    assert figures.broken == ()
    assert (figures.commands, figures.events, figures.accepted, figures.parked, figures.duplicates) == (3, 3, 2, 1, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accepted": ("e0",)}, "never accepted, and not parked: 1 (e1)"),
        ({"accepted": ("e0", "e1", "e9")}, "accepted, and not committed: 1 (e9)"),
        ({"accepted": ("e1", "e0")}, "reordered: 1 (('e0', 'e1'))"),
        ({"stored": (Stored(("e2",), "parked"), Stored(("e1",), "parked"))}, "parked, though the bus would have taken"),
        (
            {"stored": (Stored(("e2",), "parked"), Stored((), "a ghost: no id"))},
            "neither published nor parked: 1 (a ghost",
        ),
        ({"pending": 2}, "pending at the end: 2"),
        ({"strange": ("an item",)}, "what is no record, line, guard or lease: 1 (an item)"),
        ({"died": ("relay: 1",)}, "died by itself: 1 (relay: 1)"),
        ({"guards": {A.name: ("e0",), B.name: ("e7",), C.name: ("e2",)}}, "0-1: its guard says ('e7',)"),
        ({"receipts": {A.name: [("e0",), ("e8",)]}}, "0-0: its writer was told of"),
        ({"versions": {"SHARED#1": 4}}, "SHARED#1 has version 4, and 3 lines"),
        ({"lines": {A.name: WELL.lines[A.name], B.name: WELL.lines[B.name]}}, "not committed: 1 (0-2)"),
    ],
)
def test_what_is_broken_is_told(change: dict[str, Any], said: str) -> None:
    """Each promise, broken alone."""
    assert any(each.startswith(said) for each in account(replace(WELL, **change)).broken)


@pytest.mark.parametrize(
    ("gap", "excused"),
    [
        (Gap("s", 5, 15, None), True),
        (Gap("s", 5, 25, None), False),
        (Gap("s", 10, 15, None), False),
        (Gap("s", 15, 25, None), False),
        (Gap("other", 5, 15, None), False),
        (Gap("s", 5, None, 1), False),
    ],
)
def test_only_what_the_stream_has_lost_may_be_overtaken_and_only_from_behind(gap: Gap, excused: bool) -> None:
    """An event in a gap, by one after it; two in one gap are swept in order."""
    figures = account(replace(WELL, accepted=("e1", "e0"), gaps=(gap,)))
    assert (figures.overtaken, bool(figures.broken)) == (int(excused), not excused)


def test_the_same_seed_has_the_same_commands_and_acts() -> None:
    """A writer that starts again finds what it was about; most acts kill."""
    assert commands(3, 1, 50) == commands(3, 1, 50) != commands(4, 1, 50)
    assert sum(each.events for each in commands(3, 1, 50)) == 50
    todo = acts(3, 80, writers=3, sweepers=2)
    assert todo == acts(3, 80, writers=3, sweepers=2) != acts(4, 80, writers=3, sweepers=2)
    assert sum(act.kind in KILLING for act in todo) >= 60
    assert {act.kind for act in todo} >= {"forget", "latest", "outage", "kill all", "replace", "freeze"}


def test_a_stream_that_forgets_answers_as_aws_does() -> None:
    """What is forgotten cannot be asked for; the oldest record is the first that is left; the end is where it was."""
    retention = Retention(DynamoDbStream(UNASKED, "no stream"))
    retention._forgotten = {"s": "20"}
    after, at, oldest = "AFTER_SEQUENCE_NUMBER", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON"

    def asked(kind: str, number: str | None = None, shard: str = "s") -> Any:
        body = {"ShardId": shard, "ShardIteratorType": kind}
        return retention.asked(body if number is None else {**body, "SequenceNumber": number})

    assert asked(after, "19") is asked(at, "20") is None
    assert asked(after, "20") == asked(oldest) == {"ShardId": "s", "ShardIteratorType": after, "SequenceNumber": "20"}
    assert asked(at, "21")["SequenceNumber"] == "21"
    assert asked("LATEST") == {"ShardId": "s", "ShardIteratorType": "LATEST"}
    assert asked(oldest, shard="t") == {"ShardId": "t", "ShardIteratorType": oldest}
