"""The Lambda handler: what it answers, and that it never answers too early."""

from __future__ import annotations

import logging
import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from relay_shell import ARN, CONTENT, TRANSIENT, Bus, Context, Table, failures, relay, row, several, short

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.moves import Parked, Settled
from dynamodb_outbox.core.record.parked_keys import KeysFound
from dynamodb_outbox.core.relay.health import NOTHING
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Outcome, Prepared, RequestFailed
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, TableMismatch
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

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


class Broken(Bus):
    """A sink with a bug."""

    def __init__(self, fault: BaseException | None) -> None:
        super().__init__()
        self.fault = fault

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Raise, or return something that is no outcome."""
        self.calls += 1
        if self.fault is not None:
            raise self.fault
        return cast("Outcome", list(entries))


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


def test_time_outs_that_do_not_fit_the_function_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """And it still publishes, in the first half of its time."""
    bus = Bus()
    bus.request_ms = 60_000
    made = relay(bus)
    for number in (1, 2):
        assert failures(made.lambda_handler({"Records": [row(number)]}, Context())) == []
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "60350 ms" in warning
    assert "the 10000 ms here" in warning


@pytest.mark.parametrize(("bus_ms", "table_ms"), [(4_500, 250), (100, 9_750), (100, 3_000), (48_000, 250)])
def test_the_time_out_that_the_warning_asks_for_is_enough(
    bus_ms: int, table_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A function that is given it is not warned of, though a little of it has passed; one with a second less is."""
    bus, table = Bus(), Table()
    bus.request_ms, table.request_ms = bus_ms, table_ms
    relay(bus, table).lambda_handler({"Records": [row(1)]}, Context(2_999))
    found = re.search(r"time-out of at least (\d+) s", caplog.text)
    assert found
    for left_ms, warned in ((int(found[1]) * 1000 - 1, False), (int(found[1]) * 1000 - 1001, True)):
        caplog.clear()
        relay(bus, table).lambda_handler({"Records": [row(1)]}, Context(left_ms))
        assert ("hangs" in caplog.text) is warned


