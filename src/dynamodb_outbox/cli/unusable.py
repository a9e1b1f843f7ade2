"""What a command says of arguments that cannot be used."""

from __future__ import annotations

from dynamodb_outbox.errors import OutboxError

__all__ = ["STATUS", "Unusable"]

STATUS = 2
"""The exit status then; argparse's own."""


class Unusable(OutboxError):
    """An argument cannot be used; the message says which and why."""
