"""What is asked of a consumer, each on a ledger that breaks it and on the nearest one that does not."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from simulation_ledger import accepted, committed, good_run

from dynamodb_outbox.testing.simulation.consuming.facts import (
    Acknowledged,
    Applied,
    Claim,
    Delivered,
    Queued,
    Subscribed,
)
from dynamodb_outbox.testing.simulation.facts import Ended, Fact, Faulted, Heard, Raised, Sent
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.invariants import check
from dynamodb_outbox.testing.simulation.timeline import timeline

APPLIED = Applied(42, ("a1",), -1, ("a1",))
OTHER = Applied(43, ("a2",), -1, ("a2",))
CONSUMED: list[Fact] = [
    Subscribed(0),
    Queued(20, ("a1",), "m1"),
    Queued(30, ("a2",), "m2"),
    Delivered(41, ("a1", "a2"), -1, "consumer#1", ("m1", "m2")),
    APPLIED,
    OTHER,
    Acknowledged(44, ("a1",), -1, "m1"),
    Acknowledged(44, ("a2",), -1, "m2"),
]
"""Both events of a good run are delivered, applied and acknowledged."""


def broken(*more: Fact, without: Fact | None = None) -> dict[str, str]:
    """Return what the good run breaks with these facts before its acknowledgements, and without that one."""
    facts = [fact for fact in CONSUMED if fact is not without]
    facts[-2:-2] = more
    return {one.invariant: one.words for one in check([*good_run(), *facts], Terms())}


def test_a_consumer_that_does_well_breaks_nothing() -> None:
    """And so does a run without one."""
    assert broken() == {}
    assert check(good_run(), Terms()) == []


def test_applied_twice() -> None:
    """By another write, or within one."""
    assert broken(replace(APPLIED, own=())) == {"applied_once": "A.1 was applied twice"}
    assert broken(replace(APPLIED, events=("a1", "a1")), without=APPLIED) == {"applied_once": "A.1 was applied twice"}


def test_not_applied() -> None:
    """What was delivered has to be applied, and no own event may tell of what is not."""
    assert broken(without=APPLIED) == {
        "applied_in_the_end": "A.1 was delivered to the consumer, and never applied",
        "acknowledged_after_applied": "m1 was acknowledged before A.1 was applied",
    }
    assert broken(Applied(43, (), -1, ("a1",)), without=APPLIED)["own_events_once"] == (
        "of A.1 there is no effect and 1 events of the consumer's own"
    )


def test_an_effect_that_another_one_is_written_over() -> None:
    """It counts on from what is not there any more."""
    words = "the effect of A.2 does not count one more than what was there"
    assert broken(replace(OTHER, odd=("a2",)), without=OTHER) == {"effects_add_up": words}


@pytest.mark.parametrize(("own", "count"), [((), 0), (("a1", "a1"), 2)])
def test_own_events(own: tuple[str, ...], count: int) -> None:
    """One with each effect, neither none nor two; in which transaction does not matter."""
    words = f"of A.1 there is its effect and {count} events of the consumer's own"
    assert broken(replace(APPLIED, own=own), without=APPLIED) == {"own_events_once": words}
    apart = replace(APPLIED, own=()), Applied(43, (), -1, ("a1",))
    assert broken(*apart, without=APPLIED) == {}


def test_acknowledged() -> None:
    """After the effect, not before, and in the end; what comes again is to be acknowledged again."""
    facts = [*good_run(), *CONSUMED]
    early = [fact for fact in facts if fact is not APPLIED]
    assert {one.invariant for one in check([*early, APPLIED], Terms())} == {"acknowledged_after_applied"}
    again = Queued(50, ("a1",), "m1", again=True)
    (violation,) = check([*facts, again], Terms())
    assert violation.invariant == "acknowledged_in_the_end"
    assert violation.words == "m1 with A.1 is delivered again and again, long after the last fault"
    assert again in violation.facts
    assert check([*facts, again, Acknowledged(60, ("a1",), -2, "m1")], Terms()) == []


def test_a_consumer_may_be_killed_and_run_out_of_time() -> None:
    """What a fault has done is not held against it, what it does by itself is."""
    ended = Ended(45, -1, "crash")
    assert broken(Faulted(42, "consumer_crash", "consumer", -1), ended) == {}
    assert broken(ended) == {"dies_of_a_crash_alone": "delivery 1 died, and no crash had struck it"}
    late = Ended(45, -1, "timeout")
    assert broken(late) == {"ends_in_time": "delivery 1 ran into its time-out, and no call had hung"}
    for kind in ("consumer_frozen", "apply_lost_after", "outage", "slow"):
        assert broken(Faulted(42, kind, "consumer", -1), late) == {}
    assert broken(Faulted(42, "outage", "consumer", -2), late).keys() == {"ends_in_time"}


def test_a_consumer_answers_for_what_it_has_applied() -> None:
    """Raising makes all of its messages come again; it is right when it knows of none that was applied."""
    sent, heard = Sent(41, "consumer", "TransactWriteItems", -1, 7, "p"), Heard(43, "consumer", "Transact", -1, 7, "")
    begun, raised = CONSUMED[:4], Raised(44, -1, "KeyError: 'a'")
    rest = [OTHER, *CONSUMED[-2:]]

    def found(*facts: Fact) -> set[str]:
        return {one.words for one in check([*good_run(), *facts, *rest], Terms())}

    assert found(*begun, sent, APPLIED, heard, raised) == {"delivery 1 raised (KeyError: 'a') after A.1 was applied"}
    assert found(*begun, sent, APPLIED, replace(heard, error="ReadTimeoutError"), raised) == set()
    assert found(*begun, sent, heard, raised, replace(APPLIED, invocation=-2)) == set()
    alone = Delivered(41, ("a1",), -1, "consumer#1", ("m1",))
    assert found(*begun[:3], alone, sent, APPLIED, heard, raised) == set()


def test_effects_say_what_is_so() -> None:
    """Of their event, by its key and its data, whichever form these have; of an event of nobody's nothing is known."""
    data = {"change": "a1", "n": 0}

    def says(name: str, said: object, event: str = "a1") -> dict[str, str]:
        return broken(replace(APPLIED, said=(Claim(event, "the effect", name, said),)), without=APPLIED)

    right: list[tuple[str, object]] = [("key", "A"), *(("data", one) for one in (data, json.dumps(data)))]
    for name, said in (*right, ("data", {**data, "n": Decimal(0)})):
        assert says(name, said) == {}
    wrong: list[tuple[str, object]] = [("key", "B"), *(("data", one) for one in ({"n": 0}, "no JSON", "[]"))]
    for name, said in wrong:
        assert says(name, said) == {"effects_say_what_is_so": f"the effect of A.1 has another {name}: {said!r}"}
        assert says(name, said, "nobody's") == {}


