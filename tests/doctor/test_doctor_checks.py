"""Each check is broken by itself: it is found, and nothing else is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from doctor_ground import BUS, PAYLOADS, PLACE, QUEUE, UNORDERED, World, said

from dynamodb_outbox.doctor.checks import Severity
from dynamodb_outbox.doctor.choosing import system_of
from dynamodb_outbox.doctor.inventory import Piece, Unseen
from dynamodb_outbox.doctor.report import report_on
from dynamodb_outbox.doctor.rules import CHECKS
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.doctor.checks import Finding
    from dynamodb_outbox.infra.deployment import Deployment


@dataclass
class Break:
    """How a check is broken, in which deployment, and words that the evidence has; `beside` is a note beside it."""

    id: str
    how: Callable[[World], object]
    evidence: str = ""
    deployment: Deployment = BUS
    beside: str = ""


def mapping(**settings: Any) -> Callable[[World], object]:
    """Set properties of the mapping; None takes one out."""
    return lambda world: changed(world["RelayStream"], settings)


def table(**settings: Any) -> Callable[[World], object]:
    """Set properties of the table."""
    return lambda world: changed(world["Table"], settings)


def relay(**settings: Any) -> Callable[[World], object]:
    """Set properties of the relay."""
    return lambda world: changed(world["Relay"], settings)


def changed(properties: dict[str, Any], settings: dict[str, Any]) -> None:
    """Set properties; None takes one out."""
    for name, value in settings.items():
        if value is None:
            properties.pop(name, None)
        else:
            properties[name] = value


def filtered(*patterns: Any) -> Callable[[World], object]:
    """Give the mapping these patterns."""
    texts = [{"Pattern": each if isinstance(each, str) else json.dumps(each)} for each in patterns]
    return mapping(FilterCriteria={"Filters": texts})


def variables(function: str = "Relay", **values: str) -> Callable[[World], object]:
    """Set variables of a function."""
    return lambda world: world[function]["Environment"]["Variables"].update(values)


def without(*ids: str) -> Callable[[World], object]:
    """Take resources out."""
    return lambda world: [world.pieces.pop(each) for each in ids]


def index(change: Callable[[dict[str, Any]], object]) -> Callable[[World], object]:
    """Change the index of pending records."""
    return lambda world: change(world["Table"]["GlobalSecondaryIndexes"][0])


def lacks(role: str, action: str) -> Callable[[World], object]:
    """Take an action from a role."""

    def change(world: World) -> None:
        for each in world.statements(role):
            each["Action"] = [one for one in each["Action"] if one != action]

    return change


def own_code(world: World) -> None:
    """Make the relay one of the user's own, with boto3's retries turned up."""
    world["Relay"]["Handler"] = "app.handler"
    world["Relay"]["Environment"]["Variables"] = {"AWS_MAX_ATTEMPTS": "8"}


def another_relay(world: World) -> None:
    """Make a second mapping to the same relay."""
    one = world.pieces["RelayStream"]
    world.pieces["Again"] = Piece("Again", one.kind, one.arn, one.properties)


def more_readers(*names: str) -> Callable[[World], object]:
    """Let other functions read the stream."""

    def change(world: World) -> None:
        one = world.pieces["RelayStream"]
        for name in names:
            told = {**one.properties, "FunctionName": name}
            world.pieces[name] = Piece(name, one.kind, f"arn:aws:lambda:{PLACE}:event-source-mapping:{name}", told)

    return change


def to_a_queue(world: World) -> None:
    """Let what is given up go to a queue that is there."""
    arn = f"arn:aws:sqs:{PLACE}:given-up"
    one = world.pieces["orders.fifo"]
    world.pieces["given-up"] = Piece("given-up", one.kind, arn, {**one.properties})
    mapping(DestinationConfig={"OnFailure": {"Destination": arn}})(world)
    world.statements("RelayRole").append({"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": arn})


def to_a_fifo(service: str, kind: str) -> Callable[[World], object]:
    """Let what is given up go to a FIFO queue or topic that is there."""

    def change(world: World) -> None:
        arn = f"arn:aws:{service}:{PLACE}:given-up.fifo"
        world.pieces["given-up"] = Piece("given-up", kind, arn, {})
        mapping(DestinationConfig={"OnFailure": {"Destination": arn}})(world)

    return change


def with_its_key(world: World) -> None:
    """Let the relay use the key of that queue."""
    allows("RelayRole", Action=["kms:Decrypt", "kms:GenerateDataKey"], Resource="arn:aws:kms:eu-west-1:1:key/1")(world)


def to_a_locked_queue(world: World) -> None:
    """Let what is given up go to a queue whose key the sweeper alone may use."""
    to_a_queue(world)
    with_its_key(world)
    world.statements("RelayRole")[-1]["Action"] = ["kms:Decrypt"]


def to_a_standard_queue(world: World) -> None:
    """Let events go to a queue that is not FIFO."""
    arn = f"arn:aws:sqs:{PLACE}:orders"
    world.move("orders.fifo", arn)
    for function, role in (("Relay", "RelayRole"), ("Sweeper", "SweeperRole")):
        variables(function, OUTBOX_SINK=arn)(world)
        (statement,) = (each for each in world.statements(role) if each["Sid"] == "PublishQueue")
        statement["Resource"] = arn


def to_another_region(world: World) -> None:
    """Let the bus be in another Region than the table."""
    arn = "arn:aws:events:us-east-1:000000000000:event-bus/orders"
    world.move("Table", "arn:aws:dynamodb:eu-west-1:000000000000:table/shop")
    world.move("Bus", arn)
    for function in ("Relay", "Sweeper"):
        variables(function, OUTBOX_SINK=arn)(world)


def without_its_key(world: World) -> None:
    """Take from the relay's role what it may do with the key of its queue."""
    statements = world.statements("RelayRole")
    statements[:] = [each for each in statements if each["Sid"] != "SinkKey"]


