"""How far a consumer is with each subject, over a DynamoDB client: `ports.Positions`.

One conditional UpdateItem an event. It tells the highest sequence until then either way: by the values that it changed,
or by the item that refused it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.core.consuming.order import Ahead, Behind, Unwritten, highest_of, raise_highest
from dynamodb_outbox.core.error_codes import CONDITION_FAILED
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, said

if TYPE_CHECKING:
    from dynamodb_outbox.core.consuming.order import Position
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoPositions"]


class DynamoPositions:
    """Positions in `table`, whose keys are the layout's; `client` is a boto3 client of "dynamodb", made when needed."""

    def __init__(self, table: str, layout: Layout, client: Any = None, *, timeout_s: float = 1.0) -> None:
        self._table = table
        self._layout = layout
        self._client = TableClient(table_config(timeout_s), client)

    def advance(self, consumer: str, event: Event, expires_s: int) -> Position:
        """Make an event's sequence the highest of its subject if it is above, and say where it stands."""
        try:
            answer = self._client.get().update_item(
                **raise_highest(self._table, self._layout, consumer, event, expires_s)
            )
        except FAILS as error:
            if isinstance(error, ClientError) and said(error).code == CONDITION_FAILED:
                return Behind(highest_of(error.response.get("Item") or {}) or "")
            return Unwritten(str(said(error)))
        return Ahead(highest_of(answer.get("Attributes") or {}))
