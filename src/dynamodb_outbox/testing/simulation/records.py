"""The simulated table behind a boto3 client of "dynamodb": what settling and parking, and a look at an item, need.

The adapter that moves records (`dynamodb_outbox.adapters.records`) runs on it as it is, with each of its calls a call
of the network; so a park of several steps can lose its way after any of them. Settling comes as statements of PartiQL,
of which exactly the form is understood that the library writes. Whatever becomes of a record's state is noted in the
ledger, with the invocation that asked for it.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.config import Config
from botocore.exceptions import ClientError

from dynamodb_outbox.core.limits import BATCH_GET_KEYS, BATCH_STATEMENTS
from dynamodb_outbox.core.record.moves import keep_s
from dynamodb_outbox.core.record.schema import PARKED_SK, SCHEMA
from dynamodb_outbox.core.record.states import PARKED, PARKED_EVENTS, PENDING, PUBLISHED, state_of
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.facts import Moved
from dynamodb_outbox.testing.simulation.network import PARK, SETTLE, client_error
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.table import LAGGING, REGION
from dynamodb_outbox.testing.simulation.wire import copied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.table import Table

__all__ = ["TABLE_CONFIG", "RecordsClient"]

TABLE_CONFIG = Config(connect_timeout=0.35, read_timeout=0.65, retries={"mode": "standard", "total_max_attempts": 2})
_WHERE = "table"
_THROTTLED = {"Error": {"Code": "ThrottlingError", "Message": "Rate exceeded"}}
_NAME = r'"((?:[^"]|"")+)"'
_TERMS = r'(?: AND "(?:[^"]|"")+"(?: IS MISSING|=\?))+'
_FORMS = tuple(
    re.compile(f"{form} WHERE @=\\? AND @=\\?({_TERMS})".replace("@", _NAME))
    for form in (r"UPDATE @ SET @=\?(?: SET @=\?)? REMOVE @", r"DELETE FROM @")
)
_TERM = re.compile(rf" AND {_NAME}( IS MISSING|=\?)")


class RecordsClient(SimulatedClient):
    """boto3's client of "dynamodb" in a process that moves records of `table`."""

    def __init__(self, network: Network, process: Process, table: Table, *, config: Config = TABLE_CONFIG) -> None:
        super().__init__(network, process, service="dynamodb", where=_WHERE, region=REGION, config=config)
        self._table = table
        self._troubles = PARK

    def get_item(self, **request: Any) -> dict[str, Any]:
        """GetItem."""
        self._arguments("GetItem", {**LAGGING, **request}, "TableName", "Key", "ConsistentRead")
        return self._call("GetItem", partial(self._table.read_item, request), self._troubles)

    def put_item(self, **request: Any) -> dict[str, Any]:
        """PutItem."""
        sent = copied(request)
        return self._write("PutItem", sent["Item"], lambda by: self._table.put_item(sent, by=by))

    def update_item(self, **request: Any) -> dict[str, Any]:
        """UpdateItem."""
        sent = copied(request)
        return self._write("UpdateItem", sent["Key"], lambda by: self._table.update_item(sent, by=by))

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """BatchGetItem, of one table."""
        (asked,) = self._arguments("BatchGetItem", request, "RequestItems")
        ((table, wanted),) = asked.items()
        if not 1 <= len(wanted["Keys"]) <= BATCH_GET_KEYS:
            raise client_error("BatchGetItem", "ValidationException", f"1 to {BATCH_GET_KEYS} keys")

        def act() -> dict[str, Any]:
            self._table.look_for("BatchGetItem", table)
            seen = self._table.seen(wanted)
            found = [seen.get(self._table.key_of(key)) for key in wanted["Keys"]]
            return {"Responses": {table: [dict(item) for item in found if item is not None]}, "UnprocessedKeys": {}}

        return self._call("BatchGetItem", act, self._troubles)

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """TransactWriteItems, whose first action is the one about a record."""
        (actions,) = self._arguments("TransactWriteItems", copied(request), "TransactItems")
        ((_, first),) = actions[0].items()
        key = first["Item"] if "Item" in first else first["Key"]
        return self._write(
            "TransactWriteItems", key, lambda by: self._table.transact_write_items({"TransactItems": actions}, by=by)
        )

    def batch_execute_statement(self, **request: Any) -> dict[str, Any]:
        """BatchExecuteStatement; each statement is a write with a condition of its own, as the library settles."""
        (statements,) = self._arguments("BatchExecuteStatement", copied(request), "Statements")
        if not 1 <= len(statements) <= BATCH_STATEMENTS:
            raise client_error("BatchExecuteStatement", "ValidationException", f"1 to {BATCH_STATEMENTS} statements")
        try:
            writes = [_write(statement) for statement in statements]
        except NotSimulated as error:
            self._network.kernel.stop(error)
        invocation, by = self._process.invocation, self._process.owner

        def act() -> dict[str, Any]:
            throttled = self._throttled(invocation, len(writes))
            responses = [
                _THROTTLED if place == throttled else self._response(request, invocation, by)
                for place, request in enumerate(writes)
            ]
            return {"Responses": responses}

        return self._call("BatchExecuteStatement", act, SETTLE)

    def _write(self, operation: str, key: WireItem, write: Callable[[str], None]) -> dict[str, Any]:
        invocation, by = self._process.invocation, self._process.owner

        def act() -> dict[str, Any]:
            self._noted(key, invocation, lambda: write(by))
            return {}

        return self._call(operation, act, self._troubles)

    def _throttled(self, invocation: int, statements: int) -> int | None:
        """Return the statement that is throttled, if one is. Raises ClientError when the whole call is."""
        if self._network.faults.take("settle_throttled", _WHERE, invocation=invocation) is None:
            return None
        chosen = self._network.chance.whole(-statements, statements - 1, "settle", self._network.kernel.now_ms)
        if chosen < 0:
            code = "ProvisionedThroughputExceededException"
            raise client_error("BatchExecuteStatement", code, "Rate exceeded")
        return chosen

    def _response(self, request: Mapping[str, Any], invocation: int, by: str) -> dict[str, Any]:
        table = self._table
        if "UpdateExpression" not in request and table.get_item(request["Key"]) is None:
            return {"TableName": request["TableName"]}  # a DELETE succeeds where there is nothing
        write = table.update_item if "UpdateExpression" in request else table.delete_item
        try:
            self._noted(request["Key"], invocation, partial(write, request, by=by))
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
            return {"Error": {"Code": code.removesuffix("Exception"), "Message": ""}}
        return {"TableName": request["TableName"]}

    def _noted(self, key: WireItem, invocation: int, write: Callable[[], None]) -> None:
        """Write, and note what became of the state of the record, if it is one: deleted, it is published."""
        there = self._table.get_item(key)
        write()
        item = self._table.get_item(key)
        before, after = self._standing(there), self._standing(item) or _DELETED
        named = item or there or {}
        if after.state != PENDING and after != before:
            partition, sort_key = self._table.key_of(key)
            record = partition, str(named[PARKED_SK]["S"]) if PARKED_SK in named else sort_key
            now_ms, gone = self._network.kernel.now_ms, item is None
            kept = self._kept_ms(item)
            self._network.ledger.note(Moved(now_ms, record, after.state, invocation, after.events, gone, *kept))

    def _kept_ms(self, item: WireItem | None) -> tuple[int | None, int | None]:
        """Return for how long an item is kept from now on, by its TTL, and by what it says of itself."""
        if item is None or SCHEMA not in item:
            return None, None
        layout, ttl = self._table.layout, item.get(self._table.layout.ttl)
        left_ms = None if ttl is None else 1_000 * int(ttl["N"]) - self._process.clock.now_ms()
        return left_ms, 1_000 * keep_s(item, layout)

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


