"""Whether a destination is there, asked of its service.

Three answers, and none is ever raised: it is there; the service says that it is not; or it cannot be told. Who may not
look, or asks about another account's destination, publishes and warns: a permission to publish does not imply one to
look. Everything else is no answer (`passing`), to be asked again with nothing published meanwhile: a token that has
expired, credentials that could not be had, throttling, silence, and any code that nobody listed. The bus may be gone
all the same, and publishing on nobody's word loses what a bus that does not exist takes and forgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from dynamodb_outbox.core.relay.outcome import Presence, Verified
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.errors import TRANSPORT, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.sinks.failures import Codes

__all__ = ["not_told", "verified"]

_NOT_ALLOWED = frozenset(
    (
        "AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException",
        "UnauthorizedOperation",
    )
)  # fmt: skip
"""Codes by which the services say that the question is not allowed [BC; AuthorizationError is that of SNS]."""

_OR_NOT_ALLOWED = "do not have access"
"""Words of SQS, which has one answer for a queue that is not there and for one that is somebody else's secret."""


def verified(ask: Callable[[], object], codes: Codes) -> Verified:
    """Return what the service says to `ask`, which returns something true for a destination that is there."""
    try:
        found = ask()
    except (*TRANSPORT, ConfigurationError) as error:
        told = said(error)
        if isinstance(error, ClientError) and told.code in codes.missing:
            unsure = _OR_NOT_ALLOWED in told.message
            return Verified(Presence.UNSURE if unsure else Presence.MISSING, str(told))
        return not_told(error)
    except (AttributeError, LookupError, TypeError) as error:  # an answer without what was asked for
        return Verified(Presence.UNSURE, f"the answer has another form ({type(error).__name__})", passing=True)
    if found:
        return Verified(Presence.OK)
    return Verified(Presence.UNSURE, "the answer names no destination", passing=True)


def not_told(error: Exception) -> Verified:
    """Return what an error in place of an answer comes to: the question is not allowed, or was not answered."""
    told = said(error)
    refused = isinstance(error, ClientError) and told.code in _NOT_ALLOWED
    return Verified(Presence.UNSURE, str(told), passing=not refused)
