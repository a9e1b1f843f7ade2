"""A relay whose layout is not the writer's: what it relays, where it stops, what it says."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from relay_shell import TRANSIENT, Bus, Context, Table, failures, relay, row, short

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.core.record.waiting import Found
    from dynamodb_outbox.core.values import WireItem

PUBLISHED: dict[str, Any] = {"ob_v": {"N": "1"}, "state": {"S": "published"}}


def other(number: int, **image: Any) -> dict[str, Any]:
    """Return a record of a writer with other columns."""
    waiting: dict[str, Any] = {
        "ob_v": {"N": "1"},
        "ob_pending": {"S": "03"},
        "state": {"S": "pending"},
        "ob_columns": {"S": "other"},
    }
    return row(number, **waiting, **image)


def unsettled(number: int) -> dict[str, Any]:
    """Return a record of such a writer that nothing settles."""
    record = other(number, ob_settle={"S": "none"}, expires_at={"N": "1769860860"})
    del record["dynamodb"]["NewImage"]["ob_pending"]
    return record


def test_it_relays_what_comes_before_and_stops_at_the_first_record_that_is_anothers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each time it is delivered again, until the layout is the right one; nothing is passed over."""
    bus = Bus()
    shop = relay(bus)
    answer = shop.lambda_handler({"Records": [row(1), row(2, pk="B"), other(3), row(4)]}, Context())
    assert failures(answer) == ["3"]
    assert sorted(short(event) for event in bus.accepted) == ["1", "2"]
    assert "held at record 3: an outbox record in the stream has other column names" in caplog.text
    with pytest.raises(ConfigurationError, match="other column names"):
        shop.lambda_handler({"Records": [other(3), row(4)]}, Context())


def test_a_record_that_nothing_settles_is_known_for_anothers_too() -> None:
    """Though it is in no part of the index; once it is published or parked, or is a row, it is passed over."""
    marks: dict[str, Any] = {"ob_v": {"N": "1"}, "ob_settle": {"S": "none"}}
    shop = relay(Bus(), layout=Layout(prefix="EVENT#"))
    with pytest.raises(ConfigurationError, match="none by this relay's Layout"):
        shop.lambda_handler({"Records": [row(1, **marks)]}, Context())
    for more in ({"ob_settle": {"S": "mark"}}, {"ob_pending": {"S": "parked"}}):
        assert failures(shop.lambda_handler({"Records": [row(1, **marks | more)]}, Context())) == []
    by_hand = {name: value for name, value in marks.items() if name != "ob_v"}
    assert failures(shop.lambda_handler({"Records": [row(1, **by_hand)]}, Context())) == []


def test_a_record_before_it_that_is_not_done_comes_first() -> None:
    """The stream goes on from the lowest of both."""
    bus = Bus(lambda event: TRANSIENT if short(event) == "1" else None)
    assert failures(relay(bus).lambda_handler({"Records": [row(1), other(2)]}, Context(3_000))) == ["1"]


