"""PublishBatch and SendMessageBatch through the fault bus, with real boto3 clients and a tiny endpoint behind it."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from faultbus_endpoint import Reply, Seen, anything, bus_before, client, endpoint, event

from dynamodb_outbox.testing.faultbus import (
    Duplicate,
    FaultBus,
    FaultPlan,
    Hold,
    Missing,
    Outage,
    Rejection,
    RequestError,
    Reset,
    Unacceptable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "arn:aws:sns:us-east-1:000000000001:orders.fifo"
QUEUE = "http://127.0.0.1:4566/000000000001/orders.fifo"
OTHER = {TOPIC: TOPIC.replace("orders", "stock"), QUEUE: QUEUE.replace("orders", "stock")}


@dataclass(frozen=True)
class Service:
    """One of the two services, spoken to in the same words."""

    name: str
    operation: str
    destination: str
    body: str
    missing: str
    throttled: tuple[int, str]

    def publish(self, client: Any, entries: list[dict[str, Any]], destination: str | None = None) -> Any:
        """Publish a batch; `destination` None is the service's own."""
        named = [{self.body if name == "body" else name: value for name, value in one.items()} for one in entries]
        if self.name == "sns":
            return client.publish_batch(TopicArn=destination or self.destination, PublishBatchRequestEntries=named)
        return client.send_message_batch(QueueUrl=destination or self.destination, Entries=named)


SNS = Service("sns", "PublishBatch", TOPIC, "Message", "NotFound", (400, "Throttling"))
SQS = Service(
    "sqs",
    "SendMessageBatch",
    QUEUE,
    "MessageBody",
    "AWS.SimpleQueueService.NonExistentQueue",
    (403, "RequestThrottled"),
)
both = pytest.mark.parametrize("service", [SNS, SQS], ids=["sns", "sqs"])


