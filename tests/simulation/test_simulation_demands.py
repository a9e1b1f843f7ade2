"""Invariants of a relay's own work and of its source, each on a ledger that breaks it and on one that does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from simulation_ledger import accepted, committed, event, good_run, invoked, record, written

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.testing.simulation.facts import (
    Answered,
    Discarded,
    Fact,
    Faulted,
    Gap,
    Heard,
    Invoked,
    Left,
    LeftRecord,
    Moved,
    Rejected,
    Sent,
    Trimmed,
    Written,
)
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.invariants import check


def broken(facts: list[Fact], terms: Terms | None = None) -> set[str]:
    """Return the names of the invariants that a ledger breaks."""
    return {violation.invariant for violation in check(facts, terms or Terms())}


# --- what is on the bus ---

DATA = {"change": "a2", "n": 0}
DETAIL = json.loads(cloudevent(event("a2")))


def with_entry(**fields: Any) -> list[Fact]:
    """Return a run in which a2 is published so; `detail` is what is in the Detail."""
    facts = good_run()
    place = facts.index(accepted("a2", at_ms=30))
    detail = fields.pop("detail", {"data": DATA})
    entry = {"Source": "shop", "DetailType": "order.placed", "Detail": json.dumps(detail), **fields}
    facts[place] = replace(accepted("a2", at_ms=30), entry=json.dumps(entry))
    return facts


@pytest.mark.parametrize(
    "fields",
    [
        {"detail": DATA},
        {"detail": DETAIL},
        {"Time": "2026-01-31 12:00:00+00:00"},
        {"Time": "2026-01-31T13:00:00+01:00"},
    ],
)
def test_an_entry_may_have_any_form_that_says_what_is_so(fields: dict[str, Any]) -> None:
    """The data as the Detail itself, or in it; a CloudEvent, or something of the relay's own; with the time or not."""
    assert broken(with_entry(**fields)) == set()


@pytest.mark.parametrize(
    "fields",
    [
        {"detail": {"data": {}}},
        {"detail": {"data": 7}},
        {"detail": {"data": {**DATA, "more": 1}}},
        {"detail": {"data": {"change": "a1", "n": 0}}},
        {"Source": "relay"},
        {"DetailType": "event"},
        {"Time": "2026-01-31 12:00:01+00:00"},
        {"Time": "2026-01-31 12:00:00"},
        {"Time": "noon"},
        *(
            {"detail": {**DETAIL, name: "other"}}
            for name in ("source", "type", "time", "partitionkey", "subject", "sequence")
        ),
        {"detail": {name: value for name, value in DETAIL.items() if name != "partitionkey"}},
    ],
)
def test_an_entry_says_of_its_event_what_was_committed(fields: dict[str, Any]) -> None:
    """In its own fields and in the envelope; nothing else, and nothing of another event's."""
    assert broken(with_entry(**fields)) == {"entries_carry_their_event"}


# --- what is in the table at the end ---

PUBLISHED = (LeftRecord(record("a1"), "published"), LeftRecord(record("a2"), "published"))


def parked_run(*left: LeftRecord, events: frozenset[str] | None = None) -> list[Fact]:
    """Return a run in which a1 is parked in place of being accepted, and what is left then."""
    facts = [
        fact for fact in good_run() if fact not in (accepted("a1", at_ms=20), Moved(40, record("a1"), "published", 1))
    ]
    place = facts.index(accepted("a2", at_ms=30))
    facts[place:place] = [
        Rejected(12, "orders", 1, "a1", "InvalidArgument"),
        Moved(13, record("a1"), "parked", 1, events),
    ]
    return [*facts, Left(99, (*left, PUBLISHED[1]))]


