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
    Gap,
    Heard,
    Intended,
    Moved,
    Raised,
    Rejected,
    Sent,
    Started,
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


def refused(name: str, at_ms: int = 12, code: str = "MalformedDetail", destination: str = "orders") -> Rejected:
    """Return a refusal; for ever, unless a code says otherwise."""
    return Rejected(at_ms, destination, 1, name, code)


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
    assert broken([Told(0, "w", "a1", "committed", 1, ("a1",)), *facts]) == {"writers_know_the_truth"}
    assert broken([*facts, Told(60, "w", "never", "failed")]) == set()


def test_a_receipt_names_the_events_that_were_committed() -> None:
    """All of them, in the order in which they were given, also when a repetition asks for it."""
    facts = good_run()
    assert broken([*facts, Told(60, "w", "a1", "committed", 2, ("a1",))]) == set()
    assert broken([*facts, Told(60, "w", "a1", "committed", 2, ("made anew",))]) == {"writers_know_the_truth"}
    assert broken([*facts, Told(60, "w", "a1", "committed", 2, ())]) == {"writers_know_the_truth"}


def test_a_repetition_may_fail_while_the_first_attempt_is_still_on_its_way() -> None:
    """What was committed before it was begun it has to find; what comes later, by another attempt, it cannot know."""
    facts = good_run()
    again, failed = Intended(3, "w", "a1", 2, ("A",), frozenset()), Told(9, "w", "a1", "failed", 2)
    assert broken([*facts, again, failed]) == {"writers_know_the_truth"}
    assert broken([again, *facts, failed]) == set()
    assert broken([again, failed, *facts]) == set()
    first = [*facts[:1], replace(failed, attempt=1), *facts[2:]]
    assert broken([*facts[-2:], *first[:-2]]) == {"writers_know_the_truth"}


def test_a_transaction_holds_what_was_meant() -> None:
    """Every item and every event, the events of a key in their order; and somebody meant it."""
    meant = Intended(0, "w", "a1", 1, ("A", "A"), frozenset({("A", "META")}))
    record_key, events, items = record("a1"), (event("x", change="a1"), event("y", change="a1", n=1)), meant.items

    def found(*facts: Fact) -> set[str]:
        return broken(list(facts), Terms(destinations=()))

    good = Committed(1, "tx", "w", "a1", ((record_key, events),), items)
    assert found(meant, good) == set()
    assert found(good) == {"committed_as_intended"}
    assert found(meant, replace(good, attempt=2)) == {"committed_as_intended"}
    assert found(meant, replace(good, items=frozenset())) == {"committed_as_intended"}
    assert found(meant, replace(good, items=items | {("A", "OTHER")})) == {"committed_as_intended"}
    for wrong in (
        (),
        ((record_key, events[:1]),),
        ((record_key, events[::-1]),),
        ((record_key, (*events, event("z", change="a1", n=2))),),
        ((record_key, (events[0], event("y", "B", "a1", 1))),),
        ((record_key, (events[0], replace(events[1], payload="{}"))),),
        ((record_key, (events[0], event("y", change="a2", n=1))),),
    ):
        assert found(meant, replace(good, records=wrong)) == {"committed_as_intended"}, wrong
    in_two = ((record_key, events[:1]), (("A", "OUTBOX#more"), events[1:]))
    assert found(meant, replace(good, records=in_two)) == set()


def test_events_are_published_with_their_data() -> None:
    """Those of the id: neither of another event nor none; as `data` of the Detail, or as the Detail itself."""
    facts = good_run()
    place = facts.index(accepted("a2", at_ms=30))
    for entry, expected in {
        '{"Detail": "{\\"data\\": {}}"}': {"entries_carry_their_event"},
        '{"Detail": "{\\"data\\": {\\"change\\": \\"a2\\", \\"n\\": true}}"}': {"entries_carry_their_event"},
        '{"Detail": "{\\"data\\": 7}"}': {"entries_carry_their_event"},
        accepted("a1").entry: {"entries_carry_their_event"},
        '{"Detail": "{\\"change\\": \\"a2\\", \\"n\\": 0}"}': set(),
    }.items():
        facts[place] = replace(accepted("a2", at_ms=30), entry=entry)
        assert broken(facts) == expected, entry


