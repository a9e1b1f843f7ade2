"""The command lines of `outbox` that documents show."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.cli import _parser

if TYPE_CHECKING:
    import argparse

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ALONE = ("infra", "package", "guarantees", "cost")
"""Commands that ask no account."""


@dataclass(frozen=True)
class Shown:
    """A command line of `outbox` that a document shows, and the file that its output goes to."""

    arguments: tuple[str, ...]
    to: str | None = None

    @property
    def options(self) -> argparse.Namespace:
        """What the parser makes of it."""
        return _parser().parse_args(self.arguments)

    @property
    def asks_an_account(self) -> bool:
        """Whether it would ask an account for something."""
        return self.options.command not in ALONE and getattr(self.options, "template", None) is None


def shown_in(text: str) -> list[Shown]:
    """Return the command lines of a document, in order; then those in its sentences that are whole by themselves."""
    lines = re.findall(r"^\$ outbox (.*?)(?: +#.*?)?(?: > (\S+))?$", text, re.MULTILINE)
    inline = re.findall(rf"`outbox ((?:{'|'.join(ALONE)})\b[^`]*)`", text)
    of_sentences = [Shown(tuple(shlex.split(each))) for each in dict.fromkeys(inline) if "|" not in each]
    return [*(Shown(tuple(shlex.split(line)), to or None) for line, to in lines), *of_sentences]
