"""An instance whose monotonic clock stands still between two invocations, as one that is frozen."""

from __future__ import annotations

from relay_shell import CONTENT, Bus, Context, Table, failures, relay, row, short

from dynamodb_outbox.core.relay.health import Carried, Health
from dynamodb_outbox.core.relay.outcome import Presence, Verified


class Standing:
    """Clocks of which only the wall clock goes on by itself."""

    def __init__(self) -> None:
        self.wall_ms = 1_800_000_000_000
        self.steady_ms = 1_000

    def now_ms(self) -> int:
        """Return wall-clock time."""
        return self.wall_ms

    def monotonic_ms(self) -> int:
        """Return the time that passed in invocations."""
        return self.steady_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass on both."""
        self.wall_ms += duration_ms
        self.steady_ms += duration_ms


def test_what_was_found_before_it_stood_still_is_asked_for_again() -> None:
    """The bus vanished an hour ago: what is published to it would be lost."""
    clock, bus = Standing(), Bus()
    made = relay(bus, clock=clock)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    bus.found = [Verified(Presence.MISSING, "gone")]
    clock.wall_ms += 3_600_000
    assert failures(made.lambda_handler({"Records": [row(2)]}, Context())) == ["2"]
    assert [short(event) for event in bus.accepted] == ["1"]


def test_a_wall_clock_that_is_set_back_prolongs_nothing() -> None:
    """A minute on the other clock is a minute."""
    clock, bus = Standing(), Bus()
    made = relay(bus, clock=clock)
    made.lambda_handler({"Records": [row(1)]}, Context())
    clock.wall_ms -= 86_400_000
    clock.steady_ms += 60_000
    assert failures(made.lambda_handler({"Records": [row(2)]}, Context())) == []
    assert bus.asked == 2


def test_the_parks_of_a_minute_ago_are_not_those_of_this_minute() -> None:
    """What the limit held is parked in the next invocation."""
    clock, table = Standing(), Table()
    made = relay(Bus(lambda _: CONTENT), table, clock=clock, max_in_flight=1)
    records = [row(number, pk=str(number)) for number in range(1, 16)]
    assert failures(made.lambda_handler({"Records": records}, Context())) == ["11"]
    clock.wall_ms += 60_000
    assert failures(made.lambda_handler({"Records": records[10:]}, Context())) == []


def test_the_pause_of_a_breaker_ends() -> None:
    """A destination is left alone for a minute at most, by whatever clock."""
    clock = Standing()
    made = relay(Bus(), clock=clock)
    left_alone = Health(Presence.OK, 10**9, failures=9, openings=7, open_until_ms=clock.steady_ms + 50_000)
    made._carried = Carried((left_alone,), apart_ms=clock.wall_ms - clock.steady_ms)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == ["1"]
    clock.wall_ms += 50_000
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
