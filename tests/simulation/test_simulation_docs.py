"""docs/simulation.md is held to the code: its examples are run, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dynamodb_outbox.testing.simulation import FAULTS, INVARIANTS, SimulationFailed, generate, run
from dynamodb_outbox.testing.simulation.choice import SETTINGS
from dynamodb_outbox.testing.simulation.scenario import Settings

pytestmark = pytest.mark.usefixtures("uncovered")

DOCUMENT = (Path(__file__).parents[2] / "docs/simulation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example_finds_both_bugs_and_then_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The relay of the document: what each step finds is what the document says, and the last one is right."""
    names: dict[str, Any] = {}
    first, second, last, parking, consuming = BLOCKS
    said = re.findall(r"```text\n(\w+): ", DOCUMENT)
    found = []
    for block in (first, second):
        exec(block, names)  # noqa: S102 -- running it is the test
        found.append(names["report"].failures[0].invariant)
        with pytest.raises(SimulationFailed, match=found[-1]):
            names["report"].check()
    assert found == said
    exec(last, names)  # noqa: S102
    assert not names["report"].failures
    printed = capsys.readouterr().out
    assert "60 runs" in printed
    (sample,) = re.findall(r"```text\n(60 runs.*?)\n…", DOCUMENT, re.DOTALL)
    assert _without_figures(sample) <= _without_figures(printed)
    exec(parking, names)  # noqa: S102
    assert not names["report"].failures
    assert any(how == "parked" for _, how in names["report"].recoveries)
    exec(consuming, {})  # noqa: S102 -- by itself


def _without_figures(text: str) -> set[str]:
    """Return the lines of a report: its figures change with the world, what it counts does not."""
    return {" ".join(re.sub(r"[0-9][0-9,]*", "#", line).split()) for line in text.splitlines()}


def test_a_timeline_of_the_document_is_one_that_is_printed() -> None:
    """To the last word: it is what a reader compares theirs with."""
    names: dict[str, Any] = {}
    exec(BLOCKS[0].partition("report = ")[0] + BLOCKS[1], names)  # noqa: S102
    (shown,) = re.findall(r"```text\n(nothing_is_lost.*?)\n```", DOCUMENT, re.DOTALL)
    assert names["report"].failures[0].text == shown


@pytest.mark.parametrize("number", [0, 3])
def test_the_records_of_the_document_are_those_of_the_writers(number: int) -> None:
    """By their attributes, with one event and with several."""
    images: list[Any] = []

    def make_handler(_: Any) -> Any:
        def handler(event: Any, _: Any) -> None:
            images.extend(one["dynamodb"]["NewImage"] for one in event["Records"] if one["eventName"] == "INSERT")

        return handler

    run(generate(number), make_handler)
    (text,) = re.findall(r"```text\n(pk .*?)\n```", DOCUMENT, re.DOTALL)
    one, several = ({*re.findall(r"(?:^|[ \n])([a-z_]+)(?=[ ,\n]|$)", part)} - {"and"} for part in text.split("\n\n"))
    for known, member in ((one, "payload"), (several, "events")):
        image = next(image for image in images if "ob_v" in image and member in image)
        assert image.keys() - {"idem", "headers", "ob_settle", "expires_at"} <= known


def rows(table: str) -> dict[str, str]:
    """Return the rows of a table of the document, which a comment names."""
    text = DOCUMENT.split(f"<!-- {table} -->")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))


def test_settings_are_as_plain_as_the_document_says() -> None:
    """The defaults are the plainest world."""
    said = {name: words.split("`")[1] for name, words in rows("settings").items()}
    assert said == {name: repr(getattr(Settings(), name)).replace("'", '"') for name in SETTINGS}


def test_the_tables_are_those_of_the_code() -> None:
    """Every invariant and every kind of fault is in the document, with its own words."""
    assert rows("faults") == dict(FAULTS)
    assert list(rows("settings")) == list(SETTINGS)
    assert rows("invariants") == {name: str(one.__doc__).splitlines()[0] for name, one in INVARIANTS.items()}
