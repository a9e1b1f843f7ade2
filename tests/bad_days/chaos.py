"""Chaos on real processes: everything dies, again and again, and nothing is lost.

Three writers, a relay under the local event source and two sweepers (`outbox sweep`) work on one table of the local
engine, behind a bus that fails all the time. They are killed and frozen at chosen points and at any: in the middle of a
commit, a publication, a settling, a checkpoint, a lease. Requests of the dead arrive late. The stream forgets what the
relay has not read, and the relay begins anew at its end, so that a sweeper alone can publish what was in between.
Records are deleted as soon as they are published, so that what is late finds nothing to write to.

    python tests/bad_days/chaos.py --events 5000 --acts 80 --seed 1

takes some minutes, prints what was done and what came of it, and exits with 1 when a promise is broken. The same seed
has the same commands, faults and acts; what differs is timing. The tests take a part of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos_account import Figures, account
from chaos_acts import acts
from chaos_crew import Crew
from chaos_evidence import evidence, pending
from chaos_gate import Retention
from chaos_janitor import Janitor
from chaos_plan import SWEEPERS, WRITERS, Plan
from chaos_writer import entries
from days import TABLE, wait_while_it_moves

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.durable import write_whole
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.provision import create_bus, create_table
from dynamodb_outbox.testing.faultbus import FaultBus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chaos_acts import Act

__all__ = ["Chaos", "chaos"]

_MIN_AGE_S, _EVERY_S = 1, 1
_LOOK_S = 0.02
_ALLOWED = "allowed"


@dataclass(frozen=True)
class Chaos:
    """What was done, by kind and by place, and what came of it.

    `cut_off` counts commits whose writer died or was replaced before it was told; `resolved`, how writers were told
    that they had committed; `only_swept`, the events that no relay was told to be accepted, and a sweeper was.
    """

    kills: int
    done: Mapping[str, int]
    faults: Mapping[str, int]
    resolved: Mapping[str, int]
    cut_off: int
    only_swept: int
    deleted: int
    figures: Figures
    took_s: float

    def __str__(self) -> str:
        of = self.figures
        rows = [
            *{"commands": of.commands, "events": of.events, "accepted": of.accepted, "parked": of.parked}.items(),
            ("accepted again (duplicates)", of.duplicates),
            ("in lost parts of the stream", of.missed),
            ("of these overtaken by later ones of their keys", of.overtaken),
            ("published by a sweeper alone", self.only_swept),
            ("records deleted as soon as they were published", self.deleted),
            ("commits that were cut off", self.cut_off),
            *((f"told by {what}", count) for what, count in sorted(self.resolved.items())),
            ("kills", self.kills),
            *sorted(self.done.items()),
            *((f"fault: {kind}", count) for kind, count in sorted(self.faults.items())),
            ("seconds", round(self.took_s)),
        ]
        table = "\n".join(f"{name:66} {value:>8,}" for name, value in rows)
        return "\n".join([table, *(f"BROKEN: {what}" for what in self.figures.broken)])


def chaos(engine: str, account_id: str, directory: Path, plan: Plan) -> Chaos:
    """Have a day in a directory that is empty, as one account of the engine."""
    started = time.monotonic()
    tables, streams, events = (
        local_client(service, engine, account=account_id) for service in ("dynamodb", "dynamodbstreams", "events")
    )
    retention = Retention(DynamoDbStream(streams, str(create_table(tables, TABLE, layout=plan.layout))))
    create_bus(events, "orders")
    sink = events.describe_event_bus(Name="orders")["Arn"]
    with FaultBus(engine, plan.faults) as bus:
        crew = _crew(plan, bus, retention, tables, directory, account_id=account_id, sink=sink)
        write_whole(directory / _ALLOWED, "0")
        with crew, Janitor(bus, tables) as janitor:
            _carry_out(acts(plan.seed, plan.acts, writers=WRITERS, sweepers=SWEEPERS), crew, directory, plan)
            wait_while_it_moves(lambda: -pending(tables, plan.layout), 0, plan.stalled_s)
        accepted = [one.id for one in bus.accepted if one.id is not None]
        faults = Counter[str](fault.kind for fault in bus.faults)
    left = evidence(tables, plan, accepted, crew=crew, retention=retention, directory=directory)
    told = [entry for entry in _journal(crew, directory) if "committed" in entry]
    return Chaos(
        kills=crew.kills,
        done=crew.done,
        faults=faults,
        resolved=Counter("guard" if entry["replayed"] else entry["resolved_by"] for entry in told),
        cut_off=len(_journal(crew, directory)) - 2 * len(told),
        deleted=janitor.deleted,
        only_swept=len(set(accepted) - crew.gates["relay"].published),
        figures=account(left),
        took_s=time.monotonic() - started,
    )


def _crew(
    plan: Plan, bus: FaultBus, retention: Retention, tables: Any, directory: Path, *, account_id: str, sink: str
) -> Crew:
    sweep = ["dynamodb_outbox.cli", "sweep", "--table", TABLE, "--every", str(_EVERY_S), "--json"]
    return Crew(
        *(bus, retention, tables, directory),
        account=account_id,
        layout=plan.layout,
        writers={
            f"writer {number}": [
                *("chaos_writer", "--account", account_id, "--layout", plan.layout_text, "--writer", str(number)),
                *("--seed", str(plan.seed), "--events", str(plan.share), "--pause-ms", str(plan.pause_ms)),
                *("--journal", str(directory / f"writer {number}.jsonl"), "--allowed", str(directory / _ALLOWED)),
            ]
            for number in range(WRITERS)
        },
        sweepers={f"sweeper {number}": sweep for number in range(SWEEPERS)},
        settings={
            "OUTBOX_SINK": sink,
            "OUTBOX_LAYOUT": plan.layout_text,
            "OUTBOX_MIN_AGE": str(_MIN_AGE_S),
            "OUTBOX_LOG_LEVEL": "ERROR",
        },
        without_leases=plan.without_leases,
    )


def _carry_out(todo: Sequence[Act], crew: Crew, directory: Path, plan: Plan) -> None:
    """Do one act after the other, each when its share of the commands has been begun; return when all is written.

    No writer is more than a share ahead of what has been done. Where nothing is begun for a while, it ends.
    """
    done, allowed, begun, since, shares = 0, 0, 0, time.monotonic(), len(todo) + 2
    counts = [len(each) for each in plan.commands()]
    while (done < len(todo) or crew.writing()) and time.monotonic() - since < plan.stalled_s:
        crew.look()
        if allowed != (may := max(counts) * (done + 2) // shares + 1):
            allowed = may
            write_whole(directory / _ALLOWED, str(allowed))
        if (now := sum("begun" in entry for entry in _journal(crew, directory))) > begun:
            begun, since = now, time.monotonic()
        if done < len(todo) and begun * shares >= (done + 1) * sum(counts):
            crew.do(todo[done])
            done += 1
        else:
            time.sleep(_LOOK_S)


def _journal(crew: Crew, directory: Path) -> list[dict[str, Any]]:
    return [entry for name in crew.writers for entry in entries(directory / f"{name}.jsonl")]


def main() -> None:
    """Have a day and print it; the exit status is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, meaning in (
        ("events", 5_000, "events in all"),
        ("acts", 80, "times that something is done to a process"),
        ("seed", 1, "of the commands, the faults and the acts"),
        ("pause-ms", 60, "pause of a writer after each commit"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{meaning} ({default})")
    parser.add_argument("--settle", choices=["expire", "mark", "delete"], default="expire")
    parser.add_argument("--without-leases", action="store_true", help="remove those of sweepers that were killed")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs there")
    given = parser.parse_args()
    plan = Plan(given.seed, given.events, given.acts, given.pause_ms, given.settle, given.without_leases)
    with Engine() as engine, tempfile.TemporaryDirectory() as scratch:
        directory = given.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        day = chaos(engine.url, DEFAULT_ACCOUNT, directory, plan)
    print(day)  # noqa: T201 -- a program's output
    sys.exit(bool(day.figures.broken))


if __name__ == "__main__":
    main()
