"""Reading a DynamoDB stream: positions, ends, gaps, and the form in which Lambda hands records on."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ConnectTimeoutError
from botocore.parsers import ResponseParserError

from dynamodb_outbox.adapters.streams import (
    DynamoDbStream,
    Gap,
    Page,
    Shard,
    lambda_form,
    stream_arn,
)
from dynamodb_outbox.errors import InvalidRecord, StreamMissing, StreamRefused, StreamUnavailable
from dynamodb_outbox.local.provision import create_table
from fake_streams import ARN, WHEN, FakeStreams, page, raw, refusal

if TYPE_CHECKING:
    from conftest import Account


def numbers(read: Page) -> list[str]:
    """Return the sequence numbers of a page."""
    return [record["dynamodb"]["SequenceNumber"] for record in read.records]


def test_reading_starts_at_the_beginning_or_after_the_checkpoint() -> None:
    """Without a position everything that is left is read; with one, what comes after it."""
    fresh = FakeStreams(page(1))
    DynamoDbStream(fresh, ARN).open("s").read()
    later = FakeStreams(page(8))
    DynamoDbStream(later, ARN).open("s", after="7").read()
    assert (fresh.sought, later.sought) == (["TRIM_HORIZON"], ["7"])


def test_reading_may_start_at_a_number_or_at_the_end() -> None:
    """The first kind of position that is given counts; once a record was read, its number does."""
    client = FakeStreams(page(8), refusal("ExpiredIteratorException"), page(9))
    reader = DynamoDbStream(client, ARN).open("s", at="8", latest=True)
    assert [numbers(reader.read()) for _ in range(2)] == [["8"], ["9"]]
    assert list(zip(client.sought_how, client.sought, strict=True)) == [
        ("AT_SEQUENCE_NUMBER", "8"),
        ("AFTER_SEQUENCE_NUMBER", "8"),
    ]
    ended = FakeStreams(page(), page(3), refusal("ExpiredIteratorException"), page())
    reader = DynamoDbStream(ended, ARN).open("s", latest=True)
    assert [reader.read().gap for _ in range(3)] == [None] * 3
    assert ended.sought_how == ["LATEST", "AFTER_SEQUENCE_NUMBER"]


def test_a_number_to_start_at_that_was_trimmed_is_a_gap() -> None:
    """Reading goes on at the oldest record, and not at the end, whatever was asked for."""
    client = FakeStreams((refusal("TrimmedDataAccessException"),), page(50))
    read = DynamoDbStream(client, ARN).open("s", at="8", latest=True).read()
    assert (numbers(read), read.gap, client.sought_how[-1]) == (["50"], Gap(None), "TRIM_HORIZON")


def test_an_iterator_is_kept_from_page_to_page() -> None:
    """One seek serves as long as the iterators do."""
    client = FakeStreams(page(1), page(), page(2))
    reader = DynamoDbStream(client, ARN).open("s")
    assert [numbers(reader.read()) for _ in range(3)] == [["1"], [], ["2"]]
    assert len(client.sought) == 1


def test_an_expired_iterator_is_made_again_after_the_last_number_read() -> None:
    """Nothing is skipped and nothing read twice: also after an empty page."""
    client = FakeStreams(page(1, 2), page(), refusal("ExpiredIteratorException"), page(3))
    reader = DynamoDbStream(client, ARN).open("s")
    assert [numbers(reader.read()) for _ in range(3)] == [["1", "2"], [], ["3"]]
    assert client.sought == ["TRIM_HORIZON", "2"]


def test_a_closed_shard_says_so_with_its_last_records() -> None:
    """No next iterator is the end of the shard, not an error."""
    read = DynamoDbStream(FakeStreams(page(9, following=None)), ARN).open("s").read()
    assert (numbers(read), read.closed, read.gap) == (["9"], True, None)


def test_trimmed_data_is_reported_and_reading_goes_on_with_what_is_left() -> None:
    """A checkpoint older than the stream leads to a gap that names it, and to the oldest record left."""
    client = FakeStreams((refusal("TrimmedDataAccessException"),), page(50))
    read = DynamoDbStream(client, ARN).open("s", after="7").read()
    assert (numbers(read), read.gap) == (["50"], Gap(after="7"))
    assert client.sought == ["7", "TRIM_HORIZON"]


def test_a_gap_is_reported_once_and_survives_an_outage() -> None:
    """An error between the gap and the next page does not hide the gap."""
    client = FakeStreams(refusal("TrimmedDataAccessException"), refusal("InternalServerError", 500), page(50), page(51))
    reader = DynamoDbStream(client, ARN).open("s", after="7")
    with pytest.raises(StreamUnavailable):
        reader.read()
    assert reader.read().gap == Gap(after="7")
    assert reader.read().gap is None


def test_a_shard_that_vanished_counts_as_closed_with_a_gap() -> None:
    """Its children are next; what it still held is reported."""
    client = FakeStreams(page(3), refusal("ResourceNotFoundException"))
    reader = DynamoDbStream(client, ARN).open("s")
    reader.read()
    assert reader.read() == Page(closed=True, gap=Gap(after="3"))


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
def test_a_position_that_keeps_getting_lost_is_an_outage(code: str) -> None:
    """The reader does not spin."""
    reader = DynamoDbStream(FakeStreams(*[refusal(code)] * 5), ARN).open("s")
    with pytest.raises(StreamUnavailable, match="3 times"):
        reader.read()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refusal("LimitExceededException"), StreamUnavailable),
        (refusal("ThrottlingException"), StreamUnavailable),
        (refusal("Whatever", 503), StreamUnavailable),
        (ConnectTimeoutError(endpoint_url="http://x"), StreamUnavailable),
        (ResponseParserError("not JSON"), StreamUnavailable),
        (refusal("AccessDeniedException"), StreamRefused),
        (refusal("ValidationException"), StreamRefused),
    ],
)
def test_errors_say_whether_trying_again_helps(error: Exception, kind: type[StreamUnavailable]) -> None:
    """Throttles and lost connections are worth another try from the same place; refusals are not."""
    reader = DynamoDbStream(FakeStreams(page(1), error, page(2)), ARN).open("s")
    reader.read()
    with pytest.raises(kind) as caught:
        reader.read()
    assert caught.value.retryable is (kind is StreamUnavailable)
    assert numbers(reader.read()) == ["2"]


def test_shards_are_listed_page_by_page_with_their_parents() -> None:
    """A stream has more shards than one answer holds."""
    client = FakeStreams(
        {"StreamDescription": {"Shards": [{"ShardId": "a"}], "LastEvaluatedShardId": "a"}},
        {"StreamDescription": {"Shards": [{"ShardId": "b", "ParentShardId": "a"}]}},
    )
    assert DynamoDbStream(client, ARN).shards() == [Shard("a"), Shard("b", "a")]
    assert client.described[1]["ExclusiveStartShardId"] == "a"


def test_a_stream_that_does_not_exist_is_named() -> None:
    """The error has the name and the way out."""
    with pytest.raises(StreamMissing, match="look the stream up") as caught:
        DynamoDbStream(FakeStreams(refusal("ResourceNotFoundException")), ARN).shards()
    assert caught.value.name == ARN


def test_a_record_is_given_lambdas_form() -> None:
    """Binary is base64 at every depth, the time epoch seconds, the identity in lower case, the stream named."""
    record = raw(5) | {"userIdentity": {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}}
    record["dynamodb"] |= {
        "NewImage": {
            "b": {"B": b"\x00\xff"},
            "set": {"BS": [b"a", b"b"]},
            "deep": {"L": [{"M": {"b": {"B": b"c"}}}, {"N": "1.50"}, {"NULL": True}, {"BOOL": False}, {"SS": ["x"]}]},
        },
        "OldImage": {"b": {"B": b""}},
    }
    form = lambda_form(record, ARN)
    assert form == {
        "eventID": "e5",
        "eventName": "INSERT",
        "eventSourceARN": ARN,
        "userIdentity": {"principalId": "dynamodb.amazonaws.com", "type": "Service"},
        "dynamodb": {
            "SequenceNumber": "5",
            "ApproximateCreationDateTime": int(WHEN.timestamp()),
            "Keys": {"pk": {"S": "a"}},
            "NewImage": {
                "b": {"B": "AP8="},
                "set": {"BS": ["YQ==", "Yg=="]},
                "deep": {
                    "L": [{"M": {"b": {"B": "Yw=="}}}, {"N": "1.50"}, {"NULL": True}, {"BOOL": False}, {"SS": ["x"]}]
                },
            },
            "OldImage": {"b": {"B": ""}},
        },
    }
    assert isinstance(form["dynamodb"]["ApproximateCreationDateTime"], int)
    json.dumps(form)


def test_a_fraction_of_a_second_is_kept() -> None:
    """AWS rounds to seconds; where an engine does not, nothing is invented."""
    record = raw(5)
    record["dynamodb"]["ApproximateCreationDateTime"] = WHEN + dt.timedelta(milliseconds=500)
    assert lambda_form(record, ARN)["dynamodb"]["ApproximateCreationDateTime"] == WHEN.timestamp() + 0.5
    del record["dynamodb"]["ApproximateCreationDateTime"]
    assert "ApproximateCreationDateTime" not in lambda_form(record, ARN)["dynamodb"]


def test_on_the_engine_a_table_is_read_from_any_position(engine: Account) -> None:
    """Inserts come in order, in Lambda's form; a second reader goes on where the first one stopped."""
    client = engine.client("dynamodb")
    create_table(client, "shop")
    arn = stream_arn(client, "shop")
    for number in range(4):
        client.put_item(TableName="shop", Item={"pk": {"S": "a"}, "sk": {"S": str(number)}, "b": {"B": b"\xff"}})
    stream = DynamoDbStream(engine.client("dynamodbstreams"), arn)
    [shard] = stream.shards()
    first = stream.open(shard.shard_id).read(limit=3)
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in first.records] == ["0", "1", "2"]
    one = first.records[0]
    assert one["dynamodb"]["NewImage"]["b"]["B"] == base64.b64encode(b"\xff").decode()
    assert (one["eventSource"], one["awsRegion"], one["eventSourceARN"]) == ("aws:dynamodb", "us-east-1", arn)
    rest = stream.open(shard.shard_id, after=numbers(first)[-1]).read()
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in rest.records] == ["3"]
    unknown = "1".zfill(21)
    lost = stream.open(shard.shard_id, after=unknown).read()
    assert (len(lost.records), lost.gap) == (4, Gap(after=unknown))
    with pytest.raises(StreamRefused, match="SequenceNumber"):
        stream.open(shard.shard_id, after="1").read()


