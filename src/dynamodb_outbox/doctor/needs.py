"""What a relay or a sweeper may need to do, by the description that its role would be made of: `infra.policy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import NOT_GIVEN_UP_TO
from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, NotSeen, Seen, Unseen, name_in, seen, segments
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.policy import relay_statements, sweeper_statements
from dynamodb_outbox.infra.references import Attribute, Joined, Local, Region, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dynamodb_outbox.doctor.system import Function, System
    from dynamodb_outbox.infra.resources import Statement

__all__ = ["Need", "needs_of"]

_SAMPLE = "bus:default"
_PUBLISHING = ("PublishBus", "PublishTopic", "PublishQueue", "WhoseAccount")


@dataclass(frozen=True)
class Need:
    """An action on a resource; None where any resource will do. `sid` is the statement that grants it."""

    sid: str
    action: str
    resource: str | None


def needs_of(function: Function, system: System) -> tuple[Need, ...]:
    """Return what a function needs. Raises NotSeen where that depends on what was not seen.

    Where events go may be hidden in the function's own code; what publishing needs is left out then.
    """
    arn = seen(system.table_arn)
    relays = function in system.relays
    failure = _failure(function, system) if relays else None
    try:
        deployment = _deployment(function, arn, failure)
    except ConfigurationError as error:
        raise NotSeen(f"what it needs cannot be told: {error}") from None
    group = seen(function.log_group)
    statements = (
        relay_statements(deployment, group, failure or "arn:aws:s3:::none")
        if relays
        else sweeper_statements(deployment, group)
    )
    return tuple(_needs(statements, _left_out(function, failure), arn, _stream(function, system)))


def _deployment(function: Function, table_arn: str, failure: str | None) -> Deployment:
    settings = function.settings
    sinks: Seen[Mapping[str, str]] = settings.sinks
    return Deployment(
        table=name_in(table_arn),
        name="doctor",
        sink=_SAMPLE if isinstance(sinks, Unseen) else dict(sinks),
        notify="nobody@example.com",
        existing_table=True,
        layout=seen(settings.layout),
        on_poison=seen(settings.on_poison),
        on_failure=failure,
    )


def _failure(function: Function, system: System) -> str | None:
    """Return where the function's mapping stores what it gives up; None where it has none, or one of Kafka, or FIFO."""
    for each in seen(system.mappings):
        if each.function == function.name:
            arn = seen(each.on_failure) or ""
            kind = segments(arn)[2:3]
            is_standard = kind in (["sqs"], ["sns"]) and not arn.endswith(NOT_GIVEN_UP_TO)
            return arn if kind == ["s3"] or is_standard else None
    return None


def _stream(function: Function, system: System) -> str | None:
    found = [each.stream for each in seen(system.mappings) if each.function == function.name]
    return next((each for each in found if isinstance(each, str)), None)


def _left_out(function: Function, failure: str | None) -> tuple[str, ...]:
    hidden = _PUBLISHING if isinstance(function.settings.sinks, Unseen) else ()
    return hidden if failure is not None else (*hidden, "GivenUp", "GivenUpBucket")


def _needs(
    statements: tuple[Statement, ...], left_out: tuple[str, ...], table_arn: str, stream: str | None
) -> Iterator[Need]:
    for statement in statements:
        if statement.sid in left_out:
            continue
        for action in statement.actions:
            if statement.sid == "Stream":
                yield Need(statement.sid, action, stream)
            else:
                yield from (Need(statement.sid, action, _said(each, table_arn)) for each in statement.resources)


def _said(value: Value, table_arn: str) -> str:
    """Return a reference as text: all of them are to the table, or of its account and Region."""
    if isinstance(value, str):
        return value
    if isinstance(value, Joined):
        return "".join(_said(each, table_arn) for each in value.parts)
    place = segments(table_arn)
    region, account = place[3] or ANY_REGION, place[4] or ANY_ACCOUNT
    if isinstance(value, Local):
        return f"arn:{place[1]}:{value.service}:{region}:{account}:{value.resource}"
    if isinstance(value, Region):
        return region
    if isinstance(value, Attribute):
        return table_arn
    raise TypeError(value)
