"""What is asked of a sweeper, and of others beside it: on ledgers that break it, and on the nearest that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from simulation_ledger import accepted, committed, event, invoked, record, written

from dynamodb_outbox.core.sweeping.ages import AHEAD_MS
from dynamodb_outbox.testing.simulation.facts import (
    Answered,
    Checkpointed,
    Committed,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Gap,
    Heard,
    Leased,
    Left,
    LeftRecord,
    Moved,
    Operated,
    Raised,
    Rejected,
    Sent,
    Swept,
    Trimmed,
    Written,
)
from dynamodb_outbox.testing.simulation.history import Terms, history
from dynamodb_outbox.testing.simulation.invariants import check
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.recoveries import recoveries

if TYPE_CHECKING:
    from collections.abc import Sequence

SWEEP = 1_000_001
OPERATION = 2_000_001
TERMS = Terms(swept=True, min_age_ms=1_000)


def broken(facts: Sequence[Fact], terms: Terms = TERMS) -> set[str]:
    """Return the names of the invariants that a ledger breaks."""
    return {violation.invariant for violation in check(facts, terms)}


def change(name: str, at_ms: int, dated_ms: int | None = None, *, version: int | None = None) -> list[Fact]:
    """Return the facts of a change whose record has a date, its commit's unless given, and maybe a version."""
    commit, *rest = committed(name, at_ms=at_ms)
    assert isinstance(commit, Committed)
    dated = START_MS + (at_ms if dated_ms is None else dated_ms)
    if version is not None:
        one = replace(event(name), subject="item", sequence=f"{version:05d}")
        commit = replace(commit, records=((record(name), (one,)),))
    return [replace(commit, dated=(dated,)), *rest]


def swept(*names: str, at_ms: int = 5_000, ahead_ms: int = 0, number: int = SWEEP) -> list[Fact]:
    """Return a sweep that publishes events, one after the other, under a lease."""
    facts: list[Fact] = [
        Swept(at_ms, "orders", number, "sweeper#1", at_ms + 60_000, ahead_ms),
        Leased(at_ms + 1, "00", number, at_ms + 60_000),
    ]
    for n, name in enumerate(names):
        sent_ms = at_ms + 10 * n + 10
        facts += [
            Sent(sent_ms, "orders", "PutEvents", number, n + 1, "sweeper#1"),
            accepted(name, number, at_ms=sent_ms + 1),
            Heard(sent_ms + 2, "orders", "PutEvents", number, n + 1, ""),
            Moved(sent_ms + 3, record(name), "published", number),
        ]
    return [*facts, Leased(at_ms + 900, "00", number, None), Answered(at_ms + 901, number, "{}", ())]


LOST: list[Fact] = [
    written("a1", "9"),
    written("a2", "10", at_ms=6),
    Trimmed(50, "shard-1", ("9", "10")),
    Gap(51, "orders", "shard-1", None),
]
"""Both records went out of the stream unread."""


def lost(*after: Fact, first: list[Fact] | None = None, second: list[Fact] | None = None) -> list[Fact]:
    """Return a run of two events that the stream has lost, and what came after that."""
    return [*(first or change("a1", 0)), *(second or change("a2", 5)), *LOST, *after]


def test_what_the_stream_has_lost_is_swept() -> None:
    """Each event; where there is no sweeper nobody can."""
    assert broken(lost(*swept("a1", "a2"))) == set()
    assert broken(lost(*swept("a1"))) == {"nothing_is_lost"}
    assert broken(lost(*swept("a1")), Terms()) == set()


def test_what_a_sweeper_does_not_see_is_not_asked_of_it() -> None:
    """A row by hand, in no index; what somebody deleted; and what is parked, which is an operator's."""
    by_hand = committed("a2", at_ms=5)
    assert broken(lost(*swept("a1"), second=by_hand)) == set()
    deleted = Written(60, "REMOVE", record("a2"), "shard-1", "11", "operator")
    gap = [Trimmed(61, "shard-1", ("11",)), Gap(62, "orders", "shard-1", "10")]
    assert broken(lost(deleted, *gap, *swept("a1"))) == set()
    parked = Moved(4_000, record("a2"), "parked", 0, frozenset(("7",)))
    assert broken(lost(parked, *swept("a1"))) == set()