def test_on_the_engine_a_table_without_stream_is_refused(engine: Account) -> None:
    """The name in the error is the table's, whether it has no stream or does not exist."""
    client = engine.client("dynamodb")
    create_table(client, "plain", view_type=None)
    for table in ("plain", "missing"):
        with pytest.raises(StreamMissing) as caught:
            stream_arn(client, table)
        assert caught.value.name == table


@pytest.mark.parametrize("number", [None, "", "x", "-1", "1" * 41, "\u0661\u0662"])
def test_a_record_without_a_number_is_an_error(number: str | None) -> None:
    """It has no place in the shard; a number that a checkpoint could not keep is none."""
    record = raw(1)
    record["dynamodb"]["SequenceNumber"] = number
    for broken in (record, {"eventID": "e1"}):
        client = FakeStreams({"Records": [raw(1), broken], "NextShardIterator": "next"})
        with pytest.raises(InvalidRecord, match="record e1: its SequenceNumber"):
            DynamoDbStream(client, ARN).open("s").read()


@pytest.mark.parametrize("pages", [(page(5, 4),), (page(5), page(4)), (page(9, 10), page(9))])
def test_numbers_that_go_back_are_an_error(pages: tuple[object, ...]) -> None:
    """Whoever has a checkpoint would pass such a record over as done."""
    reader = DynamoDbStream(FakeStreams(*pages), ARN).open("s")
    for _ in pages[1:]:
        reader.read()
    with pytest.raises(InvalidRecord, match="the one of the record before it"):
        reader.read()


def test_a_record_that_comes_twice_in_a_row_is_no_error() -> None:
    """It is passed over by its number."""
    reader = DynamoDbStream(FakeStreams(page(5), page(5, 6)), ARN).open("s", after="5")
    assert [len(reader.read().records) for _ in range(2)] == [1, 2]


def test_a_value_that_the_sdk_does_not_know_is_passed_on() -> None:
    """An attribute without a type, or with two: nothing here depends on it."""
    record = raw(1)
    record["dynamodb"]["NewImage"] = {"a": {}, "b": {"L": [{"S": "x", "B": b"y"}]}}
    assert lambda_form(record, ARN)["dynamodb"]["NewImage"] == {"a": {}, "b": {"L": [{"S": "x", "B": "eQ=="}]}}