def test_what_was_parked_is_parked_in_the_end() -> None:
    """In the index, for the event that could not pass; whatever else is written there later."""
    zero, one = frozenset("0"), frozenset("1")
    for left in (LeftRecord(record("a1"), "parked", None, True), LeftRecord(record("a1"), "parked", zero, True)):
        assert broken(parked_run(left)) == set()
        assert broken(parked_run(LeftRecord(record("a1"), "pending"), left)) == set()
    for left in (
        LeftRecord(record("a1"), "parked", None, False),
        LeftRecord(record("a1"), "parked", one, True),
        LeftRecord(record("a1"), "pending", None, True),
        LeftRecord(record("a1"), "published"),
        LeftRecord(record("a3"), "parked", None, True),
    ):
        assert "parked_stays_parked" in broken(parked_run(left)), left
    assert broken(parked_run()) == {"parked_stays_parked"}
    assert broken(parked_run()[:-1]) == set()


def test_what_was_parked_may_be_accepted_later_or_deleted_by_somebody() -> None:
    """A bus may be wrong for a while; and an operator may do what he likes, with what stands for the record, too."""
    later = parked_run()
    assert broken([*later[:-1], accepted("a1", at_ms=98), later[-1]]) == set()
    for sort_key in (record("a1")[1], f"{record('a1')[1]}#parked"):
        gone = Written(90, "REMOVE", ("A", sort_key), "shard-1", "1", "operator")
        assert "parked_stays_parked" not in broken([gone, *parked_run()])
        assert "parked_stays_parked" in broken([replace(gone, by="orders"), *parked_run()])


@pytest.mark.parametrize(
    ("settle", "kept_ms", "right"),
    [
        ("expire", 60_000, True),
        ("expire", 31_000, True),
        ("expire", 0, False),
        ("expire", None, False),
        ("expire", 1_769_860_800_000, False),
        ("mark", None, True),
        ("mark", 60_000, False),
        ("none", 60_000, True),
        ("none", 0, False),
    ],
)
def test_a_record_is_kept_for_as_long_as_it_says(settle: Any, kept_ms: int | None, *, right: bool) -> None:
    """By its TTL, from when it was settled on; where clocks jump or calls are lost, about so long."""
    settled = [replace(one, kept_ms=kept_ms, keep_ms=60_000) if isinstance(one, Moved) else one for one in good_run()]
    if settle == "none":
        parks = [Moved(9, record(name), "parked", 1) for name in ("a1", "a2")]
        settled[6:6] = [*parks, *(Rejected(8, "orders", 1, name, "InvalidArgument") for name in ("a1", "a2"))]
    names = broken(settled, Terms(settle=settle))
    assert ("settled_as_it_says" in names) is not right
    struck = broken([Faulted(5, "clock_jump", "orders", 1), *settled], Terms(settle=settle))
    assert ("settled_as_it_says" in struck) is (not right and kept_ms != 0)


def test_what_was_accepted_is_published_in_the_end() -> None:
    """Where an invocation could settle it, and the record is one that is settled."""
    pending = LeftRecord(record("a2"), "pending")
    facts = [fact for fact in good_run() if fact != Moved(40, record("a2"), "published", 1)]
    run = [*facts, Left(99, (PUBLISHED[0], pending))]
    assert broken(run) == {"settled_in_the_end"}
    assert broken([*facts, Left(99, PUBLISHED)]) == set()
    assert broken([*facts, Left(99, PUBLISHED[:1])]) == set()
    assert broken(facts) == set()
    assert broken([fact for fact in run if not isinstance(fact, Moved)]) == set()
    assert broken([*run, Faulted(35, "settle_throttled", "table", 1)]) == set()
    assert "settled_in_the_end" not in broken(run, Terms(settle="none"))
    assert "settled_in_the_end" not in broken([fact for fact in run if not isinstance(fact, Answered)])


