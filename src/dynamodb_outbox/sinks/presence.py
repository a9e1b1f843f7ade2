"""Whether a destination is there, asked of its service.

Three answers, and none is ever raised: it is there; the service says that it is not; or it cannot be told, because the
question is not allowed, was not answered, or is about another account's destination. Who may not ask publishes and
warns: a permission to publish does not imply one to look. Who got no answer (`passing`) asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from dynamodb_outbox.core.relay.outcome import Kind, Presence, Verified
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.errors import TRANSPORT, said
from dynamodb_outbox.sinks.failures import classify

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.sinks.failures import Codes

__all__ = ["verified"]

_OR_NOT_ALLOWED = "do not have access"
"""Words of SQS, which has one answer for a queue that is not there and for one that is somebody else's secret."""


def verified(ask: Callable[[], object], codes: Codes) -> Verified:
    """Return what the service says to `ask`, which returns something true for a destination that is there."""
    try:
        found = ask()
    except (*TRANSPORT, ConfigurationError) as error:
        if isinstance(error, ClientError):
            code, message, _ = said(error)
            if code in codes.missing and _OR_NOT_ALLOWED not in message:
                return Verified(Presence.MISSING, f"{code}: {message}" if message else code)
        fault = classify(error, codes)
        return Verified(Presence.UNSURE, str(fault), passing=fault.kind in (Kind.TRANSIENT, Kind.UNKNOWN))
    return Verified(Presence.OK) if found else Verified(Presence.UNSURE, "the answer names no destination")