def allows(role: str, **statement: Any) -> Callable[[World], object]:
    """Add a statement to a role."""
    return lambda world: world.statements(role).append({"Effect": "Allow", **statement})


def together(*changes: Callable[[World], object]) -> Callable[[World], object]:
    """Make several changes."""
    return lambda world: [each(world) for each in changes]


def piece(id_: str, **settings: Any) -> Callable[[World], object]:
    """Set properties of a resource; None takes one out."""
    return lambda world: changed(world[id_], settings)


def dimensioned(alarm: str, name: str) -> Callable[[World], object]:
    """Let an alarm look at the metric that has one more dimension, which is another metric."""
    return lambda world: world[alarm]["Dimensions"].append({"Name": name, "Value": "x"})


KEY = "arn:aws:kms:eu-west-1:123456789012:key/2"
ENCRYPTED = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}}


def encrypted_table(world: World) -> None:
    """Let a key encrypt the table that the sweeper alone may use."""
    table(SSESpecification={"SSEEnabled": True, "KMSMasterKeyId": KEY})(world)
    allows("SweeperRole", Action="kms:Decrypt", Resource=KEY)(world)


def permission(**settings: Any) -> Callable[[World], object]:
    """Set properties of what lets the rule invoke the sweeper."""
    return lambda world: changed(world["SweeperSchedulePermission"], settings)


def stated(id_: str, document: str = "PolicyDocument", **settings: Any) -> Callable[[World], object]:
    """Change the only statement of a resource's policy."""
    return lambda world: changed(world[id_][document]["Statement"][0], settings)


def of_service(name: str) -> dict[str, str]:
    """Return the principal that a service is."""
    return {"Service": f"{name}.amazonaws.com"}


def kept(days: int) -> Callable[[World], object]:
    """Let the claim check's bucket keep objects for so many days."""
    rule = {"Status": "Enabled", "Filter": {"Prefix": ""}, "ExpirationInDays": days}
    return piece("payloads", LifecycleConfiguration={"Rules": [rule]})


