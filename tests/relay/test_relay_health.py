"""The breaker, the slow-down and the rate of a destination: pure values, and what the machine makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from relay_simulation import CONTENT, FOUND, LIMITS, TARGET, THROTTLED, TRANSIENT, UNKNOWN, Simulation

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import Done, Entry, Publish, Settings
from dynamodb_outbox.core.relay.health import Carried, Health
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import Answered, Presence, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.outcome import Fault

FIVE = Settings()
units = st.floats(0, 1, exclude_max=True)


def keys(count: int) -> list[Entry]:
    """Return so many events, each of its own key and record."""
    return [Entry(number, str(number), 10) for number in range(count)]


def failed(health: Health, times: int, *, now_ms: int = 0, u: float = 0.5, settings: Settings = FIVE) -> Health:
    """Let requests fail as a whole."""
    for _ in range(times):
        health = health.after((TRANSIENT,), now_ms, u, settings, failed=True)
    return health


# --- breaker ----------------------------------------------------------------------------------------------------------


def test_the_breaker_opens_after_five_failures_in_a_row_and_not_before() -> None:
    """For half of a second, as this random number has it."""
    assert failed(FOUND, 4).open_until_ms is None
    assert failed(FOUND, 5, now_ms=7).open_until_ms == 507
    assert failed(FOUND, 50, settings=replace(FIVE, breaker_failures=None)).open_until_ms is None


def test_a_success_between_begins_the_count_anew() -> None:
    """One accepted entry is enough, or one that is refused for good: the destination answers for itself."""
    for results in ((None, TRANSIENT), (CONTENT,), (TARGET,)):
        health = failed(FOUND, 4).after(results, 0, 0.5, FIVE, failed=False)
        assert failed(health, 4).open_until_ms is None
    passing = failed(FOUND, 4).after((TRANSIENT, UNKNOWN), 0, 0.5, FIVE, failed=False)
    assert failed(passing, 1).open_until_ms is not None, "an answer that accepts nothing is no success"


def test_the_pause_doubles_up_to_a_minute() -> None:
    """Full jitter: drawn from nothing to 1, 2, 4 ... 60 seconds."""
    health, now_ms, pauses = failed(FOUND, 5), 0, []
    for _ in range(8):
        pauses.append((health.open_until_ms or 0) - now_ms)
        now_ms = health.open_until_ms or 0
        health = failed(health, 1, now_ms=now_ms)
    assert pauses == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]


def test_what_was_under_way_when_it_opened_may_close_it_and_lengthens_nothing() -> None:
    """A late failure leaves the pause as it is; a late success ends it."""
    health = failed(FOUND, 5)
    assert failed(health, 3).open_until_ms == health.open_until_ms
    closed = health.after((None,), 100, 0.5, FIVE, failed=False)
    assert (closed.failures, closed.openings, closed.open_until_ms) == (0, 0, None)


def test_a_probe_that_gets_nothing_through_opens_it_again() -> None:
    """Also when it is answered, and each entry may pass later."""
    health = failed(FOUND, 5).after((TRANSIENT,), 500, 0.5, FIVE, failed=False)
    assert (health.open_until_ms, health.openings) == (1500, 2)


def test_an_open_destination_is_held_at_once_and_ends_the_invocation() -> None:
    """No request, no waiting; what it knows is handed on."""
    health = failed(FOUND, 5)
    simulation = Simulation(keys(30), Settings(), health={0: health}, now_ms=400)
    assert simulation.start() == [Done(0)]
    assert simulation.machine.carried.health == (health,)


def test_after_the_pause_one_request_is_the_probe() -> None:
    """When it is accepted everything else follows; when it fails nothing does."""
    health = failed(FOUND, 5)
    good = Simulation(keys(30), Settings(), health={0: health}, now_ms=500)
    assert good.start() == [Publish(0, tuple(range(10)))]
    good.finish_publish(good.publishes[0], Answered((None,) * 10))
    assert len(good.publishes) == 2
    assert good.drain() == Done(None)
    bad = Simulation(keys(30), Settings(), health={0: health}, now_ms=500)
    bad.start()
    assert bad.finish_publish(bad.publishes[0], RequestFailed(UNKNOWN)) == [Done(0)]
    assert bad.machine.carried.health[0].open_until_ms == 1500


def test_the_failures_of_one_invocation_count_in_the_next() -> None:
    """Two and then three: the destination is left alone, and the invocation ends at once."""
    first = Simulation(keys(1), Settings(), publish_until_ms=40)
    first.start()
    first.finish_publish(first.publishes[0], RequestFailed(UNKNOWN))
    first.pass_time(25)
    first.finish_publish(first.publishes[0], RequestFailed(UNKNOWN))
    assert first.done == Done(0)
    second = Simulation(keys(1), Settings(), health=dict(enumerate(first.machine.carried.health)))
    second.start()
    for _ in range(2):
        second.finish_publish(second.publishes[0], RequestFailed(UNKNOWN))
        assert second.wake_ms is not None, "inside an invocation pauses are as ever"
        second.pass_time(second.wake_ms - second.now_ms)
    assert second.finish_publish(second.publishes[0], RequestFailed(UNKNOWN)) == [Done(0)]


@given(st.lists(st.tuples(st.sampled_from("fsp"), st.integers(0, 3000), units), max_size=60))
def test_the_breaker_is_open_only_after_failures_without_a_success(drawn: list[tuple[str, int, float]]) -> None:
    """At any time: five at least since the last success; a pause of a minute at most, each counted from a failure."""
    health, now_ms, since = FOUND, 0, 0
    for what, later_ms, u in drawn:
        now_ms += later_ms
        results: Sequence[Fault | None] = {"f": (UNKNOWN,), "s": (None,), "p": (TRANSIENT,)}[what]
        health = health.after(results, now_ms, u, FIVE, failed=what == "f")
        since = 0 if what == "s" else since + (what == "f")
        assert health.failures == since
        if health.open_until_ms is not None:
            assert since >= 5
            assert health.open_until_ms <= now_ms + 60_000
        else:
            assert since < 5


# --- slow-down --------------------------------------------------------------------------------------------------------


def test_a_throttled_request_halves_what_may_be_under_way_and_success_gives_it_back_one_by_one() -> None:
    """Eight, four, two, one, and not less; then up to eight again, and not more."""
    health, seen = FOUND, []
    for _ in range(4):
        health = health.after((None, THROTTLED), 0, 0.5, FIVE, failed=False)
        seen.append(health.at_once)
    for _ in range(8):
        health = health.after((None, None), 0, 0.5, FIVE, failed=False)
        seen.append(health.at_once)
    assert seen == [4, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert health.after((None, CONTENT), 0, 0.5, FIVE, failed=False) == health, "accepted in part is neither"


def test_a_throttled_destination_is_sent_fewer_requests_and_others_are_not() -> None:
    """Two of four at once, while another destination has its own."""
    ones = [Entry(number, str(number), 10, None, number % 2) for number in range(20)]
    one = SinkLimits(1, 1000, 1000)
    simulation = Simulation(ones, Settings(max_in_flight=6), [one, one], health={0: replace(FOUND, at_once=2)})
    simulation.start()
    assert sorted(publish.destination for publish in simulation.publishes) == [0, 0, 1, 1, 1, 1]


def test_a_question_without_an_answer_gives_nothing_back() -> None:
    """It says nothing of how much may be sent; one request may be under way still, after four of them."""
    health = replace(FOUND, at_once=1)
    for _ in range(4):
        health = health.after((), 0, 0.5, FIVE, failed=True)
    assert (health.at_once, health.failures) == (1, 4)


@given(st.lists(st.sampled_from(("throttled", "accepted", "failed")), max_size=40), st.integers(1, 9))
def test_at_least_one_and_at_most_all_requests_may_be_under_way(drawn: list[str], most: int) -> None:
    """Whatever happens."""
    settings, health = Settings(max_in_flight=most, breaker_failures=None), FOUND
    for what in drawn:
        results = {"throttled": (THROTTLED,), "accepted": (None,), "failed": (TRANSIENT,)}[what]
        health = health.after(results, 0, 0.5, settings, failed=what == "failed")
        assert 1 <= health.most_at_once(settings) <= most


# --- rate -------------------------------------------------------------------------------------------------------------


def test_a_rate_lets_a_second_s_worth_through_at_once_and_then_what_comes_in() -> None:
    """Twenty a second: twenty at the start, then a full request each half second."""
    simulation = Simulation(keys(50), Settings(rate_limit=20))
    simulation.start()
    sent = [(0, len(one.entries)) for one in simulation.publishes]
    while simulation.done is None and sum(count for _, count in sent) < 50:
        before = len(simulation.publishes)
        assert simulation.wake_ms is not None
        simulation.pass_time(simulation.wake_ms - simulation.now_ms)
        sent += [(simulation.now_ms, len(one.entries)) for one in simulation.publishes[before:]]
    assert sent == [(0, 10), (0, 10), (500, 10), (1000, 10), (1500, 10)]
    assert simulation.drain() == Done(None)


def test_what_the_rate_allows_too_late_is_held_at_once_and_the_rest_settled_first() -> None:
    """The bucket is handed on: the next invocation finds it as it is."""
    simulation = Simulation(keys(4), Settings(rate_limit=2), publish_until_ms=900)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None, None)))
    assert [settle.records for settle in simulation.settles] == [(0, 1)]
    simulation.finish_settle(simulation.settles[0])
    assert simulation.done == Done(2)
    following = Simulation(
        keys(2), Settings(rate_limit=2), health=dict(enumerate(simulation.machine.carried.health)), now_ms=250
    )
    following.start()
    assert following.publishes == []
    assert following.wake_ms == 1000


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 700), st.integers(1, 12)), max_size=40),
)
@hypothesis_settings(max_examples=200)
def test_no_second_sees_more_than_its_rate_and_what_was_in_the_bucket(rate: int, asked: list[tuple[int, int]]) -> None:
    """In any window of w ms at most rate + rate * w / 1000 events; what is due is allowed then, and not before."""
    health, now_ms, sent = FOUND, 0, []
    for later_ms, events in asked:
        now_ms += later_ms
        wanted = min(events, rate)
        due_ms = health.due_for(wanted, rate)
        if due_ms > now_ms:
            assert health.events_left(due_ms - 1, rate) < wanted
            now_ms = due_ms
        assert health.events_left(now_ms, rate) >= wanted
        health = health.sent(wanted, now_ms, rate)
        sent.append((now_ms, wanted))
        for start_ms, _ in sent:
            in_window = sum(count for at_ms, count in sent if start_ms <= at_ms)
            assert in_window <= rate + rate * (now_ms - start_ms) / 1000


def test_a_request_never_takes_more_than_the_rate_has_left() -> None:
    """Three a second: three entries in a request that could hold ten."""
    simulation = Simulation(keys(9), Settings(rate_limit=3), [LIMITS])
    simulation.start()
    assert [len(one.entries) for one in simulation.publishes] == [3]
    assert simulation.drain() == Done(None)
    assert simulation.now_ms == 2000


def test_what_a_breaker_held_is_not_begun_again_while_the_last_records_are_settled() -> None:
    """Its pause ends meanwhile; a probe now would need another call to settle what comes of it."""
    ones = [Entry(0, "a", 10, None, 0), Entry(1, "b", 10, None, 1)]
    health = {1: replace(FOUND, open_until_ms=50)}
    simulation = Simulation(ones, Settings(), [LIMITS, LIMITS], health=health)
    simulation.start()
    simulation.finish_publish(simulation.publishes[0], Answered((None,)))
    simulation.pass_time(60)
    assert simulation.finish_settle(simulation.settles[0]) == [Done(1)]
    assert simulation.settle_calls == 1


# --- from invocation to invocation, on two clocks ---------------------------------------------------------------------

HANDED_ON = Carried((Health(Presence.OK, 60_000, 5, 1, 50_000, spent=10_000, spent_at_ms=1_000),), ((0, 1_000),), 7)
"""At 1,000 of the machine's clock, when a wall clock was 7 ahead of it."""


