"""An account is asked, by calls that change nothing; what it refuses to say is not seen, and ends nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from doctor_account import NUMBER, REGION, UUID, AnsweringAccount, refused
from doctor_ground import BUS, PAYLOADS, QUEUE, said

from dynamodb_outbox.doctor.account.asking import CALLS, Asking, NotAnswered, own_clients
from dynamodb_outbox.doctor.account.collecting import inventory_of
from dynamodb_outbox.doctor.account.items import written_by_hand
from dynamodb_outbox.doctor.account.keys import customer_key
from dynamodb_outbox.doctor.choosing import Asked, system_of
from dynamodb_outbox.doctor.functions import Assumed
from dynamodb_outbox.doctor.report import report_on
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.report import Report
    from dynamodb_outbox.infra.deployment import Deployment

DENIED = refused("AccessDeniedException")
READING = ("Describe", "Get", "Head", "List", "Scan")


def asked_of(account: AnsweringAccount, asked: Asked = PAYLOADS, read_items: int = 10) -> Report:
    """Return what the doctor says of an account."""
    return report_on(system_of(inventory_of(asked, read_items=read_items, clients=account.clients), asked))


def encrypted(account: AnsweringAccount, *, whose: str = "AWS") -> None:
    """Let a key of AWS's own, or a customer's, encrypt the table and the buckets."""
    key = f"arn:aws:kms:{REGION}:{NUMBER}:key/2"
    account.keys_of_aws = {key} if whose == "AWS" else set()
    (table,) = account.of("AWS::DynamoDB::Table")
    table.told["SSESpecification"] = {"KMSMasterKeyId": key}
    rule = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    account.pieces["GivenUp"].told["BucketEncryption"] = {"ServerSideEncryptionConfiguration": [rule]}


def hidden(report: Report) -> dict[str, str]:
    """Return what was not seen, by check."""
    return {each.id: each.why for each in report.unjudged}


@pytest.mark.parametrize("deployment", [BUS, QUEUE], ids=["bus", "queue"])
def test_nothing_is_found_in_an_account_that_is_right(deployment: Deployment) -> None:
    """All is seen, over pages too: the same rules as over a template, over answers in AWS's own shapes."""
    report = asked_of(AnsweringAccount(deployment))
    assert (report.findings, report.unjudged) == ((), ())


def test_only_calls_that_read_are_made() -> None:
    """Those of the list, and all of it, for a bus and a queue; any other is refused before it is made."""
    account, other = AnsweringAccount(BUS), AnsweringAccount(QUEUE)
    encrypted(account)
    asked_of(account)
    asked_of(other)
    other.refusals["lambda", "ListFunctions"] = DENIED
    asked_of(other)
    assert {*account.calls, *other.calls} == set(CALLS)
    for service, operation in CALLS:
        assert operation.startswith(READING)
        assert operation in boto3.client(service, region_name=REGION).meta.service_model.operation_names
    with pytest.raises(KeyError):
        Asking(account.clients).ask("dynamodb", "DeleteTable", TableName="shop")


def test_items_are_read_only_where_that_is_asked_for() -> None:
    """Without, neither the unit of TTL nor a record that was written by hand is seen."""
    account = AnsweringAccount(BUS)
    report = asked_of(account, read_items=0)
    assert ("dynamodb", "Scan") not in account.calls
    why = "no items were read: --read-items 100 reads so many"
    assert hidden(report) == {"ttl-unit": why, "written-by-hand": why}


def test_records_that_were_written_by_hand_are_counted() -> None:
    """By DynamoDB, which sends none of them; what is refused is not seen. They take promises away."""
    account = AnsweringAccount(BUS)
    account.by_hand = 3
    report = asked_of(account)
    assert [(each.id, each.evidence) for each in report.findings] == [
        ("written-by-hand", "3 records written by hand among the items that were read")
    ]
    assert report.promises != asked_of(AnsweringAccount(BUS)).promises
    account.refusals["dynamodb", "Scan"] = DENIED
    assert hidden(asked_of(account))["written-by-hand"] == "access to dynamodb:Scan was denied"


def test_who_is_counted_as_written_by_hand() -> None:
    """A record by its layout's own rule, without any of the marks that this library gives."""
    found = written_by_hand(Layout())
    marks = "attribute_not_exists(#m0) AND attribute_not_exists(#m1) AND attribute_not_exists(#m2)"
    assert found["FilterExpression"] == f"{marks} AND attribute_not_exists(#m3) AND begins_with(#w0, :w0)"
    assert list(found["ExpressionAttributeNames"].values()) == ["ob_v", "ob_guard", "ob_pending", "ob_state", "sk"]
    assert found["ExpressionAttributeValues"] == {":w0": {"S": "OUTBOX#"}}
    table = written_by_hand(Layout(placement="table", select={"kind": "EVENT"}))
    assert table["FilterExpression"].endswith("#w0 = :w0")
    assert "ExpressionAttributeValues" not in written_by_hand(Layout(placement="table", select={}))


