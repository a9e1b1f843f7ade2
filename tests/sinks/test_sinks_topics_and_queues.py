"""The sinks of SNS and SQS: what they are made of, where they ask, and that the engines take what they send."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from botocore.stub import Stubber
from sink_events import ACCOUNT, QUEUE, TOPIC, URL, UUID, body_of, both, client, event, prepared

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sinks import Answered, EventBridge, Fault, Kind, Presence, RequestFailed, Sns, Sqs, Verified

if TYPE_CHECKING:
    from conftest import Account

BOTH_ENGINES = pytest.mark.parametrize(
    "engine", ["ministack", pytest.param("moto", marks=pytest.mark.slow)], indirect=True
)


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arn",
    [
        "",
        None,
        5,
        "orders",
        URL,
        QUEUE,
        f"{TOPIC}:0a1b2c3d-subscription",
        f"{TOPIC}.x",
        f"{TOPIC} ",
        "arn:aws:sns:eu-west-1::orders",
        f"arn:aws:sns:eu-west-1:{ACCOUNT}:{'x' * 257}",
    ],
)
def test_what_is_no_topic_is_refused(arn: Any) -> None:
    """With the form of one."""
    with pytest.raises(ConfigurationError, match="Sns"):
        Sns(arn)


@pytest.mark.parametrize(
    "queue",
    [
        "",
        None,
        5,
        "orders",
        TOPIC,
        "ftp://host/1/orders",
        "https://host",
        "https://host/",
        f"{URL}/",
        f"{URL}?x=1",
        f"{URL}.x",
        f"https://host/{'x' * 81}",
        "arn:aws:sqs:eu-west-1::orders",
        f"arn:aws:sqs:eu-west-1:{ACCOUNT}:{'x' * 81}",
        f"arn:aws:sqs:eu-west-1:{ACCOUNT}:a/b",
    ],
)
def test_what_is_no_queue_is_refused(queue: Any) -> None:
    """With the forms of one."""
    with pytest.raises(ConfigurationError, match="Sqs"):
        Sqs(queue)


@pytest.mark.parametrize(
    "options",
    [
        {"envelope": "xml"},
        {"envelope": None},
        {"timeout_s": 0},
        {"timeout_s": True},
        {"timeout_s": float("nan")},
        {"attributes": {"tenant": "x"}},
        {"fair_queues": "yes"},
        {"limits": 10},
        {"client": "sns"},
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(options: dict[str, Any]) -> None:
    """At once, and not by a TypeError later."""
    (name,) = options
    for made in (lambda: Sns(TOPIC, **options), lambda: Sqs(URL, **options)):
        with pytest.raises(ConfigurationError, match=name):
            made()


def test_a_client_of_another_service_is_refused() -> None:
    """With the names of both."""
    with pytest.raises(ConfigurationError, match=r"'sqs'.*'sns'"):
        Sns(TOPIC, client=client("sqs"))
    with pytest.raises(ConfigurationError, match=r"'sns'.*'sqs'"):
        Sqs(URL, client=client("sns"))


def test_a_destination_has_a_name() -> None:
    """The one that it was given."""
    assert [sink.name for sink in (*both(), Sqs(QUEUE), EventBridge("orders"))] == [TOPIC, URL, QUEUE, "orders"]
    assert [repr(sink) for sink in both()] == [f"Sns('{TOPIC}')", f"Sqs('{URL}')"]


def test_a_name_tells_fifo() -> None:
    """AWS gives the ending to FIFO destinations alone, and none without it to them."""
    assert [sink.fifo for sink in (Sns(TOPIC), Sns(f"{TOPIC}.fifo"), Sqs(URL), Sqs(f"{URL}.fifo"))] == [
        False,
        True,
        False,
        True,
    ]


def test_how_long_a_request_may_take() -> None:
    """The client's time-outs; with an ARN the queue's URL has to be asked for too."""
    assert [sink.request_ms for sink in both(timeout_s=2)] == [2000, 2000]
    assert Sqs(QUEUE, timeout_s=2).request_ms == 4000
    assert Sqs(URL, client=client("sqs")).request_ms == 5000


@pytest.mark.parametrize(
    ("sink", "region"),
    [
        (Sns(TOPIC), "eu-west-1"),
        (Sqs(QUEUE), "eu-west-1"),
        (Sqs(URL), "eu-west-1"),
        (Sqs(f"https://sqs.us-gov-west-1.amazonaws.com/{ACCOUNT}/q"), "us-gov-west-1"),
        (Sqs(f"https://sqs.cn-north-1.amazonaws.com.cn/{ACCOUNT}/q"), "cn-north-1"),
        (Sqs(f"https://sqs.eu-central-2.api.aws/{ACCOUNT}/q"), "eu-central-2"),
        (Sqs(f"https://eu-west-3.queue.amazonaws.com/{ACCOUNT}/q"), "eu-west-3"),
        (Sqs(f"http://127.0.0.1:4566/{ACCOUNT}/q"), "ap-south-1"),
        (Sqs("https://vpce-1.sqs.eu-west-1.vpce.example/1/q"), "ap-south-1"),
        (EventBridge(f"arn:aws:events:eu-north-1:{ACCOUNT}:event-bus/orders"), "eu-north-1"),
        (EventBridge("orders"), "ap-south-1"),
    ],
)
def test_our_own_client_is_made_where_the_destination_is(
    sink: Any, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Region is that of ARN or URL; the environment's where they name none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    assert sink._client.get().meta.region_name == region


# --- a queue's URL ----------------------------------------------------------------------------------------------------

ASKED = {"QueueName": "orders", "QueueOwnerAWSAccountId": ACCOUNT}
SENT: dict[str, Any] = {"Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}], "Failed": []}


def test_a_queues_url_is_asked_for_once() -> None:
    """When it is first needed, of the account that owns the queue."""
    service = client("sqs")
    sink = Sqs(QUEUE, client=service)
    with Stubber(service) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": URL}, ASKED)
        stub.add_response("get_queue_attributes", {"Attributes": {"QueueArn": QUEUE}})
        stub.add_response("send_message_batch", SENT)
        stub.add_response("send_message_batch", SENT)
        assert sink.verify() == Verified(Presence.OK)
        for _ in range(2):
            assert sink.publish([prepared(sink, event()).entry]) == Answered((None,))
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("QueueDoesNotExist", 400, Kind.TARGET),
        ("AccessDenied", 403, Kind.TARGET),
        ("RequestThrottled", 403, Kind.TRANSIENT),
        ("InternalError", 500, Kind.TRANSIENT),
        ("ValidationException", 400, Kind.TARGET),
    ],
)
def test_a_url_that_is_not_told_blames_no_event(code: str, status: int, kind: Kind) -> None:
    """Nothing was sent; the next request asks again."""
    service = client("sqs")
    sink = Sqs(QUEUE, client=service)
    entry = prepared(sink, event()).entry
    with Stubber(service) as stub:
        stub.add_client_error("get_queue_url", code, "said", status)
        outcome = sink.publish([entry])
        assert isinstance(outcome, RequestFailed)
        assert (outcome.fault.kind, outcome.fault.code) == (kind, code)
        stub.add_response("get_queue_url", {"QueueUrl": URL}, ASKED)
        stub.add_response("send_message_batch", SENT)
        assert sink.publish([entry]) == Answered((None,))


def test_without_a_region_everything_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set-up is at fault and no event; and whether the queue is there cannot be told."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    sink = Sqs("http://127.0.0.1:1/1/orders")
    outcome = sink.publish([prepared(sink, event()).entry])
    assert isinstance(outcome, RequestFailed)
    assert outcome.fault.kind is Kind.TARGET
    found = sink.verify()
    assert found.presence is Presence.UNSURE
    assert found.passing
    assert "AWS_REGION" in found.reason


def test_our_own_client_may_be_used_by_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once; nobody listens there, and each is told so."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for sink in (Sns(TOPIC), Sqs(QUEUE)):
        entry, outcomes = prepared(sink, event()).entry, list[Any]()
        threads = [threading.Thread(target=lambda: outcomes.append(sink.publish([entry]))) for _ in range(4)]  # noqa: B023 -- joined below
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [outcome.fault.kind for outcome in outcomes] == [Kind.TRANSIENT] * 4


# --- on the engines ---------------------------------------------------------------------------------------------------

NAMES = pytest.mark.parametrize("ending", ["", ".fifo"])


def make_queue(engine: Account, name: str) -> tuple[str, str]:
    """Make a queue and return its URL and ARN."""
    sqs = engine.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if name.endswith(".fifo") else {})[
        "QueueUrl"
    ]
    return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def received(engine: Account, url: str, count: int) -> list[Any]:
    """Receive and delete `count` messages."""
    sqs, found = engine.client("sqs"), list[Any]()
    for _ in range(20):
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        )
        for message in answer.get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.append(message)
        if len(found) >= count:
            break
    return found


def ten() -> list[Any]:
    """Return ten events of one key, with text that needs care."""
    return [
        event(
            f'{{"n":{number},"t":"\u00e9\uffff\x7f"}}',
            id=f"{UUID[:-2]}{number:02}",
            key="key of two words",
            subject="s",
        )
        for number in range(10)
    ]


def check_messages(messages: list[Any], events: list[Any], *, fifo: bool) -> None:
    """Compare what arrived with what was published."""
    assert sorted(message["Body"] for message in messages) == sorted(
        body_of(prepared(Sqs(URL), one).entry) for one in events
    )
    for message in messages:
        document = json.loads(message["Body"])
        attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
        assert attributes == {"id": document["id"], "type": "order.placed", "source": "shop", "subject": "s"}
    if fifo:
        assert [json.loads(message["Body"])["id"] for message in messages] == [one.id for one in events]
        assert {message["Attributes"]["MessageDeduplicationId"] for message in messages} == {one.id for one in events}
        assert len({message["Attributes"]["MessageGroupId"] for message in messages}) == 1


@BOTH_ENGINES
@NAMES
def test_a_queue_takes_what_the_sink_sends(engine: Account, ending: str) -> None:
    """By URL and by ARN; a FIFO queue takes each event once."""
    url, arn = make_queue(engine, f"orders{ending}")
    events = ten()
    for destination in (url, arn):
        sink = Sqs(destination, client=engine.client("sqs"))
        assert sink.verify() == Verified(Presence.OK)
        assert sink.publish([prepared(sink, one).entry for one in events]) == Answered((None,) * 10)
    messages = received(engine, url, 10 if ending else 20)
    check_messages(messages, events if ending else events * 2, fifo=bool(ending))


@BOTH_ENGINES
@NAMES
@pytest.mark.parametrize("raw", [True, False])
def test_a_topic_hands_on_what_the_sink_sends(engine: Account, ending: str, raw: bool) -> None:
    """To a queue, with raw delivery and without; a FIFO topic in order, and each event once."""
    sns = engine.client("sns")
    url, arn = make_queue(engine, f"billing{ending}")
    topic = sns.create_topic(Name=f"orders{ending}", Attributes={"FifoTopic": "true"} if ending else {})["TopicArn"]
    sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true" if raw else "false"}
    )
    sink, events = Sns(topic, client=sns), ten()
    assert sink.verify() == Verified(Presence.OK)
    for _ in range(2 if ending else 1):
        assert sink.publish([prepared(sink, one).entry for one in events]) == Answered((None,) * 10)
    messages = received(engine, url, 10)
    if raw:
        check_messages(messages, events, fifo=bool(ending))
        return
    bodies = [json.loads(message["Body"]) for message in messages]
    assert sorted(json.loads(body["Message"])["id"] for body in bodies) == [one.id for one in events]
    assert {json.loads(body["Message"])["data"]["t"] for body in bodies} == {"\u00e9\uffff\x7f"}
    assert {body["MessageAttributes"]["type"]["Value"] for body in bodies} == {"order.placed"}


@BOTH_ENGINES
def test_a_subscription_can_filter_by_the_attributes(engine: Account) -> None:
    """Ours, and a user's own."""
    sns = engine.client("sns")
    topic = sns.create_topic(Name="orders")["TopicArn"]
    url, arn = make_queue(engine, "billing")
    policy = json.dumps({"type": ["order.placed"], "tenant": ["t1"]})
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": policy}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
    sink = Sns(topic, client=sns, attributes=lambda one: {"tenant": one.data["tenant"]})
    events = [
        event(json.dumps({"tenant": tenant}), id=f"{tenant} {type_}", type=type_)
        for tenant in ("t1", "t2")
        for type_ in ("order.placed", "order.paid")
    ]
    assert sink.publish([prepared(sink, one).entry for one in events]) == Answered((None,) * 4)
    assert [message["Body"] for message in received(engine, url, 1)] == [cloudevent(events[0])]


