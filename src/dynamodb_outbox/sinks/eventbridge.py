"""Amazon EventBridge, the classic bus: PutEvents.

An event becomes one entry: Source, DetailType and Time from the event, Detail from the envelope. What the bus would
refuse for ever is found before anything is sent, by the bus's own rules, which no local engine checks: a Detail that is
no JSON object, an integer beyond 64 bits, nesting beyond 1,000 levels, names that are too long, an entry that is too
large. Such an event is a content fault of its own and cannot spoil the request of others.

PutEvents answers 200 with a result for each entry, some of which may say that it was not accepted; the SDK does not
retry those. An entry counts as accepted when its result has an EventId and no ErrorCode, and when the answer is
consistent with itself.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.arguments import shown, text
from dynamodb_outbox.core.codec.envelope import ENVELOPES, cloudevent, raw, source_fault
from dynamodb_outbox.core.codec.strict import JsonFault, examine, is_json
from dynamodb_outbox.core.limits import (
    EVENT_BUS_NAME,
    EVENT_DETAIL_LEVELS,
    EVENT_TIME_BYTES,
    EVENT_TYPE_LENGTH,
    EVENTBRIDGE,
    SinkLimits,
)
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Outcome, Prepared, RequestFailed
from dynamodb_outbox.errors import ConfigurationError, InvalidEvent
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.failures import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.core.codec.envelope import Envelope
    from dynamodb_outbox.event import Event

__all__ = ["ENTRY_CODES", "EventBridge"]

ENTRY_CODES: Mapping[str, Kind] = MappingProxyType(
    {
        "InternalFailure": Kind.TRANSIENT,  # [BC] "retryable errors include"
        "InternalException": Kind.TRANSIENT,
        "ThrottlingException": Kind.TRANSIENT,
        "InvalidArgument": Kind.CONTENT,  # [BC] "non-retryable errors include", from here on
        "MalformedDetail": Kind.CONTENT,
        "RedactionFailure": Kind.CONTENT,
        "AccessDeniedException": Kind.TARGET,
        "InvalidAccountIdException": Kind.TARGET,
        "NotAuthorizedForDetailTypeException": Kind.TARGET,
        "NotAuthorizedForSourceException": Kind.TARGET,
    }
)
"""Codes of single entries. One that is not here is taken for transient: it is held, and never parked."""

_BUS = re.compile(EVENT_BUS_NAME, re.ASCII)
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN = b"0" * 19  # of digits: int64 has at most 19, so less cannot be too wide


class EventBridge:
    """The event bus `bus` (its name or ARN).

    client      a boto3 client of "events"; made on first use when none is given, with one attempt per request, since
                the relay retries by itself
    envelope    "cloudevents" (a CloudEvents 1.0 object in Detail), "raw" (the payload alone, which must be an object
                then), or a function from Event to JSON text
    resources   a function from Event to the entry's Resources (texts, usually ARNs)
    timeout_s   the longest that one request of our own client may take, seconds
    limits      what one request takes; some Regions still have 256 KB

    Raises ConfigurationError for a name that no bus can have, an unknown envelope, a time-out that is not positive, or
    a client of another service.
    """

    def __init__(
        self,
        bus: str,
        *,
        client: Any = None,
        envelope: str | Envelope = "cloudevents",
        resources: Callable[[Event], Sequence[str]] | None = None,
        timeout_s: float = 2.5,
        limits: SinkLimits = EVENTBRIDGE,
    ) -> None:
        if not _BUS.fullmatch(text(bus, _refusal("bus"))):
            raise ConfigurationError(f"EventBridge({shown(bus)}): neither the name nor the ARN of an event bus.")
        if envelope not in ENVELOPES if isinstance(envelope, str) else not callable(envelope):
            raise ConfigurationError(
                f"EventBridge(envelope={shown(envelope)}): one of {sorted(ENVELOPES)}, or a function from Event "
                "to text."
            )
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < math.inf:
            raise ConfigurationError(f"EventBridge(timeout_s={shown(timeout_s)}): a number of seconds, more than 0.")
        if resources is not None and not callable(resources):
            raise ConfigurationError(f"EventBridge(resources={shown(resources)}): a function from Event to texts.")
        if not isinstance(limits, SinkLimits):
            raise ConfigurationError(f"EventBridge(limits={shown(limits)}): SinkLimits are needed.")
        self.bus = bus
        self.limits = limits
        self._envelope = ENVELOPES[envelope] if isinstance(envelope, str) else envelope
        self._resources = resources
        self._client = OwnClient("events", _own_config(timeout_s), client)

    def __repr__(self) -> str:
        return f"EventBridge({self.bus!r})"

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into an entry of PutEvents, or say why the bus could never accept it. Sends nothing."""
        try:
            return self._prepared(event)
        except _Refused as refused:
            return Fault(Kind.CONTENT, refused.code, refused.reason)

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send prepared entries in one PutEvents request and report on each."""
        try:
            answer = self._client.get().put_events(Entries=list(entries))
        except (*TRANSPORT, ConfigurationError) as error:
            return RequestFailed(classify(error))
        results = tuple(map(_result, answer.get("Entries", ())))
        refused = sum(fault is not None for fault in results)
        if answer.get("FailedEntryCount", refused) != refused:
            said = f"FailedEntryCount is {answer['FailedEntryCount']}, and {refused} results say so"
            return RequestFailed(Fault(Kind.UNKNOWN, "InconsistentAnswer", said))
        return Answered(results)

    def _prepared(self, event: Event) -> Prepared:
        _check_names(event)
        detail = self._detail(event)
        resources = self._resources_of(event)
        try:
            content = detail.encode("utf-8")
            size = EVENT_TIME_BYTES + len(content) + sum(map(_utf8_length, (event.source, event.type, *resources)))
        except UnicodeEncodeError:
            raise _Refused("NotUtf8", "a text of the event has no form in UTF-8") from None
        if size > self.limits.entry_bytes:
            raise _Refused("EntryTooLarge", f"{size:,} bytes, of which the bus takes {self.limits.entry_bytes:,}")
        _check_detail(detail, content)
        entry = {
            "EventBusName": self.bus,
            "Source": event.source,
            "DetailType": event.type,
            "Time": event.time,
            "Detail": detail,
        }
        return Prepared(entry | {"Resources": resources} if resources else entry, size)

    def _detail(self, event: Event) -> str:
        try:
            detail = self._envelope(event)
        except InvalidEvent as error:
            raise _Refused("EnvelopeFailed", str(error)) from None
        except Exception as error:  # noqa: BLE001 -- a user's function: what it raises is a fault of this event
            raise _Refused("EnvelopeFailed", f"the envelope function raised {type(error).__name__}") from None
        if self._envelope is not cloudevent:
            if not isinstance(detail, str):
                raise _Refused("EnvelopeFailed", f"the envelope function returned {type(detail).__name__}, not str")
            if not detail.lstrip(" \t\r\n").startswith("{") or (self._envelope is not raw and not is_json(detail)):
                raise _Refused("DetailNotAnObject", "Detail must be a JSON object")
        return detail

    def _resources_of(self, event: Event) -> list[str]:
        if self._resources is None:
            return []
        try:
            resources = list(self._resources(event))
        except Exception as error:  # noqa: BLE001 -- as above
            raise _Refused("ResourcesFailed", f"the resources function raised {type(error).__name__}") from None
        if not all(isinstance(resource, str) for resource in resources):
            raise _Refused("ResourcesFailed", "the resources function returned something that is not text")
        return resources


def _refusal(what: str) -> Callable[[str], ConfigurationError]:
    return lambda reason: ConfigurationError(f"EventBridge: {what} {reason}")


def _own_config(timeout_s: float) -> Config:
    connect_s = min(1.0, timeout_s / 3)
    return Config(
        connect_timeout=connect_s,
        read_timeout=timeout_s - connect_s,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=64,
        tcp_keepalive=True,
    )


class _Refused(Exception):
    """The bus could never accept the event; caught where `prepare` began."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(code)


