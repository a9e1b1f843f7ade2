"""An event's published text, made by an envelope that may be the user's own.

What a user's function raises, or returns in place of text, is a fault of the event at hand and never an exception of
the sink. What it said is not repeated: it may quote the event's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.errors import InvalidEvent

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.envelope import Envelope
    from dynamodb_outbox.event import Event

__all__ = ["Refused", "published_text"]


class Refused(Exception):
    """The bus could never accept the event; caught where `prepare` began."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(code)

    @property
    def fault(self) -> Fault:
        """The same as a fault of the event's content."""
        return Fault(Kind.CONTENT, self.code, self.reason)


def published_text(envelope: Envelope, event: Event) -> str:
    """Return the event in its envelope. Raises Refused."""
    try:
        published = envelope(event)
    except InvalidEvent as error:
        raise Refused("EnvelopeFailed", str(error)) from None
    except Exception as error:  # noqa: BLE001 -- a user's function: what it raises is a fault of this event
        raise Refused("EnvelopeFailed", f"the envelope function raised {type(error).__name__}") from None
    if envelope is not cloudevent and not isinstance(published, str):
        raise Refused("EnvelopeFailed", f"the envelope function returned {type(published).__name__}, not str")
    return published