@pytest.mark.parametrize(("on_poison", "warned"), [("park", False), ("park_key", True)])
def test_requests_about_parked_keys_count_where_keys_are_parked(
    on_poison: Any, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A relay that only parks records makes none."""
    made = relay(Bus(), on_poison=on_poison)
    slow: Any = SimpleNamespace(request_ms=9_000, read=lambda *_: KeysFound(frozenset(), frozenset()))
    made._parked_keys = slow
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert ("one to the table can take 9350 ms" in caplog.text) is warned


def test_no_time_out_is_advised_that_a_function_cannot_have(caplog: pytest.LogCaptureFixture) -> None:
    """With clients that wait for ever only the clients can be changed."""
    bus = Bus()
    bus.request_ms = 24 * 60 * 60 * 1000
    relay(bus).lambda_handler({"Records": [row(1)]}, Context())
    assert "Give the clients shorter time-outs" in caplog.text


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was logged: level and text."""
    return [(one.levelname, one.getMessage()) for one in caplog.records]


def the_event(number: int, key: str = "ORDER#1", to: str = "orders") -> str:
    """Return what the log calls the event of a row."""
    event_id = f"{key.replace('#', '%23')}#{number}"
    return f"the event 'order.placed' {event_id!r} of key {key!r}, record {number}, to {to}"


DENIED = Fault(Kind.TARGET, "AccessDeniedException", "User: x is not authorized to perform: events:PutEvents")


@pytest.mark.parametrize("whole", [True, False])
def test_a_fault_of_the_target_is_told_once_in_the_words_of_the_bus(
    whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As an error, with a count, whether the request or each entry has it."""

    class Denied(Bus):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            return RequestFailed(DENIED) if whole else Bus(lambda _: DENIED).publish(entries)

    records = [row(number, pk=str(number)) for number in (1, 2, 3)]
    assert failures(relay(Denied()).lambda_handler({"Records": records}, Context())) == ["1"]
    assert lines(caplog) == [
        ("WARNING", "3 events of 3 records: 0 accepted, 0 parked; delivered again from 1 on"),
        ("ERROR", f"3 events were not accepted: {DENIED} (the first: {the_event(1, key='1')})"),
    ]


def test_one_is_no_plural(caplog: pytest.LogCaptureFixture) -> None:
    """A newcomer's first batch has one event."""
    relay(Bus(lambda _: DENIED)).lambda_handler({"Records": [row(1)]}, Context())
    assert [text for _, text in lines(caplog)] == [
        "1 event of 1 record: 0 accepted, 0 parked; delivered again from 1 on",
        f"1 event was not accepted: {DENIED} ({the_event(1)})",
    ]


def test_what_the_bus_says_of_content_is_stored_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It may quote the event. What was found before sending is our own reason, and is logged."""
    table = Table()
    bus = Bus(lambda event: Fault(Kind.CONTENT, "Malformed", "secret") if short(event) == "1" else None)
    bad = row(2, pk="b", payload={"S": "bad"})
    assert failures(relay(bus, table).lambda_handler({"Records": [row(1), bad]}, Context())) == []
    assert sorted(parking.reason == "secret" for _, _, parking in table.parked) == [False, True]
    assert f"parked: {the_event(1)}: Malformed\n" in caplog.text
    assert "parked: the unreadable record 'b/OUTBOX#2' of key 'b', record 2: InvalidRecord: " in caplog.text
    assert "secret" not in caplog.text


def test_a_request_that_fails_in_a_passing_way_is_told_in_words_and_an_entry_by_its_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Words about a connection hold no event; words about an entry may. Both were accepted in the end."""
    broken = Fault(Kind.TRANSIENT, "EndpointConnectionError", "could not connect to https://bus")
    busy = Fault(Kind.TRANSIENT, "Busy", "secret")

    class Passing(Bus):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            self.script = lambda _: busy if self.calls == 1 else None
            if short(entries[0]) == "1" and self.calls < 2:
                self.calls += 1
                return RequestFailed(broken)
            return super().publish(entries)

    for number, told in ((1, str(broken)), (2, "Busy")):
        caplog.clear()
        assert failures(relay(Passing()).lambda_handler({"Records": [row(number)]}, Context())) == []
        assert lines(caplog) == [("WARNING", f"1 event was accepted after a fault: {told}")]


def test_a_sink_that_finds_its_target_at_fault_before_sending_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Everything is held, and the log says why."""

    class Nowhere(Bus):
        def prepare(self, event: Event) -> Prepared | Fault:
            return DENIED if short(event) == "1" else super().prepare(event)

    assert failures(relay(Nowhere()).lambda_handler({"Records": [row(1)]}, Context())) == ["1"]
    assert ("ERROR", f"1 event was not accepted: {DENIED} ({the_event(1)})") in lines(caplog)


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


LEFT: list[tuple[dict[str, Any], int, Fault | None, str]] = [
    ({}, 0, None, "1 event left, and what follows by key: there was no time left to send more"),
    (
        {"rate_limit_per_instance": 1},
        900,
        None,
        "28 events left, and what follows by key: rate_limit_per_instance=1 let no more through in the time that",
    ),
    ({}, 5000, CONTENT, "19 events left, and what follows by key: the park limit is reached (10 records in 60 s, "),
    (
        {"on_poison": "block"},
        5000,
        CONTENT,
        f"29 events left, and what follows by key: on_poison='block' parks nothing (the first: {the_event(1, '1')})",
    ),
]


@pytest.mark.parametrize(("options", "time_ms", "fault", "said"), LEFT)
def test_the_log_says_why_events_were_left(
    options: dict[str, Any], time_ms: int, fault: Fault | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Which setting it was, or the function's time; once, with a count."""
    made = relay(Bus(lambda _: fault), **options)
    records = [row(number, pk=str(number)) for number in range(1, 30)]
    assert failures(made.lambda_handler({"Records": records}, Context(time_ms)))
    (told,) = [text for _, text in lines(caplog) if " left, and " in text]
    assert told.startswith(said)


def test_a_park_that_failed_is_not_said_to_want_time(caplog: pytest.LogCaptureFixture) -> None:
    """Its own line has the reason."""
    made = relay(Bus(lambda _: CONTENT), Table("AccessDenied"))
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == ["1"]
    assert " left, and " not in caplog.text


def test_the_same_traceback_is_written_once_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """A bug of a sink meets each request; another error has its own traceback."""

    class Buggy(Broken):
        def publish(self, entries: Sequence[Any]) -> Outcome:
            if short(entries[0]) == "4":
                raise KeyError("other")
            raise ZeroDivisionError("x")

    bus = Buggy(None)
    bus.limits = SinkLimits(1, 1000, 1000)
    records = [row(number, pk=str(number)) for number in (1, 2, 3, 4)]
    assert failures(relay(bus).lambda_handler({"Records": records}, Context(700))) == ["1"]
    traces = [one for one in caplog.records if one.exc_info]
    assert sorted(one.exc_info[0].__name__ for one in traces if one.exc_info and one.exc_info[0]) == [
        "KeyError",
        "ZeroDivisionError",
    ]
    (again,) = [text for _, text in lines(caplog) if "same error: ZeroDivisionError: x" in text]
    assert re.fullmatch(r"Publish failed \d+ more times? with the same error: .*", again)


def test_settles_that_fail_alike_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each call settles 25 records at most; the reason is one."""
    table = Table()
    table.answers = [Settled(failed={"AccessDenied": 25}), Settled(failed={"AccessDenied": 5})]
    records = [row(number, pk=str(number)) for number in range(30)]
    assert failures(relay(Bus(), table).lambda_handler({"Records": records}, Context())) == []
    assert lines(caplog) == [("WARNING", "30 published records could not be settled: AccessDenied")]


def test_without_a_region_the_batch_is_held_and_the_log_says_what_to_set(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error is raised: records that were done before keep their place in the stream."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    made = Relay(EventBridge("orders"))
    assert failures(made.lambda_handler({"Records": [row(1), row(2, pk="b")]}, Context(60_000))) == ["1"]
    (error,) = [text for level, text in lines(caplog) if level == "ERROR"]
    told = "2 events are held: nobody answers whether orders exists: ConfigurationError: no AWS Region is configured"
    assert error.startswith(told)


def test_a_relay_shows_what_it_does() -> None:
    """Where to, of which table if it was told, and its two ways."""
    assert repr(Relay(EventBridge("orders"))) == "Relay(EventBridge('orders'), ordering='key', on_poison='park')"
    made = Relay(EventBridge("orders"), table="shop", ordering="none", on_poison="block")
    assert repr(made) == "Relay(EventBridge('orders'), table='shop', ordering='none', on_poison='block')"


def test_a_sink_that_is_a_name_is_answered_with_the_line_to_write() -> None:
    """The most likely first mistake."""
    with pytest.raises(ConfigurationError, match=r"Relay takes a sink, as in Relay\(EventBridge\('orders'\)\)"):
        Relay(cast("Any", "orders"))


def test_a_client_of_another_service_is_refused_when_the_relay_is_made() -> None:
    """With the names of both services."""
    events = boto3.client("events", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with pytest.raises(ConfigurationError, match=r"'events'.*'dynamodb'"):
        Relay(Bus(), client=events)


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


def test_the_source_of_hand_written_rows() -> None:
    """The table's name, unless the relay says otherwise."""
    bus = Bus()
    relay(bus).lambda_handler({"Records": [row(1)]}, Context())
    relay(bus, source="shop.orders").lambda_handler({"Records": [row(1)]}, Context())
    assert [event.source for event in bus.accepted] == ["shop", "shop.orders"]


def test_the_table_must_be_known() -> None:
    """From the ARN, all of one table, or from the argument."""
    nameless = row(1)
    del nameless["eventSourceARN"]
    other = row(2) | {"eventSourceARN": ARN.replace("shop", "other")}
    for records in ([nameless], [row(1), other]):
        with pytest.raises(ConfigurationError, match="table="):
            relay(Bus()).lambda_handler({"Records": records}, Context())
    assert failures(relay(Bus(), table="shop").lambda_handler({"Records": [nameless]}, Context())) == []


@pytest.mark.parametrize("more", [{}, {"ob_columns": {"S": "0" * 16}}], ids=["its layout", "another layout"])
def test_records_of_another_table_than_was_named_are_neither_relayed_nor_passed_over(more: dict[str, Any]) -> None:
    """Its moves would be made in the wrong table, and a record that is not there would count as one that is done."""
    bus, table = Bus(), Table()
    table.stored = {"2": {}}  # a table that knows nothing of it
    record = row(2, ob_v={"N": "1"}, ob_pending={"S": "00"}, state={"S": "pending"}, **more)
    with pytest.raises(TableMismatch, match=r"table 'orders'.*stream of 'shop'") as caught:
        relay(bus, table, table="orders").lambda_handler({"Records": [record]}, Context())
    assert (caught.value.table, caught.value.streamed) == ("orders", ("shop",))
    assert (bus.calls, table.settled, table.parked, table.read) == (0, [], [], [])


def test_a_tables_arn_is_its_name() -> None:
    """In requests to the table, and as the source of rows that name none."""
    bus, table = Bus(), Table()
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop"
    assert failures(relay(bus, table, table=arn).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert table.settled == ["OUTBOX#1"]
    assert [event.source for event in bus.accepted] == ["shop"]


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


OTHER_SOURCES: dict[str, Any] = {
    "aws:sqs": {"Records": [{"messageId": "1", "body": "{}", "eventSource": "aws:sqs"}]},
    "aws:sns": {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "{}"}}]},
    "aws:kinesis": {
        "Records": [{"eventSource": "aws:kinesis", "eventName": "aws:kinesis:record", "kinesis": {"data": "e30="}}]
    },
    "shop.orders": {"version": "0", "source": "shop.orders", "detail-type": "order.placed", "detail": {}},
    "nobody": {"Records": ["text"]},
    "Records.0. comes from nobody": {"Records": [None]},
    "has no Records": {},
    "no Records": {"Records": None},
    "stream": [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {}}],  # as EventBridge Pipes hand on
}


