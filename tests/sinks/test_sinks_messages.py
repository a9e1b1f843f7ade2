"""Messages of SNS and SQS: bodies, attributes, groups and sizes, and what an answer says of them."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_events import NOON, TOPIC, URL, UUID, body_of, both, event, fault_of, prepared

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.limits import SNS, SQS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.event import DataRef, Event
from dynamodb_outbox.sinks import Answered, Fault, Kind, RequestFailed, SinkLimits, Sns, Sqs
from dynamodb_outbox.sinks.groups import deduplication_id, group_id
from dynamodb_outbox.sinks.messages import numbered, outcome
from dynamodb_outbox.sinks.sqs import CODES

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
LEGAL = set(string.ascii_letters + string.digits + PUNCTUATION)
ANY_TEXT = st.text(min_size=1, max_size=200)


def allowed(character: str) -> bool:
    """Whether SQS's own list has a character."""
    code = ord(character)
    ranges = ((0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
    return code in (0x9, 0xA, 0xD) or any(first <= code <= last for first, last in ranges)


def attributes(entry: Any) -> dict[str, str]:
    """Return message attributes as text by name."""
    return {name: value["StringValue"] for name, value in entry.get("MessageAttributes", {}).items()}


def counted(entry: Any) -> int:
    """Return an entry's size, counted in another way."""
    texts = [body_of(entry)]
    for name, value in entry.get("MessageAttributes", {}).items():
        texts += [name, value["DataType"], value["StringValue"]]
    return len("".join(texts).encode())


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sink", both())
def test_the_body_is_the_cloudevent(sink: Any) -> None:
    """As every sink publishes it."""
    assert body_of(prepared(sink, event()).entry) == cloudevent(event())


@given(st.text(max_size=50), ANY_TEXT)
@settings(deadline=None)
def test_any_text_is_published_in_allowed_characters_and_means_the_same(value: str, key: str) -> None:
    """What SQS would refuse, and SNS drop, is escaped; the JSON value stays equal."""
    one = event(json.dumps({"v": value}, ensure_ascii=False), key=key)
    for sink in (*both(), *both(envelope="raw")):
        body = body_of(prepared(sink, one).entry)
        assert all(map(allowed, body))
        assert not any(0x7F <= ord(each) <= 0x9F for each in body)
        found = json.loads(body)
        assert found.get("data", found) == {"v": value}


@pytest.mark.parametrize("text", ["\ufffe", "\uffff", "\x7f", "\x80", "\x9f"])
def test_each_character_that_json_may_hold_and_a_message_may_not(text: str) -> None:
    """One by one; an envelope of the user's own is treated alike when it is JSON."""
    for options in ({}, {"envelope": "raw"}, {"envelope": lambda one: f' {{"mine":{one.payload}}}'}):
        for sink in both(**options):
            body = body_of(prepared(sink, event(f'{{"t":"a{text}b"}}')).entry)
            assert f"a\\u{ord(text):04x}b" in body


@pytest.mark.parametrize("text", ["\x00", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_a_text_that_is_no_json_cannot_be_escaped(text: str) -> None:
    """It is refused, with the place and the character and nothing else of it."""
    for sink in both(envelope=lambda one: f"secret{text}" if one else ""):
        fault = fault_of(sink, event())
        assert (fault.kind, fault.code) == (Kind.CONTENT, "CharacterNotAllowed")
        assert fault.reason == f"character 6 is U+{ord(text):04X}, which no message may hold; JSON can have it escaped"


def test_text_that_is_no_json_may_be_sent() -> None:
    """An envelope of the user's own may be XML, or words; tabs and line ends are allowed."""
    for sink in both(envelope=lambda one: f"<event>\t{one.id}\r\n\x7f</event>"):
        assert body_of(prepared(sink, event()).entry) == f"<event>\t{UUID}\r\n\x7f</event>"


def fails(_: Event) -> Any:
    """Raise something of its own."""
    raise KeyError("secret")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"envelope": fails}, "EnvelopeFailed"),
        ({"envelope": lambda _: b"bytes"}, "EnvelopeFailed"),
        ({"envelope": lambda _: ""}, "EnvelopeFailed"),
        ({"envelope": lambda _: "\ud800"}, "NotUtf8"),
        ({"attributes": fails}, "AttributesFailed"),
        ({"attributes": lambda _: None}, "AttributesFailed"),
        ({"attributes": lambda _: {1: "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"x": 1}}, "AttributesFailed"),
        ({"attributes": lambda _: {"": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"two words": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"AWS.x": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"amazon.x": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {".x": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"x.": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"x..y": "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {"x" * 257: "x"}}, "AttributesFailed"),
        ({"attributes": lambda _: {f"a{number}": "x" for number in range(8)}}, "AttributesFailed"),
    ],
)
def test_a_users_function_that_fails_is_a_fault_of_the_event(options: dict[str, Any], code: str) -> None:
    """It is contained; what it said is not repeated."""
    for sink in both(**options):
        fault = fault_of(sink, event())
        assert (fault.kind, fault.code) == (Kind.CONTENT, code)
        assert "secret" not in str(fault)


@pytest.mark.parametrize(
    "one", [event('{"t":"\ud800"}'), event(key="\udfff"), event(id="\ud800"), event(subject="\ud800")]
)
def test_half_a_surrogate_pair_has_no_form_in_utf_8(one: Event) -> None:
    """Wherever it stands, it is the event's own fault."""
    for sink in both():
        assert fault_of(sink, one).code == "NotUtf8"


def test_a_claim_check_needs_an_envelope() -> None:
    """The reference is published in it; alone the payload is nothing."""
    claimed = event("", dataref=DataRef("s3://bucket/key", "0" * 64))
    for sink in both():
        assert '"dataref":"s3://bucket/key"' in body_of(prepared(sink, claimed).entry)
    for sink in both(envelope="raw"):
        assert fault_of(sink, claimed).code == "EnvelopeFailed"


# --- attributes -------------------------------------------------------------------------------------------------------


def test_attributes_are_for_filters() -> None:
    """What a subscription would go by."""
    one = event(subject="1", attributes={"traceparent": "00-1-1-00", "tenant": "t"})
    for sink in both():
        entry = prepared(sink, one).entry
        assert attributes(entry) == {
            "id": UUID,
            "type": "order.placed",
            "source": "shop",
            "subject": "1",
            "traceparent": "00-1-1-00",
        }
        assert {value["DataType"] for value in entry["MessageAttributes"].values()} == {"String"}


def test_a_users_own_attributes_are_added() -> None:
    """And may take the place of ours, up to ten together."""
    for sink in both(attributes=lambda one: {"type": "mine", "tenant.id": one.key, **{f"a{n}": "x" for n in range(6)}}):
        found = attributes(prepared(sink, event()).entry)
        assert (found["type"], found["tenant.id"], len(found)) == ("mine", "ORDER#1", 10)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
@settings(deadline=None)
def test_no_attribute_makes_sns_drop_a_message(type_: str, subject: str, own: str) -> None:
    """Whatever an event holds: at most ten, none empty, no control character, no forbidden one."""
    one = event(type=type_, subject=subject)
    for sink in both(attributes=lambda _: {"own": own}):
        found = attributes(prepared(sink, one).entry)
        assert len(found) <= 10
        for value in found.values():
            assert value
            assert all(allowed(each) and not (ord(each) < 0x20 or 0x7F <= ord(each) <= 0x9F) for each in value)
        if subject.isprintable() and subject:
            assert found["subject"] == subject


@pytest.mark.parametrize("value", ["", "\n", "a\tb", "\x7f", "\x85", "\ufffe"])
def test_an_attribute_that_no_message_can_have_is_left_out(value: str) -> None:
    """The envelope has it; the others stay."""
    for sink in both():
        assert set(attributes(prepared(sink, event(subject=value)).entry)) == {"id", "type", "source"}


def test_without_any_attribute_there_is_no_member() -> None:
    """An empty one is refused by some."""
    for sink in both():
        assert "MessageAttributes" not in prepared(sink, event(id="\n", type="", source="")).entry


# --- sizes ------------------------------------------------------------------------------------------------------------


@given(ANY_TEXT, ANY_TEXT, st.text(max_size=50))
@settings(deadline=None)
def test_sizes_are_bytes_of_body_and_attributes(source: str, subject: str, value: str) -> None:
    """Names, types and values of attributes count too; groups do not."""
    one = event(json.dumps({"v": value}, ensure_ascii=False), source=source, subject=subject)
    for sink in (*both(), Sqs(f"{URL}.fifo"), Sns(f"{TOPIC}.fifo")):
        found = prepared(sink, one)
        assert found.size == counted(found.entry)


@pytest.mark.parametrize(("sink", "most"), [(Sns(TOPIC), 256 * 1024), (Sqs(URL), 1024 * 1024)])
def test_the_limit_is_exact_to_the_byte(sink: Any, most: int) -> None:
    """As many bytes as the service takes, and one more."""
    room = most - prepared(sink, event('{"pad":""}')).size
    assert prepared(sink, event(f'{{"pad":"{"x" * room}"}}')).size == most
    fault = fault_of(sink, event(f'{{"pad":"{"x" * (room + 1)}"}}'))
    assert (fault.kind, fault.code) == (Kind.CONTENT, "EntryTooLarge")
    assert fault.reason == f"{most + 1:,} bytes, of which a message takes {most:,}"
    assert (sink.limits.entry_bytes, sink.limits.request_bytes, sink.limits.entries) == (most, most, 10)


def test_other_limits_are_a_setting_and_sizes_are_counted_all_the_same() -> None:
    """A topic may take 1 MiB, an older queue 256 KiB; limits of the user's own need not say what counts."""
    for sink in both(limits=SinkLimits(5, 2000, 1000)):
        assert sink.limits == SinkLimits(5, 2000, 1000)
        assert prepared(sink, event()).size == counted(prepared(sink, event()).entry)
        assert fault_of(sink, event('{"pad":"' + "x" * 1000 + '"}')).code == "EntryTooLarge"


@pytest.mark.parametrize("limits", [10, None, SinkLimits(0, 10, 10), SinkLimits(1, 10, 11), SinkLimits(1, 0, 0)])
def test_limits_by_which_nothing_could_be_sent_are_refused(limits: Any) -> None:
    """When the sink is made."""
    with pytest.raises(ConfigurationError, match="limits"):
        both(limits=limits)


def test_what_counts_is_data() -> None:
    """Of either service, with its numbers."""
    assert (SNS.counted, SQS.counted) == (("Message", "MessageAttributes"), ("MessageBody", "MessageAttributes"))


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_fifo_destination_has_groups_and_deduplication() -> None:
    """The key groups, the id deduplicates; the envelope keeps both."""
    for sink in (Sns(f"{TOPIC}.fifo"), Sqs(f"{URL}.fifo", fair_queues=False)):
        entry = prepared(sink, event()).entry
        assert (entry["MessageGroupId"], entry["MessageDeduplicationId"]) == ("ORDER#1", UUID)


def test_a_standard_destination_has_groups_where_they_are_of_use() -> None:
    """On a queue, unless switched off; on a topic when asked for; deduplication nowhere."""
    for sink, grouped in ((Sqs(URL), True), (Sqs(URL, fair_queues=False), False), (Sns(TOPIC), False)):
        assert ("MessageGroupId" in prepared(sink, event()).entry) is grouped
    entry = prepared(Sns(TOPIC, fair_queues=True), event()).entry
    assert entry["MessageGroupId"] == "ORDER#1"
    assert "MessageDeduplicationId" not in entry


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=50))
def test_groups_and_ids_are_always_legal(key: str, id_: str, source: str) -> None:
    """Whatever a table holds: 1 to 128 letters, digits and punctuation marks, and the same each time."""
    one = event(key=key or None, id=id_, source=source)
    for made in (group_id(one), deduplication_id(one)):
        assert 1 <= len(made) <= 128
        assert set(made) <= LEGAL
    assert (group_id(one), deduplication_id(one)) == (group_id(one), deduplication_id(one))


@pytest.mark.parametrize("key", ["k", "k" * 128, PUNCTUATION, string.ascii_letters + string.digits])
def test_a_legal_key_is_its_own_group(key: str) -> None:
    """Nothing is hashed that need not be."""
    assert group_id(event(key=key)) == key


@pytest.mark.parametrize("key", ["k" * 129, "two words", "\u00e9", "a\nb", "tab\t", "\x7f", "\ud800"])
def test_any_other_key_has_a_hash_of_its_own(key: str) -> None:
    """Equal keys stay together, others apart."""
    assert group_id(event(key=key)) == group_id(event(key=key, id="2"))
    assert len({group_id(event(key=key)), group_id(event(key=f"{key}x")), key}) == 3


def test_an_event_without_a_key_is_in_a_group_of_its_own() -> None:
    """It is in order with nothing."""
    assert group_id(event(key=None)) == UUID


def test_a_fifo_destination_does_not_take_two_sources_rows_for_one_event() -> None:
    """Row 7 of one table is not row 7 of another: within five minutes the second would be dropped, in silence."""
    ids = {deduplication_id(event(id=id_, source=source)) for id_ in ("7", "17") for source in ("shop", "shop1")}
    assert len(ids) == 4
    assert deduplication_id(event(id="7")) == deduplication_id(event(id="7", key="other", time=NOON.replace(hour=13)))


# --- answers ----------------------------------------------------------------------------------------------------------


def taken(*numbers: str) -> list[dict[str, str]]:
    """Return results of entries that were accepted."""
    return [{"Id": number, "MessageId": f"m{number}"} for number in numbers]


def failed(number: str, code: str = "InternalError", message: str = "said") -> dict[str, Any]:
    """Return the result of an entry that was refused."""
    return {"Id": number, "Code": code, "Message": message, "SenderFault": False}


NO_RESULT = Fault(Kind.UNKNOWN, "NoResult", "the answer does not say that the entry was accepted or refused")
TWO_RESULTS = Fault(Kind.UNKNOWN, "InconsistentAnswer", "the answer has two results for the entry")


def test_ids_are_positions() -> None:
    """Unique, short, and given anew for each request."""
    assert numbered([{"a": 1}, {"a": 1}]) == [{"Id": "0", "a": 1}, {"Id": "1", "a": 1}]


@given(st.permutations(range(10)), st.sets(st.integers(0, 9)))
def test_results_are_matched_by_id(order: list[int], refused: set[int]) -> None:
    """In whatever order they come, and however they are divided into two lists."""
    answer = {
        "Successful": taken(*(str(number) for number in order if number not in refused)),
        "Failed": [failed(str(number)) for number in order if number in refused],
    }
    fault = Fault(Kind.TRANSIENT, "InternalError", "said")
    assert outcome(answer, 10, CODES) == Answered(tuple(fault if each in refused else None for each in range(10)))


@pytest.mark.parametrize(
    ("answer", "results"),
    [
        ({}, (NO_RESULT, NO_RESULT)),
        ({"Successful": taken("1")}, (NO_RESULT, None)),
        ({"Successful": taken("0", "0", "1")}, (TWO_RESULTS, None)),
        ({"Successful": taken("0", "1"), "Failed": [failed("1")]}, (None, TWO_RESULTS)),
        ({"Successful": taken("1"), "Failed": [failed("0"), failed("0")]}, (TWO_RESULTS, None)),
        ({"Successful": [{"Id": "0"}, *taken("1")]}, (NO_RESULT, None)),
        ({"Successful": None, "Failed": None}, (NO_RESULT, NO_RESULT)),
    ],
)
def test_an_entry_without_one_clear_result_is_not_accepted(answer: Any, results: tuple[Any, ...]) -> None:
    """None, two, one in each list, or one that names no message: unknown, and others keep theirs."""
    assert outcome(answer, 2, CODES) == Answered(results)


@pytest.mark.parametrize("foreign", ["2", "", "x", "00"])
def test_an_answer_to_another_request_accepts_nothing(foreign: str) -> None:
    """An Id that was never sent says whose answer it is."""
    for answer in (
        {"Successful": taken("0", "1", foreign)},
        {"Successful": taken("0", "1"), "Failed": [failed(foreign)]},
    ):
        found = outcome(answer, 2, CODES)
        assert isinstance(found, RequestFailed)
        assert (found.fault.kind, found.fault.code) == (Kind.UNKNOWN, "InconsistentAnswer")


def test_a_failure_without_a_code_is_transient() -> None:
    """It says that the entry was not accepted, and no more."""
    found = outcome({"Failed": [{"Id": "0"}]}, 1, CODES)
    assert found == Answered((Fault(Kind.TRANSIENT, "NoCode"),))
