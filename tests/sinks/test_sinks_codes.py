"""What the codes of each service mean, by the tables and by the services' own models."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ParamValidationError
from botocore.stub import Stubber
from sink_events import TOPIC, URL, client, event, prepared

from dynamodb_outbox.sinks import Answered, EventBridge, Fault, Kind, RequestFailed, Sns, Sqs
from dynamodb_outbox.sinks.failures import Codes, never_sent
from dynamodb_outbox.sinks.sns import CODES as SNS_CODES
from dynamodb_outbox.sinks.sqs import CODES as SQS_CODES

NEVER_OURS = {  # of requests that no sink makes; what all services share says what they mean
    "BatchEntryIdsNotDistinct",
    "EmptyBatchRequest",
    "InvalidBatchEntryId",
    "TooManyEntriesInBatchRequest",
    "ValidationException",
}


@pytest.mark.parametrize(
    ("service", "operation", "codes"),
    [("sns", "PublishBatch", SNS_CODES), ("sqs", "SendMessageBatch", SQS_CODES)],
)
def test_every_error_of_the_service_model_has_a_class(service: str, operation: str, codes: Codes) -> None:
    """Each is listed, but for those of requests that no sink makes."""
    shapes = client(service).meta.service_model.operation_model(operation).error_shapes
    names = {shape.error_code for shape in shapes} - NEVER_OURS
    assert len(names) > 10
    assert names <= codes.kinds.keys() | codes.throttling | codes.missing


@pytest.mark.parametrize("name", ["{}", "AWS.SimpleQueueService.{}"])
def test_sqs_has_two_names_for_one_code(name: str) -> None:
    """Of the protocol of today, and of the one before it, which answers still carry."""
    assert SQS_CODES.of_request(name.format("BatchRequestTooLong"), "", 400).kind is Kind.CONTENT
    assert SQS_CODES.of_request(name.format("UnsupportedOperation"), "", 400).kind is Kind.TARGET
    assert SQS_CODES.of_request(name.format("NonExistentQueue"), "", 400).kind is Kind.TARGET


ENTRIES: list[tuple[Codes, str, str, Kind, bool]] = [
    (SNS_CODES, "InvalidParameter", "Invalid parameter: Message too long", Kind.CONTENT, False),
    (SNS_CODES, "InvalidParameter", "Invalid parameter: MessageGroupId", Kind.TARGET, False),
    (SNS_CODES, "Throttled", "", Kind.TRANSIENT, True),
    (SNS_CODES, "KMSThrottling", "", Kind.TRANSIENT, True),
    (SNS_CODES, "ThrottlingException", "", Kind.TRANSIENT, True),
    (SNS_CODES, "InternalError", "", Kind.TRANSIENT, False),
    (SNS_CODES, "NotFound", "", Kind.TARGET, False),
    (SNS_CODES, "SomethingNew", "", Kind.TRANSIENT, False),
    (SQS_CODES, "InvalidParameterValue", "Reason: Message must be shorter than 262144 bytes.", Kind.CONTENT, False),
    (SQS_CODES, "InvalidParameterValue", "Value k for parameter MessageGroupId is invalid.", Kind.TARGET, False),
    (SQS_CODES, "InvalidMessageContents", "", Kind.CONTENT, False),
    (SQS_CODES, "RequestThrottled", "", Kind.TRANSIENT, True),
    (SQS_CODES, "KmsThrottled", "", Kind.TRANSIENT, True),
    (SQS_CODES, "KMS.ThrottlingException", "", Kind.TRANSIENT, True),
    (SQS_CODES, "KMS.DisabledException", "", Kind.TARGET, False),
    (SQS_CODES, "AWS.SimpleQueueService.NonExistentQueue", "", Kind.TARGET, False),
    (SQS_CODES, "SomethingNew", "", Kind.TRANSIENT, False),
]


@pytest.mark.parametrize(("codes", "code", "reason", "kind", "throttled"), ENTRIES)
def test_codes_of_single_entries(codes: Codes, code: str, reason: str, kind: Kind, throttled: bool) -> None:
    """By the table; one that nobody listed is tried again and never parked."""
    assert codes.of_entry(code, reason) == Fault(kind, code, reason, throttled=throttled)


def test_a_setting_that_is_wrong_is_not_taken_for_an_event_that_is() -> None:
    """The words "too long" count in the code that has them; nothing else makes a parameter's fault an event's."""
    assert SNS_CODES.of_request("InvalidParameter", "Invalid parameter: TopicArn", 400).kind is Kind.TARGET
    assert SQS_CODES.of_request("MissingParameter", "MessageGroupId", 400).kind is Kind.TARGET


@pytest.mark.parametrize(
    ("sink", "operation", "code", "status", "kind"),
    [
        (Sns, "publish_batch", "AuthorizationError", 403, Kind.TARGET),
        (Sns, "publish_batch", "NotFound", 404, Kind.TARGET),
        (Sns, "publish_batch", "InternalError", 500, Kind.TRANSIENT),
        (Sns, "publish_batch", "BatchRequestTooLong", 400, Kind.CONTENT),
        (Sns, "publish_batch", "SomethingNew", 400, Kind.TARGET),
        (Sqs, "send_message_batch", "AccessDenied", 403, Kind.TARGET),
        (Sqs, "send_message_batch", "QueueDoesNotExist", 400, Kind.TARGET),
        (Sqs, "send_message_batch", "RequestThrottled", 403, Kind.TRANSIENT),
        (Sqs, "send_message_batch", "BatchRequestTooLong", 400, Kind.CONTENT),
        (Sqs, "send_message_batch", "SomethingNew", 503, Kind.TRANSIENT),
    ],
)
def test_a_request_that_fails_as_a_whole(sink: Any, operation: str, code: str, status: int, kind: Kind) -> None:
    """Nothing of it is accepted, and the code says why."""
    service = client(sink.__name__.lower())
    made = sink(TOPIC if sink is Sns else URL, client=service)
    with Stubber(service) as stub:
        stub.add_client_error(operation, code, "said", status)
        outcome = made.publish([prepared(made, event()).entry])
    assert isinstance(outcome, RequestFailed)
    assert (outcome.fault.kind, outcome.fault.code, outcome.fault.reason) == (kind, code, "said")
    assert outcome.fault.throttled is (code == "RequestThrottled")


def test_throttling_by_status_alone() -> None:
    """429, whatever the code."""
    assert SQS_CODES.of_request("SomethingNew", "", 429) == Fault(Kind.TRANSIENT, "SomethingNew", throttled=True)


def test_event_bridge_says_when_it_is_asked_to_slow_down() -> None:
    """As the code of a request, too."""
    events = client("events")
    sink = EventBridge("orders", client=events)
    with Stubber(events) as stub:
        stub.add_client_error("put_events", "ThrottlingException", "slow", 400)
        outcome = sink.publish([prepared(sink, event()).entry])
    assert outcome == RequestFailed(Fault(Kind.TRANSIENT, "ThrottlingException", "slow", throttled=True))


def test_event_bridge_refuses_a_request_of_which_no_entry_is_valid() -> None:
    """With the code of its entries: the content's own, to be tried again in smaller requests."""
    events = client("events")
    sink = EventBridge("orders", client=events)
    with Stubber(events) as stub:
        stub.add_client_error("put_events", "MalformedDetail", "said", 400)
        outcome = sink.publish([prepared(sink, event()).entry])
    assert outcome == RequestFailed(Fault(Kind.CONTENT, "MalformedDetail", "said"))


