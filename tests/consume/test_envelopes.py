"""What stands in a wrapper is told by what it looks like; what is none of it is refused with the reason."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import (
    AT_MS,
    QUEUE,
    STREAM,
    TIME,
    TOPIC,
    bridged,
    change_in_kinesis,
    change_record,
    from_rule,
    image,
    kinesis_record,
    notification,
    order,
    sns_record,
    sqs_record,
)

from dynamodb_outbox.consume.envelopes import Reader
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.consuming.foreign import ForeignEvents
from dynamodb_outbox.core.consuming.sources import recognise
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidMessage, InvalidRecord
from dynamodb_outbox.event import DataRef
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.event import Event

FOREIGN = ForeignEvents(id="id", type="'made'", source="'elsewhere'")


def events(given: Any, *, layout: Layout | None = None, foreign: ForeignEvents | None = None) -> list[Event]:
    """Return the events of what a function was given."""
    batch = recognise(given)
    reader = Reader(layout or Layout(), foreign)
    return [event for delivery in batch.deliveries for event in reader.events(delivery, batch.source)]


def in_queue(body: Any) -> dict[str, Any]:
    """Return a batch of one SQS message."""
    return {"Records": [sqs_record(body, 1)]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("not json", "not JSON"),
        ('{"detail-type": "x", "detail": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"' + "1" * 3, "not JSON"),
        ("1" * 5_000, "not JSON"),
        (None, "object is expected, not NoneType"),
        ("[]", "object is expected, not list"),
        ("5", "object is expected, not int"),
        ('{"detail": {}}', "no CloudEvent.*ForeignEvents"),
        ('{"detail-type": "x", "detail": {"order_id": 1}}', "no CloudEvent.*ForeignEvents"),
        ('{"detail-type": "x", "detail": "text"}', "no CloudEvent"),
        ('{"detail-type": "x"}', "no CloudEvent"),
        ('{"Type": "SubscriptionConfirmation", "TopicArn": "t", "Message": "m"}', "no CloudEvent"),
        (json.dumps(notification("not json")), "not JSON"),
        (
            json.dumps({**json.loads(cloudevent(order(1))), "specversion": "2.0"}),
            "version '2.0'; this library reads 1.0",
        ),
        (json.dumps({**json.loads(cloudevent(order(1))), "id": None}), "no id"),
        (json.dumps({"eventSource": "aws:dynamodb", "dynamodb": 5}), "no CloudEvent"),
    ],
)
def test_a_body_of_another_kind_is_refused(body: Any, said: str) -> None:
    """The error names the message, its queue and what was expected."""
    with pytest.raises(InvalidMessage, match=said) as caught:
        events(in_queue(body))
    assert sqs_record("", 1)["messageId"] in caught.value.where
    assert QUEUE in caught.value.where


def test_wrappers_are_opened_as_deep_as_anything_delivers() -> None:
    """A topic behind a topic, at most: text that wraps itself again and again ends."""
    body = cloudevent(order(1))
    for _ in range(2):
        body = json.dumps(notification(body))
    assert events(in_queue(body)) == [order(1)]
    with pytest.raises(InvalidMessage, match="more often"):
        events(in_queue(json.dumps(notification(body))))


def test_what_an_event_says_is_not_looked_into() -> None:
    """Data that looks like a wrapper is data."""
    inner = {"Type": "Notification", "TopicArn": TOPIC, "Message": cloudevent(order(2))}
    event = replace(order(1), payload=json.dumps(inner, separators=(",", ":")))
    assert events(in_queue(cloudevent(event))) == [event]
    assert events(from_rule(event)) == [event]


def test_digits_survive_where_text_arrives() -> None:
    """Numbers keep every digit through queues, topics and streams."""
    event = replace(order(1), payload='{"n":0.10000000000000000000000000001,"m":123456789012345678901234567890}')
    for given in (
        in_queue(cloudevent(event)),
        {"Records": [sns_record(cloudevent(event))]},
        {"Records": [kinesis_record(cloudevent(event), 1)]},
        {"Records": [change_record(image(event), 1)]},
    ):
        assert events(given) == [event]
    assert events(in_queue(json.dumps(from_rule(order(1)))))[0].data == {"order_id": "1", "cents": 100}


def test_what_lambda_has_read_as_floats_is_taken_as_it_is() -> None:
    """EventBridge hands over an object, whose numbers the runtime has read; what is no JSON number is refused."""
    given = from_rule(order(1))
    given["detail"]["data"] = {"cents": 0.1}
    assert events(given)[0].data == {"cents": Decimal("0.1")}
    given["detail"]["data"] = {"cents": float("inf")}
    with pytest.raises(InvalidMessage, match="not JSON"):
        events(given)


@pytest.mark.parametrize("data", ["%%%", base64.b64encode(b"\xf3\x89\x9a\xc2").decode(), None])
def test_data_of_kinesis_that_is_no_text_is_refused(data: Any) -> None:
    """Such as what a producer library aggregates."""
    record = kinesis_record("", 1)
    record["kinesis"]["data"] = data
    with pytest.raises(InvalidMessage, match="base64 of UTF-8"):
        events({"Records": [record]})


# --- changes of a table -----------------------------------------------------------------------------------------------


def test_a_record_gives_its_events_in_order() -> None:
    """One or several, from the table's stream and by way of Kinesis, and of a pipe that sends changes to a queue."""
    several = (order(1), replace(order(2), key="ORDER#1"), replace(order(3), key="ORDER#1"))
    for new, expected in ((image(order(1)), [order(1)]), (image(*several), list(several))):
        assert events({"Records": [change_record(new, 1)]}) == expected
        assert events({"Records": [kinesis_record(change_in_kinesis(new, 1), 1)]}) == expected
        assert events(in_queue(json.dumps(change_record(new, 1)))) == expected


