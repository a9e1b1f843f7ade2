"""The key schema of a table: what its key attributes are called, and of which type they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.arguments import shown, text
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_NAME_BYTES", "KeyType", "Keys", "table_name"]

KeyType = Literal["S", "N", "B"]
"""DynamoDB's types of key attributes: text, number, binary."""

MAX_NAME_BYTES = 255
"""Of the name of a key attribute or of an index; DynamoDB takes no more."""

_TYPES = ("S", "N", "B")
_ARN = re.compile(r"arn:[^:]*:dynamodb:[^:]*:[^:]*:table/([^/]+)")


@dataclass(frozen=True)
class Keys:
    """The key attributes of a table.

    pk, pk_type   name and type of the partition key: "S", "N" or "B"
    sk, sk_type   those of the sort key; `sk=None` is a table without one

    Raises ConfigurationError for a name that is empty, longer than 255 bytes or used twice, and for another type.
    """

    pk: str = "pk"
    sk: str | None = "sk"
    pk_type: KeyType = "S"
    sk_type: KeyType = "S"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pk", text(self.pk, partial(_unfit, "pk"), most_bytes=MAX_NAME_BYTES))
        if self.sk is not None:
            object.__setattr__(self, "sk", text(self.sk, partial(_unfit, "sk"), most_bytes=MAX_NAME_BYTES))
        for what, kind in (("pk_type", self.pk_type), ("sk_type", self.sk_type)):
            if kind not in _TYPES:
                raise _unfit(what, f"is {shown(kind)}; 'S', 'N' or 'B' is needed.")
        if self.pk == self.sk:
            raise _unfit("sk", f"is {self.sk!r}, the name of the partition key too; they need different names.")

    @cached_property
    def types(self) -> Mapping[str, KeyType]:
        """The types of the key attributes by their names, the partition key's first."""
        return {self.pk: self.pk_type} if self.sk is None else {self.pk: self.pk_type, self.sk: self.sk_type}

    @property
    def are_text(self) -> bool:
        """Whether each is text, so that items of the library's own, as guards and leases, have a place in the table."""
        return set(self.types.values()) == {"S"}


def table_name(table: str) -> str:
    """Return the name of a table that is given by its name or its ARN."""
    if not table.startswith("arn:"):
        return table
    found = _ARN.fullmatch(table)
    return found[1] if found else table


def _unfit(what: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"Keys: {what} {reason}")
