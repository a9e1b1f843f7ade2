"""Hashes that tell commands apart: the fingerprint, the guard's key, the token of a guarded transaction.

The fingerprint of a command is what it does: its actions with their conditions, and type, data, key, subject and
attributes of its events. Ids and times that are made anew on each run are left out, and so are the trace that a run
belongs to, and the versions of `if_version=`, since a repetition may have read the item again: it has the fingerprint
of the first run. A caller whose own items hold such values gives a fingerprint of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.commit.tracing import TRACE_ATTRIBUTES
from dynamodb_outbox.core.limits import TOKEN_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.commit.actions import Action
    from dynamodb_outbox.event import Event

__all__ = ["custom_fingerprint", "fingerprint_of", "guard_hash", "token_of"]


def fingerprint_of(actions: Sequence[Action], events: Sequence[Event]) -> str:
    """Return the fingerprint of a command whose events have their keys."""
    content = {
        "actions": [[each.kind, each.body if each.content is None else each.content] for each in actions],
        "events": [[e.type, e.payload, e.key, e.subject, _lasting(e.attributes)] for e in events],
    }
    return _sha256(_canonical(content))


def custom_fingerprint(text: str) -> str:
    """Return the fingerprint for a text that the caller chose; no computed fingerprint equals it."""
    return _sha256("given\0" + text)


def guard_hash(source: str, idempotency_key: str) -> str:
    """Return what stands after the prefix in a guard's partition key: commands of different sources never meet."""
    return _sha256(f"{source}\0{idempotency_key}")


def token_of(guard: str, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the ClientRequestToken of a guarded transaction: one request, one token."""
    return _sha256(f"{guard}\0{_canonical(items)}")[:TOKEN_LENGTH]


def _lasting(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if name not in TRACE_ATTRIBUTES}


def _canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_bytes)


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
