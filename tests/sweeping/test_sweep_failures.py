"""Sweeps on the engine when something fails on the way, by a function of Lambda, and with wrong arguments."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.core.relay.outcome import Fault, Presence, Verified
from dynamodb_outbox.errors import ConfigurationError, TableUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.sinks import Router
from sweep_shell import NO_AGE, TARGET, UNKNOWN, Bus, Shop

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox.event import Event


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


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
    report = shop.sweeper(bus).sweep(within=timedelta(seconds=60))
    assert report.stopped == "nothing more can be sent to orders"
    assert (bus.accepted, shop.index("parked"), len(shop.index())) == ([], [], 20)
    assert bus.requests <= 1


@pytest.mark.parametrize("unanswered", [False, True])
def test_without_a_breaker_time_tells_that_a_destination_takes_nothing(engine: Account, unanswered: bool) -> None:
    """It answers nothing, be it events or the question whether it is there, until the round is over."""
    shop = Shop(engine, Layout(index_shards=1))
    shop.emit()
    bus = Bus()
    bus.fails = UNKNOWN
    if unanswered:
        bus.presence = Verified(Presence.UNSURE, "no answer", passing=True)
    report = shop.sweeper(bus, breaker_after=None).sweep(within=timedelta(seconds=4))
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


def test_without_threads_keys_are_read_all_the_same(engine: Account) -> None:
    """Publishing needs them, and is tried again by the next sweep."""
    shop = Shop(engine, Layout(index_shards=1))
    shop.emit()
    report = shop.sweeper(Bus(), crew=_NoThreads()).sweep(within=timedelta(seconds=3))
    assert (report.keys, report.done, report.left, len(shop.index())) == (1, 0, 1, 1)
