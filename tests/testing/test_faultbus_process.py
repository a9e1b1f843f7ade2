"""The fault bus as a process of its own, and its control over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ConnectionClosedError
from faultbus_endpoint import bus_before, client, endpoint, event, until

from dynamodb_outbox.testing.faultbus import FaultBus, FaultBusControl, FaultBusRefused, FaultPlanInvalid, NothingHeld

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMMAND = [sys.executable, "-m", "dynamodb_outbox.testing.faultbus"]


@contextlib.contextmanager
def started(
    *arguments: str, command: Sequence[str] = COMMAND, **options: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the bus as a process and yield it with its URL."""
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def complaint(*arguments: str) -> tuple[int, str]:
    """Run the bus where it cannot start; return its status and what it says."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_process_serves_holds_and_ends_at_once(tmp_path: Path) -> None:
    """A bus process works like one in a thread; SIGTERM ends it with status 0 despite held clients, all is on file."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"holds": [{"nth": 2}], "unacceptable": [{"contains": "poison"}]}))
    with endpoint() as behind:
        arguments = ("--upstream", behind.url, "--plan", str(plan), "--evidence", str(tmp_path / "run"))
        with started(*arguments) as (process, url), client("events", url) as events, ThreadPoolExecutor(1) as pool:
            control = FaultBusControl(url)
            assert events.put_events(Entries=[event("1"), event("2", x="poison")])["FailedEntryCount"] == 1
            call = pool.submit(events.put_events, Entries=[event("3")])
            assert control.wait_held().ids == ("3",)
            began = time.monotonic()
            process.terminate()
            assert process.wait(5) == 0
            assert time.monotonic() - began < 1
            assert call.exception(timeout=5) is not None
            assert process.stderr is not None
            assert process.stderr.read() == ""
    rows = [json.loads(line) for line in (tmp_path / "run" / "accepted.jsonl").read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["1", "3"]


def test_interrupt_ends_the_process_cleanly() -> None:
    """Ctrl-C is an ordinary end."""
    with started("--upstream", "http://127.0.0.1:9") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_process_ends_with_its_parent() -> None:
    """With `--exit-with-parent` the end of standard input cuts it off; something to read there does not."""
    with started("--upstream", "http://127.0.0.1:9", "--exit-with-parent", stdin=subprocess.PIPE) as (process, url):
        assert process.stdin is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert FaultBusControl(url).state().requests == 0
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(5) == 113


def test_process_ends_with_a_parent_that_was_killed() -> None:
    """A parent that is killed takes the bus along."""
    parent = (
        "import subprocess, sys, time\n"
        f"bus = subprocess.Popen({COMMAND!r} + ['--upstream', 'http://127.0.0.1:9', '--exit-with-parent'], stdin=-1)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
        finally:
            process.kill()
        process.stdout.read()  # until the bus, too, has let go of it
    with pytest.raises(FaultBusRefused, match="no answer"):
        FaultBusControl(ready["url"]).state()


def test_reader_that_is_gone_does_not_stop_the_process() -> None:
    """A starter that does not read the ready line still gets a working bus."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    arguments = ["--upstream", "http://127.0.0.1:9", "--port", str(port)]
    with subprocess.Popen([*COMMAND, *arguments], stdout=write_fd, stderr=subprocess.PIPE, text=True) as process:
        os.close(write_fd)
        try:
            for _ in range(500):
                with contextlib.suppress(FaultBusRefused):
                    FaultBusControl(f"http://127.0.0.1:{port}").state()
                    break
                time.sleep(0.01)
        finally:
            process.terminate()
        assert process.wait(5) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_process_says_why_it_cannot_start(tmp_path: Path) -> None:
    """A bad plan, an unknown fault, a taken port, a used directory: one clear line, status 2, no traceback."""
    good = ("--upstream", "http://127.0.0.1:9")
    (tmp_path / "unknown.json").write_text('{"earthquakes": []}')
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "faults.jsonl").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = {
            "earthquakes: not known here": (*good, "--plan", str(tmp_path / "unknown.json")),
            "missing.json: cannot be read": (*good, "--plan", str(tmp_path / "missing.json")),
            "binary.json: cannot be read": (*good, "--plan", str(tmp_path / "binary.json")),
            f"port {port} cannot be used": (*good, "--port", port),
            "evidence of another run": (*good, "--evidence", str(tmp_path)),
            "give http://HOST:PORT": ("--upstream", "nowhere"),
        }
        for text, arguments in cases.items():
            status, said = complaint(*arguments)
            assert (status, said.count("\n")) == (2, 1), said
            assert text in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_process_ends_when_evidence_cannot_be_written(tmp_path: Path) -> None:
    """A bus that cannot prove what it accepts gives no answer, says so, and ends with status 1."""
    code = (
        "import os, sys\n"
        "from dynamodb_outbox.testing.faultbus.__main__ import main\n"
        "real = os.open\n"
        "def full(path, flags, *rest, **options):\n"
        "    return real('/dev/full', os.O_WRONLY) if flags & os.O_EXCL else real(path, flags, *rest, **options)\n"
        "os.open = full\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    with endpoint() as behind:
        arguments = ("--upstream", behind.url, "--evidence", str(tmp_path))
        with started(*arguments, command=[sys.executable, "-c", code]) as (process, url):
            with client("events", url) as events, pytest.raises(ConnectionClosedError):
                events.put_events(Entries=[event("1")])
            assert process.wait(5) == 1
            assert process.stderr is not None
            said = process.stderr.read()
    assert "No space left" in said
    assert "Traceback" not in said


def test_control_switches_outages_holds_and_releases() -> None:
    """Everything that the bus object can be told can be told over HTTP, and each call answers with the state."""
    with bus_before() as (bus, _), client("events", bus.url) as events, ThreadPoolExecutor(2) as pool:
        control = FaultBusControl(bus.url)
        assert control.begin_outage("reset").outage == "reset"
        assert control.begin_outage(destination="stock").outage == "reset"
        with pytest.raises(ConnectionClosedError):
            events.put_events(Entries=[event("c")])
        assert control.end_outage().outage is None
        assert control.begin_outage("hang", destination="stock").outage == "hang"
        events.put_events(Entries=[event("d")])
        assert control.end_outage().outage is None
        assert control.hold_next(2).armed == 2
        calls = [pool.submit(events.put_events, Entries=[event(name)]) for name in "ab"]
        until(lambda: len(control.state().held) == 2)
        first, second = control.state().held
        assert control.wait_held() == first
        assert control.release(first.request).held == (second,)
        assert control.release().held == ()
        assert all(call.result(timeout=5)["FailedEntryCount"] == 0 for call in calls)
        assert control.state() == bus.state()
        assert bus.state().faults == {"outage": 1, "held": 2, "released": 2}
        with pytest.raises(NothingHeld):
            control.wait_held(0.02)


@pytest.mark.parametrize(
    ("method", "name", "body", "status", "text"),
    [
        ("GET", "nonsense", None, 404, "no such control call"),
        ("GET", "release", None, 405, "takes POST"),
        ("POST", "release", b"{", 400, "not JSON"),
        ("POST", "release", b"[]", 400, "JSON object"),
        ("POST", "release", b'{"request": "1"}', 400, "request"),
        ("POST", "release", b'{"requests": 1}', 400, "requests: not known"),
        ("POST", "outage", b"{}", 400, "on: must be true or false"),
        ("POST", "outage", b'{"on": true, "mode": "slow"}', 400, "mode"),
        ("POST", "outage", b'{"on": true, "since": 1}', 400, "since"),
        ("POST", "outage", b'{"on": true, "destination": 1}', 400, "destination"),
        ("POST", "hold", b'{"count": 0}', 400, "count"),
    ],
)
def test_control_refuses_what_it_does_not_know(
    method: str, name: str, body: bytes | None, status: int, text: str
) -> None:
    """A wrong control call is answered with a 4xx and a reason, and changes nothing."""
    with FaultBus("http://127.0.0.1:9") as bus:
        request = urllib.request.Request(f"{bus.url}/_faults/{name}", data=body, method=method)  # noqa: S310 - our own
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=5)  # noqa: S310 - our own
        with caught.value as error:
            assert error.code == status
            assert text in json.loads(error.read())["error"]
        state = bus.state()
        assert (state.outage, state.armed, state.faults) == (None, 0, {})


def test_control_client_passes_on_the_refusal() -> None:
    """A control call that is refused raises, with the status and the bus's own words."""
    with FaultBus("http://127.0.0.1:9") as bus:
        mode: Any = "slow"
        with pytest.raises(FaultBusRefused, match="mode: must be one of") as caught:
            FaultBusControl(bus.url).begin_outage(mode)
        assert caught.value.status == 400
        with pytest.raises(FaultPlanInvalid):
            bus.begin_outage(mode)
        with pytest.raises(FaultPlanInvalid):
            bus.hold_next(0)


@pytest.mark.parametrize("reply", [(200, {}, b"{}"), (200, {}, b"[]"), (404, {}, b"<html>")])
def test_control_of_something_else(reply: Any) -> None:
    """A control client that meets another server says so."""
    with endpoint(lambda _: reply) as other, pytest.raises(FaultBusRefused, match="not a fault bus"):
        FaultBusControl(other.url).state()
