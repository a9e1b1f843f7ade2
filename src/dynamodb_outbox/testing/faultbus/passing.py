"""What happens to a request that comes in: told, published, or passed through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.testing.faultbus.exchange import json_answer
from dynamodb_outbox.testing.faultbus.publish import serve
from dynamodb_outbox.testing.faultbus.publish_batch import PublishBatch
from dynamodb_outbox.testing.faultbus.put_events import PutEvents
from dynamodb_outbox.testing.faultbus.send_message_batch import SendMessageBatch
from dynamodb_outbox.testing.faultbus.upstream import UpstreamFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request
    from dynamodb_outbox.testing.faultbus.protocol import BatchProtocol
    from dynamodb_outbox.testing.faultbus.publish import Parts

__all__ = ["PROTOCOLS", "route"]

PROTOCOLS: tuple[BatchProtocol, ...] = (PutEvents(), PublishBatch(), SendMessageBatch())


def route(parts: Parts, request: Request, client_gone: Callable[[], bool], *, may_lose: bool) -> Answer | None:
    """Serve a request that is not a control call; None means that its connection is to be reset.

    A publish request that cannot be read as a batch is passed through: what it is worth, the upstream says.
    `may_lose` tells whether the plan loses any passed-through call. Raises `EvidenceUnusable`.
    """
    for protocol in PROTOCOLS:
        if protocol.matches(request):
            batch = protocol.parse(request.body)
            if batch is not None:
                return serve(parts, protocol, batch, request, client_gone)
        asked = protocol.asked(request)
        if asked is not None and parts.decisions.is_missing(asked):
            parts.evidence.fault("destination_missing", request.operation, destination=asked)
            return protocol.not_found(asked)
    then = "forward"
    if may_lose:
        then = parts.decisions.pass_through(request.operation, request.body.decode("utf-8", "replace"))
    if then == "lose_before":
        parts.evidence.fault("request_lost", request.operation)
        return None
    try:
        answer = parts.upstream.send(request)
    except UpstreamFailed as error:
        parts.evidence.fault("upstream_failed", request.operation, reason=error.reason, sent=error.sent)
        return json_answer(502, {"__type": "UpstreamFailed", "message": str(error)})
    if then == "lose_after":
        parts.evidence.fault("answer_lost", request.operation, status=answer.status)
        return None
    return answer
