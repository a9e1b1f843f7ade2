"""A function in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.function import FunctionProcess
from processes import gone, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HANDLERS = """
    import json, os, signal, socket, stat, struct, subprocess, sys, time

    calls = 0

    def connection():
        for fd in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    return fd
            except OSError:
                pass
        raise LookupError("no socket")

    def forks(event, context):
        child = os.fork()
        if child == 0:
            return "of the child"
        os.waitpid(child, 0)
        return event

    def forges(event, context):
        if "frame" in event:
            frame = event["frame"].encode()
            os.write(connection(), struct.pack("!I", len(frame)) + frame)
        return event

    def closes_output(event, context):
        sys.stdout.close()
        return event

    def replaces_output(event, context):
        sys.stdout = sys.stderr = None
        return event

    def raises_without_output(event, context):
        sys.stdout.close()
        sys.stderr.close()
        raise LookupError("nothing here")

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class MuteDict(dict):
        def items(self):
            raise Mute

    def raises_mute(event, context):
        raise Mute

    def answers_mute(event, context):
        return MuteDict(a=1)

    def leaves_a_program_and_dies(event, context):
        subprocess.Popen(["sleep", "5"], close_fds=False)
        os.kill(os.getpid(), signal.SIGKILL)

    def echo(event, context):
        return event

    def count(event, context):
        global calls
        calls += 1
        return [calls, os.getpid()]

    def talk(event, context):
        print("to standard output", flush=True)
        os.write(1, b"\\x00\\x00\\x00\\x02{}")
        print("to standard error", file=sys.stderr)
        return "heard"

    def about(event, context):
        before = context.get_remaining_time_in_millis()
        time.sleep(0.05)
        return {
            "remaining": [before, context.get_remaining_time_in_millis()],
            "id": context.aws_request_id,
            "name": context.function_name,
            "arn": context.invoked_function_arn,
            "memory": context.memory_limit_in_mb,
            "logs": [context.log_group_name, context.log_stream_name],
        }

    def raises(event, context):
        raise LookupError("nothing here")

    def leaves(event, context):
        sys.exit(3)

    def dies(event, context):
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs_up(event, context):
        os.close(connection())
        time.sleep(60)

    def sleeps(event, context):
        time.sleep(60)

    def unserialisable(event, context):
        return object()

    def not_a_number(event, context):
        return float("nan")

    def signals(event, context):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        return "still here"

    def ends_a_program(event, context):
        with subprocess.Popen(["sleep", "20"]) as program:
            program.send_signal(getattr(signal, event["signal"]))
            return program.wait()

    def ends_a_fork(event, context):
        child = os.fork()
        if child == 0:
            try:
                signal.pause()
            except BaseException:
                os._exit(7)
        time.sleep(0.1)
        os.kill(child, getattr(signal, event["signal"]))
        return os.waitpid(child, 0)[1]

    def forks_with_a_handler(event, context):
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(8))
        child = os.fork()
        if child == 0:
            signal.pause()
        time.sleep(0.1)
        os.kill(child, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    value = 5
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., FunctionProcess]]:
    """Start functions of the module above; all are ended with the test."""
    (tmp_path / "handlers.py").write_text(textwrap.dedent(HANDLERS))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "over.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "mute.py").write_text("from handlers import Mute\nraise Mute\n")
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    started: list[FunctionProcess] = []

    def start(function_name: str, **options: Any) -> FunctionProcess:
        handler = function_name if ":" in function_name else f"handlers:{function_name}"
        function = FunctionProcess(handler, environment={**os.environ, "PYTHONPATH": str(tmp_path)}, **options)
        started.append(function)
        return function

    yield start
    for function in started:
        function.close()


def test_an_answer_comes_back_as_it_was_returned(start: Callable[..., FunctionProcess]) -> None:
    """Events and answers travel as JSON, of any size."""
    event = {"Records": [{"text": "ä\u2028", "big": "x" * 3_000_000}], "none": None}
    assert start("echo").invoke(event) == Responded(event)


