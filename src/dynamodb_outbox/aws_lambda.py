"""Ready-made Lambda functions, configured by environment variables alone: no code of the user's is deployed.

`relay_handler` is the function to name in Lambda; `variables` has the table of what it reads, docs/aws-lambda.md shows
it. Importing this module loads all that a relay needs, boto3 above all, so that Lambda's initialisation pays for it. It
reads nothing and makes nothing: no client, no thread, no random number that a restored snapshot or a fork would share,
and a tool that imports it needs no variable set.

The environment is read at the first invocation of a process, once. When it cannot work, that is logged as an error
once, and this invocation and all after it fail with InvalidEnvironment: an answer without failures would drop the
batch. The event source delivers it again, and to the process of the next deployment as well, so that nothing is lost
while the stream keeps its records.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.environment.settings import FunctionSettings, layout_text, settings_of
from dynamodb_outbox.environment.variables import VARIABLES, Variable
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VARIABLES", "Variable", "layout_text", "relay_from", "relay_handler"]

_log = logging.getLogger(__name__)
_library = logging.getLogger("dynamodb_outbox")


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


class _OneRelay:
    """The relay of this process, made when it is first asked for; or the reasons why there is none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._making = threading.Lock()
        self._relay: Relay | None = None
        self._problems: tuple[str, ...] = ()

    def get(self) -> Relay:
        with self._making:
            if self._problems:
                raise InvalidEnvironment(self._problems)  # a new one: each raise of the same one would add to its trace
            if self._relay is None:
                self._relay = self._made()
            return self._relay

    def _made(self) -> Relay:
        try:
            settings = settings_of(self._environment)
            relay = _relay(settings)
        except InvalidEnvironment as error:
            self._problems = error.problems
            _log.error("nothing is relayed until these environment variables are corrected: %s", error)
            raise
        if settings.log_level is not None:
            _log_from(settings.log_level)
        _log.info("relaying to %r", settings.sink)
        return relay


_ours = _OneRelay(os.environ)


def _relay(settings: FunctionSettings) -> Relay:
    try:
        return Relay(settings.sink, layout=settings.layout, **settings.relay)
    except ConfigurationError as error:
        raise InvalidEnvironment([f"what the variables say does not go together: {error}"]) from None


def _log_from(level: str) -> None:
    """Set what this library logs; where nothing at all is set up to write it, as in a plain process, write it."""
    _library.setLevel(level)
    if not _library.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        _library.addHandler(handler)
