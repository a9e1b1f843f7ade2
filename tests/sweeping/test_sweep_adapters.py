"""The index and the leases over a client: what is asked, and what is made of each answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from sweep_world import NOW_MS, uuid

from dynamodb_outbox.adapters.leases import DynamoLeases
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.core.record import leases, pending
from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.record.pending import BEHIND_MS, Entry, range_of
from dynamodb_outbox.core.record.place import is_record, reserved_prefix
from dynamodb_outbox.core.sweeping.commands import (
    Failed,
    KeyFound,
    LeaseFound,
    LeaseWritten,
    List,
    Listed,
    Tally,
    WriteLease,
)
from dynamodb_outbox.errors import ConfigurationError, TableUnavailable
from dynamodb_outbox.layout import Layout
from sweep_shell import Shop

if TYPE_CHECKING:
    from conftest import Account

LAYOUT = Layout()
SLOW = ReadTimeoutError(endpoint_url="https://dynamodb.invalid/")
UNREACHED = ConnectTimeoutError(endpoint_url="https://dynamodb.invalid/")


def error(code: str, status: int = 400, **more: Any) -> ClientError:
    """Return an error answer."""
    answer = {"Error": {"Code": code, "Message": "so it is"}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(answer, "Any")


class Client:
    """A client of "dynamodb" whose answers are prepared; what it was asked is in `asked`."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        real = boto3.client("dynamodb", region_name="eu-west-1", config=Config(retries={"total_max_attempts": 1}))
        self.meta = SimpleNamespace(
            config=real.meta.config,
            region_name="eu-west-1",
            endpoint_url="https://dynamodb.invalid/",
            service_model=real.meta.service_model,
            events=SimpleNamespace(emit=lambda *_, **__: []),
        )

    def _answer(self, **request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    query = batch_get_item = get_item = put_item = _answer


def entry(number: int, *, sk: str | None = None, key: str = "A", at_ms: int = NOW_MS) -> Entry:
    """Return an entry of the index."""
    return Entry({"pk": {"S": key}, "sk": {"S": sk or f"OUTBOX#{uuid(number, at_ms)}"}}, at_ms, key)


def item(number: int, **more: Any) -> dict[str, Any]:
    """Return what a read gives of a pending record."""
    return {**entry(number).item, "ob_pending": {"S": "00"}, **more}


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_a_page_of_the_index_is_one_query() -> None:
    """Of one partition, oldest first, with where the page before ended and after which date."""
    client = Client(
        {"Items": [{**item(1), "at": {"N": "1E3"}, "key": {"S": "A"}}], "LastEvaluatedKey": {"n": {"N": "1"}}}
    )
    found = DynamoPendingIndex(LAYOUT, client=client).list("shop", List("03", 7, {"n": {"N": "0"}}, 5))
    assert found == Listed((Entry(entry(1).item, 1000, "A"),), {"n": {"N": "1"}})
    assert client.asked == [
        {
            "TableName": "shop",
            "IndexName": "outbox-pending",
            "KeyConditionExpression": "#pending = :shard AND #at > :at",
            "ExpressionAttributeNames": {"#pending": "ob_pending", "#at": "at"},
            "ExpressionAttributeValues": {":shard": {"S": "03"}, ":at": {"N": "5"}},
            "Limit": 7,
            "ExclusiveStartKey": {"n": {"N": "0"}},
        }
    ]


def test_a_partition_is_read_consistently_from_some_minutes_before_its_oldest_entry() -> None:
    """To its end, and without what is parked or published."""
    client = Client({"Items": [item(1)]})
    found = DynamoPendingIndex(LAYOUT, client=client).read("shop", [entry(2), entry(1, at_ms=NOW_MS - 1_000)])
    assert found == KeyFound((item(1),), complete=True)
    (asked,) = client.asked
    assert asked["ConsistentRead"] is True
    since = uuid(0, NOW_MS - 1_000 - BEHIND_MS)[:13]
    assert asked["ExpressionAttributeValues"] == {
        ":pk": {"S": "A"},
        ":parked": {"S": "parked"},
        ":first": {"S": f"OUTBOX#{since}"},
        ":last": {"S": "OUTBOX#\U0010ffff"},
    }
    assert asked["FilterExpression"] == "attribute_exists(#pending) AND #pending <> :parked"


@pytest.mark.parametrize(
    ("entries", "layout", "expected"),
    [
        ([entry(1, sk="OUTBOX#abc")], LAYOUT, ("OUTBOX#", "OUTBOX#\U0010ffff")),  # no UUID: from the first record on
        ([entry(1, sk=f"OUTBOX#{uuid(1).upper()}")], LAYOUT, ("OUTBOX#", "OUTBOX#\U0010ffff")),
        ([entry(1, at_ms=5)], LAYOUT, ("OUTBOX#00000000-0000", "OUTBOX#\U0010ffff")),
        ([entry(1), entry(2, sk="other")], LAYOUT, None),  # not told by the sort key: all of the partition
        ([entry(1)], Layout(sk=None, placement="table"), None),
    ],
)
def test_what_is_read_of_a_partition(entries: list[Entry], layout: Layout, expected: Any) -> None:
    """As much as the sort keys allow to leave out."""
    assert range_of(entries, layout) == expected


def test_a_lease_lives_among_the_guards_and_is_no_record() -> None:
    """Whatever tells records."""
    for layout in (LAYOUT, Layout(own_partition=True), Layout(select={}), Layout(sk=None, placement="table")):
        stored = leases.write("shop", "03", Lease("me", 1, 5), layout, instead_of=None)["Item"]
        assert not is_record(stored, layout)
        assert reserved_prefix(stored, layout) == layout.guard_prefix
        assert leases.shard_of(stored, layout) == "03"
        assert leases.can_lease(layout)
    assert not leases.can_lease(Layout(pk_type="N"))


# --- what is made of the answers: the index ---------------------------------------------------------------------------


def test_a_key_is_read_up_to_two_pages_that_hold_something() -> None:
    """What is behind them is left to the next read."""
    page = {"Items": [item(1)], "LastEvaluatedKey": {"pk": {"S": "A"}}}
    client = Client({"Items": [], "LastEvaluatedKey": {"pk": {"S": "A"}}}, page, page)
    found = DynamoPendingIndex(LAYOUT, client=client).read("shop", [entry(1)])
    assert (found, len(client.asked)) == (KeyFound((item(1), item(1)), complete=False), 3)
    assert client.asked[1]["ExclusiveStartKey"] == {"pk": {"S": "A"}}


def test_a_key_of_which_fifty_pages_hold_nothing_is_read_by_its_entries() -> None:
    """It has published so much that looking for what comes before them would take for ever."""
    nothing = {"Items": [], "LastEvaluatedKey": {"pk": {"S": "A"}}}
    client = Client(*[nothing] * 50, {"Responses": {"shop": [item(1), item(2, ob_pending={"S": "parked"})]}})
    found = DynamoPendingIndex(LAYOUT, client=client).read("shop", [entry(1), entry(2)])
    assert (found, len(client.asked)) == (KeyFound((item(1),), complete=False), 51)
    assert client.asked[-1]["RequestItems"]["shop"]["ConsistentRead"] is True


CUSTOMER: Any = {"customer_id": {"S": "C#1"}, "item": {"S": f"OUTBOX#{uuid(1)}"}}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (CUSTOMER, """Layout(pk='customer_id', sk='item'), or --layout '{"pk": "customer_id", "sk": "item"}'"""),
        (dict(reversed(CUSTOMER.items())), """'{"pk": "customer_id", "sk": "item"}'"""),
        ({"n": {"N": "1"}, "sk": CUSTOMER["item"]}, """'{"pk": "n", "sk": "sk", "pk_type": "N"}'"""),
        ({"order": CUSTOMER["item"]}, """'{"pk": "order", "sk": null, "own_partition": true}'"""),
        ({"a": {"S": "OUTBOX#A"}, "b": {"S": "OUTBOX#B"}}, """'{"pk": "...", "sk": "..."}'"""),
    ],
)
def test_entries_with_other_keys_than_the_layouts_are_refused_with_the_layout_that_has_these(
    keys: Any, says: str
) -> None:
    """Listed or counted, before anything is read by keys that the table has not; asked once more for that alone."""
    there = {**keys, "ob_pending": {"S": "00"}, "at": {"N": "5"}}
    whole = {"Items": [{**there, "id": {"S": uuid(1)}, "key": {"S": "C#1"}}], "Count": 1}
    cut = {**whole, "LastEvaluatedKey": there}
    listed = DynamoPendingIndex(LAYOUT, client=Client(whole, cut)).list("shop", List("00", 7))
    counted = DynamoPendingIndex(LAYOUT, client=Client(whole, whole, cut)).tally("shop", "00")
    assert isinstance(listed, Failed)
    assert listed == counted.failure
    assert not listed.passing
    assert says in listed.reason
    assert f"its items are {' and '.join(map(repr, keys))}, those of the layout 'pk' and 'sk'" in listed.reason


