"""What an invocation of the relay writes to the log: each fault once, with a count, and nothing of the data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from relay_shell import (
    CONTENT,
    Broken,
    Bus,
    Context,
    Table,
    failures,
    relay,
    row,
    short,
    the_event,
)

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.moves import Settled
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Outcome, Prepared, RequestFailed
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.event import Event


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was logged: level and text."""
    return [(one.levelname, one.getMessage()) for one in caplog.records]


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
    told = "2 events are held: nobody answers whether orders exists: NoClient: no AWS Region is configured"
    assert error.startswith(told)
