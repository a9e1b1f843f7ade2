"""Batches as AWS's JSON protocols have them: a document with a list `Entries` of objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.testing.faultbus.protocol import Batch

__all__ = ["objects", "read", "text", "with_entries"]


def read(body: bytes) -> Mapping[str, Any]:
    """Return the document of a request or an answer; one that is no JSON object has nothing in it."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def objects(document: Mapping[str, Any], name: str) -> list[dict[str, Any]] | None:
    """Return the list of objects of that name, None when it is not one."""
    found = document.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return None
    return found


def text(raw: Mapping[str, Any], name: str) -> str | None:
    """Return the text of that name, None when there is none."""
    value = raw.get(name)
    return value if isinstance(value, str) else None


def with_entries(batch: Batch, indexes: Sequence[int]) -> bytes:
    """Return the body of the request with only these of its entries."""
    return json.dumps({**batch.document, "Entries": [batch.entries[index].raw for index in indexes]}).encode()
