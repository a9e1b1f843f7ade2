"""The demo's functions: what they find in their environment, and whether they can be loaded at all.

A function that cannot be loaded fails every invocation, which to the account looks like a relay that loses events. So
a function of the user's is loaded once before anything is started, in a process of its own, as it will be in the demo:
with the same variables, but with nothing behind the address of AWS yet. A module that calls AWS when it is imported
fails then in whatever way it likes, or waits: only a failure that has nothing to do with AWS is taken for an answer.
After any other the function is loaded once more when the engine and the tables are there, and that decides.
"""

from __future__ import annotations

import os
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT
from dynamodb_outbox.local.demo.names import CONSUMER_TABLE, INVOICES_BUS, LEDGER_TABLE, bus_of, table_of
from dynamodb_outbox.local.demo.settings import CONSUMER, RELAY
from dynamodb_outbox.local.environment import child_environment, function_environment
from dynamodb_outbox.local.function import FunctionProcess

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dynamodb_outbox.core.eventsource.answers import FunctionFailed
    from dynamodb_outbox.local.demo.settings import Settings

__all__ = [
    "CONSUMER_ENVIRONMENT",
    "LEDGER_ENVIRONMENT",
    "RELAY_ENVIRONMENT",
    "SECOND_RELAY_ENVIRONMENT",
    "FunctionUnusable",
    "check_again",
    "check_functions",
]

RELAY_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"ORDERS_BUS": bus_of("outbox"), "ORDERS_TABLE": table_of("outbox")}
)
"""What the relay is told, besides where AWS is."""
CONSUMER_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"BILLING_TABLE": CONSUMER_TABLE})
"""What the consumer is told, besides where AWS is."""
SECOND_RELAY_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"ORDERS_BUS": INVOICES_BUS})
LEDGER_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"LEDGER_TABLE": LEDGER_TABLE})
"""The same of the second hop's functions, which are the demo's own."""

_NOTHING_THERE = "http://127.0.0.1:9"
_NO_AWS_IN_IT = ("ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")


class FunctionUnusable(OutboxError):
    """A function of the demo cannot be loaded.

    `setting` is `relay` or `consumer`, `handler` what it was set to, `kind` Lambda's name of the error, `reason` a
    phrase that says more.
    """

    def __init__(self, setting: str, handler: str, kind: str, reason: str) -> None:
        self.setting = setting
        self.handler = handler
        self.kind = kind
        self.reason = reason
        super().__init__(f"{setting} {handler}: {reason}")


def check_functions(settings: Settings) -> frozenset[str]:
    """Load the relay and the consumer of `settings`, unless they are the demo's own, with no AWS behind them.

    Return the settings that are undecided, for `check_again`. Raises FunctionUnusable.
    """
    undecided = set()
    for setting, (handler, own, environment) in _functions(settings).items():
        failure = None if handler == own else _loaded(handler, _NOTHING_THERE, {**environment, "AWS_MAX_ATTEMPTS": "1"})
        if failure is not None and _certain(handler, failure):
            raise _unusable(setting, handler, failure)
        if failure is not None:
            undecided.add(setting)
    return frozenset(undecided)


def check_again(settings: Settings, undecided: Collection[str], endpoints: Mapping[str, str]) -> None:
    """Load what is `undecided` with AWS at its address in `endpoints` (by setting). Raises FunctionUnusable."""
    for setting, (handler, _, environment) in _functions(settings).items():
        failure = _loaded(handler, endpoints[setting], environment) if setting in undecided else None
        if failure is not None:
            raise _unusable(setting, handler, failure)


def _functions(settings: Settings) -> dict[str, tuple[str, str, Mapping[str, str]]]:
    """Return the handler, the demo's own handler, and the environment of each function, by the name of its setting."""
    return {
        "relay": (settings.relay, RELAY, RELAY_ENVIRONMENT),
        "consumer": (settings.consumer, CONSUMER, CONSUMER_ENVIRONMENT),
    }


def _certain(handler: str, failure: FunctionFailed) -> bool:
    """Whether the function cannot be loaded wherever AWS is."""
    return failure.kind == "Runtime.HandlerNotFound" or _reason(handler, failure).startswith(_NO_AWS_IN_IT)


def _unusable(setting: str, handler: str, failure: FunctionFailed) -> FunctionUnusable:
    return FunctionUnusable(setting, handler, failure.kind, _reason(handler, failure))


def _reason(handler: str, failure: FunctionFailed) -> str:
    return failure.message.removeprefix(handler).removeprefix(":").strip()


def _loaded(handler: str, endpoint: str, extra: Mapping[str, str]) -> FunctionFailed | None:
    known = child_environment(os.environ)
    told = function_environment(endpoint, DEFAULT_ACCOUNT)
    aws = {name: value for name, value in told.items() if name.startswith("AWS_")}
    with FunctionProcess(handler, environment={**known, **aws, **extra}, output=subprocess.DEVNULL) as function:
        return function.load()
