"""Servers for the sink contract: each speaks one service's protocol, on 127.0.0.1, and answers as it is told.

They are written from the services' own models and share no code with the sinks, so that a size or a result is judged
by a second opinion.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from botocore.config import Config
from own_sink import Webhook

from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.sinks import EventBridge, Sns, Sqs
from dynamodb_outbox.testing.sink_contract import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ACCOUNT = "123456789012"
TIMEOUTS = Config(connect_timeout=1, read_timeout=0.9, retries={"mode": "standard", "total_max_attempts": 1})
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Sent:
    """One entry of a request: the Id it has there, and the id of its event."""

    number: str
    event_id: str


@dataclass(frozen=True)
class Said:
    """An HTTP answer."""

    status: int
    body: str
    kind: str = "application/json"


class Speech(Protocol):
    """How a service puts things."""

    def entries(self, body: bytes, headers: Any) -> list[Sent] | None:
        """Return the entries of a publish request, None for any other request."""
        ...

    def results(self, accepted: Sequence[Sent], refused: Sequence[Sent]) -> Said:
        """Say what became of entries."""
        ...

    def there(self) -> Said:
        """Describe the destination."""
        ...

    def failure(self, reply: Reply, body: bytes) -> Said:
        """Refuse a request as a whole."""
        ...

    def sink(self, url: str) -> Any:
        """Return a sink whose destination is at `url`."""
        ...

    def size(self, entry: Any) -> int:
        """Return the size of an entry."""
        ...


class HttpStandIn:
    """A stand-in as the contract wants it, for any of the speeches."""

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self._reply, self._ids = Reply.ACCEPT, frozenset[str]()
        self._accepted: list[str] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self._serve))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> HttpStandIn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def sink(self) -> Any:
        """Return a sink that talks to this server."""
        return self.speech.sink(f"http://127.0.0.1:{self._server.server_port}")

    def play(self, reply: Reply, ids: frozenset[str] = frozenset()) -> None:
        """Answer like this from now on."""
        self._reply, self._ids = reply, ids

    def accepted(self) -> Sequence[str]:
        """Return the ids of events accepted so far."""
        with self._lock:
            return list(self._accepted)

    def size(self, entry: Any) -> int:
        """Return an entry's size, counted here."""
        return self.speech.size(entry)

    def _serve(self, body: bytes, headers: Any) -> Said | None:
        if self._reply in (Reply.SILENT, Reply.RESET):
            if self._reply is Reply.SILENT:
                self._closing.wait(5)
            return None
        if self._reply is Reply.GARBLED:
            return Said(200, "<<< neither JSON nor XML", "text/plain")
        if self._reply not in (Reply.ACCEPT, Reply.REFUSE, Reply.OMIT):
            return self.speech.failure(self._reply, body)
        entries = self.speech.entries(body, headers)
        if entries is None:
            return self.speech.there()
        chosen = [entry for entry in entries if entry.event_id in self._ids]
        others = [entry for entry in entries if entry.event_id not in self._ids]
        with self._lock:
            self._accepted.extend(entry.event_id for entry in (others if self._reply is Reply.REFUSE else entries))
        return self.speech.results(others, chosen if self._reply is Reply.REFUSE else [])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let clients go away, which some are told to do; anything else is seen on the other side."""


def _handler(serve: Callable[[bytes, Any], Said | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            said = serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)), self.headers)
            if said is None:
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                self.connection.close()
                return
            content = said.body.encode("utf-8")
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST  # noqa: N815 -- the library looks for this name

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's own name
            """Say nothing."""

    return Handler


class PutEvents:
    """EventBridge: results in the order of the entries. The sink knows its bus by name or by ARN.

    Whatever bus is missing, an account has its default one.
    """

    def __init__(self, *, by_arn: bool = False) -> None:
        self._bus = _bus_arn("orders") if by_arn else "orders"

    def entries(self, body: bytes, headers: Any) -> list[Sent] | None:
        """Read PutEvents."""
        if headers.get("X-Amz-Target") != "AWSEvents.PutEvents":
            return None
        details = [json.loads(entry["Detail"])["id"] for entry in json.loads(body)["Entries"]]
        return [Sent(str(position), each) for position, each in enumerate(details)]

    def results(self, accepted: Sequence[Sent], refused: Sequence[Sent]) -> Said:
        """Say it in order; an entry that is in neither list is left out."""
        refusal = {"ErrorCode": "InternalFailure", "ErrorMessage": "not now"}
        told = {int(entry.number): {"EventId": f"e{entry.number}"} for entry in accepted}
        told |= {int(entry.number): refusal for entry in refused}
        results = [told[position] for position in sorted(told)]
        return Said(200, json.dumps({"FailedEntryCount": len(refused), "Entries": results}))

    def there(self) -> Said:
        """Describe the bus."""
        return Said(200, json.dumps({"Name": "orders", "Arn": _bus_arn("orders")}))

    def failure(self, reply: Reply, body: bytes) -> Said:
        """Refuse in JSON."""
        if reply is Reply.MISSING and json.loads(body).get("Name") == "default":
            return Said(200, json.dumps({"Name": "default", "Arn": _bus_arn("default")}))
        status, code = {
            Reply.DENIED: (400, "AccessDeniedException"),
            Reply.MISSING: (400, "ResourceNotFoundException"),
            Reply.THROTTLED: (400, "ThrottlingException"),
            Reply.TROUBLE: (500, "InternalException"),
        }[reply]
        return Said(status, json.dumps({"__type": code, "message": "said"}))

    def sink(self, url: str) -> EventBridge:
        """Return the sink of a bus."""
        return EventBridge(self._bus, client=local_client("events", url, account=ACCOUNT, config=TIMEOUTS))

    def size(self, entry: Any) -> int:
        """Count as the user guide does: 14 for the time, and text as UTF-8."""
        texts = [entry["Source"], entry["DetailType"], entry["Detail"], *entry.get("Resources", ())]
        return 14 + len("".join(texts).encode())


def _bus_arn(bus: str) -> str:
    return f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/{bus}"


def _message_size(body: str, entry: Any) -> int:
    attributes = entry.get("MessageAttributes", {})
    texts = [part for name, value in attributes.items() for part in (name, *value.values())]
    return len((body + "".join(texts)).encode())


class SendMessageBatch:
    """SQS: results by Id, and never in order."""

    def __init__(self, queue: str = "orders") -> None:
        self._queue = queue

    def entries(self, body: bytes, headers: Any) -> list[Sent] | None:
        """Read SendMessageBatch."""
        if headers.get("X-Amz-Target") != "AmazonSQS.SendMessageBatch":
            return None
        entries = json.loads(body)["Entries"]
        return [Sent(entry["Id"], json.loads(entry["MessageBody"])["id"]) for entry in entries]

    def results(self, accepted: Sequence[Sent], refused: Sequence[Sent]) -> Said:
        """Say it backwards."""
        fault = {"Code": "InternalError", "Message": "not now", "SenderFault": False}
        taken = [{"Id": each.number, "MessageId": f"m{each.number}", "MD5OfMessageBody": ""} for each in accepted]
        failed = [{"Id": each.number, **fault} for each in refused]
        return Said(200, json.dumps({"Successful": taken[::-1], "Failed": failed[::-1]}), "application/x-amz-json-1.0")

    def there(self) -> Said:
        """Describe the queue."""
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{self._queue}"
        return Said(200, json.dumps({"Attributes": {"QueueArn": arn}}), "application/x-amz-json-1.0")

    def failure(self, reply: Reply, body: bytes) -> Said:  # noqa: ARG002 -- all of them
        """Refuse in JSON."""
        status, code = {
            Reply.DENIED: (403, "AccessDeniedException"),
            Reply.MISSING: (400, "com.amazonaws.sqs#QueueDoesNotExist"),
            Reply.THROTTLED: (403, "RequestThrottled"),
            Reply.TROUBLE: (500, "InternalFailure"),
        }[reply]
        return Said(status, json.dumps({"__type": code, "message": "said"}), "application/x-amz-json-1.0")

    def sink(self, url: str) -> Sqs:
        """Return the sink of a queue."""
        client = local_client("sqs", url, account=ACCOUNT, config=TIMEOUTS)
        return Sqs(f"{url}/{ACCOUNT}/{self._queue}", client=client)

    def size(self, entry: Any) -> int:
        """Count body and attributes."""
        return _message_size(entry["MessageBody"], entry)


class PublishBatch:
    """SNS: forms in, XML out, results by Id and never in order."""

    def __init__(self, topic: str = "orders") -> None:
        self._topic = topic

    def entries(self, body: bytes, headers: Any) -> list[Sent] | None:
        """Read PublishBatch."""
        del headers
        form = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        if form["Action"] != "PublishBatch":
            return None
        sent: list[Sent] = []
        start = "PublishBatchRequestEntries.member"
        while (number := form.get(f"{start}.{len(sent) + 1}.Id")) is not None:
            sent.append(Sent(number, json.loads(form[f"{start}.{len(sent) + 1}.Message"])["id"]))
        return sent

    def results(self, accepted: Sequence[Sent], refused: Sequence[Sent]) -> Said:
        """Say it backwards."""
        taken = [f"<member><Id>{each.number}</Id><MessageId>m</MessageId></member>" for each in reversed(accepted)]
        fault = "<Code>InternalError</Code><Message>not now</Message><SenderFault>false</SenderFault>"
        failed = [f"<member><Id>{each.number}</Id>{fault}</member>" for each in reversed(refused)]
        return self._xml("PublishBatch", f"<Successful>{''.join(taken)}</Successful><Failed>{''.join(failed)}</Failed>")

    def there(self) -> Said:
        """Describe the topic."""
        arn = f"arn:aws:sns:us-east-1:{ACCOUNT}:{self._topic}"
        entry = f"<entry><key>TopicArn</key><value>{escape(arn)}</value></entry>"
        return self._xml("GetTopicAttributes", f"<Attributes>{entry}</Attributes>")

    def failure(self, reply: Reply, body: bytes) -> Said:  # noqa: ARG002 -- all of them
        """Refuse in XML."""
        status, code = {
            Reply.DENIED: (403, "AuthorizationError"),
            Reply.MISSING: (404, "NotFound"),
            Reply.THROTTLED: (400, "Throttled"),
            Reply.TROUBLE: (500, "InternalError"),
        }[reply]
        text = f"<ErrorResponse><Error><Code>{code}</Code><Message>said</Message></Error></ErrorResponse>"
        return Said(status, text, "text/xml")

    def sink(self, url: str) -> Sns:
        """Return the sink of a topic."""
        client = local_client("sns", url, account=ACCOUNT, config=TIMEOUTS)
        return Sns(f"arn:aws:sns:us-east-1:{ACCOUNT}:{self._topic}", client=client)

    def size(self, entry: Any) -> int:
        """Count body and attributes."""
        return _message_size(entry["Message"], entry)

    def _xml(self, operation: str, inner: str) -> Said:
        body = f"<{operation}Response><{operation}Result>{inner}</{operation}Result></{operation}Response>"
        return Said(200, body, "text/xml")


class WebhookService:
    """The service of the example."""

    def __init__(self, make: Callable[[str], Webhook] = lambda url: Webhook(url, timeout_s=0.9)) -> None:
        self._make = make

    def entries(self, body: bytes, headers: Any) -> list[Sent] | None:
        """Read an array of CloudEvents."""
        del headers
        return [Sent(each["id"], each["id"]) for each in json.loads(body)] if body else None

    def results(self, accepted: Sequence[Sent], refused: Sequence[Sent]) -> Said:
        """Say it by id."""
        taken = [{"id": each.event_id, "status": "accepted"} for each in accepted]
        failed = [{"id": each.event_id, "status": "refused", "reason": "not now"} for each in refused]
        return Said(200, json.dumps({"results": failed + taken}))

    def there(self) -> Said:
        """Be ready."""
        return Said(200, "ready", "text/plain")

    def failure(self, reply: Reply, body: bytes) -> Said:  # noqa: ARG002 -- all of them
        """Refuse by status alone."""
        return Said({Reply.DENIED: 403, Reply.MISSING: 404, Reply.THROTTLED: 429, Reply.TROUBLE: 500}[reply], "")

    def sink(self, url: str) -> Webhook:
        """Return the example's sink."""
        return self._make(url)

    def size(self, entry: Any) -> int:
        """Count the text."""
        return len(entry.encode())
