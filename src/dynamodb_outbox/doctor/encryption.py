"""KMS keys of queues and topics: whether whoever sends to one may use its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Evidence
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.doctor.roles import allows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function

__all__ = ["key_denied"]

_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")
_AWS_KEY = "alias/aws/"


def key_denied(function: Function, what: str, key: str | None) -> Iterator[Evidence]:
    """Yield what a function's role lacks to send to `what`, encrypted with a key. Raises NotSeen.

    AWS's own key for the service lets in whoever may use the service, and so it is with a key that is None.
    """
    if not key or _AWS_KEY in key:
        return
    role = seen(function.role)
    lacking = [each for each in _ACTIONS if not seen(allows(role, each, None))]
    if lacking:
        yield Evidence(f"{what} is encrypted with {key}, and {role.name} lacks {', '.join(lacking)}", {"key": key})
