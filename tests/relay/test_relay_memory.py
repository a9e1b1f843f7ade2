"""The memory of accepted events: what it holds, and the duplicates that it saves a warm relay."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay_shell import ARN, TRANSIENT, Bus, Context, Table, failures, relay, row, several, short

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.record.moves import Settled
from dynamodb_outbox.core.relay.memory import Accepted, Memory
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Outcome, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.relay.publisher import Relay


def one(number: int, **changed: Any) -> Accepted:
    """Return an acceptance."""
    return Accepted("arn", "orders", str(number), "id")._replace(**changed)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 5))
def test_it_holds_the_latest_and_no_more_than_it_may(numbers: list[int], most: int) -> None:
    """As a list of the last different ones; none at all when it is off."""
    memory = Memory(most)
    latest: list[int] = []
    for number in numbers:
        memory.add(one(number))
        latest = [*(other for other in latest if other != number), number][-most:] if most else []
        assert len(memory) == len(latest)
        assert [n for n in range(10) if one(n) in memory] == sorted(latest)
    assert memory.is_off is (most == 0)


@pytest.mark.parametrize(
    "other",
    [{"stream": "arn2"}, {"stream": None}, {"destination": "audit"}, {"sequence_number": "2"}, {"event_id": "id2"}],
)
def test_another_stream_destination_record_or_event_is_another(other: dict[str, Any]) -> None:
    """A row that was written again has another sequence number, and two tables may number alike."""
    memory = Memory(10)
    memory.add(one(1))
    assert one(1) in memory
    assert one(1, **other) not in memory


def deliver(made: Relay, records: Sequence[Any], *, at_most: int = 50) -> int:
    """Deliver records as Lambda does, until all are done; return how often that took."""
    for times in range(1, at_most):
        failed = failures(made.lambda_handler({"Records": list(records)}, Context()))
        if not failed:
            return times
        first = next(place for place, record in enumerate(records) if record["dynamodb"]["SequenceNumber"] == failed[0])
        records = records[first:]
    raise AssertionError("never done")


class Late(SystemClock):
    """A clock on which time can be made to pass."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        """Return the time, and what has passed besides."""
        return super().monotonic_ms() + self.ahead_ms


class Failing(Bus):
    """A bus that does not take one event, in a way that may pass, for `times` invocations: the rest of their time."""

    def __init__(self, times: int, which: str) -> None:
        super().__init__(self.answer)
        self.left = times
        self.which = which
        self.refused = 0
        self.clock = Late()

    def answer(self, event: Event) -> Fault | None:
        """Refuse the one event, and when it comes again let the time be over."""
        if short(event) != self.which or self.left <= 0:
            return None
        self.refused += 1
        if self.refused % 2 == 0:
            self.clock.ahead_ms += 30_000
            self.left -= 1
        return TRANSIENT


def duplicates(times: int, remember: int) -> int:
    """Return how many events of a hundred are published twice when the first is refused in so many invocations."""
    bus, table = Failing(times, "0"), Table()
    made = relay(bus, table, remember_accepted=remember, clock=bus.clock)
    records = [row(number, pk=str(number)) for number in range(100)]
    while failures(made.lambda_handler({"Records": records}, Context(30_000))):
        assert bus.refused <= 2 * times
    published = Counter(map(short, bus.accepted))
    assert len(published) == 100
    assert set(table.settled) == {f"OUTBOX#{number}" for number in range(100)}
    return sum(published.values()) - 100


def test_duplicates_with_and_without_it() -> None:
    """One record fails in k invocations, and 99 behind it are delivered again each time."""
    print()  # noqa: T201 -- the figures
    for failed_times in (1, 2, 4):
        without, with_it = duplicates(failed_times, 0), duplicates(failed_times, 10_000)
        print(f"k={failed_times}: {without} duplicates without the memory, {with_it} with it")  # noqa: T201
        assert (without, with_it) == (99 * failed_times, 0)


def test_remembered_events_keep_their_place_in_the_order_of_their_key_and_are_settled() -> None:
    """B of a record was accepted, the next of the key was not: only that is sent again."""
    bus, table = Failing(1, "3"), Table()
    made = relay(bus, table, clock=bus.clock)
    records = [several(2, "ab"), row(3)]
    assert failures(made.lambda_handler({"Records": records}, Context(30_000))) == ["3"]
    assert failures(made.lambda_handler({"Records": records}, Context(30_000))) == []
    assert [short(event) for event in bus.accepted] == ["a", "b", "3"]
    assert table.settled.count("OUTBOX#3") == 1
    assert table.settled.count("OUTBOX#2") >= 1


def test_a_record_that_is_known_to_be_settled_is_not_settled_again() -> None:
    """Nor is one of which nothing was left to write; one whose settling failed, or was not answered, is."""
    answers = [
        (Settled(done=2), ["OUTBOX#1", "OUTBOX#2"]),
        (Settled(done=1, changed=1), ["OUTBOX#1", "OUTBOX#2"]),
        (Settled(done=1, failed={"AccessDenied": 1}), ["OUTBOX#1", "OUTBOX#2"] * 2),
        (None, ["OUTBOX#1", "OUTBOX#2"] * 2),
    ]
    for answer, settled in answers:

        class Some(Table):
            asked = 0

            def settle(self, table: str, images: Sequence[Any], now_ms: int) -> Settled:
                self.asked += 1
                super().settle(table, images, now_ms)
                if self.asked > 1:
                    return Settled(done=len(images))
                if answer is None:  # noqa: B023 -- called within the turn
                    raise RuntimeError("anything")
                return answer  # noqa: B023

        table, bus = Some(), Bus()
        made = relay(bus, table)
        records = [row(1), row(2, pk="b")]
        for _ in range(3):
            assert deliver(made, records) == 1
        assert table.settled == settled
        assert len(bus.accepted) == 2


def test_a_record_of_which_one_event_was_forgotten_is_settled_again() -> None:
    """That one is published again, and who knows what became of the record."""
    table, bus = Table(), Bus()
    made = relay(bus, table, remember_accepted=1)
    for _ in range(2):
        assert deliver(made, [several(1, "ab")]) == 1
    assert [short(event) for event in bus.accepted] == ["a", "b", "a"]
    assert table.settled == ["OUTBOX#1"] * 2


def test_of_what_is_settled_before_the_rest_of_its_record_is_remembered_nothing_is_taken_back() -> None:
    """An acceptance that is remembered again keeps what is known of its record."""
    memory = Memory(2)
    memory.add(one(1), settled=True)
    memory.add(one(1))
    memory.add(one(2))
    assert (memory.is_settled(one(1)), memory.is_settled(one(2)), memory.is_settled(one(3))) == (True, False, False)


def test_what_was_only_sent_is_not_remembered() -> None:
    """The answer was lost: nobody knows, and it is sent again."""

    class Silent(Bus):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            outcome = super().publish(entries)
            return RequestFailed(Fault(Kind.UNKNOWN, "ReadTimeoutError")) if self.calls == 1 else outcome

    bus = Silent()
    made = relay(bus)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context(0))) == ["1"]
    assert deliver(made, [row(1)]) == 1
    assert len(bus.accepted) == 2


def test_a_row_that_was_deleted_and_written_again_is_published_again() -> None:
    """It is another stream record under the same key, and so with the same id."""
    bus = Bus()
    made = relay(bus)
    again = row(1)
    again["dynamodb"]["SequenceNumber"] = "99"
    for record in (row(1), row(1), again):
        assert deliver(made, [record]) == 1
    assert [short(event) for event in bus.accepted] == ["1", "1"]


def test_two_streams_are_apart() -> None:
    """Sequence numbers are those of one stream; a table whose stream is made again has another."""
    bus = Bus()
    made = relay(bus)
    other = row(1) | {"eventSourceARN": ARN.replace("2026-01-31", "2026-02-01")}
    for record in (row(1), other):
        assert deliver(made, [record]) == 1
    assert len(bus.accepted) == 2


def test_the_log_tells_what_was_accepted_before_from_what_was_accepted_now(caplog: pytest.LogCaptureFixture) -> None:
    """Else two lines would count one acceptance twice."""
    refused = ["2"]
    made = relay(Bus(lambda event: TRANSIENT if short(event) in refused else None))
    records = [row(number, pk=str(number)) for number in (1, 2, 3, 4)]
    with caplog.at_level("DEBUG", "dynamodb_outbox.relay"):
        assert failures(made.lambda_handler({"Records": records}, Context(600))) == ["2"]
        refused.clear()
        assert failures(made.lambda_handler({"Records": records}, Context(600))) == []
    tallies = [text for one in caplog.records if " accepted" in (text := one.getMessage()) and " parked" in text]
    assert tallies == [
        "4 events of 4 records: 3 accepted, 0 parked; delivered again from 2 on",
        "4 events of 4 records: 4 accepted (3 of them in an earlier invocation), 0 parked",
    ]


def test_what_does_not_fit_is_forgotten_first_come_first() -> None:
    """Of three accepted events an instance that remembers two sends the first again."""
    bus = Bus()
    made = relay(bus, remember_accepted=2)
    records = [row(number, pk=str(number)) for number in (1, 2, 3)]
    for _ in range(2):
        assert deliver(made, records) == 1
    assert Counter(map(short, bus.accepted)) == {"1": 2, "2": 1, "3": 1}


def test_an_invocation_that_ends_in_an_error_remembers_what_was_accepted() -> None:
    """Here the randomness fails after the first answer; the batch is delivered again as a whole."""

    class Once:
        left = 3

        def bytes(self, count: int) -> bytes:
            return b"\0" * count

        def unit(self) -> float:
            self.left -= 1
            if self.left == 0:
                raise OSError("no entropy")
            return 0.0

    bus = Bus()
    made = relay(bus, entropy=Once(), max_in_flight=1)
    bus.limits = bus.limits.__class__(1, 1000, 1000)
    records = [row(1, pk="a"), row(2, pk="b")]
    with pytest.raises(OSError, match="no entropy"):
        made.lambda_handler({"Records": records}, Context())
    assert deliver(made, records) == 1
    assert len(bus.accepted) >= 2
