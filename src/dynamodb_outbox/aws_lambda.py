"""Ready-made Lambda functions, configured by environment variables alone: no code of the user's is deployed.

`relay_handler` and `sweep_handler` are the functions to name in Lambda; `variables` has the table of what they read,
docs/aws-lambda.md shows it. Importing this module loads all that a relay needs, boto3 above all, so that Lambda's
initialisation pays for it; what a sweeper needs besides is loaded when it is first invoked. It reads nothing and makes
nothing: no client, no thread, no random number that a restored snapshot or a fork would share, and a tool that imports
it needs no variable set.

The environment is read at the first invocation of a process, once. When it cannot work, that is logged as an error
once, and this invocation and all after it fail with InvalidEnvironment: an answer without failures would drop the
batch. The event source delivers it again, and to the process of the next deployment as well, so that nothing is lost
while the stream keeps its records.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dynamodb_outbox.environment.settings import FunctionSettings, layout_from, layout_text, settings_of
from dynamodb_outbox.environment.variables import RELAY, SWEEP, VARIABLES, Variable
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment, Problem
from dynamodb_outbox.metrics import EmfMetrics
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.recover.sweeper import Sweeper

__all__ = [
    "VARIABLES",
    "Variable",
    "layout_from",
    "layout_text",
    "relay_from",
    "relay_handler",
    "sweep_handler",
    "sweeper_from",
]

_log = logging.getLogger(__name__)
_library = logging.getLogger("dynamodb_outbox")

T = TypeVar("T")


def relay_from(environment: Mapping[str, str]) -> Relay:
    """Return the relay that `relay_handler` would make of these variables; makes no client and sends nothing.

    For a test of the variables that a template sets. Raises InvalidEnvironment with all that is wrong.
    """
    return _relay(settings_of(environment))


def relay_handler(event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """Relay one batch of stream records, as the environment says; the function to name in Lambda.

    Returns and raises as `Relay.lambda_handler` does; besides, raises InvalidEnvironment when the variables that are
    set cannot work.
    """
    return _ours.get().lambda_handler(event, context)


def sweeper_from(environment: Mapping[str, str]) -> Sweeper:
    """Return the sweeper that `sweep_handler` would make of these variables; makes no client and sends nothing.

    Raises InvalidEnvironment with all that is wrong.
    """
    return _sweeper(settings_of(environment, SWEEP))


def sweep_handler(event: Any, context: Any) -> dict[str, Any]:
    """Sweep the outbox once, as the environment says; the function to name in Lambda, behind a schedule.

    Returns and raises as `Sweeper.lambda_handler` does; besides, raises InvalidEnvironment when the variables that are
    set cannot work.
    """
    return _our_sweeper.get().lambda_handler(event, context)


class _One(Generic[T]):
    """What a function of this process works with, made when it is first asked for; or the reasons why there is none.

    `does` says in the log what it does.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        function: str,
        make: Callable[[FunctionSettings], T],
        does: tuple[str, str],
    ) -> None:
        self._environment = environment
        self._function = function
        self._make = make
        self._does, self._is_done = does
        self._making = threading.Lock()
        self._made: T | None = None
        self._problems: tuple[Problem, ...] = ()

    def get(self) -> T:
        with self._making:
            if self._problems:
                raise InvalidEnvironment(self._problems)  # a new one: each raise of the same one would add to its trace
            if self._made is None:
                self._made = self._first()
            return self._made

    def _first(self) -> T:
        try:
            settings = settings_of(self._environment, self._function)
            made = self._make(settings)
        except InvalidEnvironment as error:
            self._problems = error.problems
            _log.error("nothing is %s until these environment variables are corrected: %s", self._is_done, error)
            raise
        if settings.log_level is not None:
            _log_from(settings.log_level)
        _log.info("%s %r", self._does, settings.sink)
        return made


def _relay(settings: FunctionSettings) -> Relay:
    try:
        return Relay(settings.sink, layout=settings.layout, observer=_observer(settings), **settings.arguments)
    except ConfigurationError as error:
        raise _do_not_go_together(error) from None


def _sweeper(settings: FunctionSettings) -> Sweeper:
    from dynamodb_outbox.recover.sweeper import Sweeper  # noqa: PLC0415 -- a relay's cold start does without

    try:
        return Sweeper(settings.sink, layout=settings.layout, observer=_observer(settings), **settings.arguments)
    except ConfigurationError as error:
        raise _do_not_go_together(error) from None


def _observer(settings: FunctionSettings) -> EmfMetrics | None:
    return EmfMetrics() if settings.metrics else None


def _do_not_go_together(error: ConfigurationError) -> InvalidEnvironment:
    return InvalidEnvironment([Problem(None, f"what the variables say does not go together: {error}")])


def _one_relay(environment: Mapping[str, str]) -> _One[Relay]:
    return _One(environment, RELAY, _relay, ("relaying to", "relayed"))


def _one_sweeper(environment: Mapping[str, str]) -> _One[Sweeper]:
    return _One(environment, SWEEP, _sweeper, ("sweeping to", "swept"))


_ours = _one_relay(os.environ)
_our_sweeper = _one_sweeper(os.environ)


def _log_from(level: str) -> None:
    """Set what this library logs; where nothing at all is set up to write it, as in a plain process, write it."""
    _library.setLevel(level)
    if not _library.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        _library.addHandler(handler)
