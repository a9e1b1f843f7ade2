"""ARNs, read: which service, which Region, whose account, and what is named."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Arn", "arn_of"]

_ARN = re.compile(r"arn:(aws[\w-]*):([a-z0-9-]+):([a-z0-9-]*):([0-9]{12}|):(.+)", re.ASCII)


class Arn(NamedTuple):
    """The parts of an ARN. `region` and `account` are empty where a service leaves them out."""

    partition: str
    service: str
    region: str
    account: str
    resource: str


def arn_of(text: str) -> Arn | None:
    """Return the parts of an ARN, None for any other text."""
    found = _ARN.fullmatch(text)
    return Arn(*found.groups()) if found else None
