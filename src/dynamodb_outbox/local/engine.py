"""An AWS engine on this machine: ministack, as a child process that is gone when this one is.

The port is bound here, before the child starts, and handed over as a file descriptor: nobody can take it in between,
a port that is taken is known at once, and a client that connects early waits in the queue instead of being refused.
The child gets an environment of its own (no AWS settings, no proxy, no Docker) and a private directory for everything
it writes; the directory is removed at the end. It runs in a session of its own, so that Ctrl-C at a terminal reaches
the program that uses the engine, which then stops it. `dynamodb_outbox.process.lifeline` says how it follows this
process into an unexpected end.

Ready means that a DynamoDB call was answered.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dynamodb_outbox.errors import OutboxError, PortTaken
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.environment import child_environment
from dynamodb_outbox.process.ending import how_it_ended, signal_group
from dynamodb_outbox.process.lifeline import Lifeline
from dynamodb_outbox.words import extra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["Engine", "EngineDied", "EngineError", "EngineMissing", "EngineNotReady", "EngineRunning", "check_installed"]

_HOST = "127.0.0.1"
_APPLICATION = "ministack.app:app"
_TAIL_BYTES = 2_000


class EngineError(OutboxError):
    """The local engine cannot be used; the subclass says why."""


class EngineMissing(EngineError):
    """The packages of the extra `[local]` are not installed."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"the local engine (ministack) cannot run without the package {package}. Install the extra [local]: "
            f"{extra('local')}"
        )


class EngineRunning(EngineError):
    """The engine was started and has not been stopped: it runs as process `pid` and answers at `url`."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self.url = url
        super().__init__(
            f"this engine runs already, as process {pid} at {url}: use it, stop it before it is started again, or make "
            "another Engine"
        )


class EngineDied(EngineError):
    """The engine's process ended by itself: `exit_code` (negative: by that signal) and the `tail` of what it wrote."""

    def __init__(self, exit_code: int, tail: str) -> None:
        self.exit_code = exit_code
        self.tail = tail
        said = f". It wrote: {tail}" if tail else " and wrote nothing"
        super().__init__(f"the local engine {how_it_ended(exit_code)}{said}")


class EngineNotReady(EngineError):
    """The engine runs but answered no call within `seconds`; `tail` is what it wrote."""

    retryable = True

    def __init__(self, seconds: float, tail: str) -> None:
        self.seconds = seconds
        self.tail = tail
        super().__init__(
            f"the local engine answered no call within {seconds:g} s{'. It wrote: ' + tail if tail else ''}"
        )


class Engine:
    """ministack on 127.0.0.1, from entering the `with` block to leaving it.

        with Engine() as engine:
            engine.client("dynamodb").list_tables()

    `port` 0 takes a free one. Entering raises `EngineMissing`, `PortTaken`, `EngineDied` or `EngineNotReady` (after
    `ready_within_s` seconds); no process is left behind then. An engine can be entered again after it was left, or
    after its process died; its data is gone by then. One that runs raises `EngineRunning`, and runs on.

    `orphans` are directories of the caller's, absolute: when this process ends without having stopped the engine, by
    SIGKILL for one, the engine removes them with its own. `stop` leaves them alone.
    """

    def __init__(self, port: int = 0, *, ready_within_s: float = 30.0, orphans: Sequence[Path] = ()) -> None:
        self._wanted_port = port
        self._orphans = tuple(orphans)
        self._ready_within_s = ready_within_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None
        self._directory: Path | None = None
        self.port = port

    @property
    def url(self) -> str:
        """The endpoint URL, for `endpoint_url=` and `AWS_ENDPOINT_URL`."""
        return f"http://{_HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The engine's process id, None when it was not started."""
        return None if self._process is None else self._process.pid

    def client(self, service: str, *, account: str = DEFAULT_ACCOUNT, config: Config | None = None) -> Any:
        """Return a boto3 client of `service` as the account `account` (12 digits); see `local_client`."""
        return local_client(service, self.url, account=account, config=config)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise `EngineDied` when the process has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise EngineDied(code, self._tail())

    def __enter__(self) -> Engine:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process and return when it answers; for use without `with`. The errors are those of entering."""
        if self._process is not None and self._process.poll() is None:
            raise EngineRunning(self._process.pid, self.url)
        self.stop()  # what a process that died by itself has left
        check_installed()
        try:
            with _bound(self._wanted_port) as listener:
                self.port = listener.getsockname()[1]
                self._spawn(listener)
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self, *, grace_s: float = 3.0) -> None:
        """End the process (SIGTERM, then SIGKILL after `grace_s` seconds) and remove its directory. May be repeated."""
        process, self._process = self._process, None
        if process is not None:
            signal_group(process, signal.SIGTERM)
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                signal_group(process, signal.SIGKILL)
                process.wait()
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _spawn(self, listener: socket.socket) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="dynamodb-outbox-engine-"))
        self._lifeline = Lifeline()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter and arguments
                [
                    *(sys.executable, "-m", "dynamodb_outbox.process.lifeline"),
                    *("--fd", str(self._lifeline.child_fd)),
                    *(word for gone in (self._directory, *self._orphans) for word in ("--remove", str(gone))),
                    "hypercorn",
                    # In the wrapper's own process (no worker processes), and with connections that outlive a pause.
                    *(_APPLICATION, "--bind", f"fd://{listener.fileno()}", "--workers", "0"),
                    *("--keep-alive", "600"),
                ],
                cwd=self._directory,
                env=_environment(self.port, self._directory),
                pass_fds=(listener.fileno(), self._lifeline.child_fd),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._lifeline.started()

    def _await_answer(self) -> None:
        probe = self.client("dynamodb", config=Config(read_timeout=1, retries={"total_max_attempts": 1}))
        deadline = time.monotonic() + self._ready_within_s
        with contextlib.closing(probe):
            while not _answers(probe):
                self.check()
                if time.monotonic() > deadline:
                    raise EngineNotReady(self._ready_within_s, self._tail())
                time.sleep(0.02)

    @property
    def _log(self) -> Path:
        return (self._directory or Path()) / "engine.log"

    def _tail(self) -> str:
        try:
            return self._log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""


def check_installed() -> None:
    """Raise `EngineMissing` when the packages of the extra `[local]` are not installed."""
    for package in ("hypercorn", "ministack"):
        if importlib.util.find_spec(package) is None:
            raise EngineMissing(package)


def _answers(probe: Any) -> bool:
    try:
        probe.list_tables(Limit=1)
    except (BotoCoreError, ClientError):
        return False
    return True


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((_HOST, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise PortTaken(port, getattr(error, "strerror", None) or str(error)) from None
    return listener


def _environment(port: int, directory: Path) -> dict[str, str]:
    return child_environment(os.environ) | {
        "BIND_HOST": _HOST,
        # A Docker daemon of this machine is none of the engine's business: it would look for containers to remove.
        "DOCKER_HOST": f"unix://{directory}/no-docker.sock",
        "GATEWAY_PORT": str(port),
        "HOME": str(directory),
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "S3_DATA_DIR": str(directory / "s3"),
        "SFTP_ENABLED": "0",
        "TMPDIR": str(directory),
    }
