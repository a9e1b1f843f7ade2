"""The `Store` port over boto3: sends a transaction, reads an item, and turns every outcome into a value of the core.

The line that matters runs between "nothing of this attempt was written" and "nobody knows". Only an error that
DynamoDB itself answered with a 4xx status, or that arose before anything was sent, is on the first side. Everything
else, and any error of botocore that is not listed here, is on the second: `Lost`.

A client of our own makes one attempt, with short time-outs: the commit machine retries, so that no lost answer is
hidden from it. A client that is passed in may repeat requests by itself; `repeated` in the answers says that it did.
"""

from __future__ import annotations

import re
import threading
import warnings
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointProviderError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from dynamodb_outbox.adapters.clients import refuse_resource_client
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
from dynamodb_outbox.core.limits import TOKEN_LIFE_MS
from dynamodb_outbox.errors import ClientRetriesWarning, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import WireItem

__all__ = ["DynamoStore"]

_OWN_CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1, "mode": "standard"}, max_pool_connections=50
)
_NEVER_SENT = (
    CredentialRetrievalError,
    EndpointProviderError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""Errors of botocore that arise before a request leaves: credentials, parameters, the endpoint."""

_UNKNOWN_OUTCOME = frozenset(("RequestTimeout", "RequestTimeoutException", "TransactionInProgressException"))
"""4xx codes that do not say what became of the request: it was cut off, or an earlier one is still at work."""

_SERVER_ERROR = 500
_LEGACY_ATTEMPTS = 10  # botocore's own default for DynamoDB in its legacy mode
_STANDARD_ATTEMPTS = 3  # and in its other modes
_REASONS_IN_TEXT = re.compile(r"\[([A-Za-z, ]+)\]")


class DynamoStore:
    """`ports.Store` over a boto3 DynamoDB client, made on first use unless one is passed in.

    Raises ConfigurationError for a client of boto3's resource layer; warns with ClientRetriesWarning of a client whose
    own retries may outlast a token. Safe for use by several threads.
    """

    def __init__(self, client: Any = None) -> None:
        self._lock = threading.Lock()
        self._client = client
        self._attempts = 1
        if client is not None:
            refuse_resource_client(client)
            self._attempts = _attempts(client.meta.config)
            _warn_of_retries(client.meta.config, self._attempts)

    @property
    def region(self) -> str | None:
        """The AWS Region of the client."""
        region: str | None = self._ready().meta.region_name
        return region

    def transact(self, request: Mapping[str, Any]) -> Answer:
        """Send one TransactWriteItems request."""
        try:
            self._ready().transact_write_items(**request)
        except ClientError as error:
            return _answer_of(error)
        except _NEVER_SENT as error:
            return Refused(_said(error), repeated=self._attempts > 1)
        except (BotoCoreError, ResponseParserError) as error:
            return Lost(_said(error))
        return Committed()

    def read(self, table: str, key: WireItem) -> ReadAnswer:
        """Read one item consistently."""
        try:
            answer = self._ready().get_item(TableName=table, Key=key, ConsistentRead=True)
        except ClientError as error:
            code, status = _code(error), _status(error)
            retryable = status >= _SERVER_ERROR or code in REQUEST or code in _UNKNOWN_OUTCOME
            return ReadFailed(_said(error), retryable=retryable)
        except (BotoCoreError, ResponseParserError) as error:
            return ReadFailed(_said(error), retryable=not isinstance(error, _NEVER_SENT))
        return ItemRead(answer.get("Item"))

    def _ready(self) -> Any:
        if self._client is None:
            with self._lock:
                if self._client is None:
                    # A session of its own: boto3's default session is not safe to make clients from in threads.
                    self._client = _own_client()
        return self._client


def _own_client() -> Any:
    try:
        return boto3.session.Session().client("dynamodb", config=_OWN_CONFIG)
    except NoRegionError:
        raise ConfigurationError("no AWS Region is configured: set AWS_REGION, or pass client=.") from None


def _answer_of(error: ClientError) -> Answer:
    code, repeated = _code(error), _repeated(error)
    if code == "TransactionCanceledException":
        return Cancelled(_reasons(error), repeated)
    if _status(error) >= _SERVER_ERROR or code in _UNKNOWN_OUTCOME:
        return Lost(_said(error))
    kind = REQUEST.get(code)
    if kind in {"conflict", "throttle"}:
        return Held(kind, _said(error), repeated)
    return Refused(_said(error), repeated)


def _reasons(error: ClientError) -> tuple[Reason, ...]:
    """Return the reasons as listed, or else from the message's `[None, ConditionalCheckFailed]`."""
    listed = error.response.get("CancellationReasons")
    if listed:
        return tuple(
            Reason(reason.get("Code") or "None", reason.get("Message") or "", reason.get("Item") or None)
            for reason in listed
        )
    found = _REASONS_IN_TEXT.search(str(error.response.get("Error", {}).get("Message", "")))
    return tuple(Reason(code.strip()) for code in found[1].split(",")) if found else (Reason("Unknown", _said(error)),)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    """Return the HTTP status; 500 where there is none, since nothing is known then."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", _SERVER_ERROR))


def _repeated(error: ClientError) -> bool:
    return bool(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _attempts(config: Any) -> int:
    retries = config.retries or {}
    default = _LEGACY_ATTEMPTS if retries.get("mode", "legacy") == "legacy" else _STANDARD_ATTEMPTS
    return int(retries.get("total_max_attempts") or default)


def _warn_of_retries(config: Any, attempts: int) -> None:
    unbounded = float("inf")
    one = sum(unbounded if timeout is None else timeout for timeout in (config.connect_timeout, config.read_timeout))
    if one * attempts * 1000 > TOKEN_LIFE_MS:
        warnings.warn(
            f"client= makes up to {attempts} attempts of up to {one:g} s: longer than the {TOKEN_LIFE_MS // 60_000} "
            "minutes for which DynamoDB remembers a transaction's token. A transaction without events and without an "
            "idempotency_key could be committed twice. Leave client= out, or give it a Config such as "
            'Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}).',
            ClientRetriesWarning,
            stacklevel=4,
        )
