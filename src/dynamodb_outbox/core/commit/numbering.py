"""The `sequence` of an event: the version of the item that it tells about, and its place among that commit's events.

An event is *tied* to an item when its key is that item's partition and the transaction counts the version of exactly
one item there, in whatever table. Then, and only then, has it a sequence: of two candidates neither would be the right
one, and without a version nothing says what came first. A key is text, and where the transaction writes both the
partition of a number and that of its digits as text, it names neither.

    0000000000000000042.0001       version 42, the second event of that commit

Both numbers are padded to a fixed width, so that the order of the text is the order of the numbers: 19 digits hold any
version up to int64, those of the clock among them; a record of more than 9,999 events does not fit an item. The delete
of version 42 writes none, and its events have the number 43.

A sequence says something about one item only. The event's `subject` names the item, unless the caller gave one, which
then must do so: `<partition key>/<sort key>`, and `<partition key>` alone where the table has no sort key. In another
table than the outbox's own it is `<table>/<partition key>/<sort key>`, with nothing behind the last slash where there
is no sort key. Numbers are written in plain digits and bytes in base64; `%` and `/` inside of keys are
percent-encoded. So no two items share a name.

That a number is missing means nothing by itself, for a version may have had no event. Under Layout(dense_versions=True)
it does, because there a version without an event is not committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import InvalidAction
from dynamodb_outbox.keys import table_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dynamodb_outbox.core.commit.actions import Action
    from dynamodb_outbox.core.commit.targets import Target

__all__ = ["Ties", "check_dense", "sequence_text", "subject_of"]

VERSION_DIGITS = 19
POSITION_DIGITS = 4


def sequence_text(number: int, position: int) -> str:
    """Return the sequence of the event at `position` (from 0) among those of one commit of one item."""
    return f"{number:0{VERSION_DIGITS}d}.{position:0{POSITION_DIGITS}d}"


def subject_of(target: Target, own_table: str | None) -> str:
    """Return the name of an item, unlike that of any other."""
    pk, sk = _quoted(target.pk), _quoted(target.sk)
    if own_table is None or target.name != table_name(own_table):
        return f"{target.name}/{pk}/{sk}"
    return pk if target.keys.sk is None else f"{pk}/{sk}"


@dataclass
class _Tie:
    subject: str
    number: int
    events: int = 0


class Ties:
    """Which keys have a counted item, and how many events each was given."""

    def __init__(self, actions: Iterable[Action], own_table: str | None) -> None:
        found: dict[str, _Tie | None] = {}
        kinds: dict[str, set[str]] = {}
        for action in actions:
            if action.writes:
                kinds.setdefault(action.target.pk, set()).add(action.target.keys.pk_type)
            if action.number is not None:
                pk = action.target.pk
                found[pk] = None if pk in found else _Tie(subject_of(action.target, own_table), action.number)
        self._ties = {pk: tie for pk, tie in found.items() if tie is not None and len(kinds[pk]) == 1}

    def next(self, key: str) -> tuple[str, str] | None:
        """Return subject and sequence for the next event with this key, None when it is tied to no item."""
        tie = self._ties.get(key)
        if tie is None:
            return None
        tie.events += 1
        return tie.subject, sequence_text(tie.number, tie.events - 1)

    def has_event(self, key: str) -> bool:
        """Whether the counted item of this partition was given an event."""
        return key in self._ties and self._ties[key].events > 0


def check_dense(actions: Sequence[Action], ties: Ties) -> None:
    """Raise InvalidAction for the first action that writes a version and has no event of its own."""
    for action in actions:
        if action.version is not None and not ties.has_event(action.target.pk):
            raise InvalidAction(
                action.target.label,
                f"it writes version {action.version} and no event tells of it, which Layout(dense_versions=True) "
                "promises. Emit an event of its partition in the same transaction, and write one versioned item of a "
                "partition at a time.",
            )


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")
