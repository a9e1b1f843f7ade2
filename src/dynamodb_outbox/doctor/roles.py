"""A role, by what is seen of its policies; and whether they allow an action.

IAM's own evaluation knows more. Conditions count in the role's favour: as met where a statement allows, as not met
where it denies. Anything else that may take a permission away and is not seen, a denial or a permissions boundary,
leaves it unseen. A whole policy that is not seen is taken for one that allows. Of AWS's managed policies those are
known here that Lambda functions are given most; a template does not say what is in the others.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Inventory, Seen, Unseen, name_in, segments
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.system import Role, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.inventory import Piece

__all__ = ["allows", "matches", "role_of", "says", "statements_of"]

_LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
_STREAM = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
_MANAGED = {
    "AWSLambdaBasicExecutionRole": _LOGS,
    "AWSLambdaDynamoDBExecutionRole": (*_STREAM, *_LOGS),
    "AWSXrayWriteOnlyAccess": ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    "AWSXRayDaemonWriteAccess": ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    "AmazonDynamoDBFullAccess": ("dynamodb:*",),
    "AmazonEventBridgeFullAccess": ("events:*",),
    "AmazonSNSFullAccess": ("sns:*",),
    "AmazonSQSFullAccess": ("sqs:*",),
    "AmazonS3FullAccess": ("s3:*",),
    "AdministratorAccess": ("*",),
}
"""What they allow on every resource, of what matters here [the managed policies' own pages]."""

_LIKE = ("ArnLike", "ArnEquals", "StringLike", "StringEquals")
_BOUNDARY = Unseen("what its permissions boundary leaves of it")
_REGION, _ACCOUNT = 3, 4
_PARTS = 6


def role_of(piece: Piece, inventory: Inventory) -> Role:
    """Return a role with its policies: those inside of it, and those that name it."""
    found = Properties(piece.properties)
    statements: list[Statement] = []
    hidden: list[str] = []
    for each in _documents(piece, found, inventory, hidden):
        statements += each
    attached = found.items("ManagedPolicyArns")
    names = []
    for arn in () if isinstance(attached, Unseen) else attached:
        names += _managed(arn, inventory, statements, hidden)
    hidden += [attached.why] if isinstance(attached, Unseen) else []
    for told in _told(found):
        names.append(str(told.raw("PolicyName")))
        made = statements_of(names[-1], told.raw("PolicyDocument"), hidden)
        statements += [dataclasses.replace(one, managed=bool(told.raw("Managed"))) for one in made]
    hidden += [str(each) for each in piece.properties.get("HiddenPolicies", ())]
    return Role(
        name=str(found.raw("RoleName") or piece.id),
        arn=piece.arn,
        statements=tuple(statements),
        attached=tuple(names),
        hidden=tuple(hidden),
        trust=_trust(found.raw("AssumeRolePolicyDocument")),
        boundary=None if found.raw("PermissionsBoundary") is None else _BOUNDARY,
    )


def _trust(document: Any) -> Seen[tuple[Statement, ...] | None]:
    hidden: list[str] = []
    found = None if document is None else statements_of("its trust policy", document, hidden)
    return Unseen(hidden[0]) if hidden else found


def _told(role: Properties) -> tuple[Properties, ...]:
    """Return attached policies with their documents, as an account tells them."""
    found = role.parts("AttachedPolicies")
    return () if isinstance(found, Unseen) else found


def _documents(
    piece: Piece, found: Properties, inventory: Inventory, hidden: list[str]
) -> Iterator[tuple[Statement, ...]]:
    inline = found.parts("Policies")
    if isinstance(inline, Unseen):
        hidden.append(inline.why)
    else:
        for each in inline:
            yield statements_of(str(each.raw("PolicyName")), each.raw("PolicyDocument"), hidden)
    lacking = inventory.lacks("AWS::IAM::Policy", "AWS::IAM::RolePolicy")
    hidden += [] if lacking is None else [lacking.why]
    for other in inventory.of("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
        told = Properties(other.properties)
        named = told.items("Roles")
        roles = () if isinstance(named, Unseen) else (*named, told.raw("RoleName"))
        if piece.id in roles or piece.properties.get("RoleName", piece.id) in roles:
            yield statements_of(str(told.raw("PolicyName") or other.id), told.raw("PolicyDocument"), hidden)


def _managed(arn: Any, inventory: Inventory, statements: list[Statement], hidden: list[str]) -> list[str]:
    """Add what a managed policy allows, or that it is not seen; return its name."""
    if isinstance(arn, Unseen):
        hidden.append(f"a managed policy ({arn.why})")
        return []
    name = name_in(str(arn))
    own = inventory.at(str(arn), "AWS::IAM::ManagedPolicy")
    if own is not None and not isinstance(own, Unseen):
        statements += statements_of(name, own.properties.get("PolicyDocument"), hidden)
    elif name in _MANAGED and segments(str(arn))[-1].startswith("policy/") and ":iam::aws:" in str(arn):
        statements.append(Statement(policy=name, allows=True, actions=_MANAGED[name], resources=("*",), managed=True))
    else:
        hidden.append(f"the managed policy {name}")
    return [name]


def statements_of(policy: str, document: Any, hidden: list[str]) -> tuple[Statement, ...]:
    """Return the statements of a document, a mapping or JSON text; note what of it cannot be read."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            document = Unseen("it is no JSON")
    if isinstance(document, Unseen):
        hidden.append(f"the policy {policy} ({document.why})")
        return ()
    found = Properties(document).parts("Statement")
    if isinstance(found, Unseen):
        hidden.append(f"the policy {policy} ({found.why})")
        return ()
    effects = [each.raw("Effect") for each in found]
    hidden += [f"the policy {policy} ({each.why})" for each in effects if isinstance(each, Unseen)]
    return tuple(_statement(policy, each) for each in found)


def _statement(policy: str, found: Properties) -> Statement:
    """Return a statement; one that may deny, and may not, is a denial of what is not seen."""
    effect, condition = found.raw("Effect"), found.raw("Condition")
    denies = effect == "Deny" or isinstance(effect, Unseen)
    unsure = next((each for each in (effect, condition) if denies and isinstance(each, Unseen)), None)
    not_actions, not_resources = found.raw("NotAction") is not None, found.raw("NotResource") is not None
    return Statement(
        policy=policy,
        allows=not denies,
        actions=unsure or found.texts("NotAction" if not_actions else "Action"),
        resources=found.texts("NotResource" if not_resources else "Resource"),
        not_actions=not_actions,
        not_resources=not_resources,
        conditional=unsure is None and bool(condition),
        principals=_principals(found),
        sources=_sources(condition),
    )


def _principals(found: Properties) -> Seen[tuple[str, ...]]:
    """Return who a statement is about: everybody where it does not say, as in a role's own policies."""
    said = found.raw("Principal")
    if found.raw("NotPrincipal") is not None:
        return Unseen("who it is about, by NotPrincipal")
    if not isinstance(said, Mapping):
        return said if isinstance(said, Unseen) else ("*",) if said is None else (str(said),)
    each_kind = [Properties(said).texts(name) for name in said]
    hidden = next((each for each in each_kind if isinstance(each, Unseen)), None)
    return hidden or tuple(one for each in each_kind if isinstance(each, tuple) for one in each)


def _sources(condition: Any) -> Seen[tuple[str, ...]]:
    """Return the ARNs that a call has to come from; none where it may come from anywhere."""
    for operator, said in condition.items() if isinstance(condition, Mapping) else ():
        for name in said if operator in _LIKE and isinstance(said, Mapping) else ():
            if str(name).lower() == "aws:sourcearn":
                return Properties(said).texts(name)
    return condition if isinstance(condition, Unseen) else ()


def allows(role: Role, action: str, resource: str | None) -> Seen[bool]:
    """Return whether a role may do something with a resource (None: with any at all)."""
    answers = [says(each, action, resource) for each in role.statements if each.allows]
    denied = [says(each, action, resource) for each in role.statements if not each.allows and not each.conditional]
    if True in denied:
        return False
    if True in answers:
        return _unseen_of(denied) or role.boundary or True
    return _unseen_of(answers) or (Unseen(role.hidden[0]) if role.hidden else False)


def _unseen_of(answers: list[Seen[bool]]) -> Unseen | None:
    return next((each for each in answers if isinstance(each, Unseen)), None)


def says(statement: Statement, action: str, resource: str | None) -> Seen[bool]:
    """Return whether a statement is about an action on a resource (None: on any at all)."""
    if isinstance(statement.actions, Unseen):
        return statement.actions
    named = any(fnmatch.fnmatchcase(action.lower(), _literal(each).lower()) for each in statement.actions)
    if named is statement.not_actions:
        return False
    if resource is None:
        return True
    if isinstance(statement.resources, Unseen):
        return statement.resources
    return any(matches(each, resource) for each in statement.resources) is not statement.not_resources


def matches(pattern: str, resource: str) -> bool:
    """Whether a resource of a statement is another one's ARN, as IAM compares them."""
    parts, others = segments(pattern), segments(resource)
    if len(parts) != _PARTS or len(others) != _PARTS:
        return fnmatch.fnmatchcase(resource, _literal(pattern))
    return all(_part_matches(place, part, other) for place, (part, other) in enumerate(zip(parts, others, strict=True)))


def _part_matches(place: int, part: str, other: str) -> bool:
    unknown = {_REGION: ANY_REGION, _ACCOUNT: ANY_ACCOUNT}.get(place)
    return (unknown is not None and unknown in (part, other)) or fnmatch.fnmatchcase(other, _literal(part))


def _literal(pattern: str) -> str:
    """Return a pattern for fnmatch, which knows brackets besides."""
    return pattern.replace("[", "[[]")
