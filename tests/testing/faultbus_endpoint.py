"""A tiny AWS-like endpoint for the tests of the fault bus: it accepts every event and records every request."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import boto3
from botocore.config import Config

from dynamodb_outbox.testing.faultbus import FaultBus, FaultPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Seen:
    """A request as the endpoint saw it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def details(self) -> list[str]:
        """The Details of a PutEvents request."""
        return [entry["Detail"] for entry in json.loads(self.body)["Entries"]]


def put_events(seen: Seen) -> Reply:
    """Accept all entries, except those whose Detail says `upstream-says-no`."""
    results = [
        {"ErrorCode": "InternalFailure", "ErrorMessage": "no"} if "upstream-says-no" in detail else {"EventId": f"e{n}"}
        for n, detail in enumerate(seen.details)
    ]
    failed = sum("ErrorCode" in result for result in results)
    body = json.dumps({"FailedEntryCount": failed, "Entries": results}).encode()
    return 200, {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": "r-1"}, body


def send_message_batch(seen: Seen) -> Reply:
    """Accept all messages, except those that say `upstream-says-no`."""
    successful, failed = _results(
        {entry["Id"]: entry["MessageBody"] for entry in json.loads(seen.body)["Entries"]},
    )
    body = json.dumps({"Successful": successful, "Failed": failed}).encode()
    return 200, {"Content-Type": "application/x-amz-json-1.0", "x-amzn-RequestId": "r-1"}, body


def publish_batch(seen: Seen) -> Reply:
    """Accept all messages, except those that say `upstream-says-no`."""
    form = dict(parse_qsl(seen.body.decode()))
    ids = {name[:-2]: value for name, value in form.items() if name.endswith(".Id")}
    lists = zip(
        ("Successful", "Failed"),
        _results({value: form[f"{member}Message"] for member, value in ids.items()}),
        strict=True,
    )
    said = "".join(
        f"<{name}>{''.join(f'<member>{_xml(result)}</member>' for result in results)}</{name}>"
        for name, results in lists
    )
    xmlns = "http://sns.amazonaws.com/doc/2010-03-31/"
    metadata = "<ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata>"
    answer = f"<PublishBatchResult>{said}</PublishBatchResult>{metadata}"
    return (
        200,
        {"Content-Type": "text/xml"},
        f'<PublishBatchResponse xmlns="{xmlns}">{answer}</PublishBatchResponse>'.encode(),
    )


def _results(bodies: dict[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    refused = {name for name, body in bodies.items() if "upstream-says-no" in body}
    successful = [
        {"Id": name, "MessageId": f"m-{name}", "MD5OfMessageBody": "0"} for name in bodies if name not in refused
    ]
    failed = [{"Id": name, "Code": "InternalError", "Message": "no & <no>", "SenderFault": False} for name in refused]
    return successful, failed


def _xml(result: dict[str, Any]) -> str:
    texts = {name: escape(str(value).lower() if value is False else value) for name, value in result.items()}
    return "".join(f"<{name}>{value}</{name}>" for name, value in texts.items())


def anything(seen: Seen) -> Reply:
    """Accept events and messages; answer every other call with an empty JSON object."""
    if seen.headers.get("x-amz-target") == "AWSEvents.PutEvents":
        return put_events(seen)
    if seen.headers.get("x-amz-target") == "AmazonSQS.SendMessageBatch":
        return send_message_batch(seen)
    if b"Action=PublishBatch" in seen.body:
        return publish_batch(seen)
    return 200, {"Content-Type": "application/x-amz-json-1.0", "X-Upstream": "yes"}, b"{}"


@dataclass
class Endpoint:
    """What the endpoint saw, and how it answers: `respond` returns None to drop the connection."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    respond: Callable[[Seen], Reply | None] = anything


@contextlib.contextmanager
def endpoint(respond: Callable[[Seen], Reply | None] = anything) -> Iterator[Endpoint]:
    """Run the endpoint on a free port."""
    state = Endpoint(respond=respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 10

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.requestline.split(" ")[1], headers, body)
            state.seen.append(seen)
            reply = state.respond(seen)
            if reply is None:
                self.close_connection = True
                return
            status, more, content = reply
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in more and "Content-Length" not in more:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815 - the library looks for these

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own name
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def bus_before(plan: FaultPlan | None = None, **options: Any) -> Iterator[tuple[FaultBus, Endpoint]]:
    """Run an endpoint with a fault bus in front of it."""
    with endpoint() as behind, FaultBus(behind.url, plan, **options) as bus:
        yield bus, behind


@contextlib.contextmanager
def client(service: str, url: str, *, attempts: int = 1, timeout_s: float = 10.0) -> Iterator[Any]:
    """Yield a boto3 client that makes `attempts` attempts a call."""
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=timeout_s)
    made = boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="000000000001",
        aws_secret_access_key="none",
        config=config,
    )
    try:
        yield made
    finally:
        made.close()


def until(holds: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
    """Wait until something holds; fail if it does not in time."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def event(event_id: str, **data: Any) -> dict[str, str]:
    """Return a PutEvents entry with a CloudEvent as Detail."""
    detail = json.dumps({"specversion": "1.0", "id": event_id, "data": data})
    return {"Source": "shop", "DetailType": "order.placed", "Detail": detail, "EventBusName": "orders"}
