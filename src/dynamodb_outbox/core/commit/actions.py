"""The actions of a transaction: put, update, delete, check, each built once into its final wire form.

An action is built when the caller asks for it, so that a mistake is reported at the line that made it, and so that a
later change of the caller's own dict changes nothing that is sent. Whatever is conditional asks DynamoDB to return the
old item when the condition fails: the error then shows what was there.

An action that counts versions has a `number`, by which the events that tell about it are ordered: the version that it
writes, or for a delete the one after the version that it deletes. `first` is the version that a new item gets.
Versions are left out of the action's `content`: a command that runs again may have read the item again, and has to
look the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from dynamodb_outbox.core.codec.size import item_bytes, text_bytes, value_bytes
from dynamodb_outbox.core.codec.values import serialize, serialize_item
from dynamodb_outbox.core.commit.conditions import VERSION_VALUE, Requirement, condition_of, next_version
from dynamodb_outbox.core.commit.updates import NEXT_VALUE, with_version
from dynamodb_outbox.core.limits import ITEM_BYTES, ITEM_HEADROOM_BYTES, PARTITION_KEY_BYTES, SORT_KEY_BYTES
from dynamodb_outbox.errors import InvalidAction, ItemTooLarge, LimitExceeded, ReservedName, UnconditionalPut
from dynamodb_outbox.layout import OWN_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from dynamodb_outbox.core.commit.expressions import Expression
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

_OWN_WORD = re.compile(rf"(?<![#:.\w])(?:{'|'.join(sorted(OWN_ATTRIBUTES))})(?!\w)")

__all__ = ["Action", "Target", "check", "delete", "own_put", "put", "target_of", "update"]


@dataclass(frozen=True)
class Target:
    """The item an action touches. `label` names the action in errors: `put orders {'pk': 'ORDER#1', 'sk': 'META'}`."""

    table: str
    pk: str
    sk: str
    label: str


@dataclass(frozen=True)
class Action:
    """One member of TransactItems: `kind` is its name there, `body` what stands under it, `size` its bytes.

    `version` is the version that it writes, None when it counts none; `number` orders its events; `content` is what
    stands for it in a fingerprint, where that is not the body itself.
    """

    kind: str
    target: Target
    body: Mapping[str, Any]
    size: int
    version: int | None = None
    number: int | None = None
    content: Mapping[str, Any] | None = None

    @property
    def writes(self) -> bool:
        """Whether it changes an item, and does not merely look at one."""
        return self.kind != "ConditionCheck"


def target_of(verb: str, table: str, key: Mapping[str, Any], layout: Layout, *, exactly: bool = False) -> Target:
    """Return where an action goes; `key` holds the layout's key attributes, and nothing else when `exactly`.

    Raises InvalidAction for a key attribute that is missing, empty or no text, ReservedName, LimitExceeded.
    """
    if not isinstance(key, Mapping):
        raise InvalidAction(f"{verb} {table}", f"a dict with {layout.pk!r} and {layout.sk!r} is needed, not {key!r}.")
    names = (layout.pk, layout.sk)
    label = f"{verb} {table} { {name: key[name] for name in names if name in key} }"
    for name, limit in zip(names, (PARTITION_KEY_BYTES, SORT_KEY_BYTES), strict=True):
        value = key.get(name)
        if not isinstance(value, str) or not value:
            found = f"is {value!r}" if name in key else "is missing"
            raise InvalidAction(label, f"the key attribute {name!r} {found}; text that is not empty is needed.")
        serialize(value, name)
        if text_bytes(value) > limit:
            raise LimitExceeded(f"{label[:200]}: {name}", text_bytes(value), limit, "bytes", "Shorten the key.")
    if exactly and (extra := sorted(map(str, key.keys() - set(names)))):
        raise InvalidAction(
            label, f"the key has {', '.join(extra)} too; only {names[0]!r} and {names[1]!r} belong there."
        )
    pk, sk = (str.__str__(key[name]) for name in names)
    for text, prefix in ((sk, layout.prefix), (pk, layout.guard_prefix), (pk, layout.inbox_prefix)):
        if text.startswith(prefix):
            raise ReservedName(label, prefix)
    return Target(table, pk, sk, label)


def put(
    target: Target,
    item: Mapping[str, Any],
    requirement: Requirement,
    layout: Layout,
    *,
    overwrite: bool = False,
    first: int = 1,
) -> Action:
    """Return the action that stores `item` (Python values). Raises InvalidAction, InvalidValue, ItemTooLarge."""
    if overwrite and requirement.given:
        raise InvalidAction(target.label, "overwrite=True says that nothing is required, and a condition was given.")
    if not overwrite and not requirement.given:
        raise UnconditionalPut(target.label)
    condition = condition_of(requirement, layout, target.label)
    wire = serialize_item(item)
    if not OWN_ATTRIBUTES.isdisjoint(wire):
        _refuse_own(target, OWN_ATTRIBUTES & wire.keys())
    version = next_version(requirement, layout, first)
    if version is None or layout.version is None:
        _refuse_uncounted(target, layout, set_by_hand=layout.version in wire)
        return _put(target, wire, condition)
    _check_version(item, layout.version, requirement, target, version)
    counted = _put(target, {**wire, layout.version: {"N": str(version)}}, condition)
    return replace(counted, version=version, number=version, content=_without_versions(counted.body, layout.version))


def own_put(target: Target, wire: WireItem, layout: Layout) -> Action:
    """Return the action that stores one of the library's own items where nothing is yet."""
    return _put(target, wire, condition_of(Requirement(if_absent=True), layout, target.label))


