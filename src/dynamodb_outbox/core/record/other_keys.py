"""What the index, or a stream, says of its table's keys, where they are not those of the layout.

Whoever forgets the layout of a table asks with the names of another one. The index answers all the same: it is asked by
the library's own attribute. Where a query goes on (LastEvaluatedKey) has the keys of the index and of the table, and no
more; which of the table's is the sort key is told by the prefix, which one of them carries. A stream record tells the
keys of its item by themselves; which is which only of a record of this library's, for a row of somebody else's may have
the prefix anywhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["entry_said", "fits_keys", "is_key", "keys_said"]

_KEYS = 2
"""A table has one key attribute, or two."""


def fits_keys(entry: WireItem, layout: Layout) -> bool:
    """Whether an entry of the index has the key attributes of a layout, and the time by which the index is sorted."""
    wanted = {**layout.keys.types, layout.column(schema.AT): "N"}
    return all(kind in entry.get(name, {}) for name, kind in wanted.items())


def entry_said(after: WireItem, layout: Layout) -> str:
    """Return what an error says of entries that do not fit; `after` is where a query ends that is cut short.

    Where the time has another name too (`columns`), nobody can tell which of the names is what.
    """
    at = layout.column(schema.AT)
    names = {name: value for name, value in after.items() if name != schema.PENDING_INDEX}
    if at in names:
        return keys_said({name: value for name, value in names.items() if name != at}, layout)
    told = _give("Layout(pk=..., sk=..., columns=...)", {"pk": "...", "sk": "...", "columns": {schema.AT: "..."}})
    return f"its keys and its index have {_listed(names)}, the layout {_listed(layout.keys.types)} and {at!r}: {told}"


def is_key(keys: Mapping[str, Any]) -> bool:
    """Whether these can be key attributes of some table's item, in Lambda's form."""
    return 1 <= len(keys) <= _KEYS and all(
        isinstance(value, dict) and len(value) == 1 and {"S", "N", "B"} & value.keys() and _is_text(*value.values())
        for value in keys.values()
    )


def _is_text(content: object) -> bool:
    return isinstance(content, str) and content != ""


def keys_said(keys: WireItem, layout: Layout, *, ours: bool = True) -> str:
    """Return which keys the items of a table have, as an error says it, and which layout has these.

    `ours` says that they are those of a record of this library's: else nobody can tell which of them is the sort key.
    """
    members = _members(keys, layout) if ours else None
    if members is None:
        told = _give("Layout(pk=..., sk=...)", {"pk": "...", "sk": "..."})
    else:
        told = _give(f"Layout({', '.join(f'{name}={value!r}' for name, value in members.items())})", members)
    wanted = _listed(layout.keys.types)
    return f"the key attributes of its items are {_listed(keys)}, those of the layout {wanted}: {told}"


def _members(found: WireItem, layout: Layout) -> dict[str, Any] | None:
    """Return what a layout says of these keys; None where it cannot be told which is the sort key."""
    carriers = [name for name, value in found.items() if value.get("S", "").startswith(layout.prefix)]
    if len(carriers) != 1 or len(found) > _KEYS:
        return None
    (carrier,) = carriers
    others = [name for name in found if name != carrier]
    if not others:
        return {"pk": carrier, "sk": None, "own_partition": True}
    (kind,) = found[others[0]]
    return {"pk": others[0], "sk": carrier, **({} if kind == "S" else {"pk_type": kind})}


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names)) or "others"


def _give(python: str, members: Mapping[str, Any]) -> str:
    return f"give the writer's layout, {python}, or --layout '{json.dumps(members, ensure_ascii=False)}'"
