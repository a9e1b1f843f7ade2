"""The relay machine, one situation at a time."""

from __future__ import annotations

import pytest
from relay_simulation import CONTENT, LIMITS, TARGET, TRANSIENT, UNKNOWN, Simulation

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import Done, Entry, Park, Publish, Settings, Settle, WaitUntil
from dynamodb_outbox.core.relay.outcome import Answered, RequestFailed
from dynamodb_outbox.core.relay.states import State

TEN = Settings()
LAST_CALL = WaitUntil(11_750)
"""What was accepted is settled then, should something still be under way."""


def simulate(
    keys: str, settings: Settings = TEN, limits: SinkLimits = LIMITS, *, park_limit_used: int = 0
) -> Simulation:
    """One record of one event for each letter, which is its key."""
    return Simulation(
        [Entry(number, key, 10) for number, key in enumerate(keys)],
        settings,
        [limits],
        recent_parks=((0, 0),) * park_limit_used,
    )


def test_an_empty_batch_is_done_at_once() -> None:
    """No entries: the first step answers."""
    assert simulate("").start() == [Done(None)]


def test_one_request_has_one_entry_of_each_key_in_the_order_of_the_stream() -> None:
    """The heads of all keys travel together; the next of a key follows its acceptance."""
    simulation = simulate("aabab")
    (first,) = simulation.start()
    assert first == Publish(0, (0, 2))
    assert isinstance(first, Publish)
    assert simulation.finish_publish(first, Answered((None, None))) == [Publish(1, (1, 4)), LAST_CALL]


def test_a_rejected_entry_holds_its_key_and_no_other() -> None:
    """After a partial failure the accepted key goes on while the other waits for its turn again."""
    simulation = simulate("abab")
    simulation.start()
    commands = simulation.finish_publish(simulation.publishes[0], Answered((TRANSIENT, None)))
    assert commands == [Publish(1, (3,)), WaitUntil(25)]
    assert simulation.pass_time(25) == [Publish(2, (0,)), LAST_CALL]


def test_pauses_grow_and_are_drawn_from_nothing_to_a_ceiling() -> None:
    """Full jitter: u * min(cap, base * 2**attempts)."""
    simulation = simulate("a", Settings(breaker_failures=None))
    simulation.start()
    pauses = []
    for _ in range(9):
        (command,) = simulation.finish_publish(simulation.publishes[0], RequestFailed(TRANSIENT))
        assert isinstance(command, WaitUntil)
        pauses.append(command.at_ms - simulation.now_ms)
        simulation.pass_time(pauses[-1])
        if not simulation.publishes:
            break
    assert pauses == [25, 50, 100, 200, 400, 800, 1600, 2500, 2500]


def test_batches_close_by_bytes_as_well_as_by_count() -> None:
    """A request stays within both limits; an entry that fills it alone still travels."""
    entries = [Entry(number, str(number), size) for number, size in enumerate((400, 400, 400, 1000, 1))]
    simulation = Simulation(entries, TEN)
    assert simulation.start() == [Publish(0, (0, 1)), Publish(1, (2,)), Publish(2, (3,)), Publish(3, (4,))]


def test_no_more_requests_than_allowed_are_under_way() -> None:
    """The next request starts when one of them has ended."""
    simulation = simulate("abc", Settings(max_in_flight=2), SinkLimits(1, 1000, 1000))
    assert simulation.start() == [Publish(0, (0,)), Publish(1, (1,))]
    assert Publish(2, (2,)) in simulation.finish_publish(simulation.publishes[0], Answered((None,)))


def test_an_answer_of_the_wrong_length_accepts_nothing() -> None:
    """Nine results for ten entries cannot be told apart: all ten are sent again."""
    simulation = simulate("abc")
    simulation.start()
    commands = simulation.finish_publish(simulation.publishes[0], Answered((None, None)))
    assert commands == [WaitUntil(25)]
    assert simulation.pass_time(25) == [Publish(1, (0, 1, 2))]
    assert {fault.code: len(met) for fault, met in simulation.machine.progress.met(accepted=False).items()} == {
        "WrongResultCount": 3
    }