def test_own_events_are_in_the_order_of_their_events() -> None:
    """So those of different keys have different keys; how many those of one key have is the consumer's business."""

    def told(key_of_a1: str, key_of_b1: str) -> set[str]:
        said = tuple(
            Claim(event, "an event that tells", "ordering key", key)
            for event, key in (("a1", key_of_a1), ("a2", "X"), ("b1", key_of_b1))
        )
        more = [*committed("b1", key="B"), accepted("b1"), Queued(20, ("b1",), "m3"), Applied(43, ("b1",), -1, ("b1",))]
        facts = [*good_run(), *more, *CONSUMED, replace(APPLIED, events=(), own=(), said=said)]
        return {one.words for one in check(facts, Terms()) if one.invariant == "effects_say_what_is_so"}

    for right in (("A", "B"), ("X", "Y"), ("Z", "Y")):
        assert told(*right) == set()
    assert told("B", "B") == {"an event that tells of A.1 has another ordering key: 'B'"}
    assert told("A", "X") == {"an event that tells of B.1 has another ordering key: 'X'"}


def test_an_event_that_nobody_committed_has_its_id_for_a_name() -> None:
    """What a relay makes up is delivered too."""
    strange = [accepted("x"), Queued(20, ("x",), "m3"), Acknowledged(44, ("x",), -1, "m3")]
    found = {one.invariant: one.words for one in check([*good_run(), *CONSUMED, *strange], Terms())}
    assert found["applied_in_the_end"] == "x was delivered to the consumer, and never applied"
    assert "no_phantoms" in found


def test_a_delivery_reads_as_a_story() -> None:
    """Messages by their events, deliveries by their numbers."""
    more = [Heard(45, "consumer", "GetItem", -1, 9, "ReadTimeoutError"), Applied(46, (), -1, ("a1",))]
    lines = timeline([*good_run(), *CONSUMED, *more], Terms()).splitlines()[-9:]
    assert [" ".join(line.split()) for line in lines] == [
        "0.020 s queue has m1 with A.1 on its way",
        "0.030 s queue has m2 with A.2 on its way",
        "0.041 s consumer delivery 1 begins on consumer#1 with m1 with A.1; m2 with A.2",
        "0.042 s table of the consumer has the effect of A.1 and an event that tells of A.1, by delivery 1",
        "0.043 s table of the consumer has the effect of A.2 and an event that tells of A.2, by delivery 1",
        "0.044 s queue forgets m1 with A.1, by delivery 1",
        "0.044 s queue forgets m2 with A.2, by delivery 1",
        "0.045 s consumer delivery 1 meets ReadTimeoutError in its GetItem to consumer",
        "0.046 s table of the consumer has an event that tells of A.1, by delivery 1",
    ]
    whole = timeline([*good_run(), *CONSUMED], Terms(), marked=[CONSUMED[0]])
    assert "consumer               is there: what the buses accept is to be applied" in whole
