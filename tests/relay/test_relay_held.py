"""A relay whose layout is not the writer's: what it relays, where it stops, what it says."""

from __future__ import annotations

from typing import Any

import pytest
from relay_shell import TRANSIENT, Bus, Context, failures, relay, row, short

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout


def other(number: int) -> dict[str, Any]:
    """Return a record of a writer with other columns."""
    return row(number, ob_v={"N": "1"}, ob_pending={"S": "03"}, state={"S": "pending"}, ob_columns={"S": "other"})


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