def test_a_refused_request_is_halved_until_the_culprit_is_alone() -> None:
    """Only the entry that is refused alone is parked; the others are published."""
    simulation = simulate("abcdefgh")
    simulation.start()
    requests = 0
    while simulation.publishes:
        publish = simulation.publishes[0]
        requests += 1
        bad = 5 in publish.entries
        simulation.finish_publish(publish, RequestFailed(CONTENT) if bad else Answered((None,) * len(publish.entries)))
    assert [park.entry for park in simulation.parks] == [5]
    assert sorted(simulation.accepted) == [0, 1, 2, 3, 4, 6, 7]
    assert requests <= 8
    assert simulation.drain().lowest is None


def test_a_parked_event_lets_its_key_go_on() -> None:
    """What follows in the key is sent after the park is stored, not before."""
    simulation = simulate("aa")
    simulation.start()
    commands = simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert commands == [Park(0, 0, (0,), CONTENT)]
    assert simulation.finish_park(simulation.parks[0], parked=True) == [Publish(1, (1,))]
    assert simulation.drain().lowest is None
    assert simulation.settled == {1: 1}


def test_a_failed_park_holds_the_checkpoint_at_its_record() -> None:
    """The key is frozen, other keys go on, and the record is delivered again."""
    simulation = simulate("bab")
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None, CONTENT)))
    simulation.finish_park(simulation.parks[0], parked=False)
    assert simulation.drain().lowest == 1
    assert simulation.accepted == [0, 2]


def test_of_a_record_with_several_events_the_refused_one_is_parked_and_the_others_are_published() -> None:
    """The record is stored as parked, naming the refused event; it is never settled; order is kept around it."""
    simulation = Simulation([Entry(0, "a", 1), Entry(0, "a", 1), Entry(0, "a", 1), Entry(1, "a", 1)], TEN)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert simulation.parks == [Park(1, 0, (1,), CONTENT)]
    simulation.finish_park(simulation.parks[0], parked=True)
    assert simulation.drain().lowest is None
    assert simulation.accepted == [0, 2, 3]
    assert simulation.settled == {1: 1}


def test_a_second_refused_event_of_a_record_is_parked_beside_the_first() -> None:
    """The second park names both, and counts for nothing against the limit."""
    simulation = Simulation([Entry(0, "a", 1), Entry(0, "a", 1)], TEN, recent_parks=((0, 0),) * 9)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    simulation.finish_park(simulation.parks[0], parked=True)
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert simulation.parks == [Park(1, 0, (0, 1), CONTENT)]
    simulation.finish_park(simulation.parks[0], parked=True, new=False)
    assert simulation.done == Done(None)
    assert len(simulation.machine.carried.parks) == 10


def test_refused_events_that_are_known_from_the_start_are_parked_in_one_call() -> None:
    """The accepted one between them is sent in its turn; the last needs no call of its own."""
    entries = [Entry(0, "a", 1, CONTENT), Entry(0, "a", 1), Entry(0, "a", 1, CONTENT), Entry(1, "a", 1)]
    simulation = Simulation(entries, TEN)
    assert simulation.start() == [Park(0, 0, (0, 2), CONTENT)]
    assert simulation.finish_park(simulation.parks[0], parked=True) == [Publish(0, (1,))]
    assert simulation.finish_publish(simulation.publishes[0], Answered((None,))) == [Publish(1, (3,))]
    assert simulation.drain().lowest is None


def test_a_record_that_was_parked_before_costs_nothing() -> None:
    """Its unit comes back, so the eleventh of a batch that is delivered again is parked."""
    entries = [Entry(number, str(number), 1, CONTENT) for number in range(11)]
    simulation = Simulation(entries, TEN)
    simulation.start()
    while simulation.parks:
        park = simulation.parks[0]
        simulation.finish_park(park, parked=True, new=park.record == 10)
    assert simulation.done == Done(None)
    assert simulation.machine.carried.parks == ((0, 0),)


