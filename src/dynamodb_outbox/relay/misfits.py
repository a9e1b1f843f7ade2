"""Records of other layouts in a relay's batch: whether they still wait is asked of the table, one after the other.

A stream record is frozen when the item is written, and may be read long after: when a mapping begins at the start of a
stream, or when a batch is delivered again. By then the relay of the other layout may have published the record, and to
hold the stream for it would be to hold it for nothing. So the item is read, consistently, before anything is held.

The first one that still waits ends the reading, for nothing behind it is relayed. So does the end of the time for it, a
quarter of the invocation's, and one that cannot be read: it may be waiting. Those that were passed over until then are
done, so each delivery gets further and none starts again from the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.waiting import waits_no_more
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.select import Misfit, Selected, Selection
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.ports import Clock, RecordStates

__all__ = ["Held", "Judged", "judged"]

_NO_TIME = "there was no time left"
_NO_TABLE = "the stream's records do not name it (eventSourceARN)"


@dataclass(frozen=True)
class Held:
    """The record from which on the stream is held, by its sequence number, and what to do about it."""

    sequence_number: str
    error: ConfigurationError


@dataclass(frozen=True)
class Judged:
    """The `records` of a batch to relay; how many of other layouts were `passed` over; where the stream is `held`.

    `gone` counts those of the passed that are not in the table any more: published before, or deleted by somebody.
    """

    records: Sequence[Selected]
    passed: int = 0
    held: Held | None = None
    gone: int = 0


def judged(selection: Selection, states: RecordStates, table: str | None, clock: Clock, until_ms: int) -> Judged:
    """Return what can be relayed of a selection, up to the first record of another layout that still waits.

    `table` is the table's name where it is known; until `until_ms`, on the monotonic clock, items are read.
    """
    gone = 0
    for passed, misfit in enumerate(selection.misfits):
        in_time = clock.monotonic_ms() < until_ms
        stored = _stored(misfit, states, table or misfit.table) if in_time else _unread(misfit, _NO_TIME)
        if isinstance(stored, Held):
            return Judged(selection.before(misfit), passed, stored, gone)
        gone += not stored
    return Judged(selection.records, len(selection.misfits), gone=gone)


def _stored(misfit: Misfit, states: RecordStates, table: str | None) -> WireItem | Held:
    """Return the item of a record that waits no more, empty when it is gone; else why the stream is held at it."""
    if table is None:
        return _unread(misfit, _NO_TABLE)
    found = states.find(table, misfit.image)
    if found.failure is not None:
        return _unread(misfit, found.failure)
    if waits_no_more(misfit.image, found.item):
        return found.item
    return Held(misfit.sequence_number, ConfigurationError(misfit.reason))


def _unread(misfit: Misfit, why: str) -> Held:
    said = f"{misfit.reason} Whether it has been published could not be asked of the table: {why}."
    return Held(misfit.sequence_number, ConfigurationError(said))
