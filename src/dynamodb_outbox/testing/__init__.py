"""Kits for the tests of programs that use this library."""

from __future__ import annotations

from dynamodb_outbox.testing.faultbus import FaultBus, FaultPlan

__all__ = ["FaultBus", "FaultPlan"]
