"""docs/sinks.md is held to the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from stand_ins import HttpStandIn, WebhookService
from wrong_sinks import WRONG

from dynamodb_outbox.core.limits import EVENTBRIDGE, SNS, SQS
from dynamodb_outbox.sinks import EventBridge, Sns, Sqs
from dynamodb_outbox.testing.sink_contract import CHECKS, StandIn

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "sinks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_sinks_that_are_shown_can_be_made() -> None:
    """As they stand."""
    shown: dict[str, Any] = {}
    exec(EXAMPLES[0], shown)  # noqa: S102 -- running it is the test
    assert (type(shown["orders"]), type(shown["crm"]), type(shown["same"])) == (EventBridge, Sns, Sqs)
    assert (shown["audit"].fifo, shown["crm"].fifo) == (True, False)
    assert shown["router"].sinks == (shown["orders"], shown["audit"], shown["crm"])
    assert len(shown["by_tenant"].sinks) == 3


def test_the_contract_is_run_as_shown() -> None:
    """With a stand-in for the one that the reader brings."""
    shown: dict[str, Any] = {"MyStandIn": lambda: HttpStandIn(WebhookService())}
    exec(EXAMPLES[1], shown)  # noqa: S102 -- running it is the test
    (mark,) = shown["test_my_sink_keeps_the_contract"].pytestmark
    assert mark.args == ("check", CHECKS)
    shown["test_my_sink_keeps_the_contract"](CHECKS[0])


def test_every_check_is_listed() -> None:
    """In the order in which they run; and each has a wrong sink, as it says."""
    listed = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert listed == [check.__name__ for check in CHECKS]
    assert set(listed) == {name for _, name in WRONG}


def test_what_a_stand_in_has_is_listed() -> None:
    """The methods that the reader has to write."""
    named = set(re.findall(r"(\w+)\(", EXAMPLES[1].partition("# ")[2].partition("\n")[0]))
    assert named == {name for name in vars(StandIn) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("shown", "limits"), [("10, less than 1 MiB", EVENTBRIDGE), ("10, 256 KiB", SNS), ("10, 1 MiB", SQS)]
)
def test_the_limits_are_those_of_the_code(shown: str, limits: Any) -> None:
    """Entries and bytes of a request."""
    (row,) = re.findall(r"^\| entries, bytes together \|.*$", TEXT, re.MULTILINE)
    assert shown in row
    number, unit = re.findall(r"(\d+) ([KM])iB", shown)[0]
    most = int(number) * {"K": 1024, "M": 1024**2}[unit] - shown.count("less")
    assert (limits.entries, limits.request_bytes, limits.entry_bytes) == (10, most, most)


@pytest.mark.parametrize("sink", [EventBridge, Sns, Sqs])
def test_permissions_are_told_where_they_are_needed(sink: Any) -> None:
    """In the table, and in the docstring of `verify`."""
    (needed,) = set(re.findall(r"`(\w+:\w+)`", sink.verify.__doc__))
    assert f"`{needed}`" in TEXT


def test_links_lead_somewhere() -> None:
    """Every relative link names a file that is there."""
    targets = re.findall(r"\]\((?!https?://)([^)#]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
