"""The rules, by what they look at. `CHECKS` is all of them."""

from __future__ import annotations

from dynamodb_outbox.doctor.rules import (
    access,
    alarms,
    failures,
    filters,
    functions,
    mappings,
    payloads,
    sources,
    sweeping,
    tables,
    targets,
)

__all__ = ["CHECKS"]

CHECKS = (
    *tables.CHECKS,
    *sources.CHECKS,
    *mappings.CHECKS,
    *filters.CHECKS,
    *functions.CHECKS,
    *failures.CHECKS,
    *targets.CHECKS,
    *sweeping.CHECKS,
    *access.CHECKS,
    *alarms.CHECKS,
    *payloads.CHECKS,
)
"""All checks, in the order of docs/doctor.md."""
