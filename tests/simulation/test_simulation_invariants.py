"""Invariants of the simulation, each on a ledger that breaks it and on the nearest one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation_ledger import accepted, committed, event, good_run, invoked, record, written

from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Checkpointed,
    Committed,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Heard,
    Moved,
    Raised,
    Sent,
    Told,
    Trimmed,
)
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.invariants import INVARIANTS, check


def broken(facts: list[Fact], terms: Terms | None = None) -> set[str]:
    """Return the names of the invariants that a ledger breaks."""
    return {violation.invariant for violation in check(facts, terms or Terms())}


def without(facts: list[Fact], *kinds: type[Fact], name: str | None = None) -> list[Fact]:
    """Return a ledger without the facts of these kinds, of one event only when it is named."""
    return [fact for fact in facts if not isinstance(fact, kinds) or name not in (None, getattr(fact, "event_id", ""))]


def test_a_good_run_breaks_nothing() -> None:
    """Everything committed, accepted in order, settled, answered, checkpointed."""
    assert check(good_run(), Terms()) == []


def test_every_invariant_says_what_it_is_about() -> None:
    """Each has a sentence for people, and is found by its name."""
    assert all(invariant.__doc__ and name == invariant.__name__ for name, invariant in INVARIANTS.items())


def test_phantoms() -> None:
    """An id that nobody committed, or an acceptance before the commit, is a phantom; the words name it."""
    facts = good_run()
    (found,) = check([*facts, accepted("made-up", at_ms=60, invocation=0)], Terms())
    assert found.invariant == "no_phantoms"
    assert "made-up" in found.words
    assert found.facts == (accepted("made-up", at_ms=60, invocation=0),)
    early = [accepted("a1", invocation=0), *facts]
    assert "no_phantoms" in broken(early)


def test_writers_are_told_the_truth() -> None:
    """Committed means in the table by then; failed means never; unknown and death claim nothing."""
    facts = good_run()
    assert broken([*facts, Told(60, "w", "lost", "committed")]) == {"writers_know_the_truth"}
    for outcome, expected in {"failed": {"writers_know_the_truth"}, "unknown": set(), "died": set()}.items():
        assert broken([*facts, Told(60, "w", "a1", outcome)]) == expected, outcome
    assert broken([Told(0, "w", "a1", "committed"), *facts]) == {"writers_know_the_truth"}
    assert broken([*facts, Told(60, "w", "never", "failed")]) == set()


def test_a_change_is_committed_once() -> None:
    """A second commit of the same change is a command that was applied twice."""
    again = Committed(60, "tx-other", "w", "a1", ())
    assert broken([*good_run(), again]) == {"commands_commit_once"}


def test_what_is_behind_the_checkpoint_and_not_accepted_is_lost() -> None:
    """The loss shows where the checkpoint passed, and at the end; an event without a stream record is lost, too."""
    facts = [fact for fact in without(good_run(), Accepted, name="a1") if not isinstance(fact, Moved)]
    assert broken(facts) == {"nothing_is_lost", "checkpoint_follows_done"}
    unwritten = [*good_run(), *committed("a3", at_ms=60)]
    assert broken(unwritten) == {"nothing_is_lost"}


def test_what_is_not_accepted_and_not_passed_is_stuck() -> None:
    """A record that waits for ever before the checkpoint is named, with the last invocations that had it."""
    facts = without(good_run(), Accepted, Moved, Checkpointed, name="a2")
    facts = [fact for fact in facts if not isinstance(fact, (Moved, Checkpointed))]
    (found,) = check(facts, Terms())
    assert found.invariant == "everything_ends"
    assert "A.2" in found.words
    assert any(getattr(fact, "invocation", None) == 1 for fact in found.facts)


def test_each_destination_has_all_events_to_get() -> None:
    """An acceptance at one destination says nothing of the other."""
    both = Terms(destinations=("orders", "audit"))
    assert "everything_ends" in broken(good_run(), both)


@pytest.mark.parametrize(
    "instead",
    [
        Moved(35, record("a1"), "parked", 1),
        Moved(35, record("a1"), "parked", 1, frozenset({"0"})),
        Discarded(35, "orders", "shard-1", ("9",), "RetryAttemptsExhausted"),
        Trimmed(35, "shard-1", ("9",)),
    ],
)
def test_parked_given_up_or_trimmed_is_not_lost(instead: Fact) -> None:
    """These are seen by an operator or reported as a gap; the checkpoint may pass."""
    facts = [
        instead if isinstance(fact, Moved) and fact.record == record("a1") else fact
        for fact in without(good_run(), Accepted, name="a1")
    ]
    assert broken(facts) == set()


def test_a_park_of_other_events_of_the_record_does_not_count() -> None:
    """A record of two events of which one is parked: the other has still to be accepted."""
    facts: list[Fact] = [
        *committed("a1", "x", "y"),
        written("a1", "9"),
        invoked(1, {"9": "a1"}),
        Moved(35, record("a1"), "parked", 1, frozenset({"1"})),
        Answered(50, 1, "", ()),
        Checkpointed(51, "orders", "shard-1", "9"),
    ]
    assert broken(facts) == {"nothing_is_lost", "checkpoint_follows_done"}
    assert broken([*facts[:-2], accepted("x"), *facts[-2:]]) == set()


def test_a_checkpoint_before_the_acceptance_is_found_though_nothing_is_lost() -> None:
    """Had the process died in between, the event would have been lost."""
    facts = good_run()
    late = facts.pop(next(place for place, fact in enumerate(facts) if fact == accepted("a2", at_ms=30)))
    assert broken([*facts, late]) >= {"checkpoint_follows_done"}


def test_checkpoints_compare_numbers_and_not_text() -> None:
    """9 is below 10: a checkpoint at 10 passes the record 9."""
    facts = [*without(good_run(), Accepted, Moved, name="a1")]
    assert "nothing_is_lost" in broken(facts)


def test_two_forms_of_one_event() -> None:
    """One id with two contents is found; the same entry twice is a duplicate, and allowed."""
    facts = good_run()
    again = accepted("a1", 1, at_ms=35)
    at = facts.index(accepted("a2", at_ms=30)) + 1
    assert broken([*facts[:at], again, *facts[at:]]) == set()
    assert broken([*facts[:at], replace(again, entry="other"), *facts[at:]]) == {"one_id_one_entry"}


def test_order_of_a_key() -> None:
    """The first acceptance counts: a duplicate of an earlier event may follow, an overtaking may not."""
    facts = good_run()
    first, second = (facts.index(accepted(name, at_ms=at)) for name, at in (("a1", 20), ("a2", 30)))
    facts[first], facts[second] = accepted("a2", at_ms=20), accepted("a1", at_ms=30)
    assert broken(facts) == {"order_per_key"}
    assert broken(facts, Terms(ordered_keys=False)) == set()
    parked = [*facts[:first], Moved(15, record("a1"), "parked", 1), *facts[first:]]
    assert broken(parked) == set()


def test_order_within_a_record() -> None:
    """It is a promise of its own, which holds where that between records does not."""
    facts: list[Fact] = [
        *committed("a1", "x", "y"),
        written("a1", "9"),
        invoked(1, {"9": "a1"}),
        accepted("y"),
        accepted("x"),
        Answered(50, 1, "", ()),
        Checkpointed(51, "orders", "shard-1", "9"),
    ]
    assert broken(facts, Terms(ordered_keys=False)) == {"order_in_record"}
    assert broken(facts, Terms(ordered_keys=False, ordered_records=False)) == set()


def test_settled_before_accepted() -> None:
    """A record that is published in the table although its event was not accepted yet would never be swept up."""
    facts = good_run()
    moved = Moved(40, record("a2"), "published", 1)
    facts.remove(moved)
    facts.insert(facts.index(accepted("a2", at_ms=30)), replace(moved, at_ms=25))
    assert broken(facts) == {"settled_after_accepted"}
    assert broken([*good_run(), Moved(60, record("a2"), "published", 0)]) == set()


def test_published_without_an_insert() -> None:
    """A MODIFY or REMOVE in the batch is no reason to publish."""
    facts = good_run()
    more = [invoked(2, {}, at_ms=60), accepted("a1", 2, at_ms=61), Answered(62, 2, "", ())]
    assert broken([*facts, *more]) == {"published_from_inserts"}


def test_raising_after_a_part_was_accepted() -> None:
    """Raising is right when nothing was accepted, and gives up a part of the batch otherwise."""
    facts = good_run()
    nothing = [invoked(2, {"10": "a2"}, at_ms=60), Raised(62, 2, "ImageMissing")]
    part = [nothing[0], accepted("a2", 2, at_ms=61), nothing[1]]
    assert broken([*facts, *nothing]) == set()
    assert broken([*facts, *part]) == {"answers_after_partial_failure"}


def test_an_answer_that_names_something_else() -> None:
    """An identifier that is none of the batch's makes Lambda take all of it as failed."""
    facts = good_run()
    answers = [invoked(2, {"10": "a2"}, at_ms=60), Answered(62, 2, "…", ("event-id",))]
    assert broken([*facts, *answers]) == {"answers_name_the_batch"}
    assert broken([*facts, answers[0], Answered(62, 2, "…", ("10",))]) == set()


