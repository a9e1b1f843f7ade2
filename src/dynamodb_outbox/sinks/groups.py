"""Keys and ids as FIFO queues and topics take them.

A group's id and a deduplication id are up to 128 letters, digits and punctuation marks of ASCII [BC]. A key may be any
text, so one of another form is published as its hash; the original stays in the envelope. Local engines check none of
this, and AWS refuses the message.

Deduplication is where a FIFO destination can lose an event in silence: within five minutes it accepts a second message
with the same id and delivers nothing. The id of an event is unique for its source only. UUIDs, which this library
makes, are unique everywhere and go as they are, so that an operator finds an event by its id; any other id (a row's
number, say) is published as a hash of source and id, for two sources may count alike.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import MESSAGE_GROUP_LENGTH

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["deduplication_id", "group_id"]

_LEGAL = re.compile(rf"[!-~]{{1,{MESSAGE_GROUP_LENGTH}}}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def group_id(event: Event) -> str:
    """Return the group that an event is in: its key; for one without a key, which is in order with nothing, its id."""
    key = event.key or event.id
    return key if _LEGAL.fullmatch(key) else _hash(key)


def deduplication_id(event: Event, mark: str = "") -> str:
    """Return the same text for each publication of an event, and for no other event.

    With a `mark` one that none has had without it, or with another.
    """
    if mark:
        return _hash(event.source, event.id, mark)
    return event.id if _UUID.fullmatch(event.id) else _hash(event.source, event.id)


def _hash(*parts: str) -> str:
    # The length before each part: no two lists of parts give the same text. Half of a surrogate pair gets through: a
    # name is made here, and whether the event can be published is not for this function to say.
    told = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
