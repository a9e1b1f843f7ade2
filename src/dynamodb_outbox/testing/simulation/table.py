"""A DynamoDB table in virtual time: items, transactions with their tokens, and a change of the stream for each write.

The server's side alone: what is called here has arrived, and takes effect at once. It answers as DynamoDB does, with
botocore's own errors. Transactions are evaluated one after the other, so a conflict is only met where a fault makes
one. A write that changes nothing makes no stream record. A read that is not consistent finds the table as it was a
while ago, now and then a long while: AWS says of that time no more than that it is short as a rule.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.core.eventsource.ttl import expired as has_expired
from dynamodb_outbox.core.limits import TOKEN_LIFE_MS, TRANSACTION_ACTIONS
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.schema import PARKED_SK, PENDING_INDEX
from dynamodb_outbox.core.record.states import PARKED, PARKED_EVENTS, PENDING, state_of
from dynamodb_outbox.event import Event
from dynamodb_outbox.testing.simulation.expressions import condition_holds, updated
from dynamodb_outbox.testing.simulation.facts import LeftRecord
from dynamodb_outbox.testing.simulation.history import OPERATOR
from dynamodb_outbox.testing.simulation.network import client_error
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.stream import STREAM_ARN, Change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from botocore.exceptions import ClientError

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.facts import RecordKey
    from dynamodb_outbox.testing.simulation.faults import FaultPlan, Faults
    from dynamodb_outbox.testing.simulation.kernel import Kernel

__all__ = ["LAGGING", "REGION", "TABLE", "Changes", "Table", "cancelled"]

TABLE = STREAM_ARN.split("/")[1]
REGION = STREAM_ARN.split(":")[3]
LAGGING = {"ConsistentRead": False}
"""How a read is unless it says otherwise."""
_ELSEWHERE = "us-east-1"
"""Where the records come from that are replicated."""

_TRANSACT = "TransactWriteItems"
_BEHIND_MS = 1_000
_FAR_BEHIND, _FAR_BEHIND_MS = 0.4, 60_000
"""How much earlier a read looks that is not consistent, at most; the share of them that look further back."""
_FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
_NO_REASON = {"Code": "None"}
_UNDERSTOOD = frozenset(
    (
        "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "Item", "Key",
        "ReturnValuesOnConditionCheckFailure", "TableName", "UpdateExpression",
    )
)  # fmt: skip


class Changes(Protocol):
    """What takes the changes of a table: its stream."""

    def append(self, changes: Sequence[Change]) -> None:
        """Take the changes of one transaction, committed now."""


class Table:
    """One table, called TABLE unless it has another `name`, in the Region REGION, with an outbox as `layout` says.

    Both of its keys are text, `sk` is the name of the second. Raises NotSimulated for a layout without one.
    """

    def __init__(self, kernel: Kernel, stream: Changes, layout: Layout, chance: Chance, *, name: str = TABLE) -> None:
        if layout.sk is None:
            raise NotSimulated("a table without a sort key")
        self.items: dict[RecordKey, WireItem] = {}
        self.name = name
        self.layout = layout
        self.sk = layout.sk
        self._kernel = kernel
        self._stream = stream
        self._chance = chance.of("table")
        self._tokens: dict[str, tuple[Mapping[str, Any], int]] = {}
        """What was committed with a token, and when."""
        self._watchers: list[Callable[[RecordKey, WireItem | None], object]] = []
        self._replaced: deque[tuple[int, RecordKey, WireItem | None]] = deque()
        """What was there before each of the last changes, and when it was."""

    def key_of(self, attributes: WireItem) -> RecordKey:
        """Return an item's name, from the item or its key."""
        return attributes[self.layout.pk]["S"], attributes[self.sk]["S"]

    def watch(self, watcher: Callable[[RecordKey, WireItem | None], object]) -> None:
        """Call `watcher(key, item)` after each change of an item; None: it was deleted."""
        self._watchers.append(watcher)

    def get_item(self, key: WireItem) -> WireItem | None:
        """Return an item as it is; None when there is none."""
        return self.items.get(self.key_of(key))

    def seen(self, request: Mapping[str, Any]) -> Mapping[RecordKey, WireItem]:
        """Return the items that a read finds: as they are with ConsistentRead, as they were at some time without."""
        if request.get("ConsistentRead"):
            return self.items
        items = dict(self.items)
        for changed_ms, key, before in reversed(self._replaced):
            if changed_ms <= self._seen_until_ms(key):
                continue
            if before is None:
                items.pop(key, None)
            else:
                items[key] = before
        return items

    def read_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """GetItem. Raises ClientError."""
        self.look_for("GetItem", request["TableName"])
        found = self.seen(request).get(self.key_of(request["Key"]))
        return {} if found is None else {"Item": dict(found)}

    def look_for(self, operation: str, table: str) -> None:
        """Raise ClientError, ResourceNotFoundException, when a request is about a table of another name."""
        if table != self.name:
            raise client_error(operation, "ResourceNotFoundException", f"there is no table {table!r}")

    def write(self, key: RecordKey, item: WireItem | None, *, by: str, expired: bool = False) -> None:
        """Put an item in the place of what is there, or take it away (None); `expired`: as TTL does."""
        self._write_all([(key, item)], by=by, expired=expired)

    def put_item(self, request: Mapping[str, Any], *, by: str) -> None:
        """PutItem. Raises ClientError, ConditionalCheckFailedException with the item if it was asked for."""
        self._write_one("PutItem", "Put", request, by=by)

    def update_item(self, request: Mapping[str, Any], *, by: str) -> None:
        """UpdateItem, as `put_item`."""
        self._write_one("UpdateItem", "Update", request, by=by)

    def delete_item(self, request: Mapping[str, Any], *, by: str) -> None:
        """DeleteItem, as `put_item`."""
        self._write_one("DeleteItem", "Delete", request, by=by)

    def transact_write_items(
        self, request: Mapping[str, Any], *, by: str, when_committed: Callable[[], object] | None = None
    ) -> None:
        """TransactWriteItems. `when_committed` is called if it is committed now, and not before with the same token.

        Raises ClientError, TransactionCanceledException among them.
        """
        token = request.get("ClientRequestToken")
        if token is not None and self._is_known(token, request):
            return
        writes, reasons = self._evaluated(request["TransactItems"])
        if any(reason is not _NO_REASON for reason in reasons):
            raise cancelled(reasons)
        if when_committed is not None:
            when_committed()
        self._write_all(writes, by=by)
        if token is not None:
            self._tokens[token] = (request, self._kernel.now_ms)

    def expire(self) -> None:
        """Delete whatever has a TTL that is over, records of the outbox or not."""
        now_ms = START_MS + self._kernel.now_ms
        for key in [key for key, item in self.items.items() if has_expired(item, self.layout.ttl, now_ms)]:
            self.write(key, None, by="ttl", expired=True)

    def arm(self, plan: FaultPlan, faults: Faults) -> None:
        """Let those faults of a plan happen, in their time, that are writes and deletions of records by others."""
        for number, fault in enumerate(plan.of("ttl_delete", "operator_delete")):
            self._kernel.call_at(fault.at_ms, partial(self._delete_some, number, fault.kind, faults))
        for number, fault in enumerate(plan.of("replicated")):
            self._kernel.call_at(fault.at_ms, partial(self._replicate, number, fault.kind, faults))

    def left(self) -> tuple[LeftRecord, ...]:
        """Return the records that are in the table, each as it is there; what stands for one, in its name."""
        found = []
        for (partition, sort_key), item in self.items.items():
            if sort_key.startswith(self.layout.prefix):
                state = state_of(item, self.layout)
                named = item.get(PARKED_EVENTS) if state == PARKED else None
                record = partition, str(item[PARKED_SK]["S"]) if PARKED_SK in item else sort_key
                events = None if named is None else frozenset(named["NS"])
                found.append(LeftRecord(record, state, events, item.get(PENDING_INDEX) == {"S": PARKED}))
        return tuple(found)

    def _seen_until_ms(self, key: RecordKey) -> int:
        """Return until when the changes of an item are seen by a read that is not consistent."""
        now_ms = self._kernel.now_ms
        far = self._chance.unit("far behind", key, now_ms) < _FAR_BEHIND
        return now_ms - self._chance.whole(0, _FAR_BEHIND_MS if far else _BEHIND_MS, "behind", key, now_ms)

    def _replicate(self, number: int, kind: str, faults: Faults) -> None:
        """Write a record that comes from another Region of a global table, beside those of a partition."""
        records = [key for key in self.items if key[1].startswith(self.layout.prefix)]
        partition = records[self._chance.whole(0, len(records) - 1, kind, number)][0] if records else "A"
        at_ms = START_MS + self._kernel.now_ms
        time = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
        event = Event(f"{kind}-{number}", "order.changed", "shop.orders", "{}", time, key=partition)
        origin = Origin(event.id, at_ms, _ELSEWHERE)
        item = encode_record(RecordDraft(event.id, partition, (event,), 0, 1), origin, self.layout)
        faults.note(kind, partition)
        self.write(self.key_of(item), item, by=_ELSEWHERE)

    def _delete_some(self, number: int, kind: str, faults: Faults) -> None:
        """Delete a record: one whose TTL has passed; or one that is pending, any when none is.

        Without one that can be, nothing happens.
        """
        by_ttl = kind == "ttl_delete"
        found = [key for key in self.items if key[1].startswith(self.layout.prefix)]
        if by_ttl:
            now_ms = START_MS + self._kernel.now_ms
            found = [key for key in found if has_expired(self.items[key], self.layout.ttl, now_ms)]
        else:
            found = [key for key in found if state_of(self.items[key], self.layout) == PENDING] or found
        if found:
            key = found[self._chance.whole(0, len(found) - 1, "delete", number)]
            faults.note(kind, key[0])
            self.write(key, None, by="ttl" if by_ttl else OPERATOR, expired=by_ttl)

    def _is_known(self, token: str, request: Mapping[str, Any]) -> bool:
        earlier, at_ms = self._tokens.get(token, (None, 0))
        if earlier is None or self._kernel.now_ms >= at_ms + TOKEN_LIFE_MS:
            return False
        if earlier != request:
            raise client_error(_TRANSACT, "IdempotentParameterMismatchException", f"{token} was another request's")
        return True

    def _evaluated(
        self, members: Sequence[Mapping[str, Any]]
    ) -> tuple[list[tuple[RecordKey, WireItem | None]], list[Mapping[str, Any]]]:
        """Return what the members of a transaction would write, and for each of them why it does not, if so."""
        writes: list[tuple[RecordKey, WireItem | None]] = []
        reasons: list[Mapping[str, Any]] = []
        touched: set[RecordKey] = set()
        for member in members:
            ((kind, action),) = member.items()
            key = self._checked(_TRANSACT, action)
            touched.add(key)
            there = self.items.get(key)
            reasons.append(_NO_REASON if condition_holds(action, there) else _failure(action, there))
            if kind != "ConditionCheck":
                writes.append((key, self._written(kind, action, there)))
        if not 1 <= len(members) <= TRANSACTION_ACTIONS or len(touched) != len(members):
            raise client_error(_TRANSACT, "ValidationException", "too many actions, or several on one item")
        return writes, reasons

    def _write_one(self, operation: str, kind: str, request: Mapping[str, Any], *, by: str) -> None:
        key = self._checked(operation, request)
        there = self.items.get(key)
        if not condition_holds(request, there):
            code = "ConditionalCheckFailedException"
            item = {name: value for name, value in _failure(request, there).items() if name == "Item"}
            raise client_error(operation, code, _FAILED["Message"], **item)
        self._write_all([(key, self._written(kind, request, there))], by=by)

    def _checked(self, operation: str, action: Mapping[str, Any]) -> RecordKey:
        """Return the item that an action is about, after a look at what it says."""
        if not action.keys() <= _UNDERSTOOD:
            strange = sorted(action.keys() - _UNDERSTOOD)
            raise NotSimulated(f"{operation} with {', '.join(strange)}: with {', '.join(sorted(_UNDERSTOOD))} it is.")
        self.look_for(operation, action["TableName"])
        return self.key_of(action["Item"] if "Item" in action else action["Key"])

    def _written(self, kind: str, action: Mapping[str, Any], there: WireItem | None) -> WireItem | None:
        if kind == "Put":
            return dict(action["Item"])
        if kind == "Delete":
            return None
        return updated(action, action["Key"] if there is None else there)

    def _write_all(
        self, writes: Sequence[tuple[RecordKey, WireItem | None]], *, by: str, expired: bool = False
    ) -> None:
        changes = []
        for key, after in writes:
            before = self.items.get(key)
            if after == before:
                continue
            if after is None:
                del self.items[key]
            else:
                self.items[key] = after
            self._replaced.append((self._kernel.now_ms, key, before))
            names = {self.layout.pk: {"S": key[0]}, self.sk: {"S": key[1]}}
            changes.append(Change(key, names, before, after, by, expired))
            for watcher in self._watchers:
                watcher(key, after)
        while self._replaced and self._replaced[0][0] < self._kernel.now_ms - _FAR_BEHIND_MS:
            self._replaced.popleft()
        self._stream.append(changes)


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClientError:
    """Return the error of a cancelled transaction, with one reason for each of its members."""
    codes = ", ".join(str(reason["Code"]) for reason in reasons)
    return client_error(
        _TRANSACT,
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        CancellationReasons=list(reasons),
    )


def _failure(action: Mapping[str, Any], there: WireItem | None) -> Mapping[str, Any]:
    wanted = action.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and there is not None
    return {**_FAILED, "Item": there} if wanted else _FAILED