def test_an_instance_parks_ten_records_a_minute() -> None:
    """Not more, whatever their events are refused for; another instance has ten of its own."""
    names = [f"a{n}" for n in range(11)]

    def found(*, every_ms: int, instances: int = 1, refused: bool = True) -> set[str]:
        calls = [replace(invoked(n, {}), instance=f"i-{n % instances}", at_ms=10) for n in range(1, instances + 1)]
        parks: list[Fact] = [
            Moved(20 + every_ms * n, record(name), "parked", 1 + n % instances) for n, name in enumerate(names)
        ]
        again = [replace(fact, at_ms=fact.at_ms + 1) for fact in parks]
        events = [fact for name in names for fact in committed(name)[:1]]
        refusals = [Rejected(15, "orders", 1, name, "InvalidArgument") for name in names[: 11 if refused else 10]]
        return broken([*events, *calls, *refusals, *parks, *again]) & {"parks_are_limited"}

    assert found(every_ms=1) == {"parks_are_limited"}
    assert found(every_ms=1, instances=2) == set()
    assert found(every_ms=6_000) == set()
    assert found(every_ms=1, refused=False) == set()


# --- what is answered, and handed over ---


def test_an_answer_asks_for_what_is_open() -> None:
    """Not for a record of which it has seen all events accepted, unless something left that in doubt."""
    facts = good_run()
    place = next(n for n, fact in enumerate(facts) if isinstance(fact, Answered))
    facts[place] = replace(Answered(50, 1, "", ()), failed=("10",))
    assert broken(facts) == {"answers_name_what_is_open"}
    asked = [Sent(19, "orders", "PutEvents", 1, 7, "i-1"), Heard(31, "orders", "PutEvents", 1, 7, "")]
    assert broken([*facts[:place], *asked, *facts[place:]]) == {"answers_name_what_is_open"}
    lost = Heard(31, "orders", "PutEvents", 1, 7, "ReadTimeoutError")
    assert broken([*facts[:place], asked[0], lost, *facts[place:]]) == set()
    for kind, expected in {"entry_no_result": set(), "settle_throttled": {"answers_name_what_is_open"}}.items():
        assert broken([Faulted(20, kind, "orders", 1), *facts]) == expected
    facts[place] = replace(Answered(50, 1, "", ()), failed=("9", "10"), whole="it is not JSON")
    assert "answers_name_what_is_open" not in broken(facts)
    elsewhere = [replace(fact, invocation=9) if fact == accepted("a2", at_ms=30) else fact for fact in facts]
    elsewhere[place] = replace(Answered(50, 1, "", ()), failed=("10",))
    assert broken(elsewhere) == set()


def lanes(*facts: Fact) -> set[str]:
    """Return what a ledger of one item with two changes breaks."""
    changes = [written("x", "5"), written("x", "7", kind="MODIFY")]
    return broken([*changes, *facts]) & {"items_in_order"}


def handed(number: int, *numbers: str, lane: int = 0) -> Invoked:
    """Return the start of an invocation with stream records."""
    return replace(invoked(number, dict.fromkeys(numbers, "x")), lane=lane)


def test_the_changes_of_an_item_are_handed_over_in_their_order() -> None:
    """Each when those before it are done, or with them in one batch; in lanes, too."""
    first_done, first_open = Answered(20, 1, "", ()), Answered(20, 1, "", ("5",))
    assert lanes(handed(1, "5"), first_done, handed(2, "7")) == set()
    assert lanes(handed(1, "5", "7"), first_done) == set()
    assert lanes(handed(1, "5"), Discarded(20, "orders", "shard-1", ("5",), "Retries"), handed(2, "7")) == set()
    assert lanes(handed(1, "5"), first_open, handed(2, "5"), Answered(30, 2, "", ()), handed(3, "7")) == set()
    gap = [Trimmed(20, "shard-1", ("5",)), Gap(21, "orders", "shard-1", None)]
    assert lanes(handed(1, "5"), *gap, handed(2, "7")) == set()
    assert lanes(handed(1, "7")) == set()
    for wrong in (
        (handed(1, "5"), handed(2, "7", lane=1)),
        (handed(1, "5"), first_open, handed(2, "7")),
        (handed(1, "5"), replace(first_done, whole="no JSON"), handed(2, "7")),
        (handed(2, "7"), handed(1, "5"), first_done),
        (handed(1, "7", "5"),),
        (handed(1, "5"), handed(2, "7"), *gap),
    ):
        assert lanes(*wrong) == {"items_in_order"}, wrong
    assert lanes(handed(1, "5"), replace(handed(2, "7"), destination="audit")) == set()