def test_an_index_that_is_sorted_by_another_name_is_told() -> None:
    """Which names are the table's cannot be said then; an answer that is not cut short, or is none, says less still."""
    there = {**item(1), "id": {"S": uuid(1)}, "created": {"N": "5"}}
    after = {name: value for name, value in there.items() if name != "id"}
    whole: Any = {"Items": [there]}
    answers: list[Any] = [{**whole, "LastEvaluatedKey": after}, whole, error("ThrottlingException")]
    found = [DynamoPendingIndex(LAYOUT, client=Client(whole, each)).list("shop", List("00", 7)) for each in answers]
    assert [isinstance(each, Failed) and each.passing for each in found] == [False, False, True]
    first, second, _ = [each.reason for each in found if isinstance(each, Failed)]
    assert "'created', the layout 'pk' and 'sk' and 'at': give" in first
    assert "have others, the layout" in second


def test_a_read_by_keys_that_the_table_has_not_names_the_layouts() -> None:
    """An empty index tells nothing of them: the refusal of the engine does."""
    index = DynamoLeases(LAYOUT, client=Client(error("ValidationException")))
    with pytest.raises(TableUnavailable, match=r"The layout has the keys 'pk' and 'sk': where .*--layout"):
        index.read_all("shop", ["00"])


def test_keys_that_an_answer_leaves_unread_are_read_again() -> None:
    """As a table does that is asked for too much; a table without a sort key is read so."""
    layout = Layout(sk=None, placement="table")
    client = Client({"Responses": {}, "UnprocessedKeys": {"shop": {}}})
    found = DynamoPendingIndex(layout, client=client).read("shop", [entry(1)])
    assert found.failure is not None
    assert found.failure.passing
    many = Client({"Responses": {"shop": [item(1)]}, "UnprocessedKeys": {}})
    index = DynamoPendingIndex(layout, client=many)
    assert index.read("shop", [entry(n) for n in range(101)]).complete is False
    assert index.read("shop", [entry(n) for n in range(100)]).complete is True
    assert len(many.asked[0]["RequestItems"]["shop"]["Keys"]) == 100