@pytest.mark.parametrize("call", [each for each in CALLS if each != ("dynamodb", "Scan")], ids=":".join)
def test_a_call_that_is_denied_ends_nothing(call: tuple[str, str]) -> None:
    """What it would have told is not seen, by that action's name; nothing that is wrong is made of it."""
    findings: set[str] = set()
    unseen: dict[str, str] = {}
    for deployment in (BUS, QUEUE):
        account = AnsweringAccount(deployment)
        account.refusals[call] = DENIED
        encrypted(account)
        if call[1] == "GetFunctionConfiguration":
            account.refusals["lambda", "ListFunctions"] = DENIED
        report = asked_of(account)
        findings |= set(said(report))
        unseen |= hidden(report)
    assert findings == set()
    assert f"access to {CALLS[call]} was denied" in " ".join(unseen.values())


def test_everything_denied_is_no_ground_for_a_finding() -> None:
    """The report is empty, and says of every check that looks at something why it was not made."""
    account = AnsweringAccount(BUS)
    account.refusals = dict.fromkeys(CALLS, DENIED)
    report = asked_of(account)
    assert said(report) == []
    assert {"stream-off", "relay-missing", "payloads-gone"} <= hidden(report).keys()


def test_a_table_that_is_not_there_is_said() -> None:
    """It is no finding: there is nothing to look at."""
    account = AnsweringAccount(BUS)
    with pytest.raises(
        NotAnswered, match=r"no table other in Region eu-west-1 \(https://dynamodb.eu-west-1.*AWS_PROFILE"
    ):
        asked_of(account, Asked(table="other"))
    with pytest.raises(ConfigurationError, match="--table"):
        asked_of(account, Asked())


def test_time_to_live_of_a_table_that_is_going_is_not_there() -> None:
    """Neither is it read of its items; that ends nothing."""
    account = AnsweringAccount(BUS)
    account.refusals["dynamodb", "DescribeTimeToLive"] = refused("ResourceNotFoundException")
    assert said(asked_of(account)) == ["ttl-off"]


def test_a_table_alone_is_held_to_the_layout_that_is_told() -> None:
    """Before anything is deployed for it: somebody learns the commands for its index and TTL."""
    account = AnsweringAccount(BUS)
    for each in ("Relay", UUID, "Sweeper"):
        account.pieces.pop(each)
    account.pieces["Table"].told["GlobalSecondaryIndexes"] = []
    account.refusals["dynamodb", "DescribeTimeToLive"] = refused("ResourceNotFoundException")
    report = asked_of(account)
    assert {"table-keys", "pending-index", "ttl-off", "written-by-hand"} <= hidden(report).keys()
    assert "--layout tells one" in hidden(report)["pending-index"]
    told = Layout(index="pending", ttl="purge_at")
    account.by_hand = 1
    report = asked_of(account, replace(PAYLOADS, assumed=Assumed(told, told=True)))
    fixes = {each.id: each.fix for each in report.findings}
    assert {"pending-index", "ttl-off", "relay-missing", "written-by-hand"} <= fixes.keys()
    assert '"IndexName":"pending"' in fixes["pending-index"]
    assert "AttributeName=purge_at" in fixes["ttl-off"]
    assert "table-keys" not in fixes
    report = asked_of(account, replace(PAYLOADS, assumed=Assumed(Layout(pk="id_"), told=True)))
    (fix,) = [each.fix for each in report.findings if each.id == "table-keys"]
    assert fix.endswith(': {"pk": "pk", "sk": "sk"}')


def test_a_key_of_aws_own_needs_no_permission_and_a_customers_does() -> None:
    """An account tells both by their ARNs alone: whose it is has to be asked."""
    for whose, found in (("AWS", set()), ("CUSTOMER", {"table-encryption", "on-failure-key"})):
        account = AnsweringAccount(BUS)
        encrypted(account, whose=whose)
        assert set(said(asked_of(account))) == found


