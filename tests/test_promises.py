"""`guarantees()`: the standing of each promise in set-ups that differ, and the documents that say what it says."""

from __future__ import annotations

import importlib
import itertools
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import dynamodb_outbox
from dynamodb_outbox import Layout, guarantees
from dynamodb_outbox.cli import main
from dynamodb_outbox.core.relay.commands import Settings
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.promises import PROMISES, Guarantee, SinkKind, Standing

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs/guarantees.md"

HOLDS, OBSERVED, LIMITED, NOT = Standing.HOLDS, Standing.OBSERVED, Standing.LIMITED, Standing.NOT_PROMISED

SET_UPS: dict[str, dict[str, Any]] = {
    "the default: an event bus, a sweeper": {},
    '`settle="none"`': {"layout": Layout(settle="none")},
    '`settle="delete"`': {"layout": Layout(settle="delete")},
    '`version="version"`': {"layout": Layout(version="version")},
    "no sweeper": {"sweeper": False},
    "no sweeper, and a queue for what is given up": {"sweeper": False, "keeps_records": False},
    '`on_poison="park_key"`': {"on_poison": "park_key"},
    '`on_poison="block"`': {"on_poison": "block"},
    '`ordering="none"`': {"ordering": "none", "parallelization": 10},
    "a parallelization factor of 4": {"parallelization": 4},
    "a table without a sort key": {"layout": Layout(pk="order_id", sk=None, own_partition=True)},
    "keys that are numbers": {"layout": Layout(pk_type="N")},
    "hand-written rows": {"hand_written": True},
    "a standard topic": {"sink": "topic"},
    "a FIFO topic": {"sink": "topic.fifo"},
    "a standard queue": {"sink": "queue"},
    "a FIFO queue": {"sink": "queue.fifo"},
}  # fmt: skip
"""Each of them is a row of the document."""


def standings(**arguments: Any) -> dict[str, Standing]:
    """Return the standing of each promise."""
    return {each.promise: each.standing for each in guarantees(**arguments)}


def told(promise: str, **arguments: Any) -> Guarantee:
    """Return what is said of one promise."""
    return next(each for each in guarantees(**arguments) if each.promise == promise)


def test_the_default_set_up() -> None:
    """What a table with a sort key, a sweeper and an event bus give."""
    assert standings() == {
        "P1": HOLDS, "P2": LIMITED, "P3": HOLDS, "P4": OBSERVED, "P5": LIMITED, "P6": LIMITED, "P7": HOLDS,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "promise", "standing"),
    [
        ({"ordering": "none"}, "P4", NOT),
        ({"parallelization": 2}, "P4", NOT),
        ({"layout": Layout(pk="id_", sk=None, own_partition=True)}, "P4", NOT),
        ({"sink": "queue.fifo"}, "P4", OBSERVED),
        ({"layout": Layout(placement="table")}, "P4", OBSERVED),
        ({"sweeper": False}, "P2", LIMITED),
        ({"layout": Layout(settle="none")}, "P2", LIMITED),
        ({"sink": "queue", "layout": Layout(settle="delete")}, "P2", HOLDS),
        *(({"sink": sink}, "P2", LIMITED if sink == "bus" else HOLDS) for sink in get_args(SinkKind)),
        ({"sink": "queue", "sweeper": False}, "P2", LIMITED),
        ({"sink": "queue", "on_poison": "block"}, "P2", LIMITED),
        ({"hand_written": True}, "P2", LIMITED),
        ({"on_poison": "block"}, "P2", LIMITED),
        ({"sink": "topic", "keeps_records": False}, "P2", HOLDS),
        ({"hand_written": True}, "P1", LIMITED),
        ({"hand_written": True}, "P3", HOLDS),
        ({"hand_written": True}, "P6", NOT),
        ({"layout": Layout(pk_type="N")}, "P6", NOT),
        ({"layout": Layout(placement="table", select={"kind": "E"}, sk_type="N")}, "P6", NOT),
    ],
)
def test_what_changes_a_promise(arguments: dict[str, Any], promise: str, standing: Standing) -> None:
    """One argument, one promise."""
    assert standings(**arguments)[promise] is standing


def test_nothing_but_the_named_arguments_changes_the_order() -> None:
    """P4 is observed exactly with ordering, one lane, and a sort key, whatever else is chosen."""
    sorted_table, unsorted_table = Layout(), Layout(pk="id_", sk=None, own_partition=True)
    for ordering, lanes, layout, poison, sweeper in itertools.product(
        ("key", "none"), (1, 2), (sorted_table, unsorted_table), ("park", "block"), (True, False)
    ):
        wanted = OBSERVED if (ordering, lanes, layout) == ("key", 1, sorted_table) else NOT
        arguments = {"ordering": ordering, "parallelization": lanes, "on_poison": poison, "sweeper": sweeper}
        assert standings(layout=layout, **arguments)["P4"] is wanted


def test_the_time_limits_are_those_of_the_layout() -> None:
    """Guards and published records are kept as the layout says; without records the token alone tells."""
    layout = Layout(guard_for=timedelta(days=1), published_for=timedelta(hours=36))
    why = told("P6", layout=layout).why
    assert "is kept for 1 day." in why
    assert "for 129,600 s;" in why
    assert "9 minutes, by its token alone" in told("P6", layout=Layout(settle="delete")).why