def test_what_is_too_young_is_left_to_the_relay() -> None:
    """By the clock of the sweep and the date of the record; what is dated far ahead says nothing of its age."""
    assert broken(lost(*swept("a1", "a2", at_ms=900))) == {"swept_when_old_enough"}
    assert broken(lost(*swept("a1", "a2", at_ms=900, ahead_ms=500))) == set()
    assert broken(lost(*swept("a1", "a2", at_ms=5_000, ahead_ms=-4_500))) == {"swept_when_old_enough"}
    for share, found in ((0.4, {"swept_when_old_enough"}), (0.6, set()), (1.2, set())):  # time passes in a sweep
        ahead = change("a2", 5, round(share * AHEAD_MS))
        assert broken(lost(*swept("a1", "a2"), second=ahead)) == found
    jump = Faulted(4_000, "clock_jump", "sweeper", SWEEP)
    assert broken(lost(jump, *swept("a1", "a2", at_ms=900))) == set()


def test_a_sweep_takes_what_was_first_first() -> None:
    """By date, and of one item by version, whatever the dates."""
    assert broken(lost(*swept("a2", "a1"))) == {"swept_in_order"}
    by_date = {"first": change("a1", 0, 500), "second": change("a2", 5, 100)}
    assert broken(lost(*swept("a2", "a1"), **by_date)) == set()
    versions = {"first": change("a1", 0, 500, version=1), "second": change("a2", 5, 100, version=2)}
    assert broken(lost(*swept("a2", "a1"), **versions)) == {"swept_in_order"}
    assert broken(lost(*swept("a1", "a2"), **versions)) == set()


def test_a_sweep_need_not_wait_for_what_it_cannot_see() -> None:
    """What was committed after it began, and what is parked."""
    late = [*change("a1", 0), *LOST[:1], *change("a2", 5), *LOST[1:]]
    began, *rest = swept("a2")
    assert (
        broken([*change("a2", 5), began, *change("a1", 0), *LOST, *rest, *swept("a1", at_ms=9_000, number=SWEEP + 1)])
        == set()
    )
    parked = Moved(4_000, record("a1"), "parked", 0, frozenset(("7",)))
    assert broken([*late, parked, *swept("a2")]) == set()


def test_order_beside_a_relay_is_that_of_dates_too() -> None:
    """A sweep may turn two commits round whose dates are; a relay may not, nor a sweep those of one item."""
    first, second = change("a1", 0, 500), change("a2", 5, 100)
    stream = [written("a1", "9"), written("a2", "10", at_ms=6), invoked(1, {"9": "a1", "10": "a2"}, at_ms=7_000)]
    relayed = [accepted("a1", at_ms=7_010), accepted("a2", at_ms=7_020), Moved(7_030, record("a1"), "published", 1)]
    end = [Answered(7_040, 1, "", ()), checkpoint()]
    assert broken([*first, *second, *stream, *swept("a2"), *relayed, *end]) == set()
    by_relay = [accepted("a2", at_ms=7_010), accepted("a1", at_ms=7_020), Moved(7_030, record("a1"), "published", 1)]
    settled = Moved(7_031, record("a2"), "published", 1)
    assert broken([*first, *second, *stream, *by_relay, settled, *end]) == {"order_per_key"}
    one_item = [*change("a1", 0, 500, version=1), *change("a2", 5, 100, version=2)]
    assert broken([*one_item, *stream, *swept("a2"), *relayed, *end]) == {"order_per_key", "swept_in_order"}
    deleted = Written(60, "REMOVE", record("a1"), "shard-1", "11", "operator")
    relayed_alone = [accepted("a1", at_ms=7_010), accepted("a2", at_ms=7_020)]
    gone = [deleted, *swept("a2"), *relayed_alone, Answered(7_040, 1, "", ()), checkpoint("11")]
    assert broken([*change("a1", 0), *change("a2", 5), *stream, *gone]) == set()


