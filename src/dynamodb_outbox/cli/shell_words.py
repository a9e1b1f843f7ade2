"""What is wrong, in the words of the shell: with an option, or with a table that another command looks at.

Nothing is checked a second time: the error says of a variable, or of an argument in Python, what is wrong with it, and
here its reason goes on after the name of the option that was typed in its place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dynamodb_outbox.core.error_codes import NO_INDEX
from dynamodb_outbox.errors import TableUnavailable
from dynamodb_outbox.errors.root import InvalidEnvironment, said_of
from dynamodb_outbox.words import failure

if TYPE_CHECKING:
    import argparse

    from dynamodb_outbox.errors import ConfigurationError, Problem

__all__ = ["in_shell_words", "with_advice"]

_PREFIX = "OUTBOX_"
_OWNERS = (
    "Deployment",
    "Load",
    "guarantees",
    "destination",
    "ParkedRecords",
    "ParkedRecords.list",
    "ParkedRecords.redrive",
    "ParkedRecords.discard",
)
"""What is called with options by their own names. An argument of anything else may be called like one by chance."""
_OTHERWISE = {"environment": ("env",), "sink": ("sink", "route")}
"""Arguments and variables that options of other names stand for: the first one that was given counts."""


def in_shell_words(error: ConfigurationError, options: argparse.Namespace) -> str:
    """Return the text of an error with the names of options that were given, or could have been."""
    given = vars(options)
    if isinstance(error, InvalidEnvironment):
        return str(InvalidEnvironment(_typed(each, given) for each in error.problems))
    if error.argument is None or error.owner not in _OWNERS:
        return str(error)
    option, _ = _option(error.argument, given)
    return str(error) if option is None else said_of(option, error.reason)


def with_advice(error: Exception) -> str:
    """Return the text of an error, with the command that helps where there is one."""
    if isinstance(error, TableUnavailable) and NO_INDEX in error.reason:
        return f"{error}. `outbox doctor --table {error.table} --layout ...` tells the command that makes it"
    return failure(error)


def _typed(problem: Problem, given: dict[str, object]) -> Problem:
    """Return a problem with the option in the place of the variable, or beside it where neither is given."""
    if problem.variable is None:
        return problem
    option, is_given = _option(problem.variable.removeprefix(_PREFIX).lower(), given)
    if option is None:
        return problem
    return problem._replace(variable=option if is_given else f"{option} is not given, and {problem.variable}")


def _option(name: str, given: dict[str, object]) -> tuple[str | None, bool]:
    """Return the option of a name, and whether it was given; None where the command has none, or a variable counts."""
    names = [each for each in _OTHERWISE.get(name, (name,)) if each in given]
    chosen = next((each for each in names if given[each] is not None), None)
    if not names or (chosen is None and os.environ.get(f"{_PREFIX}{name.upper()}", "").strip()):
        return None, False
    return f"--{(chosen or names[0]).replace('_', '-')}", chosen is not None
