"""What days on real processes have in common: their processes, the faults of the bus, and the order of acceptances.

A day has writers, `dynamodb_outbox.aws_lambda.relay_handler` under `dynamodb_outbox.local.source`, and the fault bus
between that and the engine. What the bus wrote down is compared with what was committed.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import dynamodb_outbox
from dynamodb_outbox.process.ending import signal_group
from dynamodb_outbox.process.lifeline import Lifeline
from dynamodb_outbox.testing.faultbus import FaultPlan, Rejection, Reset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["Process", "failing", "first_places", "overtaken", "source", "wait_while_it_moves"]

TABLE = "shop"
CHECKPOINT, SOURCE_LOG = "checkpoint", "source.jsonl"

_PATH = os.pathsep.join([str(Path(dynamodb_outbox.__file__).parent.parent), str(Path(__file__).parent)])
_LOOK_EVERY_S = 0.2


class Process:
    """`python -m MODULE ARGUMENTS…`, which is ended by signals and started again, and ends with this process.

    It leads a group of its own, which ends with it. `environment` is the child's in full but for PYTHONPATH; what it
    prints is appended to the file `output`.
    """

    def __init__(self, words: Sequence[str], output: Path, environment: Mapping[str, str] | None = None) -> None:
        self.words = words
        self.output = output
        self._environment = {**(os.environ if environment is None else environment), "PYTHONPATH": _PATH}
        self._leader: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None

    @property
    def leader(self) -> subprocess.Popen[bytes]:
        """The process, whether it runs or has ended."""
        assert self._leader is not None
        return self._leader

    def start(self) -> None:
        """Start it; what it was before has to have ended, or been taken away by `give_up`."""
        self._lifeline = Lifeline()
        wrapped = ["dynamodb_outbox.process.lifeline", "--fd", str(self._lifeline.child_fd), *self.words]
        with self.output.open("ab") as output:
            self._leader = subprocess.Popen(
                [sys.executable, "-m", *wrapped],
                env=self._environment,
                pass_fds=(self._lifeline.child_fd,),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._lifeline.started()

    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._leader is not None and self._leader.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and all that it started."""
        signal_group(self.leader, number)

    def end(self) -> None:
        """End it and all that it started, by SIGKILL. May be repeated."""
        if self._leader is not None:
            self.signal(signal.SIGKILL)
            self._leader.wait()
        if self._lifeline is not None:
            self._lifeline.cut()

    def give_up(self) -> Process:
        """Return what runs now as a process by itself, so that another one can be started in its place."""
        other = Process(self.words, self.output, self._environment)
        other._leader, other._lifeline = self._leader, self._lifeline
        self._leader = self._lifeline = None
        return other


def source(
    engine: str, account: str, directory: Path, *, settings: Mapping[str, str], more: Iterable[str] = ()
) -> Process:
    """Return the local event source with the relay, whose variables are `settings`; it leaves its files in a directory.

    They are `CHECKPOINT`, and its journal, `SOURCE_LOG`.
    """
    words = [
        *("dynamodb_outbox.local.source", "--endpoint", engine, "--account", account, "--table", TABLE),
        *("--handler", "dynamodb_outbox.aws_lambda:relay_handler", "--timeout-ms", "20000"),
        *("--checkpoint", str(directory / CHECKPOINT), "--log", str(directory / SOURCE_LOG)),
        *("--retry-base-ms", "10", "--retry-cap-ms", "200"),
        *(word for name, value in settings.items() for word in ("--env", f"{name}={value}")),
        *more,
    ]
    return Process(words, directory / "source.log")


def failing(seed: int, codes: Sequence[str], *, resets: float) -> FaultPlan:
    """Return the faults of a day: 10 % of the entries refused in a 200, and connections that are reset.

    `resets` is the fraction of requests whose connection is reset: half before anything was accepted, half after.
    """
    return FaultPlan(
        seed=seed,
        rejections=(Rejection(0.1, codes=tuple(codes)),),
        resets=(Reset(resets / 2, "before"), Reset(resets / 2, "after")),
    )


def wait_while_it_moves(count: Callable[[], int], most: int, stalled_s: float) -> None:
    """Wait until a count is `most`, or did not grow for a while."""
    reached, since = count(), time.monotonic()
    while reached < most and time.monotonic() - since < stalled_s:
        time.sleep(_LOOK_EVERY_S)
        if (now := count()) > reached:
            reached, since = now, time.monotonic()


def first_places(accepted: Iterable[str]) -> dict[str, int]:
    """Return where each event was accepted first."""
    places: dict[str, int] = {}
    for place, event in enumerate(accepted):
        places.setdefault(event, place)
    return places


def overtaken(
    events: Sequence[str], first: Mapping[str, int], excused: Callable[[str, str], bool] = lambda _, __: False
) -> list[tuple[str, str]]:
    """Return the pairs of a key's events, in the order of their commits, of which the later was accepted first.

    Pairs of which one was never accepted are none; nor those that are `excused`.
    """
    accepted = [event for event in events if event in first]
    return [
        (earlier, later)
        for earlier, later in itertools.combinations(accepted, 2)
        if first[later] < first[earlier] and not excused(earlier, later)
    ]
