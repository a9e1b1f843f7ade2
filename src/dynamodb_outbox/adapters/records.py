"""Moves of stored records, over a DynamoDB client: `ports.RecordStates`.

Both moves may be repeated: the same call twice leaves the table as one call does, so an answer that was lost is tried
again without harm. A record that is no longer as expected is somebody else's success, never a fault. One under whose
keys another one is by now is nobody's: it is parked beside that.

One settle call is one request, of one statement for each item that there is something to write to. Two images of one
item (a row that was deleted and written again) are one statement: what DynamoDB makes of two is not documented.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.core.error_codes import CONDITION_FAILED, CONFLICTS, SERVER_TROUBLE, THROTTLING
from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.apart import apart_keys, copy_key, stands_for
from dynamodb_outbox.core.record.same import is_same
from dynamodb_outbox.core.record.states import PARKED, needs_no_parking, needs_no_settling, state_of
from dynamodb_outbox.core.record.waiting import Found
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, Said, is_lost, is_refused, may_pass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoRecordStates"]

_NONE = ""
_CHANGED = "ConditionalCheckFailed"
_PASSING = (
    frozenset(("DuplicateItem", "ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"))
    | THROTTLING
    | CONFLICTS
    | SERVER_TROUBLE
)
"""Codes of one statement that may pass later: those of the batch's own list [BC], and those of whole requests."""

_DENIED, _NO_TABLE = "AccessDenied", "ResourceNotFound"
"""Codes of one statement that concern the set-up. [BC]"""

_INVALID = "ValidationException"
"""Of a park: the record with its marks is no item that the table could hold. Trying again would stop the shard."""

_CHANGING = moves.Parked(failure="the record kept changing")
_TAKEN = moves.Parked(failure="both keys of the item that would stand for the record are taken")
_NO_PLACE = moves.Parked(
    failure="it has no room for the marks of a parked record, or another use for `at`, and keys of this table's types "
    "have none for an item beside it"
)
_REPLACED = moves.Parked(
    failure="another record is under its keys by now, and keys of this table's types have no place for it beside that"
)
_PARK_TURNS = 3


