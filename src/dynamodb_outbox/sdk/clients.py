"""Clients: one of our own, made when it is first needed, and what is checked of one that was passed in."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
from boto3.resources.base import ServiceResource
from botocore.config import Config
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, NoRegionError

from dynamodb_outbox._version import __version__
from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.error_codes import INVALID, NO_TABLE
from dynamodb_outbox.core.timing import attempts_of, call_ms
from dynamodb_outbox.errors import ConfigurationError, NoClient
from dynamodb_outbox.sdk.errors import said

if TYPE_CHECKING:
    from dynamodb_outbox.keys import Keys

__all__ = ["OwnClient", "TableClient", "table_config"]

_TABLE_ATTEMPTS = 2
_USER_AGENT = f"dynamodb-outbox/{__version__} Boto3/{boto3.__version__}"  # boto3 adds botocore's
_NO_TOKEN = re.compile(r"[^A-Za-z0-9!#$%&'*+.^_`|~-]")


class OwnClient:
    """The boto3 client of `service` to use: `given`, or else one of our own with `config`.

    Our own is made on first use, once for all threads, from a session of its own: boto3's default session is not safe
    to make clients from in threads. It finds credentials and Region as any boto3 client does; where that finds no
    Region it takes AWS_REGION, which Lambda and the other SDKs know and boto3 does not. `region` goes before all of
    these: what the client is for may be in one Region alone. Its requests name this library in their User-Agent, and
    the application, where AWS_SDK_UA_APP_ID does: one that is given is used as it is, and botocore's own is made anew
    for each request, which takes a fifth of a small request's time (decision 0027).

    Raises ConfigurationError when `given` is no client, or that of another service. What cannot be told of a stand-in
    (a tracer's, a test's) is not asked for.
    """

    def __init__(self, service: str, config: Config, given: Any = None, *, region: str | None = None) -> None:
        if given is not None:
            _check_service(given, service)
        self._service = service
        self._config = config if given is None else given.meta.config
        self._client = given
        self._region = region
        self._making = threading.Lock()

    @cached_property
    def attempts(self) -> int:
        """How often the client sends one request at most."""
        return attempts_of(self._config, self._service)

    @cached_property
    def call_ms(self) -> int:
        """The longest that one call may take, in milliseconds."""
        return call_ms(self._config, self._service)

    @property
    def place(self) -> str:
        """Where the client's requests go, for an error: its Region and its endpoint."""
        meta = self.get().meta
        return f"Region {meta.region_name!r}, endpoint {getattr(meta, 'endpoint_url', None)}"

    def get(self) -> Any:
        """Return the client. Raises NoClient when none can be made: no Region, or settings that are wrong."""
        if self._client is None:
            with self._making:
                if self._client is None:
                    self._client = self._made()
        return self._client

    def _made(self) -> Any:
        try:
            session = boto3.session.Session()
            region = self._region or session.region_name or os.environ.get("AWS_REGION") or None
            config = self._config.merge(Config(user_agent=_user_agent()))
            return session.client(self._service, region_name=region, config=config)
        except NoRegionError:
            raise NoClient("no AWS Region is configured: set AWS_REGION (in code, client= does, too).") from None
        except CredentialRetrievalError:
            raise  # whoever hands out credentials may be back at the next call
        except (BotoCoreError, ValueError) as error:  # an unknown profile, a Region or an endpoint of no such form
            said = f"no client of {self._service!r} can be made: {error}"
            is_bare = said.count("Invalid endpoint: ") == 1 and "://" not in said
            raise NoClient(f"{said}: http:// is missing" if is_bare else said) from error


class TableClient(OwnClient):
    """The boto3 client of DynamoDB to use; what a table's values are written through takes them in wire form.

    Raises ConfigurationError for the client of a boto3 resource too: its hooks would wrap the values once more.
    """

    def __init__(self, config: Config, given: Any = None) -> None:
        super().__init__("dynamodb", config, given)
        if given is not None:
            _refuse_resource_client(given)

    def why(self, error: Exception, table: str, keys: Keys | None = None) -> str:
        """Return what was said, and where it was asked when there is no such table: the answer does not name it.

        `keys` are those of the layout, by which it was asked: a table that has others refuses the request.
        """
        what = said(error)
        if what.code == INVALID and keys is not None:
            named = " and ".join(map(repr, keys.types))
            return f"{what}. The layout has the keys {named}: where the writer has another, give that (--layout)"
        return f"{what} (table {table!r}; {self.place})" if what.code == NO_TABLE else str(what)


def _user_agent() -> str:
    application = os.environ.get("AWS_SDK_UA_APP_ID")
    return f"{_USER_AGENT} app/{_NO_TOKEN.sub('-', application)}" if application else _USER_AGENT


def _check_service(client: Any, service: str) -> None:
    needed = f"boto3.client({service!r})"
    if isinstance(client, ServiceResource):
        raise ConfigurationError(f"client= takes {needed}, not a boto3 resource ({shown(client)}).")
    if isinstance(client, type) or not hasattr(client, "meta"):
        raise ConfigurationError(f"client={shown(client)}: {needed} is needed.")
    named = getattr(getattr(client.meta, "service_model", None), "service_name", None)
    if isinstance(named, str) and named != service:
        raise ConfigurationError(f"client= is a client of {named!r}, and one of {service!r} is needed: {needed}.")


def _refuse_resource_client(client: Any) -> None:
    """Raise ConfigurationError for the client of a boto3 resource: its hooks would wrap values in wire form once more.

    Told by what the hooks do to such a value; nothing is sent. A stand-in without a model has no such hooks.
    """
    if not hasattr(client.meta, "service_model"):
        return
    probe = {"TableName": "probe", "Item": {"probe": {"S": "probe"}}}
    model = client.meta.service_model.operation_model("PutItem")
    with contextlib.suppress(BotoCoreError):  # a stub on the client, which knows nothing of this call
        client.meta.events.emit("before-parameter-build.dynamodb.PutItem", params=probe, model=model, context={})
    if probe["Item"] != {"probe": {"S": "probe"}}:
        raise ConfigurationError(
            "client= belongs to boto3.resource('dynamodb'), whose client converts values by itself. "
            "Pass boto3.client('dynamodb')."
        )


def table_config(timeout_s: float) -> Config:
    """Return what our own client of the records' table is made with: two attempts, each within `timeout_s` seconds.

    Botocore does not validate its parameters: what is sent is what a stream record carried, or made here. It would take
    a third of the time that settling takes (decision 0027).
    """
    return Config(
        connect_timeout=timeout_s / 3,
        read_timeout=timeout_s * 2 / 3,
        retries={"mode": "standard", "total_max_attempts": _TABLE_ATTEMPTS},
        parameter_validation=False,
        tcp_keepalive=True,
    )
