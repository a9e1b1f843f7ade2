"""What the fault bus passes through, and how it bears clients and upstreams that go away."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from faultbus_endpoint import Reply, Seen, anything, bus_before, client, endpoint, event

from dynamodb_outbox.errors import PortTaken
from dynamodb_outbox.testing import FaultBus, FaultPlan
from dynamodb_outbox.testing.faultbus import FaultBusError, FaultPlanInvalid, Lost, UpstreamAddressInvalid
from dynamodb_outbox.testing.faultbus.exchange import Request


def send(bus: FaultBus, request: bytes) -> bytes:
    """Send raw bytes to the bus, end the sending side, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", bus.port), timeout=5) as raw:
        raw.sendall(request)
        raw.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: raw.recv(65536), b""))


def test_other_calls_pass_unchanged() -> None:
    """Method, target, headers and body of a call reach the upstream as they are, and its answer comes back."""
    head = b"PUT //a/b%20c?x=%2F HTTP/1.1\r\nHost: s3.local\r\nX-Amz-Date: now\r\nContent-Length: 4\r\n\r\n"
    with bus_before() as (bus, behind):
        answer = send(bus, head + b"\x00\xffab")
    (seen,) = behind.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", "//a/b%20c?x=%2F", b"\x00\xffab")
    assert (seen.headers["host"], seen.headers["x-amz-date"]) == ("s3.local", "now")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"X-Upstream: yes\r\n" in answer
    assert answer.endswith(b"Content-Length: 2\r\n\r\n{}")


