"""Moves of stored records, over a DynamoDB client: `ports.RecordStates`.

Both moves may be repeated: the same call twice leaves the table as one call does, so an answer that was lost is tried
again without harm. A record that is no longer as expected is somebody else's success, never a fault.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError

from dynamodb_outbox.core.error_codes import CONFLICTS, SERVER_TROUBLE, THROTTLING
from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.states import PARKED, needs_no_parking, state_of
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient, refuse_resource_client
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.record.moves import Parking, Settled
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoRecordStates"]

_CHANGED = "ConditionalCheckFailed"
_PASSING = (
    frozenset(("DuplicateItem", "ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"))
    | THROTTLING
    | CONFLICTS
    | SERVER_TROUBLE
)
"""Codes of one statement that may pass later: those of the batch's own list [BC], and those of whole requests."""

_ATTEMPTS = 2
_PARK_TURNS = 3
_FAILS = (*TRANSPORT, ConfigurationError)


class DynamoRecordStates:
    """Settle and park, for records of `layout`.

    `client` is a boto3 client of "dynamodb"; made on first use when none is given: two attempts a request, each within
    `timeout_s` seconds. Raises ConfigurationError for the client of a boto3 resource.
    """

    def __init__(self, layout: Layout, *, client: Any = None, timeout_s: float = 1.0) -> None:
        if client is not None:
            refuse_resource_client(client)
        self._layout = layout
        self._client = OwnClient("dynamodb", _own_config(timeout_s), client)

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def settle(self, table: str, images: Sequence[WireItem], now_ms: int) -> Settled:
        """Make up to 25 pending records published, each if it is still as its image says."""
        statements = [moves.settle(table, image, self._layout, now_ms=now_ms) for image in images]
        everything = tuple(range(len(images)))
        try:
            answer = self._client.get().batch_execute_statement(Statements=statements)
        except _FAILS as error:
            if may_pass(error):
                return moves.Settled(again=everything)
            return moves.Settled(failed={said(error).code: len(images)})
        responses = answer.get("Responses", ())
        if len(responses) != len(images):
            return moves.Settled(again=everything)
        codes = [response.get("Error", {}).get("Code") for response in responses]
        return moves.Settled(
            done=codes.count(None),
            changed=codes.count(_CHANGED),
            again=tuple(i for i, code in enumerate(codes) if code in _PASSING),
            failed=Counter(code for code in codes if code and code != _CHANGED and code not in _PASSING),
        )

    def park(self, table: str, image: WireItem, parking: Parking) -> str | None:
        """Store a record as parked, whether it is still there or not; return None when that holds, else why not."""
        try:
            for _ in range(_PARK_TURNS):  # the record may change between two of the steps; each turn looks afresh
                found = self._put_parked(table, image, parking)
                if found is None or needs_no_parking(found, parking.positions):
                    return None
                if state_of(found) == PARKED and self._park_more(table, image, parking):
                    return None
        except _FAILS as error:
            return str(said(error))
        return "the record kept changing"

    def _put_parked(self, table: str, image: WireItem, parking: Parking) -> WireItem | None:
        """Write the record as parked; return what is there instead when it was not as expected."""
        try:
            self._client.get().put_item(**moves.park(table, image, self._layout, parking))
        except ClientError as error:
            if said(error).code != "ConditionalCheckFailedException":
                raise
            return error.response.get("Item") or self._read(table, image)
        return None

    def _park_more(self, table: str, image: WireItem, parking: Parking) -> bool:
        try:
            self._client.get().update_item(**moves.park_more(table, image, self._layout, parking))
        except ClientError as error:
            if said(error).code != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def _read(self, table: str, image: WireItem) -> WireItem:
        keys = {name: image[name] for name in (self._layout.pk, self._layout.sk)}
        item: WireItem = self._client.get().get_item(TableName=table, Key=keys, ConsistentRead=True).get("Item") or {}
        return item


def _own_config(timeout_s: float) -> Config:
    return Config(
        connect_timeout=timeout_s / 3,
        read_timeout=timeout_s * 2 / 3,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        tcp_keepalive=True,
    )
