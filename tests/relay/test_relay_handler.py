"""The Lambda handler: what it answers, and that it never answers too early."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from relay_shell import (
    CONTENT,
    TRANSIENT,
    Broken,
    Bus,
    Context,
    Table,
    failures,
    relay,
    row,
    several,
    short,
    the_event,
)

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.moves import Parked, Settled
from dynamodb_outbox.core.relay.health import NOTHING
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Outcome, Prepared, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.event import Event


def test_everything_accepted_is_an_empty_answer() -> None:
    """All events are published in the order of the stream, all records settled."""
    bus, table = Bus(), Table()
    answer = relay(bus, table).lambda_handler({"Records": [row(10), row(9), row(11)]}, Context())
    assert answer == {"batchItemFailures": []}
    assert [short(event) for event in bus.accepted] == ["9", "10", "11"]
    assert sorted(table.settled) == ["OUTBOX#10", "OUTBOX#11", "OUTBOX#9"]


@pytest.mark.parametrize("records", [[], [row(1) | {"eventName": "MODIFY"}]])
def test_nothing_to_relay_is_an_empty_answer(records: list[Any]) -> None:
    """No request is made."""
    bus = Bus()
    assert relay(bus).lambda_handler({"Records": records}, Context()) == {"batchItemFailures": []}
    assert bus.calls == 0


def test_the_lowest_record_that_is_not_done_is_answered_as_the_stream_spells_it() -> None:
    """Numbers of varying length are compared as numbers: 99 is lower than 100."""
    bus = Bus(lambda event: TRANSIENT if short(event) in {"99", "100"} else None)
    records = [row(100, pk="a"), row(98, pk="b"), row(99, pk="c"), row(101, pk="d")]
    answer = relay(bus).lambda_handler({"Records": records}, Context(600))
    assert failures(answer) == ["99"]
    assert {short(event) for event in bus.accepted} == {"98", "101"}


def test_a_rejected_event_is_sent_again_in_the_same_invocation_and_its_key_waits() -> None:
    """The order of first acceptances is the order of the stream."""
    rejections = {"1": 2, "2": 1}

    def script(event: Event) -> Fault | None:
        rejections[short(event)] = rejections.get(short(event), 0) - 1
        return TRANSIENT if rejections[short(event)] >= 0 else None

    bus = Bus(script)
    assert failures(relay(bus).lambda_handler({"Records": [row(1), row(2), row(3)]}, Context())) == []
    assert [short(event) for event in bus.accepted] == ["1", "2", "3"]


def test_an_event_that_can_never_pass_is_parked_and_its_key_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The record goes to the table with the bus's own code; the batch succeeds; the log says so, without payload."""
    bus, table = Bus(lambda event: CONTENT if short(event) == "2" else None), Table()
    with caplog.at_level(logging.DEBUG, "dynamodb_outbox.relay"):
        answer = relay(bus, table).lambda_handler({"Records": [row(1), row(2), row(3)]}, Context())
    assert failures(answer) == []
    ((name, sort_key, parking),) = table.parked
    assert (name, sort_key, parking.code, parking.reason, parking.events) == ("shop", "OUTBOX#2", "Bad", "never", None)
    assert sorted(table.settled) == ["OUTBOX#1", "OUTBOX#3"]
    assert f"parked: {the_event(2)}: Bad\n" in caplog.text
    assert '{"n":' not in caplog.text


def test_a_row_that_cannot_be_read_is_parked() -> None:
    """Nothing of it is published."""
    bus, table = Bus(), Table()
    forged = row(1, payload={"S": '{"a":1},"id":"forged","x":{"b":1}'})
    assert failures(relay(bus, table).lambda_handler({"Records": [forged, row(2)]}, Context())) == []
    assert [parking.code for _, _, parking in table.parked] == ["InvalidRecord"]
    assert [short(event) for event in bus.accepted] == ["2"]