_DELETED = _Standing(PUBLISHED, None)


def _write(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement that settles a record as the arguments of the UpdateItem or DeleteItem that does the same."""
    words, parameters = _words(statement["Statement"]), statement["Parameters"]
    changed = len(words.sets)
    partition, sort_key, *wanted = parameters[changed:]
    names = {"#pk": words.pk} | {f"#t{n}": name for n, (name, _) in enumerate(words.terms)}
    values, terms = {}, ["attribute_exists(#pk)"]
    for n, (_, missing) in enumerate(words.terms):
        terms.append(f"attribute_not_exists(#t{n})" if missing else f"#t{n} = :t{n}")
        if not missing:
            values[f":t{n}"] = wanted.pop(0)
    request: dict[str, Any] = {
        "TableName": words.table,
        "Key": {words.pk: partition, words.sk: sort_key},
        "ConditionExpression": " AND ".join(terms),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    if words.removed is not None:
        names |= {f"#{n}": name for n, name in enumerate(words.sets)} | {"#removed": words.removed}
        values |= {f":{n}": value for n, value in enumerate(parameters[:changed])}
        sets = ", ".join(f"#{n} = :{n}" for n in range(changed))
        request["UpdateExpression"] = f"SET {sets} REMOVE #removed"
    return request


class _Words(NamedTuple):
    """What a statement says: the names in it, and the conditions, of which the first is on the state.

    Each of `terms` is a name and whether it has to be missing. A DELETE sets and removes nothing.
    """

    table: str
    sets: tuple[str, ...]
    removed: str | None
    pk: str
    sk: str
    terms: tuple[tuple[str, bool], ...]


@lru_cache(maxsize=32)
def _words(statement: str) -> _Words:
    found = next(filter(None, (form.fullmatch(statement) for form in _FORMS)), None)
    if found is None:
        raise NotSimulated(f"the statement {statement!r}")
    *said, tail = (group for group in found.groups() if group is not None)
    table, *changed, pk, sk = map(_unquoted, said)
    terms = tuple((_unquoted(name), condition != "=?") for name, condition in _TERM.findall(tail))
    if changed and changed[0] != terms[0][0]:
        raise NotSimulated(f"the statement {statement!r}")
    removed = changed.pop() if changed else None
    return _Words(table, tuple(changed), removed, pk, sk, terms)


def _unquoted(name: str) -> str:
    return name.replace('""', '"')
