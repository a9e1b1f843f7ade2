"""What the roles may do: all that is needed, and not everything."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, of_all_functions
from dynamodb_outbox.doctor.inventory import NotSeen, Unseen, seen
from dynamodb_outbox.doctor.needs import needs_of
from dynamodb_outbox.doctor.roles import allows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.checks import Way
    from dynamodb_outbox.doctor.needs import Need
    from dynamodb_outbox.doctor.system import Function, Statement, System

__all__ = ["CHECKS"]

_CLOSES: dict[str, tuple[Way, ...]] = {"GivenUp": ("failure",), "GivenUpBucket": ("failure",), "Log": ()}
"""What is closed by want of single statements; by want of others it is the function's own way."""
_NOWHERE = ("dynamodb:liststreams", "logs:", "xray:", "ec2:", "cloudwatch:putmetricdata", "kms:listkeys")
"""Beginnings of actions that have no resource to be granted on, or are granted for what Lambda does itself."""
_FULL = ("AdministratorAccess", "PowerUserAccess")


def _lacking(function: Function, system: System) -> Iterator[Said]:
    role = seen(function.role)
    lacking: list[Need] = []
    hidden: str | None = None
    for need in needs_of(function, system):
        answer = allows(role, need.action, need.resource)
        if isinstance(answer, Unseen):
            hidden = answer.why
        elif not answer:
            lacking.append(need)
    for (resource, sid), needs in groupby(lacking, key=lambda each: (each.resource, each.sid)):
        said = f"role {role.name} lacks {', '.join(each.action for each in needs)} on {resource or 'anything'}"
        yield Evidence(said, {"role": role.name}, _CLOSES.get(sid))
    if hidden is not None:
        raise NotSeen(hidden)


def _wide(function: Function, _system: System) -> Iterator[Said]:
    role = seen(function.role)
    for name in role.attached:
        if name in _FULL or name.endswith("FullAccess"):
            yield Evidence(f"role {role.name} has the managed policy {name}", {"role": role.name})
    for statement in role.statements:
        if statement.allows and not statement.managed and (said := _said(statement)) is not None:
            yield Evidence(f"policy {statement.policy} of role {role.name} allows {said}", {"role": role.name})
    parts = [part for each in role.statements if each.allows for part in (each.actions, each.resources)]
    hidden = [each.why for each in parts if isinstance(each, Unseen)] + list(role.hidden)
    if hidden:
        raise NotSeen(hidden[0])


def _said(statement: Statement) -> str | None:
    """Return what a statement allows that no function of this library needs, None when there is nothing."""
    actions = () if isinstance(statement.actions, Unseen) else statement.actions
    if statement.not_actions:
        return f"everything but {', '.join(actions)}"
    whole = [each for each in actions if each == "*" or (each.endswith(":*") and not each.lower().startswith(_NOWHERE))]
    if whole:
        return ", ".join(whole)
    if statement.conditional or isinstance(statement.resources, Unseen) or "*" not in statement.resources:
        return None
    everywhere = [each for each in actions if not each.lower().startswith(_NOWHERE)]
    return f"{', '.join(everywhere)} on every resource" if everywhere else None


CHECKS = (
    Check(
        id="access-lacking",
        severity=Severity.ERROR,
        asks="The role may do what the function needs",
        about=of_all_functions,
        look=_lacking,
        consequence="A call is refused: events are held, or records neither settled nor parked.",
        command="`outbox infra` prints the role; add what it lacks to <role>",
        snippet="the statement of `outbox infra sam` for these actions",
        closes=("own",),
    ),
    Check(
        id="access-wide",
        severity=Severity.WARNING,
        asks="The role may not do much else",
        about=of_all_functions,
        look=_wide,
        consequence="Whoever takes the function over has all of it.",
        command="name the actions and the resources: `outbox infra` prints them for <role>",
        snippet="the statements of `outbox infra sam`",
    ),
)
