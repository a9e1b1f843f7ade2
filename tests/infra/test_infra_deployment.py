"""What a deployment refuses, and what follows from what it takes: mapping, variables, alarms."""

from __future__ import annotations

import json
import re
from typing import Any

import botocore.session
import pytest
from read_back import canonical

from deployments import ACCOUNT, DEPLOYMENTS, EMAIL, TELL
from dynamodb_outbox.aws_lambda import relay_from
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.eventsource.ttl import SERVICE
from dynamodb_outbox.core.limits import FILTER_LENGTH, PYTHON_RUNTIMES
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.plan import outputs_of, resources_of
from dynamodb_outbox.infra.references import Attribute, Joined, Local, Value, joined
from dynamodb_outbox.infra.resources import Alarm, Archive, Dashboard, Function, Resource, StreamMapping, Table
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import _table as table_request

PLAIN: dict[str, Any] = {"table": "shop", "sink": "bus:orders", "notify": EMAIL}

every = pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)


def only(deployment: Deployment, kind: type[Resource]) -> Any:
    """Return the first resource of a kind."""
    return next(each for each in resources_of(deployment) if isinstance(each, kind))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"table": "s"}, "table is 's'"),
        ({"table": 5}, "table is 5"),
        ({"table": "t" * 60}, "name is 'ttt"),
        ({"name": "a b"}, "name is 'a b'"),
        ({"sink": "orders"}, "names no destination"),
        ({"sink": "bus:"}, "names no destination"),
        ({"sink": "bus:a b"}, "EventBridge"),
        ({"sink": "queue:a.fiffo"}, "Sqs"),
        ({"sink": "arn:aws:s3:::bucket"}, "no sink for 's3'"),
        ({"sink": None}, "sink is None"),
        ({"sink": {}}, "a dict with a sink"),
        ({"sink": {"a*b": "bus:orders"}}, "can only be its last character"),
        ({"notify": "me"}, "notify is 'me'"),
        ({"notify": ACCOUNT.format("sns", "t:11111111-1111-1111-1111-111111111111")}, "the ARN of a topic is needed"),
        ({"notify": "arn:aws:sqs:eu-west-1:123456789012:q"}, "notify is 'arn:aws:sqs"),
        ({"existing_table": 1}, "existing_table is 1"),
        ({"new_bus": "yes"}, "new_bus is 'yes'"),
        ({"new_bus": True, "sink": "queue:orders"}, "new_bus needs one event bus"),
        ({"new_bus": True, "sink": "arn:aws:events:eu-west-1:123456789012:event-bus/orders"}, "by its name"),
        ({"new_bus": True, "sink": "bus:default"}, "new_bus would make the bus 'default'"),
        ({"new_bus": True, "sink": "bus:aws.x"}, "new_bus would make the bus 'aws.x'"),
        ({"sink": "bus:" + "a" * 257}, "1 to 256 letters"),
        ({"archive_days": 5, "sink": ACCOUNT.format("events", "event-bus/orders")}, "may be another account's"),
        ({"archive_days": 5, "sink": "queue:orders"}, "EventBridge alone archives"),
        ({"archive_days": 5, "sink": {"a": "bus:a", "b": "bus:b"}}, "EventBridge alone archives"),
        ({"archive_days": -1}, "archive_days is -1"),
        ({"layout": "x"}, "layout is 'x'"),
        ({"ordering": "any"}, "OUTBOX_ORDERING is 'any'"),
        ({"on_poison": "any"}, "OUTBOX_ON_POISON is 'any'"),
        ({"on_poison": "park_key", "ordering": "none"}, "park_key"),
        ({"on_poison": "park_key", "layout": Layout(pk_type="N")}, "park_key"),
        ({"parallelization": 2}, "give up their order: ordering='none'"),
        ({"parallelization": 11, "ordering": "none"}, "parallelization is 11"),
        ({"reserved_concurrency": 0, "layout": Layout(pk_type="N")}, "a concurrency of 1 has to be reserved"),
        ({"reserved_concurrency": -1}, "reserved_concurrency is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"environment": {"OUTBOX_SINK": "x"}}, "which has an argument of its own"),
        ({"environment": {"OUTBOX_METRICS": "none"}}, "sets OUTBOX_METRICS, which the alarms go by"),
        ({"environment": {"AWS_REGION": "eu-west-1"}}, "sets AWS_REGION, which Lambda sets itself"),
        ({"environment": {"A-B": "x"}}, "environment names 'A-B'; two letters"),
        ({"environment": {"A": "x"}}, "environment names 'A'; two letters"),
        ({"environment": {"": "x"}}, "environment names ''; two letters"),
        ({"environment": {"_HANDLER": "x"}}, "environment names '_HANDLER'; two letters"),
        ({"environment": {5: "x"}}, "environment names 5; two letters"),
        ({"environment": {"AB": 1}}, "environment sets AB to 1; text is needed"),
        ({"environment": {"AB": "\ud800"}}, "text is needed"),
        ({"environment": {"AB": "x" * 4_000}}, "environment comes to 4,1"),
        ({"environment": {"AB": "ü" * 2_000}}, "environment comes to 4,1"),
        ({"environment": {"OUTBOX_RATE": "5"}}, "did you mean OUTBOX_RATE_LIMIT?"),
        ({"on_failure": "x"}, "on_failure is 'x'"),
        ({"on_failure": ""}, "on_failure is ''"),
        ({"on_failure": "arn:aws:s3:::b/x/y"}, "as arn:aws:s3:::<name>, without a key behind it"),
        ({"on_failure": "arn:aws:s3:::*"}, "as arn:aws:s3:::<name>, without a key behind it"),
        ({"on_failure": "arn:aws:s3:eu-west-1:123456789012:bucket"}, "as arn:aws:s3:::<name>"),
        ({"on_failure": "arn:aws:s3:us-east-1::b-b"}, "as arn:aws:s3:::<name>"),
        ({"on_failure": "arn:aws:s3::123456789012:b-b"}, "as arn:aws:s3:::<name>"),
        ({"on_failure": "arn:aws:sns:::topic"}, "that of a queue or topic"),
        ({"on_failure": "arn:aws:sqs:eu-west-1:123456789012:x.fifo"}, "which is FIFO"),
        ({"on_failure": "arn:aws:sns:eu-west-1:123456789012:x.fifo"}, "a standard queue or topic"),
        ({"on_failure": "arn:aws:kms:eu-west-1:123456789012:key/1"}, "on_failure is 'arn:aws:kms"),
        ({"kms_key": "alias/x"}, "kms_key is 'alias/x'"),
        (
            {"on_failure_kms_key": "arn:aws:kms:eu-west-1:123456789012:key/1"},
            "on_failure_kms_key is that of on_failure",
        ),
        (
            {"on_failure": "arn:aws:sqs:eu-west-1:123456789012:x", "on_failure_kms_key": "x"},
            "on_failure_kms_key is 'x'",
        ),
        ({"sink_kms_key": "arn:aws:kms:eu-west-1:123456789012:alias/x"}, "sink_kms_key is"),
        ({"timeout_s": 14}, "timeout_s is 14"),
        ({"sweep_minutes": 0}, "sweep_minutes is 0"),
        ({"lag_minutes": 361}, "from 1 to 360 is needed. The mapping gives records up after 12 hours"),
        ({"log_days": 31}, "log_days is 31"),
        ({"runtime": ""}, "runtime is ''"),
        ({"runtime": "nodejs20.x"}, "runtime is 'nodejs20.x'; one of python3.10, "),
        ({"runtime": "python3.9"}, "runtime is 'python3.9'"),
        ({"architecture": "arm"}, "architecture is 'arm'"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], told: str) -> None:
    """By the argument's name, before anything is deployed."""
    with pytest.raises(ConfigurationError) as caught:
        Deployment(**{**PLAIN, **given})
    assert told in str(caught.value)