def test_the_process_is_kept_between_invocations(start: Callable[..., FunctionProcess]) -> None:
    """The module is loaded once; its state lives on, as in a warm Lambda."""
    function = start("count")
    first, second = function.invoke({}), function.invoke({})
    assert isinstance(first, Responded)
    assert isinstance(second, Responded)
    assert (first.payload[0], second.payload[0]) == (1, 2)
    assert first.payload[1] == second.payload[1] == function.pid


def test_what_the_function_prints_cannot_touch_the_protocol(
    start: Callable[..., FunctionProcess], capfd: pytest.CaptureFixture[str]
) -> None:
    """Output goes to this process's own, and the answer is the answer."""
    assert start("talk").invoke({}) == Responded("heard")
    output = capfd.readouterr()
    assert "to standard output" in output.out
    assert "to standard error" in output.err


def test_the_context_says_what_lambdas_says(start: Callable[..., FunctionProcess]) -> None:
    """The remaining time falls and starts below the time-out; every invocation has an id of its own."""
    function = start("about", timeout_ms=5_000, name="relay", memory_limit_in_mb=256)
    first, second = function.invoke({}), function.invoke({})
    assert isinstance(first, Responded)
    assert isinstance(second, Responded)
    before, after = first.payload["remaining"]
    assert after + 45 <= before <= 5_000
    assert first.payload["id"] != second.payload["id"]
    assert (first.payload["name"], first.payload["memory"]) == ("relay", "256")
    assert first.payload["arn"].endswith(":function:relay")
    assert first.payload["logs"] == ["/aws/lambda/relay", "local"]


def test_an_exception_fails_the_invocation_and_keeps_the_process(
    start: Callable[..., FunctionProcess], capfd: pytest.CaptureFixture[str]
) -> None:
    """The failure carries the exception's class and text; its traceback is on standard error."""
    function = start("raises")
    assert function.invoke({}) == FunctionFailed("LookupError", "nothing here")
    pid = function.pid
    assert function.invoke({}) == FunctionFailed("LookupError", "nothing here")
    assert function.pid == pid
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["unserialisable", "not_a_number"])
def test_an_answer_that_is_not_json_fails_the_invocation(start: Callable[..., FunctionProcess], name: str) -> None:
    """What cannot be sent as JSON is an error, and not an empty success."""
    failure = start(name).invoke({})
    assert isinstance(failure, FunctionFailed)
    assert failure.kind == "Runtime.MarshalError"


