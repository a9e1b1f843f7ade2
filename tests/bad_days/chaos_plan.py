"""What a day of chaos is to be, as one value: how much of it, how the table is laid out, what goes wrong by itself."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chaos_orders import POISON, Command, commands
from days import failing

from dynamodb_outbox.aws_lambda import layout_from
from dynamodb_outbox.testing.faultbus import FaultPlan, Lost, Unacceptable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox import Layout

__all__ = ["SWEEPERS", "WRITERS", "Plan"]

WRITERS, SWEEPERS = 3, 2

_CODES = ("InternalFailure", "ThrottlingException")
_LOST = (
    Lost("TransactWriteItems", key=r'"ClientRequestToken": ?"([^"]+)"', fraction=0.03),
    Lost("BatchExecuteStatement", key=r'"S": ?"([0-9a-f-]{36})"', fraction=0.05),
)
"""Answers that never arrive, of commits and of settling."""


@dataclass(frozen=True)
class Plan:
    """A day: so many `events` and `acts`; how long a writer pauses after a commit; how records are settled.

    `without_leases` removes the leases of sweepers that were killed, which last for more than a minute. `stalled_s` is
    how long nothing may happen before the day ends as it is.
    """

    seed: int
    events: int
    acts: int
    pause_ms: int
    settle: str = "expire"
    without_leases: bool = False
    stalled_s: float = 150.0

    @property
    def layout_text(self) -> str:
        """The table's layout, as a variable says it."""
        return json.dumps({"settle": self.settle, "version": "version", "index_shards": 4})

    @property
    def layout(self) -> Layout:
        """The table's layout."""
        return layout_from({"OUTBOX_LAYOUT": self.layout_text})

    @property
    def faults(self) -> FaultPlan:
        """What the bus does wrong, and which answers of the table are lost."""
        plan = failing(self.seed, _CODES, resets=0.02)
        return replace(plan, unacceptable=(Unacceptable(POISON),), lost=_LOST)

    @property
    def share(self) -> int:
        """How many events each writer commits."""
        return -(-self.events // WRITERS)

    def commands(self) -> Sequence[list[Command]]:
        """Return what each writer commits."""
        return [commands(self.seed, writer, self.share) for writer in range(WRITERS)]
