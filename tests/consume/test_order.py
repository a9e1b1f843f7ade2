"""Lateness and gaps are told to an observer, by the sequence of each subject, whichever process applied what before."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError
from deliveries import order
from hypothesis import given
from hypothesis import strategies as st
from remembering import Noted

from dynamodb_outbox import Event, Inbox, Layout
from dynamodb_outbox.adapters.positions import DynamoPositions
from dynamodb_outbox.consume import Applied, Duplicate, Gap, Late, OrderUnknown
from dynamodb_outbox.core.commit.numbering import sequence_text
from dynamodb_outbox.core.consuming.order import Ahead, Behind, Unwritten, leaves_gap
from dynamodb_outbox.core.record.place import inbox_partition, is_record, position_partition
from dynamodb_outbox.core.record.waiting import waits
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from conftest import Account

TABLE = "billing"


def numbered(number: int, place: int = 0, subject: str = "ORDER#1/META") -> Event:
    """Return the event at a place among those of a version."""
    return order(number * 100 + place, subject=subject, sequence=sequence_text(number, place))


class Desk:
    """A consumer's table, and inboxes on it that tell one observer."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        self.noted = Noted()
        create_table(self.client, TABLE)

    def inbox(self, how: Any = "gaps", **options: Any) -> Inbox:
        """Return an inbox, as another process would make it."""
        made = Inbox(TABLE, consumer="c", client=self.client, observer=self.noted, order=how, **options)
        made.consumer(lambda event, tx: None)  # noqa: ARG005 -- the inbox record is all that is written
        return made

    def told(self, *events: Event, how: Any = "gaps", **options: Any) -> list[Any]:
        """Apply events, each by an inbox of its own; return what was told of order."""
        for event in events:
            self.inbox(how, **options).apply(event)
        told = [fact for fact in self.noted.facts if not isinstance(fact, (Applied, Duplicate))]
        self.noted.facts.clear()
        return told


@pytest.fixture
def desk(engine: Account) -> Desk:
    """Make the consumer's table."""
    return Desk(engine)


def test_events_in_order_are_nothing_to_tell(desk: Desk) -> None:
    """Whole commits, one after the other, of each subject for itself; and what has no sequence or no subject."""
    assert desk.told(numbered(1), numbered(1, 1), numbered(2), numbered(7, subject="other"), numbered(3)) == []
    assert desk.told(numbered(3), numbered(2)) == []  # copies
    assert desk.told(order(1), replace(numbered(9), subject=None), replace(numbered(8), sequence=None)) == []


def test_an_event_after_a_later_one_of_its_subject_is_late(desk: Desk) -> None:
    """Once, with the sequence that was ahead of it; a copy of it is a duplicate and not late again."""
    late = numbered(1)
    assert desk.told(numbered(3), late, late, how="late") == [Late(late, sequence_text(3, 0))]
    assert desk.told(replace(late, source="another"), how="late") == []


def test_missing_numbers_are_told_where_they_are_dense(desk: Desk) -> None:
    """A version, or an event of one; not before the first that is seen, and not without dense versions."""
    desk.told(numbered(5))
    assert desk.told(numbered(7)) == [Gap(numbered(7), sequence_text(5, 0))]
    assert desk.told(numbered(7, 2)) == [Gap(numbered(7, 2), sequence_text(7, 0))]
    assert desk.told(numbered(8, 1)) == [Gap(numbered(8, 1), sequence_text(7, 2))]
    assert desk.told(numbered(20), how="late") == []


def test_who_died_before_the_position_was_written_makes_up_for_it(desk: Desk) -> None:
    """The copy of an applied event moves the position; so what follows is no gap. With `read_first` too."""
    first = Inbox(TABLE, consumer="c", client=desk.client)
    first.consumer(lambda event, tx: None)  # noqa: ARG005 -- as above
    desk.told(numbered(1))
    first.apply(numbered(2))  # and dies
    first.apply(numbered(3))
    assert desk.told(numbered(2), numbered(3), numbered(4), read_first=True) == []


