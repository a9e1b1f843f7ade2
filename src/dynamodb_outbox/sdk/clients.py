"""Clients: one of our own, made when it is first needed, and what is checked of one that was passed in."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, NoRegionError

from dynamodb_outbox.core.timing import attempts_of, call_ms
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from botocore.config import Config

__all__ = ["OwnClient", "refuse_resource_client"]


class OwnClient:
    """The boto3 client of `service` to use: `given`, or else one of our own with `config`.

    Our own is made on first use, once for all threads, from a session of its own: boto3's default session is not safe
    to make clients from in threads. It finds credentials and Region as any boto3 client does.
    """

    def __init__(self, service: str, config: Config, given: Any = None) -> None:
        self._service = service
        self._config = config if given is None else given.meta.config
        self._client = given
        self._making = threading.Lock()

    @property
    def attempts(self) -> int:
        """How often the client sends one request at most."""
        return attempts_of(self._config, self._service)

    @property
    def call_ms(self) -> int:
        """The longest that one call may take, in milliseconds."""
        return call_ms(self._config, self._service)

    def get(self) -> Any:
        """Return the client. Raises ConfigurationError when no Region is configured."""
        if self._client is None:
            with self._making:
                if self._client is None:
                    self._client = self._made()
        return self._client

    def _made(self) -> Any:
        try:
            return boto3.session.Session().client(self._service, config=self._config)
        except NoRegionError:
            raise ConfigurationError("no AWS Region is configured: set AWS_REGION, or pass client=.") from None


def refuse_resource_client(client: Any) -> None:
    """Raise ConfigurationError for the client of a boto3 resource: its hooks would wrap values in wire form once more.

    Told by what the hooks do to such a value; nothing is sent.
    """
    probe = {"TableName": "probe", "Item": {"probe": {"S": "probe"}}}
    model = client.meta.service_model.operation_model("PutItem")
    with contextlib.suppress(BotoCoreError):  # a stub on the client, which knows nothing of this call
        client.meta.events.emit("before-parameter-build.dynamodb.PutItem", params=probe, model=model, context={})
    if probe["Item"] != {"probe": {"S": "probe"}}:
        raise ConfigurationError(
            "client= belongs to boto3.resource('dynamodb'), whose client converts values by itself. "
            "Pass boto3.client('dynamodb')."
        )
