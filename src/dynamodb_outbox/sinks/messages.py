"""What SNS and SQS have in common: a message of text with attributes, and ten of them in a request.

**Characters.** A body may hold #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF [BC, SQS]. SNS
accepts others, and drops the message on its way to a queue with raw delivery, in silence. In JSON text most of the
forbidden characters are escaped anyway; the rest (#xFFFE, #xFFFF) and control characters (#x7F to #x9F) are escaped
here, which leaves the value equal. Text that is no JSON and holds a forbidden character is a content fault.

**Attributes** are for filters: a consumer finds everything in the envelope. One whose value is empty, or holds a
control character, is left out, because SNS drops a raw message that has such a value, or more than ten attributes
[SNSG]; more than ten can come only from a user's function, and are a content fault.

**Results** are matched by the Id that each entry is given, never by position, for neither service promises an order. An
Id that is missing from the answer, or in it twice, is not accepted. An answer that speaks of an Id that was never sent
is about another request, and accepts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import cloudevent, raw
from dynamodb_outbox.core.codec.size import entry_bytes
from dynamodb_outbox.core.codec.strict import is_json
from dynamodb_outbox.core.limits import MESSAGE_ATTRIBUTES
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.sinks.content import Refused, published_text
from dynamodb_outbox.sinks.groups import deduplication_id, group_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.core.codec.envelope import Envelope
    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.relay.outcome import Outcome
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.sinks.failures import Codes

__all__ = ["Attributes", "MessageForm", "attributes_of", "body_of", "numbered", "outcome"]

Attributes = Callable[["Event"], Mapping[str, str]]
"""A user's own message attributes of an event, by name."""

_NO_RESULT = Fault(Kind.UNKNOWN, "NoResult", "the answer does not say that the entry was accepted or refused")
_TWO_RESULTS = Fault(Kind.UNKNOWN, "InconsistentAnswer", "the answer has two results for the entry")

# What is not allowed, in place of all but what is allowed: that takes a tenth of the time to compile.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_ESCAPED = re.compile("[\x7f-\x9f\ufffe\uffff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)", re.ASCII)


@dataclass(frozen=True)
class MessageForm:
    """How events become entries of one destination's requests.

    `body` is the name of the entry's member for the text, `counted` the service's own rule for sizes, `limits` what is
    taken. `grouped`: with a MessageGroupId; `fifo`: with a MessageDeduplicationId too.
    """

    body: str
    counted: SinkLimits
    limits: SinkLimits
    envelope: Envelope
    attributes: Attributes | None
    grouped: bool
    fifo: bool

    def prepare(self, event: Event, mark: str = "") -> Prepared | Fault:
        """Turn an event into an entry, or say why the service could never deliver it.

        `mark` tells a redrive from all that was sent before: the deduplication id is another one with it.
        """
        try:
            entry: dict[str, Any] = {self.body: body_of(self.envelope, event)}
            if attributes := attributes_of(event, self.attributes):
                entry["MessageAttributes"] = attributes
        except Refused as refused:
            return refused.fault
        size = entry_bytes(entry, self.counted)
        if size > self.limits.entry_bytes:
            reason = f"{size:,} bytes, of which a message takes {self.limits.entry_bytes:,}"
            return Fault(Kind.CONTENT, "EntryTooLarge", reason)
        if self.grouped:
            entry["MessageGroupId"] = group_id(event)
        if self.fifo:
            entry["MessageDeduplicationId"] = deduplication_id(event, mark)
        return Prepared(entry, size)


def body_of(envelope: Envelope, event: Event) -> str:
    """Return an event's text as a message takes it. Raises Refused."""
    body = published_text(envelope, event)
    if not body:
        raise Refused("EnvelopeFailed", "the envelope function returned an empty text, which no message can be")
    if (body.isascii() and body.isprintable()) or not _UNSAFE.search(body):
        return body
    try:
        body.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused("NotUtf8", "a text of the event has no form in UTF-8") from None
    if envelope is cloudevent or envelope is raw or is_json(body):
        body = _ESCAPED.sub(lambda each: f"\\u{ord(each[0]):04x}", body)
    if found := _FORBIDDEN.search(body):
        where = f"character {found.start():,} is U+{ord(found[0]):04X}"
        raise Refused("CharacterNotAllowed", f"{where}, which no message may hold; JSON can have it escaped")
    return body


def attributes_of(event: Event, own: Attributes | None) -> dict[str, dict[str, str]]:
    """Return an event's message attributes in the form of both services. Raises Refused.

    `id`, `type`, `source`, `subject` and `traceparent`, as far as the event has them, and the user's own.
    """
    values = {"id": event.id, "type": event.type, "source": event.source}
    if event.subject is not None:
        values["subject"] = event.subject
    if "traceparent" in event.attributes:
        values["traceparent"] = event.attributes["traceparent"]
    if own is not None:
        values.update(_own_attributes(own, event))
    kept = {name: value for name, value in values.items() if value and not _CONTROL.search(value)}
    if len(kept) > MESSAGE_ATTRIBUTES:
        raise Refused(
            "AttributesFailed", f"{len(kept)} message attributes, of which a message takes {MESSAGE_ATTRIBUTES}"
        )
    return {name: {"DataType": "String", "StringValue": value} for name, value in kept.items()}


def _own_attributes(own: Attributes, event: Event) -> dict[str, str]:
    try:
        values = dict(own(event))
    except Exception as error:  # noqa: BLE001 -- a user's function: what it raises is a fault of this event
        raise Refused("AttributesFailed", f"the attributes function raised {type(error).__name__}") from None
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(value, str):
            raise Refused("AttributesFailed", "the attributes function returned a name or a value that none can have")
    return values


def numbered(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return entries with Ids that are unique within a request: their positions."""
    return [{"Id": str(position), **entry} for position, entry in enumerate(entries)]


def outcome(answer: Mapping[str, Any], count: int, codes: Codes) -> Outcome:
    """Return what an answer says of each of `count` entries, in the order sent."""
    results: dict[str, Fault | None] = {str(position): _NO_RESULT for position in range(count)}
    told: set[str] = set()
    for number, fault in _told(answer, codes):
        if number not in results:
            return RequestFailed(Fault(Kind.UNKNOWN, "InconsistentAnswer", "a result for an Id that was not sent"))
        results[number] = _TWO_RESULTS if number in told else fault
        told.add(number)
    return Answered(tuple(results.values()))


def _told(answer: Mapping[str, Any], codes: Codes) -> Iterator[tuple[str, Fault | None]]:
    """Yield each Id that an answer speaks of, and what it says of it."""
    for result in answer.get("Successful") or ():
        yield str(result.get("Id")), None if result.get("MessageId") else _NO_RESULT
    for result in answer.get("Failed") or ():
        code, reason = str(result.get("Code") or "NoCode"), str(result.get("Message") or "")
        yield str(result.get("Id")), codes.of_entry(code, reason)