def test_compressed_records_are_opened() -> None:
    """As the writer's `compression` stored them; what this version cannot open is refused, by its name."""
    from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record  # noqa: PLC0415 -- here alone

    event = replace(order(1), payload=json.dumps({"text": "abc" * 1000}, separators=(",", ":")))
    draft = RecordDraft(event.id, event.key or "", (event,), 0, 1)
    new = dict(encode_record(draft, Origin(order(9).id, AT_MS, "eu-west-1"), Layout(), "gzip"))
    assert "B" in new["payload"]
    new["payload"] = {"B": base64.b64encode(new["payload"]["B"]).decode()}  # as Lambda gives it
    assert events({"Records": [change_record(new, 1)]}) == [event]
    with pytest.raises(InvalidRecord, match="encoding 'br'"):
        events({"Records": [change_record({**new, "enc": {"S": "br"}}, 1)]})


def test_a_claimed_event_has_its_reference() -> None:
    """From a bus and from a table alike: its data is fetched when it is applied."""
    claimed = replace(order(1), payload="", dataref=DataRef("s3://payloads/outbox/1", "0" * 64))
    assert events({"Records": [change_record(image(claimed), 1)]}) == [claimed]
    assert events(in_queue(cloudevent(claimed))) == [claimed]


@pytest.mark.parametrize(
    "record",
    [
        change_record({"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}}, 1),
        change_record(None, 1, "REMOVE"),
        change_record(image(order(1)), 1, "MODIFY"),
        change_record({**image(order(1)), "state": {"S": "published"}}, 1),
        {**change_record(image(order(1)), 1), "awsRegion": "us-east-1"},
    ],
    ids=["no record", "removed", "changed", "published", "another Region's"],
)
def test_other_changes_have_no_events(record: dict[str, Any]) -> None:
    """The relay's rules: a record is relayed once, when it is inserted, in its own Region."""
    assert events({"Records": [record]}) == []


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"ob_v": {"N": "2"}}, InvalidRecord, "newer relay is needed"),
        ({"payload": {"S": "{"}}, InvalidRecord, "not one JSON value"),
        ({"sk": {"S": "EVENT#1"}}, InvalidRecord, "another Layout"),
        ({"ob_columns": {"S": "0123456789abcdef"}}, InvalidRecord, "another Layout"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused(change: dict[str, Any], error: Any, said: str) -> None:
    """A newer schema, broken data, a record by another layout: passed over it would be lost."""
    with pytest.raises(error, match=said):
        events({"Records": [change_record({**image(order(1)), **change}, 1)]})


def test_a_stream_without_images_is_told_so() -> None:
    """And one of another table by its keys."""
    record = change_record(image(order(1)), 1)
    del record["dynamodb"]["NewImage"]
    with pytest.raises(ImageMissing):
        events({"Records": [record]})
    record["dynamodb"]["Keys"] = {"id": {"S": "1"}}
    with pytest.raises(ConfigurationError, match="'id'"):
        events({"Records": [record]})


def test_rows_written_by_hand_have_the_id_and_the_source_that_the_relay_gives_them() -> None:
    """The id of the sort key, and the table's name: so both ways to a consumer lead to one inbox record."""
    row = {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": "OUTBOX#7f9c24e8-3b12-4e8a-8d4b-2f5f6f3b1a11"},
        "type": {"S": "order.placed"},
        "payload": {"S": "{}"},
        "ts": {"N": "1795953600"},
    }
    for given in (
        {"Records": [change_record(row, 1)]},
        {"Records": [kinesis_record(change_in_kinesis(row, 1), 1)]},
    ):
        (event,) = events(given)
        assert (event.id, event.source, event.key) == ("7f9c24e8-3b12-4e8a-8d4b-2f5f6f3b1a11", "shop", "ORDER#1")


# --- times and foreign events -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (in_queue('{"id": "1"}'), "2026-11-29T12:00:03Z"),
        (in_queue(json.dumps(notification('{"id": "1"}'))), "2026-11-29T12:00:02.345Z"),
        (in_queue(json.dumps(bridged({"a": 1}))), "2026-11-29T12:00:01Z"),
        ({"Records": [sns_record('{"id": "1"}')]}, "2026-11-29T12:00:02.345Z"),
        ({"Records": [kinesis_record('{"id": "1"}', 1)]}, "2026-11-29T12:00:03.987Z"),
        (bridged({"a": 1}), "2026-11-29T12:00:01Z"),
    ],
)
def test_a_foreign_event_happened_when_it_says_or_else_when_it_arrived(given: Any, time: str) -> None:
    """The innermost wrapper that has a time is the nearest to what happened."""
    (event,) = events(given, foreign=FOREIGN)
    assert abs(event.time - datetime.fromisoformat(time.replace("Z", "+00:00"))) < timedelta(milliseconds=1)


