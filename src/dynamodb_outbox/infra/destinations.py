"""Where events go, for a description: the kind of destination decides what the relay may do there.

A destination is an ARN, or a kind and a name in the account and Region that is deployed to: `bus:orders`,
`topic:orders.fifo`, `queue:audit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.references import Local
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.from_arn import sink_from_arn

if TYPE_CHECKING:
    from dynamodb_outbox.infra.references import Value

__all__ = ["DEFAULT_BUS", "Destination", "destination", "kind_of"]

Kind = Literal["bus", "topic", "queue"]

_SERVICES: dict[str, tuple[str, str]] = {"bus": ("events", "event-bus/"), "topic": ("sns", ""), "queue": ("sqs", "")}
_KINDS: dict[str, Kind] = {"events": "bus", "sns": "topic", "sqs": "queue"}
_SAMPLE = "arn:aws:{service}:us-east-1:000000000000:{resource}"

DEFAULT_BUS = Local("events", "event-bus/default")
"""The bus that every account has: `EventBridge.verify` asks for it to learn whose account it is in."""


@dataclass(frozen=True)
class Destination:
    """An event bus, a topic or a queue, by its ARN; `sample` is an ARN of that form, to try settings with."""

    kind: Kind
    arn: Value
    sample: str


def destination(text: str) -> Destination:
    """Return the destination that a text names. Raises ConfigurationError for one that no sink takes."""
    found = arn_of(text)
    if found is not None:
        sink_from_arn(text)
        return Destination(_KINDS[found.service], text, text)
    kind, _, name = text.partition(":")
    if kind not in _SERVICES or not name:
        raise ConfigurationError(
            f"{shown(text)} names no destination; an ARN, 'bus:NAME', 'topic:NAME' or 'queue:NAME' is needed."
        )
    service, before = _SERVICES[kind]
    sample = _SAMPLE.format(service=service, resource=before + name)
    sink_from_arn(sample)
    return Destination(_KINDS[service], Local(service, before + name), sample)


def kind_of(text: str) -> str:
    """Return the kind of the destination that a text names, "topic.fifo" of a FIFO topic; else the text as it is."""
    if ":" not in text:
        return text
    kind = destination(text).kind
    return f"{kind}.fifo" if kind != "bus" and text.endswith(".fifo") else kind
