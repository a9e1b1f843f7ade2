"""The guard of a command in wire form, written and read, by the schema of `core.record.schema`.

What a guard remembers is ONE attribute, `ob_guard`, whose name and form no layout changes: a command that runs again
after `columns` changed is still the same command. Whoever finds an item in a guard's place reads it here, and gets
either all that a guard says or nothing: half of it would be a wrong receipt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.record.encode import Origin
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["GuardContent", "encode_guard", "guard_content", "newer_version"]

_PLACE = ("table", "pk", "sk")
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class GuardContent:
    """What a guard says of the command's first commit.

    `versions` are by (table, pk, sk); `tx` is the transaction's UUID; `at_ms` when it was first sent, in epoch ms.
    """

    fingerprint: str
    event_ids: tuple[str, ...]
    versions: Mapping[tuple[str, str, str], int]
    tx: str
    at_ms: int


def encode_guard(
    key: Mapping[str, AttributeValue],
    *,
    fingerprint: str,
    event_ids: Sequence[str],
    versions: Mapping[tuple[str, str, str], int],
    origin: Origin,
    layout: Layout,
    keep_s: int,
) -> WireItem:
    """Return the guard of a command as an item, under its key attributes `key`.

    `versions` are by (table, pk, sk); `keep_s` says for how many seconds from the first send the guard is kept.
    """
    content: dict[str, AttributeValue] = {
        "fingerprint": {"S": fingerprint},
        "event_ids": {"L": [{"S": event_id} for event_id in event_ids]},
        "versions": {"L": [_version(place, version) for place, version in versions.items()]},
        "tx": {"S": origin.tx},
        "at": {"N": str(origin.at_ms)},
    }
    return {
        **key,
        schema.SCHEMA: {"N": str(schema.SCHEMA_VERSION)},
        schema.GUARD: {"M": content},
        layout.ttl: {"N": str(origin.at_ms // 1000 + keep_s)},
    }


def guard_content(item: WireItem) -> GuardContent | None:
    """Return what a guard says; None for an item that is no guard of this schema, or a malformed one."""
    if item.get(schema.SCHEMA) != {"N": str(schema.SCHEMA_VERSION)}:
        return None
    try:
        content = _content(item[schema.GUARD], "M", dict)
        versions = [_content(each, "M", dict) for each in _content(content["versions"], "L", list)]
        return GuardContent(
            fingerprint=_content(content["fingerprint"], "S", str),
            event_ids=tuple(_content(each, "S", str) for each in _content(content["event_ids"], "L", list)),
            versions={_place(each): int(_content(each["version"], "N", str)) for each in versions},
            tx=_content(content["tx"], "S", str),
            at_ms=int(_content(content["at"], "N", str)),
        )
    except (KeyError, TypeError, ValueError):
        return None


def newer_version(item: WireItem) -> int | None:
    """Return the version of the schema by which a guard was written, if that is newer than this one; else None."""
    said = item.get(schema.SCHEMA, schema.ABSENT).get("N")
    if schema.GUARD not in item or not isinstance(said, str) or not _NUMBER.fullmatch(said):
        return None
    return int(said) if int(said) > schema.SCHEMA_VERSION else None


def _version(place: tuple[str, str, str], version: int) -> AttributeValue:
    fields: dict[str, AttributeValue] = {name: {"S": text} for name, text in zip(_PLACE, place, strict=True)}
    return {"M": {**fields, "version": {"N": str(version)}}}


def _place(fields: Mapping[str, Any]) -> tuple[str, str, str]:
    table, pk, sk = (str(_content(fields[name], "S", str)) for name in _PLACE)
    return table, pk, sk


def _content(value: AttributeValue, kind: str, form: type) -> Any:
    """Return what a value of this type holds. Raises KeyError or TypeError for another one."""
    found = value[kind]
    if not isinstance(found, form):
        raise TypeError(kind)
    return found
