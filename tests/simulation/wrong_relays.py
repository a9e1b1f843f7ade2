"""Relays with one thing wrong each, all by name; and those with nothing wrong.

Most are `HandWritten` with one decision changed. Here are those that are the library's own relay, used wrongly or with
a wrong part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hand_written import HandWritten, made
from wrong_answers import ANSWERS
from wrong_details import DETAILS
from wrong_publications import PUBLICATIONS, PoisonNotParked

from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.parked_keys import KeysFound
from dynamodb_outbox.core.relay.outcome import Presence, Verified
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.testing.simulation.world import relay_handler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hand_written import Handler

    from dynamodb_outbox.testing.simulation.world import FunctionWorld


def gate_removed(world: FunctionWorld) -> Handler:
    """Return the library's relay, which is told that order does not matter, where it does."""
    relay = Relay(
        EventBridge(world.destination, client=world.client("events")),
        layout=world.layout,
        client=world.client("dynamodb"),
        ordering="none",
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(10),
    )
    return relay.lambda_handler


class _Trusting(EventBridge):
    """A sink that takes its bus to be there."""

    def verify(self) -> Verified:
        """Say so."""
        return Verified(Presence.OK)


class _Forgetful(DynamoParkedKeys):
    """Parks keys, and does not look which are parked."""

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:  # noqa: ARG002
        """Say that none is."""
        return KeysFound(frozenset(), frozenset())


def verify_ignored(world: FunctionWorld) -> Handler:
    """Return the library's relay, with a sink that never looks whether its bus is there."""
    sink = _Trusting(world.destination, client=world.client("events"))
    return _relay(world, sink).lambda_handler


def keys_forgotten(world: FunctionWorld) -> Handler:
    """Return the library's relay, which parks keys, and forgets which from one invocation to the next."""
    relay = _relay(world, EventBridge(world.destination, client=world.client("events")))
    table = world.client("dynamodb")
    relay._parked_keys = _Forgetful(
        world.layout, lambda marking: DynamoRecordStates(world.layout, client=marking), client=table
    )
    return relay.lambda_handler


def _relay(world: FunctionWorld, sink: EventBridge) -> Relay:
    return Relay(
        sink,
        layout=world.layout,
        client=world.client("dynamodb"),
        ordering=world.ordering,
        on_poison=world.on_poison,
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(10),
    )


def poison_not_parked(world: FunctionWorld) -> Handler:
    """Return a handler of `PoisonNotParked`; it has a name, by which a command finds it."""
    return PoisonNotParked(world).handler


WRONG: dict[str, tuple[Callable[[FunctionWorld], Handler], str]] = {
    **ANSWERS,
    **PUBLICATIONS,
    **DETAILS,
    "gate removed": (gate_removed, "order_per_key"),
    "verify ignored, and the bus vanishes": (verify_ignored, "nothing_is_lost"),
    "parked keys forgotten": (keys_forgotten, "parked_keys_stay_parked"),
    "the library's relay, at two destinations": (relay_handler, "nothing_is_lost"),
}
"""Each with the invariant that it breaks."""

RIGHT: dict[str, Callable[[FunctionWorld], Handler]] = {
    "the library's relay": relay_handler,
    "the relay by hand": made(HandWritten),
}
