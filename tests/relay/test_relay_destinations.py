"""Several destinations in one invocation: what each is sent, when it is asked for, and what it cannot do to others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from relay_simulation import (
    CONTENT,
    FOUND,
    LIMITS,
    MISSING,
    OK,
    SILENT,
    TARGET,
    TRANSIENT,
    UNSURE,
    Simulation,
)

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import (
    NOWHERE,
    Done,
    Entry,
    Park,
    Publish,
    Settings,
    Verify,
    WaitUntil,
)
from dynamodb_outbox.core.relay.health import NEW, Health
from dynamodb_outbox.core.relay.outcome import Answered, Presence, RequestFailed, Verified

ONE = SinkLimits(1, 1000, 1000)


def entries(said: str) -> list[Entry]:
    """Return one record of one event for each word: the key and the destination, as in `a0 b1 a0`."""
    return [Entry(number, word[0], 10, None, int(word[1])) for number, word in enumerate(said.split())]


def test_each_destination_has_its_own_batches_within_its_own_limits() -> None:
    """Events of different destinations never share a request."""
    limits = [SinkLimits(2, 1000, 1000), SinkLimits(10, 25, 100)]
    simulation = Simulation(entries("a0 b1 c0 d1 e0 f1"), Settings(), limits)
    commands = simulation.start()
    assert [(one.destination, one.entries) for one in commands if isinstance(one, Publish)] == [
        (0, (0, 2)),
        (1, (1, 3)),
        (0, (4,)),
        (1, (5,)),
    ]


def test_the_order_of_a_key_holds_across_destinations() -> None:
    """The second event of a key is sent, to wherever, when the first was accepted."""
    simulation = Simulation(entries("a0 a1 a0"), Settings(), [LIMITS, LIMITS])
    assert simulation.start() == [Publish(0, (0,), 0)]
    assert Publish(1, (1,), 1) in simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert Publish(2, (2,), 0) in simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert simulation.drain() == Done(None)


def test_a_destination_that_is_closed_holds_its_keys_and_no_others() -> None:
    """The events of other keys go on to theirs; an event behind a held one waits, whatever its destination."""
    simulation = Simulation(entries("a0 b1 a1 b1"), Settings(), [LIMITS, LIMITS])
    simulation.start()
    first, second = simulation.publishes
    simulation.finish_publish(first, RequestFailed(TARGET))
    simulation.finish_publish(second, Answered((None,)))
    assert simulation.drain() == Done(0)
    assert simulation.accepted == [1, 3]


def test_poison_for_a_closed_destination_is_held_and_that_of_others_parked() -> None:
    """A park names only what may be parked now."""
    ones = [
        Entry(0, "x", 1, None, 0),
        Entry(1, "a", 1, CONTENT, 1),
        Entry(2, "b", 1, CONTENT, 0),
        Entry(3, "c", 1, CONTENT, NOWHERE),
    ]
    simulation = Simulation(ones, Settings(max_table_calls=1), [LIMITS, LIMITS])
    (park, publish) = simulation.start()
    assert isinstance(park, Park)
    assert park.record == 3, "what goes nowhere asks nobody"
    assert isinstance(publish, Publish)
    simulation.finish_publish(publish, RequestFailed(TARGET))
    simulation.finish_park(park, parked=True)
    assert [one.record for one in simulation.parks] == [1]
    assert simulation.drain() == Done(0)
    assert simulation.parked == {1, 3}


def test_each_destination_has_a_park_limit_of_its_own() -> None:
    """Ten of one are used up: an event of another is parked."""
    ones = [Entry(0, "a", 1, CONTENT, 0), Entry(1, "b", 1, CONTENT, 1)]
    simulation = Simulation(ones, Settings(), [LIMITS, LIMITS], recent_parks=[(0, 0)] * 10)
    simulation.start()
    assert [park.record for park in simulation.parks] == [1]
    assert simulation.drain() == Done(0)


# --- asked before it is published to ----------------------------------------------------------------------------------


def test_a_destination_is_asked_for_before_the_first_publish_and_once() -> None:
    """Its events wait for the answer; those of a destination that was found do not."""
    simulation = Simulation(entries("a0 b1 c0"), Settings(), [LIMITS, LIMITS], health={0: NEW})
    assert simulation.start() == [Verify(0), Publish(0, (1,), 1)]
    assert simulation.finish_verify(simulation.verifies[0]) == [Publish(1, (0, 2), 0)]
    assert simulation.drain() == Done(None)
    assert simulation.machine.carried.health[0].presence is Presence.OK


@pytest.mark.parametrize(("found", "lowest"), [(OK, None), (UNSURE, None), (MISSING, 0)])
def test_what_is_found_decides(found: Verified, lowest: int | None) -> None:
    """There, or nobody can tell: published. Missing: nothing is published, and nothing parked."""
    ones = [Entry(0, "a", 1, None, 0), Entry(1, "b", 1, CONTENT, 0)]
    simulation = Simulation(ones, Settings(), health={0: NEW})
    assert simulation.start() == [Verify(0)]
    simulation.finish_verify(simulation.verifies[0], found)
    assert simulation.drain() == Done(lowest)
    assert bool(simulation.parked) is (found is not MISSING)


def test_what_was_found_counts_for_a_minute_from_the_moment_of_asking() -> None:
    """At the last millisecond of it a publish starts, and then not before the destination was asked for again."""
    simulation = Simulation(
        entries("a0 b0 a0 b0"),
        Settings(max_in_flight=2),
        [ONE],
        health={0: NEW},
        publish_until_ms=100_000,
        table_until_ms=100_000,
    )
    simulation.start()
    simulation.now_ms = 500
    simulation.finish_verify(simulation.verifies[0])
    simulation.now_ms = 59_999
    assert Publish(2, (2,)) in simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.now_ms = 60_000
    assert Verify(0) in simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.now_ms = 60_010
    assert simulation.finish_verify(simulation.verifies[0], MISSING) == [WaitUntil(100_000)]
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert simulation.drain() == Done(3)


def test_the_next_invocation_asks_again_for_what_was_missing() -> None:
    """Nothing is known of it by then but that; what was found is handed on, until its minute is over."""
    first = Simulation(entries("a0 b1"), Settings(), [LIMITS, LIMITS], health={0: NEW, 1: NEW})
    first.start()
    first.finish_verify(first.verifies[0], MISSING)
    first.finish_verify(first.verifies[0], OK)
    first.drain()
    health = dict(enumerate(first.machine.carried.health))
    second = Simulation(entries("a0 b1"), Settings(), [LIMITS, LIMITS], health=health)
    assert second.start() == [Verify(0), Publish(0, (1,), 1)]
    second.finish_verify(second.verifies[0])
    assert second.drain() == Done(None)


def test_a_question_without_an_answer_is_asked_again_and_nothing_published_meanwhile() -> None:
    """After pauses as they are between requests; five in a row hold the destination, as five requests would."""
    simulation = Simulation(entries("a0 b0"), Settings(), health={0: NEW})
    simulation.start()
    assert simulation.finish_verify(simulation.verifies[0], SILENT) == [WaitUntil(25)]
    assert simulation.pass_time(25) == [Verify(0)]
    simulation.finish_verify(simulation.verifies[0], OK)
    assert simulation.drain() == Done(None)
    silent = Simulation(entries("a0"), Settings(), health={0: NEW})
    silent.start()
    asked = 0
    while silent.verifies:
        asked += 1
        silent.finish_verify(silent.verifies[0], SILENT)
        if silent.wake_ms is not None:
            silent.pass_time(silent.wake_ms - silent.now_ms)
    assert (asked, silent.done) == (5, Done(0))


def test_a_park_waits_for_an_answer_too() -> None:
    """Also while the breaker is open, which holds publishing alone."""
    ones = [Entry(0, "a", 1, CONTENT, 0)]
    simulation = Simulation(ones, Settings(breaker_failures=1), health={0: NEW})
    simulation.start()
    simulation.finish_verify(simulation.verifies[0], SILENT)
    assert simulation.wake_ms == 25
    simulation.pass_time(25)
    simulation.finish_verify(simulation.verifies[0], OK)
    assert simulation.drain() == Done(None)
    assert simulation.parked == {0}


@pytest.mark.parametrize("figures", [Settings(), Settings(breaker_failures=1)])
def test_a_park_that_waits_for_an_answer_keeps_the_invocation_open(figures: Settings) -> None:
    """What is accepted is settled at the end, in one call with what follows the park."""
    ones = [Entry(0, "a", 1, None, 0), Entry(1, "x", 1, CONTENT, 1), Entry(2, "x", 1, None, 0)]
    simulation = Simulation(ones, figures, [LIMITS, LIMITS], health={1: NEW})
    simulation.start()
    simulation.finish_verify(simulation.verifies[0], SILENT)
    assert simulation.finish_publish(simulation.publishes[0], Answered((None,))) == [WaitUntil(25)]
    assert simulation.pass_time(25) == [Verify(1)]
    simulation.finish_verify(simulation.verifies[0], OK)
    assert simulation.drain() == Done(None)
    assert (simulation.parked, simulation.accepted, simulation.settle_calls) == ({1}, [0, 2], 1)


@pytest.mark.parametrize("until_ms", [25, 26])
def test_a_question_for_which_no_time_is_left_keeps_nothing_open(until_ms: int) -> None:
    """What is accepted is settled at once where the pause would be over too late."""
    ones = [Entry(0, "a", 1, None, 0), Entry(1, "x", 1, CONTENT, 1)]
    simulation = Simulation(ones, Settings(), [LIMITS, LIMITS], health={1: NEW}, publish_until_ms=until_ms)
    simulation.start()
    simulation.finish_verify(simulation.verifies[0], SILENT)
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert bool(simulation.settles) is (until_ms == 25)


def test_once_missing_it_takes_more_than_a_shrug_to_publish() -> None:
    """A time-out after "there is no such bus" says nothing; it has to be found."""
    missing = Health(presence=Presence.MISSING)
    simulation = Simulation(entries("a0"), Settings(), health={0: missing})
    simulation.start()
    assert simulation.finish_verify(simulation.verifies[0], UNSURE) == [Done(0)]
    assert simulation.machine.carried.health[0].presence is Presence.MISSING


def test_after_a_fault_of_the_target_the_next_invocation_asks_first() -> None:
    """Whatever was found less than a minute ago."""
    first = Simulation(entries("a0"), Settings())
    first.start()
    first.finish_publish(first.publishes[0], RequestFailed(TARGET))
    second = Simulation(entries("a0"), Settings(), health=dict(enumerate(first.machine.carried.health)))
    assert second.start() == [Verify(0)]


def test_what_needs_no_publishing_asks_for_nothing() -> None:
    """Accepted before, or held by a breaker: no question is asked."""
    remembered = Simulation([Entry(0, "a", 1, None, 0, accepted=True)], Settings(), health={0: NEW})
    remembered.start()
    assert [one.records for one in remembered.settles] == [(0,)]
    assert remembered.drain() == Done(None)
    open_one = Simulation(entries("a0"), Settings(), health={0: Health(open_until_ms=500)})
    assert open_one.start() == [Done(0)]


# --- nobody starves ---------------------------------------------------------------------------------------------------


def test_destinations_take_turns_and_leave_each_other_room() -> None:
    """One that has much to send, and hangs, keeps a request free for each other that has something to send again."""
    said = " ".join([*(f"{key}0" for key in "abcdefgh"), "x1"])
    simulation = Simulation(entries(said), Settings(max_in_flight=4), [ONE, LIMITS])
    simulation.start()
    assert [one.destination for one in simulation.publishes] == [0, 1, 0, 0]
    simulation.finish_publish(simulation.publishes[1], Answered((TRANSIENT,)))
    assert [one.destination for one in simulation.publishes] == [0, 0, 0], "the other is in a pause of 25 ms"
    simulation.pass_time(25)
    assert [one.destination for one in simulation.publishes] == [0, 0, 0, 1]
    assert simulation.drain() == Done(None)


def test_what_is_behind_the_head_of_a_key_needs_no_room_and_has_it_when_its_turn_comes() -> None:
    """The request for the head leaves its place to what follows."""
    said = " ".join([*(f"{key}0" for key in "abcdefgh"), "a1"])
    simulation = Simulation(entries(said), Settings(max_in_flight=4), [ONE, LIMITS])
    simulation.start()
    assert [one.destination for one in simulation.publishes] == [0, 0, 0, 0]
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert [one.destination for one in simulation.publishes] == [0, 0, 0, 1]
    assert simulation.drain() == Done(None)


def test_a_key_that_is_stuck_slows_down_no_other() -> None:
    """Its head is sent again and again; what follows of it for seven others takes no request from the rest."""
    said = " ".join(["s0", *(f"s{place}" for place in range(1, 8)), *(f"{key}0" for key in "abcdefghijklmnop")])
    simulation = Simulation(entries(said), Settings(), [ONE, *[LIMITS] * 7])
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((TRANSIENT,)))
    assert len(simulation.publishes) == 8


def test_room_is_left_for_what_follows_a_park() -> None:
    """The head of a key was refused there, which left its place; the next of the key comes when it is parked."""
    said = " ".join(["x1", "x1", *(f"{key}0" for key in "abcdefgh")])
    simulation = Simulation(entries(said), Settings(max_in_flight=4), [ONE, LIMITS])
    simulation.start()
    refused = next(one for one in simulation.publishes if one.destination == 1)
    simulation.finish_publish(refused, Answered((CONTENT,)))
    assert [one.destination for one in simulation.publishes] == [0, 0, 0]
    simulation.finish_park(simulation.parks[0], parked=True)
    assert [one.destination for one in simulation.publishes] == [0, 0, 0, 1]
    assert simulation.drain() == Done(None)


def test_room_is_left_for_the_question_before_a_park_and_for_keys_that_are_being_read() -> None:
    """One is asked for though it has nothing to publish; another has events of keys of which nobody knows yet."""
    said = [*entries("a0 b0 c0 d0"), Entry(4, "x", 1, CONTENT, 1)]
    waits = Simulation(said, Settings(max_in_flight=2), [ONE, LIMITS], health={1: NEW})
    waits.start()
    assert (len(waits.publishes), waits.verifies) == (1, [Verify(1)])
    waits.finish_verify(waits.verifies[0], SILENT)
    assert len(waits.publishes) == 1
    assert waits.pass_time(25) == [Verify(1)]
    figures = Settings(max_in_flight=2, on_poison="park_key", read_batch=4)
    reads = Simulation(entries("a0 b0 c0 d0 x1"), figures, [ONE, LIMITS])
    reads.start()
    reads.finish_read(reads.reads[0])
    assert [one.destination for one in reads.publishes] == [0]
    reads.finish_read(reads.reads[0])
    assert [one.destination for one in reads.publishes] == [0, 1]


def test_with_one_request_at_a_time_they_alternate() -> None:
    """Turn by turn, for as long as both have something to send."""
    simulation = Simulation(entries("a0 b0 c0 d1 e1 f1"), Settings(max_in_flight=1), [ONE, ONE])
    simulation.start()
    order = []
    while simulation.publishes:
        order.append(simulation.publishes[0].destination)
        simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert order == [0, 1, 0, 1, 0, 1]


def test_a_destination_that_is_done_with_leaves_all_requests_to_the_others() -> None:
    """So does one that is closed, or left alone."""
    for health in (FOUND, replace(FOUND, open_until_ms=9_999_999)):
        said = "a0 b0 c0 d1" if health is not FOUND else "a0 b0 c0"
        simulation = Simulation(entries(said), Settings(max_in_flight=3), [ONE, ONE], health={1: health})
        simulation.start()
        assert [one.destination for one in simulation.publishes] == [0, 0, 0]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2)), min_size=1, max_size=30), st.integers(0, 2))
@hypothesis_settings(max_examples=60, deadline=None)
def test_one_bad_destination_blocks_no_other(drawn: list[tuple[str, int]], bad: int) -> None:
    """Whatever is not behind an event of the bad one is accepted, and nothing that is."""
    ones = [Entry(number, key, 10, None, place) for number, (key, place) in enumerate(drawn)]
    simulation = Simulation(ones, Settings(max_in_flight=3), [ONE, LIMITS, LIMITS], health=dict.fromkeys(range(3), NEW))
    simulation.start()
    while simulation.done is None:
        if simulation.verifies:
            verify = simulation.verifies[0]
            simulation.finish_verify(verify, MISSING if verify.destination == bad else OK)
        elif simulation.publishes:
            one = simulation.publishes[-1]
            simulation.finish_publish(one, Answered((None,) * len(one.entries)))
        else:
            simulation.finish_settle(simulation.settles[0])
    held = {
        n for n, one in enumerate(ones) if any(two.key == one.key and two.destination == bad for two in ones[: n + 1])
    }
    assert set(simulation.accepted) == set(range(len(ones))) - held
    assert simulation.done == Done(min(held, default=None))


def test_a_destination_in_trouble_ends_no_invocation_late() -> None:
    """Its own pauses are waited for, the others' events are accepted meanwhile."""
    simulation = Simulation(entries("a0 b1"), Settings(breaker_failures=None), [LIMITS, LIMITS])
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], RequestFailed(TRANSIENT))
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    assert simulation.wake_ms == 25
    assert simulation.settles == [], "more may be accepted"
    assert simulation.drain() == Done(None)
