"""The consumer's table in virtual time: what stands in it is what was applied, whatever anybody was told.

An effect of an event is a write of an item whose attribute `applied` is the event's id; where the item counts effects
in `total`, each has to count one more. An event of the consumer's own is an outbox record in the table; its data say
`of` which event it tells. What either says of its event (`key`, `data`) is noted, to be held against what was written.
Other items, such as inbox records, are the consumer's business.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Applied, Claim
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.network import Troubles
from dynamodb_outbox.testing.simulation.table import LAGGING, REGION, cancelled
from dynamodb_outbox.testing.simulation.wire import copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.stream import Change
    from dynamodb_outbox.testing.simulation.table import Table

__all__ = ["APPLIED", "DATA", "KEY", "OF", "TOTAL", "ConsumerClient", "Effects"]

APPLIED, TOTAL, OF, KEY, DATA = "applied", "total", "of", "key", "data"
_OWN = "an event that tells"

_CONFIG = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 1, "mode": "standard"})
_APPLY = Troubles(
    lost_before="apply_lost_before",
    lost_after="apply_lost_after",
    throttled="apply_throttled",
    throttling="ProvisionedThroughputExceededException",
)


class Effects:
    """Takes the changes of the consumer's table, as a stream does, and notes what was applied.

    `invocation` is the one whose call is acted on.
    """

    def __init__(self, network: Network, layout: Layout) -> None:
        self.invocation = 0
        self._network = network
        self._layout = layout

    def append(self, changes: Sequence[Change]) -> None:
        """Note the effects in the changes of one transaction, committed now."""
        effects = [change for change in changes if change.new is not None and APPLIED in change.new]
        own = [event for change in changes for event in self._told(change)]
        if effects or own:
            claims = [*_claims_of_effects(effects), *_claims_of_own(own, {change.item[0] for change in effects})]
            told = tuple(str(_data(event).get(OF, "")) for event in own)
            events = tuple(_applied(change) for change in effects)
            odd = tuple(_applied(change) for change in effects if not _counts_on(change))
            now_ms = self._network.kernel.now_ms
            self._network.ledger.note(Applied(now_ms, events, self.invocation, told, odd, tuple(claims)))

    def _told(self, change: Change) -> Iterator[Event]:
        """Yield the events of a new record."""
        if change.kind == "INSERT" and change.new is not None and change.item[1].startswith(self._layout.prefix):
            yield from decode(change.new, self._layout, source=CONSUMER).events


class ConsumerClient(SimulatedClient):
    """boto3's client of "dynamodb" in a process of the consumer: single writes, transactions, and GetItem."""

    def __init__(self, network: Network, process: Process, table: Table, effects: Effects) -> None:
        super().__init__(network, process, service="dynamodb", where=CONSUMER, region=REGION, config=_CONFIG)
        self._table = table
        self._effects = effects

    def get_item(self, **request: Any) -> dict[str, Any]:
        """GetItem."""
        self._arguments("GetItem", {**LAGGING, **request}, "TableName", "Key", "ConsistentRead")
        return self._call("GetItem", partial(self._table.read_item, request), _APPLY)

    def put_item(self, **request: Any) -> dict[str, Any]:
        """PutItem."""
        return self._write("PutItem", self._table.put_item, request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        """UpdateItem."""
        return self._write("UpdateItem", self._table.update_item, request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        """DeleteItem."""
        return self._write("DeleteItem", self._table.delete_item, request)

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """TransactWriteItems."""
        return self._write("TransactWriteItems", self._transact, request)

    def _write(self, operation: str, write: Callable[..., None], request: Mapping[str, Any]) -> dict[str, Any]:
        invocation, sent = self._process.invocation, copied(request)

        def act() -> dict[str, Any]:
            self._effects.invocation = invocation
            write(sent, by=CONSUMER)
            return {}

        return self._call(operation, act, _APPLY)

    def _transact(self, request: Mapping[str, Any], *, by: str) -> None:
        met = Met(0, self._process.name)
        faults, invocation = self._network.faults, self._effects.invocation
        if faults.take("apply_conflict", CONSUMER, invocation=invocation, met=met) is not None:
            others = len(request["TransactItems"]) - 1
            raise cancelled([{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in range(others))])
        self._table.transact_write_items(request, by=by)


def _claims_of_effects(effects: Sequence[Change]) -> Iterator[Claim]:
    """Yield what effects say of their events."""
    for change in effects:
        item = change.new or {}
        for name in (KEY, DATA):
            if name in item:
                yield Claim(_applied(change), "the effect", name, deserialize_item({name: item[name]})[name])


def _claims_of_own(events: Iterable[Event], partitions: Set[str]) -> Iterator[Claim]:
    """Yield what events of the consumer's own say of theirs, and under which key if that is none of `partitions`."""
    for event in events:
        data = _data(event)
        of = str(data.get(OF, ""))
        if event.key not in partitions:
            yield Claim(of, _OWN, "ordering key", event.key)
        for name in (KEY, DATA):
            if name in data:
                yield Claim(of, _OWN, name, data[name])


def _data(event: Event) -> Mapping[str, Any]:
    return event.data if isinstance(event.data, dict) else {}


def _applied(change: Change) -> str:
    return str((change.new or {})[APPLIED]["S"])


def _counts_on(change: Change) -> bool:
    """Whether an effect counts one more than what was there, where it counts."""
    after, before = (change.new or {}).get(TOTAL), (change.old or {}).get(TOTAL, {"N": "0"})
    return after is None or int(after["N"]) == int(before["N"]) + 1
