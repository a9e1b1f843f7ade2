"""What `python -m dynamodb_outbox.testing.simulation` makes of a module that cannot be imported."""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys\nsys.exit(0)\n", "importing {} raised SystemExit: 0."),
        ("nothing.is_there\n", "importing {} raised NameError: name 'nothing' is not defined."),
        (
            "import no_such_thing\n",
            "importing {} raised ModuleNotFoundError: No module named 'no_such_thing'.",
        ),
        ("raise ValueError(7)\n", "importing {} raised ValueError: 7."),
        ("(\n", "importing {} raised SyntaxError: '(' was never closed ({}.py, line 1)."),
    ],
)
def test_a_module_that_cannot_be_imported_is_no_success(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its traceback, and a line that says so at the end; above all of one that ends the interpreter in peace."""
    name = f"handlers_{len(code)}_{len(said)}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["simulation", "--handler", f"{name}:make_handler", "--seed", "1"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dynamodb_outbox.testing.simulation", run_name="__main__")
    assert ended.value.code == 2
    *traceback, last = capsys.readouterr().err.splitlines()
    assert last == f"--handler {name}:make_handler: {said.format(name, name)}"
    assert traceback[0] == "Traceback (most recent call last):"
