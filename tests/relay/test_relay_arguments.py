"""What a relay is made with and called with: what is refused, and what it is warned of."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from relay_shell import ARN, Bus, Context, Table, failures, relay, row

from dynamodb_outbox.core.record.parked_keys import KeysFound
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, TableMismatch
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge


def test_time_outs_that_do_not_fit_the_function_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """And it still publishes, in the first half of its time."""
    bus = Bus()
    bus.request_ms = 60_000
    made = relay(bus)
    for number in (1, 2):
        assert failures(made.lambda_handler({"Records": [row(number)]}, Context())) == []
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "60350 ms" in warning
    assert "the 10000 ms here" in warning


@pytest.mark.parametrize(("bus_ms", "table_ms"), [(4_500, 250), (100, 9_750), (100, 3_000), (48_000, 250)])
def test_the_time_out_that_the_warning_asks_for_is_enough(
    bus_ms: int, table_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A function that is given it is not warned of, though a little of it has passed; one with a second less is."""
    bus, table = Bus(), Table()
    bus.request_ms, table.request_ms = bus_ms, table_ms
    relay(bus, table).lambda_handler({"Records": [row(1)]}, Context(2_999))
    found = re.search(r"time-out of at least (\d+) s", caplog.text)
    assert found
    for left_ms, warned in ((int(found[1]) * 1000 - 1, False), (int(found[1]) * 1000 - 1001, True)):
        caplog.clear()
        relay(bus, table).lambda_handler({"Records": [row(1)]}, Context(left_ms))
        assert ("hangs" in caplog.text) is warned


@pytest.mark.parametrize(("on_poison", "warned"), [("park", False), ("park_key", True)])
def test_requests_about_parked_keys_count_where_keys_are_parked(
    on_poison: Any, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A relay that only parks records makes none."""
    made = relay(Bus(), on_poison=on_poison)
    slow: Any = SimpleNamespace(request_ms=9_000, read=lambda *_: KeysFound(frozenset(), frozenset()))
    made._parked_keys = slow
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert ("one to the table can take 9350 ms" in caplog.text) is warned


def test_no_time_out_is_advised_that_a_function_cannot_have(caplog: pytest.LogCaptureFixture) -> None:
    """With clients that wait for ever only the clients can be changed."""
    bus = Bus()
    bus.request_ms = 24 * 60 * 60 * 1000
    relay(bus).lambda_handler({"Records": [row(1)]}, Context())
    assert "Give the clients shorter time-outs" in caplog.text


def test_a_relay_shows_what_it_does() -> None:
    """Where to, of which table if it was told, and its two ways."""
    assert repr(Relay(EventBridge("orders"))) == "Relay(EventBridge('orders'), ordering='key', on_poison='park')"
    made = Relay(EventBridge("orders"), table="shop", ordering="none", on_poison="block")
    assert repr(made) == "Relay(EventBridge('orders'), table='shop', ordering='none', on_poison='block')"


def test_a_sink_that_is_a_name_is_answered_with_the_line_to_write() -> None:
    """The most likely first mistake."""
    with pytest.raises(ConfigurationError, match=r"Relay takes a sink, as in Relay\(EventBridge\('orders'\)\)"):
        Relay(cast("Any", "orders"))


def test_a_client_of_another_service_is_refused_when_the_relay_is_made() -> None:
    """With the names of both services."""
    events = boto3.client("events", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with pytest.raises(ConfigurationError, match=r"'events'.*'dynamodb'"):
        Relay(Bus(), client=events)


def test_the_source_of_hand_written_rows() -> None:
    """The table's name, unless the relay says otherwise."""
    bus = Bus()
    relay(bus).lambda_handler({"Records": [row(1)]}, Context())
    relay(bus, source="shop.orders").lambda_handler({"Records": [row(1)]}, Context())
    assert [event.source for event in bus.accepted] == ["shop", "shop.orders"]


def test_the_table_must_be_known() -> None:
    """From the ARN, all of one table, or from the argument."""
    nameless = row(1)
    del nameless["eventSourceARN"]
    other = row(2) | {"eventSourceARN": ARN.replace("shop", "other")}
    for records in ([nameless], [row(1), other]):
        with pytest.raises(ConfigurationError, match="table="):
            relay(Bus()).lambda_handler({"Records": records}, Context())
    assert failures(relay(Bus(), table="shop").lambda_handler({"Records": [nameless]}, Context())) == []


@pytest.mark.parametrize("more", [{}, {"ob_columns": {"S": "0" * 16}}], ids=["its layout", "another layout"])
def test_records_of_another_table_than_was_named_are_neither_relayed_nor_passed_over(more: dict[str, Any]) -> None:
    """Its moves would be made in the wrong table, and a record that is not there would count as one that is done."""
    bus, table = Bus(), Table()
    table.stored = {"2": {}}  # a table that knows nothing of it
    record = row(2, ob_v={"N": "1"}, ob_pending={"S": "00"}, state={"S": "pending"}, **more)
    with pytest.raises(TableMismatch, match=r"table 'orders'.*stream of 'shop'") as caught:
        relay(bus, table, table="orders").lambda_handler({"Records": [record]}, Context())
    assert (caught.value.table, caught.value.streamed) == ("orders", ("shop",))
    assert (bus.calls, table.settled, table.parked, table.read) == (0, [], [], [])


def test_a_tables_arn_is_its_name() -> None:
    """In requests to the table, and as the source of rows that name none."""
    bus, table = Bus(), Table()
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop"
    assert failures(relay(bus, table, table=arn).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert table.settled == ["OUTBOX#1"]
    assert [event.source for event in bus.accepted] == ["shop"]


OTHER_SOURCES: dict[str, Any] = {
    "aws:sqs": {"Records": [{"messageId": "1", "body": "{}", "eventSource": "aws:sqs"}]},
    "aws:sns": {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "{}"}}]},
    "aws:kinesis": {
        "Records": [{"eventSource": "aws:kinesis", "eventName": "aws:kinesis:record", "kinesis": {"data": "e30="}}]
    },
    "shop.orders": {"version": "0", "source": "shop.orders", "detail-type": "order.placed", "detail": {}},
    "nobody": {"Records": ["text"]},
    "Records.0. comes from nobody": {"Records": [None]},
    "has no Records": {},
    "no Records": {"Records": None},
    "stream": [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {}}],  # as EventBridge Pipes hand on
}


