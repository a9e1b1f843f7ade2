"""Fixes that are commands, followed: what they make, or change, is right."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import botocore.session
import pytest
from botocore.validate import validate_parameters
from doctor_ground import BUS, PAYLOADS, UNORDERED, World, said
from test_doctor_checks import index, mapping, piece, table, without

from dynamodb_outbox.doctor.choosing import system_of
from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Piece, Unseen
from dynamodb_outbox.doctor.report import report_on
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.checks import Finding
    from dynamodb_outbox.infra.deployment import Deployment

NUMBERS = ("batch-size", "parallelization-factor", "maximum-retry-attempts", "maximum-record-age-in-seconds")
LISTS = ("function-response-types",)


def parameters(command: str, operation: str) -> dict[str, Any]:
    """Return what a command of the AWS CLI sends, held to the service's model."""
    _, service, _, *words = shlex.split(command)
    found: dict[str, Any] = {}
    while words:
        option, *words = words
        name = option.removeprefix("--")
        value: Any = words.pop(0) if words and not words[0].startswith("--") else True
        if name in NUMBERS:
            value = int(value)
        elif name in LISTS:
            value = [value]
        elif name == "metrics-config":
            value = {"Metrics": [value.removeprefix("Metrics=")]}
        elif isinstance(value, str) and value.startswith(("{", "[")):
            value = json.loads(value)
        found["".join(part.title() for part in name.split("-"))] = value
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    validate_parameters(found, model.input_shape)
    return found


def only(world: World, id_: str, source: Literal["account", "template"] = "account") -> Finding:
    """Return what is found, which is one thing."""
    found = report_on(system_of(replace(world.inventory(), source=source), PAYLOADS)).findings
    assert {each.id for each in found} == {id_}
    return found[0]


@pytest.mark.parametrize("settle", ["expire", "none"])
@pytest.mark.parametrize("deployment", [BUS, UNORDERED], ids=["ordered", "unordered"])
def test_a_mapping_that_is_made_as_told_is_right(deployment: Deployment, settle: Any) -> None:
    """Nothing is found about it, but that the user has to name a bucket."""
    world = World(replace(deployment, layout=Layout(settle=settle, prefix="OUT'BOX#")))
    one, bucket = world.pieces.pop("RelayStream"), world.pieces["GivenUp"].arn
    told = only(world, "mapping-missing").fix.replace("arn:aws:s3:::<a bucket>", bucket)
    told = told.replace("${AWS::Region}", ANY_REGION).replace("${AWS::AccountId}", ANY_ACCOUNT)
    world.pieces["RelayStream"] = Piece(one.id, one.kind, one.arn, parameters(told, "CreateEventSourceMapping"))
    assert world.report().findings == ()


def test_an_account_is_told_by_its_number() -> None:
    """Also that of local engines, which stands for any where a template is read; a template has words for it."""
    world = World()
    world.statements("RelayRole")[0]["Action"] = []
    account, template = (only(world, "access-lacking", source).evidence for source in ("account", "template"))
    assert f":{ANY_ACCOUNT}:table/shop" in account
    assert ":${AWS::AccountId}:table/shop" in template


def test_what_is_not_known_of_a_mapping_that_has_to_be_made_is_left_to_the_user() -> None:
    """The stream of a table that has none by now, and the filter of a layout that is not seen."""
    world = World()
    without("RelayStream")(world)
    table(StreamSpecification=None)(world)
    world["Relay"]["Environment"]["Variables"]["OUTBOX_LAYOUT"] = Unseen("why")
    (found,) = (each for each in world.report().findings if each.id == "mapping-missing")
    assert "--event-source-arn <the table's stream> " in found.fix
    assert "--filter-criteria <the layout's filter> " in found.fix


def test_an_index_that_is_wrong_is_deleted_first() -> None:
    """One that is missing is made at once; in a template as in an account, for an index cannot be changed."""
    for break_ in (
        index(lambda one: one["KeySchema"].pop()),
        index(lambda one: one["Projection"].update(NonKeyAttributes=["id"])),
    ):
        world = World()
        break_(world)
        first, then = only(world, "pending-index").fix.split("; when it is gone: ")
        updates = [parameters(each, "UpdateTable")["GlobalSecondaryIndexUpdates"] for each in (first, _short(then))]
        assert [[*each] for (each,) in updates] == [["Delete"], ["Create"]]
        assert only(world, "pending-index", "template").fix.startswith("deploy without the index")
    world = World()
    table(GlobalSecondaryIndexes=[])(world)
    (update,) = parameters(_short(only(world, "pending-index").fix), "UpdateTable")["GlobalSecondaryIndexUpdates"]
    right = World()["Table"]["GlobalSecondaryIndexes"][0]
    assert update["Create"] == {name: right[name] for name in update["Create"]}
    assert only(world, "pending-index", "template").fix.startswith("GlobalSecondaryIndexes: ")


def _short(command: str) -> str:
    """Return a command without its attribute definitions, which are in the CLI's own form."""
    before, rest = command.split(" --attribute-definitions ")
    return f"{before} --global-secondary-index-updates {rest.partition('--global-secondary-index-updates ')[2]}"


def test_time_to_live_by_another_attribute_is_disabled_first() -> None:
    """And a table takes one change an hour: both are told, for an account and a template."""
    world = World()
    table(TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})(world)
    for source in ("account", "template"):
        fix = only(world, "ttl-attribute", source).fix
        assert fix.index("ttl") < fix.index("an hour later") < fix.index("expires_at")
        assert fix.replace(": ", "=").lower().index("enabled=false") < fix.index("an hour later")


def test_nothing_is_said_of_a_sweeper_where_nothing_can_be_swept() -> None:
    """With settle='none' nothing is in the index: none is missing, nor has it to run; nor does it take what waits."""
    unswept = replace(BUS, layout=Layout(settle="none"))
    for break_ in (
        without("Sweeper", "SweeperErrorsAlarm", "SweeperStoppedAlarm", "SweeperSchedule"),
        without("SweeperSchedule"),
        piece("SweeperSchedule", ScheduleExpression="rate(2 hours)"),
    ):
        world = World(unswept)
        break_(world)
        assert said(world.report()) == []
        break_(other := World())
        assert said(other.report()) != []
    world = World(unswept)
    mapping(MaximumBatchingWindowInSeconds=300)(world)
    assert only(world, "batching-window").evidence == "MaximumBatchingWindowInSeconds is 300"