def test_what_is_not_kept_has_a_way_out() -> None:
    """Wherever a promise holds in part, or not, something is named that would change it."""
    for arguments in SET_UPS.values():
        for each in guarantees(**arguments):
            assert each.changes or each.standing is HOLDS
            assert each.why.endswith(".")


def test_a_bus_that_is_gone_takes_events_for_as_long_as_a_relay_does_not_ask() -> None:
    """The time is the relay's; of what is no bus nothing of the kind is said, and an archive is no way out."""
    assert f"again after {Settings().verified_ms // 1000} s" in told("P2").why
    assert "An archive of the bus does not help" in " ".join(told("P2").changes)
    assert "EventBridge" not in told("P2", sink="queue").why


def test_a_sweep_orders_by_versions_where_there_are_some() -> None:
    """And by clocks where there are none; without a sweeper neither is said."""
    assert "writers' clocks" in told("P4").why
    assert "writers' clocks" not in told("P4", layout=Layout(version="version")).why
    assert "writers' clocks" not in told("P4", sweeper=False).why


@pytest.mark.parametrize(
    "given",
    [
        {"layout": "x"},
        {"ordering": "any"},
        {"on_poison": None},
        {"parallelization": 11},
        {"parallelization": True},
        {"sink": "kafka"},
        {"sweeper": 1},
        {"keeps_records": "no"},
        {"hand_written": None},
    ],
)
def test_anything_else_is_refused(given: dict[str, Any]) -> None:
    """By the argument's name: a set-up that is misread would be promised something."""
    with pytest.raises(ConfigurationError, match=f"guarantees: {next(iter(given))} is"):
        guarantees(**given)


def test_the_name_of_the_package_is_the_function() -> None:
    """Whatever was imported before: no module has its name."""
    importlib.import_module("dynamodb_outbox.promises")
    assert callable(dynamodb_outbox.guarantees)


# --- the command ---


def test_the_command_says_what_the_function_says(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, and in sentences."""
    arguments = ["--settle", "none", "--on-poison", "block", "--sink", "arn:aws:sqs:eu-west-1:123456789012:a.fifo"]
    wanted = guarantees(Layout(settle="none"), on_poison="block", sink="queue.fifo", keeps_records=False)
    assert main(["guarantees", *arguments, "--no-bucket", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["promise"], each["standing"], each["why"]) for each in found] == [
        (each.promise, each.standing.value, each.why) for each in wanted
    ]
    assert [each["says"] for each in found] == list(PROMISES.values())
    assert main(["guarantees", *arguments, "--no-bucket"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for each in wanted:
        assert f"{each.promise} {each.standing.value}: " in printed
        assert each.why in printed
        assert all(change in printed for change in each.changes)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--no-sweeper", "--parallelization", "3"], {"sweeper": False, "parallelization": 3}),
        (["--hand-written", "--ordering", "none"], {"hand_written": True, "ordering": "none"}),
        (["--layout", '{"pk_type":"N"}', "--sink", "topic"], {"layout": Layout(pk_type="N"), "sink": "topic"}),
    ],
)
def test_each_argument_counts(
    arguments: list[str], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """As the function's."""
    assert main(["guarantees", *arguments, "--json"]) == 0
    found = [each["why"] for each in json.loads(capsys.readouterr().out)]
    assert found == [each.why for each in guarantees(**expected)]


def test_what_there_is_not_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """And the status for arguments that cannot be used."""
    for more in (["--sink", "kafka"], ["--sink", "arn:aws:s3:::bucket"], ["--layout", "{"]):
        assert main(["guarantees", *more]) == 2
        assert "outbox guarantees: " in capsys.readouterr().err


# --- the document ---


def document() -> dict[str, str]:
    """Return the parts of docs/guarantees.md that are made from the function."""
    names = list(PROMISES)
    table = [f"| set-up | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    plain = guarantees()
    differences = []
    for name, arguments in SET_UPS.items():
        found = guarantees(**arguments)
        table.append(f"| {name} | {' | '.join(each.standing.value for each in found)} |")
        if arguments:
            differs = [each for each, other in zip(found, plain, strict=True) if each != other]
            differences.append(f"### {name[0].upper()}{name[1:]}\n\n{_sections(differs)}")
    promises = [f"| {name} | {says} |" for name, says in PROMISES.items()]
    return {
        "promises": "\n".join(["| | promise |", "|---|---|", *promises]),
        "table": "\n".join(table),
        "default": _sections(plain),
        "differences": "\n\n".join(differences),
    }


def _sections(found: Any) -> str:
    return "\n\n".join(
        "\n".join(
            [f"**{each.promise}: {each.standing.value}.** {each.why}", *(f"- {change}" for change in each.changes)]
        )
        for each in found
    )


def test_the_document_is_made_from_the_function() -> None:
    """Part by part."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, wanted in document().items():
        (shown,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", text, re.DOTALL)
        assert shown == wanted, name
