"""The EventBridge sink: entries, local checks, and what comes back."""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.event import Event
from dynamodb_outbox.sinks import EventBridge, SinkLimits
from dynamodb_outbox.sinks.eventbridge import ENTRY_CODES

if TYPE_CHECKING:
    from conftest import Account

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def event(payload: str = '{"n":1}', **changes: Any) -> Event:
    """Return an event with changes."""
    fields: dict[str, Any] = {"id": "1", "type": "order.placed", "source": "shop", "time": NOON, "key": "ORDER#1"}
    return Event(payload=payload, **{**fields, **changes})


def client() -> Any:
    """Return a client that never gets as far as a network."""
    return boto3.client(
        "events",
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2}),
    )


def fault_of(sink: EventBridge, one: Event) -> Fault:
    """Return the fault that the local checks find."""
    found = sink.prepare(one)
    assert isinstance(found, Fault)
    return found


def prepared(sink: EventBridge, one: Event) -> Prepared:
    """Return the entry of an event that passes the local checks."""
    found = sink.prepare(one)
    assert isinstance(found, Prepared)
    return found


def test_an_event_becomes_an_entry() -> None:
    """The CloudEvent is the Detail, its main fields are the entry's own, and the time is a datetime."""
    entry = prepared(EventBridge("orders"), event()).entry
    assert json.loads(entry.pop("Detail"))["partitionkey"] == "ORDER#1"
    assert entry == {"EventBusName": "orders", "Source": "shop", "DetailType": "order.placed", "Time": NOON}


def test_resources_are_the_users_choice() -> None:
    """Rules of existing buses may match on them."""
    sink = EventBridge("orders", envelope="raw", resources=lambda one: [str(one.key)])
    entry = prepared(sink, event())
    assert entry.entry["Resources"] == ["ORDER#1"]
    assert entry.size == 14 + len("shop") + len("order.placed") + len('{"n":1}') + len("ORDER#1")


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=100))
@hypothesis_settings(deadline=None)
def test_the_size_is_counted_in_bytes_of_utf_8(source: str, value: str) -> None:
    """14 for the time, and every text as UTF-8."""
    if source.startswith("aws."):
        return
    payload = json.dumps({"v": value}, ensure_ascii=False)
    size = prepared(EventBridge("orders", envelope="raw"), event(payload, source=source)).size
    assert size == 14 + len(source.encode()) + len("order.placed") + len(payload.encode())


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (event(source=""), "SourceNotAllowed"),
        (event(source="aws.shop"), "SourceNotAllowed"),
        (event(source="s" * 257), "SourceNotAllowed"),
        (event(type=""), "TypeTooLong"),
        (event(type="t" * 129), "TypeTooLong"),
        (event("[1]"), "DetailNotAnObject"),
        (event('"text"'), "DetailNotAnObject"),
        (event('{"n":9223372036854775808}'), "IntegerTooWide"),
        (event('{"n":31415926535897932384}'), "IntegerTooWide"),
        (event('{"n":' + "[" * 1000 + "]" * 1000 + "}"), "NestedTooDeeply"),
        (event('{"n":"' + "x" * 1024 * 1024 + '"}'), "EntryTooLarge"),
        (event('{"n":"\ud800"}'), "NotUtf8"),
    ],
)
def test_what_the_bus_would_refuse_is_found_before_anything_is_sent(one: Event, code: str) -> None:
    """A content fault of the one event, with the payload nowhere in it."""
    for sink in (EventBridge("orders", envelope="raw"), EventBridge("orders", envelope=lambda one: one.payload)):
        fault = fault_of(sink, one)
        assert (fault.kind, fault.code) == (Kind.CONTENT, code)
        assert not re.search(r"xxx|9223|31415926", fault.reason)


def test_an_integer_that_is_too_wide_is_named_by_its_place() -> None:
    """A card number of 20 digits is nothing for a log."""
    payload = '{"n":1,"card":31415926535897932384}'
    assert fault_of(EventBridge("orders", envelope="raw"), event(payload)).reason == (
        "an integer at character 14 of Detail does not fit 64 bits; publish it as text"
    )


@pytest.mark.parametrize(
    "one",
    [
        event("[1]"),
        event('{"n":9223372036854775807,"m":-9223372036854775808,"t":"99999999999999999999999"}'),
        event('{"n":12345678901234567890.5}'),
        event('{"n":' + "[" * 990 + "]" * 990 + "}"),
        event('{"n":"' + "[" * 2000 + '"}'),
        event(source="s" * 256, type="t" * 128),
    ],
)
def test_what_the_bus_takes_is_let_through(one: Event) -> None:
    """The rules are the bus's own, no stricter."""
    prepared(EventBridge("orders"), one)


