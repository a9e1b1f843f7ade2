"""docs/aws-lambda.md is held to the code: its table is the table of variables, and what it shows works."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from pathlib import Path

import pytest

from dynamodb_outbox.aws_lambda import VARIABLES, relay_from
from dynamodb_outbox.errors import InvalidEnvironment
from dynamodb_outbox.sinks import Router

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs/aws-lambda.md").read_text(encoding="utf-8")
BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"


def blocks(language: str) -> list[str]:
    """Return the document's examples in a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_table_is_that_of_the_variables() -> None:
    """Line by line: a variable that is added, or changed, is in the document."""
    of_one = {each.name: f" (read by: {each.read_by[0]})" for each in VARIABLES if len(each.read_by) == 1}
    wanted = [
        f"| `{each.name}` | {each.values} | {each.unset} | {each.says}{of_one.get(each.name, '')} |"
        for each in VARIABLES
    ]
    assert [line for line in DOCUMENT.splitlines() if line.startswith("| `OUTBOX_")] == wanted


@pytest.mark.parametrize("document", ["docs/aws-lambda.md", "README.md"])
def test_no_document_names_a_variable_that_there_is_not(document: str) -> None:
    """Except the misspelt one that an error tells of."""
    named = set(re.findall(r"\bOUTBOX_[A-Z_]+", (ROOT / document).read_text(encoding="utf-8")))
    assert named - {each.name for each in VARIABLES} <= {"OUTBOX_TABEL", "OUTBOX_"}


def test_the_handlers_of_the_templates_are_there() -> None:
    """Lambda finds them by these names; a time-out is given that they can work with."""
    relay, sweep = blocks("yaml")
    for template, expected in ((relay, "relay_handler"), (sweep, "sweep_handler")):
        ((module, name),) = re.findall(r"Handler: ([\w.]+)\.(\w+)\n", template)
        assert name == expected
        assert callable(getattr(importlib.import_module(module), name))
        assert all(int(seconds) >= 15 for seconds in re.findall(r"Timeout: (\d+)", template))
    assert "ReportBatchItemFailures" in relay


def test_the_routes_are_taken() -> None:
    """The first JSON example, as OUTBOX_SINK: three destinations."""
    sink = relay_from({"OUTBOX_SINK": blocks("json")[0]}).sink
    assert isinstance(sink, Router)
    assert len(sink.sinks) == 3


def test_the_python_examples_run_and_print_what_is_shown() -> None:
    """The layout's text is the second JSON example, and is taken."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks("python"):
            exec(block, {})  # noqa: S102 -- running it is the test
    shown = blocks("json")[1]
    assert printed.getvalue() == shown
    assert relay_from({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": shown}).layout.placement == "table"
    assert json.loads(shown)


def test_the_error_reads_as_shown() -> None:
    """Both of its problems, in their order."""
    with pytest.raises(InvalidEnvironment) as caught:
        relay_from({"OUTBOX_SINK": BUS, "OUTBOX_TABEL": "shop", "OUTBOX_MAX_IN_FLIGHT": "1001"})
    assert " ".join(blocks("text")[0].split()) == str(caught.value)