@pytest.mark.parametrize(
    ("raised", "failure"),
    [
        (error("ThrottlingException"), Failed("ThrottlingException: so it is", passing=True)),
        (error("InternalServerError", 500), Failed("InternalServerError: so it is", passing=True)),
        (error("AccessDeniedException"), Failed("AccessDeniedException: so it is", passing=False)),
        (SLOW, Failed(f"ReadTimeoutError: {SLOW}", passing=True)),
        (ConfigurationError("no AWS Region"), Failed("ConfigurationError: no AWS Region", passing=False)),
        (
            error("ResourceNotFoundException"),
            Failed(
                "ResourceNotFoundException: so it is (table 'shop'; Region 'eu-west-1', endpoint "
                "https://dynamodb.invalid/)",
                passing=False,
            ),
        ),
    ],
)
def test_every_failure_of_the_index_is_an_answer(raised: Exception, failure: Failed) -> None:
    """With what DynamoDB said, and whether it may pass."""
    index = DynamoPendingIndex(LAYOUT, client=Client(raised))
    assert index.list("shop", List("00", 5)) == failure
    assert index.read("shop", [entry(1)]) == KeyFound(failure=failure)
    assert index.tally("shop", "00") == Tally(failure=failure)


def test_a_partition_is_counted_page_by_page() -> None:
    """And its oldest record told, where there is one."""
    oldest = {"Items": [{**item(1), "at": {"N": "77"}, "key": {"S": "A"}}]}
    client = Client({"Count": 2, "LastEvaluatedKey": {"n": {"N": "1"}}}, {"Count": 3}, oldest)
    assert DynamoPendingIndex(LAYOUT, client=client).tally("shop", "00") == Tally(5, 77)
    assert [asked.get("Select") for asked in client.asked] == ["COUNT", "COUNT", None]
    assert DynamoPendingIndex(LAYOUT, client=Client({"Count": 0})).tally("shop", "00") == Tally()
    gone = Client({"Count": 1}, {"Items": []})
    assert DynamoPendingIndex(LAYOUT, client=gone).tally("shop", "00") == Tally(1, None)


# --- what is made of the answers: leases ------------------------------------------------------------------------------

MINE, THEIRS = Lease("me", 2, NOW_MS), Lease("other", 2, NOW_MS, 5, 90_000)
TAKE = WriteLease("00", MINE, Lease("", 1, 0))


