"""Exceptions of botocore, as faults: the part that does not depend on the bus.

What matters is whether the bus can have acted. An error answer says that it did not; so does a connection that never
came about. A connection that broke, or stayed silent, while an answer was due says nothing: unknown. A request that
botocore itself refuses to build is the fault of its content. An error answer with a code that nobody listed is held
as a fault of the target when the bus blames the request (4xx): holding loses nothing, parking in error would set aside
what could have been delivered.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 -- botocore's class of this name, whose subclasses are told apart here
    HTTPClientError,
    ParamValidationError,
)
from botocore.parsers import ResponseParserError

from dynamodb_outbox.core.relay.outcome import Fault, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMMON_CODES", "classify"]

_SERVER_ERROR = 500
_TOO_MANY = 429
_TOO_LARGE = 413

COMMON_CODES: Mapping[str, Kind] = MappingProxyType(
    {
        # [BC] what botocore's own retry modes take for throttling or passing trouble
        "BandwidthLimitExceeded": Kind.TRANSIENT,
        "EC2ThrottledException": Kind.TRANSIENT,
        "InternalException": Kind.TRANSIENT,
        "InternalFailure": Kind.TRANSIENT,
        "InternalServerError": Kind.TRANSIENT,
        "LimitExceededException": Kind.TRANSIENT,
        "PriorRequestNotComplete": Kind.TRANSIENT,
        "ProvisionedThroughputExceededException": Kind.TRANSIENT,
        "RequestLimitExceeded": Kind.TRANSIENT,
        "RequestThrottled": Kind.TRANSIENT,
        "RequestThrottledException": Kind.TRANSIENT,
        "RequestTimeout": Kind.TRANSIENT,
        "RequestTimeoutException": Kind.TRANSIENT,
        "ServiceUnavailable": Kind.TRANSIENT,
        "SlowDown": Kind.TRANSIENT,
        "ThrottledException": Kind.TRANSIENT,
        "Throttling": Kind.TRANSIENT,
        "ThrottlingException": Kind.TRANSIENT,
        "TooManyRequestsException": Kind.TRANSIENT,
        # a request that can never pass as it is
        "RequestEntityTooLarge": Kind.CONTENT,
        "RequestEntityTooLargeException": Kind.CONTENT,
        "SerializationException": Kind.CONTENT,
        "ValidationError": Kind.CONTENT,
        "ValidationException": Kind.CONTENT,
    }
)
"""Codes of error answers to a whole request, that mean the same for every bus."""


def classify(error: Exception, codes: Mapping[str, Kind] = COMMON_CODES) -> Fault:
    """Return the fault that a botocore exception stands for; `codes` are those of error answers.

    Raises the exception itself when it is not one of botocore's.
    """
    name = type(error).__name__
    if isinstance(error, ClientError):
        return _answered(error, codes)
    if isinstance(error, ParamValidationError):
        return Fault(Kind.CONTENT, name, "the request does not fit the bus's own model")
    if isinstance(error, ConnectionError):
        return Fault(Kind.TRANSIENT, name, str(error))
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return Fault(Kind.UNKNOWN, name, str(error))
    if isinstance(error, BotoCoreError):
        return Fault(Kind.TARGET, name, str(error))
    raise error


def _answered(error: ClientError, codes: Mapping[str, Kind]) -> Fault:
    answer = error.response
    code = str(answer.get("Error", {}).get("Code", "Unknown"))
    reason = str(answer.get("Error", {}).get("Message", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = codes.get(code)
    if kind is None and status == _TOO_LARGE:
        kind = Kind.CONTENT
    if kind is None:
        kind = Kind.TRANSIENT if status >= _SERVER_ERROR or status == _TOO_MANY else Kind.TARGET
    return Fault(kind, code, reason)
