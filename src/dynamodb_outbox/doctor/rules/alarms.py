"""Alarms: one for each way in which events may be late, held or lost, and somebody who is told.

Which there should be is what `infra.alarms` has; there is a check for each of those. An alarm counts when it looks at
the same metrics of the same functions, mapping and table, and can start: when it does is its owner's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.checks import (
    Check,
    Evidence,
    Said,
    Severity,
    Subject,
    of_functions,
    of_mappings,
    of_sweepers,
    of_system,
)
from dynamodb_outbox.doctor.inventory import NotSeen, Unseen, name_in, seen
from dynamodb_outbox.doctor.starting import never_starts
from dynamodb_outbox.infra.alarms import alarms_for
from dynamodb_outbox.infra.references import Attribute

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.system import Alarm, Metric, System
    from dynamodb_outbox.infra.resources import Alarm as Wanted
    from dynamodb_outbox.infra.resources import Metric as WantedMetric

__all__ = ["CHECKS"]

_AWS_KEY = "alias/aws/"

_About = Callable[["System"], Iterable[Subject]]


def _resources(wanted: Wanted) -> set[str]:
    values = [value for metric in wanted.metrics for value in metric.dimensions.values()]
    return {value.resource for value in values if isinstance(value, Attribute)}


def _about(wanted: Wanted) -> _About:
    resources = _resources(wanted)
    if "RelayStream" in resources:
        return of_mappings
    if "Relay" in resources:
        return of_functions
    return of_sweepers if "Sweeper" in resources else of_system


def _lacking(wanted: Wanted, thing: Any, system: System) -> Iterator[Said]:
    needed = [(each, _dimensions(each, thing, system)) for each in wanted.metrics]
    names = " and ".join(each.name for each in wanted.metrics)
    hidden: str | None = None
    said: list[str] = []
    for alarm in seen(system.alarms):
        looks = _looks(needed, alarm)
        never = never_starts(wanted, alarm) if looks is True else looks
        if looks is True and never is None:
            return
        if isinstance(never, Unseen):
            hidden = never.why
        elif isinstance(never, str):
            said.append(f"alarm {alarm.name} looks at {names}, and never starts: {never}")
    if hidden is not None:
        raise NotSeen(f"an alarm's metric ({hidden})")
    seen(system.unseen_alarm)
    yield from said or [f"no alarm looks at {names}"]


def _looks(needed: Iterable[tuple[WantedMetric, Mapping[str, str]]], alarm: Alarm) -> bool | Unseen:
    """Return whether an alarm looks at all metrics that are needed."""
    if isinstance(alarm.metrics, Unseen):
        return alarm.metrics
    answers = [_watched(metric, dimensions, alarm.metrics) for metric, dimensions in needed]
    if False in answers:
        return False
    return next((each for each in answers if isinstance(each, Unseen)), True)


def _dimensions(metric: WantedMetric, thing: Any, system: System) -> dict[str, str]:
    told: Mapping[str, Callable[[], str]] = {
        "RelayStream": lambda: str(thing.id),
        "Relay": lambda: str(getattr(thing, "function", None) or thing.name),
        "Sweeper": lambda: str(thing.name),
        "Table": lambda: name_in(seen(system.table_arn)),
    }
    return {
        name: told[value.resource]() if isinstance(value, Attribute) else str(value)
        for name, value in metric.dimensions.items()
    }


def _watched(wanted: WantedMetric, dimensions: Mapping[str, str], found: Iterable[Metric]) -> bool | Unseen:
    answer: bool | Unseen = False
    for metric in found:
        if (metric.namespace, metric.name) != (wanted.namespace, wanted.name):
            continue
        values = {name: metric.dimensions.get(name) for name in dimensions}
        hidden = next((each for each in values.values() if isinstance(each, Unseen)), None)
        if values == dimensions:
            return True
        answer = hidden or answer
    return answer


def _of_ours(system: System) -> tuple[Subject, ...]:
    """Alarms on the functions and their mapping."""
    if isinstance(system.alarms, Unseen):
        return (Subject("the alarms", system.alarms),)
    sweepers = () if isinstance(system.sweepers, Unseen) else system.sweepers
    mappings = () if isinstance(system.mappings, Unseen) else system.mappings
    names = {each.name for each in (*system.relays, *sweepers)} | {each.id for each in mappings}
    return tuple(
        Subject(f"alarm {each.name}", each, {"alarm": each.name})
        for each in system.alarms
        if not isinstance(each.metrics, Unseen)
        and any(value in names for metric in each.metrics for value in metric.dimensions.values())
    )


def _silent(alarm: Alarm, _system: System) -> Iterator[Said]:
    if alarm.relayed is True or (seen(alarm.enabled) and seen(alarm.actions)):
        return
    seen(alarm.relayed)
    yield "it has no actions" if alarm.enabled else "its actions are disabled"


def _of_topics(system: System) -> tuple[Subject, ...]:
    """Topics that alarms on ours notify."""
    if isinstance(system.alarms, Unseen):
        return ()
    alarms_of_ours: list[Alarm] = [each.thing for each in _of_ours(system)]
    arns = dict.fromkeys(arn for each in alarms_of_ours if isinstance(each.actions, tuple) for arn in each.actions)
    return tuple(Subject(f"topic {name_in(arn)}", arn, {"arn": arn}) for arn in arns if arn in system.topics)


def _unheard(arn: str, system: System) -> Iterator[Said]:
    topic = seen(system.topics[arn])
    if topic is None:
        yield "the topic is not there"
    elif not seen(topic.subscribed):
        yield "nobody has subscribed to it, and confirmed that"


def _locked(arn: str, system: System) -> Iterator[Said]:
    topic = seen(system.topics[arn])
    if topic is not None and (key := seen(topic.key)) is not None and _AWS_KEY in key:
        yield Evidence(f"it is encrypted with {key}")


def _check(wanted: Wanted) -> Check:
    return Check(
        id=f"alarm-{wanted.slug}",
        severity=Severity.WARNING,
        asks=f"An alarm looks at {' and '.join(f'`{each.name}`' for each in wanted.metrics)}, and can start",
        about=_about(wanted),
        look=partial(_lacking, wanted),
        consequence=f"Nobody is told: {wanted.says}",
        command="an alarm as `outbox infra` has it: docs/infrastructure.md",
    )


CHECKS = (
    *(_check(each) for each in alarms_for("any", "any", timeout_s=30, lag_minutes=1, sweep_minutes=1)),
    Check(
        id="alarm-silent",
        severity=Severity.WARNING,
        asks="Each of them has actions, which are enabled",
        about=_of_ours,
        look=_silent,
        consequence="It changes its colour, and nobody is told.",
        command="aws cloudwatch enable-alarm-actions --alarm-names <alarm>; or put-metric-alarm with --alarm-actions",
        snippet="AlarmActions: [!Ref <a topic>]",
    ),
    Check(
        id="alarm-unheard",
        severity=Severity.WARNING,
        asks="The topics that they notify are there, and have subscribers",
        about=_of_topics,
        look=_unheard,
        consequence="Nobody is told.",
        command="aws sns subscribe --topic-arn <arn> --protocol email --notification-endpoint <address>; and confirm",
        snippet="Subscription: [{Protocol: email, Endpoint: <address>}]",
    ),
    Check(
        id="alarm-topic-key",
        severity=Severity.WARNING,
        asks="Those topics are not encrypted with AWS's own key",
        about=_of_topics,
        look=_locked,
        consequence="CloudWatch may not use that key: alarms are lost in silence.",
        command="a key of yours, whose policy lets cloudwatch.amazonaws.com use it; or none",
    ),
)
