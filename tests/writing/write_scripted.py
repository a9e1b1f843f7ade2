"""An outbox over a client that is scripted: nothing leaves the process."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError
from write_world import CountingEntropy, FakeClock

from dynamodb_outbox import Layout, Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEM = {"pk": "ORDER#1", "sk": "META", "cents": 5}
KEY = {"pk": "ORDER#1", "sk": "META"}


@functools.cache
def real_client() -> Any:
    """Return a client that is never called; what it says of itself is used."""
    return boto3.session.Session().client(
        "dynamodb",
        region_name="eu-west-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}),
    )


class Scripted:
    """A client that remembers requests and gives scripted answers; the rest is a real client's."""

    def __init__(self, *answers: BaseException | None) -> None:
        self.meta = real_client().meta
        self.answers: Iterator[BaseException | None] = iter(answers)
        self.requests: list[dict[str, Any]] = []
        self.items: list[dict[str, Any] | None] = []
        self.reads: list[dict[str, Any]] = []

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """Answer as scripted; with a success when the script is over."""
        self.requests.append(copy.deepcopy(request))
        answer = next(self.answers, None)
        if answer is not None:
            raise answer
        return {}

    def get_item(self, **request: Any) -> dict[str, Any]:
        """Return the next item."""
        self.reads.append(request)
        item = self.items.pop(0)
        return {} if item is None else {"Item": item}


def cancelled(*codes: str) -> ClientError:
    """Return boto3's error for a cancelled transaction."""
    return ClientError(
        {
            "Error": {"Code": "TransactionCanceledException", "Message": "cancelled"},
            "CancellationReasons": [{"Code": code} for code in codes],
            "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 0},
        },
        "TransactWriteItems",
    )


def lost() -> ReadTimeoutError:
    """Return boto3's error for an answer that never came."""
    return ReadTimeoutError(endpoint_url="x")


class World:
    """An outbox over a scripted client."""

    def __init__(self, *answers: BaseException | None, layout: Layout | None = None, **options: Any) -> None:
        self.client = Scripted(*answers)
        self.clock = FakeClock()
        self.outbox = Outbox(
            "shop",
            source="shop.orders",
            layout=layout,
            client=self.client,
            clock=self.clock,
            entropy=CountingEntropy(),
            **options,
        )

    def sent(self) -> list[dict[str, Any]]:
        """Return the members of the only request."""
        (request,) = self.client.requests
        members: list[dict[str, Any]] = request["TransactItems"]
        return members
