"""What is wrong, in the words of the shell: with an option, or with a table that another command looks at.

Nothing is checked a second time: the same text says of a variable, or of an argument in Python, what is wrong with it,
and here it names what was typed in its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dynamodb_outbox.core.error_codes import NO_INDEX
from dynamodb_outbox.errors import TableUnavailable

if TYPE_CHECKING:
    import argparse

__all__ = ["in_shell_words", "with_advice"]

_UNSET = re.compile(r"(OUTBOX_([A-Z_]+)) is not set, and names")
_NAMED = re.compile(r"(^|\(\d+\) |, and )(?:OUTBOX_([A-Z_]+)|(?:Deployment|Load|guarantees): ([a-z_]+))(?=[: ])")
"""Where a text begins, one of several, or goes on to a second name: a list of all names is left as it is."""
_MADE_OF = re.compile(r"\bsink_from_arn\((.*?)\):")


def in_shell_words(text: str, options: argparse.Namespace) -> str:
    """Return the text of an error with the names of options that were given, or could have been."""
    known = vars(options)

    def unset(found: re.Match[str]) -> str:
        name = found[2].lower()
        return f"{_option(name)} is not given, and {found[1]} not set: it names" if name in known else found[0]

    def named(found: re.Match[str]) -> str:
        name = found[3] or found[2].lower()
        return found[1] + _option(name) if known.get(name) not in (None, "") else found[0]

    return _MADE_OF.sub(r"\1:", _NAMED.sub(named, _UNSET.sub(unset, text)))


def with_advice(error: Exception) -> str:
    """Return the text of an error, with the command that helps where there is one."""
    if isinstance(error, TableUnavailable) and NO_INDEX in error.reason:
        return f"{error}. `outbox doctor --table {error.table} --layout ...` tells the command that makes it"
    return str(error)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
