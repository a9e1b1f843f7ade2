"""The simulated table behind a boto3 client of "dynamodb": what settling and parking, and a look at an item, need.

The adapter that moves records (`dynamodb_outbox.adapters.records`) runs on it as it is, with each of its calls a call
of the network; so a park of several steps can lose its way after any of them. Settling comes as statements of PartiQL,
of which exactly the form is understood that the library writes. Whatever becomes of a record's state is noted in the
ledger, with the invocation that asked for it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.config import Config
from botocore.exceptions import ClientError

from dynamodb_outbox.core.limits import BATCH_STATEMENTS
from dynamodb_outbox.core.record.schema import PARKED_SK
from dynamodb_outbox.core.record.states import PARKED, PARKED_EVENTS, PENDING, state_of
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.facts import Moved
from dynamodb_outbox.testing.simulation.network import PARK, SETTLE, client_error
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.table import REGION, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.table import Table

__all__ = ["TABLE_CONFIG", "RecordsClient"]

TABLE_CONFIG = Config(connect_timeout=0.35, read_timeout=0.65, retries={"mode": "standard", "total_max_attempts": 2})
_WHERE = "table"
_CONSISTENT = {"ConsistentRead": True}
_THROTTLED = {"Error": {"Code": "ThrottlingError", "Message": "Rate exceeded"}}
_NAME = r'"((?:[^"]|"")+)"'
_SETTLE = re.compile(
    r"UPDATE @ SET @=\? SET @=\? REMOVE @ WHERE @=\? AND @=\? AND @( IS MISSING|=\?)".replace("@", _NAME)
)


class RecordsClient(SimulatedClient):
    """boto3's client of "dynamodb" in a process that moves records of `table`."""

    def __init__(self, network: Network, process: Process, table: Table, *, config: Config = TABLE_CONFIG) -> None:
        super().__init__(network, process, service="dynamodb", where=_WHERE, region=REGION, config=config)
        self._table = table

    def get_item(self, **request: Any) -> dict[str, Any]:
        """GetItem; always consistent."""
        table, key = self._arguments("GetItem", {**_CONSISTENT, **request}, "TableName", "Key", "ConsistentRead")[:2]

        def act() -> dict[str, Any]:
            if table != TABLE:
                raise client_error("GetItem", "ResourceNotFoundException", f"there is no table {table!r}")
            found = self._table.get_item(key)
            return {} if found is None else {"Item": dict(found)}

        return self._call("GetItem", act, PARK)

    def put_item(self, **request: Any) -> dict[str, Any]:
        """PutItem."""
        return self._write("PutItem", request["Item"], lambda by: self._table.put_item(request, by=by))

    def update_item(self, **request: Any) -> dict[str, Any]:
        """UpdateItem."""
        return self._write("UpdateItem", request["Key"], lambda by: self._table.update_item(request, by=by))

    def batch_execute_statement(self, **request: Any) -> dict[str, Any]:
        """BatchExecuteStatement; each statement is an update with a condition of its own, as the library settles."""
        (statements,) = self._arguments("BatchExecuteStatement", request, "Statements")
        if not 1 <= len(statements) <= BATCH_STATEMENTS:
            raise client_error("BatchExecuteStatement", "ValidationException", f"1 to {BATCH_STATEMENTS} statements")
        try:
            updates = [_update(statement) for statement in statements]
        except NotSimulated as error:
            self._network.kernel.stop(error)
        invocation, by = self._process.invocation, self._process.owner

        def act() -> dict[str, Any]:
            throttled = self._throttled(invocation, len(updates))
            responses = [
                _THROTTLED if place == throttled else self._response(update, invocation, by)
                for place, update in enumerate(updates)
            ]
            return {"Responses": responses}

        return self._call("BatchExecuteStatement", act, SETTLE)

    def _write(self, operation: str, key: WireItem, write: Callable[[str], None]) -> dict[str, Any]:
        invocation, by = self._process.invocation, self._process.owner

        def act() -> dict[str, Any]:
            self._noted(key, invocation, lambda: write(by))
            return {}

        return self._call(operation, act, PARK)

    def _throttled(self, invocation: int, statements: int) -> int | None:
        """Return the statement that is throttled, if one is. Raises ClientError when the whole call is."""
        if self._network.faults.take("settle_throttled", _WHERE, invocation=invocation) is None:
            return None
        chosen = self._network.chance.whole(-statements, statements - 1, "settle", self._network.kernel.now_ms)
        if chosen < 0:
            code = "ProvisionedThroughputExceededException"
            raise client_error("BatchExecuteStatement", code, "Rate exceeded")
        return chosen

    def _response(self, update: Mapping[str, Any], invocation: int, by: str) -> dict[str, Any]:
        try:
            self._noted(update["Key"], invocation, lambda: self._table.update_item(update, by=by))
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
            return {"Error": {"Code": code.removesuffix("Exception"), "Message": ""}}
        return {"TableName": update["TableName"]}

    def _noted(self, key: WireItem, invocation: int, write: Callable[[], None]) -> None:
        """Write, and note what became of the state of the record, if it is one."""
        before = self._standing(self._table.get_item(key))
        write()
        item = self._table.get_item(key)
        after = self._standing(item)
        if item is not None and after is not None and after.state != PENDING and after != before:
            partition, sort_key = self._table.key_of(key)
            record = partition, str(item[PARKED_SK]["S"]) if PARKED_SK in item else sort_key
            now_ms = self._network.kernel.now_ms
            self._network.ledger.note(Moved(now_ms, record, after.state, invocation, after.events))

    def _standing(self, item: WireItem | None) -> _Standing | None:
        """Return the state of an item, and the events that it is parked for (None: all)."""
        if item is None:
            return None
        state = state_of(item, self._table.layout)
        named = item.get(PARKED_EVENTS) if state == PARKED else None
        return _Standing(state, None if named is None else frozenset(named["NS"]))


class _Standing(NamedTuple):
    state: str
    events: frozenset[str] | None


def _update(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement that settles a record as the arguments of the UpdateItem that does the same."""
    table, state, ttl, removed, pk, sk, missing = _parts(statement["Statement"])
    after, expires, partition, sort_key, *was = statement["Parameters"]
    values = {":after": after, ":expires": expires}
    condition = "attribute_not_exists(#state)"
    if not missing:
        (values[":was"],) = was
        condition = "#state = :was"
    return {
        "TableName": table,
        "Key": {pk: partition, sk: sort_key},
        "UpdateExpression": "SET #state = :after, #ttl = :expires REMOVE #removed",
        "ConditionExpression": f"attribute_exists(#pk) AND {condition}",
        "ExpressionAttributeNames": {"#pk": pk, "#state": state, "#ttl": ttl, "#removed": removed},
        "ExpressionAttributeValues": values,
    }


@lru_cache(maxsize=32)
def _parts(statement: str) -> tuple[str, str, str, str, str, str, bool]:
    """Return the names in a statement: table, state, TTL, what is removed, both keys; and whether no state is there."""
    found = _SETTLE.fullmatch(statement)
    if found is None or found[2] != found[7]:
        raise NotSimulated(f"the statement {statement!r}")
    table, state, ttl, removed, pk, sk = (name.replace('""', '"') for name in found.groups()[:6])
    return table, state, ttl, removed, pk, sk, found[8] != "=?"
