"""One HTTP exchange as values: what came in, what goes out, and which AWS operation it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Answer", "Headers", "Request", "end_to_end", "json_answer"]

Headers = tuple[tuple[str, str], ...]

_HOP_BY_HOP = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


@dataclass(frozen=True)
class Request:
    """A request that has been read whole. `target` is the path and query as they stood on the wire."""

    method: str
    target: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of the header `name` (lower case), or an empty text."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def with_body(self, body: bytes) -> Request:
        """Return the same request with another body."""
        return replace(self, body=body)

    @property
    def operation(self) -> str:
        """The AWS operation's name where the protocol tells it, otherwise the method and the path.

        JSON protocols say it in `X-Amz-Target`, the query protocol in `Action`, Smithy's RPC v2 in the path.
        """
        target = self.header("x-amz-target")
        if target:
            return target.rpartition(".")[2]
        if self.header("content-type").startswith("application/x-www-form-urlencoded"):
            action = parse_qs(self.body.decode("latin-1")).get("Action")
            if action:
                return action[0]
        path = self.target.partition("?")[0]
        if path.startswith("/service/"):
            return path.rpartition("/operation/")[2]
        return f"{self.method} {path}"


@dataclass(frozen=True)
class Answer:
    """An answer to send. The length is stated by whoever sends it, never by `headers`.

    `length` is the length to state for an answer without a body (to HEAD), None to count the body.
    """

    status: int
    headers: Headers
    body: bytes
    reason: str = ""
    length: str | None = None


def end_to_end(headers: Headers) -> Headers:
    """Return the headers that belong to the message and not to one connection or one framing of the body."""
    return tuple((name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP)


def json_answer(status: int, document: Mapping[str, object], *, content_type: str = "application/json") -> Answer:
    """Return an answer with a JSON body."""
    return Answer(status, (("Content-Type", content_type),), json.dumps(document).encode())
