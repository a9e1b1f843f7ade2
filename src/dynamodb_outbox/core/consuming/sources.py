"""Which source delivered a batch, and in which form it is answered: two tables, and how a source is recognised.

A function is not told what invokes it; it sees so from what it is given. Lambda's own mappings and SNS give an object
with `Records`, each of which names its source. EventBridge gives one object, the event. A pipe gives an array: of
records that name their source one level less deep than a mapping's do, or of whatever its input template makes of them.

    answering   what a failure means to the source
    EACH        the messages that failed are named, the others are deleted
    FIRST       a stream goes on from the lowest number that is named, so that nothing after a failure is tried
    REST        the same on a pipe: which of a stream's records a pipe gives again is said in words of single events
                [EBG], so that all records from the failure on are named. Right in either reading
    WHOLE       there is no partial answer: the error is raised, and the whole of it comes again

What fits none of it is refused, with an error: to a source that cannot be told, an answer may read as "all done", and
its events would be gone.

Shapes and names: Lambda developer guide, "Using Lambda with SQS | SNS | Kinesis | DynamoDB" (event examples and
"Reporting batch item failures") [LDG]; EventBridge user guide, "Pipes sources" and "Pipes batching and concurrency":
`itemIdentifier` is the messageId of SQS, and the eventID of Kinesis and DynamoDB [EBG].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BY_MAPPING", "BY_PIPE", "Answering", "Batch", "Delivery", "Source", "recognise"]

Path = tuple[str, ...]


class Answering(Enum):
    """How a source is told what failed."""

    EACH = "each that failed"
    FIRST = "the first that failed"
    REST = "the first that failed, and all after it"
    WHOLE = "raise"


@dataclass(frozen=True)
class Source:
    """One row of the tables.

    name        what it is called in errors and logs
    answering   how it is told what failed
    identifier  where a record has the name by which an answer calls it
    content     where a record has what it carries; the record itself where that is empty
    encoded     whether that is base64
    ordered     whether identifiers are numbers, by which the batch is in order
    """

    name: str
    answering: Answering
    identifier: Path = ()
    content: Path = ()
    encoded: bool = False
    ordered: bool = False


BY_MAPPING: Mapping[str, Source] = MappingProxyType(
    {
        "aws:sqs": Source("SQS", Answering.EACH, ("messageId",), ("body",)),
        "aws:sns": Source("SNS", Answering.WHOLE, ("Sns", "MessageId"), ("Sns",)),
        "aws:kinesis": Source(
            "Kinesis", Answering.FIRST, ("kinesis", "sequenceNumber"), ("kinesis", "data"), encoded=True, ordered=True
        ),
        "aws:dynamodb": Source("the DynamoDB stream", Answering.FIRST, ("dynamodb", "SequenceNumber"), ordered=True),
    }
)
"""What names itself in `Records`, by its `eventSource` (SNS: `EventSource`) [LDG]."""

BY_PIPE: Mapping[str, Source] = MappingProxyType(
    {
        "aws:sqs": Source("a pipe from SQS", Answering.EACH, ("messageId",), ("body",)),
        "aws:kinesis": Source("a pipe from Kinesis", Answering.REST, ("eventID",), ("data",), encoded=True),
        "aws:dynamodb": Source("a pipe from the DynamoDB stream", Answering.REST, ("eventID",)),
    }
)
"""What names itself in a pipe's array [EBG]."""

_MADE_BY_PIPE = Source("a pipe", Answering.WHOLE)
_EVENTBRIDGE = Source("EventBridge", Answering.WHOLE)
_NOBODY = Source("nobody", Answering.EACH)
"""Where a batch is empty: nothing can have failed."""


@dataclass(frozen=True)
class Delivery:
    """One record of a batch.

    identifier  its name in an answer; empty where answers name nothing
    where       its name in errors and logs
    content     what it carries: JSON text (base64 of it, where its source says so), or an object
    record      the whole record
    origin      the ARN of the queue, topic or stream, empty where it is not said
    group       of a FIFO queue, the message's group; None for anything else
    """

    identifier: str
    where: str
    content: Any
    record: Any
    origin: str = ""
    group: str | None = None


