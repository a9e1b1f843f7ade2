"""Policies of resources: whether one lets somebody do something, and whether it denies it to somebody.

They are read as those of roles are: a condition counts as met where a statement allows, and as not met where it denies.
Of conditions one is read: the ARN that a call has to come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.inventory import Inventory, Piece, Seen, Unseen, function_name, same_arn, segments
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.roles import matches, says, statements_of
from dynamodb_outbox.doctor.system import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dynamodb_outbox.doctor.system import Role

__all__ = [
    "Call",
    "Policy",
    "bucket_policy",
    "denies",
    "invoking_policy",
    "lets",
    "policy_of",
    "topic_policy",
    "who_is",
]

Policy = Seen["tuple[Statement, ...] | None"]
"""The statements of a policy; None where a resource has none."""

_ACCOUNT = 4


@dataclass(frozen=True)
class Call:
    """Somebody by all names that a policy may have for them, an action on a resource, and what the call comes from."""

    who: tuple[str, ...]
    action: str
    resource: str | None = None
    source: str | None = None


def who_is(role: Role) -> tuple[str, ...]:
    """Return the names that a policy may have for a role: its own, and its account's."""
    parts = segments(role.arn)
    return (role.arn, *(name for each in parts[_ACCOUNT:][:1] for name in (each, f"arn:{parts[1]}:iam::{each}:root")))


def policy_of(name: str, document: Any) -> Policy:
    """Return the statements of a document, a mapping or JSON text."""
    if document is None:
        return None
    hidden: list[str] = []
    found = statements_of(name, document, hidden)
    return Unseen(hidden[0]) if hidden else found


def lets(policy: Policy, call: Call) -> Seen[bool]:
    """Return whether a policy allows a call. None allows nothing."""
    if policy is None or isinstance(policy, Unseen):
        return policy or False
    denied = denies(policy, call)
    if denied is True:
        return False
    answers = [_is_about(each, call) for each in policy if each.allows]
    if True in answers:
        return denied if isinstance(denied, Unseen) else True
    return next((each for each in answers if isinstance(each, Unseen)), False)


def denies(policy: Policy, call: Call) -> Seen[bool]:
    """Return whether a policy denies a call, whatever its circumstances."""
    if policy is None or isinstance(policy, Unseen):
        return policy or False
    answers = [_is_about(each, call) for each in policy if not each.allows and not each.conditional]
    return True in answers or next((each for each in answers if isinstance(each, Unseen)), False)


def _is_about(statement: Statement, call: Call) -> Seen[bool]:
    answers = [_names(statement, call), says(statement, call.action, call.resource), _comes_from(statement, call)]
    return False not in answers and next((each for each in answers if isinstance(each, Unseen)), True)


def _names(statement: Statement, call: Call) -> Seen[bool]:
    if isinstance(statement.principals, Unseen):
        return statement.principals
    return any(each == "*" or any(same_arn(each, one) for one in call.who) for each in statement.principals)


def _comes_from(statement: Statement, call: Call) -> Seen[bool]:
    if call.source is None or isinstance(statement.sources, Unseen):
        return statement.sources if isinstance(statement.sources, Unseen) else True
    return statement.sources == () or any(matches(each, call.source) for each in statement.sources)


def bucket_policy(piece: Piece, inventory: Inventory) -> Policy:
    """Return a bucket's policy: it has one, so that there is no more where that is found."""
    names = {segments(piece.arn)[-1], piece.id}
    own, hidden = _found(piece, inventory, "AWS::S3::BucketPolicy", lambda told: [told.text("Bucket")], names)
    return hidden if own is None else own


def topic_policy(piece: Piece, inventory: Inventory) -> Policy:
    """Return a topic's policy, one as a bucket's; None where it has the one that each begins with."""

    def topics(told: Properties) -> Iterable[Seen[str | None]]:
        found = told.texts("Topics")
        return [found] if isinstance(found, Unseen) else found

    own, hidden = _found(piece, inventory, "AWS::SNS::TopicPolicy", topics, {piece.arn})
    return hidden if own is None else own


def invoking_policy(piece: Piece, inventory: Inventory, name: str) -> Policy:
    """Return who may invoke the function `name`. They add up: one not seen may allow what no other does."""

    def function(told: Properties) -> Iterable[Seen[str | None]]:
        found = told.text("FunctionName")
        return [function_name(found) if isinstance(found, str) else found]

    def document(told: Properties) -> dict[str, Any]:
        return {"Statement": [_permission(told, piece.arn)]}

    own, hidden = _found(piece, inventory, "AWS::Lambda::Permission", function, {name}, document=document)
    if own is None or isinstance(own, Unseen) or hidden is None:
        return hidden if own is None else own
    return (*own, Statement(policy="others", allows=True, actions=("*",), resources=("*",), principals=hidden))


def _found(
    piece: Piece,
    inventory: Inventory,
    kind: str,
    about: Callable[[Properties], Iterable[Seen[str | None]]],
    names: set[str],
    *,
    document: Callable[[Properties], Any] = lambda told: told.raw("PolicyDocument"),
) -> tuple[Policy, Unseen | None]:
    """Return the policy that is the resource's property, as an account tells it, or that resources of its own make up.

    Beside it why there may be more than these, None where there is no more.
    """
    if "Policy" in piece.properties:
        return policy_of(piece.id, piece.properties["Policy"]), None
    hidden = inventory.lacks(kind)
    own: list[Policy] = []
    for each in inventory.of(kind):
        told = Properties(each.properties)
        said = list(about(told))
        hidden = next((one for one in said if isinstance(one, Unseen)), hidden)
        if names & {one for one in said if isinstance(one, str)}:
            own.append(policy_of(each.id, document(told)))
    unseen = next((each for each in own if isinstance(each, Unseen)), None)
    statements = tuple(one for each in own if isinstance(each, tuple) for one in each)
    return unseen or (statements if own else None), hidden


def _permission(told: Properties, function: str) -> dict[str, Any]:
    """Return the statement that a permission makes in a function's policy."""
    source = told.raw("SourceArn")
    said = {"Effect": "Allow", "Principal": told.raw("Principal"), "Action": told.raw("Action"), "Resource": function}
    return said if source is None else {**said, "Condition": {"ArnLike": {"AWS:SourceArn": source}}}