def message(name: str, **data: Any) -> dict[str, Any]:
    """Return an entry of which `name` is the Id and the CloudEvent's id; its key is `k-` and the first character."""
    cloudevent = {"specversion": "1.0", "id": name, "partitionkey": f"k-{name[0]}", "source": "shop", "type": "placed"}
    return {
        "Id": name,
        "body": json.dumps({**cloudevent, "data": data}),
        "MessageGroupId": f"g-{name[0]}",
        "MessageDeduplicationId": f"d-{name}",
        "MessageAttributes": {
            "type": {"DataType": "String", "StringValue": "plac\u00e9d & more"},
            "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    }


def ids(results: list[dict[str, Any]]) -> list[str]:
    """Return the Ids of a list of results."""
    return [one["Id"] for one in results]


@contextlib.contextmanager
def bus_for(service: Service, plan: FaultPlan | None = None) -> Iterator[tuple[FaultBus, Any, list[Seen]]]:
    """Run an endpoint, a bus in front of it and a client; yield bus, client and what the endpoint saw."""
    with bus_before(plan) as (bus, behind), client(service.name, bus.url) as made:
        yield bus, made, behind.seen


@both
def test_empty_plan_is_a_faithful_service(service: Service) -> None:
    """The request reaches the upstream as it is, its answer comes back, and all that was told is on record."""
    entries = [message("a1", text="\u00e9"), {"Id": "b", "body": "plain"}]
    with bus_for(service) as (bus, made, seen), endpoint() as direct, client(service.name, direct.url) as other:
        answer = service.publish(made, entries)
        service.publish(other, entries)
    assert ids(answer["Successful"]) == ["a1", "b"]
    assert answer["ResponseMetadata"]["RequestId"] == "r-1"
    assert seen[0].body == direct.seen[0].body
    assert bus.faults == ()
    first, second = bus.accepted
    assert (first.n, first.request, first.copy, first.destination) == (1, 1, 0, service.destination)
    assert (first.id, first.key, first.group, first.deduplication_id) == ("a1", "k-a", "g-a", "d-a1")
    assert (first.source, first.detail_type, first.detail) == ("shop", "placed", entries[0]["body"])
    assert (second.id, second.key, second.group, second.source, second.detail) == (None, None, None, None, "plain")


@both
def test_rejected_entries_are_told_by_id_and_only_the_rest_goes_upstream(service: Service) -> None:
    """A mixed batch is answered entry by entry, from the plan and from the upstream; what goes on keeps every field."""
    plan = FaultPlan(unacceptable=(Unacceptable('"no":', "InvalidMessageContents"),))
    entries = [message("a"), message("b", no=1), message("c", why="upstream-says-no"), message("d", no=1), message("e")]
    with bus_for(service, plan) as (bus, made, seen), endpoint() as direct, client(service.name, direct.url) as other:
        answer = service.publish(made, entries)
        service.publish(other, [entries[index] for index in (0, 2, 4)])
    assert ids(answer["Successful"]) == ["a", "e"]
    assert [one["MessageId"] for one in answer["Successful"]] == ["m-a", "m-e"]
    failed = {one["Id"]: (one["Code"], one["SenderFault"], one["Message"]) for one in answer["Failed"]}
    assert failed == {
        "b": ("InvalidMessageContents", True, "refused by the fault plan"),
        "c": ("InternalError", False, "no & <no>"),
        "d": ("InvalidMessageContents", True, "refused by the fault plan"),
    }
    assert same_content(seen[0], direct.seen[0])
    assert [accepted.id for accepted in bus.accepted] == ["a", "e"]
    assert [(fault.kind, fault.operation, fault.what["id"]) for fault in bus.faults] == [
        ("entry_unacceptable", service.operation, "b"),
        ("entry_refused_upstream", service.operation, "c"),
        ("entry_unacceptable", service.operation, "d"),
    ]


def same_content(one: Seen, other: Seen) -> bool:
    """Whether two requests say the same: the same document, or the same fields in any order."""
    if one.body.startswith(b"{"):
        return bool(json.loads(one.body) == json.loads(other.body))
    return sorted(one.body.split(b"&")) == sorted(other.body.split(b"&"))


@both
@pytest.mark.parametrize("fault", [False, True])
def test_throttled_batch_is_told_as_the_plan_says(service: Service, fault: bool) -> None:
    """When the plan rejects every entry the upstream sees nothing; whose fault it is, the plan says."""
    plan = FaultPlan(rejections=(Rejection(1.0, ("ThrottlingException",), max_consecutive=1, sender_fault=fault),))
    with bus_for(service, plan) as (bus, made, seen):
        answer = service.publish(made, [message("a"), message("b")])
        assert seen == []
        assert answer.get("Successful", []) == []
        assert [(one["Code"], one["SenderFault"]) for one in answer["Failed"]] == [("ThrottlingException", fault)] * 2
        assert ids(service.publish(made, [message("a"), message("b")])["Successful"]) == ["a", "b"]
    assert [fault.kind for fault in bus.faults] == ["entry_rejected"] * 2


@both
def test_retrying_what_failed_gets_everything_accepted_once(service: Service) -> None:
    """A publisher that reads the results and sends the failed entries again loses nothing, on four threads."""
    plan = FaultPlan(seed=5, rejections=(Rejection(0.3, max_consecutive=3),))

    def publish(made: Any, entries: list[dict[str, Any]]) -> None:
        while entries:
            failed = ids(service.publish(made, entries).get("Failed", []))
            entries = [entry for entry in entries if entry["Id"] in failed]

    batches = [[message(f"{n}-{k}") for k in range(10)] for n in range(20)]
    with bus_for(service, plan) as (bus, made, _), ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: publish(made, batch), batches))
    assert sorted(accepted.id or "" for accepted in bus.accepted) == sorted(
        f"{n}-{k}" for n in range(20) for k in range(10)
    )
    assert {fault.kind for fault in bus.faults} == {"entry_rejected"}