def _check_names(event: Event) -> None:
    if (fault := source_fault(event.source)) is not None:
        raise _Refused("SourceNotAllowed", fault)
    if not 0 < len(event.type) <= EVENT_TYPE_LENGTH:
        raise _Refused("TypeTooLong", f"1 to {EVENT_TYPE_LENGTH} characters, not {len(event.type)}")


def _check_detail(detail: str, content: bytes) -> None:
    """Look closely only at text that could break a rule: scans of its bytes are far cheaper than a parse."""
    if content.count(b"{") + content.count(b"[") <= EVENT_DETAIL_LEVELS and _LONG_RUN not in content.translate(
        _DIGITS_AS_ZERO
    ):
        return
    try:
        shape = examine(detail)
    except JsonFault as fault:
        raise _Refused("DetailNotJson", str(fault)) from None
    if shape.depth > EVENT_DETAIL_LEVELS:
        raise _Refused("NestedTooDeeply", f"{shape.depth:,} levels, of which the bus takes {EVENT_DETAIL_LEVELS:,}")
    if shape.wide_integer_at is not None:
        where = f"at character {shape.wide_integer_at:,} of Detail"
        raise _Refused("IntegerTooWide", f"an integer {where} does not fit 64 bits; publish it as text")


def _result(result: Mapping[str, Any]) -> Fault | None:
    code = result.get("ErrorCode")
    if code:
        return Fault(ENTRY_CODES.get(code, Kind.TRANSIENT), str(code), str(result.get("ErrorMessage", "")))
    if not result.get("EventId"):
        return Fault(Kind.UNKNOWN, "NoResult", "the entry's result has neither an EventId nor an ErrorCode")
    return None


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))
