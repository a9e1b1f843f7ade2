"""The sweeper: that there is one, that it runs, and that it does what the relay does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, layouts_of, of_sweepers, of_system
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.environment.settings import layout_text
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function, System

__all__ = ["CHECKS"]

_LONGEST_MINUTES = 15


def _is_swept(layout: Layout) -> bool:
    """Whether a sweeper finds anything: what is pending is in the index."""
    return layout.settle != "none"


def _missing(system: System, _same: System) -> Iterator[Said]:
    if not seen(system.sweepers) and (not system.relays or any(map(_is_swept, layouts_of(system)))):
        yield "no function with the handler dynamodb_outbox.aws_lambda.sweep_handler for this table"


def _unscheduled(function: Function, system: System) -> Iterator[Said]:
    schedules = seen(system.schedules[function.name])
    if not _is_swept(seen(function.settings.layout)) or any(each.enabled is True for each in schedules):
        return
    disabled = [each.name for each in schedules if not seen(each.enabled)]
    if disabled:
        yield Evidence(
            f"its schedule {disabled[0]} is disabled", {"remedy": f"aws events enable-rule --name {disabled[0]}"}
        )
    else:
        yield Evidence("no schedule invokes it", {"remedy": "a schedule as `outbox infra` has it"})


def _refused(function: Function, system: System) -> Iterator[Said]:
    running = [each for each in seen(system.schedules[function.name]) if each.enabled is True]
    if not _is_swept(seen(function.settings.layout)) or any(each.allowed is True for each in running):
        return
    for each in running:
        if not seen(each.allowed):
            yield Evidence(f"its policy does not let rule {each.name} invoke it", {"rule": each.arn})


def _rare(function: Function, system: System) -> Iterator[Said]:
    every = [seen(each.minutes) for each in seen(system.schedules[function.name]) if each.enabled is not False]
    if every and min(every) > _LONGEST_MINUTES and _is_swept(seen(function.settings.layout)):
        yield f"it runs every {min(every):g} minutes"


def _different(function: Function, system: System) -> Iterator[Said]:
    own = function.settings
    relays = [each.settings for each in system.relays if each.ready_made and function.ready_made]
    if not relays:
        return
    relay = next((each for each in relays if each.layout == own.layout), relays[0])
    for what, its, others in (
        ("layout", own.layout, relay.layout),
        ("sink", own.sinks, relay.sinks),
        ("on_poison", own.on_poison, relay.on_poison),
    ):
        if seen(its) != seen(others):
            yield f"its {what} is {_told(seen(its))}, and the relay's {_told(seen(others))}"


def _told(value: object) -> str:
    return layout_text(value) if isinstance(value, Layout) else f"{value!r}"


CHECKS = (
    Check(
        id="sweeper-missing",
        severity=Severity.WARNING,
        asks="A sweeper is there",
        about=of_system,
        look=_missing,
        consequence="What the stream misses or forgets stays pending, and is never published.",
        command="the sweeper of `outbox infra`; or: outbox sweep --table <table> --sink ..., with the relay's layout",
        closes=("sweep",),
    ),
    Check(
        id="sweeper-unscheduled",
        severity=Severity.WARNING,
        asks="A schedule invokes the sweeper",
        about=of_sweepers,
        look=_unscheduled,
        consequence="Nobody sweeps.",
        command="<remedy>",
        snippet="Events: {Schedule: {Type: Schedule, Properties: {Schedule: rate(1 minute)}}}",
        closes=("sweep",),
    ),
    Check(
        id="sweeper-refused",
        severity=Severity.WARNING,
        asks="The sweeper's policy lets that schedule invoke it (a rule of EventBridge)",
        about=of_sweepers,
        look=_refused,
        consequence="Nobody sweeps.",
        command="aws lambda add-permission --function-name <function> --statement-id sweep --principal "
        "events.amazonaws.com --action lambda:InvokeFunction --source-arn <rule>",
        snippet="an AWS::Lambda::Permission of <function> for Principal: events.amazonaws.com, SourceArn: <rule>",
        closes=("sweep",),
    ),
    Check(
        id="sweeper-rare",
        severity=Severity.NOTE,
        asks="It runs every quarter of an hour at least",
        about=of_sweepers,
        look=_rare,
        consequence="What the stream misses is late by that much.",
        command="rate(1 minute): an idle sweep is one query of each shard of the index",
    ),
    Check(
        id="sweeper-differs",
        severity=Severity.ERROR,
        asks="Relay and sweeper have one layout, sink and on_poison",
        about=of_sweepers,
        look=_different,
        consequence="The sweeper publishes elsewhere, or takes other items for records.",
        command="give both functions the same OUTBOX_ variables",
        limits=("P4",),
        closes=("sweep",),
    ),
)