def test_an_environment_is_measured_with_the_longest_arns_that_it_may_have() -> None:
    """A description that fits is one that fits wherever it is deployed: Lambda measures the variables as JSON."""

    def size_of(made: Deployment) -> int:
        where = {"${Partition}": "aws-us-gov", "${Region}": "us-gov-west-1", "${AccountId}": "1" * 12}
        resources = resources_of(made)
        told = json.dumps(canonical(only(made, Function), resources[0])["environment"], separators=(",", ":"))
        for stands, value in {**where, "${Table.name}": made.table}.items():
            told = told.replace(stands, value)
        return len(told)

    sinks = {f"type{number}": f"queue:queue-{number}" for number in range(20)}
    room = 4096 - size_of(Deployment(**{**PLAIN, "sink": sinks, "environment": {"AB": ""}}))
    assert size_of(Deployment(**{**PLAIN, "sink": sinks, "environment": {"AB": "x" * room}})) == 4096
    with pytest.raises(ConfigurationError, match="4,097 bytes"):
        Deployment(**{**PLAIN, "sink": sinks, "environment": {"AB": "x" * (room + 1)}})


def test_names_of_archives_differ_where_prefixes_do() -> None:
    """Also at the end of a long one, which is cut: an archive's name is unique in an account and Region."""

    def name(prefix: str) -> str:
        found: str = only(Deployment(**PLAIN, name=prefix, new_bus=True), Archive).name
        return found

    assert name("shop") == "shop-archive"
    assert name("n" * 40) == "n" * 40 + "-archive"
    names = {name("n" * 49 + end) for end in "ab"} | {name("n" * 41), name("n" * 42)}
    assert len(names) == 4
    assert {len(each) for each in names} == {48}
    assert all(re.fullmatch("n{31}-[0-9a-f]{8}-archive", each) for each in names)