def update(
    target: Target, changes: Expression | None, requirement: Requirement, layout: Layout, *, first: int = 1
) -> Action:
    """Return the action that changes attributes of an item. Raises InvalidAction when it changes nothing."""
    condition = condition_of(requirement, layout, target.label)
    if changes is not None and (own := OWN_ATTRIBUTES & {*changes.names.values(), *_OWN_WORD.findall(changes.text)}):
        _refuse_own(target, own)
    version = next_version(requirement, layout, first)
    if version is not None and layout.version is not None:
        changes = with_version(changes, layout.version, version)
    elif changes is not None and layout.version is not None:
        _refuse_uncounted(target, layout, set_by_hand=_has_top_level(changes, layout.version))
    if changes is None:
        raise InvalidAction(target.label, "it changes nothing; give set=, remove=, add=, delete= or expression=.")
    body = _keyed(target, layout) | {"UpdateExpression": changes.text} | _conditional(condition, changes)
    return Action(
        "Update",
        target,
        body,
        _size(target, layout, condition, changes),
        version,
        version,
        _content(body, requirement, layout),
    )


def delete(target: Target, requirement: Requirement, layout: Layout) -> Action:
    """Return the action that deletes an item. Raises InvalidAction."""
    if requirement.if_absent:
        raise InvalidAction(target.label, "if_absent=True: there would be nothing to delete; use check().")
    condition = condition_of(requirement, layout, target.label)
    body = _keyed(target, layout) | _conditional(condition)
    number = None if requirement.if_version is None else requirement.if_version + 1
    content = _content(body, requirement, layout)
    return Action("Delete", target, body, _size(target, layout, condition), None, number, content)


def check(target: Target, requirement: Requirement, layout: Layout) -> Action:
    """Return the action that changes nothing and requires something. Raises InvalidAction when it requires nothing."""
    condition = condition_of(requirement, layout, target.label)
    if condition is None:
        raise InvalidAction(target.label, "a check without a condition checks nothing; say what must hold.")
    body = _keyed(target, layout) | _conditional(condition)
    content = _content(body, requirement, layout)
    return Action("ConditionCheck", target, body, _size(target, layout, condition), content=content)