def test_a_change_is_committed_once() -> None:
    """A second commit of the same change is a command that was applied twice."""
    again = Committed(60, "tx-other", "w", "a1", (), attempt=2)
    meant = Intended(59, "w", "a1", 2, (), frozenset())
    assert broken([*good_run(), meant, again]) == {"commands_commit_once"}


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
        [refused("a1"), Moved(35, record("a1"), "parked", 1)],
        [refused("a1"), Moved(35, record("a1"), "parked", 1, frozenset({"0"}))],
        [Discarded(35, "orders", "shard-1", ("9",), "RetryAttemptsExhausted")],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "orders", "shard-1", None)],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "orders", "shard-1", "8")],
        [Started(35, "orders", (("shard-1", "9"),))],
    ],
)
def test_parked_given_up_or_missed_is_not_lost(instead: list[Fact]) -> None:
    """These are seen by an operator, reported as a gap, or were not asked for; the checkpoint may pass."""
    assert broken(a1_instead(*instead)) == set()


@pytest.mark.parametrize(
    "instead",
    [
        [Trimmed(35, "shard-1", ("9",))],
        [Gap(35, "orders", "shard-1", None)],
        [Gap(34, "orders", "shard-1", None), Trimmed(35, "shard-1", ("9",))],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "orders", "shard-1", "9")],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "orders", "shard-2", None)],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "audit", "shard-1", None)],
        [Started(35, "orders", (("shard-1", "8"),))],
        [Started(35, "audit", (("shard-1", "9"),))],
    ],
)
def test_what_was_trimmed_after_it_was_read_is_lost(instead: list[Fact]) -> None:
    """A gap is about what was trimmed before, beyond what had been read, in this shard, by this source."""
    assert broken(a1_instead(*instead)) == {"nothing_is_lost", "checkpoint_follows_done"}


def a1_instead(*instead: Fact) -> list[Fact]:
    """Return a good run in which something else happens to the first record than being accepted and settled."""
    facts = without(good_run(), Accepted, name="a1")
    place = facts.index(Moved(40, record("a1"), "published", 1))
    return [*facts[:place], *instead, *facts[place + 1 :]]


def test_a_record_is_not_settled_because_it_is_given_up() -> None:
    """Published is what somebody got, or what is parked; not what was trimmed, discarded, or not asked for."""
    settled = Moved(36, record("a1"), "published", 1)
    for instead in (
        [Discarded(35, "orders", "shard-1", ("9",), "RetryAttemptsExhausted")],
        [Trimmed(34, "shard-1", ("9",)), Gap(35, "orders", "shard-1", None)],
        [Started(35, "orders", (("shard-1", "9"),))],
    ):
        assert broken(a1_instead(*instead, settled)) == {"settled_after_accepted"}
    assert broken(a1_instead(refused("a1"), Moved(35, record("a1"), "parked", 1), settled)) == set()


def test_parked_without_a_refusal_that_lasts() -> None:
    """Neither trouble of the bus nor of another destination is a reason, and nor is a refusal that comes later."""
    parked = Moved(35, record("a1"), "parked", 1)
    for before in (
        (),
        (refused("a1", code="InternalFailure"),),
        (refused("a2"),),
        (refused("a1", destination="audit"),),
    ):
        assert broken(a1_instead(*before, parked)) == {"parked_only_what_cannot_pass"}
    assert broken(a1_instead(parked, refused("a1"))) == {"parked_only_what_cannot_pass"}
    by_nobody = replace(parked, invocation=0)
    assert broken(a1_instead(by_nobody)) == {"parked_only_what_cannot_pass"}
    assert broken(a1_instead(refused("a1"), by_nobody)) == set()


