"""boto3 clients for measuring: as people make them, as the library makes its own, and answered inside the process.

Of a client that is answered inside the process everything of botocore runs but the network.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from dynamodb_outbox.sdk.clients import OwnClient, table_config
from dynamodb_outbox.sinks.options import own_config

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NOWHERE", "answer", "answered", "own_client", "usual_client"]

NOWHERE = "http://127.0.0.1:1"
"""An endpoint for clients that are answered inside the process."""


def answered(service: str, operation: str, make: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a client of `service` that answers `operation` with what `make` makes of the request's JSON body."""
    client = usual_client(service, NOWHERE)
    answer(client, operation, make)
    return client


def usual_client(service: str, endpoint: str) -> Any:
    """Return a client as people make it for 16 threads, with one attempt a request."""
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106 - no service is behind it
        config=Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}, max_pool_connections=16),
    )


def own_client(service: str, endpoint: str) -> Any:
    """Return the client that a relay makes where it is given none."""
    os.environ |= {  # of this process, which has no other use for them
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
    }
    return OwnClient(service, table_config(1.0) if service == "dynamodb" else own_config("EventBridge", 2.5)).get()


def answer(client: Any, operation: str, make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let a client answer one more operation."""

    def respond(request: Any, **_: Any) -> AWSResponse:
        body = json.dumps(make(json.loads(request.body))).encode()
        return AWSResponse(request.url, 200, {"content-type": "application/x-amz-json-1.0"}, _Raw(body))

    client.meta.events.register(f"before-send.{client.meta.service_model.service_name}.{operation}", respond)


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._body