def test_the_lowest_record_has_the_last_unit_of_the_park_limit() -> None:
    """It holds the checkpoint. The others take what is left, and are held at the end."""
    entries = [Entry(0, "a", 1), Entry(0, "a", 1), *(Entry(n, str(n), 1, CONTENT) for n in range(1, 12))]
    simulation = Simulation(entries, TEN)
    simulation.start()
    for _ in range(9):
        simulation.finish_park(simulation.parks[0], parked=True)
    assert simulation.parks == []
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert [park.record for park in simulation.parks] == [0]
    simulation.finish_park(simulation.parks[0], parked=True)
    assert simulation.done == Done(10)


def test_a_lost_answer_of_a_park_keeps_its_unit() -> None:
    """The record may be parked."""
    simulation = Simulation([Entry(0, "a", 1, CONTENT)], TEN)
    simulation.start()
    simulation.finish_park(simulation.parks[0], parked=False, lost=True)
    assert simulation.done == Done(0)
    assert simulation.machine.carried.parks == ((0, 0),)


def test_a_park_that_is_turned_away_gives_its_unit_back() -> None:
    """Nothing was parked: a table in trouble for seconds does not hold one poisoned record for the whole window."""
    simulation = Simulation([Entry(0, "a", 1, CONTENT)], TEN)
    simulation.start()
    simulation.finish_park(simulation.parks[0], parked=False)
    assert simulation.done == Done(0)
    assert simulation.machine.carried.parks == ()


def test_after_a_park_that_is_turned_away_the_next_of_its_record_takes_a_unit() -> None:
    """The record is not parked yet, so a park that follows makes it a newly parked one."""
    simulation = Simulation([Entry(0, "a", 1), Entry(0, "b", 1)], TEN)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], RequestFailed(CONTENT))
    simulation.finish_publish(simulation.publishes[0], RequestFailed(CONTENT))
    simulation.finish_publish(simulation.publishes[0], RequestFailed(CONTENT))
    simulation.finish_park(simulation.parks[0], parked=False)
    assert simulation.machine.carried.parks == ((0, 0),)
    simulation.finish_park(simulation.parks[0], parked=True)
    assert simulation.machine.carried.parks == ((0, 0),)


def test_a_fault_of_the_target_stops_everything_and_parks_nothing() -> None:
    """What is under way is waited for; nothing else is started; the lowest record is delivered again."""
    simulation = simulate("abcdef", Settings(max_in_flight=2), SinkLimits(2, 1000, 1000))
    simulation.start()
    first, second = simulation.publishes
    assert simulation.finish_publish(first, Answered((None, TARGET))) == [LAST_CALL]
    simulation.finish_publish(second, Answered((CONTENT, None)))
    assert simulation.parks == []
    assert simulation.drain().lowest == 1
    assert simulation.machine.progress.tally()[State.STUCK] == 2


def test_no_publish_starts_at_the_deadline() -> None:
    """A retry that would be due too late is not waited for: the answer comes at once."""
    simulation = simulate("ab")
    simulation.start()
    simulation.now_ms = 9_990
    commands = simulation.finish_publish(simulation.publishes[0], Answered((None, UNKNOWN)))
    assert commands == [Settle((0,))]
    assert simulation.finish_settle(simulation.settles[0]) == [Done(1)]


def test_after_the_table_deadline_nothing_is_settled_or_parked() -> None:
    """The answer counts what was accepted all the same; the refused event is delivered again; what stays is counted."""
    simulation = simulate("ab")
    simulation.start()
    simulation.now_ms = 12_000
    assert simulation.finish_publish(simulation.publishes[0], Answered((None, CONTENT))) == [Done(1)]
    assert simulation.machine.unsettled == 1


def test_settling_waits_for_a_full_call_or_for_quiet() -> None:
    """One call takes up to 25 records; the rest follows when nothing is being published."""
    simulation = Simulation([Entry(number, str(number), 1) for number in range(30)], Settings(max_in_flight=1))
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None,) * 10))
    assert simulation.settles == []
    simulation.finish_publish(simulation.publishes[0], Answered((None,) * 10))
    simulation.finish_publish(simulation.publishes[0], Answered((None,) * 10))
    assert [len(settle.records) for settle in simulation.settles] == [25, 5]