@dataclass(frozen=True)
class Batch:
    """What one invocation is given: the source, and its deliveries in the order in which they are tried."""

    source: Source
    deliveries: tuple[Delivery, ...]


def recognise(event: object) -> Batch:
    """Return the batch that a function was given. Raises ConfigurationError for what is no known source's."""
    if isinstance(event, list):
        return _of_pipe(event)
    if isinstance(event, Mapping):
        records = event.get("Records")
        if isinstance(records, list):
            return _of_records(records)
        if "Records" not in event and ("detail-type" in event or "specversion" in event):
            return Batch(_EVENTBRIDGE, (_whole(event, _EVENTBRIDGE),))
    raise _unknown(f"the function was given {_described(event)}")


def _of_records(records: list[Any]) -> Batch:
    names = {_source_name(record) for record in records}
    if not names:
        return Batch(_NOBODY, ())
    source = BY_MAPPING.get(min(names)) if len(names) == 1 else None
    if source is None:
        raise _unknown(f"its Records come from {' and '.join(sorted(map(repr, names)))}")
    return _batch(source, records, "Records")


def _of_pipe(records: list[Any]) -> Batch:
    names = {_source_name(record) for record in records}
    if not names:
        return Batch(_NOBODY, ())
    source = BY_PIPE.get(min(names)) if len(names) == 1 else None
    if source is not None:
        return _batch(source, records, "the array")
    if names != {""} or not all(isinstance(record, (Mapping, str)) for record in records):
        raise _unknown(f"a pipe's array has members from {' and '.join(sorted(map(repr, names)))}")
    return Batch(_MADE_BY_PIPE, tuple(_whole(record, _MADE_BY_PIPE, at) for at, record in enumerate(records)))


def _batch(source: Source, records: Sequence[Any], place: str) -> Batch:
    deliveries = [_delivery(source, record, f"{place}[{at}]") for at, record in enumerate(records)]
    if source.ordered:
        deliveries.sort(key=lambda each: int(each.identifier))
    return Batch(source, tuple(deliveries))


def _delivery(source: Source, record: Mapping[str, Any], place: str) -> Delivery:
    """Return a record as a delivery. Raises ConfigurationError where no answer could name it."""
    identifier = _at(record, source.identifier)
    named = isinstance(identifier, str) and bool(identifier)
    if not named or (source.ordered and not (identifier.isascii() and identifier.isdigit())):
        raise _unknown(
            f"{place} is no record of {source.name}: its {'.'.join(source.identifier)} is {shown(identifier)}"
        )
    origin = record.get("eventSourceARN") or _at(record, ("Sns", "TopicArn"))
    origin = origin if isinstance(origin, str) else ""
    return Delivery(
        identifier=identifier,
        where=f"{identifier!r} of {origin or source.name}",
        content=_at(record, source.content),
        record=record,
        origin=origin,
        group=_fifo_group(record, origin),
    )


def _whole(content: Any, source: Source, at: int = 0) -> Delivery:
    identifier = content.get("id") if isinstance(content, Mapping) else None
    return Delivery("", f"{shown(identifier) if identifier else at} of {source.name}", content, content)


def _fifo_group(record: Mapping[str, Any], origin: str) -> str | None:
    """Return the group of a FIFO queue's message: a standard queue has groups too, and keeps no order in them."""
    group = _at(record, ("attributes", "MessageGroupId")) if origin.endswith(".fifo") else None
    return group if isinstance(group, str) else None


def _source_name(record: object) -> str:
    if not isinstance(record, Mapping):
        return ""
    return str(record.get("eventSource") or record.get("EventSource") or "")


def _at(record: Any, path: Path) -> Any:
    for name in path:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _described(event: object) -> str:
    """Return what kind of thing it is, and never a value of it."""
    if isinstance(event, Mapping):
        return f"an object with {', '.join(sorted(map(repr, event))[:5]) or 'nothing'}"
    return f"a value of type {type(event).__name__}"


def _unknown(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"this is no batch that the inbox knows: {what}. Invoke the function by SQS, SNS, Kinesis, a DynamoDB stream, "
        "an EventBridge rule or a pipe."
    )
