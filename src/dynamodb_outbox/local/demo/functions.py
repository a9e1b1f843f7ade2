"""The demo's functions: what they find in their environment, and whether they can be loaded at all.

A function that cannot be loaded fails every invocation, which to the account looks like a relay that loses events. So
a function of the user's is loaded once before anything is started, in a process of its own, as it will be in the demo:
with the same variables, but with nothing behind the address of AWS yet.
"""

from __future__ import annotations

import os
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT
from dynamodb_outbox.local.demo.names import CONSUMER_TABLE, bus_of, table_of
from dynamodb_outbox.local.demo.settings import CONSUMER, RELAY
from dynamodb_outbox.local.environment import child_environment, function_environment
from dynamodb_outbox.local.function import FunctionProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.eventsource.answers import FunctionFailed
    from dynamodb_outbox.local.demo.settings import Settings

__all__ = ["CONSUMER_ENVIRONMENT", "RELAY_ENVIRONMENT", "FunctionUnusable", "check_functions"]

RELAY_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"ORDERS_BUS": bus_of("outbox"), "ORDERS_TABLE": table_of("outbox")}
)
"""What the relay is told, besides where AWS is."""
CONSUMER_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"BILLING_TABLE": CONSUMER_TABLE})
"""What the consumer is told, besides where AWS is."""

_NOTHING_THERE = "http://127.0.0.1:9"


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


def check_functions(settings: Settings) -> None:
    """Load the relay and the consumer of `settings`, unless they are the demo's own. Raises FunctionUnusable."""
    for setting, handler, own, environment in (
        ("relay", settings.relay, RELAY, RELAY_ENVIRONMENT),
        ("consumer", settings.consumer, CONSUMER, CONSUMER_ENVIRONMENT),
    ):
        failure = None if handler == own else _loaded(handler, environment)
        if failure is not None:
            reason = failure.message.removeprefix(handler).removeprefix(":").strip()
            raise FunctionUnusable(setting, handler, failure.kind, reason)


def _loaded(handler: str, extra: Mapping[str, str]) -> FunctionFailed | None:
    known = child_environment(os.environ)
    told = function_environment(_NOTHING_THERE, DEFAULT_ACCOUNT)
    aws = {name: value for name, value in told.items() if name.startswith("AWS_")}
    with FunctionProcess(handler, environment={**known, **aws, **extra}, output=subprocess.DEVNULL) as function:
        return function.load()