@both
def test_whole_request_error_is_what_the_plan_says(service: Service) -> None:
    """A request error reaches boto3 with that status and code, nothing is accepted, and the next one gets through."""
    status, code = service.throttled
    plan = FaultPlan(errors=(RequestError(1.0, status, code, max_consecutive=1),))
    with bus_for(service, plan) as (bus, made, seen):
        with pytest.raises(ClientError) as caught:
            service.publish(made, [message("a")])
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["Error"]["Type"] == "Sender"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        assert seen == []
        service.publish(made, [message("a")])
    assert [(fault.kind, fault.operation) for fault in bus.faults] == [("request_error", service.operation)]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("KmsThrottled", "KMS.ThrottlingException"),
        ("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"),
        ("AccessDeniedException", "AccessDeniedException"),
    ],
)
def test_errors_of_sqs_have_the_codes_that_sdks_know(code: str, shown: str) -> None:
    """The plan names a code as the model does; boto3 shows the older one that the service sends along."""
    with bus_for(SQS, FaultPlan(errors=(RequestError(1.0, 400, code),))) as (_, made, _):
        with pytest.raises(ClientError) as caught:
            SQS.publish(made, [message("a")])
        assert caught.value.response["Error"]["Code"] == shown
        assert caught.value.response["Error"]["QueryErrorCode"] == code
        if hasattr(made.exceptions, code):
            assert isinstance(caught.value, getattr(made.exceptions, code))


@both
@pytest.mark.parametrize(("when", "taken"), [("before", 0), ("after", 1)])
def test_reset_loses_the_request_or_only_its_answer(service: Service, when: Any, taken: int) -> None:
    """The client cannot tell the two resets apart; the upstream and the evidence can."""
    with bus_for(service, FaultPlan(resets=(Reset(1.0, when, max_consecutive=1),))) as (bus, made, seen):
        with pytest.raises(ConnectionClosedError):
            service.publish(made, [message("a")])
        assert len(seen) == len(bus.accepted) == taken
        service.publish(made, [message("a")])
    assert [accepted.id for accepted in bus.accepted] == ["a"] * (taken + 1)
    assert [fault.kind for fault in bus.faults] == [f"reset_{when}"]


@both
def test_duplicates_reach_the_upstream_twice(service: Service) -> None:
    """A doubled entry is handed over again in a request of its own, and both acceptances are on record."""
    plan = FaultPlan(duplicates=(Duplicate(1.0, contains="twice"),))
    with bus_for(service, plan) as (bus, made, seen), endpoint() as direct, client(service.name, direct.url) as other:
        service.publish(made, [message("a"), message("b", how="twice")])
        service.publish(other, [message("b", how="twice")])
    assert [(accepted.id, accepted.copy) for accepted in bus.accepted] == [("a", 0), ("b", 0), ("b", 1)]
    assert len(seen) == 2
    assert same_content(seen[1], direct.seen[0])


@both
def test_held_request_is_accepted_and_answered_when_released(service: Service) -> None:
    """A held request is on record as accepted while its client waits."""
    with bus_for(service, FaultPlan(holds=(Hold(),))) as (bus, made, _), ThreadPoolExecutor(1) as pool:
        call = pool.submit(service.publish, made, [message("a"), message("b")])
        held = bus.wait_held()
        assert (held.operation, held.ids) == (service.operation, ("a", "b"))
        assert [accepted.id for accepted in bus.accepted] == ["a", "b"]
        bus.release()
        assert ids(call.result(timeout=5)["Successful"]) == ["a", "b"]


@both
def test_outage_of_one_destination_leaves_the_others_alone(service: Service) -> None:
    """Planned or by hand, an outage meets the requests to its destination."""
    plan = FaultPlan(outages=(Outage(0, 60_000, destination="orders.fifo"),))
    with bus_for(service, plan) as (bus, made, seen):
        with pytest.raises(ClientError) as caught:
            service.publish(made, [message("a")])
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert seen == []
        other = OTHER[service.destination]
        service.publish(made, [message("b")], other)
        bus.begin_outage("reset", destination=other)
        with pytest.raises(ConnectionClosedError):
            service.publish(made, [message("c")], other)
        bus.end_outage()
        service.publish(made, [message("c")], other)
        assert bus.state().outage == "503"
    assert [(accepted.id, accepted.destination) for accepted in bus.accepted] == [("b", other), ("c", other)]


def test_hanging_destination_lets_go_when_its_own_outage_ends() -> None:
    """A client that hangs at one destination is dropped at the end of its outage, though another goes on hanging."""
    plan = FaultPlan(outages=(Outage(0, 150, "hang", destination="orders.fifo"),))
    with bus_before(plan) as (bus, _), client("sqs", bus.url, timeout_s=3.0) as sqs:
        bus.begin_outage("hang", destination="stock.fifo")
        with pytest.raises(ConnectionClosedError):
            SQS.publish(sqs, [message("a")])


