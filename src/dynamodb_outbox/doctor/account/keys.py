"""KMS keys: which of them need a permission. AWS's own let in whoever may use the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.inventory import Seen, Unseen, segments

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.account.asking import Asking

__all__ = ["customer_key"]

_REGION = 3


def customer_key(asking: Asking, key: str | None) -> Seen[str | None]:
    """Return a key that is a customer's own, None for one of AWS's; a key that is gone is a customer's.

    It is asked for in the Region that its ARN names: a bucket's may be in another one.
    """
    if key is None or "alias/aws/" in key:
        return None
    region = next(iter(segments(key)[_REGION:]), None)  # None of an id or an alias, which is of here
    answer = asking.ask("kms", "DescribeKey", region, KeyId=key)
    if isinstance(answer, Unseen):
        return answer
    owner = "CUSTOMER" if answer is None else (answer.get("KeyMetadata") or {}).get("KeyManager")
    return None if owner == "AWS" else key
