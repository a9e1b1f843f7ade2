"""moto's server as a second engine: a process on 127.0.0.1 that is gone when this one is.

It judges expressions, conditions, reasons and stored items by code of its own, so that what both engines accept is not
one engine's habit. It knows one caller at a time, and no tokens.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.environment import child_environment
from dynamodb_outbox.process.lifeline import Lifeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.config import Config

HOST = "127.0.0.1"
READY_WITHIN_S = 60.0
_TOKENS = "it ignores tokens, so that a repeated request is another one"
_TOGETHER = "it loses commits of several threads at once"
_ITEM_BYTES = "its limit of an item is 405,000 bytes, less than DynamoDB's"
_MAPS = "it cannot give back a map with an empty name in it"
NOT_ON_MOTO = {
    "test_a_part_of_the_matrix": _TOKENS,
    "test_a_record_at_the_limit_can_be_settled": _ITEM_BYTES,
    "test_an_items_size_is_the_engines_to_the_byte": _ITEM_BYTES,
    "test_every_limit_to_the_byte": "it takes more than 4 MB in a transaction",
    "test_every_value_of_an_item_comes_back_equal": _MAPS,
    "test_every_value_of_an_update_and_of_a_condition_comes_back_equal": _MAPS,
    "test_many_writers_under_faults_lose_and_invent_nothing": _TOGETHER,
    "test_no_fault_commits_twice_or_lies": _TOKENS,
    "test_one_command_in_many_threads": _TOGETHER,
    "test_the_largest_item_is_measured_as_dynamodb_measures": _ITEM_BYTES,
    "test_values_at_the_edges[moto-{'': ''}]": _MAPS,
    "test_what_is_lost_to_the_end_is_told_apart_by_the_table": _TOKENS,
}
"""Tests of the writing side that moto cannot judge, and why; all their parameters, or one."""


class MotoEngine:
    """A running server."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self._process = process

    def client(self, service: str, *, account: str = DEFAULT_ACCOUNT, config: Config | None = None) -> Any:
        """Return a boto3 client of `service`; all accounts are one here, see `reset`."""
        return local_client(service, self.url, account=account, config=config)

    def check(self) -> None:
        """Fail when the process has ended by itself."""
        assert self._process.poll() is None, f"moto's server ended by itself: {self._process.returncode}"

    def reset(self) -> None:
        """Forget everything."""
        self._call("/moto-api/reset", "POST")

    def await_answer(self) -> None:
        """Return when the server answers."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError):
                return self._call("/moto-api/data.json", "GET")
            time.sleep(0.05)
        raise AssertionError(f"moto's server did not answer within {READY_WITHIN_S:g} s")

    def _call(self, path: str, method: str) -> None:
        request = urllib.request.Request(self.url + path, method=method)  # noqa: S310 -- our own process, by http
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            answer.read()


def moto_installed() -> bool:
    """Whether the server's packages are there."""
    return all(importlib.util.find_spec(package) for package in ("moto", "flask", "flask_cors"))


@contextlib.contextmanager
def moto_engine() -> Iterator[MotoEngine]:
    """Start the server on a port that is bound here, and stop it at the end."""
    lifeline = Lifeline()
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(128)
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dynamodb_outbox.process.lifeline", "--fd", str(lifeline.child_fd)),
                *("moto.server", "-H", HOST, "-p", str(port)),
            ],
            # Werkzeug takes a socket that is bound already in the way in which its own reloader hands one over.
            env=child_environment(os.environ)
            | {"WERKZEUG_RUN_MAIN": "true", "WERKZEUG_SERVER_FD": str(listener.fileno())},
            pass_fds=(listener.fileno(), lifeline.child_fd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    lifeline.started()
    engine = MotoEngine(f"http://{HOST}:{port}", process)
    try:
        engine.await_answer()
        yield engine
    finally:
        process.terminate()
        process.wait()
        lifeline.cut()
