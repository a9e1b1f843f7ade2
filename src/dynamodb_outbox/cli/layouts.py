"""A layout that is told on the command line, as the ready-made functions are told theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.environment.settings import settings_of

if TYPE_CHECKING:
    from dynamodb_outbox.layout import Layout

__all__ = ["layout_of"]

_ANY_SINK = "arn:aws:sqs:us-east-1:000000000000:any"


def layout_of(members: str | None, settle: str | None) -> Layout:
    """Return the layout of these arguments (JSON), or of its `settle` alone. Raises ConfigurationError."""
    told = {"OUTBOX_LAYOUT": members or "", "OUTBOX_SETTLE": settle or ""}
    return settings_of({"OUTBOX_SINK": _ANY_SINK, **told}).layout