@pytest.mark.parametrize("now", [{}, PUBLISHED, PUBLISHED | {"ob_pending": {"S": "parked"}}])
def test_a_record_that_waits_no_more_holds_nothing(now: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Its image is from before: it was published by its own relay since, parked, or deleted."""
    caplog.set_level(logging.INFO)
    bus, table = Bus(), Table()
    table.stored["1"] = now
    assert failures(relay(bus, table).lambda_handler({"Records": [other(1), row(2)]}, Context())) == []
    assert [short(event) for event in bus.accepted] == ["2"]
    assert "1 record was of another layout, and published, parked or deleted since; passed over" in caplog.text
    assert failures(relay(bus, table).lambda_handler({"Records": [other(1)]}, Context())) == []


def test_a_record_that_nothing_settles_is_passed_over_when_it_is_parked_and_not_when_it_is_gone() -> None:
    """Its TTL may have removed it unpublished; it shows no more than that somebody parked it."""
    table = Table()
    shop = relay(Bus(), table)
    unchanged: dict[str, Any] = unsettled(1)["dynamodb"]["NewImage"]
    for now in (unchanged, {}):
        table.stored["1"] = now
        with pytest.raises(ConfigurationError, match="other column names"):
            shop.lambda_handler({"Records": [unsettled(1)]}, Context())
    table.stored["1"] = PUBLISHED | {"ob_pending": {"S": "parked"}}
    assert failures(shop.lambda_handler({"Records": [unsettled(1)]}, Context())) == []


def test_of_several_the_first_that_waits_ends_the_reading(caplog: pytest.LogCaptureFixture) -> None:
    """What is behind it costs no read; delivered again, the stream goes on once that one is published."""
    caplog.set_level(logging.INFO)
    bus, table = Bus(), Table()
    table.stored |= {"1": {}, "3": PUBLISHED}
    shop = relay(bus, table)
    records = [other(1), row(2), other(3), other(4), row(5), other(6)]
    assert failures(shop.lambda_handler({"Records": records}, Context())) == ["4"]
    assert (table.read, [short(event) for event in bus.accepted]) == (["1", "3", "4"], ["2"])
    assert "2 records were of another layout" in caplog.text
    table.stored |= {"4": PUBLISHED, "6": {}}
    assert failures(shop.lambda_handler({"Records": records[3:]}, Context())) == []
    assert (table.read[3:], [short(event) for event in bus.accepted]) == (["4", "6"], ["2", "5"])


def test_where_some_are_passed_over_before_it_the_stream_gets_as_far_as_the_one_that_waits() -> None:
    """It is answered, not raised, or all would be read again with each delivery."""
    table = Table()
    table.stored["1"] = {}
    assert failures(relay(Bus(), table).lambda_handler({"Records": [other(1), other(2)]}, Context())) == ["2"]


def test_a_record_that_cannot_be_read_is_held(caplog: pytest.LogCaptureFixture) -> None:
    """It may be waiting; why it could not be read is said."""
    table = Table()
    table.unread = "AccessDeniedException: no GetItem for you"
    shop = relay(Bus(), table)
    assert failures(shop.lambda_handler({"Records": [row(1), other(2)]}, Context())) == ["2"]
    assert "could not be asked of the table: AccessDeniedException: no GetItem for you." in caplog.text
    with pytest.raises(ConfigurationError, match="no GetItem for you"):
        shop.lambda_handler({"Records": [other(2)]}, Context())


class Slow(Table):
    """A table of which each read takes a second, on a clock of its own."""

    class Clock(SystemClock):
        """Time that only reads take."""

        passed_ms = 0

        def monotonic_ms(self) -> int:
            """Return the time of all reads."""
            return self.passed_ms

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.Clock()

    def find(self, table: str, key: WireItem) -> Found:
        """Take a second."""
        self.clock.passed_ms += 1_000
        return super().find(table, key)


def test_reading_takes_a_quarter_of_the_time_at_most_and_each_delivery_gets_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The rest is for publishing."""
    table = Slow()
    table.stored |= {str(number): {} for number in range(1, 6)}
    shop = relay(Bus(), table, clock=table.clock)
    records = [other(number) for number in range(1, 6)]
    assert failures(shop.lambda_handler({"Records": records}, Context(12_000))) == ["4"]
    assert "there was no time left" in caplog.text
    assert failures(shop.lambda_handler({"Records": records[3:]}, Context(12_000))) == []
    assert table.read == ["1", "2", "3", "4", "5"]


def test_the_table_is_the_relays_or_the_streams() -> None:
    """Where neither names it nothing can be read."""
    nameless = other(1) | {"eventSourceARN": None}
    table = Table()
    table.stored["1"] = {}
    with pytest.raises(ConfigurationError, match="do not name it"):
        relay(Bus(), table).lambda_handler({"Records": [nameless]}, Context())
    assert failures(relay(Bus(), table, table="shop").lambda_handler({"Records": [nameless]}, Context())) == []


def test_a_batch_that_is_held_at_its_first_record_reports_all_else(caplog: pytest.LogCaptureFixture) -> None:
    """Records of another Region, and items that a table of records should not have."""
    caplog.set_level(logging.INFO)
    abroad = row(2, ob_v={"N": "1"}, region={"S": "us-east-1"})
    stranger = row(3)
    for image in (stranger["dynamodb"]["Keys"], stranger["dynamodb"]["NewImage"]):
        image["sk"] = {"S": "META"}
    with pytest.raises(ConfigurationError, match="other column names"):
        relay(Bus(), layout=Layout(placement="table")).lambda_handler({"Records": [other(1), abroad, stranger]}, None)
    assert "1 record was written in Region 'us-east-1'" in caplog.text
    assert "1 item was" in caplog.text


def test_items_of_a_table_of_records_that_are_none_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """With what to write, so that nothing is lost in silence."""
    layout = Layout(placement="table", prefix="EVENT#")
    shop = relay(Bus(), layout=layout)
    for _ in range(2):
        assert failures(shop.lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert caplog.text.count("2 items were") == 1
    assert "select={} is every item" in caplog.text
    assert failures(relay(Bus(), layout=layout).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert "1 item was" in caplog.text


def test_a_record_whose_compression_is_not_installed_holds_the_stream(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before it is relayed, whatever the keys; the extra that is missing is said once a batch."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    packed = {
        "ob_v": {"N": "1"},
        "key": {"S": "B"},
        "enc": {"S": "zstd"},
        "payload": {"B": "KLUv/Q=="},
        "state": {"S": "pending"},
    }
    bus = Bus()
    shop = relay(bus)
    records = [row(1), row(2, pk="B"), row(3, pk="B", **packed), row(4), row(5, pk="B", **packed)]
    assert failures(shop.lambda_handler({"Records": records}, Context())) == ["3"]
    assert sorted(short(event) for event in bus.accepted) == ["1", "2"]
    assert caplog.text.count("pip install 'dynamodb-outbox[zstd]'") == 1
    assert failures(shop.lambda_handler({"Records": records[2:]}, Context())) == ["3"]
    assert len(bus.accepted) == 2
