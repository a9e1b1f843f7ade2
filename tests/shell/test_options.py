"""Options are typed whole, and the one that there is none of is named, whatever else is missing."""

from __future__ import annotations

import importlib
import sys

import pytest

from dynamodb_outbox.cli import main
from dynamodb_outbox.process.options import OptionParser

PROGRAMS = (
    "dynamodb_outbox.local.__main__",
    "dynamodb_outbox.local.source",
    "dynamodb_outbox.local.queue",
    "dynamodb_outbox.local.deployed",
    "dynamodb_outbox.testing.faultbus.__main__",
    "dynamodb_outbox.testing.simulation.__main__",
)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("infra", "sam", "--tabel", "shop"), "there is no option --tabel; did you mean --table?"),
        (("doctor", "--templat", "x.yaml"), "there is no option --templat; did you mean --template?"),
        (("parked", "discard", "--reson=old"), "there is no option --reson; did you mean --reason?"),
        (("parked", "--id", "list"), "there is no option --id"),
        (("status", "--xyzzy"), "there is no option --xyzzy\n"),
        (("--verison",), "there is no option --verison; did you mean --version?"),
    ],
)
def test_a_misspelt_option_is_named(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command that has it, before what it was meant for is missed; a beginning of an option is none."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_says_so(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By argparse's status."""
    monkeypatch.setattr(sys, "argv", ["program", "--nonsense"])
    loaded = importlib.import_module(program)
    if program.endswith(".__main__"):
        del sys.modules[program]  # for whoever runs it later: runpy warns of one that has been imported
    with pytest.raises(SystemExit) as ended:
        loaded.main()
    assert ended.value.code == 2
    assert "there is no option --nonsense" in capsys.readouterr().err


def test_what_only_looks_like_an_option_is_none() -> None:
    """Text with a space in it, and whatever comes behind `--`."""
    parser = OptionParser()
    parser.add_argument("--reason")
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args(["--reason", "--- no more", "--", "--other"])
    assert (given.reason, given.rest) == ("--- no more", ["--other"])