def stored(lease: Lease) -> Any:
    """Return the item of a lease."""
    return leases.write("shop", "00", lease, LAYOUT, instead_of=None)["Item"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, LeaseWritten(written=True)),
        (error("ConditionalCheckFailedException", Item=stored(THEIRS)), LeaseWritten(written=False)),
        (error("ConditionalCheckFailedException"), LeaseWritten(written=False)),
        # The SDK repeated the request: its first attempt has stored what the second one found.
        (error("ConditionalCheckFailedException", Item=stored(MINE)), LeaseWritten(written=True)),
        (error("ThrottlingException"), Failed("ThrottlingException: so it is", passing=True)),
        (error("AccessDeniedException"), Failed("AccessDeniedException: so it is", passing=False)),
        (error("InternalServerError", 500), Failed("InternalServerError: so it is", passing=True, untold=True)),
        (SLOW, Failed(f"ReadTimeoutError: {SLOW}", passing=True, untold=True)),
        (UNREACHED, Failed(f"ConnectTimeoutError: {UNREACHED}", passing=True)),
    ],
)
def test_what_a_write_of_a_lease_comes_to(answer: Any, expected: Any) -> None:
    """Stored, refused, turned away, or nobody knows."""
    assert DynamoLeases(LAYOUT, client=Client(answer)).write("shop", TAKE) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, LeaseFound(None)),
        ({"Item": stored(THEIRS)}, LeaseFound(THEIRS)),
        (
            {"Item": {name: value for name, value in stored(MINE).items() if name != "ob_lease_ms"}},
            LeaseFound(replace(MINE, lasts_ms=60_000)),
        ),
        (SLOW, Failed(f"ReadTimeoutError: {SLOW}", passing=True)),
        (
            {"Item": {"pk": {"S": "IDEMP#SWEEP#00"}, "sk": {"S": "GUARD"}}},
            Failed("the item in the place of a lease (`SWEEP#` behind guard_prefix) is none", passing=False),
        ),
        (
            {"Item": {**stored(THEIRS), "ob_lease_until": {"N": "soon"}}},
            Failed("the item in the place of a lease (`SWEEP#` behind guard_prefix) is none", passing=False),
        ),
    ],
)
def test_what_a_read_of_a_lease_comes_to(answer: Any, expected: Any) -> None:
    """An item that is no lease keeps everybody out, and says why."""
    assert DynamoLeases(LAYOUT, client=Client(answer)).read("shop", "00") == expected


def test_leases_that_cannot_be_read_together_are_an_error() -> None:
    """Which says whether it may pass."""
    left_out = Client({"Responses": {"shop": []}, "UnprocessedKeys": {"shop": {}}})
    with pytest.raises(TableUnavailable, match="UnprocessedKeys") as caught:
        DynamoLeases(LAYOUT, client=left_out).read_all("shop", ["00"])
    assert caught.value.retryable
    with pytest.raises(TableUnavailable, match="AccessDenied") as caught:
        DynamoLeases(LAYOUT, client=Client(error("AccessDeniedException"))).read_all("shop", ["00"])
    assert not caught.value.retryable
    odd = {"pk": {"S": "IDEMP#SWEEP#01"}, "sk": {"S": "GUARD"}}
    both = Client({"Responses": {"shop": [stored(THEIRS), odd]}})
    assert DynamoLeases(LAYOUT, client=both).read_all("shop", ["00", "01"]) == {"00": THEIRS}


@pytest.mark.parametrize("make", [DynamoPendingIndex, DynamoLeases])
def test_another_service_s_client_is_refused(make: Any) -> None:
    """When it is given."""
    with pytest.raises(ConfigurationError, match="one of 'dynamodb' is needed"):
        make(LAYOUT, client=boto3.client("sqs", region_name="eu-west-1"))


# --- on the engine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", [LAYOUT, Layout(sk=None, placement="table"), Layout(pk="p", sk="s", guard_prefix="G#")]
)
def test_a_lease_is_written_on_the_version_that_was_seen(engine: Account, layout: Layout) -> None:
    """By one of two; and by whoever sees the other's."""
    shop = Shop(engine, layout)
    held = DynamoLeases(layout, client=shop.client)
    first, second = Lease("me", 1, 10), Lease("other", 1, 10)
    assert held.read("shop", "00") == LeaseFound(None)
    assert held.write("shop", WriteLease("00", first, None)) == LeaseWritten(written=True)
    assert held.write("shop", WriteLease("00", second, None)) == LeaseWritten(written=False)
    assert held.write("shop", WriteLease("00", first, None)) == LeaseWritten(written=True)  # the same request again
    assert held.read("shop", "00") == LeaseFound(first)
    taken = Lease("other", 2, 30, 20)
    assert held.write("shop", WriteLease("00", taken, first)) == LeaseWritten(written=True)
    assert held.write("shop", WriteLease("00", Lease("me", 2, 40), first)) == LeaseWritten(written=False)
    assert held.read_all("shop", ["00", "01"]) == {"00": taken}
    assert pending.shards_of(layout)[:2] == ("00", "01")