def given_up(days: int) -> Callable[[World], object]:
    """Let the bucket for what is given up keep it for so many days, and other objects for one."""
    rules = [
        {"Status": "Enabled", "Prefix": prefix, "ExpirationInDays": each}
        for prefix, each in (("x/", 1), ("aws/", days))
    ]
    return piece("GivenUp", LifecycleConfiguration={"Rules": rules})


STARTS = {"S": [{"prefix": "OUTBOX#"}]}
OURS = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"sk": STARTS}}}
PASSES = {"dynamodb": {"NewImage": {"sk": STARTS}}}
REMOVED = {"eventName": ["REMOVE"], "dynamodb": {"Keys": {"sk": STARTS}}}
TYPED = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"sk": STARTS, "type": {"S": ["order.placed"]}}}}
KEYED = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"sk": STARTS, "pk": {"S": [{"prefix": "ORDER#"}]}}}}
ELSE = {"dynamodb": {"NewImage": {"sk": {"S": [{"prefix": "EVENT#"}]}}}}

HIDING = ("relay-missing", "filter-invalid", "payloads-gone", "handler", "retry-mode", "variables")
"""Checks that hide others when they are broken: where variables are refused, nobody knows where events go."""

BREAKS = (
    Break("table-status", table(TableStatus="DELETING"), "DELETING"),
    Break("table-status", table(TableStatus="INACCESSIBLE_ENCRYPTION_CREDENTIALS"), "INACCESSIBLE"),
    Break("index-status", index(lambda one: one.update(IndexStatus="CREATING")), "of outbox-pending is CREATING"),
    Break("index-status", index(lambda one: one.update(IndexStatus="DELETING")), "DELETING"),
    Break("function-state", relay(State="Failed", StateReason="no runtime"), "Failed: no runtime"),
    Break("function-state", piece("Sweeper", State="Deactivated"), "State is Deactivated"),
    Break("function-update", relay(LastUpdateStatus="Failed", LastUpdateStatusReason="no key"), "Failed: no key"),
    Break("stream-off", table(StreamSpecification=None), "no stream"),
    Break("stream-view", table(StreamSpecification={"StreamViewType": "KEYS_ONLY"}), "KEYS_ONLY"),
    Break("table-keys", table(AttributeDefinitions=[
        {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"},
        {"AttributeName": "ob_pending", "AttributeType": "S"}, {"AttributeName": "at", "AttributeType": "N"},
    ]), "sk (N)"),
    Break("pending-index", table(GlobalSecondaryIndexes=[]), "no index outbox-pending"),
    Break("pending-index", index(lambda one: one["KeySchema"].pop()), "the keys of outbox-pending"),
    Break("pending-index", index(lambda one: one["Projection"].update(NonKeyAttributes=["id"])), "project key"),
    Break("ttl-off", table(TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires_at"}), "is off"),
    Break("ttl-attribute", table(TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}), "by ttl"),
    Break("ttl-unit", table(TimeToLiveValues=[{"N": "1700000000000"}]), "in milliseconds"),
    Break("ttl-unit", table(TimeToLiveValues=[{"S": "2026-01-01"}]), "no numbers"),
    Break("written-by-hand", table(WrittenByHand=1), "1 record written by hand among"),
    Break("recovery-off", table(PointInTimeRecoverySpecification=None)),
    Break("deletable", table(DeletionProtectionEnabled=False)),
    Break("strong-consistency", table(MultiRegionConsistency="STRONG")),
    Break("replicas", table(Replicas=[{"Region": "eu-west-1"}, {"Region": "us-east-1"}]), "us-east-1"),
    Break("relay-missing", without("Relay", "RelayStream"), "of 0 mappings"),
    Break("mapping-missing", without("RelayStream")),
    Break("mapping-disabled", mapping(Enabled=False), "Disabled"),
    Break("mapping-disabled", mapping(State="Disabling"), "Disabling"),
    Break("stream-stale", mapping(EventSourceArn=f"arn:aws:dynamodb:{PLACE}:table/shop/stream/old"), "stream/old"),
    Break("mapping-troubled", mapping(LastProcessingResult="PROBLEM: Function call failed"), "Function call failed"),
    Break("relayed-twice", another_relay, "2 mappings"),
    Break("stream-readers", more_readers("First", "Second"), "3 mappings"),
    Break("starting-position", mapping(StartingPosition="LATEST"), "LATEST"),
    Break("partial-failures", mapping(FunctionResponseTypes=None), "[]"),
    Break("bisect", mapping(BisectBatchOnFunctionError="false")),
    Break("parallelization", mapping(ParallelizationFactor=4), "ParallelizationFactor is 4"),
    Break("retries-ordered", mapping(MaximumRetryAttempts="5"), "MaximumRetryAttempts is 5"),
    Break("retries-unordered", mapping(MaximumRetryAttempts=None), "is -1", UNORDERED),
    Break("record-age", mapping(MaximumRecordAgeInSeconds=None), "is -1"),
    Break("record-age", mapping(MaximumRecordAgeInSeconds=86_400), "86400"),
    Break("record-age-short", mapping(MaximumRecordAgeInSeconds=600), "600"),
    Break("batch-size", mapping(BatchSize=1), "BatchSize is 1"),
    Break("batching-window", mapping(MaximumBatchingWindowInSeconds=300), "300, and the sweeper takes"),
    Break("batching-window", mapping(MaximumBatchingWindowInSeconds=60), "is 60"),
    Break("tumbling-window", mapping(TumblingWindowInSeconds=30)),
    Break("event-count", mapping(MetricsConfig=None)),
    Break("filter-invalid", filtered(OURS, {"eventName": [{"wildcard": "INS*"}]}), "wildcard"),
    Break("filter-missing", mapping(FilterCriteria=None)),
    Break("filter-blocks", filtered(ELSE), "one event, or with several events, or with an event of another key"),
    Break("filter-blocks", filtered(TYPED), "record with several events, or with an event"),
    Break("filter-blocks", filtered(KEYED), "with an event of another key"),
    Break("filter-settles", filtered(PASSES), "settled"),
    Break("filter-expiry", filtered(OURS, REMOVED), "TTL deleted"),
    Break("filter-others", filtered({"eventName": ["INSERT"]}), "no record"),
    Break("handler", relay(Handler="dynamodb_outbox.aws_lambda.handler"), "aws_lambda.handler"),
    Break("variables", variables(OUTBOX_RATE="5"), "OUTBOX_RATE"),
    Break("table-name", variables(OUTBOX_TABLE="other"), "OUTBOX_TABLE is other"),
    Break("runtime", relay(Runtime="python3.9"), "python3.9"),
    Break("runtime", relay(Runtime="nodejs22.x"), "nodejs22.x"),
    Break("timeout", relay(Timeout=None), "Timeout is 3 s"),
    Break("memory", relay(MemorySize=128), "128 MB"),
    Break("switched-off", relay(ReservedConcurrentExecutions=0)),
    Break("not-reserved", relay(ReservedConcurrentExecutions=None)),
    Break("reserved-few", together(relay(ReservedConcurrentExecutions=2), mapping(ParallelizationFactor=4)),
          "ParallelizationFactor 4", UNORDERED),
    Break("retry-mode", own_code, "AWS_MAX_ATTEMPTS is 8"),
    Break("on-failure-missing", mapping(DestinationConfig=None)),
    Break("on-failure-gone", without("GivenUp"), "is not there"),
    Break("on-failure-fifo", to_a_fifo("sqs", "AWS::SQS::Queue"), "given-up.fifo is FIFO", beside="on-failure-numbers"),
    Break("on-failure-fifo", to_a_fifo("sns", "AWS::SNS::Topic"), "given-up.fifo is FIFO", beside="on-failure-numbers"),
    Break("on-failure-key", to_a_locked_queue, "lacks kms:GenerateDataKey", beside="on-failure-numbers"),
    Break("on-failure-key", piece("GivenUp", BucketEncryption={"ServerSideEncryptionConfiguration": [ENCRYPTED]}),
          "lacks kms:GenerateDataKey"),
    Break("on-failure-denied", stated("GivenUpPolicy", Condition=None), "denies s3:PutObject and s3:ListBucket"),
    Break("on-failure-denied", stated("GivenUpPolicy", Condition=None, Action="s3:Put*",
                                      Principal={"AWS": "000000000000"}), "denies s3:PutObject"),
    Break("on-failure-early", given_up(1), "removes aws/lambda/* after 1 day"),
    Break("on-failure-numbers", together(to_a_queue, with_its_key), "given-up"),
    Break("target-gone", without("Bus"), "is not there"),
    Break("target-unordered", to_a_standard_queue, "standard queue", QUEUE),
    Break("target-small", piece("orders.fifo", MaximumMessageSize="65536"), "65,536", QUEUE),
    Break("target-key", without_its_key, "lacks kms:Decrypt, kms:GenerateDataKey", QUEUE),
    Break("archive", without("Archive"), "no archive"),
    Break("target-region", to_another_region, "us-east-1"),
    Break("sweeper-missing", without("Sweeper", "SweeperErrorsAlarm", "SweeperStoppedAlarm")),
    Break("sweeper-unscheduled", without("SweeperSchedule"), "no schedule"),
    Break("sweeper-unscheduled", piece("SweeperSchedule", State="DISABLED"), "is disabled"),
    Break("sweeper-refused", without("SweeperSchedulePermission"), "does not let rule SweeperSchedule invoke it"),
    Break("sweeper-refused", permission(Principal="s3.amazonaws.com"), "does not let rule"),
    Break("sweeper-refused", permission(SourceArn=f"arn:aws:events:{PLACE}:rule/other"), "does not let rule"),
    Break("sweeper-refused", permission(FunctionName="other"), "does not let rule"),
    Break("sweeper-rare", piece("SweeperSchedule", ScheduleExpression="rate(2 hours)"), "120"),
    Break("sweeper-differs", variables("Sweeper", OUTBOX_ON_POISON="block"), "on_poison"),
    Break("access-lacking", lacks("RelayRole", "dynamodb:PartiQLUpdate"), "lacks dynamodb:PartiQLUpdate on arn"),
    Break("access-lacking", lacks("SweeperRole", "events:DescribeEventBus"), "lacks events:DescribeEventBus on arn"),
    Break("access-lacking", lacks("RelayRole", "s3:PutObject"), "s3:PutObject"),
    Break("access-lacking", allows("RelayRole", Effect="Deny", Action="events:Put*", Resource="*"), "events:PutEvents"),
    Break("access-trust", stated("RelayRole", "AssumeRolePolicyDocument", Principal=of_service("ec2")), "nobody lets"),
    Break("access-trust", stated("SweeperRole", "AssumeRolePolicyDocument", Action="sts:TagSession"), "nobody lets"),
    Break("table-encryption", encrypted_table, "table shop is encrypted with"),
    Break("table-encryption", together(encrypted_table, allows("RelayRole", Action="kms:Decrypt", Resource=f"{KEY}2")),
          "lacks kms:Decrypt"),
    Break("access-wide", allows("RelayRole", Action="dynamodb:*", Resource="arn:aws:dynamodb:::x"), "dynamodb:*"),
    Break("access-wide", allows("RelayRole", Action=["events:PutEvents"], Resource="*"), "on every resource"),
    Break("access-wide", allows("RelayRole", NotAction="iam:*", Resource="*"), "everything but iam:*"),
    Break("access-wide", piece("RelayRole", ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonSQSFullAccess"]), "SQS"),
    Break("alarm-silent", piece("RelayErrorsAlarm", ActionsEnabled=False), "disabled"),
    Break("alarm-silent", piece("RelayErrorsAlarm", AlarmActions=None), "no actions"),
    Break("alarm-unheard", piece("AlarmTopic", Subscription=[]), "nobody"),
    Break("alarm-unheard", without("AlarmTopic"), "not there"),
    Break("alarm-topic-policy", stated("AlarmTopicPolicy", Principal=of_service("events")), "does not let cloudwatch"),
    Break("alarm-topic-policy", stated("AlarmTopicPolicy", Action="sns:Subscribe"), "does not let cloudwatch"),
    Break("alarm-topic-key", piece("AlarmTopic", KmsMasterKeyId="alias/aws/sns"), "alias/aws/sns"),
    Break("payloads-gone", without("payloads")),
    Break("payloads-forever", piece("payloads", LifecycleConfiguration=None), "no lifecycle rule"),
    Break("payloads-early", kept(7), "after 7 days"),
    Break("metrics", variables(OUTBOX_METRICS="none"), "OUTBOX_METRICS is not emf"),
    Break("metrics", variables("Sweeper", OUTBOX_METRICS=""), "OUTBOX_METRICS is not emf"),
    Break("alarm-relay-errors", piece("RelayErrorsAlarm", ComparisonOperator="LessThanThreshold", Threshold=0),
          "-relay-errors looks at Errors, and never starts: LessThanThreshold 0"),
    Break("alarm-dropped", piece("DroppedAlarm", Threshold="1e9"), "GreaterThanThreshold 1,000,000,000"),
    Break("alarm-iterator-age", piece("IteratorAgeAlarm", Threshold=86_400_000), "GreaterThanThreshold 86,400,000"),
    Break("alarm-oldest-pending", piece("OldestPendingAlarm", Threshold=10**9), "never starts"),
    Break("alarm-sweeper-stopped", piece("SweeperStoppedAlarm", Threshold=0), "LessThanThreshold 0"),
    Break("alarm-sweeper-stopped", piece("SweeperStoppedAlarm", ComparisonOperator="GreaterThanThreshold"), "Than"),
    Break("alarm-sweeper-stopped", piece("SweeperStoppedAlarm", TreatMissingData=None), "TreatMissingData is missing"),
    Break("alarm-parked", dimensioned("ParkedAlarm", "Code"), "no alarm looks at Parked"),
    Break("alarm-relay-errors", dimensioned("RelayErrorsAlarm", "Resource"), "no alarm looks at Errors"),
    *(Break(f"alarm-{each.name.removeprefix('shop-outbox-')}", without(each.id), each.metrics[-1].name)
      for each in resources_of(BUS) if isinstance(each, Alarm)),
)  # fmt: skip


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.id)
def test_a_check_that_is_broken_is_found_and_no_other(case: Break) -> None:
    """It is seen once or more, by its own id, with what was seen, what follows, and a fix whose names are filled in."""
    world = World(case.deployment)
    case.how(world)
    found = world.report()
    assert set(said(found)) - {case.beside} == {case.id}
    assert found.unjudged == () or case.id in HIDING
    first = next(each for each in found.findings if each.id == case.id)
    assert case.evidence in " ".join(each.evidence for each in found.findings)
    assert first.consequence
    for each in (*found.findings, *of_a_template(world)):
        assert each.fix
        assert set(re.findall(r"<[^<>]*>", each.fix)) <= LEFT_TO_THE_USER, each.fix


def of_a_template(world: World) -> tuple[Finding, ...]:
    """Return what is found in a world that is a template's: the same, with snippets for fixes."""
    return report_on(system_of(replace(world.inventory(), source="template"), PAYLOADS)).findings


LEFT_TO_THE_USER = {"<a bucket>", "<a topic>", "<address>", "<the table>"}
"""Names in fixes that nobody knows but the user."""


@pytest.mark.parametrize("deployment", [BUS, QUEUE, UNORDERED], ids=["bus", "queue", "unordered"])
def test_nothing_is_found_in_what_is_right(deployment: Deployment) -> None:
    """And everything is seen: so each of the breaks above is what makes the difference."""
    found = World(deployment).report()
    assert (found.findings, found.unjudged) == ((), ())
    assert found.is_well
    assert [each.promise for each in found.promises] == ["P1", "P2", "P3", "P4", "P5", "P6", "P7"]


def test_a_stream_has_two_readers_and_one_where_the_table_has_replicas() -> None:
    """Where it is not seen whether there are any, a second reader is not judged; a third one is."""
    world = World()
    more_readers("Other")(world)
    assert said(world.report()) == []
    table(Replicas=Unseen("why"))(world)
    assert (said(world.report()), [each.id for each in world.report().unjudged]) == ([], ["replicas", "stream-readers"])
    more_readers("Third")(world)
    assert said(world.report()) == ["stream-readers"]
    without("Third")(world)
    table(Replicas=[{"Region": "us-east-1"}, {"Region": "us-west-2"}])(world)
    found = world.report()
    assert set(said(found)) == {"stream-readers", "replicas"}
    (readers,) = (each for each in found.findings if each.id == "stream-readers")
    assert readers.evidence == "2 mappings read the table's stream, and it has replicas in us-west-2"
    without("Other")(world)
    assert said(world.report()) == ["replicas"]


@pytest.mark.parametrize("key", [None, "alias/aws/sqs"])
def test_no_key_and_aws_own_need_no_permission(key: str | None) -> None:
    """Of the queue for what is given up, as of where events go."""
    world = World()
    to_a_queue(world)
    piece("given-up", KmsMasterKeyId=key)(world)
    assert said(world.report()) == ["on-failure-numbers"]


@pytest.mark.parametrize(
    ("alarm", "settings"),
    [
        ("RelayErrors", {"Threshold": "2.5"}),
        ("RelayErrors", {"ComparisonOperator": "GreaterThanOrEqualToThreshold", "Threshold": 1}),
        ("RelayErrors", {"ComparisonOperator": "GreaterThanUpperThreshold", "Threshold": None}),
        ("SweeperStopped", {"ComparisonOperator": "LessThanOrEqualToThreshold", "Threshold": 0}),
        ("Silence", {"ComparisonOperator": "LessThanThreshold", "Threshold": 1}),
    ],
)
def test_when_an_alarm_starts_is_its_owners_matter(alarm: str, settings: dict[str, Any]) -> None:
    """As long as it can: by another number, by a band that is learned, by what an expression comes to."""
    world = World()
    piece(f"{alarm}Alarm", **settings)(world)
    assert said(world.report()) == []


def test_one_alarm_that_can_start_is_enough() -> None:
    """Whatever others there are; of one that is not seen nobody knows."""
    world = World()
    right = world.pieces["RelayErrorsAlarm"]
    wrong = Piece("Wrong", right.kind, f"{right.arn}-x", {**right.properties, "AlarmName": "x", "Threshold": 10**9})
    world.pieces["Wrong"] = wrong
    assert said(world.report()) == []
    piece("RelayErrorsAlarm", Threshold=Unseen("why"))(world)
    assert (said(world.report()), [each.id for each in world.report().unjudged]) == ([], ["alarm-relay-errors"])
    piece("RelayErrorsAlarm", Threshold="many")(world)
    assert "is 'many', which is no number" in world.report().unjudged[0].why


def test_every_check_is_broken_here() -> None:
    """None is left out, and no id is given twice."""
    ids = [each.id for each in CHECKS]
    assert len(set(ids)) == len(ids)
    assert {each.id for each in BREAKS} == set(ids)


def test_notes_alone_are_well() -> None:
    """Warnings are not."""
    worlds = {severity: World() for severity in Severity}
    table(DeletionProtectionEnabled=False)(worlds[Severity.NOTE])
    mapping(BisectBatchOnFunctionError=False)(worlds[Severity.WARNING])
    table(StreamSpecification=None)(worlds[Severity.ERROR])
    assert [worlds[each].report().is_well for each in Severity] == [False, False, True]
    assert [worlds[each].report().findings[0].severity for each in Severity] == list(Severity)
