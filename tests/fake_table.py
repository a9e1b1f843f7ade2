"""A table that can be scanned for expired items, and whose items can be deleted on a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR_S = 3_600
DAY_S = 24 * HOUR_S


class FakeTable:
    """What is used of a `dynamodb` client; `items` are partition keys with a TTL attribute each."""

    def __init__(self, expires: dict[str, Any]) -> None:
        self.items: dict[str, dict[str, Any]] = {
            key: {"pk": {"S": key}, "expires": value} for key, value in expires.items()
        }
        self.before_delete: dict[str, Callable[[], object]] = {}
        self.failures: list[Exception] = []
        self.scans = 0

    def describe_table(self, **_request: Any) -> Any:
        """Answer with the key."""
        return {"Table": {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}]}}

    def get_paginator(self, _operation: str) -> FakeTable:
        """Return the one paginator there is."""
        return self

    def paginate(self, **request: Any) -> Iterator[Any]:
        """Answer page by page with the items between the two times."""
        self.scans += 1
        if self.failures:
            raise self.failures.pop(0)
        low, high = (int(request["ExpressionAttributeValues"][name]["N"]) for name in (":oldest", ":now"))
        for item in list(self.items.values()):
            if low <= int(item["expires"].get("N", "-1")) <= high:
                yield {"Items": [dict(item)]}

    def delete_item(self, **request: Any) -> Any:
        """Delete an item if its TTL attribute is as read."""
        key = request["Key"]["pk"]["S"]
        assert request["ConditionExpression"] == "#ttl = :read"
        self.before_delete.get(key, lambda: None)()
        if self.items.get(key, {}).get("expires") != request["ExpressionAttributeValues"][":read"]:
            code = "ConditionalCheckFailedException"
            raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "DeleteItem")
        del self.items[key]
        if self.failures:
            raise self.failures.pop(0)
        return {}