@both
def test_missing_destination_refuses_the_whole_request(service: Service) -> None:
    """Publishing to it and asking for it are answered as the service does; other destinations are there."""
    with bus_for(service, FaultPlan(missing=(Missing("orders.fifo"),))) as (bus, made, seen):
        asking: list[tuple[str, dict[str, str]]] = [("get_topic_attributes", {"TopicArn": TOPIC})]
        if service is SQS:
            asking = [("get_queue_attributes", {"QueueUrl": QUEUE}), ("get_queue_url", {"QueueName": "orders.fifo"})]
        with pytest.raises(ClientError) as caught:
            service.publish(made, [message("a")])
        assert caught.value.response["Error"]["Code"] == service.missing
        for call, options in asking:
            with pytest.raises(ClientError) as caught:
                getattr(made, call)(**options)
            assert caught.value.response["Error"]["Code"] == service.missing
        assert seen == []
        service.publish(made, [message("b")], OTHER[service.destination])
        if service is SQS:
            made.get_queue_url(QueueName="stock.fifo")
    assert {fault.kind for fault in bus.faults} == {"destination_missing"}
    assert [fault.what["destination"] for fault in bus.faults][:2] == [service.destination] * 2
    assert [accepted.id for accepted in bus.accepted] == ["b"]


def test_missing_event_bus_swallows_what_it_is_sent() -> None:
    """PutEvents answers as if nothing were wrong, the entry is gone, and only DescribeEventBus tells."""
    entries = [event("1"), {**event("2"), "EventBusName": "stock"}]
    with bus_before(FaultPlan(missing=(Missing("orders"),))) as (bus, behind), client("events", bus.url) as events:
        answer = events.put_events(Entries=entries)
        with pytest.raises(events.exceptions.ResourceNotFoundException):
            events.describe_event_bus(Name="orders")
        events.describe_event_bus(Name="stock")
        events.describe_event_bus()
        alone = events.put_events(Entries=entries[:1])
    assert answer["FailedEntryCount"] == alone["FailedEntryCount"] == 0
    assert all(entry["EventId"] for entry in answer["Entries"] + alone["Entries"])
    assert behind.seen[0].details == [entries[1]["Detail"]]
    assert len(behind.seen) == 3
    assert [accepted.id for accepted in bus.accepted] == ["2"]
    assert [(fault.kind, fault.what["destination"]) for fault in bus.faults] == [("destination_missing", "orders")] * 3
    assert [fault.what.get("id") for fault in bus.faults] == ["1", None, "1"]


@both
@pytest.mark.parametrize(
    "answer",
    [
        ([], []),
        (["a"], []),
        (["a", "b", "c"], []),
        (["a", "a", "b"], []),
        (["a", "b"], ["b"]),
        (["a", ""], []),
        None,
    ],
)
def test_upstream_answer_that_speaks_of_other_entries_accepts_nothing(service: Service, answer: Any) -> None:
    """A 200 without exactly one result for each Id is a failure of the upstream, not an acceptance."""

    def respond(seen: Seen) -> Reply:
        if answer is None:
            return 200, {}, b"<nothing"
        successful = [{"Id": name, "MessageId": "m", "MD5OfMessageBody": "0"} for name in answer[0]]
        failed = [{"Id": name, "Code": "InternalError", "SenderFault": "false"} for name in answer[1]]
        if "x-amz-target" in seen.headers:
            return 200, {}, json.dumps({"Successful": successful, "Failed": failed}).encode()
        lists = "".join(f"<Successful><member>{xml(one)}</member></Successful>" for one in successful)
        lists += "".join(f"<Failed><member>{xml(one)}</member></Failed>" for one in failed)
        return 200, {}, f"<R><PublishBatchResult>{lists}</PublishBatchResult></R>".encode()

    with endpoint(respond) as behind, FaultBus(behind.url) as bus, client(service.name, bus.url) as made:
        with pytest.raises(ClientError, match="UpstreamFailed"):
            service.publish(made, [message("a"), message("b")])
        assert bus.accepted == ()
        assert [fault.kind for fault in bus.faults] == ["upstream_failed"]


