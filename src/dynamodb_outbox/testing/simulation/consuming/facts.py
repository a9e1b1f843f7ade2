"""What happened to messages and their effects, as facts of the ledger.

An invocation of a consumer has a number below 0, so that those of functions are the same with and without one. `events`
are ids of events, as their bus was given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynamodb_outbox.testing.simulation.facts import Fact

__all__ = ["CONSUMER", "Acknowledged", "Applied", "Carrying", "Claim", "Delivered", "Queued", "Subscribed"]

CONSUMER = "consumer"
"""What faults and facts call the consumer, its processes and its table."""


@dataclass(frozen=True)
class Subscribed(Fact):
    """A consumer is there from now on: what a bus accepts is to be applied."""


@dataclass(frozen=True)
class Carrying(Fact):
    """Something that is about events."""

    events: tuple[str, ...]


@dataclass(frozen=True)
class Queued(Carrying):
    """A message will come to the consumer, for the first time or `again` after it had been acknowledged."""

    message: str
    again: bool = False


@dataclass(frozen=True)
class Delivered(Carrying):
    """A process of the consumer was handed these messages."""

    invocation: int
    instance: str
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Acknowledged(Carrying):
    """A message was taken off the queue, because the answer of an invocation did not name it."""

    invocation: int
    message: str


@dataclass(frozen=True)
class Claim:
    """What an effect of an event, or the consumer's own event of it (`what`), says of that: its "key" or "data".

    "ordering key": that of the own event itself, unless it is a partition of effects.
    """

    event: str
    what: str
    name: str
    said: Any


@dataclass(frozen=True)
class Applied(Carrying):
    """A write into the consumer's table was committed, with the effects of `events`.

    own   of which events it committed events of the consumer's own
    odd   those of `events` whose effect does not build on the one before it: it counts from another number
    said  what the effects, and those own events, say of their events
    """

    invocation: int
    own: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    said: tuple[Claim, ...] = ()
