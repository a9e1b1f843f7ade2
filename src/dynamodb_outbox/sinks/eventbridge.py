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

import re
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import refusal, shown, text
from dynamodb_outbox.core.codec.envelope import cloudevent, raw, source_fault
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.codec.strict import JsonFault, examine, is_json
from dynamodb_outbox.core.limits import (
    EVENT_BUS_NAME,
    EVENT_DETAIL_LEVELS,
    EVENT_TIME_BYTES,
    EVENT_TYPE_LENGTH,
    EVENTBRIDGE,
    SinkLimits,
)
from dynamodb_outbox.core.relay.outcome import (
    Answered,
    Fault,
    Kind,
    Outcome,
    Prepared,
    Presence,
    RequestFailed,
    Verified,
)
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.content import Refused, published_text
from dynamodb_outbox.sinks.failures import Codes, classify
from dynamodb_outbox.sinks.options import envelope_of, function_of, limits_of, own_config
from dynamodb_outbox.sinks.presence import not_told, verified

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
"""Codes of single entries, and of requests of which no entry is valid."""

_CODES = Codes(ENTRY_CODES, missing=frozenset(("ResourceNotFoundException",)))

_FURTHER = 4
"""One in so many parts of a request's time may have passed when a further question of `verify` is asked."""

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
        if not _BUS.fullmatch(text(bus, refusal("EventBridge", "bus"))):
            raise ConfigurationError(
                f"EventBridge({shown(bus)}): neither the name nor the ARN of an event bus, whose name has 1 to 256 "
                "letters, digits, '.', '-' and '_'."
            )
        config = own_config("EventBridge", timeout_s)
        function_of("EventBridge", "resources", resources, "texts")
        self.bus = bus
        self.limits = limits_of("EventBridge", limits)
        self._envelope = envelope_of("EventBridge", envelope)
        self._resources = resources
        self._arn = arn_of(bus)
        self._monotonic_s = time.monotonic
        self._client = OwnClient("events", config, client, region=self._arn.region if self._arn else None)

    def __repr__(self) -> str:
        return f"EventBridge({self.bus!r})"

    @property
    def name(self) -> str:
        """The bus as given: its name or ARN."""
        return self.bus

    @property
    def request_ms(self) -> int:
        """The longest time that `publish` or `verify` may take, in milliseconds: of an ARN, some more than a request.

        The further questions of `verify` are asked only as long as it has taken no more than that.
        """
        return self._client.call_ms + self._further_ms

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into an entry of PutEvents, or say why the bus could never accept it. Sends nothing."""
        try:
            return self._prepared(event)
        except Refused as refused:
            return refused.fault

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send prepared entries in one PutEvents request and report on each."""
        try:
            answer = self._client.get().put_events(Entries=list(entries))
        except (*TRANSPORT, ConfigurationError) as error:
            return RequestFailed(classify(error, _CODES))
        results = tuple(map(_result, answer.get("Entries", ())))
        refused = sum(bool(result.get("ErrorCode")) for result in answer.get("Entries", ()))
        # A result that says nothing is not among them: it would make up for a failure that is told as accepted.
        if answer.get("FailedEntryCount", refused) != refused:
            said = f"FailedEntryCount is {answer['FailedEntryCount']}, and {refused} results say so"
            return RequestFailed(Fault(Kind.UNKNOWN, "InconsistentAnswer", said))
        return Answered(results)

    def verify(self) -> Verified:
        """Ask EventBridge (DescribeEventBus) whether the bus is there; raises nothing.

        An ARN that is not found takes two more requests, within `request_ms` all the same: what there is no time for
        is left without an answer, and asked again.

        The permission is `events:DescribeEventBus`; without it, and for the bus of another account, it cannot be told.
        With an ARN it is needed for the bus "default" of that Region as well: what is missing is told from another
        account's by it.
        PutEvents would say nothing: it accepts events for a bus that does not exist, and they are gone.
        """
        began_s = self._monotonic_s()
        there = self._described(self.bus)
        if there.presence is not Presence.MISSING or self._arn is None:
            return there
        if self._is_late(began_s):
            return _too_late(there)
        try:
            own = self._own_account()
        except (*TRANSPORT, ConfigurationError) as error:
            unsure = not_told(error)
            return replace(unsure, reason=f"{there.reason} (whose account this is, cannot be told: {unsure.reason})")
        if own is None:
            return Verified(Presence.UNSURE, f"{there.reason} (whose account this is, cannot be told)", passing=True)
        if own == self._arn.account:  # then a name is the same bus; local engines know it by its name alone
            by_name = self._arn.resource.removeprefix("event-bus/")
            return _too_late(there) if self._is_late(began_s) else self._described(by_name)
        return Verified(Presence.UNSURE, f"{there.reason} (asked as account {own}, not the bus's own)")

    @property
    def _further_ms(self) -> int:
        return 0 if self._arn is None else self._client.call_ms // _FURTHER

    def _is_late(self, began_s: float) -> bool:
        return 1000 * (self._monotonic_s() - began_s) >= self._further_ms

    def _described(self, bus: str) -> Verified:
        return verified(lambda: self._client.get().describe_event_bus(Name=bus).get("Arn"), _CODES)

    def _own_account(self) -> str | None:
        default = arn_of(str(self._client.get().describe_event_bus(Name="default").get("Arn")))
        return default.account if default else None

    def _prepared(self, event: Event) -> Prepared:
        _check_names(event)
        detail = self._detail(event)
        resources = self._resources_of(event)
        try:
            content = detail.encode("utf-8")
            size = EVENT_TIME_BYTES + len(content) + text_bytes(event.source) + text_bytes(event.type)
            size += sum(map(text_bytes, resources))
        except UnicodeEncodeError:
            raise Refused("NotUtf8", "a text of the event has no form in UTF-8") from None
        if size > self.limits.entry_bytes:
            raise Refused("EntryTooLarge", f"{size:,} bytes, of which the bus takes {self.limits.entry_bytes:,}")
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
        detail = published_text(self._envelope, event)
        if self._envelope is cloudevent:
            return detail
        if not detail.lstrip(" \t\r\n").startswith("{") or (self._envelope is not raw and not is_json(detail)):
            raise Refused("DetailNotAnObject", "Detail must be a JSON object")
        return detail

    def _resources_of(self, event: Event) -> list[str]:
        if self._resources is None:
            return []
        try:
            resources = list(self._resources(event))
        except Exception as error:  # noqa: BLE001 -- as above
            raise Refused("ResourcesFailed", f"the resources function raised {type(error).__name__}") from None
        if not all(isinstance(resource, str) for resource in resources):
            raise Refused("ResourcesFailed", "the resources function returned something that is not text")
        return resources