def test_the_runtimes_are_those_of_lambda_that_this_library_runs_in() -> None:
    """By botocore's own model; a newer one than the model knows may be there already."""
    model = botocore.session.get_session().get_service_model("lambda")
    known = {each for each in model.shape_for("Runtime").enum if re.fullmatch(r"python3\.[1-9][0-9]", each)}
    assert known <= set(PYTHON_RUNTIMES)
    assert model.shape_for("EnvironmentVariableName").metadata["pattern"] == "[a-zA-Z]([a-zA-Z0-9_])+"


@every
def test_the_mapping_lets_records_in_and_nothing_else(deployment: Deployment) -> None:
    """The filter, evaluated as Lambda does: an inserted record passes; its settling, its TTL and other items do not."""
    mapping: StreamMapping = only(deployment, StreamMapping)
    layout = deployment.layout
    (pattern,) = mapping.filters
    assert len(pattern) <= FILTER_LENGTH
    filters = compile_filters(*mapping.filters)
    record = {
        "sk": {"S": "META"},
        "pk": {"S": "ORDER#1"},
        layout.carrier: {"S": f"{layout.prefix}1"},
        "kind": {"S": "EVENT"},
    }
    inserted = {"eventName": "INSERT", "dynamodb": {"Keys": {}, "NewImage": record}}
    assert filters.match(inserted)
    assert not filters.match({**inserted, "eventName": "MODIFY"})
    assert not filters.match({"eventName": "REMOVE", "userIdentity": SERVICE, "dynamodb": {"OldImage": record}})
    entity = {**record, layout.carrier: {"S": "META"}, "kind": {"S": "ORDER"}}
    assert not filters.match({"eventName": "INSERT", "dynamodb": {"NewImage": entity}})


@every
def test_an_ordered_mapping_never_gives_up_by_count(deployment: Deployment) -> None:
    """Retries without end and one batch a shard at a time, where order is kept; bounded retries where it is not."""
    mapping: StreamMapping = only(deployment, StreamMapping)
    if deployment.ordering == "key":
        assert (mapping.retries, mapping.parallelization) == (-1, 1)
    else:
        assert 0 < mapping.retries <= 10_000
        assert only(deployment, Function).environment["OUTBOX_BREAKER_AFTER"] == "never"
    assert mapping.record_age_s == 12 * 3600


@every
def test_the_functions_are_set_up_as_the_handlers_take_it(deployment: Deployment) -> None:
    """The variables, with the ARNs that they will have, make a relay with the deployment's layout."""
    resources = resources_of(deployment)
    relay: Function = only(deployment, Function)
    variables = {
        name: value.replace("${Partition}", "aws").replace("${Region}", "eu-west-1").replace("${AccountId}", "1" * 12)
        for name, value in canonical(relay, resources[0])["environment"].items()
    }
    made = relay_from(variables)
    assert made.layout == deployment.layout
    assert variables["OUTBOX_TABLE"] == (deployment.table if deployment.existing_table else "${Table.name}")


@every
def test_others_are_told_the_names_of_what_was_made(deployment: Deployment) -> None:
    """Of the table, the functions, the mapping, and the bucket where one is made."""
    told = outputs_of(resources_of(deployment))
    assert list(told) == [
        "Table",
        "Relay",
        "RelayStream",
        "Sweeper",
        *(["GivenUp"] if not deployment.on_failure else []),
    ]
    assert {name: each.resource for name, each in told.items()} == {name: name for name in told}


