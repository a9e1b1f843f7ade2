"""Claim checks: the data of a large event is kept in an object, and the event carries a reference to it.

An event is claimed when its published form, uncompressed, has more bytes than a threshold. Its object is named by the
event's id, which is fixed when it is emitted: a commit that is retried stores the same bytes under the same name, and
no two events share an object, so that deleting one can never take another's data away. The SHA-256 of the bytes travels
with the reference; a consumer takes nothing that has another one.

Where a reference leads is a message's word, and whoever can send a message could have it lead anywhere that the
consumer may read. So a consumer follows only references into the bucket and under the prefix that it was given.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.strict import is_json
from dynamodb_outbox.errors import PayloadAltered, PayloadUnavailable
from dynamodb_outbox.event import DataRef

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["Claim", "ClaimRule", "is_sha256", "verified"]

_SCHEME = "s3://"
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Claim:
    """Data to store before its event is committed: `content` under `key`, for `reference`."""

    key: str
    content: bytes
    reference: DataRef


@dataclass(frozen=True)
class ClaimRule:
    """Which events are claimed, and where their data goes.

    An event whose published form has more than `threshold_bytes` is; its data has at most `max_bytes`.
    """

    bucket: str
    prefix: str
    threshold_bytes: int
    max_bytes: int

    def claim(self, event: Event) -> Claim:
        """Return the claim of an event that has its data."""
        content = event.payload.encode("utf-8")
        key = self.prefix + event.id
        uri = f"{_SCHEME}{self.bucket}/{key}"
        return Claim(key, content, DataRef(uri, hashlib.sha256(content).hexdigest()))

    def key_of(self, reference: DataRef) -> str:
        """Return the key of the object that a reference leads to.

        Raises PayloadUnavailable when that is not in the bucket and under the prefix of this rule.
        """
        start = f"{_SCHEME}{self.bucket}/"
        key = reference.uri[len(start) :]
        if not reference.uri.startswith(start) or not key.startswith(self.prefix) or key == self.prefix:
            reason = f"it is not under {start}{self.prefix}, where this claim check looks; no other place is read."
            raise PayloadUnavailable(reference.uri, reason)
        return key


def verified(event: Event, reference: DataRef, content: bytes) -> Event:
    """Return the event with the data that was fetched for it. Raises PayloadAltered when it is not what was stored."""
    found = hashlib.sha256(content).hexdigest()
    if found != reference.sha256:
        raise PayloadAltered(reference.uri, f"its SHA-256 is {found}, and the event says {reference.sha256[:64]}.")
    try:
        payload = content.decode("utf-8")
    except UnicodeDecodeError:
        raise PayloadAltered(reference.uri, "it is not UTF-8, though its SHA-256 is the event's.") from None
    if not is_json(payload):
        raise PayloadAltered(reference.uri, "it is not one JSON value, though its SHA-256 is the event's.")
    return replace(event, payload=payload)


def is_sha256(text: str) -> bool:
    """Whether text is a SHA-256 as this library writes it: 64 hex digits in lower case."""
    return _SHA256.fullmatch(text) is not None
