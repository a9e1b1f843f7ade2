"""The `Store` port over boto3: sends a transaction, reads an item, and turns every outcome into a value of the core.

The line that matters runs between "nothing of this attempt was written" and "nobody knows". Only an error that
DynamoDB itself answered with a 4xx status, or that arose before anything was sent, is on the first side. Everything
else, and any error of botocore that is not listed here, is on the second: `Lost`. EndpointConnectionError is on the
first: botocore raises it where no connection came about (a name that is not found, a port that nobody listens on), and
another error for a connection that broke, that took too long, or of a proxy. Of these the time-out of a connection is
in `sdk.errors.NEVER_ARRIVED`, too; to say of a commit that nothing was written, it is not sure enough.

A client of our own makes one attempt, with short time-outs: the commit machine retries, so that no lost answer is
hidden from it. A client that is passed in may repeat requests by itself; `repeated` in the answers says that it did.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

from dynamodb_outbox.core.commit.answers import (
    Answer,
    Cancelled,
    Committed,
    Held,
    ItemRead,
    Lost,
    ReadAnswer,
    ReadFailed,
    Reason,
    Refused,
)
from dynamodb_outbox.core.commit.reasons import REQUEST
from dynamodb_outbox.core.error_codes import NO_TABLE, SERVER_ERROR, UNFINISHED
from dynamodb_outbox.core.limits import TOKEN_LIFE_MS
from dynamodb_outbox.core.timing import UNBOUNDED_MS
from dynamodb_outbox.errors import ClientRetriesWarning
from dynamodb_outbox.sdk.clients import OwnClient, TableClient
from dynamodb_outbox.sdk.errors import NEVER_SENT, TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.sdk.errors import Said

__all__ = ["DynamoStore"]

_OWN_CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1, "mode": "standard"}, max_pool_connections=50
)
_REASONS_IN_TEXT = re.compile(r"\[([A-Za-z, ]+)\]")


class DynamoStore:
    """`ports.Store` over a boto3 DynamoDB client, made on first use unless one is passed in.

    Raises ConfigurationError for a boto3 resource, its client, or a client of another service; warns with
    ClientRetriesWarning of a client whose own retries may outlast a token. Safe for use by several threads.
    """

    def __init__(self, client: Any = None) -> None:
        self._client = TableClient(_OWN_CONFIG, client)
        if self._client.call_ms > TOKEN_LIFE_MS:
            _warn_of_retries(self._client)

    @property
    def region(self) -> str | None:
        """The AWS Region of the client."""
        region: str | None = self._client.get().meta.region_name
        return region

    def transact(self, request: Mapping[str, Any]) -> Answer:
        """Send one TransactWriteItems request."""
        try:
            self._client.get().transact_write_items(**request)
        except ClientError as error:
            return self._answer_of(error, request)
        except NEVER_SENT as error:
            return Refused(str(said(error)), repeated=self._client.attempts > 1)
        except EndpointConnectionError as error:
            return Held("unreached", str(said(error)), repeated=self._client.attempts > 1)
        except TRANSPORT as error:
            return Lost(str(said(error)))
        return Committed()

    def read(self, table: str, key: WireItem) -> ReadAnswer:
        """Read one item consistently."""
        try:
            answer = self._client.get().get_item(TableName=table, Key=key, ConsistentRead=True)
        except TRANSPORT as error:
            return ReadFailed(self._why(said(error), (table,)), retryable=may_pass(error))
        return ItemRead(answer.get("Item"))

    def _answer_of(self, error: ClientError, request: Mapping[str, Any]) -> Answer:
        what, repeated = said(error), _repeated(error)
        if what.code == "TransactionCanceledException":
            return Cancelled(_reasons(error), repeated)
        if what.status >= SERVER_ERROR or what.code in UNFINISHED:
            return Lost(str(what))
        kind = REQUEST.get(what.code)
        if kind in {"conflict", "throttle"}:
            return Held(kind, str(what), repeated)
        return Refused(self._why(what, _tables(request)), repeated)

    def _why(self, what: Said, tables: Sequence[str]) -> str:
        """Return what DynamoDB said, and where it was asked when it knows no such table: it does not name it."""
        if what.code != NO_TABLE:
            return str(what)
        named = ", ".join(map(repr, tables))
        return f"{what} ({'table' if len(tables) == 1 else 'one of the tables'} {named}; {self._client.place})"


def _tables(request: Mapping[str, Any]) -> list[str]:
    return sorted({body["TableName"] for action in request["TransactItems"] for body in action.values()})


def _reasons(error: ClientError) -> tuple[Reason, ...]:
    """Return the reasons as listed, or else from the message's `[None, ConditionalCheckFailed]`."""
    listed = error.response.get("CancellationReasons")
    if listed:
        return tuple(
            Reason(reason.get("Code") or "None", reason.get("Message") or "", reason.get("Item") or None)
            for reason in listed
        )
    what = said(error)
    found = _REASONS_IN_TEXT.search(what.message)
    return tuple(Reason(code.strip()) for code in found[1].split(",")) if found else (Reason("Unknown", str(what)),)


def _repeated(error: ClientError) -> bool:
    return bool(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def _warn_of_retries(client: OwnClient) -> None:
    attempts, longest = client.attempts, client.call_ms
    each = "without a time-out" if longest == UNBOUNDED_MS else f"of up to {longest / attempts / 1000:g} s"
    warnings.warn(
        f"client= makes up to {attempts} attempts {each}: longer than the {TOKEN_LIFE_MS // 60_000} minutes for which "
        "DynamoDB remembers a transaction's token. A transaction without events and without an idempotency_key could "
        "be committed twice. Leave client= out, or give it a Config such as "
        'Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}).',
        ClientRetriesWarning,
        stacklevel=4,
    )
