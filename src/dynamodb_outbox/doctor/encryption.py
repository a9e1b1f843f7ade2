"""KMS keys: whether whoever uses what one encrypts may use the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Evidence
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.doctor.roles import allows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function

__all__ = ["BUCKET", "TABLE", "key_denied"]

BUCKET: tuple[str, ...] = ("kms:GenerateDataKey",)
"""What storing in a bucket needs [LDG]."""
TABLE: tuple[str, ...] = ("kms:Decrypt",)
"""What every request to a table needs."""
_MESSAGES = ("kms:Decrypt", "kms:GenerateDataKey")
_AWS_KEY = "alias/aws/"


def key_denied(
    function: Function, what: str, key: str | None, actions: tuple[str, ...] = _MESSAGES
) -> Iterator[Evidence]:
    """Yield what a function's role lacks to use `what`, encrypted with a key. Raises NotSeen.

    AWS's own key for the service lets in whoever may use the service, and so it is with a key that is None.
    """
    if not key or _AWS_KEY in key:
        return
    role = seen(function.role)
    resource = key if ":key/" in key else None  # of an alias nobody tells here which key it is
    lacking = [each for each in actions if not seen(allows(role, each, resource))]
    if lacking:
        yield Evidence(
            f"{what} is encrypted with {key}, and {role.name} lacks {', '.join(lacking)}",
            {"key": key, "actions": " and ".join(lacking)},
        )
