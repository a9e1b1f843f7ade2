"""What the `sequence` of an event tells about order: whether it came late, and whether something is missing before it.

A sequence says something about one item only, which the event's `subject` names (`core.commit.numbering`). A consumer
keeps, for each subject, the highest sequence that it has applied. An event with a lower one is *late*: another one of
its item was applied before it. Sequences are compared as text, as CloudEvents has it.

A *gap* is a number that was left out. Under Layout(dense_versions=True), which the consumer is told of, each version of
an item has an event, so a gap is an event that has not been applied yet. In

    0000000000000000042.0001       version 42, the second event of its commit

what follows is `42.0002`, or `43.0000`. Which of the two is known to nobody who has seen only the first, so a missing
last event of a commit goes unnoticed, and everything else shows. Without dense versions, and with sequences of another
form, there are no gaps. Nor before the first event of a subject that a consumer sees: it may have begun later.

The highest sequence of a subject is an item beside the inbox records, under a partition key that no inbox record has.
It is written after the event has been applied, and only upwards. Who dies in between is given the event again, and
makes up for it. So it may lag for a moment, and of two events that are applied at the same moment the earlier one may
be told to be late; it decides nothing but what an observer is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import guard_keys, position_partition

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["Ahead", "Behind", "Position", "Unwritten", "has_order", "highest_of", "leaves_gap", "raise_highest"]

_HIGHEST = "ob_highest"
_OURS = re.compile(r"([0-9]{19})\.([0-9]{4})", re.ASCII)


def has_order(event: Event) -> bool:
    """Whether an event says where it stands among those of its subject."""
    return bool(event.sequence and event.subject)


def leaves_gap(before: str, sequence: str) -> bool:
    """Whether dense sequences have a number between `before`, the highest that was seen, and this one, which is higher.

    A sequence that is not of this library's form leaves none.
    """
    last, this = _OURS.fullmatch(before), _OURS.fullmatch(sequence)
    if last is None or this is None:
        return False
    version, place = int(this[1]) - int(last[1]), int(this[2])
    return place != int(last[2]) + 1 if version == 0 else (version, place) != (1, 0)


@dataclass(frozen=True)
class Ahead:
    """The sequence is the highest of its subject now; `before` was it until then, None: there was none."""

    before: str | None


@dataclass(frozen=True)
class Behind:
    """The sequence is not above `highest`, that of its subject, and nothing was written."""

    highest: str


@dataclass(frozen=True)
class Unwritten:
    """Where the sequence stands could not be found out, for this `reason`."""

    reason: str


Position = Ahead | Behind | Unwritten


def raise_highest(table: str, layout: Layout, consumer: str, event: Event, expires_s: int) -> dict[str, Any]:
    """Return the arguments of `update_item` that make an event's sequence the highest of its subject, if it is above.

    `expires_s` is epoch seconds, from which on nobody needs it.
    """
    return {
        "TableName": table,
        "Key": guard_keys(layout, position_partition(layout, consumer, event.source, event.subject or "")),
        "UpdateExpression": "SET #highest = :sequence, #schema = :schema, #ttl = :ttl",
        "ConditionExpression": "attribute_not_exists(#highest) OR #highest < :sequence",
        "ExpressionAttributeNames": {"#highest": _HIGHEST, "#schema": schema.SCHEMA, "#ttl": layout.ttl},
        "ExpressionAttributeValues": {
            ":sequence": {"S": event.sequence},
            ":schema": {"N": str(schema.SCHEMA_VERSION)},
            ":ttl": {"N": str(expires_s)},
        },
        "ReturnValues": "UPDATED_OLD",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def highest_of(item: WireItem) -> str | None:
    """Return the highest sequence that an item of this kind tells, None for none."""
    value = item.get(_HIGHEST, schema.ABSENT).get("S")
    return value if isinstance(value, str) else None
