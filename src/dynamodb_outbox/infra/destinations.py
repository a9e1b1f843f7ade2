"""Where events go, for a description: the kind of destination decides what the relay may do there.

A destination is an ARN, or a kind and a name in the account and Region that is deployed to: `bus:orders`,
`topic:orders.fifo`, `queue:audit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.arguments import refusal, shown
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.references import Local
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.from_arn import sink_from_arn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamodb_outbox.infra.references import Value

__all__ = ["Destination", "default_buses", "destination", "kind_of"]

Kind = Literal["bus", "topic", "queue"]

_SERVICES: dict[str, tuple[str, str]] = {"bus": ("events", "event-bus/"), "topic": ("sns", ""), "queue": ("sqs", "")}
_KINDS: dict[str, Kind] = {"events": "bus", "sns": "topic", "sqs": "queue"}
_refuse = refusal("destination", "sink")
_SAMPLE = "arn:aws:{service}:us-east-1:000000000000:{resource}"


@dataclass(frozen=True)
class Destination:
    """An event bus, a topic or a queue, by its ARN; `sample` is an ARN of that form, to try settings with.

    `is_here` says that it is known to be in the account and Region that is deployed to; an ARN may be anywhere.
    """

    kind: Kind
    arn: Value
    sample: str
    is_here: bool = False

    @property
    def name(self) -> str:
        """The name of the bus, topic or queue."""
        return self.sample.rpartition(":")[2].removeprefix("event-bus/")

    @property
    def longest(self) -> str:
        """Its ARN, as long as it may become where it is deployed."""
        if not self.is_here:
            return self.sample
        return self.sample.replace("arn:aws:", "arn:aws-us-gov:").replace(":us-east-1:", ":us-gov-west-1:")

    @property
    def region(self) -> str | None:
        """The name of its Region, None for the one that is deployed to."""
        found = None if self.is_here else arn_of(self.sample)
        return None if found is None else found.region


def default_buses(destinations: Iterable[Destination]) -> tuple[Local, ...]:
    """Return the default bus of each Region that one of these buses is in.

    `EventBridge.verify` asks for it, in the bus's own Region, to learn whose account it is in. The account that is
    deployed to has one in each.
    """
    regions = dict.fromkeys(each.region for each in destinations if each.kind == "bus")
    return tuple(Local("events", "event-bus/default", region) for region in regions)


def destination(text: str) -> Destination:
    """Return the destination that a text names. Raises ConfigurationError about a `sink` that there is none for."""
    found = arn_of(text)
    if found is not None:
        _check(text, text)
        return Destination(_KINDS[found.service], text, text)
    kind, _, name = text.partition(":")
    if kind not in _SERVICES or not name:
        known = "an ARN, 'bus:NAME', 'topic:NAME' or 'queue:NAME'"
        raise _refuse(f"is {shown(text)}, which names no destination; {known} is needed.")
    service, before = _SERVICES[kind]
    sample = _SAMPLE.format(service=service, resource=before + name)
    _check(text, sample)
    return Destination(_KINDS[service], Local(service, before + name), sample, is_here=True)


def _check(text: str, arn: str) -> None:
    """Refuse a text whose ARN no sink takes."""
    try:
        sink_from_arn(arn)
    except ConfigurationError as error:
        raise _refuse(error.reason if error.argument == "arn" else f"is {shown(text)}. {error}") from None


def kind_of(text: str) -> str:
    """Return the kind of the destination that a text names, "topic.fifo" of a FIFO topic; else the text as it is."""
    if ":" not in text:
        return text
    kind = destination(text).kind
    return f"{kind}.fifo" if kind != "bus" and text.endswith(".fifo") else kind
