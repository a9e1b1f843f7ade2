"""docs/relay.md is held to the code."""

from __future__ import annotations

import re
from pathlib import Path

from dynamodb_outbox.core.relay.commands import Settings
from dynamodb_outbox.core.relay.states import DONE, TRANSITIONS, State, diagram

DOCUMENT = (Path(__file__).parents[2] / "docs/relay.md").read_text(encoding="utf-8")


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
    folder = Path(__file__).parents[2] / "src/dynamodb_outbox/core/relay"
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
