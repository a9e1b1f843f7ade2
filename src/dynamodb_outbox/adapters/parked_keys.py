"""Keys that are parked, over a DynamoDB client: `ports.ParkedKeys`.

A record is parked with its key by the very steps that park it alone. Each write of those steps carries one more
action, the key's marker, in one transaction. So a marker may be there a step before the record is parked (where the
record has to be written anew first), and never after: who dies in between leaves a key that is held back, and the
record is parked when it is delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.core.record import parked_keys
from dynamodb_outbox.core.record.moves import Parked
from dynamodb_outbox.core.record.parked_keys import KeysFound, Released
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.core.record.moves import Parking
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import RecordStates

__all__ = ["DynamoParkedKeys"]

_CANCELLED = "TransactionCanceledException"
_AS_ALONE: Mapping[str, str] = {
    "ConditionalCheckFailed": "ConditionalCheckFailedException",
    "ItemCollectionSizeLimitExceeded": "ItemCollectionSizeLimitExceededException",
    "ProvisionedThroughputExceeded": "ProvisionedThroughputExceededException",
    "ThrottlingError": "ThrottlingException",
    "TransactionConflict": "TransactionConflictException",
    "ValidationError": "ValidationException",
}
"""Why an action of a transaction was not done -> the code that the same write alone would have met. [BC]"""

_UNTOLD = "it could not be read whether its key is parked"
_LEFT_OUT = "the answer left keys unread (UnprocessedKeys), as a table does that is asked for too much"


class DynamoParkedKeys:
    """Markers of parked keys in the records' table of `layout`.

    `states` makes what parks records, from the client that it is to use. `client` is a boto3 client of "dynamodb"; made
    on first use when none is given. Raises ConfigurationError as the states do.
    """

    def __init__(
        self, layout: Layout, states: Callable[[Any], RecordStates], *, client: Any = None, timeout_s: float = 1.0
    ) -> None:
        self._layout = layout
        self._states = states
        self._client = TableClient(table_config(timeout_s), client)

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:
        """Return which of up to 100 keys are parked, and of which that could not be read, and why; raises nothing."""
        try:
            answer = self._client.get().batch_get_item(**parked_keys.read_marks(table, keys, self._layout))
            unread = parked_keys.unread(keys, answer.get("UnprocessedKeys") or {}, self._layout)
            items = answer.get("Responses", {}).get(table, ())
            marked = parked_keys.marked(keys, items, self._layout)
        except FAILS as error:
            return KeysFound(frozenset(), frozenset(keys), self._client.why(error, table, self._layout.keys))
        except (AttributeError, LookupError, TypeError) as error:
            return KeysFound(frozenset(), frozenset(keys), f"the answer has another form ({type(error).__name__})")
        return KeysFound(marked, unread, _LEFT_OUT if unread else None)

    def park(self, table: str, image: WireItem, parking: Parking, key: str) -> tuple[Parked, bool]:
        """Store a record as parked, and its key with it; say whether the record is parked, and whether the key is.

        Of a record that needs no parking any more the key stays as it is: it was parked by somebody else just now, or
        was let go since.
        """
        try:
            client = _WithMarker(self._client.get(), parked_keys.mark(table, key, self._layout, parking))
        except ConfigurationError as error:
            return Parked(failure=str(error)), False
        parked = self._states(client).park(table, image, parking)
        if parked.failure is not None or client.has_written:
            return parked, parked.failure is None
        found = self.read(table, [key])
        if found.unread:
            return Parked(failure=f"{_UNTOLD}: {found.failure}"), False
        return parked, bool(found.parked)

    def release(self, table: str, key: str) -> Released:
        """Let a key go on; every failure of the call is an answer."""
        try:
            answer = self._client.get().delete_item(**parked_keys.release(table, key, self._layout))
        except FAILS as error:
            return Released(failure=str(said(error)), retryable=may_pass(error))
        return Released(was_parked=bool(answer.get("Attributes")))


class _WithMarker:
    """A client whose writes each carry the marker of a key, in one transaction; its errors are those of the writes."""

    def __init__(self, client: Any, marker: Mapping[str, Any]) -> None:
        self.meta = client.meta
        self.has_written = False
        self._client = client
        self._marker = marker

    def get_item(self, **request: Any) -> Any:
        """GetItem, as it is."""
        return self._client.get_item(**request)

    def put_item(self, **request: Any) -> None:
        """PutItem, and the marker."""
        self._write("Put", request)

    def update_item(self, **request: Any) -> None:
        """UpdateItem, and the marker."""
        self._write("Update", request)

    def _write(self, action: str, request: Mapping[str, Any]) -> None:
        try:
            self._client.transact_write_items(TransactItems=[{action: request}, {"Update": self._marker}])
        except ClientError as error:
            raise _as_alone(error, action) from error
        self.has_written = True


def _as_alone(error: ClientError, action: str) -> ClientError:
    """Return what the write alone would have met: the reason of its own action before that of the marker."""
    if said(error).code != _CANCELLED:
        return error
    for reason in error.response.get("CancellationReasons", ()):
        if (code := _AS_ALONE.get(reason.get("Code"))) is not None:
            item = {"Item": reason["Item"]} if reason.get("Item") else {}
            details = {"Code": code, "Message": reason.get("Message", "")}
            return ClientError({**error.response, "Error": details, **item}, f"{action}Item")
    return error