def xml(fields: dict[str, str]) -> str:
    """Return fields as XML elements."""
    return "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())


@both
def test_result_without_a_message_id_or_a_code_is_not_an_acceptance(service: Service) -> None:
    """What the upstream neither accepted nor explained counts as refused."""

    def respond(seen: Seen) -> Reply:
        if "x-amz-target" in seen.headers:
            return 200, {}, b'{"Successful": [{"Id": "a"}], "Failed": [{"Id": "b"}]}'
        lists = "<Successful><member><Id>a</Id></member></Successful><Failed><member><Id>b</Id></member></Failed>"
        return 200, {}, f"<R><PublishBatchResult>{lists}</PublishBatchResult></R>".encode()

    with endpoint(respond) as behind, FaultBus(behind.url) as bus, client(service.name, bus.url) as made:
        service.publish(made, [message("a"), message("b")])
        assert bus.accepted == ()
        assert [(fault.kind, fault.what["code"]) for fault in bus.faults] == [
            ("entry_refused_upstream", "NoResult")
        ] * 2


@both
def test_upstream_error_comes_back_as_it_is(service: Service) -> None:
    """A request that the upstream refuses whole is nobody's acceptance, and its error reaches the client."""
    odd = {"sns": b"<E><Error><Code>Odd</Code></Error></E>", "sqs": b'{"__type": "Odd"}'}
    with (
        endpoint(lambda _: (400, {}, odd[service.name])) as behind,
        FaultBus(behind.url) as bus,
        client(service.name, bus.url) as made,
    ):
        with pytest.raises(ClientError, match="Odd"):
            service.publish(made, [message("a")])
        assert bus.accepted == ()
        assert [(fault.kind, fault.what["status"]) for fault in bus.faults] == [("upstream_error", 400)]


@both
def test_batch_whose_ids_are_not_distinct_is_left_to_the_upstream(service: Service) -> None:
    """A request whose entries cannot be told apart is passed through: the upstream knows what to say."""
    plan = FaultPlan(rejections=(Rejection(1.0),))
    with bus_for(service, plan) as (bus, made, seen):
        service.publish(made, [message("a"), message("a")])
        service.publish(made, [])
    assert len(seen) == 2
    assert bus.state().requests == 0


def test_other_calls_of_the_services_pass() -> None:
    """Single messages, receiving, and forms of other services are none of the plan's business."""
    plan = FaultPlan(errors=(RequestError(1.0),), missing=(Missing("orders.fifo"),))

    def respond(seen: Seen) -> Reply:
        return (200, {}, b"{}") if "x-amz-target" in seen.headers else (200, {}, b"<R><ListTopicsResult/></R>")

    with (
        endpoint(respond) as behind,
        FaultBus(behind.url, plan) as bus,
        client("sqs", bus.url) as sqs,
        client("sns", bus.url) as sns,
    ):
        sqs.receive_message(QueueUrl=QUEUE, WaitTimeSeconds=0)
        sqs.send_message(QueueUrl=QUEUE, MessageBody="x", MessageGroupId="g")
        sns.list_topics()
    assert len(behind.seen) == 3
    assert bus.faults == ()


def test_long_poll_passes_while_others_publish() -> None:
    """A receiver that waits at the upstream holds nobody up, and is answered when its message is there."""

    def respond(seen: Seen) -> Reply:
        if seen.headers.get("x-amz-target") == "AmazonSQS.ReceiveMessage":
            assert published.result(timeout=5)["Successful"]
            return 200, {}, b'{"Messages": [{"Body": "late"}]}'
        return anything(seen)

    with (
        endpoint(respond) as behind,
        FaultBus(behind.url) as bus,
        client("sqs", bus.url) as sqs,
        ThreadPoolExecutor(2) as pool,
    ):
        published = pool.submit(SQS.publish, sqs, [message("a")])
        polled = pool.submit(sqs.receive_message, QueueUrl=QUEUE, WaitTimeSeconds=20)
        assert polled.result(timeout=5)["Messages"][0]["Body"] == "late"
    assert bus.faults == ()