def _put(target: Target, wire: WireItem, condition: Expression | None) -> Action:
    size = item_bytes(wire)
    limit = ITEM_BYTES - ITEM_HEADROOM_BYTES
    if size > limit:
        advice = "DynamoDB stores 400 KB an item, of which 2 KB are kept free. Store less, or split the item."
        raise ItemTooLarge(target.label, size, limit, "bytes", advice)
    body = {"TableName": target.table, "Item": wire} | _conditional(condition)
    return Action("Put", target, body, size)


def _content(body: Mapping[str, Any], requirement: Requirement, layout: Layout) -> Mapping[str, Any] | None:
    if layout.version is None or not (requirement.if_absent or requirement.if_version is not None):
        return None
    return _without_versions(body, layout.version)


def _without_versions(body: Mapping[str, Any], attribute: str) -> Mapping[str, Any]:
    """Return the body of an action without the versions that the library put into it."""
    content = dict(body)
    if "ExpressionAttributeValues" in body:
        values = body["ExpressionAttributeValues"]
        content["ExpressionAttributeValues"] = {
            name: value for name, value in values.items() if name not in (VERSION_VALUE, NEXT_VALUE)
        }
    if "Item" in body:
        content["Item"] = {name: value for name, value in body["Item"].items() if name != attribute}
    return content


def _refuse_uncounted(target: Target, layout: Layout, *, set_by_hand: bool) -> None:
    if layout.dense_versions and set_by_hand:
        raise InvalidAction(
            target.label,
            f"it sets {layout.version!r} by hand, and Layout(dense_versions=True) promises that no version is without "
            "an event. Use if_version= or if_absent=, which count.",
        )


def _has_top_level(changes: Expression, attribute: str) -> bool:
    """Whether an update expression mentions a top-level attribute, by a placeholder or in plain words."""
    spellings = [attribute, *(placeholder for placeholder, name in changes.names.items() if name == attribute)]
    return any(re.search(rf"(?<![#:.\w]){re.escape(one)}(?!\w)", changes.text) for one in spellings)


def _refuse_own(target: Target, names: Collection[str]) -> NoReturn:
    raise InvalidAction(
        target.label,
        f"{' and '.join(map(repr, sorted(names)))} is an attribute of the library's own: an item that has it would be "
        "taken for an outbox record. Use another name.",
    )


def _check_version(item: Mapping[str, Any], name: str, requirement: Requirement, target: Target, version: int) -> None:
    """Refuse an item whose own version is neither the one read nor the one to be written."""
    allowed = [version] if requirement.if_version is None else [version, requirement.if_version]
    if name in item and item[name] not in allowed:
        raise InvalidAction(
            target.label,
            f"the item says {name}={item[name]!r}, and {version} would be written over it. Leave {name!r} out.",
        )


def _keyed(target: Target, layout: Layout) -> dict[str, Any]:
    return {"TableName": target.table, "Key": {layout.pk: {"S": target.pk}, layout.sk: {"S": target.sk}}}


def _conditional(condition: Expression | None, changes: Expression | None = None) -> dict[str, Any]:
    parts = [part for part in (changes, condition) if part is not None]
    names: dict[str, str] = {}
    values: dict[str, AttributeValue] = {}
    for part in parts:
        names |= part.names
        values |= part.values
    body: dict[str, Any] = {}
    if condition is not None:
        body["ConditionExpression"] = condition.text
        body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if names:
        body["ExpressionAttributeNames"] = names
    if values:
        body["ExpressionAttributeValues"] = values
    return body


def _size(target: Target, layout: Layout, *parts: Expression | None) -> int:
    """Bytes of the key and of the values sent: a lower bound, for the item itself is not known here."""
    key = text_bytes(layout.pk + target.pk + layout.sk + target.sk)
    return key + sum(value_bytes(value) for part in parts if part is not None for value in part.values.values())