@pytest.mark.parametrize("source", OTHER_SOURCES)
def test_another_event_source_is_an_error_that_names_it(source: str) -> None:
    """An empty answer would read as success, and a queue would delete what nobody published."""
    bus = Bus()
    with pytest.raises(ConfigurationError, match=f"{source}.*DynamoDB stream|DynamoDB {source}"):
        relay(bus).lambda_handler(OTHER_SOURCES[source], Context())
    assert bus.calls == 0


def test_one_record_of_another_source_among_good_ones_fails_the_invocation() -> None:
    """Before anything is published."""
    bus = Bus()
    with pytest.raises(ConfigurationError, match=r"Records\[1\] comes from aws:sqs"):
        relay(bus).lambda_handler({"Records": [row(1), {"eventSource": "aws:sqs", "body": ""}]}, Context())
    assert bus.calls == 0


def test_a_wrong_view_type_fails_the_invocation() -> None:
    """Nothing of the batch counts as done."""
    record = row(1)
    del record["dynamodb"]["NewImage"]
    with pytest.raises(ImageMissing):
        relay(Bus()).lambda_handler({"Records": [record]}, Context())


SOURCES: list[dict[str, Any]] = [{"source": ""}, {"source": "aws.shop"}, {"source": "s" * 257}]
WRONG: list[dict[str, Any]] = [
    {"ordering": "fifo"},
    {"ordering": []},
    {"max_in_flight": 0},
    {"max_in_flight": "3"},
    {"max_in_flight": True},
    {"max_in_flight": 2.5},
    {"sink": None},
    {"sink": "orders"},
    {"sink": Bus},
    {"layout": "pk"},
    {"client": "dynamodb"},
    {"table": ""},
    {"table": 5},
    {"source": 5},
    *SOURCES,
]


@pytest.mark.parametrize("options", WRONG)
def test_arguments_that_cannot_work(options: dict[str, Any]) -> None:
    """Refused when the relay is made, by name."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Relay(**{"sink": Bus(), **options})


@pytest.mark.parametrize("said", [None, "soon", True, float("nan")])
def test_a_context_that_does_not_say_what_is_left_counts_as_none(said: Any) -> None:
    """A stand-in of a test, say: the relay has its minute."""
    context = Context()
    context.remaining_ms = said
    assert failures(relay(Bus()).lambda_handler({"Records": [row(1)]}, context)) == []
