"""A stream record as the event source sees it: its place in the shard, its age, its size, and the body it hands on.

Sequence numbers are decimal strings of varying length. As text "9" comes after "10", so they are compared as numbers
everywhere; the text is kept, because that is what AWS wants back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

from dynamodb_outbox.core.limits import SEQUENCE_NUMBER_DIGITS
from dynamodb_outbox.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["StreamRecord", "is_sequence_number", "stream_record"]

_SEQUENCE_NUMBER = re.compile(rf"[0-9]{{1,{SEQUENCE_NUMBER_DIGITS}}}")
_END_S = 253_402_300_800  # of the year 9999: what is later cannot be written as a date

_TEXT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class StreamRecord:
    """One record of a shard.

    `body` is the record in the JSON form that Lambda hands to a function; `number` its sequence number, for comparing;
    `arrived_ms` when it was written (epoch milliseconds; AWS rounds to seconds).
    """

    sequence_number: str
    number: int
    arrived_ms: int
    body: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """The body as JSON; made when it is first asked for, as filters let many records not get so far."""
        return _TEXT.encode(self.body)

    @cached_property
    def size(self) -> int:
        """The bytes of the body as JSON."""
        text = self.text
        return len(text if text.isascii() else text.encode(errors="surrogatepass"))


def is_sequence_number(value: Any) -> TypeGuard[str]:
    """Whether a value is text that a sequence number can be."""
    return isinstance(value, str) and _SEQUENCE_NUMBER.fullmatch(value) is not None


def stream_record(body: Mapping[str, Any]) -> StreamRecord:
    """Read what the event source needs from a record in Lambda's JSON form.

    Raises InvalidRecord when the sequence number or the creation time is missing or malformed.
    """
    change = body.get("dynamodb")
    where = str(body.get("eventID", "without an eventID"))
    if not isinstance(change, dict):
        raise InvalidRecord(where, "it has no 'dynamodb' part, so it is no DynamoDB stream record")
    text = change.get("SequenceNumber")
    if not is_sequence_number(text):
        raise InvalidRecord(where, f"its SequenceNumber is {text!r}, not a decimal string of at most 40 digits")
    created = change.get("ApproximateCreationDateTime")
    if isinstance(created, bool) or not isinstance(created, (int, float)) or not 0 <= created < _END_S:
        raise InvalidRecord(where, f"its ApproximateCreationDateTime is {created!r}, not a number of epoch seconds")
    return StreamRecord(text, int(text), int(created * 1000), body)
