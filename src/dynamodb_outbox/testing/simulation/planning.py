"""Which faults a scenario has: their kinds by chance, their times too, but for those that aim at something.

Bad days are bad by coincidence. A shard that splits while nothing is wrong is read on and no more; one that splits
while its destination is out of reach has a parent that is being retried. So a part of the faults is aimed: at times at
which others last, at which an event is written that no bus takes, or at which a record is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER
from dynamodb_outbox.testing.simulation.faults import CONSUMED, LASTING, PARTS, PlannedFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.writers import Write

__all__ = ["AFTER_LONG_MS", "AIMS", "Moments", "aimed", "at_consumers", "lasting_at_consumers", "long_fault", "planned"]

T = TypeVar("T")


@dataclass(frozen=True)
class _Figures:
    """Ranges of what a fault of a kind is given."""

    amount_ms: tuple[int, int] = (0, 0)
    nth: tuple[int, int] = (0, 0)
    times: tuple[int, int] = (1, 1)
    at_start: bool = False
    silent: bool = False
    """In half of them nothing is heard until a time-out, where the other half is a reset."""


_FEW = _Figures(times=(1, 4))
_LOST = _Figures(times=(1, 3), silent=True)
_LASTING = _Figures(amount_ms=(300, 25_000))
_FIGURES = {
    "entry_throttled": _Figures(times=(1, 8)),
    "entry_internal": _Figures(times=(1, 8)),
    "entry_denied": _FEW,
    "entry_unknown_code": _Figures(times=(1, 8)),
    "entry_no_result": _FEW,
    "entry_miscounted": _FEW,
    "entry_malformed_answer": _FEW,
    "content_refused": _Figures(amount_ms=(300, 15_000)),
    "request_rejected": _Figures(times=(1, 4), at_start=True),
    "throttled_request": _FEW,
    "reset_before": _LOST,
    "reset_after": _LOST,
    "slow": _Figures(amount_ms=(20, 6_000), times=(1, 4)),
    "outage": _LASTING,
    "missing_target": _LASTING,
    "access_denied": _LASTING,
    "target_vanishes": _Figures(amount_ms=(300, 150_000)),
    "settle_throttled": _FEW,
    "settle_lost_before": _LOST,
    "settle_lost_after": _LOST,
    "park_throttled": _FEW,
    "park_lost_before": _LOST,
    "park_lost_after": _LOST,
    "crash": _Figures(nth=(0, 9), times=(1, 2)),
    "function_timeout": _Figures(nth=(0, 5)),
    "invoke_throttled": _FEW,
    "cold_start": _Figures(times=(1, 2)),
    "late_visibility": _Figures(amount_ms=(200, 4_000)),
    "trim": _Figures(amount_ms=(500, 20_000)),
    "commit_lost_before": _LOST,
    "commit_lost_after": _LOST,
    "commit_conflict": _FEW,
    "commit_throttled": _FEW,
    "writer_crash": _Figures(nth=(0, 4)),
    "consumer_crash": _Figures(nth=(0, 20), times=(1, 2)),
    "consumer_frozen": _Figures(nth=(0, 20), amount_ms=(1_000, 30_000), times=(1, 2)),
    "message_late": _Figures(amount_ms=(1_000, 60_000), times=(1, 3)),
    "message_again": _FEW,
    "apply_lost_before": _LOST,
    "apply_lost_after": _LOST,
    "apply_conflict": _FEW,
    "apply_throttled": _FEW,
    "recovery_throttled": _Figures(times=(1, 6)),
    "recovery_lost_before": _LOST,
    "recovery_lost_after": _LOST,
    "recovery_crash": _Figures(nth=(4, 30), times=(1, 2)),
    "recovery_frozen": _Figures(amount_ms=(5_000, 150_000), nth=(6, 30), times=(1, 2)),
    "clock_skew": _Figures(amount_ms=(-120_000, 120_000), times=(1, 4), at_start=True),
    "clock_jump": _Figures(amount_ms=(-60_000, 60_000)),
}
_PLAIN = _Figures()

TABLE = "table"
_EVERYWHERE = ""
_OF_A_SERVER = frozenset(PARTS["network"])
_OF_A_DESTINATION = frozenset((*PARTS["bus"], *PARTS["target"], *PARTS["function"], *PARTS["source"]))


def planned(chance: Chance, kind: str, destinations: Sequence[str], until_ms: int) -> PlannedFault:
    """Return a fault of a kind, armed before `until_ms`."""
    figures = _FIGURES.get(kind, _PLAIN)
    amount_ms = chance.whole(*figures.amount_ms, "amount")
    if figures.silent:
        amount_ms = chance.whole(0, 1, "silent")
    return PlannedFault(
        kind,
        0 if figures.at_start else chance.whole(0, until_ms, "at"),
        _where(chance, kind, destinations),
        amount_ms=amount_ms,
        nth=chance.whole(*figures.nth, "nth"),
        times=chance.whole(*figures.times, "times"),
    )


def _where(chance: Chance, kind: str, destinations: Sequence[str]) -> str:
    """Say what a fault is about: one server or all of them, one destination or whichever comes."""
    places = [_EVERYWHERE]
    if kind in _OF_A_SERVER:
        places += [TABLE, *destinations]
    elif kind in _OF_A_DESTINATION and len(destinations) > 1:
        places += destinations
    return places[chance.whole(0, len(places) - 1, "where")]


_AT_CONSUMERS = (3, 7)


def at_consumers(chance: Chance, until_ms: int) -> list[PlannedFault]:
    """Return faults that strike consumers, drawn apart from all others: those are the same with and without them."""
    kinds = sorted(CONSUMED)
    several = range(chance.whole(*_AT_CONSUMERS, "several"))
    return [planned(chance.of(n), kinds[chance.whole(0, len(kinds) - 1, "kind", n)], (), until_ms) for n in several]


_TROUBLED, _REMEMBERED = 0.3, 0.25
_TROUBLED_MS = (20_000, 90_000)
"""Longer than it takes until a message that failed comes again, several times."""
_LONG_AFTER_MS = (90_000, 780_000)


def lasting_at_consumers(chance: Chance, until_ms: int) -> list[PlannedFault]:
    """Return what lasts at consumers, in some of the runs: their table is gone, or messages come again long after.

    Drawn apart: a seed without it is the run it was before there was such a thing.
    """
    faults = []
    if chance.unit("troubled") < _TROUBLED:
        at_ms, amount_ms = chance.whole(0, until_ms, "at"), chance.whole(*_TROUBLED_MS, "for")
        faults.append(PlannedFault("outage", at_ms, CONSUMER, amount_ms=amount_ms))
    if chance.unit("remembered") < _REMEMBERED:
        amount_ms = chance.whole(*_LONG_AFTER_MS, "long after")
        times = chance.whole(1, 3, "times")
        faults.append(
            PlannedFault("message_again", chance.whole(0, until_ms, "again"), amount_ms=amount_ms, times=times)
        )
    return faults


# --- aims -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """What there is to aim at: writes, and faults that last."""

    writes: Sequence[Write]
    lasting: Sequence[PlannedFault]


_AIMED = 0.6
"""Of the faults that can be aimed."""
_ON_ITS_WAY_MS = 1_500
"""A record is handed over within about this time after it was written."""
_UNREAD_MS = (50, 2_500)
"""A trimming that is aimed takes records of this age: those that were written since the trouble began."""
_LATE_BOUNDARIES = (3, 7)
"""Where in an invocation a park is, among the effects."""

_AT_TROUBLE = frozenset(
    (
        "cold_start", "crash", "iterator_expired", "late_visibility", "operator_delete", "shard_split", "source_killed",
        "source_restart", "trim",
    )
)  # fmt: skip
_AT_POISON = frozenset(("cold_start", "crash", "function_timeout", "operator_delete", "source_killed"))
_AT_WRITES = frozenset(("function_timeout", "late_visibility", "operator_delete", "shard_split", "source_killed"))


AIMS = sorted(_AT_TROUBLE | _AT_POISON | _AT_WRITES)
"""Kinds that can be aimed."""


def aimed(chance: Chance, fault: PlannedFault, moments: Moments, share: float = _AIMED) -> PlannedFault:
    """Return a fault at a moment at which it matters more, if there is one for its kind and chance wants it.

    `share` is how often it does.
    """
    poison = [write.at_ms for write in moments.writes if write.poison]
    aims = [
        *([_in_trouble] if fault.kind in _AT_TROUBLE and moments.lasting else []),
        *([_at_poison] if fault.kind in _AT_POISON and poison else []),
        *([_at_a_write] if fault.kind in _AT_WRITES and moments.writes else []),
    ]
    if not aims or chance.unit("aimed") >= share:
        return fault
    return aims[chance.whole(0, len(aims) - 1, "aim")](chance, fault, moments)


def _in_trouble(chance: Chance, fault: PlannedFault, moments: Moments) -> PlannedFault:
    """Strike while another fault lasts, soon after it began or at any time."""
    trouble = _one(chance, moments.lasting)
    at_ms = trouble.at_ms + chance.whole(0, chance.whole(0, trouble.amount_ms, "within"), "in trouble")
    amount_ms = chance.whole(*_UNREAD_MS, "unread") if fault.kind == "trim" else fault.amount_ms
    return replace(fault, at_ms=at_ms, amount_ms=amount_ms)


def _at_poison(chance: Chance, fault: PlannedFault, moments: Moments) -> PlannedFault:
    """Strike when an event is on its way that no bus takes, if it is an effect's fault where it is parked."""
    write = _one(chance, [write for write in moments.writes if write.poison])
    nth = chance.whole(*_LATE_BOUNDARIES, "late") if fault.kind in ("crash", "function_timeout") else fault.nth
    return replace(fault, at_ms=write.at_ms + chance.whole(0, _ON_ITS_WAY_MS // 5, "at poison"), nth=nth)


def _at_a_write(chance: Chance, fault: PlannedFault, moments: Moments) -> PlannedFault:
    write = _one(chance, moments.writes)
    return replace(fault, at_ms=write.at_ms + chance.whole(0, _ON_ITS_WAY_MS, "at a write"))


def _one(chance: Chance, moments: Sequence[T]) -> T:
    return moments[chance.whole(0, len(moments) - 1, "one")]


# --- days that are longer than others ---------------------------------------------------------------------------------

AFTER_LONG_MS = 20_000
_LONG = 0.015
_LONGER_MS = (910_000, 1_000_000)
"""More than the 15 minutes for which an iterator is good."""
_OLDER_MS = (10_000, 40_000)
_LAST_LONG = LASTING & frozenset((*PARTS["bus"], *PARTS["network"])) - {"content_refused"}
"""Kinds that hold records for as long as they last."""


def long_fault(
    chance: Chance, destinations: Sequence[str], until_ms: int, record_age_ms: int | None
) -> PlannedFault | None:
    """Return a fault that lasts until records are too old for their mapping, or longer than an iterator is good."""
    if chance.unit("long") < _LONG:
        amount_ms = chance.whole(*_LONGER_MS, "amount")
    elif record_age_ms is not None:
        amount_ms = record_age_ms + chance.whole(*_OLDER_MS, "amount")
    else:
        return None
    kinds = sorted(_LAST_LONG)
    kind = kinds[chance.whole(0, len(kinds) - 1, "kind")]
    where = destinations[chance.whole(0, len(destinations) - 1, "where")]
    return PlannedFault(kind, chance.whole(0, until_ms // 2, "at"), where, amount_ms=amount_ms)
