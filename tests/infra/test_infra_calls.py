"""What a function may do is what it does: the calls of relay and sweeper, recorded, beside the policies of their roles.

Each deployment's functions run on the engine, from the very variables that the deployment sets, through all that makes
them call something: records to publish and settle, poison that is in the table and poison that is not, a record of
another layout, a key with so many published records that it is read item by item, a destination that is missing. What
Lambda itself does in the role's name cannot be recorded: those statements are told by name, each with the page that
asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import botocore.client
import pytest
from read_back import canonical

from deployments import DEPLOYMENTS, TELL
from dynamodb_outbox.aws_lambda import relay_from, sweeper_from
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import Role, Statement
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conftest import Account
    from dynamodb_outbox.infra.destinations import Destination

REGION, OTHER_REGION = "us-east-1", "us-west-2"
OWN = "0" * 12
"""Stands for the account of the engine in an ARN."""
ID = "0198c0de-0000-7000-8000-{:012d}"

BY_LAMBDA = {
    "Stream": "LDG, Using Lambda with DynamoDB: execution role permissions",
    "GivenUp": "LDG, Retain discarded records for a DynamoDB event source",
    "GivenUpBucket": "the same page: both s3:PutObject and s3:ListBucket",
    "Log": "LDG, Sending function logs to CloudWatch Logs",
    "Key": "DDG, Encryption at rest: usage notes; LDG as for GivenUp",
    "GivenUpKey": "LDG as for GivenUp: encryption of the destination with a key of one's own",
    "SinkKey": "SQS and SNS developer guides, Key management: producers",
}
"""Statements for what AWS does in the role's name, and where that is documented."""

POISON = {"type": {"S": "order.placed"}, "payload": {"S": "no JSON"}, "ts": {"N": "1"}}
GOOD = POISON | {"payload": {"S": "{}"}}

CASES = {
    "a bus": Deployment(table="shop", sink="bus:orders", notify=TELL, layout=Layout(index_shards=2)),
    "a topic, deleted": Deployment(
        table="shop", sink="topic:orders", notify=TELL, layout=Layout(index_shards=2, settle="delete")
    ),
    "a queue, nothing parked": Deployment(
        table="shop", sink="queue:orders", notify=TELL, layout=Layout(index_shards=2, settle="none"), on_poison="block"
    ),
    "a FIFO queue, keys parked": Deployment(
        table="shop",
        sink="queue:orders.fifo",
        notify=TELL,
        layout=Layout(index_shards=2, settle="mark"),
        on_poison="park_key",
    ),
    "the default bus, no sort key": replace(DEPLOYMENTS["own keys"], kms_key=None, on_poison="park"),
    "routes, a table of records": Deployment(
        table="outbox",
        notify=TELL,
        layout=Layout(index_shards=2, placement="table"),
        sink={"order.*": "bus:orders", "a": "queue:a", "b": "topic:b"},
    ),
    "a bus here, and one in another Region": Deployment(
        table="shop",
        notify=TELL,
        layout=Layout(index_shards=2),
        sink={"order.*": "bus:orders", "stock.*": f"arn:aws:events:{OTHER_REGION}:{OWN}:event-bus/stock"},
    ),
}


class Calls:
    """Calls of AWS that were made: (action, ARN of what it was made on)."""

    def __init__(self, account: str) -> None:
        self.made: set[tuple[str, str]] = set()
        self.are_noted = False
        self.sees_empty_pages = False
        self._account = account

    def note(self, client: Any, operation: str, parameters: Mapping[str, Any]) -> None:
        """Note a call by the actions that IAM asks for."""
        before = f"arn:aws:{client.service_model.service_name}:{client.region_name}:{self._account}:"
        arn = lambda what: what if what.startswith("arn:") else before + what  # noqa: E731 -- what is one already stays
        self.made |= set(ACTIONS[operation](parameters, arn))


def _on_table(action: str) -> Callable[[Mapping[str, Any], Any], Iterator[tuple[str, str]]]:
    def actions(parameters: Mapping[str, Any], arn: Any) -> Iterator[tuple[str, str]]:
        index = f"/index/{parameters['IndexName']}" if "IndexName" in parameters else ""
        yield f"dynamodb:{action}", arn(f"table/{parameters['TableName']}{index}")

    return actions


def _statements(parameters: Mapping[str, Any], arn: Any) -> Iterator[tuple[str, str]]:
    for each in parameters["Statements"]:
        verb, table = re.findall(r'^(UPDATE|DELETE)(?: FROM)? "([^"]+)"', each["Statement"])[0]
        yield f"dynamodb:PartiQL{verb.title()}", arn(f"table/{table}")


