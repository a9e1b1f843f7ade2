"""What a scenario has of recovery: whether there is a sweeper and how it is set up, and the faults that strike it.

It is drawn apart from all else, so that a seed is the same day without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.testing.simulation.faults import RECOVERY, PlannedFault
from dynamodb_outbox.testing.simulation.planning import planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.testing.simulation.chance import Chance

__all__ = [
    "OPERATOR",
    "SWEEPER",
    "Does",
    "Operation",
    "operations",
    "operator_settings",
    "recovery_faults",
    "sweeper_settings",
]

SWEEPER = "sweeper"
"""What faults call the processes of a sweeper."""
OPERATOR = "operations"
"""What they call those of an operator; in the table they are somebody else than who deletes records by hand."""

Does = Literal["redrives what is parked", "discards what is parked", "redrives what was given up"]


@dataclass(frozen=True)
class Operation:
    """Something that an operator does at a time; what was given up is in a bucket or a queue (`of`)."""

    at_ms: int
    does: Does
    of: Literal["", "bucket", "queue"] = ""


_SWEPT = 0.5
"""Of the seeds, where a sweeper is asked for."""
_SHORT, _SEVERAL, _FAR_BEHIND, _WRONG_CLOCK = 0.3, 0.4, 0.15, 0.5
"""Of those with a sweeper."""
_FAULTS = (2, 6)
_SKEW_MS = 120_000
_HOLDING = ("access_denied", "missing_target", "outage")
_HELD_MS = (20_000, 60_000)
_AIMED = 0.6
_SWEEPING_UP_MS = 30_000

_OPERATED = 0.15
"""Of the seeds, where an operator is asked for."""
_HALF, _BUCKET = 0.5, 0.6
_OPERATIONS = (2, 6)
_REDRIVE, _FAILED = 0.5, 0.8
_LAST_MS = 200_000
"""What was given up is redriven for the last time so long before the end."""


def sweeper_settings(chance: Chance) -> dict[str, Any]:
    """Return the settings of a sweeper, none where there is none."""
    if chance.unit("swept") >= _SWEPT:
        return {}
    return {
        "sweep_every_ms": chance.whole(6_000, 24_000, "every"),
        "sweepers": 2 if chance.unit("several") < _SEVERAL else 1,
        "sweep_timeout_ms": chance.whole(70_000, 300_000, "timeout"),
        "min_age_ms": chance.whole(2_000, 30_000, "age"),
        "index_lag_ms": chance.whole(0, 15_000 if chance.unit("far behind") < _FAR_BEHIND else 2_000, "index"),
        **({"retention_ms": chance.whole(2_000, 15_000, "retention")} if chance.unit("short") < _SHORT else {}),
    }


def operator_settings(chance: Chance) -> dict[str, Any] | None:
    """Return what of the settings an operator changes; None: there is no operator.

    In half of those with one the mapping gives up, so that there is something to do.
    """
    if chance.unit("operated") >= _OPERATED:
        return None
    return {"ordering": "none", "retries": chance.whole(1, 3, "retries")} if chance.unit("gives up") < _HALF else {}


def operations(chance: Chance, until_ms: int, ends_ms: int) -> tuple[Operation, ...]:
    """Return what an operator does, most of it while faults strike, which is until `until_ms`."""
    of: Literal["bucket", "queue"] = "bucket" if chance.unit("of") < _BUCKET else "queue"
    done = []
    for n in range(chance.whole(*_OPERATIONS, "operations")):
        at_ms, drawn = chance.whole(0, until_ms, "at", n), chance.unit("does", n)
        done.append(
            Operation(at_ms, "redrives what is parked")
            if drawn < _REDRIVE
            else Operation(at_ms, "redrives what was given up", of)
            if drawn < _FAILED
            else Operation(at_ms, "discards what is parked")
        )
    done.append(Operation(ends_ms - _LAST_MS, "redrives what was given up", of))
    return tuple(sorted(done, key=lambda one: one.at_ms))


def recovery_faults(
    chance: Chance, who: str, destinations: Sequence[str], until_ms: int, *, forgets: bool
) -> list[PlannedFault]:
    """Return the faults that strike the processes of a sweeper or an operator (`who`), armed before `until_ms`.

    Besides, a writer whose clock is off, by whose dates others are told what was first; and where the stream `forgets`
    soon, trouble that lasts until it has.
    """
    kinds = sorted(RECOVERY)
    faults = [
        planned(chance.of(n), kinds[chance.whole(0, len(kinds) - 1, "kind", n)], destinations, until_ms)
        for n in range(chance.whole(*_FAULTS, "faults"))
    ]
    for where in (who, f"writer-{chance.whole(1, 2, 'writer')}"):
        if chance.unit("wrong clock", where) < _WRONG_CLOCK:
            amount_ms = chance.whole(-_SKEW_MS, _SKEW_MS, "skew", where)
            faults.append(PlannedFault("clock_skew", 0, where, amount_ms=amount_ms, times=chance.whole(1, 4, "times")))
    if forgets:
        trouble = _trouble(chance.of("trouble"), destinations[0], until_ms)
        faults = [trouble, *(_aimed(chance.of("aim", n), fault, trouble) for n, fault in enumerate(faults))]
    return faults


def _trouble(chance: Chance, destination: str, until_ms: int) -> PlannedFault:
    kind = _HOLDING[chance.whole(0, len(_HOLDING) - 1, "kind")]
    return PlannedFault(kind, chance.whole(0, until_ms, "at"), destination, amount_ms=chance.whole(*_HELD_MS, "for"))


def _aimed(chance: Chance, fault: PlannedFault, trouble: PlannedFault) -> PlannedFault:
    """Return a fault that strikes, more often than not, who sweeps up after a trouble."""
    if fault.kind not in RECOVERY or chance.unit("aimed") >= _AIMED:
        return fault
    return replace(fault, at_ms=trouble.at_ms + chance.whole(0, trouble.amount_ms + _SWEEPING_UP_MS, "at"))
