"""Whether a destination is there: what a sink asks, and what each answer, or none, says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import CredentialRetrievalError, NoCredentialsError
from botocore.stub import Stubber
from sink_events import ACCOUNT, QUEUE, TOPIC, URL, client

from dynamodb_outbox.sinks import EventBridge, Presence, Sns, Sqs, Verified

BUS_ARN = f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/orders"


@pytest.mark.parametrize("bus", ["orders", "default", BUS_ARN])
def test_a_bus_that_is_there(bus: str) -> None:
    """Asked for by the name or ARN that it was given."""
    events = client("events")
    with Stubber(events) as stub:
        stub.add_response("describe_event_bus", {"Name": "orders", "Arn": BUS_ARN}, {"Name": bus})
        assert EventBridge(bus, client=events).verify() == Verified(Presence.OK)


def test_a_bus_of_ones_own_that_is_not_there() -> None:
    """By name the answer is about the caller's account; by ARN the account is looked at, and the name asked for."""
    events = client("events")
    missing = Verified(Presence.MISSING, "ResourceNotFoundException: no such bus")
    with Stubber(events) as stub:
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        assert EventBridge("orders", client=events).verify() == missing
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        default = f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/default"
        stub.add_response("describe_event_bus", {"Arn": default}, {"Name": "default"})
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        assert EventBridge(BUS_ARN, client=events).verify() == missing


def test_a_bus_of_ones_own_that_is_known_by_its_name_alone() -> None:
    """As on local engines: the account is the caller's, so the name is the same bus."""
    events = client("events")
    with Stubber(events) as stub:
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        default = BUS_ARN.replace("/orders", "/default")
        stub.add_response("describe_event_bus", {"Arn": default}, {"Name": "default"})
        stub.add_response("describe_event_bus", {"Name": "orders", "Arn": BUS_ARN}, {"Name": "orders"})
        assert EventBridge(BUS_ARN, client=events).verify() == Verified(Presence.OK)


@pytest.mark.parametrize("slow", [0, 1])
def test_further_questions_are_asked_within_the_time_of_one_request_and_a_quarter(slow: int) -> None:
    """Else it is a question without an answer, to be asked again: `request_ms` holds for `verify` too."""
    events = client("events")
    sink = EventBridge(BUS_ARN, client=events)
    quarter_s = EventBridge("orders", client=events).request_ms / 4000
    assert sink.request_ms == 5000 * quarter_s
    times = [0.0, *([0.0] * slow), quarter_s]
    sink._monotonic_s = lambda: times.pop(0)
    with Stubber(events) as stub:
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        if slow:
            stub.add_response("describe_event_bus", {"Arn": BUS_ARN.replace("/orders", "/default")})
        found = sink.verify()
    assert (found.presence, found.passing) == (Presence.UNSURE, True)
    assert "no time" in found.reason


@pytest.mark.parametrize("default", ["arn:aws:events:us-east-1:999999999999:event-bus/default", "x", None])
def test_a_bus_of_another_account_cannot_be_told(default: str | None) -> None:
    """Its policy covers PutEvents, not the question; without permission even one's own account is not known."""
    events = client("events")
    with Stubber(events) as stub:
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        if default is None:
            stub.add_client_error("describe_event_bus", "AccessDeniedException", "no", 400)
        else:
            stub.add_response("describe_event_bus", {"Arn": default})
        found = EventBridge(BUS_ARN, client=events).verify()
    assert found.presence is Presence.UNSURE
    assert found.passing is (default == "x"), "an answer of no such form is none"
    assert "account" in found.reason


@pytest.mark.parametrize("code", ["ThrottlingException", "ExpiredTokenException", "InternalFailure"])
def test_an_account_that_could_not_be_asked_for_is_asked_for_again(code: str) -> None:
    """The bus is not known to be another account's, and may be missing."""
    events = client("events")
    with Stubber(events) as stub:
        stub.add_client_error("describe_event_bus", "ResourceNotFoundException", "no such bus", 400)
        stub.add_client_error("describe_event_bus", code, "no", 400)
        found = EventBridge(BUS_ARN, client=events).verify()
    assert (found.presence, found.passing) == (Presence.UNSURE, True)
    assert code in found.reason


