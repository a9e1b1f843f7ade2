"""Sweeps on the engine: with each layout, beside the relay, and when something fails on the way."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sweep_shell import CONTENT, NO_AGE, TARGET, UNKNOWN, Bus, Shop

from dynamodb_outbox import Relay
from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.core.relay.outcome import Fault, Presence, Verified
from dynamodb_outbox.core.sweeping.commands import SweepReport
from dynamodb_outbox.errors import ConfigurationError, TableUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.sinks import Router

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox.event import Event

LAYOUTS = {
    "default": Layout(),
    "own partition": Layout(own_partition=True),
    "no sort key": Layout(placement="table", sk=None, settle="mark"),
    "numbers": Layout(pk_type="N", index_shards=3),
    "columns": Layout(columns={"at": "made", "id": "rid", "key": "k", "state": "st", "type": "kind"}, settle="delete"),
}


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_nobody_relays_is_swept_in_order_and_settled(engine: Account, name: str) -> None:
    """With tables of any shape: all events, each once, those of a key in their order, and the index is empty then."""
    shop, bus = Shop(engine, LAYOUTS[name]), Bus()
    keys = ("1", "2", "3")
    ids = {key: [shop.emit(key, {"n": n}) for n in range(3)] for key in keys}
    assert len(shop.index()) == 9
    dry = shop.sweeper(bus).sweep(dry_run=True)
    assert (dry.done, bus.requests) == (9, 0)
    report = shop.sweeper(bus).sweep()
    assert (report.done, report.accepted, report.left, report.others, report.stopped) == (9, 9, 0, 0, None)
    assert {key: [event.id for event in bus.accepted if event.key == key] for key in keys} == ids
    assert shop.index() == []
    states = {state_of(item, shop.layout) for item in shop.items()}
    assert states == (set() if shop.layout.settle == "delete" else {"published"})
    assert shop.sweeper(bus).sweep() == SweepReport(partitions=shop.layout.index_shards, idle=shop.layout.index_shards)


def test_an_idle_sweep_is_one_empty_query_a_partition_however_much_is_parked(shop: Shop) -> None:
    """Sixteen queries, and nothing else, with 1,000 parked records."""
    for begin in range(0, 1_000, 25):
        requests = [{"PutRequest": {"Item": _parked(number)}} for number in range(begin, begin + 25)]
        shop.client.batch_write_item(RequestItems={"shop": requests})
    shop.calls.clear()
    assert shop.sweeper(Bus()).sweep() == SweepReport(partitions=16, idle=16)
    assert shop.calls == {"Query": 16}


def _parked(number: int) -> dict[str, Any]:
    return {
        "pk": {"S": f"ORDER#{number}"},
        "sk": {"S": f"OUTBOX#{number}"},
        "ob_v": {"N": "1"},
        "at": {"N": str(number)},
        "state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
    }


def test_the_largest_payload_is_relayed_swept_twice_settled_and_out_of_the_index(engine: Account) -> None:
    """That `commit()` takes: there is room for what settling adds; to sweep what is settled does nothing."""
    shop, bus, relayed = Shop(engine, max_event_bytes=1_000_000), Bus(), Bus()
    size = 400 * 1024 - 2 * 1024 - 600
    shop.emit(data={"text": "x" * size})
    (stored,) = shop.items()
    stream = DynamoDbStream(engine.client("dynamodbstreams"), shop.stream or "")
    records = [each for shard in stream.shards() for each in stream.open(shard.shard_id).read().records]
    assert len(stored["payload"]["S"]) > size
    assert shop.sweeper(bus).sweep().done == 1
    assert Relay(relayed, client=shop.client).lambda_handler({"Records": records}, None) == {"batchItemFailures": []}
    assert shop.sweeper(bus).sweep().due == 0
    assert relayed.ids == bus.ids
    assert (len(bus.ids), shop.index(), [item["state"]["S"] for item in shop.items()]) == (1, [], ["published"])


def test_a_record_that_was_deleted_is_neither_published_nor_created(shop: Shop) -> None:
    """Between the commit and the sweep, and between reading and settling."""
    bus = Bus()
    shop.emit("A")
    (item,) = shop.items()
    shop.client.delete_item(TableName="shop", Key=keys_of(item, shop.layout.keys))
    assert shop.sweeper(bus).sweep() == SweepReport(partitions=16, idle=16)
    shop.emit("B")
    shop.before("BatchExecuteStatement", lambda: _delete_all(shop))
    assert shop.sweeper(bus).sweep().done == 1
    assert (len(bus.ids), shop.items()) == (1, [])


def _delete_all(shop: Shop) -> None:
    for item in shop.items():
        shop.client.delete_item(TableName="shop", Key=keys_of(item, shop.layout.keys))


@pytest.mark.parametrize("on_poison", ["park", "park_key"])
def test_a_refused_record_that_was_deleted_meanwhile_is_not_parked(shop: Shop, on_poison: Any) -> None:
    """Whoever deleted it, or settled it by deleting, has answered for it; the stream's relay parks it all the same."""
    shop.emit()
    bus = Bus(lambda _: CONTENT)
    shop.before("UpdateItem" if on_poison == "park" else "TransactWriteItems", lambda: _delete_all(shop))
    report = shop.sweeper(bus, on_poison=on_poison).sweep()
    assert (shop.items(), shop.index("parked"), report.left) == ([], [], 0)


