"""What a mapping gave up, published after all: from a queue and from a bucket, as the local event source made it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from given_up import Destination, Streams, given_up

from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.errors import BucketUnavailable, ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover import FailedBatches
from fake_streams import refusal
from sweep_shell import CONTENT, TARGET, Bus, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


@pytest.fixture
def failed(engine: Account, shop: Shop) -> Destination:
    """Return an on-failure destination."""
    return Destination(engine, shop)


def test_messages_are_redriven_from_the_stream_in_its_order_and_deleted(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """In whatever order they come; what is published is settled, and a second redrive finds nothing."""
    ids = [shop.emit(data={"n": n}) for n in range(4)]
    documents = given_up(engine, shop, 4, tmp_path, batch_size=1)
    documents.sort(key=lambda each: int(each["DDBStreamBatchInfo"]["startSequenceNumber"]))
    for number in (2, 0, 3, 1):
        failed.send(documents[number])
    bus = Bus()
    dry = failed.redrive(bus).from_queue(failed.queue, dry_run=True)
    assert (dry.published, dry.done, bus.requests, failed.waiting()) == (4, 4, 0, 4)
    report = failed.redrive(bus).from_queue(failed.queue)
    assert (report.batches, report.done, report.records, report.published, report.kept) == (4, 4, 4, 4, ())
    assert (bus.ids, shop.index(), failed.waiting()) == (ids, [], 0)
    assert {state_of(item, shop.layout) for item in shop.items()} == {"published"}


def test_objects_are_redriven_from_their_payload_and_twice_without_harm(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """Also when the stream knows nothing of them any more; the second time everything has been settled."""
    ids = [shop.emit(data={"n": n}) for n in range(3)]
    for document in given_up(engine, shop, 3, tmp_path, batch_size=1):
        failed.store(document)
    bus = Bus()
    redrive = failed.redrive(bus, streams_client=Streams())
    report = redrive.from_s3(f"s3://{failed.bucket}/aws/lambda/")
    assert (report.done, report.published, bus.ids) == (3, 3, ids)
    again = redrive.from_s3(f"s3://{failed.bucket}/aws/lambda/")
    assert (again.done, again.published, again.settled, bus.ids) == (3, 0, 3, ids)


def test_what_was_published_or_decided_since_is_not_published_again(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """By a sweep, or by an operator; what still waits is, and says that it is late."""
    first, second, third = (shop.emit(data={"n": n}) for n in range(3))
    (document,) = given_up(engine, shop, 3, tmp_path)
    sweep = Bus(lambda event: CONTENT if event.id == first else None)
    shop.sweeper(sweep).sweep()
    shop.client.update_item(
        TableName="shop",
        Key=keys_of(shop.items()[1], shop.layout.keys),
        UpdateExpression="SET #s = :p",
        ExpressionAttributeNames={"#s": "state"},
        ExpressionAttributeValues={":p": {"S": "pending"}},
    )
    bus = Bus()
    report = failed.redrive(bus).from_s3(failed.store(document))
    assert (report.settled, report.published, report.overtaken) == (2, 1, 1)
    assert bus.ids == [second] != [third]


def test_a_record_that_somebody_deleted_is_published_and_not_made_again(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """Its event was committed; a content fault of it is parked, as it exists nowhere else."""
    good, bad = shop.emit("A"), shop.emit("B")
    (document,) = given_up(engine, shop, 2, tmp_path)
    for item in shop.items():
        shop.client.delete_item(TableName="shop", Key=keys_of(item, shop.layout.keys))
    bus = Bus(lambda event: CONTENT if event.id == bad else None)
    report = failed.redrive(bus).from_s3(failed.store(document))
    assert (report.done, report.published, report.parked, bus.ids) == (1, 2, 1, [good])
    (parked,) = shop.items()
    assert (parked["id"]["S"], state_of(parked, shop.layout)) == (bad, "parked")


def test_a_record_that_settling_deletes_counts_as_published_when_it_is_gone(engine: Account, tmp_path: Path) -> None:
    """Unless it is asked for."""
    shop = Shop(engine, Layout(settle="delete"))
    failed = Destination(engine, shop)
    event_id = shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    shop.sweeper(Bus()).sweep()
    bus, uri = Bus(), failed.store(document)
    report = failed.redrive(bus).from_s3(uri)
    assert (report.done, report.gone, report.published, bus.ids) == (1, 1, 0, [])
    assert failed.redrive(bus).from_s3(uri, publish_gone=True).published == 1
    assert bus.ids == [event_id]


def test_a_message_of_records_that_are_gone_stays_until_it_is_said_what_became_of_them(
    engine: Account, tmp_path: Path
) -> None:
    """Published after all, or taken for published: nothing else tells where they are in the stream."""
    shop = Shop(engine, Layout(settle="delete"))
    failed = Destination(engine, shop)
    event_id = shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    shop.client.delete_item(TableName="shop", Key=keys_of(shop.items()[0], shop.layout.keys))
    failed.send(document)
    bus = Bus()
    report = failed.redrive(bus).from_queue(failed.queue)
    (kept,) = report.kept
    assert (report.done, report.gone, kept.gone, kept.lost, report.is_complete) == (0, 1, 1, False, False)
    assert failed.waiting() == 1
    dry = failed.redrive(bus).from_queue(failed.queue, forget_gone=True, dry_run=True)
    assert (dry.done, failed.waiting(), bus.ids) == (1, 1, [])
    report = failed.redrive(bus).from_queue(failed.queue, publish_gone=True)
    assert (report.published, report.done, bus.ids, failed.waiting()) == (1, 1, [event_id], 0)
    failed.send(document)
    report = failed.redrive(bus).from_queue(failed.queue, forget_gone=True)
    assert (report.is_complete, report.gone, bus.ids, failed.waiting()) == (True, 1, [event_id], 0)


def test_a_message_stays_until_all_of_it_is_accepted(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """A destination that is closed keeps it; the next redrive goes on."""
    ids = [shop.emit(key) for key in "AB"]
    for document in given_up(engine, shop, 2, tmp_path):
        failed.send(document)
    bus = Bus(lambda _: TARGET)
    report = failed.redrive(bus).from_queue(failed.queue)
    assert report.stopped is not None
    assert (report.done, [kept.why for kept in report.kept], failed.waiting()) == (0, [report.stopped], 1)
    bus.script = lambda _: None
    assert failed.redrive(bus).from_queue(failed.queue).done == 1
    assert (sorted(bus.ids), failed.waiting()) == (sorted(ids), 0)


def trimmed() -> Streams:
    """Return a stream that has nothing any more."""
    trim: Any = (refusal("TrimmedDataAccessException"),)
    return Streams(trim, {"Records": []})


def test_records_that_the_stream_has_trimmed_are_told_and_swept(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """What the index has of them is published; the message stays, until it is told to be forgotten."""
    shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    failed.send(document)

    report = failed.redrive(Bus(), streams_client=trimmed()).from_queue(failed.queue)
    (kept,) = report.kept
    assert kept.lost
    assert "trimmed" in kept.why
    assert document["DDBStreamBatchInfo"]["startSequenceNumber"] in kept.why
    assert report.swept is not None
    assert failed.waiting() == 1
    report = failed.redrive(Bus(), streams_client=trimmed()).from_queue(failed.queue, forget_lost=True)
    assert (failed.waiting(), report.is_complete) == (0, False)


def test_what_is_lost_is_told_also_where_no_sweep_can_follow(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """A table without the index: the report is all that there is of it."""
    shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    failed.send(document)
    shop.layout = replace(shop.layout, index="not-there")
    report = failed.redrive(Bus(), streams_client=trimmed()).from_queue(failed.queue)
    assert [kept.lost for kept in report.kept] == [True]
    assert report.stopped is not None
    assert "what the index has of lost records was not published" in report.stopped
    assert (report.swept, failed.waiting()) == (None, 1)


def test_what_stands_for_a_folder_is_no_document(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """A console makes an empty object whose name ends in a slash."""
    shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    failed.store("", name="")
    report = failed.redrive(Bus()).from_s3(failed.store(document).rpartition("/")[0])
    assert (report.batches, report.done, report.kept) == (1, 1, ())


def test_a_message_of_rows_that_are_no_records_by_the_layout_stays(
    engine: Account, failed: Destination, shop: Shop, tmp_path: Path
) -> None:
    """For a layout that was forgotten: by another one nothing in the table or its index tells of these rows."""
    row = {"entity": "OUTBOX", "type": "order.placed", "payload": "{}"}
    keys = {"pk": {"S": "ORDER#1"}, "sk": {"S": "E#1"}, "ts": {"N": "1769860800"}}
    shop.client.put_item(TableName="shop", Item={**keys, **{name: {"S": text} for name, text in row.items()}})
    (document,) = given_up(engine, shop, 1, tmp_path)
    failed.send(document)
    bus = Bus()
    report = failed.redrive(bus).from_queue(failed.queue)
    assert (report.done, bus.requests, failed.waiting()) == (0, 0, 1)
    assert "none of 1 inserted item in it is a record: give the writer's layout" in report.kept[0].why
    assert report.swept is None  # nothing is lost: the stream has it
    shop.layout = Layout(select={"entity": "OUTBOX"})
    report = failed.redrive(bus).from_queue(failed.queue)
    assert (report.done, report.published, failed.waiting()) == (1, 1, 0)


def test_what_is_no_record_is_forgotten_when_it_is_said(
    engine: Account, failed: Destination, shop: Shop, tmp_path: Path
) -> None:
    """A mapping without a filter reads what is none by any layout."""
    shop.client.put_item(TableName="shop", Item={"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}})
    failed.send(*given_up(engine, shop, 1, tmp_path))
    failed.redrive(Bus()).from_queue(failed.queue, forget_lost=True)
    assert failed.waiting() == 0


def test_records_of_a_stream_of_keys_alone_are_read_from_the_table(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """By their keys; what is there no more is told."""
    first, _ = shop.emit("A"), shop.emit("B")
    (document,) = given_up(engine, shop, 2, tmp_path)
    bare = document["payload"].replace("NewImage", "Nothing")
    shop.client.delete_item(TableName="shop", Key=keys_of(_of(shop, "B"), shop.layout.keys))
    bus = Bus()
    report = failed.redrive(bus).from_s3(failed.store({**document, "payload": bare}))
    assert bus.ids == [first]
    (kept,) = report.kept
    assert (kept.lost, report.published) == (True, 1)
    assert "1 of its records" in kept.why


def test_records_that_an_object_names_and_does_not_carry_are_lost(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """Those that it carries are published."""
    first, second = shop.emit("A"), shop.emit("B")
    (document,) = given_up(engine, shop, 2, tmp_path)
    records = json.loads(document["payload"])["Records"]
    bus = Bus()
    uri = failed.store({**document, "payload": json.dumps({"Records": records[:1]})})
    report = failed.redrive(bus).from_s3(uri)
    assert (report.done, report.published) == (0, 1)
    (kept,) = report.kept
    assert (kept.lost, "carries 1 of 2 records" in kept.why) == (True, True)
    assert (bus.ids, report.swept is not None, len(shop.index())) == ([first], True, 1)  # too young for the sweep
    assert shop.index()[0]["id"]["S"] == second


def _of(shop: Shop, key: str) -> Any:
    return next(item for item in shop.items() if item["key"] == {"S": key})


def test_what_is_no_batch_of_this_table_is_left_where_it_is(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """And told; others go on."""
    shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    info = document["DDBStreamBatchInfo"]
    other = {**info, "streamArn": info["streamArn"].replace("table/shop", "table/other")}
    for message in (document, {**document, "DDBStreamBatchInfo": other}, "{}", "no JSON"):
        failed.send(message)
    report = failed.redrive(Bus()).from_queue(failed.queue)
    assert (report.batches, report.done, report.published) == (4, 1, 1)
    assert sorted(kept.why for kept in report.kept) == [
        "it has no DDBStreamBatchInfo: it tells of no records of a DynamoDB stream.",
        "it is of the table 'other', and not of 'shop'",
        "the document is no JSON.",
    ]
    assert failed.waiting() == 3


def test_an_object_that_nobody_can_have_written_so_is_left_and_others_go_on(
    engine: Account, shop: Shop, failed: Destination, tmp_path: Path
) -> None:
    """Keys that no item has, bytes that are no text."""
    event_id = shop.emit(data={"n": "XX"})
    (document,) = given_up(engine, shop, 1, tmp_path)
    records = json.loads(document["payload"])["Records"]
    del records[0]["dynamodb"]["NewImage"]
    for number, keys in enumerate(({"pk": "x", "sk": "y"}, {"pk": {"S": ""}, "sk": {"S": "OUTBOX#1"}})):
        records[0]["dynamodb"]["Keys"] = keys
        failed.store({**document, "payload": json.dumps({"Records": records})}, f"a{number}")
    body = json.dumps(document).encode()
    failed.s3.put_object(Bucket=failed.bucket, Key="aws/lambda/m/b", Body=body.replace(b"XX", b"\xc3("))
    failed.store(document, "c")
    bus = Bus()
    report = failed.redrive(bus).from_s3(f"s3://{failed.bucket}/aws/lambda/")
    assert (report.done, bus.ids, bus.payloads()) == (1, [event_id], [{"n": "XX"}])
    whys = {kept.where[-2:]: kept.why for kept in report.kept}
    assert whys["/b"].startswith("it is no UTF-8 (byte ")
    assert "no value of type S" in whys["a0"]
    assert "is no key" in whys["a1"]


def test_what_cannot_be_read_is_an_error(failed: Destination) -> None:
    """A bucket that is not there; arguments that name none."""
    with pytest.raises(BucketUnavailable, match="NoSuchBucket") as caught:
        failed.redrive(Bus()).from_s3("s3://no-such-bucket-here/a")
    assert not caught.value.retryable
    wrong: list[Any] = ["bucket/a", "", "s3://"]
    for uri in wrong:
        with pytest.raises(ConfigurationError):
            failed.redrive(Bus()).from_s3(uri)
    with pytest.raises(ConfigurationError):
        FailedBatches(Bus(), table="")
