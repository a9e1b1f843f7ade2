"""EventBridge classic PutEvents: JSON 1.1, `X-Amz-Target: AWSEvents.PutEvents`, results in the order of the entries.

A bus that does not exist is not an error: the entry has an EventId like any other, and is gone [BC, EBG]. Only
DescribeEventBus tells.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.faultbus import json_entries
from dynamodb_outbox.testing.faultbus.exchange import Answer, json_answer
from dynamodb_outbox.testing.faultbus.json_entries import objects, read, text
from dynamodb_outbox.testing.faultbus.protocol import Batch, Entry, Verdict
from dynamodb_outbox.testing.faultbus.said import identity, said_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.testing.faultbus.exchange import Request

__all__ = ["PutEvents"]

_CONTENT_TYPE = "application/x-amz-json-1.1"


class PutEvents:
    """`BatchProtocol` of PutEvents."""

    @property
    def operation(self) -> str:
        """`PutEvents`."""
        return "PutEvents"

    def matches(self, request: Request) -> bool:
        """Whether the request's target is PutEvents."""
        return request.header("x-amz-target") == "AWSEvents.PutEvents"

    def asked(self, request: Request) -> str | None:
        """Return the bus of a DescribeEventBus; without a Name it is the default one."""
        if request.header("x-amz-target") != "AWSEvents.DescribeEventBus":
            return None
        return text(read(request.body), "Name") or "default"

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries; one without a text as Detail counts as one with an empty Detail."""
        document = read(body)
        entries = objects(document, "Entries")
        return Batch(tuple(_entry(entry) for entry in entries), document) if entries else None

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the request's document with only these entries."""
        return json_entries.with_entries(batch, indexes)

    def verdicts(self, body: bytes, entries: Sequence[Entry]) -> tuple[Verdict, ...] | None:
        """Read `Entries`: an entry with an ErrorCode was not accepted."""
        results = objects(read(body), "Entries")
        if results is None or len(results) != len(entries):
            return None
        return tuple(Verdict(result, _code(result)) for result in results)

    def rejection(self, entry: Entry, code: str, *, sender_fault: bool) -> Verdict:  # noqa: ARG002 - not told by PutEvents
        """Return a failed entry of a 200 answer."""
        return Verdict({"ErrorCode": code, "ErrorMessage": "refused by the fault plan"}, code)

    def swallowed(self, entry: Entry) -> Verdict | None:
        """Return a result as good as any."""
        return Verdict({"EventId": str(uuid.uuid5(uuid.NAMESPACE_OID, entry.detail))})

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the 200 answer, its entries aligned with the request's."""
        failed = sum(verdict.code is not None for verdict in verdicts)
        document = {"FailedEntryCount": failed, "Entries": [verdict.raw for verdict in verdicts]}
        return json_answer(200, document, content_type=_CONTENT_TYPE)

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return a JSON 1.1 error."""
        return json_answer(status, {"__type": code, "message": message}, content_type=_CONTENT_TYPE)

    def not_found(self, destination: str) -> Answer:
        """Return the answer to DescribeEventBus for a bus that is not there."""
        return self.error(400, "ResourceNotFoundException", f"Event bus {destination} does not exist.")


def _entry(raw: Mapping[str, Any]) -> Entry:
    detail = text(raw, "Detail") or ""
    said = said_by(detail)
    return Entry(
        identity=identity(said.id, detail),
        destination=text(raw, "EventBusName") or "default",
        source=text(raw, "Source"),
        detail_type=text(raw, "DetailType"),
        id=said.id,
        key=said.key,
        group=None,
        deduplication_id=None,
        detail=detail,
        raw=raw,
    )


def _code(result: Mapping[str, Any]) -> str | None:
    code = result.get("ErrorCode")
    if code:
        return str(code)
    return None if result.get("EventId") else "NoResult"