@pytest.mark.parametrize(
    ("name", "how"), [("leaves", "status 3"), ("dies", "signal 9"), ("hangs_up", "closed its connection")]
)
def test_a_death_fails_the_invocation_and_the_next_one_has_a_new_process(
    start: Callable[..., FunctionProcess], name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the process goes, the invocation fails with the reason, and the function can be invoked again."""
    monkeypatch.setattr("dynamodb_outbox.local.function._CLOSE_GRACE_S", 1.0)
    function = start(name)
    failures = [function.invoke({}) for _ in range(2)]
    for failure in failures:
        assert isinstance(failure, FunctionFailed)
        assert failure.kind == "Runtime.ExitError"
        assert how in failure.message


def test_a_time_out_is_kept_by_sigkill(start: Callable[..., FunctionProcess]) -> None:
    """A function that takes too long is gone when the failure is reported."""
    function = start("sleeps", timeout_ms=300)
    started = time.monotonic()
    pids = []

    def watch() -> None:
        time.sleep(0.2)
        pids.append(function.pid)

    watcher = threading.Thread(target=watch)
    watcher.start()
    failure = function.invoke({})
    watcher.join()
    assert isinstance(failure, FunctionFailed)
    assert failure.kind == "Sandbox.Timedout"
    assert "0.3 s" in failure.message
    assert time.monotonic() - started < 10
    assert function.pid is None


def test_a_child_that_died_while_idle_is_replaced_without_a_failure(start: Callable[..., FunctionProcess]) -> None:
    """Nothing was lost with it, so nobody need hear of it."""
    function = start("count")
    function.invoke({})
    assert function.pid is not None
    os.kill(function.pid, signal.SIGKILL)
    os.waitid(os.P_PID, function.pid, os.WEXITED | os.WNOWAIT)  # with all of its threads
    answer = function.invoke({})
    assert isinstance(answer, Responded)
    assert answer.payload[0] == 1


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("no_such_module:handler", "Runtime.ImportModuleError"),
        ("broken:handler", "Runtime.ImportModuleError"),
        ("mute:handler", "Runtime.ImportModuleError"),
        ("over:handler", "Runtime.ExitError"),
        ("handlers:nothing", "Runtime.HandlerNotFound"),
        ("handlers:value", "Runtime.HandlerNotFound"),
        ("slow:handler", "Sandbox.Timedout"),
    ],
)
def test_a_function_that_cannot_be_loaded_fails_every_invocation(
    start: Callable[..., FunctionProcess], handler: str, kind: str
) -> None:
    """Loading is tried again at each invocation, and its failure says what is wrong."""
    function = start(handler, init_timeout_ms=1_000 if handler.startswith("slow") else 20_000)
    failures = [function.invoke({}) for _ in range(2)]
    assert [failure.kind for failure in failures if isinstance(failure, FunctionFailed)] == [kind] * 2
    assert function.load() == failures[0]
    assert function.pid is None


def test_a_function_can_be_loaded_before_it_is_invoked(start: Callable[..., FunctionProcess]) -> None:
    """The process that loaded it is the one that is invoked, and loading again does nothing."""
    function = start("count")
    assert function.load() is None
    loaded = function.pid
    assert function.load() is None
    assert function.invoke({}) == Responded([1, loaded])


def test_what_a_function_prints_goes_where_it_is_told(
    start: Callable[..., FunctionProcess], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Standard output and standard error of the child, the traceback of a failure among them."""
    with (tmp_path / "printed").open("wb") as printed:
        start("broken:handler", output=printed).invoke({})
    assert "ZeroDivisionError" in (tmp_path / "printed").read_text()
    assert capfd.readouterr() == ("", "")


def test_a_fork_of_the_function_gives_no_answers(start: Callable[..., FunctionProcess]) -> None:
    """Its child may return as well: the answers stay those of the function, each to its own call."""
    function = start("forks")
    assert [function.invoke({"n": n}) for n in range(3)] == [Responded({"n": n}) for n in range(3)]


@pytest.mark.parametrize(
    "frame",
    [
        '{"answer": "forged"}',
        '{"request_id": null, "answer": "forged"}',
        '{"request_id": "of another call", "answer": "forged"}',
        '["forged"]',
        "forged",
        "[" * 100_000,
    ],
)
def test_an_answer_to_another_call_is_never_taken_for_this_ones(
    start: Callable[..., FunctionProcess], frame: str
) -> None:
    """Whatever else comes on the connection fails the call and ends the process; the next call has a new one."""
    function = start("forges")
    assert function.invoke({"n": 1}) == Responded({"n": 1})
    failure = function.invoke({"n": 2, "frame": frame})
    assert isinstance(failure, FunctionFailed)
    assert failure.kind == "Local.WrongReply"
    assert function.pid is None
    assert function.invoke({"n": 3}) == Responded({"n": 3})


@pytest.mark.parametrize("name", ["closes_output", "replaces_output"])
def test_a_function_without_standard_output_succeeds(start: Callable[..., FunctionProcess], name: str) -> None:
    """What cannot be flushed changes no answer, and the process stays."""
    function = start(name)
    assert function.invoke({"n": 1}) == Responded({"n": 1})
    pid = function.pid
    assert function.invoke({"n": 2}) == Responded({"n": 2})
    assert function.pid == pid


def test_an_exception_without_any_output_is_still_told(start: Callable[..., FunctionProcess]) -> None:
    """The traceback has nowhere to go; the failure comes back all the same."""
    assert start("raises_without_output").invoke({}) == FunctionFailed("LookupError", "nothing here")


@pytest.mark.parametrize(("name", "kind"), [("raises_mute", "Mute"), ("answers_mute", "Runtime.MarshalError")])
def test_an_exception_that_cannot_say_what_it_is_keeps_the_process(
    start: Callable[..., FunctionProcess], name: str, kind: str
) -> None:
    """Its class is reported, and that its text cannot be had."""
    function = start(name)
    failure = function.invoke({})
    assert isinstance(failure, FunctionFailed)
    assert failure.kind == kind
    assert "its text cannot be had: RuntimeError" in failure.message
    assert function.pid is not None


def test_a_program_that_the_function_left_does_not_hide_its_death(start: Callable[..., FunctionProcess]) -> None:
    """The connection is the function's alone: its end is seen at once, not at the time-out."""
    failure = start("leaves_a_program_and_dies", timeout_ms=4_000).invoke({})
    assert isinstance(failure, FunctionFailed)
    assert failure.kind == "Runtime.ExitError"


def test_the_child_does_not_react_to_interrupts(start: Callable[..., FunctionProcess]) -> None:
    """Ctrl-C at a terminal reaches the whole group; whether to finish is the parent's decision."""
    assert start("signals").invoke({}) == Responded("still here")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_the_function_starts_can_be_ended(start: Callable[..., FunctionProcess], name: str) -> None:
    """A program of the function's, and a fork of it, react to the signals that the function's process leaves alone."""
    assert start("ends_a_program", timeout_ms=5_000).invoke({"signal": name}) == Responded(-getattr(signal, name))
    how = 7 << 8 if name == "SIGINT" else signal.SIGTERM  # Python's own KeyboardInterrupt, or the signal
    assert start("ends_a_fork", timeout_ms=5_000).invoke({"signal": name}) == Responded(how)


def test_a_fork_keeps_the_handler_that_the_function_has_set(start: Callable[..., FunctionProcess]) -> None:
    """What the function wants of a signal is its own business."""
    assert start("forks_with_a_handler", timeout_ms=5_000).invoke({}) == Responded(8)


def test_an_event_that_is_not_json_is_the_callers_mistake(start: Callable[..., FunctionProcess]) -> None:
    """It is raised here, and no process is harmed."""
    with pytest.raises(TypeError):
        start("echo").invoke({"x": object()})


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        *((handler, {}) for handler in ("handlers", ":x", "x:")),
        *(("x:y", {name: value}) for name in ("timeout_ms", "init_timeout_ms") for value in (0, True, 900_001, 10**20)),
    ],
)
def test_a_handler_or_time_out_that_cannot_work_is_refused(handler: str, options: dict[str, Any]) -> None:
    """The error comes from the constructor, before anything is started."""
    with pytest.raises(ConfigurationError):
        FunctionProcess(handler, **options)


def test_close_ends_the_child_and_may_be_repeated(start: Callable[..., FunctionProcess]) -> None:
    """After close there is no process; leaving the context closes, too."""
    function = start("count")
    function.close()
    with function:
        function.invoke({})
        pid = function.pid
    assert pid is not None
    assert state(pid) == ""
    function.close()


def test_close_does_not_wait_for_ever(start: Callable[..., FunctionProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that does not leave by itself is ended by SIGKILL."""
    monkeypatch.setattr("dynamodb_outbox.local.function._CLOSE_GRACE_S", 0.2)
    function = start("count")
    function.invoke({})
    assert function.pid is not None
    os.kill(function.pid, signal.SIGSTOP)
    function.close()
    assert function.pid is None


def test_the_child_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL of the parent, in the middle of an invocation, ends the child, too."""
    program = """
        import os, sys, threading, time
        from dynamodb_outbox.local.function import FunctionProcess
        function = FunctionProcess("child:handler", environment=dict(os.environ), timeout_ms=60_000)
        function.invoke({})
    """
    (tmp_path / "child.py").write_text(
        "import os, time\ndef handler(event, context):\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert state(child) != ""
        parent.kill()
        parent.wait()
        assert gone(child)
