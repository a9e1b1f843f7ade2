"""What can be chosen about a demo."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONSUMER", "LEDGER", "RELAY", "Settings"]

RELAY = "dynamodb_outbox.local.demo.relay_function:handler"
CONSUMER = "dynamodb_outbox.local.demo.consumer_function:handler"
LEDGER = "dynamodb_outbox.local.demo.ledger_function:handler"


@dataclass(frozen=True)
class Settings:
    """One demo.

    orders, seed          see `schedule.plan`, like customers (None: up to 40) and rejected (a share, 0 to 1)
    port                  of the engine; 0 takes a free one
    relay, consumer       the functions, `module:attribute`, importable from the current directory or PYTHONPATH. They
                          find ORDERS_BUS and ORDERS_TABLE, or BILLING_TABLE, in their environment; AWS, where they
                          find it there, may be called when they are imported, too
    drain_s               how long to wait at the end for what is still on its way, in seconds
    """

    orders: int = 300
    seed: int = 0
    port: int = 0
    relay: str = RELAY
    consumer: str = CONSUMER
    customers: int | None = None
    rejected: float = 0.05
    drain_s: float = 30.0
