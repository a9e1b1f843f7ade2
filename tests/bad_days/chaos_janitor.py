"""Who deletes records of chaos as soon as they are published, so that whatever is late finds nothing to write to.

Nobody may do that before `published_for` is over, for the sake of commits whose answer was lost. Here these are found
by their guards.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from days import TABLE

if TYPE_CHECKING:
    from types import TracebackType

    from dynamodb_outbox.testing.faultbus import FaultBus

__all__ = ["Janitor"]

_EVERY_S = 0.2
_AMONG, _MOST = 60, 4


class Janitor:
    """Deletes some of the records that a bus has accepted lately, where they are published, while the block lasts."""

    def __init__(self, bus: FaultBus, tables: Any) -> None:
        self._bus = bus
        self._tables = tables
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.deleted = 0

    def __enter__(self) -> Janitor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(_EVERY_S):
            lately = self._bus.accepted[-_AMONG:]
            for one in random.sample(lately, min(_MOST, len(lately))):
                self._delete({"pk": {"S": str(one.key)}, "sk": {"S": f"OUTBOX#{one.id}"}})

    def _delete(self, key: Any) -> None:
        try:
            self._tables.delete_item(
                TableName=TABLE,
                Key=key,
                ConditionExpression="#state = :published",
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={":published": {"S": "published"}},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
        else:
            self.deleted += 1
