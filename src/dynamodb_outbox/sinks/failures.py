"""Exceptions of botocore, as faults: the part that does not depend on the bus.

What matters is whether the bus can have acted. An error answer says that it did not; so does a connection that never
came about. A connection that broke, or stayed silent, while an answer was due says nothing: unknown. A request that
botocore itself refuses to build is the fault of its content. An error answer with a code that nobody listed is held
as a fault of the target when the bus blames the request (4xx): holding loses nothing, parking in error would set aside
what could have been delivered.
"""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 -- botocore's class of this name, whose subclasses are told apart here
    HTTPClientError,
    ParamValidationError,
)
from botocore.parsers import ResponseParserError

from dynamodb_outbox.core import error_codes
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.errors import said

__all__ = ["classify"]

_TOO_LARGE = 413
_CONTENT: frozenset[str] = frozenset(
    (
        "RequestEntityTooLarge", "RequestEntityTooLargeException", "SerializationException", "ValidationError",
        "ValidationException",
    )
)  # fmt: skip
"""Codes of a request that can never pass as it is, whatever the bus."""


def classify(error: Exception) -> Fault:
    """Return the fault that an exception of the SDK stands for. Raises the exception itself when it is none of its."""
    code, reason, status = said(error)
    if isinstance(error, ClientError):
        return Fault(_kind(code, status), code, reason)
    if isinstance(error, ParamValidationError):
        return Fault(Kind.CONTENT, code, "the request does not fit the bus's own model")
    if isinstance(error, ConnectionError):
        return Fault(Kind.TRANSIENT, code, reason)
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return Fault(Kind.UNKNOWN, code, reason)
    if isinstance(error, (BotoCoreError, ConfigurationError)):
        return Fault(Kind.TARGET, code, reason)
    raise error


def _kind(code: str, status: int) -> Kind:
    if code in _CONTENT or status == _TOO_LARGE:
        return Kind.CONTENT
    return Kind.TRANSIENT if error_codes.may_pass(code, status) else Kind.TARGET
