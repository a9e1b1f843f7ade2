"""What a demo takes place in: the engine, a bus in front of it for each lane, relays and consumers of both hops.

Everything is made on entering and gone on leaving, however the block is left: no process, no file. When this process is
killed nobody leaves the block; the processes end by themselves then, and the engine removes the files before it does.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.demo.children import Child, first_line
from dynamodb_outbox.local.demo.dump import read_lines
from dynamodb_outbox.local.demo.evidence import Evidence, HopEvidence, LaneEvidence
from dynamodb_outbox.local.demo.fault_plan import fault_plan, second_fault_plan
from dynamodb_outbox.local.demo.functions import (
    CONSUMER_ENVIRONMENT,
    LEDGER_ENVIRONMENT,
    RELAY_ENVIRONMENT,
    SECOND_RELAY_ENVIRONMENT,
)
from dynamodb_outbox.local.demo.names import (
    CONSUMER_TABLE,
    INVOICES_BUS,
    LAYOUT,
    LEDGER_QUEUE,
    LEDGER_TABLE,
    QUEUE,
    bus_of,
    table_of,
)
from dynamodb_outbox.local.demo.schedule import LANES, Lane
from dynamodb_outbox.local.demo.settings import LEDGER, RELAY
from dynamodb_outbox.local.demo.tables import count_pending, scan
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.provision import Queue, create_bus, create_queue, create_table, route
from dynamodb_outbox.testing.faultbus import ACCEPTED_FILE, FAULTS_FILE, FaultBusControl, FaultBusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from dynamodb_outbox.local.demo.schedule import Schedule
    from dynamodb_outbox.local.demo.settings import Settings

__all__ = ["Bus", "DemoFailed", "World"]

_START_S = 20.0
_BLAME_WITHIN_S = 1.0
_LOOK_S = 0.05
_VISIBILITY_S = 6
_CONSUMER_TIMEOUT_MS = 5_000
_BATCH = 50
_FILTER = stream_filter(LAYOUT)


class DemoFailed(OutboxError):
    """A call that the demo itself depends on failed, though all its processes are alive; `reason` says how."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the demo cannot go on: {reason}")


@dataclass(frozen=True)
class Bus:
    """The fault-injecting bus of one lane: its process, its control, and where its evidence is."""

    child: Child
    control: FaultBusControl
    evidence: Path