def test_partial_failures_are_read() -> None:
    """By the stubbed answers of either service, with the codes that no engine makes."""
    sns, sqs = client("sns"), client("sqs")
    topic, queue = Sns(TOPIC, client=sns), Sqs(URL, client=sqs)
    failed = [{"Id": "0", "Code": "KMSThrottling", "Message": "slow", "SenderFault": True}]
    answer = {"Successful": [{"Id": "1", "MessageId": "m"}], "Failed": failed}
    with Stubber(sns) as stub:
        stub.add_response("publish_batch", answer)
        entry = prepared(topic, event()).entry
        slow = Fault(Kind.TRANSIENT, "KMSThrottling", "slow", throttled=True)
        assert topic.publish([entry, entry]) == Answered((slow, None))
    failed = [{"Id": "1", "Code": "InvalidMessageContents", "Message": "said", "SenderFault": True}]
    answer = {"Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}], "Failed": failed}
    with Stubber(sqs) as stub:
        stub.add_response("send_message_batch", answer)
        entry = prepared(queue, event()).entry
        bad = Fault(Kind.CONTENT, "InvalidMessageContents", "said")
        assert queue.publish([entry, entry]) == Answered((None, bad))


@pytest.mark.parametrize(
    ("kind", "becomes"),
    [
        (Kind.UNKNOWN, Kind.TRANSIENT),
        (Kind.CONTENT, Kind.TARGET),
        (Kind.TARGET, Kind.TARGET),
        (Kind.TRANSIENT, Kind.TRANSIENT),
    ],
)
def test_what_had_to_be_asked_first_blames_no_entry(kind: Kind, becomes: Kind) -> None:
    """No entry was sent: none can have been accepted, none is at fault."""
    assert never_sent(Fault(kind, "c", "r", throttled=False)) == Fault(becomes, "c", "r")


def test_a_request_that_botocore_refuses_is_the_contents() -> None:
    """It would be refused again."""
    service = client("sqs")
    outcome = Sqs(URL, client=service).publish([{"MessageBody": 5}])
    assert isinstance(outcome, RequestFailed)
    assert (outcome.fault.kind, outcome.fault.code) == (Kind.CONTENT, ParamValidationError.__name__)