QUESTIONS = [
    ("events", "describe_event_bus", lambda service: EventBridge("orders", client=service)),
    ("sns", "get_topic_attributes", lambda service: Sns(TOPIC, client=service)),
    ("sqs", "get_queue_attributes", lambda service: Sqs(URL, client=service)),
    ("sqs", "get_queue_url", lambda service: Sqs(QUEUE, client=service)),
]


@pytest.mark.parametrize(("service", "operation", "made"), QUESTIONS)
@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "AuthorizationError"])
def test_who_may_not_ask_is_unsure(service: str, operation: str, made: Any, code: str) -> None:
    """To ask again would bring the same, and a permission to publish does not imply this one."""
    stubbed = client(service)
    with Stubber(stubbed) as stub:
        stub.add_client_error(operation, code, "said", 403)
        assert made(stubbed).verify() == Verified(Presence.UNSURE, f"{code}: said")


PASSING = [
    "ExpiredTokenException", "IncompleteSignature", "InternalError", "InvalidSignatureException", "OptInRequired",
    "RequestExpired", "Throttling", "UnrecognizedClientException", "New",
]  # fmt: skip


@pytest.mark.parametrize(("service", "operation", "made"), QUESTIONS)
@pytest.mark.parametrize("code", PASSING)
def test_every_other_fault_is_a_question_without_an_answer(service: str, operation: str, made: Any, code: str) -> None:
    """A token that expired says nothing of the destination, which may be gone: it is asked for again."""
    stubbed = client(service)
    with Stubber(stubbed) as stub:
        stub.add_client_error(operation, code, "said", 403)
        assert made(stubbed).verify() == Verified(Presence.UNSURE, f"{code}: said", passing=True)


@pytest.mark.parametrize("error", [CredentialRetrievalError(provider="p", error_msg="e"), NoCredentialsError()])
def test_credentials_that_cannot_be_had_answer_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever hands them out may be back at the next call."""
    stubbed = client("events")

    def fails(**_: Any) -> None:
        raise error

    monkeypatch.setattr(stubbed, "describe_event_bus", fails)
    found = EventBridge("orders", client=stubbed).verify()
    assert (found.presence, found.passing) == (Presence.UNSURE, True)


@pytest.mark.parametrize(("service", "operation", "made"), QUESTIONS[:3])
def test_an_answer_that_names_nothing_tells_nothing(service: str, operation: str, made: Any) -> None:
    """A 200 by itself is not a destination."""
    stubbed = client(service)
    with Stubber(stubbed) as stub:
        stub.add_response(operation, {})
        found = made(stubbed).verify()
        assert (found.presence, found.passing) == (Presence.UNSURE, True)


def test_an_answer_of_another_form_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a client that a tracer wraps; the question stays open, and nothing is raised."""
    stubbed = client("sqs")
    answers: list[Any] = [None, {}]
    for _ in answers.copy():
        monkeypatch.setattr(stubbed, "get_queue_url", lambda **_: answers.pop())
        found = Sqs(QUEUE, client=stubbed).verify()
        assert (found.presence, found.passing) == (Presence.UNSURE, True)


@pytest.mark.parametrize(
    ("code", "message", "presence"),
    [
        ("QueueDoesNotExist", "The specified queue does not exist.", Presence.MISSING),
        ("AWS.SimpleQueueService.NonExistentQueue", "", Presence.MISSING),
        ("QueueDoesNotExist", "The specified queue does not exist or you do not have access to it.", Presence.UNSURE),
    ],
)
def test_a_queue_that_is_not_there_or_not_ones_own(code: str, message: str, presence: Presence) -> None:
    """SQS has words of its own for not saying which."""
    stubbed = client("sqs")
    with Stubber(stubbed) as stub:
        stub.add_client_error("get_queue_attributes", code, message, 400)
        assert Sqs(URL, client=stubbed).verify().presence is presence
