"""What a sink or a router gives back, looked at before anything relies on it: it is anybody's code.

What raises, or returns something of another type, must not end the invocation: other events have nothing to do with it.
Of one event it is that event's content fault, and the park limit bounds what becomes of many. Of a publish it says
nothing of the entries, which are unknown; of a question it is no answer. Types alone are named, never a value, which
may be an event's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, Presence, RequestFailed, Verified

if TYPE_CHECKING:
    from typing import TypeGuard

    from dynamodb_outbox.core.relay.outcome import Outcome

__all__ = ["answer_of", "outcome_of", "place_of", "prepared_of"]


def place_of(found: Any, sinks: int) -> int | Fault:
    """Return what `route` gave: a position among so many sinks, or a fault. Raises TypeError, ValueError."""
    if _is_fault(found):
        return found
    if isinstance(found, bool) or not isinstance(found, int):
        raise TypeError(f"route() returned {_named(found)}; a position in sinks is needed, or a Fault")
    if not 0 <= found < sinks:
        raise ValueError(f"route() returned {found}, which is no position among {sinks} sinks")
    return found


def prepared_of(found: Any) -> Prepared | Fault:
    """Return what `prepare` gave. Raises TypeError."""
    if isinstance(found, Prepared) and type(found.size) is int and found.size >= 0:
        return found
    if _is_fault(found):
        return found
    raise TypeError(f"prepare() returned {_named(found)}; Prepared with a size in bytes is needed, or a Fault")


def outcome_of(found: Any) -> Outcome:
    """Return what `publish` gave; a result of another type says nothing of its entry. Raises TypeError."""
    if isinstance(found, RequestFailed) and _is_fault(found.fault):
        return found
    if isinstance(found, Answered):
        return Answered(tuple(map(_result_of, found.results)))
    raise TypeError(f"publish() returned {_named(found)}; Answered is needed, or RequestFailed with a Fault")


def answer_of(found: Any) -> Verified:
    """Return what `verify` gave. Raises TypeError."""
    if (
        isinstance(found, Verified)
        and isinstance(found.presence, Presence)
        and isinstance(found.reason, str)
        and isinstance(found.passing, bool)
    ):
        return found
    raise TypeError(f"verify() returned {_named(found)}; Verified is needed, with a Presence")


def _result_of(found: Any) -> Fault | None:
    if found is None or _is_fault(found):
        return found
    return Fault(Kind.UNKNOWN, "WrongResult", f"the sink returned {_named(found)} for an entry")


def _is_fault(found: Any) -> TypeGuard[Fault]:
    return (
        isinstance(found, Fault)
        and isinstance(found.kind, Kind)
        and isinstance(found.code, str)
        and isinstance(found.reason, str)
    )


def _named(found: Any) -> str:
    known = isinstance(found, (Answered, Fault, Prepared, RequestFailed, Verified))
    return f"{type(found).__name__} with a member of another type" if known else type(found).__name__
