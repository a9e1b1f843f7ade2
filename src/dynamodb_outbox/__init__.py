"""Commit a change and its domain events in one DynamoDB write, relay them, apply each of them once.

The names below are loaded when they are first used: a function that only relays loads nothing of the writing side, and
importing the package loads no boto3.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dynamodb_outbox._version import __version__

if TYPE_CHECKING:
    from dynamodb_outbox.adapters.s3 import ClaimCheck
    from dynamodb_outbox.consume.inbox import Inbox
    from dynamodb_outbox.core.commit.receipt import Receipt
    from dynamodb_outbox.errors import OutboxError
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.keys import Keys
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.outbox import Outbox, Transaction
    from dynamodb_outbox.promises import guarantees
    from dynamodb_outbox.relay.publisher import Relay

__all__ = [
    "ClaimCheck",
    "Event",
    "Inbox",
    "Keys",
    "Layout",
    "Outbox",
    "OutboxError",
    "Receipt",
    "Relay",
    "Transaction",
    "__version__",
    "guarantees",
]

_HOMES = {
    "ClaimCheck": "adapters.s3",
    "Event": "event",
    "Inbox": "consume.inbox",
    "Keys": "keys",
    "Layout": "layout",
    "Outbox": "outbox",
    "OutboxError": "errors",
    "Receipt": "core.commit.receipt",
    "Relay": "relay.publisher",
    "Transaction": "outbox",
    "guarantees": "promises",
}


if not TYPE_CHECKING:  # a type checker would take a module's __getattr__ as leave to import any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