@BOTH_ENGINES
def test_what_is_not_there(engine: Account) -> None:
    """The engines say so, and so do the sinks; nothing is published to it."""
    sns, sqs, events = (engine.client(service) for service in ("sns", "sqs", "events"))
    url, arn = make_queue(engine, "orders")
    topic = sns.create_topic(Name="orders")["TopicArn"]
    for sink in (
        Sns(f"{topic}x", client=sns),
        Sqs(f"{url}x", client=sqs),
        Sqs(f"{arn}x", client=sqs),
        EventBridge("orders", client=events),
    ):
        assert sink.verify().presence is Presence.MISSING
        if not isinstance(sink, EventBridge):  # which says nothing when it is sent events
            outcome = sink.publish([prepared(sink, event()).entry])
            assert isinstance(outcome, RequestFailed)
            assert outcome.fault.kind is Kind.TARGET
    assert EventBridge("default", client=events).verify() == Verified(Presence.OK)


def test_an_unlisted_code_of_an_entry_is_no_reason_to_park() -> None:
    """It is tried again."""
    events = client("events")
    sink = EventBridge("orders", client=events)
    with Stubber(events) as stub:
        stub.add_response(
            "put_events", {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ResourceNotFoundException"}]}
        )
        stub.add_response("put_events", {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "New"}]})
        entry = prepared(sink, event()).entry
        assert sink.publish([entry]) == Answered((Fault(Kind.TARGET, "ResourceNotFoundException"),))
        assert sink.publish([entry]) == Answered((Fault(Kind.TRANSIENT, "New"),))