def test_policies_of_an_account_are_those_of_its_resources() -> None:
    """Of the function, the bucket, the topic and the role: each is asked for, and read as a template's is."""
    account = AnsweringAccount(BUS)
    account.pieces.pop("SweeperSchedulePermission")
    account.pieces["GivenUpPolicy"].told["PolicyDocument"]["Statement"][0].pop("Condition")
    account.pieces["GivenUp"].told["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] = 1
    account.pieces["AlarmTopicPolicy"].told["PolicyDocument"]["Statement"][0]["Principal"] = {"AWS": NUMBER}
    role = account.pieces["RelayRole"].told
    role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = {"Service": "ec2.amazonaws.com"}
    assert set(said(asked_of(account))) == {
        "sweeper-refused", "on-failure-denied", "on-failure-early", "alarm-topic-policy", "access-trust",
    }  # fmt: skip


def test_what_becomes_of_a_table_an_index_and_a_function_is_asked() -> None:
    """And told, whatever else there is to be told of them; what is on its way is right."""
    account = AnsweringAccount(BUS)
    (table,) = account.of("AWS::DynamoDB::Table")
    (index,) = table.told["GlobalSecondaryIndexes"]
    table.told["TableStatus"], index["IndexStatus"] = "UPDATING", "UPDATING"
    account.pieces["Relay"].told |= {"State": "Inactive", "LastUpdateStatus": "InProgress"}
    assert said(asked_of(account)) == []
    table.told["TableStatus"], index["IndexStatus"] = "DELETING", "DELETING"
    account.pieces["Relay"].told |= {"State": "Failed", "LastUpdateStatus": "Failed"}
    assert said(asked_of(account)) == ["table-status", "index-status", "function-state", "function-update"]


def test_nobody_there_is_said() -> None:
    """No credentials end it at once; without an answer to any call there is nothing to tell."""
    account = AnsweringAccount(BUS)
    account.refusals = dict.fromkeys(CALLS, NoCredentialsError())
    with pytest.raises(NotAnswered, match=r"no credentials: .*set AWS_PROFILE, or AWS_ACCESS_KEY_ID"):
        asked_of(account)
    account.refusals = dict.fromkeys(CALLS, EndpointConnectionError(endpoint_url="http://nowhere"))
    with pytest.raises(NotAnswered, match="nobody answered"):
        asked_of(account)


def test_a_bus_of_another_account_may_hide() -> None:
    """That it is not found says nothing, then; one of this account is missing."""
    account = AnsweringAccount(BUS)
    account.pieces.pop("Bus")
    account.pieces["Archive"].told["SourceArn"] = ""
    assert said(asked_of(account)) == ["target-gone"]
    account = AnsweringAccount(BUS)
    for function in ("Relay", "Sweeper"):
        variables = account.pieces[function].told["Environment"]["Variables"]
        variables["OUTBOX_SINK"] = variables["OUTBOX_SINK"].replace(NUMBER, "999999999999")
    assert "another account" in hidden(asked_of(account))["target-gone"]


def test_a_filter_and_variables_that_cannot_be_decrypted_are_not_seen() -> None:
    """As Lambda tells them, with an error in their place."""
    account = AnsweringAccount(BUS)
    (mapping,) = account.of("AWS::Lambda::EventSourceMapping")
    mapping.told.pop("FilterCriteria")
    mapping.told["FilterCriteriaError"] = {"ErrorCode": "AccessDeniedException", "Message": "there is no key"}
    account.pieces["Relay"].told["Environment"] = {"Error": {"ErrorCode": "AccessDenied", "Message": "there is no key"}}
    report = asked_of(account)
    assert said(report) == []
    assert "no key" in hidden(report)["filter-missing"]
    assert "decrypted" in hidden(report)["variables"]


def test_a_client_of_our_own_is_quick_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts, each within seconds, in the Region asked for."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    client = own_clients("events", "us-east-1")
    assert client.meta.region_name == "us-east-1"
    assert client.meta.config.retries["total_max_attempts"] == 3
    assert own_clients("events", None).meta.region_name == REGION


@pytest.mark.parametrize(
    ("key", "region"),
    [(f"arn:aws:kms:eu-north-1:{NUMBER}:key/1", "eu-north-1"), ("1234abcd", None), ("alias/mine", None)],
)
def test_a_key_is_asked_for_in_the_region_that_its_arn_names(key: str, region: str | None) -> None:
    """Where it is not, it would be a customer's that is gone; an id and an alias name none."""
    account = AnsweringAccount(BUS)
    account.keys_of_aws = {key}
    asked: list[tuple[str, str | None]] = []

    def clients(service: str, region: str | None) -> Any:
        asked.append((service, region))
        return account.clients(service, region)

    assert customer_key(Asking(clients), key) is None
    assert asked == [("kms", region)]