def test_a_park_is_one_destinations() -> None:
    """The other has still to get the event, unless it refuses it as well."""
    both = Terms(destinations=("orders", "audit"))
    facts = [
        *a1_instead(refused("a1"), Moved(35, record("a1"), "parked", 1)),
        invoked(2, {"9": "a1", "10": "a2"}, at_ms=60, destination="audit"),
        accepted("a2", 2, at_ms=61, destination="audit"),
        Answered(62, 2, "", ()),
        Checkpointed(63, "audit", "shard-1", "10"),
    ]
    assert broken(facts, both) == {"nothing_is_lost", "checkpoint_follows_done"}
    at = len(facts) - 2
    assert broken([*facts[:at], refused("a1", destination="audit"), *facts[at:]], both) == set()


def test_a_shard_is_read_to_its_end() -> None:
    """Also beyond the last event: what is not passed, and was not missed, comes again and again."""
    facts, more = good_run(), written("a1", "11", kind="MODIFY", at_ms=60)
    assert broken([*facts, more]) == {"everything_ends"}
    assert broken([*facts, more, Checkpointed(70, "orders", "shard-1", "11")]) == set()
    assert broken([*facts, more, Trimmed(70, "shard-1", ("11",)), Gap(71, "orders", "shard-1", "10")]) == set()
    numbers = [written("a1", number, kind="MODIFY", at_ms=60) for number in ("100", "99")]
    assert broken([*facts, *numbers, Checkpointed(70, "orders", "shard-1", "99")]) == {"everything_ends"}


