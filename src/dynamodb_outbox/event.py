"""The event that users hold: what a writer emits and what a consumer is given.

Its data travels as JSON text (`payload`), fixed at the moment of `emit`, so that a later change of the caller's dict
cannot change what is published, and so that no digit is lost on the way: JSON numbers with a fraction or an exponent
come back as `Decimal`, whole ones as `int`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["Event"]

_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Event:
    """One domain event.

    `id` is the same on every publication. `payload` is the JSON text of `data`. `key` is the ordering key (CloudEvents
    `partitionkey`); it is None on what `emit` returns until the commit resolves it. `time` is when it happened, an
    aware datetime in UTC. `attributes` are CloudEvents extension attributes: lower-case names, text values.
    """

    id: str
    type: str
    source: str
    payload: str
    time: datetime
    key: str | None = None
    subject: str | None = None
    sequence: str | None = None
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_ATTRIBUTES)

    @cached_property
    def data(self) -> Any:
        """The event's data: `payload` read as JSON, with `Decimal` for numbers that are not whole.

        Raises ValueError when the payload is not JSON, which no event from this library's own writer is.
        """
        return json.loads(self.payload, parse_float=Decimal)
