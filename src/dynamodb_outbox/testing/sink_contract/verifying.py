"""Checks of what a sink finds out about its destination."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.relay.outcome import Presence, Verified
from dynamodb_outbox.testing.sink_contract.publishing import SLACK_MS
from dynamodb_outbox.testing.sink_contract.stand_in import ContractBroken, Reply

if TYPE_CHECKING:
    from dynamodb_outbox.testing.sink_contract.stand_in import StandIn

__all__ = ["verify_is_honest"]

_REQUESTS = 2
"""What a `verify` may take at most, in units of `request_ms`."""

_PRESENCE = {
    Reply.ACCEPT: Presence.OK,
    Reply.MISSING: Presence.MISSING,
    Reply.DENIED: Presence.UNSURE,
    Reply.THROTTLED: Presence.UNSURE,
    Reply.TROUBLE: Presence.UNSURE,
    Reply.GARBLED: Presence.UNSURE,
    Reply.RESET: Presence.UNSURE,
    Reply.SILENT: Presence.UNSURE,
}


_UNANSWERED = (Reply.THROTTLED, Reply.TROUBLE, Reply.GARBLED, Reply.RESET, Reply.SILENT)
"""What says nothing of the destination, and may be another thing the next time."""


def verify_is_honest(stand_in: StandIn) -> None:
    """Check that `verify` says OK or MISSING when the service did, UNSURE with a reason otherwise, and raises nothing.

    For a destination that is MISSING the relay publishes nothing. One of which it is UNSURE it asks again where that is
    `passing`, which is what no answer is: publishing on nobody's word loses events where the destination is gone. It
    publishes and warns otherwise, which is what "not allowed to look" is: held for that, events would be held for good.
    """
    check = "verify_is_honest"
    for reply, presence in _PRESENCE.items():
        sink = stand_in.sink()  # a new one: nothing that an earlier answer taught it
        stand_in.play(reply)
        began = time.monotonic()
        found = _verified(sink, reply, check)
        took_ms = round(1000 * (time.monotonic() - began))
        if found.presence is not presence:
            raise ContractBroken(check, f"{reply.name} should be {presence.name}, and came out as {found!r}")
        if presence is not Presence.OK and not found.reason:
            raise ContractBroken(check, f"{reply.name}: {presence.name} without a reason")
        if presence is Presence.UNSURE and found.passing is not (reply in _UNANSWERED):
            what = "no answer, and so `passing`" if reply in _UNANSWERED else "an answer, and so not `passing`"
            raise ContractBroken(check, f"{reply.name} is {what}, and came out as {found!r}")
        if took_ms > _REQUESTS * sink.request_ms + SLACK_MS:
            raise ContractBroken(check, f"{reply.name}: it took {took_ms:,} ms; request_ms is {sink.request_ms:,}")


def _verified(sink: Any, reply: Reply, check: str) -> Verified:
    try:
        found = sink.verify()
    except Exception as error:
        raise ContractBroken(check, f"{reply.name}: verify raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Verified):
        raise ContractBroken(check, f"{reply.name}: verify returned {found!r}; Verified is needed")
    return found
