"""What can be a handler, told before it is called."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dynamodb_outbox.process.handlers import handler_fault


class Untold:
    """Does not tell how it is called."""

    __signature__ = "none"

    def __call__(self) -> None:
        """Do nothing."""


class Bound:
    """Has a method that is a handler, and a class that is none."""

    def handle(self, event: Any, context: Any) -> None:
        """Do nothing."""


def two(event: Any, context: Any = None) -> None:
    """Take enough."""


def three(event: Any, context: Any, more: Any) -> None:
    """Ask for too much."""


def one(event: Any) -> None:
    """Take too little."""


@pytest.mark.parametrize("fits", [Bound().handle, lambda *_: None, two, Untold(), max])
def test_what_takes_an_event_and_a_context_is_a_handler(fits: Any) -> None:
    """A method, a function with defaults, and what cannot be asked."""
    assert handler_fault(fits) is None


@pytest.mark.parametrize(
    ("unfit", "says"),
    [
        (one, "takes (event: 'Any')"),
        (partial(one, 1), "too many positional arguments"),
        (three, "missing a required argument: 'more'"),
        (Bound, "takes ()"),
        (7, "is not callable"),
    ],
)
def test_what_could_not_be_called_is_told_why(unfit: Any, says: str) -> None:
    """With what it takes."""
    assert says in str(handler_fault(unfit))
