"""What an exception of the SDK says, read in one way.

An error answer has a code, words and an HTTP status. An answer without a status (a client wrapped by a tracer or a
test) counts as the server's own fault, because nothing is known of the request then. An exception that is no answer
has its class's name as the code, and status 0. A refused parameter is named without its value: what is said here is
logged and stored, and values are data.
"""

from __future__ import annotations

from typing import NamedTuple

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    EndpointProviderError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from dynamodb_outbox.core import error_codes
from dynamodb_outbox.errors import ConfigurationError

__all__ = ["FAILS", "NEVER_ARRIVED", "NEVER_SENT", "TRANSPORT", "Said", "is_lost", "is_refused", "may_pass", "said"]

TRANSPORT = (BotoCoreError, ClientError, ResponseParserError)
"""All that a call of a client raises. The three have no other root in common than Exception."""

FAILS = (*TRANSPORT, ConfigurationError)
"""What a call by a client of `sdk.clients` raises: it is made at its first use, and may find that it cannot be."""

NEVER_SENT = (
    CredentialRetrievalError,
    EndpointProviderError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""Errors that arise before a request leaves: credentials, parameters, the endpoint."""

NEVER_ARRIVED = (*NEVER_SENT, ConnectTimeoutError, EndpointConnectionError)
"""Errors without a connection over which a request could have left.

A commit takes the time-out for an outcome that nobody knows (`adapters.dynamodb`): told that nothing was written, its
caller may do something else, while a retry with the same token tells for sure. Leases and parking, which go by these,
are conditional writes of a program that tries again.
"""


class Said(NamedTuple):
    """What an exception says: `code`, `message`, and the HTTP `status` of the answer (0: there was no answer)."""

    code: str
    message: str
    status: int

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def said(error: Exception) -> Said:
    """Return the code, the words and the status of an exception, whatever its kind."""
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", error_codes.SERVER_ERROR)
        return Said(str(details.get("Code") or "Unknown"), str(details.get("Message") or ""), int(status))
    name = type(error).__name__
    if isinstance(error, ParamValidationError):
        first = str(error.kwargs.get("report", "")).partition("\n")[0]
        return Said(name, first.partition(", value:")[0], 0)
    if isinstance(error, NoCredentialsError):
        return Said(name, f"{error}: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", 0)
    return Said(name, str(error), 0)


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed later: throttling, a server's own fault, any broken connection."""
    if isinstance(error, ClientError):
        code, _, status = said(error)
        return error_codes.may_pass(code, status)
    if isinstance(error, CredentialRetrievalError):
        return True  # whoever hands out credentials may be back at the next call
    return isinstance(error, TRANSPORT) and not isinstance(error, NEVER_SENT)


def is_refused(error: Exception, code: str) -> bool:
    """Whether an exception is the service's answer with this code."""
    return isinstance(error, ClientError) and said(error).code == code


def is_lost(error: Exception) -> bool:
    """Whether a write that failed may have been done, by the last attempt of its request: no answer denies it.

    Of earlier attempts nothing is said; most often they met the same trouble.
    """
    if isinstance(error, ClientError):
        code, _, status = said(error)
        if code in error_codes.UNFINISHED or code in error_codes.SERVER_TROUBLE:
            return True
        turned_away = code in error_codes.THROTTLING or code in error_codes.CONFLICTS
        return status >= error_codes.SERVER_ERROR and not turned_away
    return isinstance(error, TRANSPORT) and not isinstance(error, NEVER_ARRIVED)