def test_what_the_sink_refuses_to_prepare_is_parked_unsent() -> None:
    """The bus's own rules are checked before anything is sent; the key goes on."""

    class Picky(Bus):
        def prepare(self, event: Event) -> Prepared | Fault:
            return CONTENT if short(event) == "1" else super().prepare(event)

    bus, table = Picky(), Table()
    assert failures(relay(bus, table).lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert [(sort_key, parking.code) for _, sort_key, parking in table.parked] == [("OUTBOX#1", "Bad")]
    assert [short(event) for event in bus.accepted] == ["2"]


def test_a_park_that_fails_holds_the_batch_at_that_record() -> None:
    """The event would be nowhere otherwise."""
    bus = Bus(lambda event: CONTENT if short(event) == "2" else None)
    answer = relay(bus, Table("AccessDenied")).lambda_handler({"Records": [row(1), row(2), row(3)]}, Context())
    assert failures(answer) == ["2"]
    assert [short(event) for event in bus.accepted] == ["1"]


def test_of_several_events_the_refused_one_is_named() -> None:
    """By its position in the record; the others are published and the record is not settled."""
    bus, table = Bus(lambda event: CONTENT if short(event) == "b" else None), Table()
    records = [row(1, pk="other"), several(2, "abc"), row(3)]
    assert failures(relay(bus, table).lambda_handler({"Records": records}, Context())) == []
    assert [parking.events for _, _, parking in table.parked] == [(1,)]
    assert [short(event) for event in bus.accepted if short(event) != "1"] == ["a", "c", "3"]
    assert sorted(table.settled) == ["OUTBOX#1", "OUTBOX#3"]


def test_when_all_events_of_the_last_record_are_refused_none_is_named() -> None:
    """All is the default."""
    table = Table()
    relay(Bus(lambda _: CONTENT), table).lambda_handler({"Records": [several(2, "ab")]}, Context())
    assert [parking.events for _, _, parking in table.parked] == [(0,), None]


def test_a_failed_settle_does_not_fail_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again where that helps, and logged where it does not."""
    table = Table()
    table.answers = [Settled(again=(1,), failed={"AccessDenied": 1})]
    assert failures(relay(Bus(), table).lambda_handler({"Records": [row(1, pk="a"), row(2, pk="b")]}, Context())) == []
    assert table.settled == ["OUTBOX#2"]
    assert "1 published record could not be settled: AccessDenied" in caplog.text


def test_a_settle_for_which_no_time_is_left_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is done all the same; the log counts the records that stay pending."""
    bus, table = Bus(), Table()
    bus.pause_s = 0.4
    records = [row(1, pk="a"), row(2, pk="b")]
    assert failures(relay(bus, table).lambda_handler({"Records": records}, Context(400))) == []
    assert table.settled == []
    assert "2 published records could not be settled in time" in caplog.text


@pytest.mark.parametrize("fault", [ZeroDivisionError("x"), SystemExit(1), None])
def test_a_sink_with_a_bug_loses_nothing(fault: BaseException | None, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it raises in its thread, the records are delivered again and the invocation ends in time."""
    answer = relay(Broken(fault)).lambda_handler({"Records": [row(1)]}, Context(1500))
    assert failures(answer) == ["1"]
    assert "PublishRaised" in caplog.text


def test_a_fault_of_the_target_holds_everything() -> None:
    """Nothing is parked; one request is enough to know."""
    bus, table = Bus(lambda _: Fault(Kind.TARGET, "AccessDeniedException")), Table()
    assert failures(relay(bus, table).lambda_handler({"Records": [row(1), row(2)]}, Context())) == ["1"]
    assert bus.calls == 1
    assert table.parked == []


def test_it_never_answers_while_a_request_is_under_way() -> None:
    """A slow request is waited for, beyond the time that was meant for it."""
    bus = Bus()
    bus.pause_s = 0.5
    relay(bus).lambda_handler({"Records": [row(1)]}, Context(200))
    assert bus.at_once == 0
    assert len(bus.accepted) == 1


def test_even_an_error_of_its_own_waits_for_what_is_under_way() -> None:
    """Here the source of randomness fails while a request is out."""

    class Failing:
        def __init__(self) -> None:
            self.left = 2  # it begins, and the bus is found

        def bytes(self, count: int) -> bytes:
            return b"\0" * count

        def unit(self) -> float:
            self.left -= 1
            if self.left < 0:
                raise OSError("no entropy")
            return 0.0

    slow = Bus(lambda event: time.sleep(0.5) if short(event) == "2" else None)
    slow.limits = SinkLimits(1, 1000, 1000)
    with pytest.raises(OSError, match="no entropy"):
        relay(slow, entropy=Failing()).lambda_handler({"Records": [row(1, pk="a"), row(2, pk="b")]}, Context())
    assert slow.at_once == 0
    assert len(slow.accepted) == 2


def test_without_time_nothing_is_started() -> None:
    """The first record is answered at once."""
    bus = Bus()
    assert failures(relay(bus).lambda_handler({"Records": [row(5), row(6)]}, Context(0))) == ["5"]
    assert bus.calls == 0


def test_without_a_context_it_has_a_minute() -> None:
    """For calls by hand."""
    assert failures(relay(Bus()).lambda_handler({"Records": [row(1)]}, None)) == []


WRONG_WAYS: list[Any] = [5, -1, None, "orders", True, KeyError("secret"), Fault(cast("Any", "content"), "x")]


@pytest.mark.parametrize("way", WRONG_WAYS)
def test_a_router_with_a_bug_parks_the_event_at_hand(way: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What it raises, or returns wrongly, is a fault of that event; others go on, and the log has the traceback."""
    bus, table = Bus(), Table()

    class Ways:
        sinks = (bus,)

        def route(self, event: Event) -> Any:
            if short(event) != "1":
                return 0
            if isinstance(way, Exception):
                raise way
            return way

    assert failures(relay(Ways(), table).lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert [(key, parking.code, "secret" in parking.reason) for _, key, parking in table.parked] == [
        ("OUTBOX#1", "NoRoute", False)
    ]
    assert [short(event) for event in bus.accepted] == ["2"]
    assert "route failed" in caplog.text


WRONG_ENTRIES: list[Any] = [None, ("entry", 1), Prepared("e", cast("Any", None)), Prepared("e", -1), KeyError("secret")]


@pytest.mark.parametrize("entry", WRONG_ENTRIES)
def test_a_prepare_with_a_bug_parks_the_event_at_hand(entry: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As a router with one."""

    class Buggy(Bus):
        def prepare(self, event: Event) -> Prepared | Fault:
            if short(event) != "1":
                return super().prepare(event)
            if isinstance(entry, Exception):
                raise entry
            return cast("Prepared", entry)

    bus, table = Buggy(), Table()
    assert failures(relay(bus, table).lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert [(key, parking.code, "secret" in parking.reason) for _, key, parking in table.parked] == [
        ("OUTBOX#1", "PrepareFailed", False)
    ]
    assert [short(event) for event in bus.accepted] == ["2"]
    assert "prepare failed" in caplog.text


WRONG_OUTCOMES: list[Any] = [
    None, Answered(cast("Any", None)), Answered(cast("Any", (True, None))), Answered(cast("Any", ("x", None))),
    Answered((Fault(cast("Any", "content"), "x"), None)), RequestFailed(cast("Any", None)),
    RequestFailed(Fault(Kind.CONTENT, cast("Any", None))),
]  # fmt: skip


@pytest.mark.parametrize("outcome", WRONG_OUTCOMES)
def test_a_publish_that_returns_nonsense_says_nothing_of_its_entries(outcome: Any) -> None:
    """They are unknown, and sent again; nothing is parked, and what has a result of its own counts."""

    class Buggy(Bus):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            if self.calls or len(entries) != 2:
                return super().publish(entries)
            self.calls += 1
            return cast("Outcome", outcome)

    bus, table = Buggy(), Table()
    assert failures(relay(bus, table).lambda_handler({"Records": [row(1, pk="a"), row(2, pk="b")]}, Context())) == []
    known = isinstance(outcome, Answered) and bool(outcome.results)
    assert sorted(short(event) for event in bus.accepted) == (["1"] if known else ["1", "2"])
    assert table.parked == []


class Leaping(SystemClock):
    """A clock on which each look at the time takes some: a CPU that is slow."""

    def __init__(self, step_ms: int) -> None:
        self.now, self.step_ms = 0, step_ms

    def monotonic_ms(self) -> int:
        """Return a time that has passed by then."""
        self.now += self.step_ms
        return self.now


def test_what_there_was_time_to_decode_is_sent_and_the_rest_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    """So a batch that is too much for one invocation gets on with each; the log says what the matter is."""
    bus = Bus()
    made = relay(bus, clock=Leaping(100), max_in_flight=1)
    records = [row(number) for number in range(1, 101)]
    left = [*records]
    while left:
        answer = failures(made.lambda_handler({"Records": left}, Context(10_000)))
        assert answer, "all at once"
        assert int(answer[0]) > int(left[0]["dynamodb"]["SequenceNumber"])
        left = [one for one in left if int(one["dynamodb"]["SequenceNumber"]) >= int(answer[0])][:60]
        if len(left) < 20:
            break
    assert [short(event) for event in bus.accepted] == [str(number) for number in range(1, len(bus.accepted) + 1)]
    assert re.search(r"decoding \d+ records of 100 took \d+ ms, half of the time for publishing", caplog.text)


def test_the_first_record_is_decoded_without_time() -> None:
    """Else a batch would stay for ever where decoding begins too late."""
    bus = Bus()
    made = relay(bus, clock=Leaping(1))
    assert failures(made.lambda_handler({"Records": [row(1), row(2)]}, Context(0))) == ["1"]


def test_requests_under_way_are_bounded() -> None:
    """By max_in_flight, and used up to it."""
    bus = Bus()
    bus.limits = SinkLimits(1, 1000, 1000)
    bus.pause_s = 0.05
    records = [row(number, pk=str(number)) for number in range(9)]
    assert failures(relay(bus, max_in_flight=3).lambda_handler({"Records": records}, Context())) == []
    assert bus.most_at_once == 3


def test_without_ordering_a_key_travels_in_one_request() -> None:
    """ordering="none" lifts the gate."""
    bus = Bus()
    relay(bus, ordering="none").lambda_handler({"Records": [row(1), row(2), row(3)]}, Context())
    assert bus.calls == 1


@pytest.mark.parametrize(("answer", "kept"), [(Parked(failure="x"), 0), (Parked(failure="x", lost=True), 1), (None, 1)])
def test_a_park_that_is_turned_away_costs_nothing_and_a_lost_one_its_unit(answer: Parked | None, kept: int) -> None:
    """What raises anything at all (None) counts as lost."""

    class Failing(Table):
        def park(self, table: str, image: Any, parking: Any) -> Parked:
            super().park(table, image, parking)
            if answer is None:
                raise RuntimeError("anything")
            return answer

    made = relay(Bus(), Failing())
    assert failures(made.lambda_handler({"Records": [row(1, payload={"S": "{"})]}, Context())) == ["1"]
    assert len(made._carried.parks) == kept


def test_the_park_budget_spans_invocations() -> None:
    """Ten in a minute; the eleventh is held, not parked."""
    table = Table()
    made = relay(Bus(lambda _: CONTENT), table)
    answers = [made.lambda_handler({"Records": [row(number)]}, Context()) for number in range(1, 12)]
    assert [failures(answer) for answer in answers] == [[]] * 10 + [["11"]]
    assert len(table.parked) == 10


"""Each of them would park every hand-written event."""


@pytest.mark.parametrize(("here", "level"), [("eu-west-1", "INFO"), ("ddblocal", "WARNING")])
def test_records_of_another_region_are_counted_in_the_log(
    here: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once per invocation, with both Regions; louder when one of them is none, for then nobody relays the record."""
    ours = [row(n, ob_v={"N": "1"}, region={"S": "us-east-1"}) | {"awsRegion": here} for n in (1, 2)]
    with caplog.at_level(logging.INFO, "dynamodb_outbox.relay"):
        assert failures(relay(Bus()).lambda_handler({"Records": ours}, Context())) == []
    (one,) = caplog.records
    assert one.levelname == level
    assert one.getMessage().startswith("2 records were written in Region 'us-east-1' and not relayed")
    assert repr(here) in one.getMessage()


def test_a_record_with_more_refused_events_than_the_park_limit_ends_parked() -> None:
    """Delivered again and again by a relay that stays the same, the checkpoint moves on."""
    table = Table()
    letters = "abcdefghijkl"
    bus = Bus(lambda event: None if short(event) == "12" else CONTENT)
    made = relay(bus, table, max_in_flight=1)  # so that what is refused first is known
    records = [several(1, letters), *(row(n, pk=str(n)) for n in range(2, 12)), row(12, pk="z")]
    assert failures(made.lambda_handler({"Records": records}, Context())) == ["11"]
    assert failures(made.lambda_handler({"Records": records[10:]}, Context())) == ["11"]
    made._carried = NOTHING  # a minute later
    assert failures(made.lambda_handler({"Records": records}, Context())) == []


def test_a_request_that_fails_as_a_whole_is_retried() -> None:
    """Once with a reset, then accepted."""

    class Resetting(Bus):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            if not self.calls:
                self.calls += 1
                return RequestFailed(Fault(Kind.UNKNOWN, "ConnectionClosedError"))
            return super().publish(entries)

    bus = Resetting()
    assert failures(relay(bus).lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert [short(event) for event in bus.accepted] == ["1", "2"]
