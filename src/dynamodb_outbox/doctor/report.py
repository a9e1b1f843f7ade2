"""What the doctor says: findings, what it could not see, and which promises hold for what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.checks import Severity, examine
from dynamodb_outbox.doctor.inventory import NotSeen
from dynamodb_outbox.doctor.promised import promises_of
from dynamodb_outbox.doctor.rules import CHECKS

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.checks import Finding, Unjudged
    from dynamodb_outbox.doctor.promised import Promised
    from dynamodb_outbox.doctor.system import System

__all__ = ["Report", "report_on"]

_OF_FINDINGS = ("id", "subject", "evidence", "consequence", "fix")


@dataclass(frozen=True)
class Report:
    """`findings`, the worst first; `unjudged`: checks that could not be made; `promises`, empty where not known."""

    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    promises: tuple[Promised, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found but notes."""
        return all(each.severity is Severity.NOTE for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "well": self.is_well,
            "findings": [
                {"severity": each.severity.value, **{name: getattr(each, name) for name in _OF_FINDINGS}}
                for each in self.findings
            ],
            "not_seen": [{"id": each.id, "subject": each.subject, "why": each.why} for each in self.unjudged],
            "promises": [
                {**vars(each), "standing": each.standing.value, "because": [*each.because], "unseen": [*each.unseen]}
                for each in self.promises
            ],
        }


def report_on(system: System) -> Report:
    """Return the report on a system."""
    findings, unjudged = examine(system, CHECKS)
    try:
        promises = promises_of(system, CHECKS, findings, unjudged)
    except NotSeen:
        promises = ()
    return Report(findings, unjudged, promises)