@pytest.mark.parametrize(("count", "left"), [(20, 10), (30, 0), (35, 5), (40, 10)])
def test_a_last_call_and_what_comes_after_it_are_no_more_calls_than_the_records_need(count: int, left: int) -> None:
    """A request outlasts the last call for what waits. What it brings in is settled where that takes a call anyway."""
    simulation = Simulation([Entry(number, str(number), 1) for number in range(count)], Settings(max_in_flight=4))
    simulation.start()
    slow = simulation.publishes[-1]
    for publish in simulation.publishes[:-1]:
        simulation.finish_publish(publish, Answered((None,) * len(publish.entries)))
    simulation.pass_time(11_749)
    assert simulation.settle_calls == (count - len(slow.entries)) // 25
    simulation.pass_time(1)
    while simulation.settles:
        simulation.finish_settle(simulation.settles[0])
    assert sum(simulation.settled.values()) == count - len(slow.entries)
    simulation.finish_publish(slow, Answered((None,) * len(slow.entries)))
    assert simulation.drain() == Done(None)
    assert simulation.settle_calls == -(-count // 25)
    assert (sum(simulation.settled.values()), simulation.machine.unsettled) == (count - left, left)


def test_a_last_call_waits_for_a_call_that_is_under_way() -> None:
    """It is not forgotten when all calls to the table that may be at once are taken."""
    entries = [Entry(number, str(number), 1) for number in range(40)]
    simulation = Simulation(entries, Settings(max_in_flight=4, max_table_calls=1))
    simulation.start()
    for publish in simulation.publishes[:3]:
        simulation.finish_publish(publish, Answered((None,) * 10))
    simulation.pass_time(11_800)
    (full,) = simulation.settles
    simulation.finish_settle(full)
    assert [len(settle.records) for settle in simulation.settles] == [5]


def test_a_settle_that_fails_is_tried_three_times_and_never_changes_the_answer() -> None:
    """After that the record is left as it is, and counted: it was accepted."""
    simulation = simulate("a")
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    calls = 0
    while simulation.done is None:
        if simulation.settles:
            calls += 1
            simulation.finish_settle(simulation.settles[0], again=(0,))
        else:
            assert simulation.wake_ms is not None
            simulation.pass_time(simulation.wake_ms - simulation.now_ms)
    assert calls == 3
    assert simulation.done == Done(None)
    assert simulation.machine.unsettled == 1


def test_settles_that_are_due_at_once_are_all_tried_again() -> None:
    """Two calls were turned away whole, and their pauses end together: they are two calls again."""
    simulation = simulate("abcdefgh", Settings(settle_batch=4))
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None,) * 8))
    for settle in list(simulation.settles):
        simulation.finish_settle(settle, again=settle.records)
    simulation.pass_time(1_000)
    assert [len(settle.records) for settle in simulation.settles] == [4, 4]
    assert simulation.drain() == Done(None)
    assert (simulation.machine.unsettled, len(simulation.machine.settled)) == (0, 8)


def test_too_many_parks_in_a_minute_are_held_instead() -> None:
    """The budget counts earlier invocations; beyond it a content error freezes its key."""
    simulation = simulate("ab", park_limit_used=9)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT, CONTENT)))
    assert [park.entry for park in simulation.parks] == [0]
    assert simulation.drain().lowest == 1


def test_the_park_budget_comes_back_after_its_window() -> None:
    """Parks older than a minute no longer count."""
    settings = Settings(park_window_ms=1000)
    simulation = simulate("a", settings, park_limit_used=10)
    simulation.start()
    simulation.now_ms = 1000
    simulation.finish_publish(simulation.publishes[0], Answered((CONTENT,)))
    assert simulation.machine.carried.parks == ((0, 1000),)
    assert simulation.drain().lowest is None


def test_after_done_nothing_follows() -> None:
    """A late fact is ignored."""
    simulation = simulate("")
    simulation.start()
    assert simulation.pass_time(1) == []
