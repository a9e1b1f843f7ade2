"""docs/relay.md is held to the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynamodb_outbox.core.relay.commands import Settings
from dynamodb_outbox.core.relay.states import DONE, TRANSITIONS, State, diagram
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import sink_from_arn

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/relay.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_diagram_is_made_from_the_table() -> None:
    """To the last character; it has each transition once."""
    (shown,) = re.findall(r"<!-- diagram -->\n```mermaid\n(.*?)\n```\n<!-- end of diagram -->", DOCUMENT, re.DOTALL)
    assert shown == diagram()
    moves = re.findall(r"^    (\w+) --> (\w+): (\w+)$", shown, re.MULTILINE)
    assert sorted(moves) == sorted((a.name, b.name, cause.name.lower()) for (a, cause), b in TRANSITIONS.items())
    assert {state for state in State if f"{state.name} --> [*]" in shown} == DONE


def test_every_part_that_the_document_names_exists() -> None:
    """By the names of the modules."""
    table = DOCUMENT.split("| part | decides |")[1].split("\n\n")[0]
    folder = ROOT / "src/dynamodb_outbox/core/relay"
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert named
    assert all((folder / f"{name}.py").exists() for name in named)


def test_the_figures_of_the_document_are_those_of_the_code() -> None:
    """A minute, five failures, fifty milliseconds to five seconds, ten parks, 25 and 100 a call."""
    settings = Settings()
    assert (settings.verified_ms, settings.park_window_ms, settings.breaker_cap_ms) == (60_000,) * 3
    assert (settings.breaker_failures, settings.breaker_base_ms) == (5, 1000)
    assert (settings.backoff_base_ms, settings.backoff_cap_ms) == (50, 5000)
    assert (settings.park_limit, settings.settle_batch, settings.read_batch) == (10, 25, 100)


@pytest.mark.parametrize("arn", ["events:{}:event-bus/b", "sns:{}:t", "sqs:{}:q"])
def test_the_time_outs_of_the_readme_fit_and_no_second_less(arn: str, caplog: pytest.LogCaptureFixture) -> None:
    """The one that fits every sink, and what it says of buses and topics; with clients that the library makes."""
    (told,) = re.findall(r"a time-out of (\d+) s or more.*: (\d+) s for a bus or a topic, (\d+) s for a queue", README)
    all_of_them, bus_or_topic, queue = map(int, told)
    assert all_of_them == max(bus_or_topic, queue)
    seconds = queue if arn.startswith("sqs") else bus_or_topic
    for left_ms, warned in ((seconds * 1000 - 1, False), (seconds * 1000 - 1001, True)):
        sink = sink_from_arn(f"arn:aws:{arn.format('eu-west-1:123456789012')}")
        relay = Relay(sink)
        relay._margins.deadlines(left_ms, left_ms, relay._table_request_ms)
        assert ("hangs" in caplog.text) is (warned and not arn.startswith("sns"))