def test_a_position_that_cannot_be_written_fails_no_event(desk: Desk) -> None:
    """The observer is told that it is not known."""
    inbox = desk.inbox()

    class Broken:
        def advance(self, *_: Any) -> Unwritten:
            return Unwritten("no answer")

    inbox._positions = Broken()
    assert inbox.apply(numbered(1))
    assert desk.noted.facts == [Applied(numbered(1)), OrderUnknown(numbered(1), "no answer")]


def test_the_position_is_an_item_that_nobody_takes_for_anything_else(desk: Desk) -> None:
    """No record, under any layout, and no inbox record; it expires when inbox records do."""
    desk.told(numbered(1))
    (item,) = (each for each in desk.client.scan(TableName=TABLE)["Items"] if "ob_highest" in each)
    for layout in (Layout(), Layout(select={}, placement="table")):
        assert not is_record(item, layout)
    assert not waits(item)
    assert int(item["expires_at"]["N"]) > 0


@given(st.text(max_size=5), st.text(max_size=5), st.text(min_size=1, max_size=5).filter(lambda name: "#" not in name))
def test_no_inbox_record_has_the_key_of_a_position(source: str, rest: str, consumer: str) -> None:
    """Whatever source and subject are: a consumer has a name."""
    position = position_partition(Layout(), consumer, source, rest)
    assert position.startswith("INBOX##")
    assert not inbox_partition(Layout(), consumer, source, rest).startswith("INBOX##")


sequences = st.tuples(st.integers(0, 50), st.integers(0, 5))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
def test_a_gap_is_found_wherever_a_number_is_left_out(commits: list[int], data: st.DataObject) -> None:
    """But at the end of a commit, where nobody can know."""
    dense = [(version, place) for version, events in enumerate(commits, 1) for place in range(events)]
    texts = [sequence_text(*each) for each in dense]
    assert not any(leaves_gap(before, this) for before, this in itertools.pairwise(texts))
    if len(dense) > 2:
        out = data.draw(st.integers(1, len(dense) - 2))
        ends_its_commit = dense[out + 1][0] > dense[out][0] and dense[out - 1][0] == dense[out][0]
        assert leaves_gap(texts[out - 1], texts[out + 1]) is not ends_its_commit


@pytest.mark.parametrize(("before", "this"), [("1", "3"), ("a", "b"), (sequence_text(1, 0), "x"), ("", "1")])
def test_sequences_of_another_form_leave_no_gap(before: str, this: str) -> None:
    """What they count is not known."""
    assert not leaves_gap(before, this)


@pytest.mark.parametrize("arguments", [{"order": "late"}, {"order": "dense"}, {"order": True}])
def test_an_order_that_nobody_is_told_of_is_refused(arguments: Any) -> None:
    """And one that there is not."""
    with pytest.raises(ConfigurationError, match="Inbox: order is"):
        Inbox(TABLE, consumer="c", **arguments)


class Client:
    """A client that answers, or raises, what it was made with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.meta = type("Meta", (), {"config": None, "region_name": "eu-west-1"})

    def update_item(self, **_: Any) -> Any:
        """Answer."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_every_outcome_of_the_write_is_a_value(desk: Desk) -> None:
    """Ahead of the one before, behind, or not known, also where the refusal comes without the item."""
    positions = DynamoPositions(TABLE, Layout(), desk.client)
    first, second = numbered(1), numbered(2)
    assert positions.advance("c", first, 0) == Ahead(None)
    assert positions.advance("c", second, 0) == Ahead(first.sequence)
    assert positions.advance("c", first, 0) == Behind(str(second.sequence))
    broken = Client(EndpointConnectionError(endpoint_url="x"))
    assert isinstance(DynamoPositions(TABLE, Layout(), broken).advance("c", first, 0), Unwritten)
    assert isinstance(DynamoPositions("missing", Layout(), desk.client).advance("c", first, 0), Unwritten)
    with pytest.raises(desk.client.exceptions.ConditionalCheckFailedException) as refused:
        desk.client.put_item(
            TableName=TABLE, Item={"pk": {"S": "x"}, "sk": {"S": "y"}}, ConditionExpression="attribute_exists(pk)"
        )
    refused.value.response.pop("Item", None)
    assert DynamoPositions(TABLE, Layout(), Client(refused.value)).advance("c", first, 0) == Behind("")
