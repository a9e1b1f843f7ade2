"""AWS's prices, as data: what the cost model multiplies by, and nothing else in the code states one of them.

Of us-east-1, on demand, without free tiers. Sources: S secondary (pages about AWS's price list), DDG DynamoDB developer
guide, SNSG SNS developer guide. A price that is another one for you is an argument of `outbox cost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PRICED", "PRICES", "Price"]

PRICED = "us-east-1, 2026-11"
"""Where and when."""

_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """`usd` for `per` of `unit`."""

    usd: float
    per: int
    unit: str
    source: str


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "write": Price(0.625, _MILLION, "write units", "S; a unit is 1 KB, in a transaction two [DDG]"),
        "read": Price(
            0.125, _MILLION, "read units", "S; an eventually consistent query takes half of one at least [DDG]"
        ),
        "storage": Price(0.25, 1, "GB-months", "S"),
        "invocation": Price(0.20, _MILLION, "invocations", "S"),
        "gb_second": Price(0.0000166667, 1, "GB-seconds", "S; the same on arm64 is a fifth less"),
        "bus": Price(1.00, _MILLION, "events of 64 KB", "S; each event by itself, however many a request has"),
        "topic": Price(0.50, _MILLION, "requests of 64 KB", "S; a request may have ten messages [SNSG]"),
        "topic.fifo": Price(0.30, _MILLION, "requests of 64 KB", "S; and its payload by the GB, which is not counted"),
        "queue": Price(0.40, _MILLION, "requests of 64 KB", "S; a request may have ten messages"),
        "queue.fifo": Price(0.50, _MILLION, "requests of 64 KB", "S; a request may have ten messages"),
        "pipe": Price(0.40, _MILLION, "requests of 64 KB", "S; after its filter"),
        "alarm": Price(0.10, 1, "metrics of alarms", "S"),
        "metric": Price(0.30, 1, "metrics", "S; event counts of a mapping are taken to be charged as custom ones"),
        "dashboard": Price(3.00, 1, "dashboards", "S; the first three of an account are free"),
    }
)
"""By the name that an argument of the command has."""
