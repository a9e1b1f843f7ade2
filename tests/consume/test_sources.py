"""Every way of events to a function, and what the function answers when something is wrong with one of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import FAILING, QUEUE, WAYS, Way, message_id, order, sqs_record
from remembering import Remembering

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.consuming.foreign import ForeignEvents
from dynamodb_outbox.core.consuming.sources import BY_MAPPING, BY_PIPE
from dynamodb_outbox.errors import ConfigurationError, InvalidMessage, OutboxError

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

DONE: dict[str, Any] = {"batchItemFailures": []}
FOREIGN = {"version": "0", "object": {"key": "a.csv", "etag": "d41d8cd9"}}


class Failure(Exception):
    """What a function raises."""


def consumer(**options: Any) -> Remembering:
    """Return a consumer whose function raises for some events."""
    made = Remembering(**options)

    @made.consumer
    def apply(event: Event) -> None:
        if event.type == FAILING:
            raise Failure(event.id)

    return made


def failed(way: Way, batch: Any, at: int) -> dict[str, Any]:
    """Return the answer when the record at this place is the only one that cannot be applied."""
    records = batch["Records"] if isinstance(batch, dict) else batch
    named = records[at:] if way.onwards == "rest" else records[at : at + 1]
    assert way.names is not None
    return {"batchItemFailures": [{"itemIdentifier": way.names(each)} for each in named[: 1 if way.lowest else None]]}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("case", ["ok", "one failing", "all failing", "malformed", "foreign", "empty"])
def test_every_source_in_every_case(name: str, case: str) -> None:
    """What can be applied is, once, in order; what cannot goes back, in the source's own words.

    Where a source has no partial answers the error is raised. In a stream nothing after a failure is applied. An item
    of a table that is no outbox record is passed over; any other foreign event is refused.
    """
    way = WAYS[name]
    before, after = order(1), order(3)
    odd: Any = {
        "ok": order(2),
        "one failing": order(2, FAILING),
        "all failing": order(2, FAILING),
        "malformed": "{not json",
        "foreign": FOREIGN,
        "empty": None,
    }[case]
    if case == "all failing":
        before, after = order(1, FAILING), order(3, FAILING)
    inside = [] if case == "empty" else [odd] if name == "EventBridge" else [before, odd, after]
    batch = way.of(*inside)
    untouched = copy.deepcopy(batch)
    fine = case in ("ok", "empty") or (case == "foreign" and way.table)
    taker = consumer()
    if fine:
        assert taker.lambda_handler(batch) == DONE
        assert taker.lambda_handler(batch) == DONE  # delivered again
    elif way.names is None:
        with pytest.raises((Failure, OutboxError)):
            taker.lambda_handler(batch)
    elif case == "all failing" and way.onwards == "each":
        answer = taker.lambda_handler(batch)
        records = batch["Records"] if isinstance(batch, dict) else batch
        assert answer == {"batchItemFailures": [{"itemIdentifier": way.names(each)} for each in records]}
    else:
        assert taker.lambda_handler(batch) == failed(way, batch, 0 if case == "all failing" else 1)
    goes_on = fine or way.onwards == "each"
    expected = [event for event in inside[: None if goes_on else 1] if not isinstance(event, (dict, str))]
    assert taker.applied == [event for event in expected if event.type != FAILING]
    assert batch == untouched


@pytest.mark.parametrize("name", [name for name in WAYS if not WAYS[name].table])
def test_foreign_events_are_applied_by_the_rule_for_their_ids(name: str) -> None:
    """Beside this project's own, and once: their id is what the rule finds, not what the transport made up."""
    way = WAYS[name]
    rule = ForeignEvents(
        id="detail.object.etag || object.etag", type="\"detail-type\" || 'created'", source="source || 'files'"
    )
    taker = consumer(foreign=rule)
    inside = [FOREIGN] if name == "EventBridge" else [order(1), FOREIGN, order(3)]
    for _ in range(2):
        assert taker.lambda_handler(way.of(*inside)) == DONE
    foreign = taker.applied[0 if name == "EventBridge" else 1]
    assert (foreign.id, foreign.data) == ("d41d8cd9", FOREIGN)
    assert (foreign.type, foreign.source) in (("Object Created", "aws.s3"), ("created", "files"))
    assert taker.ids == ["d41d8cd9"] if name == "EventBridge" else [order(1).id, "d41d8cd9", order(3).id]


