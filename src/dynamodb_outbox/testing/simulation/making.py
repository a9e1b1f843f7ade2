"""What makes the handlers of runs, looked at before anything runs.

An instance of a function is a process: it imports a module and has a handler. Here it calls a function with its world,
and that returns the handler. So nobody gives a handler itself, which would be shared by all instances and all runs;
and where runs are shared by processes of this machine, each of them has to find the function by its name.
"""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.testing.simulation.world import MakeConsumer, MakeHandler

__all__ = ["Made"]


@dataclass(frozen=True)
class Made:
    """What makes the handlers of a run, each from the world of a new instance.

    handler     of the relay, from a `FunctionWorld`. It may be called for several instances and destinations at once
    sweeper     of a sweeper, which publishes in half of the runs what the stream has left behind, from a
                `FunctionWorld`; `sweeper_handler` makes this library's own. None: there is no sweeper
    consumer    of a consumer behind the buses, from a `ConsumerWorld`; `consumer_handler` makes this library's own
                inbox. It is there in a fifth of the runs, in all with settings={"consumers": 2}, and is asked to apply
                each event once. None: there is no consumer

    Raises ConfigurationError for what cannot be called with a world alone, as a handler in the place of what makes it.
    """

    handler: MakeHandler
    sweeper: MakeHandler | None = None
    consumer: MakeConsumer | None = None

    def __post_init__(self) -> None:
        for argument, make in self._given():
            _check(make, "" if argument == "make_handler" else f"{argument}=")

    def check_sendable(self, processes: int) -> None:
        """Raise ConfigurationError when one of them cannot be sent to other processes."""
        for argument, make in self._given():
            _check_sendable(make, argument, processes)

    def _given(self) -> Iterator[tuple[str, Any]]:
        """Yield those that there are, each as `simulate` calls it."""
        yield "make_handler", self.handler
        if self.sweeper is not None:
            yield "sweeper", self.sweeper
        if self.consumer is not None:
            yield "consumer", self.consumer


def _check_sendable(make: Any, argument: str, processes: int) -> None:
    try:
        pickle.dumps(make)
    except Exception as error:
        name = getattr(make, "__qualname__", repr(make))
        raise ConfigurationError(
            f"simulate({name}, processes={processes}): other processes find {argument} by its name, so it has to be "
            "a function at the top of a module, no lambda and none that another one makes; or processes=1."
        ) from error


def _check(make: Any, argument: str) -> None:
    """Raise ConfigurationError for what cannot be called with a world; `argument` is said before it."""
    if not callable(make):
        raise ConfigurationError(
            f"simulate({argument}{make!r}): takes a function that gets a world and returns the handler."
        )
    try:
        signature = inspect.signature(make)
    except ValueError:
        return  # of something built in, which does not tell
    try:
        signature.bind(object())
    except TypeError:
        name = getattr(make, "__name__", repr(make))
        raise ConfigurationError(
            f"simulate({argument}{name}): {name}{signature} cannot be called with a world alone. simulate takes a "
            f"function that returns the handler, not the handler: simulate({argument}lambda world: {name}), and let it "
            "take its clients from the world."
        ) from None