@every
def test_the_table_is_the_one_that_the_local_engine_gets(deployment: Deployment) -> None:
    """Keys, types, index and stream, as `create_table` makes them."""
    if deployment.existing_table:
        return
    table: Table = only(deployment, Table)
    wanted = table_request(deployment.table, deployment.layout, table.stream_view)
    assert {
        each["AttributeName"]: each["AttributeType"] for each in wanted["AttributeDefinitions"]
    } == table.needs.types
    keys = [each["AttributeName"] for each in wanted["KeySchema"]]
    assert keys == [each for each in (table.needs.partition, table.needs.sort) if each]
    (index,) = wanted["GlobalSecondaryIndexes"]
    assert [each["AttributeName"] for each in index["KeySchema"]] == [
        table.needs.index.partition,
        table.needs.index.sort,
    ]
    assert tuple(index["Projection"]["NonKeyAttributes"]) == table.needs.index.projected


@every
def test_every_alarm_tells_somebody(deployment: Deployment) -> None:
    """All of them the same: the topic that is made, or the one that is given. All are on the dashboard."""
    resources = resources_of(deployment)
    alarms = [each for each in resources if isinstance(each, Alarm)]
    wanted: Value = TELL if deployment.notify == TELL else Attribute("AlarmTopic", "arn")
    assert {each.notify for each in alarms} == {wanted}
    assert len({each.name for each in alarms}) == len(alarms)
    body = canonical(only(deployment, Dashboard), resources[0])["body"]
    (first, *_) = json.loads(body)["widgets"]
    assert first["properties"]["alarms"] == [f"${{{each.id}.arn}}" for each in alarms]


def test_there_is_an_alarm_for_each_way_to_lose_sight_of_events() -> None:
    """By metric: what is late, dropped, given up, failing, throttled, parked, silent."""
    alarms = [each for each in resources_of(DEPLOYMENTS["plain"]) if isinstance(each, Alarm)]
    assert [(each.id, [metric.name for metric in each.metrics]) for each in alarms] == [
        ("IteratorAgeAlarm", ["IteratorAge"]),
        ("DroppedAlarm", ["DroppedEventCount"]),
        ("GivenUpAlarm", ["OnFailureDestinationDeliveredEventCount"]),
        ("GivenUpFailedAlarm", ["DestinationDeliveryFailures"]),
        ("RelayErrorsAlarm", ["Errors"]),
        ("RelayThrottlesAlarm", ["Throttles"]),
        ("ParkedAlarm", ["Parked"]),
        ("OldestPendingAlarm", ["OldestPending"]),
        ("SilenceAlarm", ["ConsumedWriteCapacityUnits", "PolledEventCount"]),
        ("SweeperErrorsAlarm", ["Errors"]),
        ("SweeperStoppedAlarm", ["Invocations"]),
    ]


@every
def test_alarms_are_within_what_cloudwatch_takes(deployment: Deployment) -> None:
    """Periods of whole minutes, a day at most together; no more values to alarm than are looked at."""
    for each in resources_of(deployment):
        if isinstance(each, Alarm):
            periods = {metric.period_s for metric in each.metrics}
            assert len(periods) == 1
            assert periods.pop() % 60 == 0
            assert each.periods * each.metrics[0].period_s <= 86_400
            assert 1 <= each.datapoints <= each.periods


@every
def test_a_resource_stands_behind_those_it_refers_to(deployment: Deployment) -> None:
    """So each can be made when its turn comes."""
    seen: set[str] = set()
    for each in resources_of(deployment):
        for name in referred(each):
            assert name in seen, (each.id, name)
        seen.add(each.id)


def referred(resource: Resource) -> set[str]:
    """Return the ids that a resource names in references."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, Attribute):
            found.add(value.resource)
        elif isinstance(value, Joined):
            list(map(look, value.parts))
        elif isinstance(value, dict):
            list(map(look, value.values()))
        elif isinstance(value, tuple):
            list(map(look, value))
        elif hasattr(value, "__dataclass_fields__"):
            list(map(look, vars(value).values()))

    look(resource)
    return found


def test_joined_text_is_as_short_as_can_be() -> None:
    """Text beside text is one text; one part is that part; nothing is the empty text."""
    here, there = Attribute("A", "arn"), Local("s3", "x")
    assert joined() == ""
    assert joined("a", "", "b") == "ab"
    assert joined("", here) == here
    assert joined("a", joined("b", here, "c"), "d", there) == Joined(("ab", here, "cd", there))
