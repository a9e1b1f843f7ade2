"""What an event's errors say to the letter; how large an event may be to the byte; what of it is kept elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from write_world import new_id, some_event

from dynamodb_outbox.core.codec.claim import Claim, ClaimRule
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.codec.size import entry_bytes
from dynamodb_outbox.core.commit.claiming import check_event_size, claimed, lightened
from dynamodb_outbox.core.commit.events import checked_fields, gather, new_event, settled
from dynamodb_outbox.core.commit.handmade import checked_events
from dynamodb_outbox.core.commit.plan import ids_needed
from dynamodb_outbox.core.commit.targets import Tables
from dynamodb_outbox.core.limits import EVENTBRIDGE
from dynamodb_outbox.errors import EventTooLarge, InvalidEvent, MissingKey
from dynamodb_outbox.event import DataRef
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.event import Event

NOON = datetime(2026, 1, 31, 12, 1, 2, 345_678, timezone.utc)
GOOD: dict[str, Any] = {"type": "t", "time": NOON, "key": None, "subject": None, "attributes": None}
RULE = ClaimRule("payloads", "outbox/", threshold_bytes=1_000, max_bytes=3_000)


class Stamp(datetime):
    """A datetime of another class, as some libraries have it."""

    def isoformat(self, *_: Any, **__: Any) -> str:
        """Say it in another way."""
        return "another way"


def checked(**given: Any) -> dict[str, Any]:
    """Return the fields of an event as `emit` takes them."""
    return checked_fields(**{**GOOD, **given}, layout=Layout())


def by_hand(**changes: Any) -> Event:
    """Return an event that somebody made."""
    return some_event(**{"key": "K", **changes})


def size_of(event: Event) -> int:
    """Return what EventBridge counts of an event."""
    return entry_bytes({"Source": event.source, "DetailType": event.type, "Detail": cloudevent(event)}, EVENTBRIDGE)


@pytest.mark.parametrize(
    ("call", "field", "reason"),
    [
        (lambda: checked(type=""), "type", "is ''; text that is not empty is needed."),
        (lambda: checked(type="x" * 129), "type", "has 129 characters; EventBridge takes 128 at most."),
        (lambda: checked(subject=5), "subject", "is 5; text that is not empty is needed."),
        (lambda: checked(key=5), "key", "is 5, and a key is text: '5'."),
        (lambda: checked(key=[5]), "key", "is [5]; text that is not empty is needed."),
        (lambda: checked(key="IDEMP#1"), "key", "starts with 'IDEMP#', which belongs to the library's own items."),
        (lambda: checked(attributes=[1]), "attributes", "is [1]; a dict is needed."),
        (
            lambda: checked(attributes={"A": "x"}),
            "attributes",
            "has the name 'A'; CloudEvents takes lower-case letters and digits only.",
        ),
        (lambda: checked(attributes={"a": ""}), "attributes['a']", "is ''; text that is not empty is needed."),
        (
            lambda: checked(time=NOON.replace(tzinfo=None)),
            "time",
            f"is {NOON.replace(tzinfo=None)!r}; a datetime with a time zone is needed: datetime.now(timezone.utc).",
        ),
        (
            lambda: checked(time="now"),
            "time",
            "is 'now'; a datetime with a time zone is needed: datetime.now(timezone.utc).",
        ),
        # events made by hand
        (lambda: checked_events("x", Layout()), "events", "is a value of type str; a list of Events is needed."),
        (lambda: checked_events(5, Layout()), "events", "is a value of type int; a list of Events is needed."),
        (
            lambda: checked_events([5], Layout()),
            "events",
            "has a value of type int; make an Event with outbox.event().",
        ),
        (
            lambda: checked_events([by_hand(), by_hand()], Layout()),
            "id",
            f"{new_id(7)!r} comes twice; two events have two ids.",
        ),
        (
            lambda: checked_events([by_hand(id="1")], Layout()),
            "id",
            "is '1'; a UUID in its usual form, in lower case, is needed.",
        ),
        (
            lambda: checked_events([by_hand(source="aws.s3")], Layout()),
            "source",
            "is 'aws.s3': 1 to 256 characters, not starting with 'aws.', which EventBridge keeps for itself.",
        ),
        (
            lambda: checked_events([by_hand(sequence="")], Layout()),
            "sequence",
            "is ''; text that is not empty is needed.",
        ),
        (
            lambda: checked_events([by_hand(payload="")], Layout()),
            "payload",
            "is ''; text that is not empty is needed.",
        ),
        (
            lambda: checked_events([by_hand(payload="1,2")], Layout()),
            "payload",
            "is not one JSON value: something follows the value (character 1).",
        ),
        (
            lambda: checked_events([by_hand(payload="[" * 201 + "]" * 201)], Layout()),
            "payload",
            "is nested more than 200 levels deep.",
        ),
        (
            lambda: checked_events([by_hand(payload="[1, 9223372036854775808]")], Layout()),
            "payload",
            "has an integer outside int64, at character 4.",
        ),
    ],
)
def test_an_error_names_the_field_and_says_what_is_wrong(call: Callable[[], object], field: str, reason: str) -> None:
    """As `emit` gives it, and for an `Event` that somebody made."""
    with pytest.raises(InvalidEvent) as caught:
        call()
    assert (caught.value.field, caught.value.reason) == (field, reason)


def test_a_time_outside_of_the_calendar_is_refused() -> None:
    """Its moment has no year in UTC."""
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(InvalidEvent) as caught:
        checked(time=first)
    assert caught.value.reason == f"is {first!r}, which in UTC is outside the years 1 to 9999."


@pytest.mark.parametrize("kind", [datetime, Stamp])
@pytest.mark.parametrize("hours", [0, 2])
def test_a_time_of_another_class_becomes_a_plain_one(kind: type[datetime], hours: int) -> None:
    """The same moment to the microsecond, in UTC: another class may write itself in another way."""
    given = kind(2026, 1, 31, 12 + hours, 1, 2, 345_678, timezone(timedelta(hours=hours)))
    time = checked(time=given)["time"]
    assert time == NOON
    assert type(time) is datetime
    assert time.tzinfo is timezone.utc
    utc = kind(2026, 1, 31, 12, 1, 2, 345_678, timezone.utc)
    assert type(checked(time=utc)["time"]) is datetime


def test_an_event_made_by_hand_is_kept_field_by_field() -> None:
    """Checked, and otherwise the same; 200 levels pass, and int64."""
    event = by_hand(
        payload='{"deep":' + "[" * 199 + "9223372036854775807" + "]" * 199 + "}",
        subject="s",
        sequence="1",
        attributes={"a": "x"},
    )
    assert checked_events((event,), Layout()) == [event]
    assert checked_events([], Layout()) == []
    with pytest.raises(MissingKey) as caught:
        checked_events([some_event()], Layout())
    assert caught.value.event_type == "order.placed"
    assert str(caught.value).endswith(" Make it with outbox.event(..., key=...), or give Event(key=...).")


def test_a_type_has_128_characters_at_most() -> None:
    """Characters, not bytes."""
    assert checked(type="é" * 128)["type"] == "é" * 128
    assert (
        new_event("t", [1], id="1", source="s", **{n: GOOD[n] for n in GOOD if n != "type"}, layout=Layout()).id == "1"
    )


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subject": "é\n" * 50, "sequence": "1" * 40, "attributes": {"abc": '"' * 70}},
        {"payload": "", "dataref": DataRef("s3://b/" + "\x01" * 2_000, "0" * 64)},
    ],
)
def test_the_size_of_an_event_is_held_to_its_limit_exactly(more: dict[str, Any]) -> None:
    """As many bytes as allowed pass, one more does not, and the error has both numbers."""
    event = by_hand(**{"payload": '"' + "é" * 500 + '"', **more})
    size = size_of(event)
    check_event_size(event, size)
    with pytest.raises(EventTooLarge) as caught:
        check_event_size(event, size - 1)
    assert (caught.value.size, caught.value.limit, caught.value.unit) == (size, size - 1, "bytes")
    assert caught.value.what == f"event 'order.placed' ({new_id(7)})"
    assert str(caught.value).endswith(
        "Give the outbox a claim_check=, which keeps the data of large events in S3, or raise max_event_bytes if the "
        "bus takes it."
    )


def test_large_events_are_claimed_and_small_ones_are_not() -> None:
    """The one is left with a reference alone, which comes with its data; the other is as it was."""
    small, large = by_hand(), by_hand(id=new_id(8), payload='"' + "x" * 1_000 + '"')
    done, claims = claimed([small, large], RULE)
    assert done[0] is small
    assert claims == (Claim(f"outbox/{new_id(8)}", large.payload.encode(), done[1].dataref or claims[0].reference),)
    assert (done[1].payload, done[1].dataref, done[1].id) == ("", claims[0].reference, new_id(8))
    exact = by_hand(payload='"' + "x" * (len(small.payload) - 2 + 1_000 - size_of(small)) + '"')
    assert size_of(exact) == 1_000
    assert claimed([exact], RULE) == ((exact,), ())


def test_data_beyond_what_a_claim_check_takes_is_refused() -> None:
    """Bytes of data, and what to do about them."""
    claimed([by_hand(payload='"' + "x" * 2_998 + '"')], RULE)
    with pytest.raises(EventTooLarge) as caught:
        claimed([by_hand(payload='"' + "x" * 2_999 + '"')], RULE)
    assert str(caught.value) == (
        f"event 'order.placed' ({new_id(7)}): 3,001 bytes of data, 1 over the limit of 3,000. Emit less, or raise "
        "max_bytes of the claim check, the consumers' too: they hold it in memory."
    )


def test_the_largest_events_are_made_lighter_first() -> None:
    """Until the excess is gone and as many as needed are claimed; never one that is no larger than its reference."""
    sizes = [1_500, 2_500, 10, 3_001, 2_000]
    events = [by_hand(id=new_id(i), payload='"' + "x" * (size - 2) + '"') for i, size in enumerate(sizes)]

    def claimed_ones(excess: int, least: int) -> list[int]:
        done, claims = lightened(events, RULE, excess, least=least)
        assert [each.id for each in done] == [each.id for each in events]
        found = [i for i, each in enumerate(done) if each.dataref is not None]
        assert sorted(claim.key for claim in claims) == sorted(f"outbox/{new_id(i)}" for i in found)
        assert all(done[i].payload == "" for i in found)
        return found

    assert claimed_ones(1, 0) == [1]
    assert claimed_ones(0, 0) == []
    assert claimed_ones(0, 1) == [1]
    assert claimed_ones(-5, 2) == [1, 4]
    assert claimed_ones(2_500, 0) == [1, 4]
    assert claimed_ones(1_000_000, 0) == [0, 1, 4]
    assert claimed_ones(0, 5) == [0, 1, 4]
    most = by_hand(payload='"' + "x" * 2_998 + '"')
    assert len(lightened([most], RULE, 1, least=0)[1]) == 1


# --- records ----------------------------------------------------------------------------------------------------------


def test_events_are_gathered_by_their_keys() -> None:
    """In the order of their first event; a record of several takes the next id, one of one event has that event's."""
    events = [by_hand(id=new_id(i), key=key) for i, key in enumerate("ABACCC")]
    drafts = gather(events, ["x", "y", "z"])
    assert [(d.id, d.key, d.index, d.count) for d in drafts] == [
        ("x", "A", 0, 3),
        (new_id(1), "B", 1, 3),
        ("y", "C", 2, 3),
    ]
    assert [[each.id for each in d.events] for d in drafts] == [
        [new_id(0), new_id(2)],
        [new_id(1)],
        [new_id(3), new_id(4), new_id(5)],
    ]


@pytest.mark.parametrize(("count", "needed"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)])
def test_an_id_for_the_transaction_and_one_for_each_record_that_may_have_several_events(
    count: int, needed: int
) -> None:
    """Half of the events, at most, are the second of a key."""
    assert ids_needed([by_hand(id=new_id(i)) for i in range(count)]) == needed


def test_an_event_without_a_key_is_told_by_its_type() -> None:
    """Nothing is written that could give it one."""
    with pytest.raises(MissingKey) as caught:
        settled([some_event()], [], Tables("shop", "shop", Layout()))
    assert caught.value.event_type == "order.placed"
