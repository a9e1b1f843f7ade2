"""What comes back when something was not accepted, as faults: botocore's exceptions, and codes of single entries.

What matters is whether the service can have acted. An error answer says that it did not; so does a connection that
never came about. A connection that broke, or stayed silent, while an answer was due says nothing: unknown. A request
that botocore itself refuses to build is the fault of its content.

Which code means what is data of each sink (`Codes`). A code that nobody listed never parks: holding loses nothing,
parking in error would set aside what could have been delivered. As the code of a whole request it is held as a fault of
the target when the service blames the request (4xx), and is transient otherwise; as the code of a single entry it is
transient, whoever is to blame, so that it is tried again and entries of other keys go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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

from dynamodb_outbox.core import error_codes
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.errors import said

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CANNOT_SAY", "Codes", "classify", "never_sent"]

_TOO_LARGE = 413
_TOO_MANY = 429
_CONTENT: frozenset[str] = frozenset(
    (
        "RequestEntityTooLarge", "RequestEntityTooLargeException", "SerializationException", "ValidationError",
        "ValidationException",
    )
)  # fmt: skip
"""Codes of a request that can never pass as it is, whatever the bus."""


@dataclass(frozen=True)
class Codes:
    """What one service's codes mean, of entries and of whole requests.

    `kinds` is the class of each code. `throttling` has the codes, beside those that all services share, by which it
    asks for fewer requests. `missing` has those that say that the destination is not there. `too_long` are words of a
    code that otherwise says "some parameter is wrong": with them it is the size of this one message.
    """

    kinds: Mapping[str, Kind] = field(default_factory=lambda: MappingProxyType({}))
    throttling: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    too_long: str | None = None

    def of_entry(self, code: str, reason: str) -> Fault:
        """Return the fault that a single entry's code and words stand for."""
        return self._fault(code, reason, self._kind(code, reason) or Kind.TRANSIENT)

    def of_request(self, code: str, reason: str, status: int) -> Fault:
        """Return the fault that a whole request's code, words and HTTP status stand for."""
        kind = self._kind(code, reason)
        if kind is None:
            if code in _CONTENT or status == _TOO_LARGE:
                kind = Kind.CONTENT
            else:
                kind = Kind.TRANSIENT if error_codes.may_pass(code, status) else Kind.TARGET
        return self._fault(code, reason, kind, throttled=status == _TOO_MANY)

    def _kind(self, code: str, reason: str) -> Kind | None:
        if self.too_long is not None and self.too_long in reason:
            return Kind.CONTENT
        if code in self.missing:
            return Kind.TARGET
        return Kind.TRANSIENT if code in self.throttling else self.kinds.get(code)

    def _fault(self, code: str, reason: str, kind: Kind, *, throttled: bool = False) -> Fault:
        asked = throttled or code in self.throttling or code in error_codes.THROTTLING
        return Fault(kind, code, reason, throttled=asked and kind is Kind.TRANSIENT)


CANNOT_SAY = Codes()
"""Of a service of which nothing is listed."""


def classify(error: Exception, codes: Codes = CANNOT_SAY) -> Fault:
    """Return the fault that an exception of the SDK stands for. Raises the exception itself when it is none of its."""
    code, reason, status = said(error)
    if isinstance(error, ClientError):
        return codes.of_request(code, reason, status)
    if isinstance(error, ParamValidationError):
        return Fault(Kind.CONTENT, code, "the request does not fit the bus's own model")
    if isinstance(error, ConnectionError):
        return Fault(Kind.TRANSIENT, code, reason)
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return Fault(Kind.UNKNOWN, code, reason)
    if isinstance(error, (BotoCoreError, ConfigurationError)):
        return Fault(Kind.TARGET, code, reason)
    raise error


def never_sent(fault: Fault) -> Fault:
    """Return the fault of something that had to be asked before any entry could be sent.

    Whatever became of the question, no entry was accepted, and none of them is to blame.
    """
    kinds = {Kind.UNKNOWN: Kind.TRANSIENT, Kind.CONTENT: Kind.TARGET}
    return replace(fault, kind=kinds.get(fault.kind, fault.kind))