def _transaction(parameters: Mapping[str, Any], arn: Any) -> Iterator[tuple[str, str]]:
    for each in parameters["TransactItems"]:
        ((verb, inner),) = each.items()
        yield f"dynamodb:{verb}Item", arn(f"table/{inner['TableName']}")


def _queue(action: str) -> Callable[[Mapping[str, Any], Any], Iterator[tuple[str, str]]]:
    return lambda parameters, arn: iter([(f"sqs:{action}", arn(parameters["QueueUrl"].rpartition("/")[2]))])


ACTIONS: Mapping[str, Callable[[Mapping[str, Any], Any], Iterator[tuple[str, str]]]] = {
    **{each: _on_table(each) for each in ("GetItem", "PutItem", "UpdateItem", "Query")},
    "BatchGetItem": lambda given, arn: (
        ("dynamodb:BatchGetItem", arn(f"table/{one}")) for one in given["RequestItems"]
    ),
    "BatchExecuteStatement": _statements,
    "TransactWriteItems": _transaction,
    "PutEvents": lambda given, arn: (("events:PutEvents", arn(one["EventBusName"])) for one in given["Entries"]),
    "DescribeEventBus": lambda given, arn: iter(
        [("events:DescribeEventBus", arn(given["Name"] if ":" in given["Name"] else f"event-bus/{given['Name']}"))]
    ),
    "PublishBatch": lambda given, _: iter([("sns:Publish", given["TopicArn"])]),
    "GetTopicAttributes": lambda given, _: iter([("sns:GetTopicAttributes", given["TopicArn"])]),
    "GetQueueUrl": lambda given, arn: iter([("sqs:GetQueueUrl", arn(given["QueueName"]))]),
    "GetQueueAttributes": _queue("GetQueueAttributes"),
    "SendMessageBatch": _queue("SendMessage"),
}
"""What IAM asks for, by the operation. Another operation fails the test: nobody has thought of what it needs."""