def test_a_time_out_needs_a_hang() -> None:
    """A function that ran into its time-out is at fault unless a call of it hung; a crash is nobody's fault."""
    facts = good_run()
    late = [invoked(2, {"10": "a2"}, at_ms=60), Ended(99, 2, "timeout")]
    assert broken([*facts, *late]) == {"ends_in_time"}
    assert broken([*facts, *late, Faulted(61, "function_timeout", "events", 2)]) == set()
    assert broken([*facts, *late, Faulted(61, "slow", "events", 2)]) == {"ends_in_time"}
    assert broken([*facts, late[0], Ended(99, 2, "crash")]) == set()
    assert broken([*facts, Ended(99, 3, "timeout")]) == {"ends_in_time"}


def test_requests_under_way_at_the_end() -> None:
    """An answer while a request is under way is found, and a request after it; a late act of a server is not."""
    sent, heard = Sent(12, "orders", "PutEvents", 1, 7, "i-1"), Heard(55, "orders", "PutEvents", 1, 7, "")
    facts = good_run()
    assert broken([*facts[:7], sent, *facts[7:], heard]) == {"nothing_after_the_end"}
    assert broken([*facts[:7], sent, heard, *facts[7:], accepted("a2", 1, at_ms=70)]) == set()
    assert broken([*facts, sent, heard]) == {"nothing_after_the_end"}
    crashed = [invoked(2, {"10": "a2"}, at_ms=60), replace(sent, invocation=2), Ended(65, 2, "crash")]
    assert broken([*facts, *crashed, accepted("a2", 2, at_ms=70)]) == set()


def test_events_without_a_key_are_known_by_their_partition() -> None:
    """An event that was recorded before its key was resolved has the partition of its record as key."""
    bare = replace(event("z"), key=None)
    facts: list[Fact] = [Committed(0, "tx", "w", "c", ((("B", "OUTBOX#z"), (bare,)),))]
    (found,) = check(facts, Terms())
    assert found.words.startswith("B.1 ")
