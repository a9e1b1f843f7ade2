"""Writers: services that change items and say so, with the real `Outbox`, over a network that loses their answers.

What a writer does is a list of writes, each one transaction: a change of the items of its keys, and events. What it
means to write is noted before the library hears of it, and what it was told beside what was committed: only the server
knows that. The data of every event carries a mark, the change and the event's place in it.

A command (`command`) has an idempotency key. Whoever sends it repeats it as long as it does not know how it ended, and
sometimes though it does (`repeated`). A write that is no command is never repeated by a new transaction, but its own
`commit()` is called again a few times, as the errors of the library allow; then it is given up. A command that counts
reads before it writes, so its content may differ from run to run; it has a fingerprint, as such commands need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from botocore.config import Config
from botocore.exceptions import ClientError

from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.schema import AT, PENDING_INDEX, SCHEMA
from dynamodb_outbox.errors import CommitFailed, CommitUnknown, ConditionFailed, OutboxError
from dynamodb_outbox.outbox import Outbox
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.facts import Committed, Intended, Told
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.history import POISON
from dynamodb_outbox.testing.simulation.network import COMMIT, NO_TROUBLES
from dynamodb_outbox.testing.simulation.process import WRITER_PERILS, Process, ProcessEntropy
from dynamodb_outbox.testing.simulation.table import REGION, TABLE, cancelled
from dynamodb_outbox.testing.simulation.unfit import BY_HAND, NARROW, events_by_hand, row, widened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.table import Table
    from dynamodb_outbox.testing.simulation.unfit import Amiss
    from dynamodb_outbox.transaction import Transaction

__all__ = ["SOURCE", "TableClient", "Write", "Writer"]

Outcome = Literal["committed", "failed", "unknown", "died"]

SOURCE = "shop.orders"

_SERVER = "table"
_CONFIG = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1, "mode": "standard"})
_COMMITS = 3
"""How often commit() of one transaction is called, while its error says that this may help."""
_REPEATS = 3
"""How often a command is sent by somebody who does not know how it ended."""
_PAUSE_MS = (100, 2_000)
_DOWN_MS = (200, 3_000)


@dataclass(frozen=True)
class Write:
    """One change and its events, in one transaction.

    at_ms     when its writer is asked for it, virtual time; later, when the writer is busy
    writer    who is asked
    change    the name of the change, like no other
    keys      the ordering keys of the events, one each, in order; an item is changed in the partition of each key
    kind      "create": a new item; "count": one that counts its versions, read before, which the layout must name;
              "overwrite": whatever there is
    command   whether it has an idempotency key, and is repeated until it is known how it ended
    repeated  whether it is repeated though that is known; a command's alone
    poison    positions of events that no bus takes
    amiss     why it does not take them; one of `unfit.BY_HAND`: it is one event, written by hand, in no command
    """

    at_ms: int
    writer: str
    change: str
    keys: tuple[str, ...]
    kind: Literal["create", "count", "overwrite"] = "create"
    command: bool = False
    repeated: bool = False
    poison: tuple[int, ...] = ()
    amiss: Amiss = "refused"

    @property
    def by_hand(self) -> bool:
        """Whether it is written without the library."""
        return bool(self.poison) and self.amiss in BY_HAND

    @property
    def unfit(self) -> frozenset[int]:
        """The positions of events that nobody could send."""
        return frozenset(self.poison) if self.amiss != "refused" else frozenset()


class Writer:
    """A writer and its writes. Its process dies with the fault `writer_crash` and is started again a while later."""

    def __init__(
        self,
        network: Network,
        chance: Chance,
        table: Table,
        writes: Sequence[Write],
        *,
        name: str,
    ) -> None:
        self.name = name
        self._kernel = network.kernel
        self._network = network
        self._chance = chance.of("writer", name)
        self._table = table
        self._left = sorted(writes, key=lambda write: write.at_ms, reverse=True)  # the next one last
        self._at_work: Write | None = None
        self._sent = 0
        """How often the write at work was sent as a new transaction."""
        self._open = False
        """Whether it may have been committed by one of these."""
        self._lives = 0

    def start(self) -> None:
        """Begin, now, in a new process."""
        self._lives += 1
        name, seed = f"{self.name}.{self._lives}", self._chance.seed
        process = Process(self._kernel, name, seed, owner=self.name, perils=WRITER_PERILS)
        skew = self._network.faults.take("clock_skew", self.name)
        if skew is not None:
            process.clock.offset_ms = skew.amount_ms
        process.when_killed = self._died
        process.spawn("main", partial(self._work, process))

    def _died(self) -> None:
        """Tell that nobody was told, and start again later; a command is repeated, everything else is not."""
        write = self._at_work
        if write is not None:
            self._tell(write, "died")
            if not write.command or self._sent >= _REPEATS:
                self._at_work = None
        down_ms = self._chance.whole(*_DOWN_MS, "down", self._lives)
        self._kernel.call_at(self._kernel.now_ms + down_ms, self.start)

    def _work(self, process: Process) -> None:
        entropy = ProcessEntropy("")  # begins anew with each transaction: without a write the others have the same ids
        client = TableClient(self._network, process, self._table)
        outbox = Outbox(
            TABLE, source=SOURCE, layout=self._table.layout, client=client, clock=process.clock, entropy=entropy
        )
        while self._at_work is not None or self._left:
            if self._at_work is None:
                self._kernel.sleep(self._left[-1].at_ms - self._kernel.now_ms)
                self._at_work, self._sent, self._open = self._left.pop(), 0, False
            self._see_through(self._at_work, outbox, client, entropy, process)
            self._at_work = None

    def _see_through(
        self, write: Write, outbox: Outbox, client: TableClient, entropy: ProcessEntropy, process: Process
    ) -> None:
        """Send a write, and a command again as long as nobody knows how it ended."""
        while True:
            self._sent += 1
            entropy.begin(f"{self._chance.seed}/{write.change}/{self._sent}")
            process.boundaries = 0
            client.change, client.attempt, client.widens = write.change, self._sent, write.amiss == "wide"
            self._intend(write)
            outcome, events = (
                self._outcome_by_hand(write, client) if write.by_hand else self._outcome(write, outbox, client)
            )
            self._tell(write, outcome, events)
            if outcome == "failed" or not write.command or self._sent >= _REPEATS:
                return
            if outcome == "committed" and not (write.repeated and self._sent == 1):
                return
            self._pause(write, "repeat")

    def _intend(self, write: Write) -> None:
        items = frozenset((key, _sort_key(write)) for key in write.keys)
        now_ms, ledger = self._kernel.now_ms, self._network.ledger
        ledger.note(Intended(now_ms, self.name, write.change, self._sent, write.keys, items, write.unfit))

    def _outcome(self, write: Write, outbox: Outbox, client: TableClient) -> tuple[Outcome, tuple[str, ...]]:
        """Commit a write as a new transaction, insisting where that may help; return what is known then.

        An attempt that the table never looked at says nothing of those before it, one that it refused does: it would
        have found the guard of a command that is committed.
        """
        key = write.change if write.command else None
        transaction = outbox.transaction(idempotency_key=key, fingerprint=key if write.kind == "count" else None)
        unseen: Outcome = "unknown" if self._open else "failed"
        try:
            _fill(transaction, write, client, self._table)
        except TRANSPORT:
            return unseen, ()  # nothing was sent
        outcome = unseen
        for attempt in range(_COMMITS):
            if attempt:
                self._pause(write, "commit", attempt)
            try:
                receipt = transaction.commit()
            except CommitUnknown:
                outcome = "unknown"
            except CommitFailed as error:
                if isinstance(error, ConditionFailed):
                    return "failed", ()
                outcome = unseen
                if not error.retryable:
                    break
            except OutboxError:
                return "failed", ()
            else:
                return "committed", receipt.event_ids
        return outcome, ()

    def _outcome_by_hand(self, write: Write, client: TableClient) -> tuple[Outcome, tuple[str, ...]]:
        """Commit a row that nobody can read, with an item, as `_outcome` does; a lost answer is asked for again."""
        layout, (key,) = self._table.layout, write.keys
        record = row(layout, key, write.change, write.amiss)
        item = serialize_item({layout.pk: key, self._table.sk: _sort_key(write), "change": write.change})
        request = {
            "TransactItems": [{"Put": {"TableName": TABLE, "Item": one}} for one in (item, record)],
            "ClientRequestToken": f"{write.change}/{self._sent}",
        }
        outcome: Outcome = "failed"
        for attempt in range(_COMMITS):
            if attempt:
                self._pause(write, "commit", attempt)
            try:
                client.transact_write_items(**request)
            except ClientError:
                continue
            except TRANSPORT:
                outcome = "unknown"
            else:
                return "committed", tuple(event.id for event in events_by_hand(record, layout))
        return outcome, ()

    def _pause(self, write: Write, *what: object) -> None:
        self._kernel.sleep(self._chance.whole(*_PAUSE_MS, write.change, self._sent, *what))

    def _tell(self, write: Write, outcome: Outcome, events: tuple[str, ...] = ()) -> None:
        self._open = self._open or outcome != "failed"
        self._network.ledger.note(Told(self._kernel.now_ms, self.name, write.change, outcome, self._sent, events))


def _sort_key(write: Write) -> str:
    """Return the sort key of the items that a write changes."""
    kind = "create" if write.by_hand else write.kind
    return {"create": f"CHANGE#{write.change}", "overwrite": "LAST", "count": "META"}[kind]


def _fill(transaction: Transaction, write: Write, client: TableClient, table: Table) -> None:
    """Put the changes and the events of a write into a transaction. Raises what reading an item raises."""
    pk, sk, version = table.layout.pk, table.sk, str(table.layout.version)
    for key in dict.fromkeys(write.keys):
        item = {pk: key, sk: _sort_key(write)}
        if write.kind == "create":
            transaction.put(item, if_absent=True)
        elif write.kind == "overwrite":
            transaction.put({**item, "change": write.change}, overwrite=True)
        else:
            _count(transaction, item, write, client, version)
    for place, key in enumerate(write.keys):
        data: dict[str, Any] = {"change": write.change, "n": place}
        if place in write.poison:
            data |= NARROW if write.amiss == "wide" else {POISON: True}
        transaction.emit("order.changed", data, key=key)


def _count(transaction: Transaction, key: Mapping[str, str], write: Write, client: TableClient, version: str) -> None:
    """Change an item in the version that was read."""
    there = client.get_item(TableName=TABLE, Key=serialize_item(key), ConsistentRead=True).get("Item")
    if there is None:
        transaction.put({**key, "change": write.change}, if_absent=True)
    else:
        transaction.update(key, set={"change": write.change}, if_version=int(there[version]["N"]))


def _widened(member: Mapping[str, Any]) -> Mapping[str, Any]:
    put = member.get("Put")
    return member if put is None else {"Put": {**put, "Item": widened(put["Item"])}}


def _events(record: WireItem, layout: Layout) -> tuple[Event, ...]:
    return decode(record, layout, source=SOURCE).events if SCHEMA in record else events_by_hand(record, layout)


class TableClient(SimulatedClient):
    """What a writer uses of boto3's client of DynamoDB.

    `change` is what it is at work on, for the `attempt`-th time: the ledger says so of each transaction committed.
    `widens` has it write integers into records that the library's writer does not let pass.
    """

    def __init__(self, network: Network, process: Process, table: Table) -> None:
        super().__init__(network, process, service="dynamodb", where=_SERVER, region=REGION, config=_CONFIG)
        self.change = ""
        self.attempt = 0
        self.widens = False
        self._table = table

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """TransactWriteItems."""
        if self.widens:
            request = {**request, "TransactItems": [_widened(member) for member in request["TransactItems"]]}
        self._call("TransactWriteItems", partial(self._transact, request, self.change, self.attempt), COMMIT)
        return {}

    def get_item(self, **request: Any) -> dict[str, Any]:
        """GetItem."""
        return self._call("GetItem", partial(self._table.read_item, request), NO_TROUBLES)

    def _transact(self, request: Mapping[str, Any], change: str, attempt: int) -> None:
        """Commit, at the server."""
        if self._network.faults.take("commit_conflict", _SERVER, met=Met(0, self._process.name)) is not None:
            others = len(request["TransactItems"]) - 1
            raise cancelled([{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in range(others))])
        writer = self._process.owner
        self._table.transact_write_items(
            request, by=writer, when_committed=partial(self._committed, request, writer, change, attempt)
        )

    def _committed(self, request: Mapping[str, Any], writer: str, change: str, attempt: int) -> None:
        table, layout, records, items = self._table, self._table.layout, [], set()
        dates: list[int | None] = []
        for member in request["TransactItems"]:
            ((kind, action),) = member.items()
            written = action["Item"] if kind == "Put" else action["Key"]
            partition, sort_key = table.key_of(written)
            if kind == "Put" and sort_key.startswith(layout.prefix):
                records.append(((partition, sort_key), _events(written, layout)))
                dates.append(int(written[AT]["N"]) if PENDING_INDEX in written else None)
            elif kind != "ConditionCheck" and not partition.startswith(layout.guard_prefix):
                items.add((partition, sort_key))
        token, now_ms = request["ClientRequestToken"], self._network.kernel.now_ms
        written_items = frozenset(items)
        self._network.ledger.note(
            Committed(now_ms, token, writer, change, tuple(records), written_items, attempt, tuple(dates))
        )