def test_the_rest_of_a_fifo_group_goes_back_and_other_groups_go_on() -> None:
    """Mixed groups; and the next invocation knows nothing of it. A standard queue has groups too, and no order."""
    inside = [order(1), order(2, FAILING), order(3), order(4), order(5), order(6, FAILING), order(7)]
    groups = "aabaacb"

    def batch(arn: str) -> dict[str, Any]:
        events = zip(inside, groups, strict=True)
        return {"Records": [sqs_record(cloudevent(e), at, arn=arn, group=g) for at, (e, g) in enumerate(events)]}

    def names(*places: int) -> dict[str, Any]:
        records = batch(QUEUE)["Records"]
        return {"batchItemFailures": [{"itemIdentifier": message_id(records[at])} for at in places]}

    taker = consumer()
    assert taker.lambda_handler(batch(f"{QUEUE}.fifo")) == names(1, 3, 4, 5)
    assert taker.ids == [inside[at].id for at in (0, 2, 6)]
    assert taker.lambda_handler({"Records": batch(f"{QUEUE}.fifo")["Records"][3:5]}) == DONE
    standard = consumer()
    assert standard.lambda_handler(batch(QUEUE)) == names(1, 5)
    assert standard.ids == [inside[at].id for at in (0, 2, 3, 4, 6)]


@pytest.mark.parametrize("name", ["Kinesis", "DynamoDB stream"])
def test_a_stream_is_taken_in_the_order_of_its_numbers(name: str) -> None:
    """As numbers, not as text, whatever the order in the batch; the lowest that failed is named."""
    way = WAYS[name]
    batch = way.of(order(1), order(2), order(3, FAILING))
    short, middle, long = batch["Records"]
    for record, number in ((short, "9"), (middle, "10"), (long, "100")):
        place = record["kinesis"] if "kinesis" in record else record["dynamodb"]
        place["sequenceNumber" if "kinesis" in record else "SequenceNumber"] = number
    taker = consumer()
    assert taker.lambda_handler({"Records": [long, short, middle]}) == {
        "batchItemFailures": [{"itemIdentifier": "100"}]
    }
    assert taker.ids == [order(1).id, order(2).id]


@pytest.mark.parametrize(
    "event",
    [
        {"Records": [{"eventSource": "aws:s3", "s3": {}}]},
        {"Records": [{"eventSource": "aws:sqs"}]},
        {"Records": [{"eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": "shard-1", "data": ""}}]},
        {"Records": [{"eventSource": "aws:dynamodb", "dynamodb": {}}]},
        {"Records": [sqs_record("{}", 1), {"eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": "1"}}]},
        {"Records": [5]},
        {"Records": None},
        {"Records": None, "detail-type": "x"},
        {"key1": "value1"},
        {},
        [sqs_record("{}", 1), {"detail-type": "x"}],
        [{"eventSource": "aws:sqs", "messageId": ""}],
        [{"eventSource": "aws:mq"}],
        [5],
        "text",
        None,
    ],
)
def test_what_is_nobodys_batch_is_refused_instead_of_answered(event: Any) -> None:
    """An empty list of failures would tell whoever it was that all is done, and its events would be lost."""
    with pytest.raises(ConfigurationError, match="SQS, SNS, Kinesis"):
        consumer().lambda_handler(event)


def test_the_error_of_a_source_without_partial_answers_is_the_functions_own() -> None:
    """Which lets Lambda's on-failure destination say what it was; all are tried, and the first error is raised."""
    taker = consumer()
    with pytest.raises(Failure, match=order(1).id):
        taker.lambda_handler(WAYS["SNS"].of(order(1, FAILING), order(2), order(3, FAILING)))
    assert taker.ids == [order(2).id]
    with pytest.raises(InvalidMessage):
        taker.lambda_handler(WAYS["pipe with a template"].of("{not json"))


def test_the_tables_have_a_row_for_each_source_and_no_other() -> None:
    """Each row is told by the name that the source gives itself."""
    assert set(BY_PIPE) == {"aws:sqs", "aws:kinesis", "aws:dynamodb"}
    assert set(BY_MAPPING) == {*BY_PIPE, "aws:sns"}
