"""What is not seen, or only in part: it is made neither right nor wrong."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from doctor_ground import PAYLOADS, PLACE, QUEUE, World, said

from dynamodb_outbox.doctor.account.asking import Asking
from dynamodb_outbox.doctor.choosing import FUNCTIONS, MAPPING, SCHEDULES, system_of
from dynamodb_outbox.doctor.inventory import Inventory, Piece, Unseen, function_name
from dynamodb_outbox.doctor.report import Report, report_on

WHY = Unseen("why")
ALARM, SUBSCRIPTION = "AWS::CloudWatch::Alarm", "AWS::SNS::Subscription"


def judged(inventory: Inventory) -> Report:
    """Return what is said of an inventory."""
    return report_on(system_of(inventory, PAYLOADS))


def unjudged(report: Report) -> dict[str, str]:
    """Return the checks that could not be made, and why."""
    return {each.id: each.why for each in report.unjudged}


def subscribed(world: World, topic: Any, inside: Any = ()) -> Report:
    """Return what is said of a topic with one subscription of its own, to a topic that may not be seen."""
    world["AlarmTopic"]["Subscription"] = inside
    world.pieces["Mail"] = Piece("Mail", SUBSCRIPTION, "", {"TopicArn": topic})
    return world.report()


def test_a_subscription_to_a_topic_that_is_not_seen_may_be_to_any() -> None:
    """Nobody has subscribed is said where that is known alone; one that is seen is enough."""
    report = subscribed(World(), WHY)
    assert (said(report), unjudged(report)) == ([], {"alarm-unheard": "why"})
    world = World()
    report = subscribed(world, world.pieces["AlarmTopic"].arn, WHY)
    assert (report.findings, report.unjudged) == ((), ())
    assert said(subscribed(World(), f"arn:aws:sns:{PLACE}:other")) == ["alarm-unheard"]


def composite(**properties: Any) -> World:
    """Return a world with an alarm that has no actions, and a composite one that looks at it."""
    world = World()
    world["RelayErrorsAlarm"].pop("AlarmActions")
    name = world["RelayErrorsAlarm"]["AlarmName"]
    told = {"AlarmRule": f'ALARM("{name}")', "AlarmActions": ["arn:aws:sns:us-east-1:000000000000:x"], **properties}
    world.pieces["All"] = Piece("All", "AWS::CloudWatch::CompositeAlarm", "", told)
    return world


@pytest.mark.parametrize("properties", [{"ActionsEnabled": "false"}, {"AlarmActions": []}, {"AlarmRule": "ALARM(x)"}])
def test_a_composite_alarm_that_does_not_notify_counts_for_nothing(properties: dict[str, Any]) -> None:
    """A flag may be text, as everywhere in a template."""
    assert said(composite().report()) == []
    assert said(composite(**properties).report()) == ["alarm-silent"]


@pytest.mark.parametrize("name", ["ActionsEnabled", "AlarmActions", "AlarmRule"])
def test_a_composite_alarm_that_is_not_seen_may_notify(name: str) -> None:
    """So the alarm that it may look at is not judged."""
    report = composite(**{name: WHY}).report()
    assert (said(report), unjudged(report)) == ([], {"alarm-silent": "why"})


def test_a_schedule_that_is_not_seen_may_be_enabled() -> None:
    """Whether it is, and how often it starts the sweeper, is not seen; one that is disabled is told by name."""
    world = World()
    world["SweeperSchedule"]["State"] = WHY
    report = world.report()
    assert (said(report), unjudged(report)) == ([], {"sweeper-unscheduled": "why"})
    world["SweeperSchedule"].update({"State": "ENABLED", "ScheduleExpression": "cron(0 * * * ? *)"})
    assert unjudged(world.report()) == {"sweeper-rare": "when cron(0 * * * ? *) runs is not worked out"}
    world["SweeperSchedule"].update({"State": "DISABLED", "Name": "sweeping"})
    assert [each.fix for each in world.report().findings] == ["aws events enable-rule --name sweeping"]


@pytest.mark.parametrize("targets", [WHY, [{"Arn": WHY}]], ids=["all", "one"])
def test_a_schedule_of_what_is_not_seen_may_be_the_sweepers(targets: Any) -> None:
    """Nobody sweeps is not said then."""
    world = World()
    world["SweeperSchedule"]["Targets"] = targets
    assert (said(world.report()), unjudged(world.report())) == (
        [],
        dict.fromkeys(("sweeper-unscheduled", "sweeper-refused", "sweeper-rare"), "why"),
    )


@pytest.mark.parametrize(
    ("kinds", "ids", "checks"),
    [
        ((MAPPING,), ("RelayStream",), {"mapping-missing", "mapping-disabled"}),
        ((ALARM,), ("RelayErrorsAlarm",), {"alarm-relay-errors"}),
        (SCHEDULES, ("SweeperSchedule",), {"sweeper-unscheduled"}),
        (FUNCTIONS, ("Sweeper", "SweeperErrorsAlarm", "SweeperStoppedAlarm"), {"sweeper-missing"}),
        ((SUBSCRIPTION,), (), set()),
    ],
)
def test_of_what_there_may_be_more_nothing_is_missing(
    kinds: tuple[str, ...], ids: tuple[str, ...], checks: set[str]
) -> None:
    """Kinds of which not all was seen, such as those in a loop of a template; what was seen is judged."""
    world = World()
    for each in ids:
        world.pieces.pop(each)
    report = judged(replace(world.inventory(), unseen=dict.fromkeys(kinds, WHY)))
    assert said(report) == []
    assert checks <= {id_ for id_, why in unjudged(report).items() if why == "why"}


def test_a_role_that_is_not_seen_hides_no_other_from_the_check_of_a_key() -> None:
    """What the sweeper's lacks is found where the relay's is not seen."""
    world = World(QUEUE)
    world.pieces.pop("RelayRole")
    world.statements("SweeperRole")[:] = [each for each in world.statements("SweeperRole") if each["Sid"] != "SinkKey"]
    report = world.report()
    assert said(report) == ["target-key"]
    assert {"target-key", "access-lacking"} <= unjudged(report).keys()


def test_a_list_without_end_is_not_seen() -> None:
    """After a thousand pages nobody knows what else there is."""
    endless = SimpleNamespace(list_functions=lambda **_: {"Functions": [{}], "NextMarker": "more"})
    found = Asking(lambda _service, _region: endless).all(
        "lambda", "ListFunctions", "Functions", ("NextMarker", "Marker")
    )
    assert found == Unseen("lambda:ListFunctions has more than 1,000 pages")


@pytest.mark.parametrize("name", ["{}", "{}:live", "000000000000:function:{}", "arn:aws:lambda:{place}:function:{}:7"])
def test_a_function_is_known_by_each_form_of_its_name(name: str) -> None:
    """As Lambda takes it: alone, from the account on, or as an ARN; with an alias, or a version."""
    assert function_name(name.format("my-function", place=PLACE)) == "my-function"
    world = World()
    world["RelayStream"]["FunctionName"] = name.format(world["Relay"]["FunctionName"], place=PLACE)
    assert said(world.report()) == []


def test_a_rule_for_events_of_cloudtrail_is_enabled() -> None:
    """It has a state of its own for that."""
    world = World()
    world["SweeperSchedule"]["State"] = "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS"
    assert said(world.report()) == []