def test_a_limit_of_a_region_is_a_setting() -> None:
    """256 KB in some Regions."""
    sink = EventBridge("orders", limits=SinkLimits(10, 256 * 1024, 256 * 1024))
    assert fault_of(sink, event('{"n":"' + "x" * 256 * 1024 + '"}')).code == "EntryTooLarge"


def fails(_: Event) -> Any:
    """Raise something of its own."""
    raise KeyError("secret")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"envelope": fails}, "EnvelopeFailed"),
        ({"envelope": lambda _: {"n": 1}}, "EnvelopeFailed"),
        ({"envelope": lambda _: "{} {}"}, "DetailNotAnObject"),
        ({"envelope": lambda _: '{"n":' + "[" * 1000 + "]" * 1000 + "}"}, "NestedTooDeeply"),
        ({"resources": fails}, "ResourcesFailed"),
        ({"resources": lambda _: [1]}, "ResourcesFailed"),
    ],
)
def test_a_users_function_that_fails_is_a_fault_of_the_event(options: dict[str, Any], code: str) -> None:
    """It is contained; what it said is not repeated."""
    fault = fault_of(EventBridge("orders", **options), event())
    assert (fault.kind, fault.code) == (Kind.CONTENT, code)
    assert "secret" not in str(fault)


def test_an_attribute_that_would_forge_a_field_is_a_fault_of_the_event() -> None:
    """The envelope refuses it."""
    assert fault_of(EventBridge("orders"), event(attributes={"id": "2"})).code == "EnvelopeFailed"


def test_detail_that_only_looks_like_an_object_is_examined_where_it_could_break_a_rule() -> None:
    """A raw payload with a long number is read strictly, and found out."""
    assert fault_of(EventBridge("orders", envelope="raw"), event('{"n":1234567890123456789}}')).code == "DetailNotJson"


def test_an_envelope_of_the_users_own() -> None:
    """Any function from Event to the text of a JSON object."""
    sink = EventBridge("orders", envelope=lambda one: json.dumps({"meta": one.id, "data": one.data}))
    assert prepared(sink, event()).entry["Detail"] == '{"meta": "1", "data": {"n": 1}}'


@pytest.mark.parametrize(
    "options",
    [{"bus": ""}, {"bus": "a b"}, {"bus": "arn:aws:sns:x"}, {"envelope": "xml"}, {"timeout_s": 0}, {"timeout_s": -1}],
)
def test_arguments_that_cannot_work(options: dict[str, Any]) -> None:
    """Refused when the sink is made."""
    with pytest.raises(ConfigurationError):
        EventBridge(**{"bus": "orders", **options})


def test_a_bus_may_be_an_arn() -> None:
    """As PutEvents takes it."""
    arn = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
    assert prepared(EventBridge(arn), event()).entry["EventBusName"] == arn
    assert repr(EventBridge("orders")) == "EventBridge('orders')"


def publish(answer: dict[str, Any], count: int) -> Any:
    """Publish `count` entries against a prepared answer."""
    events = client()
    sink = EventBridge("orders", client=events)
    entries = [prepared(sink, event(id=str(number))).entry for number in range(count)]
    with Stubber(events) as stub:
        stub.add_response("put_events", answer, {"Entries": entries})
        return sink.publish(entries)


