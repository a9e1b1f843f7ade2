"""Metrics for CloudWatch, in its embedded metric format: lines of JSON on the standard output of a function.

    relay = Relay(sink, observer=EmfMetrics())

CloudWatch Logs makes metrics of such lines by itself: nothing is called, nothing can fail or be late, and no permission
is needed. One line is written for each invocation, and one more for each code that events failed with: for each of the
first 50 that an instance meets, and one for all others. A line has counts, times and the table's name; no event's id,
key or data.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.metrics import CODE, CODES, FAILED, NAMESPACE, OTHER, TABLE, dimension, values_of
from dynamodb_outbox.core.relay.facts import Relayed
from dynamodb_outbox.core.sweeping.commands import Swept
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.ports import Clock

__all__ = ["EmfMetrics"]


class EmfMetrics:
    """An observer (`ports.Observer`) of relays and sweepers that writes metrics; docs/metrics.md has a table of them.

    `write` takes a line: what writes it to the standard output when none is given, which is where Lambda looks. Facts
    that nothing is measured of, such as those of consumers, are passed over.

    Raises ConfigurationError for a `write` that cannot be called.
    """

    def __init__(self, write: Callable[[str], object] | None = None, *, clock: Clock | None = None) -> None:
        if write is not None and not callable(write):
            raise ConfigurationError("EmfMetrics: write is no function of a line.")
        self._write = _print if write is None else write
        self._codes: set[str] = set()
        self._clock: Clock = clock if clock is not None else SystemClock()

    def observe(self, fact: object) -> None:
        """Write what is measured of a fact."""
        if not isinstance(fact, (Relayed, Swept)):
            return
        now_ms = self._clock.now_ms()
        table = dimension(fact.table)
        of_table = {metric.name: (metric.unit, values) for metric, values in values_of(fact).items()}
        self._write(_document(now_ms, {TABLE: table}, of_table))
        if isinstance(fact, Relayed):
            for code, count in self._by_code(fact.failed).items():
                self._write(_document(now_ms, {TABLE: table, CODE: code}, {FAILED: ("Count", (count,))}))

    def _by_code(self, failed: Mapping[str, int]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for code, count in sorted(failed.items()):
            told = dimension(code)
            if told not in self._codes and len(self._codes) >= CODES:
                told = OTHER
            else:
                self._codes.add(told)
            counts[told] += count
        return counts


def _document(now_ms: int, dimensions: dict[str, str], metrics: dict[str, tuple[str, Sequence[float]]]) -> str:
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": unit} for name, (unit, _) in metrics.items()],
    }
    document: dict[str, Any] = {"_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]}, **dimensions}
    for name, (_, values) in metrics.items():
        document[name] = values[0] if len(values) == 1 else list(values)
    return json.dumps(document, separators=(",", ":"))


def _print(line: str) -> None:
    """Write a line in one piece: several threads may write at once, and half a line is no document."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
