"""A consumer behind the buses: its instances, its queue and its table; and this library's own inbox as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.consume.inbox import Inbox
from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER
from dynamodb_outbox.testing.simulation.consuming.queue import ConsumerFunction, Queue
from dynamodb_outbox.testing.simulation.consuming.table import APPLIED, DATA, KEY, OF, TOTAL, ConsumerClient, Effects
from dynamodb_outbox.testing.simulation.crew import StrandCrew
from dynamodb_outbox.testing.simulation.instance_world import InstanceWorld
from dynamodb_outbox.testing.simulation.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.instance_world import Handler
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.transaction import Transaction

__all__ = ["LAYOUT", "ConsumerWorld", "consumer_handler", "count", "subscribed"]

LAYOUT = Layout(version="version")
"""The consumer's table."""

_READ_FIRST = 0.3


@dataclass(frozen=True, kw_only=True)
class ConsumerWorld(InstanceWorld):
    """What the code of a consumer finds in a new instance.

    table, layout   where its effects are written: an item with `applied`, the id of the event, is the effect of that
                    event, and counts one more in `total`, if it counts. An event of its own is an outbox record in the
                    table, whose data say `of` which event it tells. `key` and `data` of both, if they have them, are
                    those of the event
    read_first      whether the consumer is to look for a duplicate before it works, in this run
    """

    read_first: bool


def consumer_handler(world: ConsumerWorld) -> Handler:
    """Return a consumer that is this library's inbox: it counts the events of each key, and tells so."""
    client = world.client("dynamodb")
    inbox = Inbox(
        world.table,
        consumer="totals",
        layout=world.layout,
        client=client,
        read_first=world.read_first,
        clock=world.clock,
        entropy=world.entropy,
    )
    inbox.consumer(lambda event, tx: count(event, tx, client, world.table))
    return inbox.lambda_handler


def count(event: Event, tx: Transaction, client: Any, table: str) -> None:
    """Count an event in the total of its key, in the version that was read, and emit an event of it."""
    key = {"pk": f"TOTAL#{event.key}", "sk": "META"}
    there = client.get_item(TableName=table, Key=serialize_item(key), ConsistentRead=True).get("Item")
    if there is None:
        tx.put({**key, TOTAL: 1, APPLIED: event.id, KEY: event.key, DATA: event.payload}, if_absent=True)
    else:
        total, version = int(there[TOTAL]["N"]), int(there["version"]["N"])
        effect: Mapping[str | tuple[str | int, ...], Any] = {
            TOTAL: total + 1,
            APPLIED: event.id,
            KEY: event.key,
            DATA: event.payload,
        }
        tx.update(key, set=effect, if_version=version)
    tx.emit("total.changed", {OF: event.id, DATA: event.data}, key=event.key)


def subscribed(
    network: Network, prepared: Callable[[ConsumerWorld], Handler], *, instances: int, timeout_ms: int
) -> Queue:
    """Put a consumer into a world, and return its queue. `prepared` returns the handler of a new instance."""
    effects = Effects(network, LAYOUT)
    table = Table(network.kernel, effects, LAYOUT, network.chance.of(CONSUMER), name=CONSUMER)
    read_first = network.chance.unit(CONSUMER, "reads first") < _READ_FIRST

    def world(process: Process) -> ConsumerWorld:
        return ConsumerWorld(
            table=CONSUMER,
            layout=LAYOUT,
            clock=process.clock,
            entropy=process.entropy,
            read_first=read_first,
            _clients={"dynamodb": partial(ConsumerClient, network, process, table, effects)},
            _make_crew=partial(StrandCrew, network.kernel, process),
            _stop=network.kernel.stop,
        )

    function = ConsumerFunction(
        network, CONSUMER, lambda process: prepared(world(process)), instances=instances, timeout_ms=timeout_ms
    )
    return Queue(network, function, instances=instances, expire=table.expire)