class DynamoRecordStates:
    """Settle, park and find, for records of `layout`.

    `client` is a boto3 client of "dynamodb"; made on first use when none is given: two attempts a request, each within
    `timeout_s` seconds. `creates`: a record that is gone is parked all the same, as whoever has it from the stream
    needs it; who has read it from the table a moment ago leaves it to whoever has taken it away since.

    Raises ConfigurationError for a boto3 resource, its client, or a client of another service.
    """

    def __init__(self, layout: Layout, *, client: Any = None, timeout_s: float = 1.0, creates: bool = True) -> None:
        self._layout = layout
        self._creates = creates
        self._client = TableClient(table_config(timeout_s), client)

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def settle(self, table: str, images: Sequence[WireItem], now_ms: int) -> Settled:
        """Settle up to 25 pending records, as each says itself or the layout, if it is still as its image says."""
        batch = _Statements(table, images, self._layout, now_ms)
        if not batch.statements:
            return moves.Settled(done=len(images))
        try:
            answer = self._client.get().batch_execute_statement(Statements=batch.statements)
        except FAILS as error:
            if may_pass(error):
                return moves.Settled(done=batch.idle, again=batch.concerned)
            return moves.Settled(done=batch.idle, failed={self._client.why(error, table): len(batch.concerned)})
        responses = answer.get("Responses", ())
        if len(responses) != len(batch.statements):
            return moves.Settled(done=batch.idle, again=batch.concerned)
        errors = {position: responses[batch.place[position]].get("Error") for position in batch.concerned}
        codes = {position: _code(error) for position, error in errors.items()}
        told = Counter(codes.values())
        return moves.Settled(
            done=batch.idle + told[_NONE],
            changed=told[_CHANGED],
            again=tuple(position for position, code in codes.items() if code in _PASSING),
            failed=Counter(
                self._why_of_one(code, errors[position] or {}, table)
                for position, code in codes.items()
                if code not in (_NONE, _CHANGED) and code not in _PASSING
            ),
        )

    def park(self, table: str, image: WireItem, parking: Parking) -> Parked:
        """Store a record as parked, whether it is still there or not, and say whether that holds and is new.

        One that has no room for the marks of a parked record is parked apart: `core.record.schema` tells of it.
        """
        try:
            parked = None if moves.stands_alone(image, self._layout) else self._park(table, image, parking)
        except FAILS as error:
            if not is_refused(error, _INVALID):
                return moves.Parked(failure=self._client.why(error, table), lost=is_lost(error))
            parked = None
        if parked is not None:
            return parked
        if not apart_keys(image, self._layout):
            return _NO_PLACE
        try:
            return self._park_apart(table, image, parking)
        except FAILS as error:
            return moves.Parked(failure=self._client.why(error, table), lost=is_lost(error))

    def find(self, table: str, key: WireItem) -> Found:
        """Read the item under the key attributes of `key`, consistently; every failure of the call is an answer."""
        try:
            return Found(self._read(table, key))
        except FAILS as error:
            return Found({}, self._client.why(error, table))

    def _why_of_one(self, code: str, error: Mapping[str, str], table: str) -> str:
        """Return the code of one statement's error; with DynamoDB's words where they are not about its values."""
        if code == _NO_TABLE:
            return f"{code} (table {table!r}; {self._client.place})"
        return str(Said(code, error.get("Message", "") if code == _DENIED else "", 0))

    def _park(self, table: str, image: WireItem, parking: Parking) -> Parked | None:
        """Return what came of it, None when the record has to be parked apart."""
        for _ in range(_PARK_TURNS):  # the record may change between two of the steps; each turn looks afresh
            found = self._park_as_seen(table, image, parking)
            if found is None:
                return moves.Parked(new=True)
            if (parked := self._parked_away(table, image, found, parking)) is not None:
                return parked
            if self._is_done(table, found, parking):
                return moves.Parked(new=moves.is_parked_by(found, self._layout, parking))
            if state_of(found, self._layout) == PARKED:
                continue
            if moves.stands_alone(found, self._layout):
                return None
            if found and self._update(moves.park_there(table, found, self._layout, parking)):
                return moves.Parked(new=True)
        return _CHANGING

    def _park_as_seen(self, table: str, image: WireItem, parking: Parking) -> WireItem | None:
        """Park a record that is as its image says; return what is there instead when it is not."""
        if self._creates:
            return self._put(moves.park(table, image, self._layout, parking))
        parked = self._update(moves.park_there(table, image, self._layout, parking))
        return None if parked else self._read(table, image)

    def _parked_away(self, table: str, image: WireItem, found: WireItem, parking: Parking) -> Parked | None:
        """Return what came of a record that is not under its keys any more; None when it is parked there."""
        if found and is_same(found, image, self._layout):
            return None
        if not self._creates:
            return moves.Parked()
        return self._park_copy(table, image, parking) if found else None

    def _park_apart(self, table: str, image: WireItem, parking: Parking) -> Parked:
        for _ in range(_PARK_TURNS):
            found = self._read(table, image)
            if (parked := self._parked_away(table, image, found, parking)) is not None:
                return parked
            if needs_no_parking(found, parking.positions, self._layout):
                return moves.Parked()
            key, apart = self._read_apart(table, image)
            if apart:
                if self._is_done(table, apart, parking):
                    return moves.Parked(new=moves.is_parked_by(apart, self._layout, parking))
                continue
            if key is None:
                return _TAKEN
            # The record first: what stands for it means nothing without it.
            if (
                self._is_kept(table, image, found)
                and self._put(moves.park_apart(table, key, image, self._layout, parking)) is None
            ):
                return moves.Parked(new=True)
        return _CHANGING

    def _park_copy(self, table: str, image: WireItem, parking: Parking) -> Parked:
        """Park a whole record beside the one that is under its keys."""
        if (key := copy_key(image, self._layout)) is None:
            return _REPLACED
        for _ in range(_PARK_TURNS):
            found = self._put(moves.park_copy(table, key, image, self._layout, parking))
            if found is None:
                return moves.Parked(new=True)
            if self._is_done(table, found, parking):
                return moves.Parked(new=moves.is_parked_by(found, self._layout, parking))
        return _CHANGING

    def _is_done(self, table: str, found: WireItem, parking: Parking) -> bool:
        """Add events to an item that is parked for others; whether the item found needs no more parking now."""
        if needs_no_parking(found, parking.positions, self._layout):
            return True
        more = state_of(found, self._layout) == PARKED
        return more and self._update(moves.park_more(table, found, self._layout, parking))

    def _read_apart(self, table: str, image: WireItem) -> tuple[WireItem | None, WireItem]:
        """Return the item that stands for a record, or else (the item empty) the key that it would get, if any."""
        free = None
        for key in apart_keys(image, self._layout):
            found = self._read(table, key)
            if stands_for(found, image, self._layout):
                return key, found
            if not found and free is None:
                free = key
        return free, {}

    def _is_kept(self, table: str, image: WireItem, found: WireItem) -> bool:
        """Let a record have no TTL, or be there again; return False when it is no longer as it was found."""
        if found:
            return self._update(moves.without_ttl(table, found, self._layout))
        return self._put(moves.restore(table, image, self._layout)) is None

    def _put(self, request: Mapping[str, Any]) -> WireItem | None:
        """Write an item; return what is there instead when that was not as expected."""
        try:
            self._client.get().put_item(**request)
        except ClientError as error:
            if not is_refused(error, CONDITION_FAILED):
                raise
            return error.response.get("Item") or self._read(request["TableName"], request["Item"])
        return None

    def _update(self, request: Mapping[str, Any]) -> bool:
        """Change an item; return False when it was not as expected."""
        try:
            self._client.get().update_item(**request)
        except ClientError as error:
            if not is_refused(error, CONDITION_FAILED):
                raise
            return False
        return True

    def _read(self, table: str, key: WireItem) -> WireItem:
        item: WireItem = self._client.get().get_item(**moves.read(table, key, self._layout)).get("Item") or {}
        return item


class _Statements:
    """The statements that settle records: one for each item, and none for a record to which there is nothing to write.

    `place` is the number of the statement by the position of an image; of several of one item the last one counts.
    """

    def __init__(self, table: str, images: Sequence[WireItem], layout: Layout, now_ms: int) -> None:
        self.statements: list[dict[str, Any]] = []
        self.place: dict[int, int] = {}
        places: dict[tuple[Any, ...], int] = {}
        for position, image in enumerate(images):
            if needs_no_settling(image, layout):
                continue
            statement = moves.settle(table, image, layout, now_ms=now_ms)
            key = tuple(next(iter(image[name].values())) for name in layout.keys.types)
            place = self.place[position] = places.setdefault(key, len(self.statements))
            if place < len(self.statements):
                self.statements[place] = statement
            else:
                self.statements.append(statement)
        self.concerned = tuple(self.place)
        self.idle = len(images) - len(self.concerned)


def _code(error: Mapping[str, str] | None) -> str:
    """Return the code of a statement's error; `_NONE` says that there is no error, not that it has no code."""
    return _NONE if error is None else error.get("Code") or "NoCode"
