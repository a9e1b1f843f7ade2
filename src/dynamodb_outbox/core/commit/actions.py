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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.codec.size import item_bytes, value_bytes
from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.core.commit.conditions import VERSION_VALUE, Requirement, condition_of, next_version
from dynamodb_outbox.core.commit.updates import NEXT_VALUE, with_version
from dynamodb_outbox.core.limits import ITEM_BYTES, ITEM_HEADROOM_BYTES
from dynamodb_outbox.core.record.place import is_record, is_wanted
from dynamodb_outbox.errors import InvalidAction, ItemTooLarge, UnconditionalPut
from dynamodb_outbox.layout import OWN_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dynamodb_outbox.core.commit.expressions import Expression
    from dynamodb_outbox.core.commit.targets import Target
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout, Wanted

_NOTHING = Requirement()
_OWN_WORD = re.compile(rf"(?<![#:.\w])(?:{'|'.join(sorted(OWN_ATTRIBUTES))})(?!\w)")

__all__ = ["Action", "check", "delete", "own_put", "put", "update"]


@dataclass(frozen=True)
class Action:
    """One member of TransactItems: `kind` is its name there, `body` what stands under it, `size` its bytes.

    `version` is the version that it writes, None when it counts none; `number` orders its events; `content` is what
    stands for it in a fingerprint, where that is not the body itself; `requirement` is what it requires of its item.
    """

    kind: str
    target: Target
    body: Mapping[str, Any]
    size: int
    version: int | None = None
    number: int | None = None
    content: Mapping[str, Any] | None = None
    requirement: Requirement = _NOTHING

    @property
    def writes(self) -> bool:
        """Whether it changes an item, and does not merely look at one."""
        return self.kind != "ConditionCheck"


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
    condition = condition_of(requirement, layout, target)
    wire = serialize_item(item)
    if not OWN_ATTRIBUTES.isdisjoint(wire):
        _refuse_own(target, OWN_ATTRIBUTES & wire.keys())
    if target.with_records and layout.select is not None and is_record(wire, layout):
        _refuse_record(target, layout.select)
    version = next_version(requirement, layout, first)
    if version is None or layout.version is None:
        _refuse_uncounted(target, layout, set_by_hand=layout.version in wire)
        return _put(target, wire, requirement, condition)
    _check_version(item, layout.version, requirement, target, version)
    counted = _put(target, {**wire, layout.version: {"N": str(version)}}, requirement, condition)
    return replace(counted, version=version, number=version, content=_without_versions(counted.body, layout.version))


def own_put(target: Target, wire: WireItem, layout: Layout) -> Action:
    """Return the action that stores one of the library's own items where nothing is yet."""
    requirement = Requirement(if_absent=True)
    return _put(target, wire, requirement, condition_of(requirement, layout, target))


def update(
    target: Target, changes: Expression | None, requirement: Requirement, layout: Layout, *, first: int = 1
) -> Action:
    """Return the action that changes attributes of an item. Raises InvalidAction when it changes nothing."""
    condition = condition_of(requirement, layout, target)
    if changes is not None and (own := OWN_ATTRIBUTES & {*changes.names.values(), *_OWN_WORD.findall(changes.text)}):
        _refuse_own(target, own)
    creates = not requirement.if_exists and requirement.if_version is None
    if creates and target.with_records and layout.select is not None and _makes_record(target, changes, layout.select):
        _refuse_record(target, layout.select)
    version = next_version(requirement, layout, first)
    if version is not None and layout.version is not None:
        changes = with_version(changes, layout.version, version)
    elif changes is not None and layout.version is not None:
        _refuse_uncounted(target, layout, set_by_hand=_has_top_level(changes, layout.version))
    if changes is None:
        raise InvalidAction(target.label, "it changes nothing; give set=, remove=, add=, delete= or expression=.")
    body = _keyed(target) | {"UpdateExpression": changes.text} | _conditional(condition, changes)
    return Action(
        "Update",
        target,
        body,
        _size(target, condition, changes),
        version,
        version,
        _content(body, requirement, layout),
        requirement,
    )


def delete(target: Target, requirement: Requirement, layout: Layout) -> Action:
    """Return the action that deletes an item. Raises InvalidAction."""
    if requirement.if_absent:
        raise InvalidAction(target.label, "if_absent=True: there would be nothing to delete; use check().")
    condition = condition_of(requirement, layout, target)
    body = _keyed(target) | _conditional(condition)
    number = None if requirement.if_version is None else requirement.if_version + 1
    content = _content(body, requirement, layout)
    return Action("Delete", target, body, _size(target, condition), None, number, content, requirement)


def check(target: Target, requirement: Requirement, layout: Layout) -> Action:
    """Return the action that changes nothing and requires something. Raises InvalidAction when it requires nothing."""
    condition = condition_of(requirement, layout, target)
    if condition is None:
        raise InvalidAction(target.label, "a check without a condition checks nothing; say what must hold.")
    body = _keyed(target) | _conditional(condition)
    content = _content(body, requirement, layout)
    return Action("ConditionCheck", target, body, _size(target, condition), content=content, requirement=requirement)


def _put(target: Target, wire: WireItem, requirement: Requirement, condition: Expression | None) -> Action:
    size = item_bytes(wire)
    limit = ITEM_BYTES - ITEM_HEADROOM_BYTES
    if size > limit:
        advice = "DynamoDB stores 400 KB an item, of which 2 KB are kept free. Store less, or split the item."
        raise ItemTooLarge(target.label, size, limit, "bytes", advice)
    body = {"TableName": target.table, "Item": wire} | _conditional(condition)
    return Action("Put", target, body, size, requirement=requirement)


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


def _makes_record(target: Target, changes: Expression | None, select: Mapping[str, Wanted]) -> bool:
    """Whether an update that creates its item may create one that `select` takes for a record.

    Which value goes where is not read from the expression: any of them may, into any attribute that it names.
    """
    for name, wanted in select.items():
        if name in target.key:
            candidates = [target.key[name]]
        else:
            names_it = changes is not None and _has_top_level(changes, name)
            candidates = list(changes.values.values()) if changes is not None and names_it else []
        if not any(is_wanted(value, wanted) for value in candidates):
            return False
    return True


def _refuse_record(target: Target, select: Mapping[str, Wanted]) -> NoReturn:
    raise InvalidAction(
        target.label,
        f"by Layout(select={dict(select)!r}) this item would be taken for an outbox record, and published. Give it "
        "other values there, keep it in another table, or tell records by something that only they have.",
    )


def _check_version(item: Mapping[str, Any], name: str, requirement: Requirement, target: Target, version: int) -> None:
    """Refuse an item whose own version is neither the one read nor the one to be written."""
    allowed = [version] if requirement.if_version is None else [version, requirement.if_version]
    if name in item and item[name] not in allowed:
        raise InvalidAction(
            target.label,
            f"the item says {name}={shown(item[name])}, and {version} would be written over it. Leave {name!r} out.",
        )


def _keyed(target: Target) -> dict[str, Any]:
    return {"TableName": target.table, "Key": target.key}


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


def _size(target: Target, *parts: Expression | None) -> int:
    """Bytes of the key and of the values sent: a lower bound, for the item itself is not known here."""
    sent = sum(value_bytes(value) for part in parts if part is not None for value in part.values.values())
    return item_bytes(target.key) + sent
