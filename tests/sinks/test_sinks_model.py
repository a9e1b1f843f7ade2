"""What sinks prepare fits the services' own models, which their own clients do not look at again."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_events import NOON, TOPIC, URL, event

from dynamodb_outbox.event import Event
from dynamodb_outbox.sinks import EventBridge, Fault, Sns, Sqs
from dynamodb_outbox.sinks.messages import numbered

texts = st.text(max_size=20)
names = st.text(alphabet="abc0", min_size=1, max_size=3)
events = st.builds(
    Event,
    id=texts,
    type=texts,
    source=texts,
    payload=st.sampled_from(("{}", "1", '{"a":"\ufffe"}', "[" * 1100 + "]" * 1100, "", '"\ud800"')),
    time=st.sampled_from((NOON, NOON.replace(microsecond=1), NOON.replace(year=1))),
    key=st.none() | texts,
    subject=st.none() | texts,
    attributes=st.dictionaries(names, texts, max_size=12),
)
SINKS: list[tuple[Any, str, str]] = [
    (EventBridge("orders"), "events", "PutEvents"),
    (EventBridge("orders", resources=lambda one: [one.id]), "events", "PutEvents"),
    (Sqs(f"{URL}.fifo"), "sqs", "SendMessageBatch"),
    (Sqs(URL, attributes=lambda one: one.attributes), "sqs", "SendMessageBatch"),
    (Sns(f"{TOPIC}.fifo"), "sns", "PublishBatch"),
]


@cache
def shape_of(service: str, operation: str) -> Any:
    """Return what botocore knows of one entry of an operation's requests."""
    members = Session().get_service_model(service).operation_model(operation).input_shape.members
    return members["PublishBatchRequestEntries" if service == "sns" else "Entries"].member


def faults_of(entry: Any, service: str, operation: str) -> str:
    """Return what botocore finds in an entry, empty for nothing."""
    sent = entry if service == "events" else numbered([entry])[0]
    return str(ParamValidator().validate(sent, shape_of(service, operation)).generate_report())


@pytest.mark.parametrize(("sink", "service", "operation"), SINKS)
@given(one=events)
@settings(deadline=None, max_examples=60)
def test_what_is_prepared_fits_the_services_model(sink: Any, service: str, operation: str, one: Event) -> None:
    """Whatever the event: the wrong type of anything in it would be met by the service alone."""
    prepared = sink.prepare(one)
    assert isinstance(prepared, Fault) or faults_of(prepared.entry, service, operation) == ""


def test_what_is_not_prepared_may_not_fit() -> None:
    """So the check above can fail; and it looks at more than faults."""
    for sink, service, operation in SINKS:
        prepared = sink.prepare(event())
        assert faults_of(prepared.entry, service, operation) == ""
        assert faults_of(dict.fromkeys(prepared.entry, 1), service, operation)
