"""What the doctor says: findings, what it could not see, and which promises hold for what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.checks import Severity, examine
from dynamodb_outbox.doctor.inventory import NotSeen, Unseen, seen, segments
from dynamodb_outbox.doctor.rules import CHECKS
from dynamodb_outbox.promises import Standing, guarantees

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.checks import Finding, Unjudged
    from dynamodb_outbox.doctor.system import Function, System
    from dynamodb_outbox.promises import Guarantee, SinkKind

__all__ = ["Report", "report_on"]


@dataclass(frozen=True)
class Report:
    """`findings`, the worst first; `unjudged`: checks that could not be made; `promises`, empty where not known."""

    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    promises: tuple[Guarantee, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found but notes."""
        return all(each.severity is Severity.NOTE for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "well": self.is_well,
            "findings": [{**vars(each), "severity": each.severity.value} for each in self.findings],
            "not_seen": [dict(vars(each)) for each in self.unjudged],
            "promises": [{"promise": each.promise, "standing": each.standing.value} for each in self.promises],
        }


def report_on(system: System) -> Report:
    """Return the report on a system."""
    findings, unjudged = examine(system, CHECKS)
    try:
        promises = _promises(system)
    except NotSeen:
        promises = ()
    return Report(findings, unjudged, promises)


def _promises(system: System) -> tuple[Guarantee, ...]:
    """Return the promises; of several relays the one that promises least counts, for each of them."""
    promised = [_promises_of(each, system) for each in system.relays]
    order = list(Standing)
    return tuple(max(of_all, key=lambda each: order.index(each.standing)) for of_all in zip(*promised, strict=True))


def _promises_of(relay: Function, system: System) -> tuple[Guarantee, ...]:
    settings, arns = relay.settings, set(seen(relay.settings.sinks).values())
    mappings = [each for each in seen(system.mappings) if each.function == relay.name]
    kinds = {each.kind for each in seen(system.targets) if each.arn in arns}
    failures = [seen(each.on_failure) for each in mappings]
    by_hand = system.table if isinstance(system.table, Unseen) else system.table.by_hand
    return guarantees(
        seen(settings.layout),
        ordering=seen(settings.ordering),
        on_poison=seen(settings.on_poison),
        parallelization=max((seen(each.parallelization) for each in mappings), default=1),
        sink=next((kind for kind in _LEAST if kind in kinds), "bus"),
        sweeper=not isinstance(system.sweepers, Unseen) and bool(system.sweepers),
        hand_written=not isinstance(by_hand, Unseen) and by_hand > 0,
        keeps_records=bool(failures) and all(arn is not None and segments(arn)[2:3] == ["s3"] for arn in failures),
    )


_LEAST: tuple[SinkKind, ...] = ("queue", "topic", "bus", "topic.fifo", "queue.fifo")
"""Of several destinations the one that promises least counts."""