@given(st.integers(0, 200_000), st.integers(-200_000, 200_000))
def test_of_two_clocks_the_one_that_says_more_is_believed(machine_ms: int, wall_ms: int) -> None:
    """What was found, the breaker's pause, the rate and the parks: all by the longer of the two, and never a time less.

    A difference of a millisecond is rounding.
    """
    now_ms = 1_000 + machine_ms
    carried = HANDED_ON.at(now_ms, 1_007 + wall_ms)
    passed_ms = machine_ms if abs(wall_ms - machine_ms) <= 1 else max(machine_ms, wall_ms)
    (health,) = carried.health
    assert health.is_verified(now_ms) is (passed_ms < 59_000)
    assert health.is_open(now_ms) is (passed_ms < 49_000)
    assert health.events_left(now_ms, 10) == min(10, passed_ms // 100)
    assert now_ms - carried.parks[0][1] == passed_ms
    assert (health.failures, health.openings) == (5, 1)


def test_rounding_does_not_add_up() -> None:
    """A thousand invocations whose clocks were read a little before or after the turn of a millisecond."""
    carried = HANDED_ON
    for number in range(1000):
        carried = carried.at(1_000 + number, 1_007 + number + number % 2)
    assert carried.health == HANDED_ON.health


def test_a_standstill_counts_once() -> None:
    """An hour, and then an invocation after the other."""
    carried = HANDED_ON.at(1_010, 3_601_017)
    assert carried.at(1_020, 3_601_027) == carried
    assert not carried.health[0].is_verified(1_010)


def test_the_machine_hands_on_what_it_was_given_of_the_clocks() -> None:
    """It knows its own clock only."""
    made = Machine(keys(1), [LIMITS], FIVE, publish_until_ms=10, table_until_ms=10, carried=HANDED_ON)
    assert made.carried == HANDED_ON