def test_a_refused_event_is_parked_and_its_key_goes_on(shop: Shop) -> None:
    """As by the relay, by the same table of states; the sweep after it leaves the parked one alone."""
    first, second = shop.emit(data={"n": 1}), shop.emit(data={"n": 2})
    bus = Bus(lambda event: CONTENT if event.id == first else None)
    report = shop.sweeper(bus).sweep()
    assert (report.accepted, report.parked, report.done, bus.ids) == (1, 1, 2, [second])
    (parked,) = shop.index("parked")
    assert parked["id"]["S"] == first
    before = shop.items()
    bus.script = lambda _: None
    shop.sweeper(bus).sweep()
    assert (shop.items(), bus.ids, shop.index()) == (before, [second], [])


def test_a_key_that_the_relay_has_parked_stays_parked(shop: Shop) -> None:
    """What follows of it is parked as well, where the sweeper has the relay's on_poison."""
    first, second = shop.emit(), shop.emit()
    bus = Bus(lambda event: CONTENT if event.id == first else None)
    report = shop.sweeper(bus, on_poison="park_key").sweep()
    third = shop.emit()
    bus.script = lambda _: None
    again = shop.sweeper(bus, on_poison="park_key").sweep()
    assert (report.parked, again.parked, bus.ids) == (2, 1, [])
    assert {item["id"]["S"] for item in shop.index("parked")} == {first, second, third}


def test_a_record_that_cannot_be_read_is_parked(shop: Shop) -> None:
    """Its events can never be published as they are."""
    shop.emit()
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "payload": {"S": "no JSON"}})
    assert shop.sweeper(Bus()).sweep().parked == 1
    assert len(shop.index("parked")) == 1


def test_a_record_whose_library_is_missing_is_left_and_others_go_on(
    engine: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is this sweeper's installation that has to be changed, not the record; what was read with it has its turn."""
    shop = Shop(engine, Layout(index_shards=1))
    shop.emit("A")
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "enc": {"S": "zstd"}, "payload": {"B": b"?"}})
    ids = [shop.emit("B"), shop.emit("C")]
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    bus = Bus()
    report = shop.sweeper(bus).sweep()
    assert (set(bus.ids), report.left, report.parked) == (set(ids), 1, 0)
    assert "cannot be read here" in caplog.text


def test_records_of_another_region_are_left_to_it(shop: Shop) -> None:
    """Though this Region's index has them, as a replica of a global table."""
    shop.emit("A")
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "region": {"S": "ap-south-1"}})
    mine = shop.emit("A")
    bus = Bus()
    report = shop.sweeper(bus).sweep()
    assert (bus.ids, report.elsewhere, len(shop.index())) == ([mine], 1, 1)


def test_hand_written_rows_are_not_in_the_index_and_so_not_swept(shop: Shop) -> None:
    """The stream alone brings them; a parked one is in the index, and left alone like any other."""
    row = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"}}
    shop.client.put_item(TableName="shop", Item=row)
    bus = Bus()
    assert shop.sweeper(bus).sweep().idle == 16
    assert bus.requests == 0


def test_two_outboxes_in_one_table_are_swept_by_their_own(engine: Account) -> None:
    """They share the index; neither sweeper touches what the other's is to publish."""
    shop, other = Shop(engine), Shop(engine, Layout(prefix="MAIL#"))
    mine, theirs = shop.emit("A"), other.emit("A")
    bus, mail = Bus(), Bus()
    report = shop.sweeper(bus).sweep()
    assert (bus.ids, report.done, len(shop.index())) == ([mine], 1, 1)
    assert other.sweeper(mail).sweep().done == 1
    assert (mail.ids, shop.index()) == ([theirs], [])


# --- beside others ---