def test_nothing_is_invoked_for_ever() -> None:
    """Long after the last commit and the last fault a function has nothing to do any more."""
    facts, late_ms = good_run(), 700_000
    again = [invoked(2, {"10": "a2"}, at_ms=late_ms), Answered(late_ms + 1, 2, "", ())]
    assert broken([*facts, *again]) == {"everything_ends"}
    assert broken([*facts, Faulted(late_ms // 2, "trim", "stream"), *again]) == set()


def test_a_park_of_other_events_of_the_record_does_not_count() -> None:
    """A record of two events of which one is parked: the other has still to be accepted."""
    facts: list[Fact] = [
        *committed("a1", "x", "y"),
        written("a1", "9"),
        invoked(1, {"9": "a1"}),
        refused("y"),
        Moved(35, record("a1"), "parked", 1, frozenset({"1"})),
        Answered(50, 1, "", ()),
        Checkpointed(51, "orders", "shard-1", "9"),
    ]
    assert broken(facts) == {"nothing_is_lost", "checkpoint_follows_done"}
    assert broken([*facts[:-2], accepted("x", change="a1"), *facts[-2:]]) == set()


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
    assert broken([*facts[:at], replace(again, entry=again.entry + " "), *facts[at:]]) == {"one_id_one_entry"}


def test_order_of_a_key() -> None:
    """The first acceptance counts: a duplicate of an earlier event may follow, an overtaking may not."""
    facts = good_run()
    first, second = (facts.index(accepted(name, at_ms=at)) for name, at in (("a1", 20), ("a2", 30)))
    facts[first], facts[second] = accepted("a2", at_ms=20), accepted("a1", at_ms=30)
    assert broken(facts) == {"order_per_key"}
    assert broken(facts, Terms(ordered_keys=False)) == set()
    park = [refused("a1"), Moved(15, record("a1"), "parked", 1)]
    assert broken([*facts[:first], *park, *facts[first:]]) == set()
    assert broken([*facts[: second + 1], *park, *facts[second + 1 :]]) == {"order_per_key"}


def test_order_within_a_record() -> None:
    """It is a promise of its own, which holds where that between records does not."""
    facts: list[Fact] = [
        *committed("a1", "x", "y"),
        written("a1", "9"),
        invoked(1, {"9": "a1"}),
        accepted("y", change="a1", n=1),
        accepted("x", change="a1"),
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


def test_settled_otherwise_than_the_record_says() -> None:
    """Deleted where it is kept, kept where it is deleted, or written to at all: its writer counts on what it said."""
    kept = good_run()
    deleted = [replace(fact, gone=True) if isinstance(fact, Moved) else fact for fact in kept]
    as_it_says = {"expire": kept, "mark": kept, "delete": deleted, "none": without(kept, Moved)}
    for settle, right in as_it_says.items():
        assert broken(right, Terms(settle=settle)) == set()
        for facts in (kept, deleted):
            if facts is not right:
                assert broken(facts, Terms(settle=settle)) == {"settled_as_it_says"}


def test_a_record_that_nothing_settles_is_settled_once_it_was_parked() -> None:
    """Then it is in the index, and has to leave it."""
    parked = a1_instead(refused("a1"), Moved(35, record("a1"), "parked", 1))
    parked.remove(Moved(40, record("a2"), "published", 1))
    assert broken([*parked, Moved(60, record("a1"), "published", 0)], Terms(settle="none")) == set()
    assert broken([*parked, Moved(60, record("a2"), "published", 0)], Terms(settle="none")) == {"settled_as_it_says"}


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
    strange = Answered(62, 2, "…", (), "batchItemFailures names 9, which is not in the batch")
    (found,) = check([*facts, invoked(2, {"10": "a2"}, at_ms=60), strange], Terms())
    assert found.invariant == "answers_name_the_batch"
    assert strange.whole in found.words
    assert broken([*facts, strange]) == {"answers_name_the_batch"}
    assert broken([*facts, invoked(2, {"10": "a2"}, at_ms=60), Answered(62, 2, "…", ("10",))]) == set()


def test_a_time_out_needs_a_hang() -> None:
    """A function that ran into its time-out is at fault unless a call of it hung."""
    facts = good_run()
    late = [invoked(2, {"10": "a2"}, at_ms=60), Ended(99, 2, "timeout")]
    assert broken([*facts, *late]) == {"ends_in_time"}
    assert broken([*facts, *late, Faulted(61, "function_timeout", "events", 2)]) == set()
    assert broken([*facts, *late, Faulted(61, "slow", "events", 2)]) == {"ends_in_time"}
    assert broken([*facts, Ended(99, 3, "timeout")]) == {"ends_in_time"}


def test_a_death_needs_a_crash() -> None:
    """A process that ended is at fault, unless a crash struck it in this invocation."""
    facts = good_run()
    died = [invoked(2, {"10": "a2"}, at_ms=60), Ended(99, 2, "crash")]
    assert broken([*facts, *died]) == {"dies_of_a_crash_alone"}
    assert broken([*facts, *died, Faulted(61, "crash", "orders", 2)]) == set()
    assert broken([*facts, *died, Faulted(61, "crash", "orders", 1)]) == {"dies_of_a_crash_alone"}
    assert broken([*facts, Ended(99, 3, "crash")]) == {"dies_of_a_crash_alone"}


def test_requests_under_way_at_the_end() -> None:
    """An answer while a request is under way is found, and a request after it; a late act of a server is not."""
    sent, heard = Sent(12, "orders", "PutEvents", 1, 7, "i-1"), Heard(55, "orders", "PutEvents", 1, 7, "")
    facts = good_run()
    assert broken([*facts[:7], sent, *facts[7:], heard]) == {"nothing_after_the_end"}
    assert broken([*facts[:7], sent, heard, *facts[7:], accepted("a2", 1, at_ms=70)]) == set()
    assert broken([*facts, sent, heard]) == {"nothing_after_the_end"}
    crash = Faulted(64, "crash", "orders", 2)
    crashed = [invoked(2, {"10": "a2"}, at_ms=60), replace(sent, invocation=2), crash, Ended(65, 2, "crash")]
    assert broken([*facts, *crashed, accepted("a2", 2, at_ms=70)]) == set()


def test_events_without_a_key_are_known_by_their_partition() -> None:
    """An event that was recorded before its key was resolved has the partition of its record as key."""
    bare = replace(event("z"), key=None)
    facts: list[Fact] = [Committed(0, "tx", "w", "c", ((("B", "OUTBOX#z"), (bare,)),))]
    found = {violation.invariant: violation for violation in check(facts, Terms())}
    assert found["nothing_is_lost"].words.startswith("B.1 ")
