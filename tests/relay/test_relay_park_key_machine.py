"""Poison that takes its key with it: what is asked before anything is published, and what is parked afterwards."""

from __future__ import annotations

import pytest
from relay_simulation import CONTENT, FOUND, LIMITS, TARGET, Simulation

from dynamodb_outbox.core.relay.commands import NOWHERE, Done, Entry, Park, Publish, ReadKeys, Settings
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, RequestFailed
from dynamodb_outbox.core.relay.parking import KEY_PARKED

KEYS = Settings(on_poison="park_key")


def entries(keys: str) -> list[Entry]:
    """Return one record of one event for each letter, which is its key."""
    return [Entry(number, key, 10) for number, key in enumerate(keys)]


def test_nothing_is_published_of_a_key_before_the_table_said_that_it_is_not_parked() -> None:
    """A hundred keys a call; each key begins with the answer about it."""
    ones = [Entry(number, str(number), 1) for number in range(150)]
    simulation = Simulation(ones, KEYS)
    commands = simulation.start()
    assert [len(one.keys) for one in commands if isinstance(one, ReadKeys)] == [100, 50]
    assert simulation.publishes == []
    simulation.finish_read(simulation.reads[1])
    assert {number for one in simulation.publishes for number in one.entries} == set(range(100, 150))
    assert simulation.drain() == Done(None)


def test_events_of_a_parked_key_are_parked_and_take_no_unit_of_the_limit() -> None:
    """One after the other, whatever was used up of the limit; other keys go on."""
    simulation = Simulation(entries("aabaa"), KEYS, parked_keys="a", recent_parks=[(0, 0)] * 10)
    simulation.start()
    commands = simulation.finish_read(simulation.reads[0])
    assert commands[:2] == [Park(0, 0, (0,), KEY_PARKED), Publish(0, (2,))]
    assert simulation.drain() == Done(None)
    assert simulation.parked == {0, 1, 3, 4}
    assert simulation.settled == {2: 1}


def test_a_parked_key_is_parked_also_where_its_destination_is_closed() -> None:
    """Nothing of it is published, so nobody is asked."""
    simulation = Simulation([Entry(0, "b", 1), *(Entry(n, "a", 1) for n in (1, 2))], KEYS, parked_keys="a")
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    simulation.finish_publish(simulation.publishes[0], RequestFailed(TARGET))
    assert simulation.drain() == Done(0)
    assert simulation.parked == {1, 2}


def test_the_first_park_of_a_key_asks_for_its_marker_and_parks_what_follows() -> None:
    """In the same invocation; the marker counts once."""
    simulation = Simulation(entries("aaab"), KEYS)
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT, None)))
    assert simulation.parks == [Park(0, 0, (0,), CONTENT, "a")]
    simulation.finish_park(simulation.parks[0], parked=True)
    assert simulation.parks == [Park(1, 1, (1,), KEY_PARKED)]
    assert simulation.drain() == Done(None)
    assert simulation.accepted == [3]
    assert len(simulation.machine.carried.parks) == 1


def test_of_a_record_the_refused_event_and_all_behind_it_are_parked_in_one_call() -> None:
    """What was accepted before it stays so."""
    ones = [Entry(0, "a", 1), Entry(0, "a", 1), Entry(0, "a", 1), Entry(1, "a", 1)]
    simulation = Simulation(ones, KEYS)
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert simulation.parks == [Park(1, 0, (1, 2), CONTENT, "a")]
    assert simulation.drain() == Done(None)
    assert simulation.accepted == [0]
    assert simulation.parked == {1, 2, 3}


def test_when_the_key_was_let_go_meanwhile_it_goes_on() -> None:
    """The record is parked or published already, and its key is not: what follows is published."""
    simulation = Simulation(entries("aa"), KEYS)
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    simulation.finish_park(simulation.parks[0], parked=True, new=False, key_parked=False)
    assert [one.entries for one in simulation.publishes] == [(1,)]
    assert simulation.drain() == Done(None)


def test_a_park_that_fails_holds_the_key() -> None:
    """Nothing behind it is published, nothing is parked."""
    simulation = Simulation(entries("aab"), KEYS)
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT, None)))
    simulation.finish_park(simulation.parks[0], parked=False)
    assert simulation.drain() == Done(0)
    assert simulation.accepted == [2]


def test_what_could_not_be_read_is_asked_again_and_then_held() -> None:
    """Never taken for not parked: after three calls its events are delivered again."""
    simulation = Simulation(entries("ab"), KEYS)
    simulation.start()
    calls = 0
    while simulation.reads:
        calls += 1
        simulation.finish_read(simulation.reads[0], unread="a")
        if simulation.publishes:
            simulation.finish_publish(simulation.publishes[0], Answered((None,)))
        if simulation.settles:
            simulation.finish_settle(simulation.settles[0])
        if simulation.wake_ms is not None:
            simulation.pass_time(simulation.wake_ms - simulation.now_ms)
    assert calls == 3
    assert simulation.done == Done(0)
    assert simulation.accepted == [1]


def test_no_key_is_read_when_nothing_can_be_published_any_more() -> None:
    """At the deadline, or when the next call would come too late."""
    assert Simulation(entries("a"), KEYS, publish_until_ms=0).start() == [Done(0)]
    simulation = Simulation(entries("a"), KEYS, publish_until_ms=30)
    simulation.start()
    assert simulation.finish_read(simulation.reads[0], unread="a") == [Done(0)]
    later = Simulation(entries("ab"), Settings(on_poison="park_key", read_batch=1, max_table_calls=1))
    later.start()
    later.now_ms = 10_000
    assert later.finish_read(later.reads[0]) == [Done(0)]


def test_a_remembered_event_of_a_parked_key_stays_accepted() -> None:
    """It was, before the key was parked; only what follows is parked."""
    ones = [Entry(0, "a", 1, None, 0, accepted=True), Entry(1, "a", 1)]
    simulation = Simulation(ones, KEYS, parked_keys="a")
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    assert simulation.drain() == Done(None)
    assert simulation.parked == {1}
    assert simulation.settled == {0: 1}


@pytest.mark.parametrize("place", [NOWHERE, 0])
def test_what_cannot_be_decoded_or_prepared_parks_its_key_too(place: int) -> None:
    """A fault that was found without asking the sink is one all the same."""
    ones = [Entry(0, "a", 0, CONTENT, place), Entry(1, "a", 1)]
    simulation = Simulation(ones, KEYS)
    simulation.start()
    simulation.finish_read(simulation.reads[0])
    assert simulation.parks == [Park(0, 0, (0,), CONTENT, "a")]
    assert simulation.drain() == Done(None)
    assert simulation.parked == {0, 1}


def test_with_block_poison_and_its_key_are_held_and_nothing_is_parked() -> None:
    """Whether the sink refuses it, alone or in a request of several, or it was found beforehand; other keys go on."""
    ones = [*entries("aab"), Entry(3, "c", 1, Fault(Kind.CONTENT, "Local")), Entry(4, "c", 1)]
    simulation = Simulation(ones, Settings(on_poison="block"), [LIMITS], health={0: FOUND})
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], RequestFailed(CONTENT))
    first, second = simulation.publishes
    simulation.finish_publish(first, RequestFailed(CONTENT))
    simulation.finish_publish(second, Answered((None,)))
    assert simulation.drain() == Done(0)
    assert simulation.accepted == [2]
    assert simulation.parked == set()