def test_chunked_bodies_are_taken_and_given() -> None:
    """A chunked request is read to its end, a chunked answer is passed on; both are restated with a length."""
    reply = (200, {"Transfer-Encoding": "chunked"}, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    head = b"PUT /k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = head + b"5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n"
    with endpoint(lambda _: reply) as behind, FaultBus(behind.url) as bus:
        answer = send(bus, request)
    assert behind.seen[0].body == b"hello world"
    assert answer.endswith(b"Content-Length: 5\r\n\r\nabcde")


@pytest.mark.parametrize(
    ("method", "reply", "expected"),
    [
        ("HEAD", (200, {"Content-Length": "77"}, b""), b"Content-Length: 77\r\n\r\n"),
        ("HEAD", (304, {"Transfer-Encoding": "chunked"}, b""), b"\r\n\r\n"),
        ("GET", (204, {"Content-Length": "0"}, b""), b"\r\n\r\n"),
        ("DELETE", (200, {}, b"gone"), b"Content-Length: 4\r\n\r\ngone"),
    ],
)
def test_answers_without_a_body_keep_their_form(method: str, reply: Any, expected: bytes) -> None:
    """HEAD states the upstream's length, 204 and 304 state none, and none of them has a body."""
    with endpoint(lambda _: reply) as behind, FaultBus(behind.url) as bus:
        answer = send(bus, f"{method} /k HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.endswith(expected)
    assert answer.count(b"Content-Length") == expected.count(b"Content-Length")


def test_connection_is_kept_or_closed_as_the_client_wants() -> None:
    """Two requests may use one connection; one that says "close" is the last."""
    two = b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nConnection: close\r\n\r\nGET /3 HTTP/1.1\r\n\r\n"
    with bus_before() as (bus, behind):
        answer = send(bus, two)
    assert [seen.target for seen in behind.seen] == ["/1", "/2"]
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.count(b"Connection: close") == 1


def test_publish_request_that_is_no_batch_is_left_to_the_upstream() -> None:
    """A PutEvents request without readable entries is passed through: the upstream knows what to say."""
    bodies = [b"", b"nonsense", b"[]", b"{}", b'{"Entries": []}', b'{"Entries": {}}', b'{"Entries": [1]}']
    with endpoint(lambda _: (400, {}, b"bad")) as behind, FaultBus(behind.url) as bus:
        for body in bodies:
            head = f"POST / HTTP/1.1\r\nX-Amz-Target: AWSEvents.PutEvents\r\nContent-Length: {len(body)}\r\n\r\n"
            assert send(bus, head.encode() + body).startswith(b"HTTP/1.1 400 ")
        assert bus.state().requests == 0
    assert [seen.body for seen in behind.seen] == bodies


def test_answer_is_lost_after_the_upstream_acted() -> None:
    """The first answers of each transaction are lost, the SDK's retries included; the calls themselves are made."""
    rule = Lost("PutItem", contains="ORDER#", key="ORDER#[0-9]+", first=2)
    with bus_before(FaultPlan(lost=(rule,))) as (bus, behind), client("dynamodb", bus.url) as dynamodb:

        def put(key: str) -> None:
            dynamodb.put_item(TableName="table", Item={"pk": {"S": key}})

        put("CUSTOMER#1")
        for key in ("ORDER#1", "ORDER#2", "ORDER#1", "ORDER#2"):
            with pytest.raises(ConnectionClosedError):
                put(key)
        put("ORDER#1")
        put("ORDER#2")
        dynamodb.list_tables()
    assert len(behind.seen) == 8
    assert [(fault.kind, fault.operation, fault.what["status"]) for fault in bus.faults] == [
        ("answer_lost", "PutItem", 200)
    ] * 4


def test_request_is_lost_before_the_upstream_sees_it() -> None:
    """With `when="before"` the call is never made."""
    plan = FaultPlan(lost=(Lost("ListTables", when="before"),))
    with bus_before(plan) as (bus, behind), client("dynamodb", bus.url) as dynamodb:
        with pytest.raises(ConnectionClosedError):
            dynamodb.list_tables()
        assert behind.seen == []
        dynamodb.list_tables()
    assert [fault.kind for fault in bus.faults] == ["request_lost"]


@pytest.mark.parametrize("operation", ["PutEvents", "PublishBatch", "SendMessageBatch"])
def test_losing_answers_of_a_publish_operation_is_refused(operation: str) -> None:
    """A rule that could never act is an error: lost answers of a publish operation are resets."""
    with pytest.raises(FaultPlanInvalid, match="use resets"):
        FaultBus("http://127.0.0.1:9", FaultPlan(lost=(Lost("ListTables"), Lost(operation))))


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (Request("POST", "/", (("x-AMZ-target", "DynamoDB_20120810.GetItem"),), b"{}"), "GetItem"),
        (
            Request(
                "POST",
                "/",
                (("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),),
                b"A=1&Action=Publish",
            ),
            "Publish",
        ),
        (Request("POST", "/x", (("Content-Type", "application/x-www-form-urlencoded"),), b"A=1"), "POST /x"),
        (Request("POST", "/service/EventBridge/operation/PutEvents", (), b""), "PutEvents"),
        (Request("GET", "/bucket/key?x=1", (), b""), "GET /bucket/key"),
    ],
)
def test_operation_is_found_in_every_protocol(request_: Request, operation: str) -> None:
    """The operation's name is known for the JSON, query and RPC v2 protocols; others have a method and a path."""
    assert request_.operation == operation


def test_unreachable_upstream_is_said_clearly() -> None:
    """When nobody listens behind the bus the client gets a 502 that says where nobody was."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with FaultBus(f"http://127.0.0.1:{port}") as bus, client("dynamodb", bus.url) as dynamodb:
            with pytest.raises(ClientError, match=f"cannot connect to 127.0.0.1:{port}") as caught:
                dynamodb.list_tables()
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 502
            assert [(fault.kind, fault.what["sent"]) for fault in bus.faults] == [("upstream_failed", False)]


def test_silent_upstream_is_given_up() -> None:
    """An upstream that does not answer within the time-out is a failed one."""
    release = threading.Event()

    def respond(seen: Seen) -> Any:
        release.wait(5)
        return anything(seen)

    with endpoint(respond) as behind, FaultBus(behind.url, upstream_timeout_s=0.1) as bus:
        assert send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 502 ")
        release.set()


def test_closing_the_bus_ends_a_wait_for_the_upstream() -> None:
    """A bus can be closed while an upstream is silent, and at once."""
    waiting, release = threading.Event(), threading.Event()

    def respond(seen: Seen) -> Any:
        waiting.set()
        release.wait(5)
        return anything(seen)

    with endpoint(respond) as behind, FaultBus(behind.url) as bus, ThreadPoolExecutor(1) as pool:
        call = pool.submit(send, bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert waiting.wait(5)
        began = time.monotonic()
        bus.close()
        assert time.monotonic() - began < 1
        release.set()
        assert call.exception(timeout=5) is not None or call.result() == b"" or b" 502 " in call.result()


def test_connection_that_the_upstream_closed_is_not_used_again() -> None:
    """An upstream that ends idle connections is met with a new one, and no request is sent twice."""
    reply: Reply = (200, {}, b"{}")

    def respond(_: Seen) -> Any:
        return reply

    with endpoint(respond) as behind, FaultBus(behind.url) as bus:
        upstream = bus._parts.upstream
        for _ in range(3):
            assert b" 200 OK" in send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            (idle,) = upstream._idle
            assert idle[1].sock is not None
            idle[1].sock.shutdown(socket.SHUT_RDWR)
        assert len(behind.seen) == 3
        assert bus.faults == ()


def test_connection_that_idled_too_long_is_not_used_again() -> None:
    """A connection that may be about to be closed by the upstream is not trusted."""
    with bus_before() as (bus, behind):
        send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        upstream = bus._parts.upstream
        ((since_ms, old),) = upstream._idle
        upstream._idle[:] = [(since_ms - 1_001, old)]
        send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert old.sock is None
        assert len(behind.seen) == 2


def test_connections_to_the_upstream_are_reused() -> None:
    """Clients that come one after the other share one connection to the upstream."""
    with bus_before() as (bus, _):
        send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ((_, first),) = bus._parts.upstream._idle
        send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ((_, second),) = bus._parts.upstream._idle
        assert first is second


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"POST / HTT",
        b"POST / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nX-Amz-Target: AWSEvents.PutEvents\r\nContent-Length: 400\r\n\r\n{",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"GET /old\r\n",
    ],
)
def test_half_a_request_asks_for_nothing(half: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """A client that dies half-way reaches no upstream, leaves no noise, and the bus serves the next one."""
    with bus_before() as (bus, behind):
        for abruptly in (False, True):
            with socket.create_connection(("127.0.0.1", bus.port)) as raw:
                raw.sendall(half)
                if abruptly:
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        assert b" 200 OK" in send(bus, b"GET /after HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [seen.target for seen in behind.seen] == ["/after"]
        assert bus.faults == ()
    assert capfd.readouterr() == ("", "")


def test_client_that_dies_before_its_answer_makes_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    """The call of a client that is gone is finished, and the bus goes on."""
    waiting, release = threading.Event(), threading.Event()

    def respond(seen: Seen) -> Any:
        if seen.target == "/slow":
            waiting.set()
            release.wait(5)
            return 200, {}, b"x" * 1_000_000
        return anything(seen)

    with endpoint(respond) as behind, FaultBus(behind.url) as bus:
        with socket.create_connection(("127.0.0.1", bus.port)) as raw:
            raw.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert waiting.wait(5)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        release.set()
        assert b" 200 OK" in send(bus, b"GET /after HTTP/1.1\r\nHost: x\r\n\r\n")
    assert capfd.readouterr() == ("", "")


def test_defect_of_the_bus_is_on_record(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """An error inside the bus itself drops that one request and is written down instead of being swallowed."""
    with bus_before() as (bus, _):

        def broken(_: Any) -> Any:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patch:
            patch.setattr(bus._parts.upstream, "send", broken)
            with pytest.raises(OSError, match=r"reset|not connected"):  # the reset may overtake the end of the sending
                send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 OK" in send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [(fault.kind, fault.what["error"]) for fault in bus.faults] == [("bus_error", "RuntimeError: a defect")]
    assert capfd.readouterr() == ("", "")


def test_defect_outside_a_request_is_on_record(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error of a connection that is not the client's doing is written down too."""
    with bus_before() as (bus, _):
        server: Any = bus._server

        def broken(*_: Any) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(server, "finish_request", broken)
        # Nothing is sent, so that the end of the connection is not a reset over bytes that nobody read.
        with socket.create_connection(("127.0.0.1", bus.port), timeout=5) as raw:
            assert raw.recv(1) == b""
        assert [fault.kind for fault in bus.faults] == ["bus_error"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://x", "http://", "http://x:port", "http://x/path", "http://x?y=1"]
)
def test_upstream_must_be_an_address(url: str) -> None:
    """Anything but scheme, host and port is refused with the form that is wanted."""
    with pytest.raises(UpstreamAddressInvalid, match="http://HOST:PORT"):
        FaultBus(url)


def test_upstream_ports_have_defaults() -> None:
    """Without a port the scheme's own is meant."""
    assert (FaultBus("http://x")._parts.upstream._port, FaultBus("https://x/")._parts.upstream._port) == (80, 443)


def test_https_upstream_is_spoken_to_in_tls() -> None:
    """An upstream with https is not spoken to in clear: a plain one fails."""
    with endpoint() as behind, FaultBus(behind.url.replace("http:", "https:")) as bus:
        assert b" 502 " in send(bus, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert behind.seen == []


def test_port_that_is_taken_is_named() -> None:
    """Two buses cannot have one port, and a port that does not exist is no accident either."""
    with bus_before() as (bus, behind):
        with pytest.raises(PortTaken) as caught:
            FaultBus(behind.url, port=bus.port).start()
        assert caught.value.port == bus.port
        with pytest.raises(PortTaken):
            FaultBus(behind.url, port=70_000).start()


def test_bus_has_one_life() -> None:
    """A bus has no address before it is started, is started once, and may be closed again and again."""
    bus = FaultBus("http://127.0.0.1:9")
    with pytest.raises(FaultBusError, match="not been started"):
        _ = bus.url
    bus.close()
    with bus:
        with pytest.raises(FaultBusError, match="once"):
            bus.start()
        assert bus.url == f"http://127.0.0.1:{bus.port}"
    bus.close()


def test_closed_bus_leaves_no_thread() -> None:
    """After `close` no thread of the bus is left, whatever its clients did."""
    before = set(threading.enumerate())
    with bus_before() as (bus, _), client("events", bus.url) as events:
        events.put_events(Entries=[event("1")])
        bus.close()
        left = [thread for thread in set(threading.enumerate()) - before if "faultbus" in thread.name]
        assert left == []