def checkpoint(number: str = "10") -> Fact:
    """Return the checkpoint behind all records."""
    return Checkpointed(7_050, "orders", "shard-1", number)


def test_a_sweep_publishes_under_a_lease() -> None:
    """From when it is written until its end, by the sweep's own clock, or until it is left."""
    facts = swept("a1", "a2")
    assert broken(lost(*(fact for fact in facts if not isinstance(fact, Leased)))) == {"swept_under_a_lease"}
    short = [replace(fact, until_ms=5_015) if isinstance(fact, Leased) else fact for fact in facts]
    assert broken(lost(*short)) == {"swept_under_a_lease"}
    left = [*facts[:2], Leased(5_002, "00", SWEEP, None), *facts[2:]]
    assert broken(lost(*left)) == {"swept_under_a_lease"}


def test_a_sweep_that_nothing_went_wrong_in_answers() -> None:
    """What raises for a reason may: a fault, a call that failed, an event that was refused."""
    *facts, _ = swept("a1", "a2")
    raised = Raised(5_901, SWEEP, "KeyError: 'a'")
    assert broken(lost(*facts, raised)) == {"sweeps_answer"}
    failed = Heard(5_100, "table", "UpdateItem", SWEEP, 9, "ConditionalCheckFailedException")
    refusal = Rejected(5_100, "orders", SWEEP, "a3", "ThrottlingException")
    for trouble in (failed, refusal, Faulted(5_100, "outage", "table", SWEEP)):
        assert broken(lost(*facts, trouble, raised)) == set()
    assert broken(lost(*facts, replace(failed, invocation=SWEEP + 1), raised)) == {"sweeps_answer"}


@pytest.mark.parametrize(
    ("mover", "breaks"), [(SWEEP, {"parked_is_the_operators"}), (1, {"parked_is_the_operators"}), (OPERATION, set())]
)
def test_what_is_parked_is_settled_by_an_operator(mover: int, breaks: set[str]) -> None:
    """And by nobody else, whatever the bus says."""
    facts = lost(
        Moved(4_000, record("a1"), "parked", 0, frozenset(("7",))),
        *swept("a2"),
        Operated(6_000, "orders", OPERATION, "operator#1", "redrives what is parked"),
        accepted("a1", OPERATION, at_ms=6_010),
        Moved(6_020, record("a1"), "published", mover),
        invoked(1, {}, at_ms=6_030),
        Answered(6_040, 1, "", ()),
    )
    assert broken(facts) == breaks


def test_a_sweep_leaves_alone_what_was_parked_before_it_began() -> None:
    """What is parked while it has it in hand, its bus may take from it."""
    parked = Moved(4_000, record("a1"), "parked", 0, frozenset(("7",)))
    facts = [fact for fact in swept("a1", "a2") if not (isinstance(fact, Moved) and fact.record == record("a1"))]
    assert broken(lost(parked, *facts)) == {"parked_is_the_operators"}
    began, *rest = facts
    assert broken(lost(began, parked, *rest)) == set()


def test_what_is_discarded_is_parked_no_more() -> None:
    """If an operator says so."""
    park = [Moved(4_000, record("a1"), "parked", 0), *swept("a2")]
    end = Left(9_000, (LeftRecord(record("a1"), "discarded"), LeftRecord(record("a2"), "published")))
    operated = Operated(6_000, "orders", OPERATION, "operator#1", "discards what is parked")
    facts = lost(*park, operated, Moved(6_010, record("a1"), "discarded", OPERATION), end)
    assert "parked_stays_parked" not in broken(facts)
    assert "parked_stays_parked" in broken(
        [fact for fact in facts if not isinstance(fact, Moved) or fact.state != "discarded"]
    )


