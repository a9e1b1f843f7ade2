"""Entries of redriven events: other deduplication ids, and nothing else that is new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_events import TOPIC, URL, client, event

from dynamodb_outbox.core.relay.outcome import Prepared
from dynamodb_outbox.recover.publishing import Ways
from dynamodb_outbox.relay.setup import routes_of
from dynamodb_outbox.sinks import Sns, Sqs
from dynamodb_outbox.sinks.groups import deduplication_id
from sweep_shell import Bus

TEXT = st.text(min_size=1, max_size=20)


@given(TEXT, TEXT, TEXT)
def test_each_redrive_has_deduplication_ids_of_its_own(event_id: str, one: str, other: str) -> None:
    """The same within it; legal in any case."""
    made = event(id=event_id)
    assert deduplication_id(made, one) == deduplication_id(made, one)
    assert deduplication_id(made) not in {deduplication_id(made, one), deduplication_id(made, other)}
    assert (deduplication_id(made, one) == deduplication_id(made, other)) == (one == other)


@pytest.mark.parametrize(
    ("sink", "fifo"),
    [
        (Sqs(f"{URL}.fifo", client=client("sqs")), True),
        (Sqs(URL, client=client("sqs")), False),
        (Sns(f"{TOPIC}.fifo", client=client("sns")), True),
        (Sns(TOPIC, client=client("sns")), False),
    ],
)
def test_a_redriven_event_differs_in_its_deduplication_id_alone(sink: Any, fifo: bool) -> None:
    """Where there is one; the message says the same, in the same group."""
    plain, again = sink.prepare(event()), sink.prepare_again(event(), "mark")
    assert isinstance(plain, Prepared)
    entry, other = dict(plain.entry), dict(again.entry)
    ids = entry.pop("MessageDeduplicationId", None), other.pop("MessageDeduplicationId", None)
    assert (entry, plain.size) == (other, again.size)
    assert (ids[0] != ids[1]) == fifo


def test_a_sink_that_knows_nothing_of_redrives_is_given_events_as_ever() -> None:
    """Such as one of the user's own."""
    (way,) = Ways(routes_of("test", Bus()), again="mark").sinks
    prepared = way.prepare(event())
    assert isinstance(prepared, Prepared)
    assert prepared.entry == event()