def test_a_young_record_is_the_relay_s(shop: Shop) -> None:
    """Five minutes, when nothing else is said."""
    shop.emit()
    assert shop.sweeper(Bus(), min_age=timedelta(minutes=5)).sweep().idle == 16


def test_what_the_relay_has_settled_since_is_not_published_again(shop: Shop) -> None:
    """Between the listing of the index and the reading of the key."""
    shop.emit()
    (item,) = shop.items()
    relayed = Bus()
    record = {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventSourceARN": shop.stream,
        "dynamodb": {"Keys": keys_of(item, shop.layout.keys), "NewImage": item, "SequenceNumber": "1"},
    }
    relay = Relay(relayed, client=shop.client)
    bus = Bus()
    sweeper = shop.sweeper(bus)
    read = sweeper._means.index.read

    def late(table: str, entries: Any) -> Any:
        relay.lambda_handler({"Records": [record]}, None)
        return read(table, entries)

    object.__setattr__(sweeper._means.index, "read", late)
    report = sweeper.sweep()
    assert (len(relayed.ids), bus.ids, report.done) == (1, [], 0)
    assert report.lag_ms >= 0


def test_sweepers_at_once_publish_each_record_once(shop: Shop) -> None:
    """A lease for each partition keeps them apart."""
    ids = {shop.emit(f"K{n % 12}") for n in range(36)}
    bus = Bus()
    sweepers = [shop.sweeper(bus) for _ in range(3)]
    threads = [threading.Thread(target=sweeper.sweep) for sweeper in sweepers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shop.sweeper(bus).sweep()  # what was left because another had the lease just then
    assert len(bus.ids) == len(ids)
    assert (set(bus.ids), shop.index()) == (ids, [])


def test_where_keys_are_no_text_it_is_swept_without_a_lease(engine: Account) -> None:
    """There is no place for one; the requests are as few."""
    shop, bus = Shop(engine, Layout(pk_type="N", index_shards=1)), Bus()
    shop.emit("7")
    shop.calls.clear()
    assert shop.sweeper(bus).sweep().done == 1
    assert shop.calls == {"Query": 2, "BatchExecuteStatement": 1}


# --- faults ---


def test_who_dies_between_publishing_and_settling_leaves_a_duplicate_with_the_same_id(shop: Shop) -> None:
    """The record stays pending; the next sweep publishes it again, and settles it."""
    event_id, bus = shop.emit(), Bus()
    shop.fail("BatchExecuteStatement", "ThrottlingException", times=3)
    report = shop.sweeper(bus).sweep()
    assert (report.done, len(shop.index())) == (1, 1)
    shop.sweeper(bus).sweep()
    assert (bus.ids, shop.index()) == ([event_id] * 2, [])


def test_a_sweep_that_is_ended_leaves_its_lease(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a signal, in the middle of publishing: the next one need not wait for the lease to end."""
    shop.emit()
    sweeper = shop.sweeper(Bus())

    def ended(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeper._means.publishing, "publish", ended)
    with pytest.raises(KeyboardInterrupt):
        sweeper.sweep()
    bus = Bus()
    assert shop.sweeper(bus).sweep().done == 1


def test_a_sink_that_answers_nothing_stops_the_sweep(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """After its breaker has opened: nothing is settled, what is left is said, and the lease is left."""
    ids = {shop.emit(f"K{n}") for n in range(30)}
    bus = Bus()
    bus.fails = UNKNOWN
    report = shop.sweeper(bus).sweep()
    assert report.stopped == "nothing more can be sent to orders"
    assert (bus.requests < 12, report.done, len(shop.index())) == (True, 0, 30)
    assert "stopped: nothing more can be sent to orders" in caplog.text
    bus.fails = None
    assert shop.sweeper(bus).sweep().done == 30
    assert set(bus.ids) == ids


@pytest.mark.parametrize(
    ("presence", "script"),
    [
        (Verified(Presence.MISSING, "no such bus"), None),
        (Verified(Presence.UNSURE, "no answer", passing=True), None),
        (Verified(Presence.OK), TARGET),
    ],
)
def test_a_destination_that_cannot_be_used_stops_the_sweep_and_parks_nothing(
    shop: Shop, presence: Verified, script: Fault | None
) -> None:
    """It is missing, nobody answers whether it is there, or it refuses the sweeper."""
    for number in range(20):
        shop.emit(f"K{number}")
    bus = Bus(lambda _: script)
    bus.presence = presence
    report = shop.sweeper(bus).sweep(within=timedelta(seconds=12))
    assert report.stopped == "nothing more can be sent to orders"
    assert (bus.accepted, shop.index("parked"), len(shop.index())) == ([], [], 20)
    assert bus.requests <= 1


@pytest.mark.parametrize("unanswered", [False, True])
def test_without_a_breaker_time_tells_that_a_destination_takes_nothing(shop: Shop, unanswered: bool) -> None:
    """It answers nothing, be it events or the question whether it is there, until the round is over."""
    shop.emit()
    bus = Bus()
    bus.fails = UNKNOWN
    if unanswered:
        bus.presence = Verified(Presence.UNSURE, "no answer", passing=True)
    report = shop.sweeper(bus, breaker_after=None).sweep(within=timedelta(seconds=2))
    assert (report.stopped, report.left) == ("nothing more can be sent to orders", 1)
    assert (bus.requests > 0) is not unanswered


class _ByKey(Router):
    """Routes by the key's last digit in place of the type."""

    def route(self, event: Event) -> int | Fault:
        return int(str(event.key)[-1]) % 2


def test_one_destination_that_is_down_does_not_hold_up_the_others(shop: Shop) -> None:
    """It is asked once in a sweep; the others get what is theirs."""
    for number in range(40):
        shop.emit(f"K{number}")
    down = Bus(lambda _: TARGET, name="down")
    up = Bus(name="up")
    report = shop.sweeper(_ByKey({"order.placed": up, "other": down})).sweep()
    assert (len(up.accepted), report.left, report.stopped) == (20, 20, None)
    assert down.requests <= 2


def test_requests_that_are_throttled_are_made_again(shop: Shop) -> None:
    """Listing, the lease, reading the key: nothing is lost by it, and nothing published twice."""
    event_id, bus = shop.emit(), Bus()
    shop.fail("Query", "ProvisionedThroughputExceededException", times=2)
    shop.fail("GetItem", "ThrottlingException", times=2)
    shop.fail("PutItem", "InternalServerError", times=1, status=500)
    report = shop.sweeper(bus).sweep()
    assert (report.done, report.unread, bus.ids) == (1, 0, [event_id])


def test_partitions_that_go_on_being_throttled_are_left(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The report and the log say so."""
    shop.emit()
    shop.fail("Query", "ProvisionedThroughputExceededException")
    report = shop.sweeper(Bus()).sweep()
    assert (report.unread, report.done) == (16, 0)
    assert "a request to the table failed 48 times: ProvisionedThroughputExceededException: so it is" in caplog.text


def test_a_key_that_goes_on_being_throttled_is_left(shop: Shop) -> None:
    """The others of the round are published, and the sweep does not stand still."""
    ids = [shop.emit("A"), shop.emit("B")]
    sweeper, bus = shop.sweeper(Bus()), Bus()
    sweeper = shop.sweeper(bus)
    read = sweeper._means.index.read

    def broken(table: str, entries: Any) -> Any:
        if entries[0].key == "A":
            raise ValueError("a bug")
        return read(table, entries)

    object.__setattr__(sweeper._means.index, "read", broken)
    report = sweeper.sweep()
    assert (bus.ids, report.left) == ([ids[1]], 1)


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException", "ResourceNotFoundException"])
def test_what_is_set_up_wrongly_is_raised(shop: Shop, code: str) -> None:
    """No permission, no such index, no such table: a schedule's error metric shows it."""
    shop.fail("Query", code)
    with pytest.raises(TableUnavailable, match=f"table 'shop': {code}") as caught:
        shop.sweeper(Bus()).sweep()
    assert (caught.value.table, caught.value.retryable) == ("shop", False)


def test_without_an_index_the_error_names_it(engine: Account) -> None:
    """As DynamoDB says it."""
    shop = Shop(engine)
    shop.layout = Layout(index="elsewhere")
    with pytest.raises(TableUnavailable, match="elsewhere"):
        shop.sweeper(Bus()).sweep()


# --- the function, and the arguments ---


def test_the_function_returns_the_report_and_keeps_to_its_time(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Behind a schedule, whose event says nothing that matters."""
    shop.emit()
    bus = Bus()
    sweeper = shop.sweeper(bus)

    class Context:
        remaining_ms = 60_000

        def get_remaining_time_in_millis(self) -> int:
            return self.remaining_ms

    with caplog.at_level(logging.INFO, "dynamodb_outbox.sweep"):
        answer = sweeper.lambda_handler({"source": "aws.scheduler"}, Context())
    assert (answer["done"], answer["accepted"], answer["stopped"]) == (1, 1, None)
    assert "1 record due, 1 done" in caplog.text
    late = Context()
    late.remaining_ms = 0
    assert sweeper.lambda_handler({}, late)["stopped"] == "there was no time left"


def test_records_of_an_event_source_are_refused(shop: Shop) -> None:
    """An answer would tell the event source that they were processed."""
    with pytest.raises(ConfigurationError, match="on a schedule"):
        shop.sweeper(Bus()).lambda_handler({"Records": []}, None)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"min_age": timedelta(seconds=-1)}, "min_age is"),
        ({"min_age": 5}, "min_age is 5"),
        ({"layout": "shop"}, "a Layout is needed"),
        ({"source": "aws.mine"}, "source"),
        ({"table": ""}, "table is ''"),
        ({"on_poison": "drop"}, "'park', 'park_key' or 'block'"),
        ({"max_in_flight": 0}, "max_in_flight is 0"),
        ({"rate_limit_per_instance": 0}, "rate_limit_per_instance is 0"),
        ({"breaker_after": 0}, "breaker_after is 0"),
        ({"on_poison": "park_key", "layout": Layout(pk_type="N")}, "marks a key as parked"),
        ({"sink": "orders"}, r"Sweeper\(EventBridge\('orders'\)\)"),
    ],
)
def test_arguments_that_cannot_work_are_refused_by_name(options: dict[str, Any], match: str) -> None:
    """When the sweeper is made; no client is."""
    from dynamodb_outbox.recover import Sweeper  # noqa: PLC0415 -- as a user imports it

    sink = options.pop("sink", Bus())
    with pytest.raises(ConfigurationError, match=match):
        Sweeper(sink, **{"table": "shop", **options})


def test_arguments_of_a_sweep_are_refused_by_name(shop: Shop) -> None:
    """What merely counts as True is refused, and so is a time that is none."""
    wrong: list[dict[str, Any]] = [{"dry_run": "no"}, {"within": 5}, {"within": timedelta(seconds=-1)}]
    for options in wrong:
        with pytest.raises(ConfigurationError, match=f"Sweeper: {next(iter(options))} is"):
            shop.sweeper(Bus()).sweep(**options)


def test_a_table_is_given_by_name_or_arn(shop: Shop) -> None:
    """And events of records that name no source have the table's name for one."""
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/shop"
    sweeper = type(shop.sweeper(Bus()))(Bus(), table=arn, client=shop.client, min_age=NO_AGE)
    assert sweeper.table == "shop"
    assert sweeper.sweep().idle == 16


def test_a_rate_limit_is_kept(shop: Shop) -> None:
    """Over all rounds of a sweep: five at once, and then five a second."""
    for number in range(8):
        shop.emit(f"K{number}")
    bus = Bus()
    began = shop.sweeper(bus)._clock.monotonic_ms()
    assert shop.sweeper(bus, rate_limit_per_instance=5).sweep().done == 8
    assert shop.sweeper(bus)._clock.monotonic_ms() - began >= 500


class _NoThreads:
    """A crew that can start nothing."""

    def __init__(self) -> None:
        self._results: list[Any] = []

    def start(self, _task: Any) -> None:
        """Refuse."""
        raise RuntimeError("can't start new thread")

    def results(self) -> Any:
        """Return a queue that is never waited for: what cannot be started is done at once."""
        return self

    def put(self, result: Any) -> None:
        """Keep a result."""
        self._results.append(result)

    def get(self, _timeout_ms: int | None) -> Any:
        """Return the next result."""
        return self._results.pop(0) if self._results else None


def test_without_threads_keys_are_read_all_the_same(shop: Shop) -> None:
    """Publishing needs them, and is tried again by the next sweep."""
    shop.emit()
    report = shop.sweeper(Bus(), crew=_NoThreads()).sweep(within=timedelta(seconds=3))
    assert (report.keys, report.done, report.left, len(shop.index())) == (1, 0, 1, 1)


def test_a_row_that_its_writer_puts_into_the_index_is_swept_like_a_record(shop: Shop) -> None:
    """And leaves the index when it is settled; its own `state` stays what it was."""
    row = {
        "pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"},
        "state": {"S": "NY"}, "ob_pending": {"S": "00"}, "at": {"N": "1000"}, "id": {"S": "1"}, "key": {"S": "A"},
    }  # fmt: skip
    shop.client.put_item(TableName="shop", Item=row)
    bus = Bus()
    assert shop.sweeper(bus).sweep().done == 1
    (item,) = shop.items()
    assert (item["state"], item["ob_state"], shop.index()) == ({"S": "NY"}, {"S": "published"}, [])
    assert [event.source for event in bus.accepted] == ["shop"]
