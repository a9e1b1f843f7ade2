"""The functions of a consumer: which takes an event, and what may be registered as one.

A function that would not run when it is called, or that cannot be called with what it is given, is refused when it is
registered: each of its events would fail, or worse, would be acknowledged without an effect.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import ConfigurationError, UnhandledEvent

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["Functions"]

F = TypeVar("F", bound=Callable[..., object])


class Functions:
    """The functions of the consumer named `consumer`; each is called with what `example` shows: `def f(event, tx):`."""

    def __init__(self, consumer: str, example: str, arguments: int) -> None:
        self._consumer = consumer
        self._example = example
        self._arguments = arguments
        self._by_type: dict[str, Callable[..., object]] = {}
        self._otherwise: Callable[..., object] | None = None
        self._loops: Any = None

    def register(self, event_type: str, function: F) -> F:
        """Take a function for the events of one type. Raises ConfigurationError."""
        if event_type in self._by_type:
            raise ConfigurationError(f"inbox.on({event_type!r}): a function is registered for this type already.")
        self._by_type[event_type] = self._checked(function)
        return function

    def register_otherwise(self, function: F) -> F:
        """Take a function for the events that have none of their own. Raises ConfigurationError."""
        if self._otherwise is not None:
            raise ConfigurationError("inbox.consumer: a function for all types is registered already.")
        self._otherwise = self._checked(function)
        return function

    def of(self, event: Event) -> Callable[..., object]:
        """Return the function that takes an event. Raises UnhandledEvent."""
        function = self._by_type.get(event.type, self._otherwise)
        if function is None:
            raise UnhandledEvent(event.type, self._consumer)
        return function

    def run(self, function: Callable[..., object], event: Event, *more: object) -> None:
        """Have a function do its work on an event of its own; a coroutine is run to its end.

        What one run changes in the data, another run does not see.

        Raises what the function raises; RuntimeError for an interruption that was meant for nobody but the function
        itself; ConfigurationError when it returned other work that is still to be done: committing would record an
        effect that nobody made.
        """
        try:
            self._run(function, replace(event), *more)
        except BaseException as error:
            if not _is_its_own(error):
                raise
            said = f"the function let a {type(error).__name__} out of what it ran; its work is not done"
            raise RuntimeError(said) from error

    def _run(self, function: Callable[..., object], event: Event, *more: object) -> None:
        result = function(event, *more)
        if inspect.iscoroutine(result):
            if self._loops is None:
                # With asyncio, which takes longer to load than all of this, and few functions need.
                self._loops = importlib.import_module("dynamodb_outbox.consume.awaiting").EventLoops()
            self._loops.run(result)
        elif inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            if inspect.isgenerator(result):
                result.close()
            raise ConfigurationError(
                f"the function for {event.type!r} events returned a {type(result).__name__}: its work was not done. Do "
                "the work in the function itself."
            )

    def _checked(self, function: F) -> F:
        if not callable(function):
            raise ConfigurationError(f"inbox: {shown(function)} is no function.")
        for code in (function, type(function).__call__):
            if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
                raise ConfigurationError(f"inbox: {shown(function)} is a generator, and would not run when called.")
        self._check_arguments(function)
        return function

    def _check_arguments(self, function: Callable[..., object]) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some that are written in C do not tell
            return
        try:
            signature.bind(*([None] * self._arguments))
        except TypeError as error:
            raise ConfigurationError(
                f"inbox: {shown(function)} is called as in {self._example!r}. It takes {signature}: {error}."
            ) from None


def _is_its_own(error: BaseException) -> bool:
    """Whether an error is no Exception, and ends nothing but what the function itself had begun.

    Cancelled and closed is what somebody awaits or iterates over, and no consumer does so with a function. What ends
    the process (KeyboardInterrupt, SystemExit), or its thread in the way of some library, is for others.
    """
    asyncio = sys.modules.get("asyncio")  # it takes long to load, and who has not loaded it cannot raise its errors
    cancelled = () if asyncio is None else (asyncio.CancelledError,)
    if isinstance(error, Exception):
        return False
    several = getattr(error, "exceptions", None)  # of a group, which is no Exception where one of them is none
    if isinstance(several, tuple):
        return all(isinstance(each, Exception) or _is_its_own(each) for each in several)
    return isinstance(error, (GeneratorExit, *cancelled))