class World:
    """Use it as a context manager.

    Entering raises EngineError, ChildDied, DemoFailed, and TimeoutError when a bus does not start.
    """

    def __init__(self, settings: Settings, schedule: Schedule) -> None:
        self._settings = settings
        self._schedule = schedule
        self._leave = ExitStack()
        self.engine = Engine(settings.port)  # until entering: nothing runs, and it can be asked
        self.buses: dict[Lane, Bus] = {}
        self.every_bus: tuple[FaultBusControl, ...] = ()  # those of the lanes first
        self._children: list[Child] = []

    def __enter__(self) -> World:
        with ExitStack() as stack:
            self.directory = Path(tempfile.mkdtemp(prefix="dynamodb-outbox-demo-"))
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self.engine = stack.enter_context(Engine(self._settings.port, orphans=[self.directory]))
            second_bus = self._start_buses(stack)
            self._tables = self.engine.client("dynamodb")
            self._sqs = self.engine.client("sqs")
            with self.explained():
                self._queues = self._provision()
            self.relay = self._started(self._relay(), stack)
            functions = (self.relay, self._consumer(), self._second_relay(second_bus), self._ledger())
            self._functions = [self.relay, *(self._started(child, stack) for child in functions[1:])]
            self._leave = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.close()

    @property
    def kills_file(self) -> Path:
        """Where the kills of the relay are written down."""
        return self.directory / "kills.jsonl"

    @property
    def verdicts_file(self) -> Path:
        """Where it is written down what the outbox's callers were told."""
        return self.directory / "verdicts.jsonl"

    def client(self, service: str, lane: Lane, *, attempts: int) -> Any:
        """Return a boto3 client for a lane's writers, by way of its bus; a call is made `attempts` times at most."""
        retries = Config(retries={"mode": "standard", "total_max_attempts": attempts})
        return local_client(service, self.buses[lane].control.url, account=DEFAULT_ACCOUNT, config=retries)

    def check(self) -> None:
        """Raise EngineDied or ChildDied when a process ended by itself."""
        self.engine.check()
        for child in self._children:
            child.check()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of calls into what caused them: the death of a process, or else DemoFailed."""
        try:
            yield
        except (BotoCoreError, ClientError, FaultBusError) as error:
            # A dying process closes its connections before it can be seen to be dead.
            end = time.monotonic() + _BLAME_WITHIN_S
            while time.monotonic() < end:
                self.check()
                time.sleep(_LOOK_S)
            raise DemoFailed(f"{type(error).__name__}: {error}") from error

    def pending(self) -> int:
        """Return how many records, of orders and of invoices, wait for their relay."""
        return sum(count_pending(self._tables, table, LAYOUT) for table in (table_of("outbox"), CONSUMER_TABLE))

    def queued(self) -> int:
        """Return how many messages the consumers have not finished."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = [
            self._sqs.get_queue_attributes(QueueUrl=queue.url, AttributeNames=names)["Attributes"]
            for queue in self._queues
        ]
        return sum(int(attributes[name]) for attributes in found for name in names)

    def end_functions(self) -> None:
        """End the relays and the consumers."""
        for child in self._functions:
            child.end()

    def evidence(self, *, seconds: float) -> Evidence:
        """Collect the evidence. Nothing may be running any more but the engine."""
        lanes = {
            lane: LaneEvidence(
                acceptances=read_lines(bus.evidence / ACCEPTED_FILE),
                faults=read_lines(bus.evidence / FAULTS_FILE),
                items=scan(self._tables, table_of(lane)),
            )
            for lane, bus in self.buses.items()
        }
        second = self.directory / INVOICES_BUS
        return Evidence(
            self._schedule,
            lanes,
            deliveries=read_lines(self._deliveries_file),
            second=HopEvidence(
                acceptances=read_lines(second / ACCEPTED_FILE),
                faults=read_lines(second / FAULTS_FILE),
                deliveries=read_lines(self._second_deliveries_file),
                ledger=scan(self._tables, LEDGER_TABLE),
            ),
            consumer=scan(self._tables, CONSUMER_TABLE),
            kills=read_lines(self.kills_file),
            verdicts=read_lines(self.verdicts_file),
            run={"seconds": round(seconds, 1)},
            logs={child.name: child.log() for child in self._functions},
        )

    @property
    def _deliveries_file(self) -> Path:
        return self.directory / "deliveries.jsonl"

    @property
    def _second_deliveries_file(self) -> Path:
        return self.directory / "second-deliveries.jsonl"

    def _start_buses(self, stack: ExitStack) -> Bus:
        """Start the buses of the lanes, and the one of the second hop, which is returned."""
        children: dict[str, Child] = {}
        for name in (*LANES, INVOICES_BUS):
            plan = self.directory / f"{name}.json"
            planned = second_fault_plan if name == INVOICES_BUS else fault_plan
            plan.write_text(planned(self._schedule).to_json(), "utf-8")
            arguments = ("--upstream", self.engine.url, "--plan", str(plan), "--evidence", str(self.directory / name))
            child = Child(
                f"bus of {name}", ("dynamodb_outbox.testing.faultbus", *arguments), logs=self.directory, speaks=True
            )
            children[name] = self._started(child, stack)
        started = {
            name: Bus(child, FaultBusControl(first_line(child, within_s=_START_S)["url"]), self.directory / name)
            for name, child in children.items()
        }
        self.buses = {lane: started[lane] for lane in LANES}
        self.every_bus = tuple(bus.control for bus in started.values())
        return started[INVOICES_BUS]

    def _started(self, child: Child, stack: ExitStack) -> Child:
        stack.callback(child.end)
        child.start()
        self._children.append(child)
        return child

    def _provision(self) -> tuple[Queue, Queue]:
        events = self.engine.client("events")
        for lane in LANES:
            create_table(self._tables, table_of(lane), layout=LAYOUT)
            create_bus(events, bus_of(lane))
        create_table(self._tables, CONSUMER_TABLE, layout=LAYOUT)
        create_table(self._tables, LEDGER_TABLE, view_type=None)
        create_bus(events, INVOICES_BUS)
        first, second = (
            create_queue(self._sqs, queue, visibility_timeout_s=_VISIBILITY_S) for queue in (QUEUE, LEDGER_QUEUE)
        )
        route(events, self._sqs, bus=bus_of("outbox"), queue=first, rule="orders-to-billing")
        route(events, self._sqs, bus=INVOICES_BUS, queue=second, rule="invoices-to-ledger")
        for file in (self.kills_file, self.verdicts_file, self._deliveries_file, self._second_deliveries_file):
            file.touch()
        return first, second

    def _relay(self) -> Child:
        place = self.buses["outbox"].control.url, table_of("outbox"), self._settings.relay
        return self._relay_called("relay", *place, RELAY_ENVIRONMENT)

    def _second_relay(self, bus: Bus) -> Child:
        place = bus.control.url, CONSUMER_TABLE, RELAY
        return self._relay_called("second relay", *place, SECOND_RELAY_ENVIRONMENT)

    def _relay_called(self, name: str, url: str, table: str, handler: str, environment: Mapping[str, str]) -> Child:
        checkpoint = self.directory / f"{name.replace(' ', '-')}.checkpoint"
        arguments = [
            *("dynamodb_outbox.local.source", "--endpoint", url, "--account", DEFAULT_ACCOUNT),
            *("--table", table, "--handler", handler, "--function-name", "relay"),
            *("--timeout-ms", str(self._schedule.relay_timeout_ms), "--batch-size", str(_BATCH)),
            *("--filter", json.dumps(_FILTER), "--retry-base-ms", "50", "--retry-cap-ms", "400"),
            *("--checkpoint", str(checkpoint), *_as_arguments(environment)),
        ]
        return Child(name, arguments, logs=self.directory)

    def _consumer(self) -> Child:
        handler, file = self._settings.consumer, self._deliveries_file
        return self._consumer_called("consumer", QUEUE, handler, file, CONSUMER_ENVIRONMENT)

    def _ledger(self) -> Child:
        return self._consumer_called("ledger", LEDGER_QUEUE, LEDGER, self._second_deliveries_file, LEDGER_ENVIRONMENT)

    def _consumer_called(
        self, name: str, queue: str, handler: str, deliveries: Path, environment: Mapping[str, str]
    ) -> Child:
        arguments = [
            *("dynamodb_outbox.local.queue", "--endpoint", self.engine.url, "--account", DEFAULT_ACCOUNT),
            *("--queue", queue, "--handler", handler, "--function-name", queue),
            *("--timeout-ms", str(_CONSUMER_TIMEOUT_MS), "--deliveries", str(deliveries)),
            *_as_arguments(environment),
        ]
        return Child(name, arguments, logs=self.directory)


def _as_arguments(environment: Mapping[str, str]) -> list[str]:
    return [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
