"""EventBridge classic PutEvents: JSON 1.1, `X-Amz-Target: AWSEvents.PutEvents`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.faultbus.exchange import Answer, json_answer
from dynamodb_outbox.testing.faultbus.protocol import Batch, Entry, Verdict, cloudevent_id, identity

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

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries; one without a text as Detail counts as one with an empty Detail."""
        document = _json(body)
        if not isinstance(document, dict):
            return None
        entries = document.get("Entries")
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            return None
        return Batch(tuple(_entry(entry) for entry in entries), document)

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the request's document with only these entries."""
        return json.dumps({**batch.document, "Entries": [batch.entries[index].raw for index in indexes]}).encode()

    def verdicts(self, body: bytes, count: int) -> tuple[Verdict, ...] | None:
        """Read `Entries`: an entry with an ErrorCode was not accepted."""
        document = _json(body)
        results = document.get("Entries") if isinstance(document, dict) else None
        if not isinstance(results, list) or len(results) != count:
            return None
        if not all(isinstance(result, dict) for result in results):
            return None
        return tuple(Verdict(result, _code(result)) for result in results)

    def rejection(self, code: str) -> Verdict:
        """Return a failed entry of a 200 answer."""
        return Verdict({"ErrorCode": code, "ErrorMessage": "refused by the fault plan"}, code)

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the 200 answer, its entries aligned with the request's."""
        failed = sum(verdict.code is not None for verdict in verdicts)
        document = {"FailedEntryCount": failed, "Entries": [verdict.raw for verdict in verdicts]}
        return json_answer(200, document, content_type=_CONTENT_TYPE)

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return a JSON 1.1 error."""
        return json_answer(status, {"__type": code, "message": message}, content_type=_CONTENT_TYPE)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _entry(raw: Mapping[str, Any]) -> Entry:
    detail = _text(raw, "Detail") or ""
    event_id = cloudevent_id(detail)
    return Entry(
        identity=identity(event_id, detail),
        bus=_text(raw, "EventBusName") or "default",
        source=_text(raw, "Source"),
        detail_type=_text(raw, "DetailType"),
        id=event_id,
        detail=detail,
        raw=raw,
    )


def _text(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _code(result: Mapping[str, Any]) -> str | None:
    code = result.get("ErrorCode")
    if code:
        return str(code)
    return None if result.get("EventId") else "NoResult"
