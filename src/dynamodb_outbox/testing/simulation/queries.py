"""The client of "dynamodb" for who publishes what the stream has left behind: with Query, of table and index.

A query of the table finds what is there by now if it is consistent, and else what was there before; one of the index
cannot be consistent. Exactly the expressions are understood that the library sends. A page ends where its limit is, or
never: nothing here is larger than a megabyte.

Calls of sweepers and operators have faults of their own, so that they take none away that are meant for a relay.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamodb_outbox.core.record import leases
from dynamodb_outbox.testing.simulation.facts import Leased
from dynamodb_outbox.testing.simulation.network import RECOVERY_CALLS, RECOVERY_QUERIES, client_error
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.records import RecordsClient
from dynamodb_outbox.testing.simulation.refusal import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.testing.simulation.index import Index
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.table import Table

__all__ = ["QueryingClient"]

_KEYS = re.compile(r"(#\w+) = (:\w+)(?: AND (#\w+) (?:> (:\w+)|BETWEEN (:\w+) AND (:\w+)))?")
_THERE = re.compile(r"attribute_exists\((#\w+)\)")
_COMPARED = re.compile(r"(#\w+) (=|<>) (:\w+)")
_MEMBERS = frozenset(
    (
        "ConsistentRead", "ExclusiveStartKey", "ExpressionAttributeNames", "ExpressionAttributeValues",
        "FilterExpression", "IndexName", "KeyConditionExpression", "Limit", "ProjectionExpression", "ScanIndexForward",
        "Select", "TableName",
    )
)  # fmt: skip


class _Term(NamedTuple):
    """One term of a filter: an attribute that is there, is a `value` ("="), or is none ("<>")."""

    name: str
    how: str = ""
    value: AttributeValue | None = None

    def holds(self, item: WireItem) -> bool:
        """Whether it does for an item."""
        return (item.get(self.name) == self.value) is (self.how == "=") if self.how else self.name in item


class _Asked(NamedTuple):
    """A query: of a partition, where its sort keys begin and end, if that is said, and the terms of its filter."""

    partition: AttributeValue
    above: AttributeValue | None
    first: AttributeValue | None
    last: AttributeValue | None
    terms: tuple[_Term, ...]


class QueryingClient(RecordsClient):
    """boto3's client of "dynamodb" in a process that looks for records by itself."""

    def __init__(self, network: Network, process: Process, table: Table, index: Index) -> None:
        super().__init__(network, process, table)
        self._index = index
        self._troubles = RECOVERY_CALLS

    def query(self, **request: Any) -> dict[str, Any]:
        """Query."""
        try:
            self._check(request)
            asked = _asked(request)
        except NotSimulated as error:
            self._network.kernel.stop(error)
        answer = self._of_index if "IndexName" in request else self._of_table
        return self._call("Query", lambda: answer(request, asked), RECOVERY_QUERIES)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        """DeleteItem, without a condition; the answer has what was there."""
        table, key, _ = self._arguments("DeleteItem", request, "TableName", "Key", "ReturnValues")
        by = self._process.owner

        def act() -> dict[str, Any]:
            self._table.look_for("DeleteItem", table)
            there = self._table.get_item(key)
            self._table.write(self._table.key_of(key), None, by=by)
            return {} if there is None else {"Attributes": dict(there)}

        return self._call("DeleteItem", act, self._troubles)

    def _check(self, request: Mapping[str, Any]) -> None:
        if strange := sorted(request.keys() - _MEMBERS):
            raise NotSimulated(f"Query with {', '.join(strange)}: with {', '.join(sorted(_MEMBERS))} it is.")
        if request.get("IndexName", self._table.layout.index) != self._table.layout.index:
            raise NotSimulated(f"the index {request['IndexName']!r}: {self._table.layout.index!r} is.")

    def _of_index(self, request: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        self._table.look_for("Query", request["TableName"])
        if request.get("ConsistentRead"):
            raise client_error("Query", "ValidationException", "no read of a global secondary index is consistent")
        found = self._index.partition(asked.partition["S"])
        if asked.above is not None:
            above = int(asked.above["N"])
            found = [(rank, entry) for rank, entry in found if rank[0] > above]
        if "ExclusiveStartKey" in request:
            begin = self._index.rank(request["ExclusiveStartKey"])
            found = [(rank, entry) for rank, entry in found if rank > begin]
        if request.get("Select") == "COUNT":
            return {"Count": len(found)}
        page = [entry for _, entry in found[: request["Limit"]]]
        return {"Items": page, **({"LastEvaluatedKey": page[-1]} if len(found) > len(page) else {})}

    def _of_table(self, request: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        self._table.look_for("Query", request["TableName"])
        seen = self._table.seen(request)
        partition = asked.partition["S"]
        first, last = (b"" if one is None else str(one["S"]).encode() for one in (asked.first, asked.last))
        keys = [key for key in seen if key[0] == partition and (not last or first <= key[1].encode() <= last)]
        keys.sort(key=_sort_key, reverse=not request.get("ScanIndexForward", True))
        items = [seen[key] for key in keys[: request.get("Limit")]]
        items = [item for item in items if all(term.holds(item) for term in asked.terms)]
        names = request["ExpressionAttributeNames"]
        shown = [names[name] for name in filter(None, request.get("ProjectionExpression", "").split(", "))]
        return {"Items": [{name: item[name] for name in shown or item if name in item} for item in items]}

    def _noted(self, key: WireItem, invocation: int, write: Callable[[], None]) -> None:
        super()._noted(key, invocation, write)
        item = self._table.get_item(key)
        lease = None if item is None else leases.lease_of(item)
        if item is not None and lease is not None:
            layout, offset_ms = self._table.layout, self._process.clock.offset_ms
            until_ms = lease.until_ms - START_MS - offset_ms if lease.owner else None
            now_ms = self._network.kernel.now_ms
            self._network.ledger.note(Leased(now_ms, leases.shard_of(item, layout), invocation, until_ms))


def _asked(request: Mapping[str, Any]) -> _Asked:
    """Read the expressions of a query."""
    said = request["KeyConditionExpression"]
    found = _KEYS.fullmatch(said)
    if found is None:
        raise NotSimulated(f"the key condition {said!r}: #a = :a is, with #b > :b or #b BETWEEN :b AND :c.")
    values = request["ExpressionAttributeValues"]
    above, first, last = (None if name is None else values[name] for name in found.group(4, 5, 6))
    terms = request["FilterExpression"].split(" AND ") if "FilterExpression" in request else ()
    read = tuple(_term(term, request["ExpressionAttributeNames"], values) for term in terms)
    return _Asked(values[found[2]], above, first, last, read)


def _term(said: str, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> _Term:
    if found := _THERE.fullmatch(said):
        return _Term(names[found[1]])
    if found := _COMPARED.fullmatch(said):
        return _Term(names[found[1]], found[2], values[found[3]])
    raise NotSimulated(f"the filter {said!r}: attribute_exists(#a), #a = :a and #a <> :a are, joined by AND.")


def _sort_key(key: tuple[str, str]) -> bytes:
    return key[1].encode()