TIMED = replace(FOREIGN, time="made.at")


@pytest.mark.parametrize("wrap", [lambda it: [it], lambda it: in_queue(json.dumps(it)), lambda it: [json.dumps(it)]])
def test_a_rule_may_say_when_a_foreign_event_happened(wrap: Callable[[Any], Any]) -> None:
    """Of what a pipe's template has made nothing else does; elsewhere it goes before the time of arrival."""
    (event,) = events(wrap({"id": "1", "made": {"at": TIME}}), foreign=TIMED)
    assert event.time == datetime(2026, 11, 29, 12, tzinfo=timezone.utc)


def test_a_time_by_the_rule_may_be_missing_and_must_be_readable() -> None:
    """When it arrived stands in for none, and for no other; where nothing says it, the error tells what to do."""
    assert [each.time.second for each in events(in_queue('{"id": "1"}'), foreign=TIMED)] == [3]
    for time in ("yesterday", "2026-11-29T12:00:00", 1795953603, "", False):
        with pytest.raises(InvalidMessage, match=r"made\.at, is no RFC 3339 text"):
            events(in_queue(json.dumps({"id": "1", "made": {"at": time}})), foreign=TIMED)
    with pytest.raises(InvalidMessage, match="is no RFC 3339 text"):
        events(in_queue('{"id": "1", "day": 5}'), foreign=replace(FOREIGN, time="join('T', [day, day])"))
    for rule in (TIMED, FOREIGN):
        with pytest.raises(InvalidMessage, match=r"time=.*aws\.pipes\.event\.ingestion-time"):
            events([{"id": "1"}], foreign=rule)


def test_a_cloudevent_may_leave_its_time_out() -> None:
    """CloudEvents says so; it is when it arrived then. With nothing that says when, it is refused."""
    told = json.loads(cloudevent(order(1)))
    del told["time"]
    (event,) = events(in_queue(json.dumps(told)))
    assert event == replace(order(1), time=datetime(2026, 11, 29, 12, 0, 3, tzinfo=timezone.utc))
    with pytest.raises(InvalidMessage, match="no time"):
        events([told])


@pytest.mark.parametrize(
    "attributes", [{"SentTimestamp": "soon"}, {"SentTimestamp": "9" * 30}, {"SentTimestamp": None}, {}, None]
)
def test_a_time_of_arrival_that_makes_no_sense_is_none(attributes: Any) -> None:
    """The event of another maker, which needs one, is refused; one that says its time is taken."""
    record = {**sqs_record('{"id": "1"}', 1), "attributes": attributes}
    with pytest.raises(InvalidMessage, match="when it happened"):
        events({"Records": [record]}, foreign=FOREIGN)
    assert events({"Records": [{**record, "body": cloudevent(order(1))}]}) == [order(1)]


