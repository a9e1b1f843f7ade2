"""What PublishBatch and SendMessageBatch have in common: entries and verdicts that find each other by their `Id`.

An answer has two lists, `Successful` and `Failed`. It counts only if it speaks of every entry that was handed over,
once each, and of no other: anything else leaves unsaid what became of one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.faultbus.json_entries import text
from dynamodb_outbox.testing.faultbus.protocol import Entry, Verdict
from dynamodb_outbox.testing.faultbus.said import identity, said_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["entries_of", "rejection", "split", "verdicts"]

Results = list[dict[str, Any]]


def entries_of(raws: Sequence[Mapping[str, Any]] | None, destination: str, message: str) -> tuple[Entry, ...] | None:
    """Return the entries of a request, None unless there is at least one and each has an `Id` of its own.

    `message` is the name of the field with the message; an entry without it counts as one with an empty message.
    """
    ids = [text(raw, "Id") for raw in raws or ()]
    if not raws or None in ids or len(set(ids)) < len(ids):
        return None
    return tuple(_entry(raw, destination, text(raw, message) or "") for raw in raws)


def verdicts(
    successful: Results | None, failed: Results | None, entries: Sequence[Entry]
) -> tuple[Verdict, ...] | None:
    """Return the verdicts on `entries`, in their order; None when the answer does not speak of exactly these."""
    results = [Verdict(one, None if one.get("MessageId") else "NoResult") for one in successful or ()]
    results += [Verdict(one, str(one.get("Code") or "NoResult")) for one in failed or ()]
    found = {text(verdict.raw, "Id"): verdict for verdict in results}
    if len(found) < len(results) or set(found) != {entry.raw["Id"] for entry in entries}:
        return None
    return tuple(found[entry.raw["Id"]] for entry in entries)


def rejection(entry: Entry, code: str, *, sender_fault: bool) -> Verdict:
    """Return the verdict of an entry that the bus itself refuses, in the form of a `Failed` one."""
    message = "refused by the fault plan"
    return Verdict({"Id": entry.raw["Id"], "Code": code, "Message": message, "SenderFault": sender_fault}, code)


def split(given: Sequence[Verdict]) -> dict[str, list[Mapping[str, Any]]]:
    """Return verdicts as the two lists of an answer."""
    return {
        "Successful": [verdict.raw for verdict in given if verdict.code is None],
        "Failed": [verdict.raw for verdict in given if verdict.code is not None],
    }


def _entry(raw: Mapping[str, Any], destination: str, body: str) -> Entry:
    said = said_by(body)
    group, deduplication_id = text(raw, "MessageGroupId"), text(raw, "MessageDeduplicationId")
    return Entry(
        identity=identity(said.id or deduplication_id, body),
        destination=destination,
        source=said.source,
        detail_type=said.type,
        id=said.id,
        key=group if said.key is None else said.key,
        group=group,
        deduplication_id=deduplication_id,
        detail=body,
        raw=raw,
    )
