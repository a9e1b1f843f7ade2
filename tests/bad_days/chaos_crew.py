"""The processes of chaos, each behind a gate of its own, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from chaos_account import Gap
from chaos_acts import CHECKPOINT_POINT, Act
from chaos_gate import Gate, Retention, Trap
from chaos_source import ANSWERED, DONE, SourceFiles
from days import TABLE, Process, source

from dynamodb_outbox.core.record import leases
from dynamodb_outbox.core.record.pending import shards_of
from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.local.environment import function_environment
from dynamodb_outbox.process.ending import signal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from dynamodb_outbox import Layout
    from dynamodb_outbox.testing.faultbus import FaultBus

__all__ = ["Crew"]

_WORK = {"TransactWriteItems", "PutEvents", "Query"}
"""Requests that tell that a process is at work."""
_UP_WITHIN_S = 8.0
_CAUGHT_WITHIN_S = 3.0
_LOOK_S = 0.01
_MOMENT = 0.1
"""How much of an act's rest passes before it strikes at some moment."""
_REPLACED_FOR_S = 1.0
"""How long a writer that was replaced works beside the new one."""


class Crew:
    """Writers, a relay and sweepers, over one table: starts them, and does to them what acts say.

    `writers` and `sweepers` are their command lines less the endpoint, by name; `settings` are the variables of the
    relay and the sweepers. With `without_leases` the leases of all partitions are removed after each kill of a sweeper:
    they last for a minute after it, which a short day does not have.

    `done` counts what was done, by kind, by whom and where; `gaps` are the parts of the stream that the relay missed;
    `died` are the processes that ended though nobody had ended them, with their exit codes.
    """

    def __init__(
        self,
        bus: FaultBus,
        retention: Retention,
        tables: Any,
        directory: Path,
        *,
        account: str,
        layout: Layout,
        writers: Mapping[str, Sequence[str]],
        sweepers: Mapping[str, Sequence[str]],
        settings: Mapping[str, str],
        without_leases: bool,
    ) -> None:
        self._bus = bus
        self._retention = retention
        self._tables = tables
        self._layout = layout
        self._without_leases = without_leases
        self.gates = {name: Gate(bus) for name in (*writers, *sweepers)}
        self.gates["relay"] = Gate(bus, retention)
        self.writers = tuple(writers)
        self.processes = {
            name: Process([*words, "--endpoint", self.gates[name].url], directory / f"{name}.log")
            for name, words in writers.items()
        }
        for name, words in sweepers.items():
            environment = function_environment(self.gates[name].url, account, extra=settings)
            self.processes[name] = Process(words, directory / f"{name}.log", environment)
        self.processes["relay"] = source(
            *(self.gates["relay"].url, account, directory),
            settings=settings,
            more=("--filter", json.dumps(stream_filter(layout)), "--poll-interval-ms", "50", "--batch-size", "25"),
        )
        self._source = SourceFiles(directory)
        self._began = 0
        self._frozen_until: dict[str, float] = {}
        self._later: list[threading.Timer] = []
        self._aside: list[Process] = []
        self.done: Counter[str] = Counter()
        self.kills = 0
        self.gaps: list[Gap] = []
        self.died: list[str] = []

    def __enter__(self) -> Crew:
        """Start all of them."""
        for name in self.processes:
            self._start(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of them, and their gates."""
        for timer in self._later:
            timer.join()
        for process in (*self.processes.values(), *self._aside):
            process.end()
        for gate in self.gates.values():
            gate.close()

    def writing(self) -> bool:
        """Whether a writer is at work."""
        return any(self.processes[name].runs() for name in self.writers)

    def look(self) -> None:
        """Note who has died though nobody killed it, and start it again."""
        for name, process in self.processes.items():
            code = process.leader.poll()
            if code is not None and (code, name in self.writers) != (0, True):
                self.died.append(f"{name}: {code}, see {process.output}")
                process.end()
                self._start(name)

    def do(self, act: Act) -> None:
        """Do to them what an act says; what is frozen, or caught, goes on some time after this returns.

        Nothing is done to a writer that has done its work, and to what is frozen.
        """
        doing: dict[str, Callable[[Act], None]] = {
            "kill": self._kill,
            "kill alone": self._kill_alone,
            "kill the function": self._kill_the_function,
            "kill all": self._kill_all,
            "freeze": self._freeze,
            "replace": self._replace,
            "forget": self._forget,
            "latest": self._latest,
            "outage": self._outage,
        }
        done = act.whom in self.writers and not self.processes[act.whom].runs()
        if done or time.monotonic() < self._frozen_until.get(act.whom, 0.0):
            return
        doing[act.kind](act)
        self.done[f"{act.kind}, {act.whom.split()[0]}"] += 1

    # --- what is done ---

    def _kill(self, act: Act) -> None:
        with self._caught(act):
            self._end(self.processes[act.whom])
        if self._without_leases and act.whom.startswith("sweeper"):
            self._remove_leases()
        self._start(act.whom)

    def _kill_alone(self, act: Act) -> None:
        """End the event source and not its function, which ends by itself when it notices."""
        process = self.processes[act.whom]
        with self._caught(act):
            os.kill(process.leader.pid, signal.SIGKILL)
            process.leader.wait()
            self.kills += 1
        self._start(act.whom)

    def _kill_the_function(self, act: Act) -> None:
        with self._caught(act):
            for child in _children(self.processes[act.whom].leader.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                    self.kills += 1

    def _kill_all(self, act: Act) -> None:
        for process in self.processes.values():
            self.kills += process.runs()
            process.signal(signal.SIGKILL)
        time.sleep(act.rest_s)
        for process in self.processes.values():
            process.end()
        for name in self.processes:
            self._start(name)
        if self._without_leases:
            self._remove_leases()

    def _freeze(self, act: Act) -> None:
        leader = self.processes[act.whom].leader
        with self._caught(act, on=True):
            signal_group(leader, signal.SIGSTOP)
        self._frozen_until[act.whom] = time.monotonic() + act.rest_s
        self._after(act.rest_s, lambda: signal_group(leader, signal.SIGCONT))

    def _replace(self, act: Act) -> None:
        """Freeze a writer for so long that another one is started in its place; then both are there for a while."""
        process = self.processes[act.whom]
        with self._caught(act, on=True):
            process.signal(signal.SIGSTOP)
        old = process.give_up()
        self._aside.append(old)
        self._start(act.whom)
        self._after(act.rest_s, lambda: old.signal(signal.SIGCONT))
        self._after(act.rest_s + _REPLACED_FOR_S, lambda: self._end(old))

    def _forget(self, act: Act) -> None:
        """Let the relay be down for so long that the stream has forgotten what was written meanwhile."""
        process = self.processes[act.whom]
        with self._caught(act):
            self._end(process)
        time.sleep(act.rest_s)
        reached = self._source.reached()
        self.gaps += [
            Gap(shard, reached.get(shard, 0), int(last), None) for shard, last in self._retention.forget().items()
        ]
        self._start(act.whom)

    def _latest(self, act: Act) -> None:
        """Let the relay begin anew at the end of the stream, as a mapping does that was removed and made again."""
        process = self.processes[act.whom]
        with self._caught(act):
            self._end(process)
        reached, now_ms = self._source.reached(), time.time_ns() // 10**6
        self.gaps += [Gap(shard, reached.get(shard, 0), None, now_ms) for shard in self._retention.shards()]
        self._source.remove_checkpoint()
        process.words = [*process.words, "--starting-position", "LATEST"]
        time.sleep(act.rest_s)
        self._start(act.whom)

    def _outage(self, act: Act) -> None:
        self._bus.begin_outage("503")
        self._after(act.rest_s, self._bus.end_outage)

    # --- how it is done ---

    @contextlib.contextmanager
    def _caught(self, act: Act, *, on: bool | None = None) -> Iterator[None]:
        """Wait until a process is where an act strikes, if it comes there; what is caught goes on after the block."""
        point, where = act.point, "some moment"
        if point.what:
            self._up(act.whom)
        trap: Trap | None = None
        if point.what == CHECKPOINT_POINT:
            end, since = time.monotonic() + _CAUGHT_WITHIN_S, self._source.size()
            where = str(point) if self._source.says(ANSWERED, since=since, until_s=end) else where
        elif point.what:
            trap = Trap(point.what, point.after)
            self.gates[act.whom].set(trap)
            where = str(point) if trap.caught.wait(_CAUGHT_WITHIN_S) else where
            self.gates[act.whom].set(None)
        else:
            time.sleep(act.rest_s * _MOMENT)
        self.done[f"at: {act.whom.split()[0]}, {where}"] += 1
        try:
            yield
        finally:
            if trap is not None:
                caught, goes_on = trap, point.on if on is None else on
                self._after(act.rest_s, lambda: caught.let(on=goes_on))

    def _up(self, name: str) -> None:
        """Wait until a process that was started again does what it is there for: a relay, until a batch is done."""
        end = time.monotonic() + _UP_WITHIN_S
        if name == "relay":
            self._source.says(DONE, since=self._began, until_s=end)
        while not self.gates[name].used & _WORK and time.monotonic() < end:
            time.sleep(_LOOK_S)

    def _end(self, process: Process) -> None:
        process.end()
        self.kills += 1

    def _start(self, name: str) -> None:
        self.gates[name].used.clear()
        if name == "relay":
            self._began = self._source.size()
        self.processes[name].start()

    def _after(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        self._later.append(timer)
        timer.start()

    def _remove_leases(self) -> None:
        for shard in shards_of(self._layout):
            self._tables.delete_item(TableName=TABLE, Key=leases.read(TABLE, shard, self._layout)["Key"])


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, row.split())) for row in listed.splitlines()]
    return [child for child, parent in pairs if parent == pid]
