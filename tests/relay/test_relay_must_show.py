"""Three batches that a relay written by hand gets wrong: one bad entry, a permission that is missing, a failed park."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_shell import Bus, Context, Table, failures, relay, row, short

from dynamodb_outbox.core.relay.outcome import Fault, Kind, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.outcome import Outcome

KEYS = ("a", "b", "c", "d", "e")


class Strict(Bus):
    """Refuses the whole request when there is one bad entry in it, and does not say which."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Accept all, or nothing."""
        if any(short(event) == "13" for event in entries):
            self.calls += 1
            return RequestFailed(Fault(Kind.CONTENT, "ValidationException", "1 validation error"))
        return super().publish(entries)


def test_of_twenty_five_events_the_one_that_spoils_its_request_is_parked_and_the_others_go_in_order() -> None:
    """Requests of several are made smaller until the bad entry is alone; no failure is reported."""
    bus, table = Strict(), Table()
    records = [row(number, pk=KEYS[number % 5]) for number in range(1, 26)]
    assert failures(relay(bus, table).lambda_handler({"Records": records}, Context())) == []
    accepted = [int(short(event)) for event in bus.accepted]
    assert sorted(accepted) == [number for number in range(1, 26) if number != 13]
    for key in range(5):
        of_key = [number for number in accepted if number % 5 == key]
        assert of_key == sorted(of_key)
    assert [sort_key for _, sort_key, _ in table.parked] == ["OUTBOX#13"]
    assert len(table.settled) == 24


def test_access_denied_on_everything_parks_and_settles_nothing() -> None:
    """The permission is wrong, not the events: the first number is reported, and all of it is delivered again."""
    bus, table = Bus(lambda _: Fault(Kind.TARGET, "AccessDeniedException")), Table()
    records = [row(number, pk=KEYS[number % 5]) for number in range(1, 26)]
    assert failures(relay(bus, table).lambda_handler({"Records": records}, Context())) == ["1"]
    assert (bus.accepted, table.parked, table.settled) == ([], [], [])


def test_a_failed_park_skips_nothing_and_the_event_is_parked_once_later() -> None:
    """The checkpoint stays before it; what follows of its key waits for it."""
    bus, table = Bus(lambda event: Fault(Kind.CONTENT, "Bad") if short(event) == "2" else None), Table("throttled")
    records = [row(number, pk="a") for number in (1, 2, 3)]
    made = relay(bus, table)
    assert failures(made.lambda_handler({"Records": records}, Context())) == ["2"]
    assert [short(event) for event in bus.accepted] == ["1"]
    table.failure = None
    table.parked.clear()
    assert failures(made.lambda_handler({"Records": records[1:]}, Context())) == []
    assert [short(event) for event in bus.accepted] == ["1", "3"]
    assert [sort_key for _, sort_key, _ in table.parked] == ["OUTBOX#2"]
    assert sorted(table.settled) == ["OUTBOX#1", "OUTBOX#3"]
