"""The evidence of a demo as files: what `--dump DIR` leaves, and what `--recount DIR` reads.

    schedule.json         the orders and the faults, as planned from the seed
    acceptances.jsonl     every acceptance by the bus, in order: n, at_ms, request, copy, destination, source,
                          detail_type, id, key, group, deduplication_id, detail (text)
    faults.jsonl          everything that the bus did wrong: kind, at_ms, operation, what
    deliveries.jsonl      every message handed to the consumer: at least body (text) with EventBridge's event
    kills.jsonl           every SIGKILL to the relay: at_ms, pid, request (the number of the request that the bus held)
    verdicts.jsonl        what each caller was told in the end: request, verdict
    orders.json           scan of the orders table: rows, counters (META), records (OUTBOX#), guards of commands
    consumer.json         scan of the consumer's table: effects, invoices, records, inbox records
    invoices/             the second hop: acceptances.jsonl and faults.jsonl of its bus, deliveries.jsonl, and
                          ledger.json, the scan of the second consumer's table; it starts from rows in consumer.json
    run.json              what cannot be recounted: seconds
    relay.log             what the relay printed; likewise consumer.log, and those of the second hop
    write_then_publish/   acceptances.jsonl, faults.jsonl and orders.json of that lane
    publish_then_write/   the same

Numbers of tables are JSON numbers when they are whole, else text. `account.py` says how the figures follow from it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.demo.evidence import Evidence, HopEvidence, LaneEvidence
from dynamodb_outbox.local.demo.names import INVOICES_BUS, LAYOUT
from dynamodb_outbox.local.demo.schedule import LANES, Lane, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from dynamodb_outbox.local.demo.evidence import Item

__all__ = ["DumpUnreadable", "DumpUnwritable", "check_writable", "read_dump", "read_lines", "write_dump"]

_KEYS = tuple(LAYOUT.keys.types)


class DumpUnreadable(OutboxError):
    """A directory is not the dump of a demo: `path` is at fault, `reason` says how."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}. --recount takes a directory that --dump left")


class DumpUnwritable(OutboxError):
    """The evidence cannot be left in `path`; `reason` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}. --dump takes a directory that is empty or does not exist yet")


def check_writable(directory: Path) -> None:
    """Make sure that a dump can go to `directory`, and make it. Raises DumpUnwritable."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise DumpUnwritable(directory, "not empty")
        probe = directory / ".probe"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        raise DumpUnwritable(directory, "not a directory") from None
    except OSError as error:
        raise DumpUnwritable(directory, error.strerror or str(error)) from None


def write_dump(directory: Path, evidence: Evidence) -> None:
    """Write `evidence` to an empty or new directory. Raises DumpUnwritable."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write_json(directory / "schedule.json", evidence.schedule.to_json())
        _write_json(directory / "run.json", evidence.run)
        _write_json(directory / "consumer.json", evidence.consumer)
        _write_lines(directory / "deliveries.jsonl", evidence.deliveries)
        _write_lines(directory / "kills.jsonl", evidence.kills)
        _write_lines(directory / "verdicts.jsonl", evidence.verdicts)
        _write_second(directory / INVOICES_BUS, evidence.second)
        for name, log in evidence.logs.items():
            (directory / f"{name}.log").write_text(log, "utf-8")
        for name, lane in evidence.lanes.items():
            place = _place(directory, name)
            place.mkdir(exist_ok=True)
            _write_lines(place / "acceptances.jsonl", lane.acceptances)
            _write_lines(place / "faults.jsonl", lane.faults)
            _write_json(place / "orders.json", lane.items)
    except OSError as error:
        raise DumpUnwritable(directory, error.strerror or str(error)) from None


def read_dump(directory: Path) -> Evidence:
    """Read the evidence that `write_dump` wrote. Raises DumpUnreadable."""
    if not directory.is_dir():
        raise DumpUnreadable(directory, "no such directory")
    try:
        schedule = Schedule.from_json(_read_json(directory / "schedule.json"))
    except (KeyError, TypeError):
        raise DumpUnreadable(directory / "schedule.json", "not a schedule of this version") from None
    lanes = {name: _read_lane(_place(directory, name)) for name in LANES}
    return Evidence(
        schedule,
        lanes,
        deliveries=read_lines(directory / "deliveries.jsonl"),
        consumer=_read_items(directory / "consumer.json"),
        kills=read_lines(directory / "kills.jsonl"),
        verdicts=read_lines(directory / "verdicts.jsonl"),
        second=_read_second(directory / INVOICES_BUS),
        run=_object(directory / "run.json", _read_json(directory / "run.json")),
        logs={path.stem: _text(path, errors="replace") for path in sorted(directory.glob("*.log"))},
    )


def read_lines(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a file of JSON lines. Raises DumpUnreadable."""
    # Not splitlines(): text may contain characters that end a line elsewhere (U+2028), and JSON lets them be.
    return tuple(_object(path, _parsed(path, line)) for line in _text(path).split("\n") if line)


def _read_lane(place: Path) -> LaneEvidence:
    return LaneEvidence(
        acceptances=read_lines(place / "acceptances.jsonl"),
        faults=read_lines(place / "faults.jsonl"),
        items=_read_items(place / "orders.json"),
    )


def _read_second(place: Path) -> HopEvidence:
    return HopEvidence(
        acceptances=read_lines(place / "acceptances.jsonl"),
        faults=read_lines(place / "faults.jsonl"),
        deliveries=read_lines(place / "deliveries.jsonl"),
        ledger=_read_items(place / "ledger.json"),
    )


def _write_second(place: Path, second: HopEvidence) -> None:
    place.mkdir(exist_ok=True)
    _write_lines(place / "acceptances.jsonl", second.acceptances)
    _write_lines(place / "faults.jsonl", second.faults)
    _write_lines(place / "deliveries.jsonl", second.deliveries)
    _write_json(place / "ledger.json", second.ledger)


def _place(directory: Path, lane: Lane) -> Path:
    return directory if lane == "outbox" else directory / lane


def _read_json(path: Path) -> Any:
    return _parsed(path, _text(path))


def _read_items(path: Path) -> tuple[Item, ...]:
    items = _read_json(path)
    if not isinstance(items, list):
        raise DumpUnreadable(path, "not a list of items")
    if not all(isinstance(item, dict) and all(isinstance(item.get(name), str) for name in _KEYS) for item in items):
        raise DumpUnreadable(path, f"an item without {' or '.join(_KEYS)}, both text")
    return tuple(items)


def _object(path: Path, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DumpUnreadable(path, "not an object where there should be one")
    return value


def _text(path: Path, *, errors: str = "surrogatepass") -> str:
    try:
        return path.read_text("utf-8", errors)
    except UnicodeDecodeError as error:
        raise DumpUnreadable(path, f"not UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise DumpUnreadable(path, error.strerror or str(error)) from None


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DumpUnreadable(path, f"not JSON ({error})") from None
    except RecursionError:
        raise DumpUnreadable(path, "nested too deeply") from None


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