@pytest.fixture
def calls(engine: Account, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Record the calls of the relay's clients, and send them to the engine."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", engine.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", engine.account)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    calls = Calls(engine.account)
    plain = botocore.client.BaseClient._make_api_call

    def noted(self: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
        if calls.are_noted:
            calls.note(self.meta, operation, parameters)
            if calls.sees_empty_pages and operation == "Query" and "IndexName" not in parameters:
                return {"Items": [], "LastEvaluatedKey": {"pk": {"S": "on"}, "sk": {"S": "and on"}}}
        return plain(self, operation, parameters)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", noted)
    return calls


def of_account(deployment: Deployment, account: str) -> Deployment:
    """Return a deployment with this account in the ARNs of its destinations."""
    if not isinstance(deployment.sink, Mapping):
        return deployment
    return replace(deployment, sink={each: str(to).replace(OWN, account) for each, to in deployment.sink.items()})


def role_of(deployment: Deployment, function: str, account: str) -> tuple[Mapping[str, Any], ...]:
    """Return the statements of a function's role, with the ARNs of an account."""
    resources = resources_of(deployment)
    (role,) = (each for each in resources if isinstance(each, Role) and each.policy == function)
    table = f"arn:aws:dynamodb:{REGION}:{account}:table/{deployment.table}"
    found = []
    for each in canonical(role, resources[0])["statements"]:
        arns = [resolved(arn, account).replace("${Table.arn}", table) for arn in each["resources"]]
        found.append(each | {"resources": arns})
    return tuple(found)


def resolved(text: str, account: str) -> str:
    """Return a value of a description as it is once deployed."""
    return text.replace("${Partition}", "aws").replace("${Region}", REGION).replace("${AccountId}", account)


def provide(deployment: Deployment, engine: Account) -> None:
    """Make the table and the destinations."""
    create_table(engine.client("dynamodb"), deployment.table, layout=deployment.layout)
    for each in deployment.destinations:
        name = each.sample.rpartition(":")[2].removeprefix("event-bus/")
        fifo = (
            {"Attributes": {f"Fifo{'Queue' if each.kind == 'queue' else 'Topic'}": "true"}} if ".fifo" in name else {}
        )
        if each.kind == "topic":
            engine.client("sns").create_topic(Name=name, **fifo)
        elif each.kind == "queue":
            engine.client("sqs").create_queue(QueueName=name, **fifo)
        elif name != "default":
            _events(engine, each).create_event_bus(Name=name)


def row(deployment: Deployment, number: int, content: Mapping[str, Any], prefix: str | None = None) -> dict[str, Any]:
    """Return a record, hand-written or of another layout."""
    layout = deployment.layout
    marked = {"S": (layout.prefix if prefix is None else prefix) + ID.format(number)}
    keys = {layout.pk: marked} if layout.sk is None else {layout.pk: {"S": f"ORDER#{number}"}, layout.sk: marked}
    return {**content, **keys}


def ours(deployment: Deployment, number: int, settle: str, type_: str | None = None) -> dict[str, Any]:
    """Return a record as an `Outbox` writes it, whose layout has this settle."""
    layout = deployment.layout
    told = {
        "ob_v": {"N": "1"},
        "id": {"S": ID.format(number)},
        "source": {"S": "shop"},
        "key": {"S": f"ORDER#{number}"},
        "time": {"S": "2026-01-01T00:00:00Z"},
        "at": {"N": "1767225600000"},
        "state": {"S": "pending"},
        "ob_pending": {"S": "00"},
        "ob_settle": {"S": settle},
    }
    mark = schema.columns_mark(layout)
    content = schema.renamed({**GOOD, "type": {"S": type_ or _type(deployment)}, **told}, layout)
    return row(deployment, number, content if mark is None else {**content, schema.COLUMNS: mark})


def _type(deployment: Deployment) -> str:
    """Return a type of event that a route takes."""
    return next(iter(deployment.routes)).replace("*", "order.placed")


class Running:
    """The relay of a deployment, as Lambda runs it with the deployment's variables."""

    def __init__(self, deployment: Deployment, engine: Account, calls: Calls) -> None:
        self._deployment = deployment
        self._stream = (
            f"arn:aws:dynamodb:{REGION}:{engine.account}:table/{deployment.table}/stream/2026-01-01T00:00:00.000"
        )
        self._relay = relay_from(variables_of(deployment, engine.account))
        self._calls = calls

    def invoke(self, *rows: dict[str, Any]) -> None:
        """Relay records of these items, and note the calls."""
        records = [
            {
                "eventName": "INSERT",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "eventSourceARN": self._stream,
                "dynamodb": {
                    "SequenceNumber": str(100 + number),
                    "Keys": {name: image[name] for name in self._deployment.layout.keys.types},
                    "NewImage": image,
                },
            }
            for number, image in enumerate(rows)
        ]
        self._calls.are_noted = True
        try:
            self._relay.lambda_handler({"Records": records}, Context())
        finally:
            self._calls.are_noted = False


def variables_of(deployment: Deployment, account: str) -> dict[str, str]:
    """Return the variables that the deployment sets, as they are once deployed."""
    resources = resources_of(deployment)
    (relay,) = (each for each in resources if each.id == "Relay")
    variables: Mapping[str, str] = canonical(relay, resources[0])["environment"]
    return {
        name: resolved(value, account).replace("${Table.name}", deployment.table) for name, value in variables.items()
    }


class Context:
    """Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """Return what is enough on a busy machine: nothing here is waited for."""
        return 60_000


def publish_and_park(deployment: Deployment, engine: Account, calls: Calls) -> None:
    """Have the relay do all that there is to do when destinations are there."""
    relay = Running(deployment, engine, calls)
    types = ["order.placed"] if "*" in deployment.routes else [each.rstrip("*") for each in deployment.routes]
    good = [row(deployment, number, {**GOOD, "type": {"S": each}}) for number, each in enumerate(types)]
    there, gone = row(deployment, 10, POISON), row(deployment, 11, POISON)
    other = row(deployment, 12, {"ob_v": {"N": "1"}, "ob_pending": {"S": "00"}}, prefix="OTHER#")
    before = ours(deployment, 13, "mark")  # written before the layout had the settle that it has
    client = engine.client("dynamodb")
    for each in (*good, there, before):
        client.put_item(TableName=deployment.table, Item=each)
    relay.invoke(*good, there, gone, before)
    relay.invoke(good[0], other)


def _events(engine: Account, where: Destination) -> Any:
    return local_client("events", engine.url, account=engine.account, region=where.region or REGION)


def delete_bus(where: Destination, engine: Account) -> bool:
    """Delete a bus, and tell whether there was one."""
    name = where.sample.rpartition("/")[2]
    if where.kind != "bus" or name == "default":
        return False
    _events(engine, where).delete_event_bus(Name=name)
    return True


def find_no_bus(deployment: Deployment, engine: Account, calls: Calls) -> None:
    """Have another relay find that its buses are gone."""
    relay = Running(deployment, engine, calls)
    for pattern, each in deployment.routes.items():
        if delete_bus(each, engine):
            relay.invoke(row(deployment, 20, {**GOOD, "type": {"S": pattern.replace("*", "placed")}}))


@pytest.mark.parametrize("case", CASES)
def test_the_relay_may_do_what_it_does_and_no_more(
    case: str,
    engine: Account,
    calls: Calls,
    uncovered: None,  # noqa: ARG001 -- it runs the relay, which others cover
) -> None:
    """Every call is allowed, on what it is made on; and every action that is allowed is called for, likewise."""
    deployment = of_account(CASES[case], engine.account)
    provide(deployment, engine)
    publish_and_park(deployment, engine, calls)
    find_no_bus(deployment, engine, calls)
    compare(calls, role_of(deployment, "relay", engine.account))


@pytest.mark.parametrize("case", CASES)
def test_the_sweeper_may_do_what_it_does_and_no_more(
    case: str,
    engine: Account,
    calls: Calls,
    uncovered: None,  # noqa: ARG001 -- as above
) -> None:
    """The same of the other function."""
    deployment = of_account(CASES[case], engine.account)
    provide(deployment, engine)
    sweep(deployment, engine, calls)
    compare(calls, role_of(deployment, "sweeper", engine.account))


def compare(calls: Calls, statements: Sequence[Mapping[str, Any]]) -> None:
    """Hold the calls to the statements, and the statements to the calls."""
    refused = [call for call in calls.made if not any(allows(each, *call) for each in statements)]
    assert refused == []
    unused = [
        (each["sid"], action, arn)
        for each in statements
        if each["sid"] not in BY_LAMBDA
        for action in each["actions"]
        for arn in each["resources"]
        if not any(made == action and fnmatchcase(on, arn) for made, on in calls.made)
    ]
    assert unused == []


def sweep(deployment: Deployment, engine: Account, calls: Calls) -> None:
    """Have sweepers publish, settle and park; read a key item by item; and find that the buses are gone."""
    client = engine.client("dynamodb")
    types = ["order.placed"] if "*" in deployment.routes else [each.rstrip("*") for each in deployment.routes]

    def run(number: int, *, poison: bool = False) -> None:
        for place, type_ in enumerate(types):
            ways = dict.fromkeys((deployment.layout.settle, "mark"))
            for step, way in enumerate(each for each in ways if each != "none"):
                record = ours(deployment, 100 * number + 10 * place + step, way, type_)
                content = {**record, deployment.layout.column("payload"): {"S": "no JSON"}} if poison else record
                client.put_item(TableName=deployment.table, Item=content)
        calls.are_noted = True
        try:
            sweeper.lambda_handler({}, Context())
        finally:
            calls.are_noted = False

    sweeper = sweeper_from(variables_of(deployment, engine.account))
    run(1)
    run(2, poison=True)
    calls.sees_empty_pages = True
    run(3)
    calls.sees_empty_pages = False
    sweeper = sweeper_from(variables_of(deployment, engine.account))  # which asks for the destinations again
    for each in deployment.destinations:
        delete_bus(each, engine)
    run(4)


def allows(statement: Mapping[str, Any], action: str, arn: str) -> bool:
    """Whether a statement allows an action on a resource."""
    return action in statement["actions"] and any(fnmatchcase(arn, each) for each in statement["resources"])


@pytest.mark.parametrize("deployment", [*DEPLOYMENTS.values(), *CASES.values()])
def test_a_policy_names_single_actions_and_single_resources(deployment: Deployment) -> None:
    """No star but where objects, streams or log streams of one thing are meant; and each resource is of its service."""
    for function in ("relay", "sweeper"):
        for each in role_of(deployment, function, "123456789012"):
            for action in each["actions"]:
                service, _, verb = action.partition(":")
                assert verb.isalpha()
                for arn in each["resources"]:
                    assert arn.startswith(("${GivenUp.arn}", f"arn:aws:{service}:")), (action, arn)
                    assert "*" not in re.sub(r"(/stream/|/aws/lambda/|:)\*$", "", arn)
        assert len({each["sid"] for each in role_of(deployment, function, "1" * 12)}) == len(
            role_of(deployment, function, "1" * 12)
        )


def test_each_statement_without_calls_is_of_some_deployment() -> None:
    """The list of what Lambda does itself has no entry that stands for nothing."""
    roles = [each for deployment in DEPLOYMENTS.values() for each in resources_of(deployment) if isinstance(each, Role)]
    sids = {statement.sid for role in roles for statement in role.statements if isinstance(statement, Statement)}
    assert set(BY_LAMBDA) <= sids