def test_a_time_that_cannot_be_read_is_none_that_is_said() -> None:
    """What arrived later stands in for it."""
    topic = {**notification('{"id": "1"}'), "Timestamp": "now"}
    (event,) = events(in_queue(json.dumps(topic)), foreign=FOREIGN)
    (bridge,) = events(in_queue(json.dumps({**bridged({"id": 1}), "id": "2", "time": "then"})), foreign=FOREIGN)
    assert event.time == bridge.time == datetime(2026, 11, 29, 12, 0, 3, tzinfo=timezone.utc)


def test_a_pipe_may_make_text_of_a_message() -> None:
    """Its template gives the body as it is."""
    assert events([cloudevent(order(1)), json.dumps(from_rule(order(2)))]) == [order(1), order(2)]


def test_where_a_foreign_event_says_no_source_it_is_the_arn_it_came_by() -> None:
    """Queue, topic or stream: two of them may use the same ids. A pipe's template leaves none, and none is made up."""
    rule = ForeignEvents(id="id", type="'made'")
    body = '{"id": "1"}'
    assert [event.source for event in events(in_queue(body), foreign=rule)] == [QUEUE]
    assert [event.source for event in events(in_queue(json.dumps(notification(body))), foreign=rule)] == [TOPIC]
    assert [event.source for event in events({"Records": [kinesis_record(body, 1)]}, foreign=rule)] == [STREAM]
    with pytest.raises(InvalidMessage, match=r"no source.*source= is not given"):
        events([{"id": "1", "time": TIME}], foreign=rule)


def test_of_eventbridge_type_and_source_are_its_own() -> None:
    """And the data is the detail, for which the rule looks from outside."""
    (event,) = events(bridged({"key": {"n": 5}}, "Object Created", "aws.s3"), foreign=ForeignEvents(id="detail.key.n"))
    assert (event.id, event.type, event.source, event.data) == ("5", "Object Created", "aws.s3", {"key": {"n": 5}})


@pytest.mark.parametrize(
    ("path", "message", "found"),
    [
        ("a", {"a": "x"}, "x"),
        ("a", {"a": 7}, "7"),
        ("a.b", {"a": {"b": 0}}, "0"),
        ("[a, b]", {"a": "x", "b": 1}, '["x",1]'),
        ("[a, b]", {"a": 'x","y', "b": 1}, '["x\\",\\"y",1]'),
    ],
)
def test_an_id_is_text_or_a_whole_number_or_a_list_of_such(path: str, message: Any, found: str) -> None:
    """Lists stand as JSON, so that no two of them are one id."""
    (event,) = events(in_queue(json.dumps(message)), foreign=ForeignEvents(id=path, type="'t'"))
    assert event.id == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a", {}),
        ("a", {"a": None}),
        ("a", {"a": ""}),
        ("a", {"a": True}),
        ("a", {"a": 1.5}),
        ("a", {"a": {"b": 1}}),
        ("a", {"a": []}),
        ("[a, b]", {"a": "x"}),
        ("[a, b]", {"a": "x", "b": ""}),
        ("[a, b]", {"a": ["x"], "b": "y"}),
        ("length(a)", {"a": 5}),
    ],
)
def test_a_message_in_which_the_rule_finds_no_id_is_refused(path: str, message: Any) -> None:
    """Never a shared key, and never one that is made up; the error shows the rule."""
    with pytest.raises(InvalidMessage, match="no id by the rule") as caught:
        events(in_queue(json.dumps(message)), foreign=ForeignEvents(id=path, type="'t'"))
    assert path in str(caught.value)


def test_a_foreign_event_without_a_type_is_refused() -> None:
    """No function could take it."""
    with pytest.raises(InvalidMessage, match=r"no type.*type= is not given"):
        events(in_queue('{"id": "1"}'), foreign=ForeignEvents(id="id"))


@pytest.mark.parametrize(
    "arguments",
    [{"id": ""}, {"id": 5}, {"id": "a["}, {"id": "a", "type": "???"}, {"id": None}, {"id": "a", "time": ""}],
)
def test_a_rule_that_is_no_jmespath_is_refused(arguments: Any) -> None:
    """When it is made, with the argument's name."""
    with pytest.raises(ConfigurationError, match=r"ForeignEvents: (id|type|time) is"):
        ForeignEvents(**arguments)
    assert ForeignEvents(id="a") == ForeignEvents(id="a")