def _check_names(event: Event) -> None:
    if (fault := source_fault(event.source)) is not None:
        raise Refused("SourceNotAllowed", fault)
    if not 0 < len(event.type) <= EVENT_TYPE_LENGTH:
        raise Refused("TypeTooLong", f"1 to {EVENT_TYPE_LENGTH} characters, not {len(event.type)}")


def _check_detail(detail: str, content: bytes) -> None:
    """Look closely only at text that could break a rule: scans of its bytes are far cheaper than a parse."""
    is_shallow = len(content) <= EVENT_DETAIL_LEVELS or content.count(b"{") + content.count(b"[") <= EVENT_DETAIL_LEVELS
    if is_shallow and _LONG_RUN not in content.translate(_DIGITS_AS_ZERO):
        return
    try:
        shape = examine(detail)
    except JsonFault as fault:
        raise Refused("DetailNotJson", str(fault)) from None
    if shape.depth > EVENT_DETAIL_LEVELS:
        raise Refused("NestedTooDeeply", f"{shape.depth:,} levels, of which the bus takes {EVENT_DETAIL_LEVELS:,}")
    if shape.wide_integer_at is not None:
        where = f"at character {shape.wide_integer_at:,} of Detail"
        raise Refused("IntegerTooWide", f"an integer {where} does not fit 64 bits; publish it as text")


def _too_late(there: Verified) -> Verified:
    return Verified(Presence.UNSURE, f"{there.reason} (no time to ask whose account this is)", passing=True)


def _result(result: Mapping[str, Any]) -> Fault | None:
    code = result.get("ErrorCode")
    if code:
        return _CODES.of_entry(str(code), str(result.get("ErrorMessage", "")))
    if not result.get("EventId"):
        return Fault(Kind.UNKNOWN, "NoResult", "the entry's result has neither an EventId nor an ErrorCode")
    return None