def test_results_are_read_entry_by_entry() -> None:
    """A 200 may hold rejections; each has its class."""
    answer = {
        "FailedEntryCount": 3,
        "Entries": [
            {"EventId": "e"},
            {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"},
            {"ErrorCode": "MalformedDetail"},
            {"ErrorCode": "SomethingNew"},
        ],
    }
    assert publish(answer, 4) == Answered(
        (
            None,
            Fault(Kind.TRANSIENT, "ThrottlingException", "slow", throttled=True),
            Fault(Kind.CONTENT, "MalformedDetail"),
            Fault(Kind.TRANSIENT, "SomethingNew"),
        )
    )


def test_a_result_that_says_nothing_accepts_nothing() -> None:
    """Neither EventId nor ErrorCode: unknown."""
    outcome = publish({"FailedEntryCount": 0, "Entries": [{}]}, 1)
    assert outcome.results[0].kind is Kind.UNKNOWN


def test_an_answer_that_contradicts_itself_accepts_nothing() -> None:
    """FailedEntryCount and the results must agree."""
    outcome = publish({"FailedEntryCount": 1, "Entries": [{"EventId": "e"}, {"EventId": "f"}]}, 2)
    assert isinstance(outcome, RequestFailed)
    assert (outcome.fault.kind, outcome.fault.code) == (Kind.UNKNOWN, "InconsistentAnswer")


def test_a_result_that_says_nothing_does_not_make_up_for_a_wrong_count() -> None:
    """One is counted as failed and told as accepted, another says nothing: neither is taken for accepted."""
    outcome = publish({"FailedEntryCount": 1, "Entries": [{"EventId": "e"}, {}]}, 2)
    assert isinstance(outcome, RequestFailed)
    assert outcome.fault.code == "InconsistentAnswer"


def test_an_answer_without_entries_has_no_results() -> None:
    """What reads them finds the wrong length."""
    assert publish({}, 1) == Answered(())


def test_a_failed_request_is_classified() -> None:
    """Error answers become faults of the whole request."""
    events = client()
    with Stubber(events) as stub:
        stub.add_client_error("put_events", "AccessDeniedException", "no", 400)
        outcome = EventBridge("orders", client=events).publish([prepared(EventBridge("orders"), event()).entry])
    assert outcome == RequestFailed(Fault(Kind.TARGET, "AccessDeniedException", "no"))


def test_the_codes_of_entries_are_those_of_the_service_model() -> None:
    """Each code that the API's own documentation names has a class."""
    model = client().meta.service_model.operation_model("PutEvents").output_shape
    words = model.members["Entries"].member.members["ErrorCode"].documentation
    for code in ("InternalFailure", "ThrottlingException", "InvalidArgument", "MalformedDetail", "RedactionFailure"):
        assert code in words
        assert code in ENTRY_CODES


def test_how_long_a_request_may_take() -> None:
    """Our own client's time-out, or all attempts of the client that was passed in."""
    assert EventBridge("orders", timeout_s=2).request_ms == 2000
    assert EventBridge("orders", client=client()).request_ms == 10_000


def test_our_own_client_is_made_once_and_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at import; once for all threads; one attempt a request, within the time-out."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    sink = EventBridge("orders", timeout_s=3)
    entry = prepared(sink, event()).entry
    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda: outcomes.append(sink.publish([entry]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.fault.kind for outcome in outcomes] == [Kind.TRANSIENT] * 4
    settings = sink._client.get().meta.config
    assert (settings.connect_timeout, settings.read_timeout) == (1.0, 2.0)
    assert settings.retries["total_max_attempts"] == 1
    assert sink.request_ms == 3000


def test_without_a_region_everything_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set-up is at fault and no event; the reason says what to set."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    sink = EventBridge("orders")
    outcome = sink.publish([prepared(sink, event()).entry])
    assert isinstance(outcome, RequestFailed)
    assert outcome.fault.kind is Kind.TARGET
    assert "AWS_REGION" in outcome.fault.reason


def test_a_client_of_another_service_is_refused_when_the_sink_is_made() -> None:
    """With the names of both services."""
    dynamodb = boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with pytest.raises(ConfigurationError, match=r"'dynamodb'.*'events'"):
        EventBridge("orders", client=dynamodb)


def test_on_the_engine_a_batch_is_accepted(engine: Account) -> None:
    """The request that this sink makes is one that an EventBridge takes."""
    events = engine.client("events")
    events.create_event_bus(Name="orders")
    sink = EventBridge("orders", client=events)
    entries = [prepared(sink, event(id=str(number))).entry for number in range(10)]
    assert sink.publish(entries) == Answered((None,) * 10)


WRONG: list[dict[str, Any]] = [
    {"bus": None},
    {"bus": ""},
    {"timeout_s": "x"},
    {"timeout_s": True},
    {"timeout_s": float("nan")},
    {"timeout_s": float("inf")},
    {"envelope": 5},
    {"envelope": None},
    {"resources": ["arn"]},
    {"limits": 10},
    {"client": "events"},
]


@pytest.mark.parametrize("options", WRONG)
def test_an_argument_of_the_wrong_kind_is_named(options: dict[str, Any]) -> None:
    """At once, and not by a TypeError later."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        EventBridge(**{"bus": "orders", **options})