@pytest.mark.parametrize("source", OTHER_SOURCES)
def test_another_event_source_is_an_error_that_names_it(source: str) -> None:
    """An empty answer would read as success, and a queue would delete what nobody published."""
    bus = Bus()
    with pytest.raises(ConfigurationError, match=f"{source}.*DynamoDB stream|DynamoDB {source}"):
        relay(bus).lambda_handler(OTHER_SOURCES[source], Context())
    assert bus.calls == 0


def test_one_record_of_another_source_among_good_ones_fails_the_invocation() -> None:
    """Before anything is published."""
    bus = Bus()
    with pytest.raises(ConfigurationError, match=r"Records\[1\] comes from aws:sqs"):
        relay(bus).lambda_handler({"Records": [row(1), {"eventSource": "aws:sqs", "body": ""}]}, Context())
    assert bus.calls == 0


def test_a_wrong_view_type_fails_the_invocation() -> None:
    """Nothing of the batch counts as done."""
    record = row(1)
    del record["dynamodb"]["NewImage"]
    with pytest.raises(ImageMissing):
        relay(Bus()).lambda_handler({"Records": [record]}, Context())


SOURCES: list[dict[str, Any]] = [{"source": ""}, {"source": "aws.shop"}, {"source": "s" * 257}]
"""Each of them would park every hand-written event."""


WRONG: list[dict[str, Any]] = [
    {"ordering": "fifo"},
    {"ordering": []},
    {"max_in_flight": 0},
    {"max_in_flight": "3"},
    {"max_in_flight": True},
    {"max_in_flight": 2.5},
    {"sink": None},
    {"sink": "orders"},
    {"sink": Bus},
    {"layout": "pk"},
    {"client": "dynamodb"},
    {"table": ""},
    {"table": 5},
    {"source": 5},
    *SOURCES,
]


@pytest.mark.parametrize("options", WRONG)
def test_arguments_that_cannot_work(options: dict[str, Any]) -> None:
    """Refused when the relay is made, by name."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Relay(**{"sink": Bus(), **options})


@pytest.mark.parametrize("said", [None, "soon", True, float("nan")])
def test_a_context_that_does_not_say_what_is_left_counts_as_none(said: Any) -> None:
    """A stand-in of a test, say: the relay has its minute."""
    context = Context()
    context.remaining_ms = said
    assert failures(relay(Bus()).lambda_handler({"Records": [row(1)]}, context)) == []


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