def test_what_was_given_up_is_redriven_where_an_operator_does_that() -> None:
    """Unless it died with that in hand, or the stream had forgotten it."""
    given_up = Discarded(40, "orders", "shard-1", ("9", "10"), "RetryAttemptsExhausted")
    operated = Operated(6_000, "orders", OPERATION, "operator#1", "redrives what was given up")
    facts = [*committed("a1"), *committed("a2", at_ms=5), *LOST[:2], given_up, checkpoint(), operated]
    redriven = Terms(redriven=True)
    assert broken(facts, redriven) == {"nothing_is_lost"}
    assert broken(facts, Terms()) == set()
    both = [accepted("a1", OPERATION, at_ms=6_010), accepted("a2", OPERATION, at_ms=6_020)]
    assert broken([*facts, *both], redriven) == set()
    assert broken([*facts, Ended(6_010, OPERATION, "crash")], redriven) <= {"dies_of_a_crash_alone"}
    assert broken([*facts, Trimmed(5_000, "shard-1", ("9", "10"))], redriven) == set()


def test_what_became_of_a_fault_beside_a_sweeper() -> None:
    """What a sweep met is counted by what it, or another one, published after that."""

    def ways(*faults: Faulted, after: Sequence[Fact]) -> set[tuple[str, str]]:
        return set(recoveries(history(lost(*faults, *after), TERMS)))

    lost_call = Faulted(5_001, "recovery_lost_after", "table", SWEEP)
    assert ways(after=[*swept("a1")[:1], lost_call, *swept("a1", "a2")[1:]]) == {
        ("recovery_lost_after", "in the invocation")
    }
    other = swept("a1", "a2", at_ms=9_000, number=SWEEP + 1)
    assert ways(after=[*swept()[:1], lost_call, *swept()[1:], *other]) == {("recovery_lost_after", "swept")}
    assert ways(after=[*swept("a1", "a2"), lost_call]) == {("recovery_lost_after", "nothing was open")}
    trim = Faulted(50, "trim", "stream")
    trimmed = [*change("a1", 0), written("a1", "9"), trim, Trimmed(50, "shard-1", ("9",)), *LOST[3:]]
    assert set(recoveries(history([*trimmed, *swept("a1")], TERMS))) == {("trim", "swept")}
    redriven = [Operated(6_000, "orders", OPERATION, "operator#1", ""), accepted("a1", OPERATION, at_ms=6_010)]
    assert set(recoveries(history([*trimmed, *redriven], TERMS))) == {("trim", "redriven")}


def test_a_key_is_parked_from_when_it_is() -> None:
    """What a relay published behind what its stream had lost was right then; and so is what a sweep takes by date."""
    parked_keys = replace(TERMS, parks_keys=True, parked_keys=True)
    unfit = Moved(6_000, record("a1"), "parked", SWEEP, None)
    stream = [written("a1", "9"), written("a2", "10", at_ms=6), *LOST[2:]]
    began = Swept(5_500, "orders", SWEEP, "sweeper#1", 60_000)
    facts = [*change("a1", 0), *change("a2", 5), *stream, accepted("a2", at_ms=5_000), began, refused("a1"), unfit]
    assert "parked_keys_stay_parked" not in broken(facts, parked_keys)
    in_stream = [fact for fact in facts if not isinstance(fact, (Gap, Trimmed))]
    assert "parked_keys_stay_parked" in broken(in_stream, parked_keys)
    by_date = [*change("a1", 0, 500), *change("a2", 5, 100), *stream[:2], *swept("a2"), refused("a1"), unfit]
    assert "parked_keys_stay_parked" not in broken(by_date, parked_keys)
    in_order = [*change("a1", 0), *change("a2", 5), *stream[:2], *swept("a2"), refused("a1"), unfit]
    assert "parked_keys_stay_parked" in broken(in_order, parked_keys)


def refused(name: str) -> Rejected:
    """Return a refusal of what an event says."""
    return Rejected(5_900, "orders", SWEEP, name, "MalformedDetail")
