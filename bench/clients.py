"""boto3 clients whose calls are answered inside the process: everything of botocore runs but the network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["answer", "answered"]


def answered(service: str, operation: str, make: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a client of `service` that answers `operation` with what `make` makes of the request's JSON body."""
    client = boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106 - no service is behind it
        config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}, max_pool_connections=16),
    )

    answer(client, operation, make)
    return client


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
