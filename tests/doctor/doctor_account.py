"""An account that answers from memory, in the shapes that AWS documents: boto3's own clients, and nothing is sent.

Parameters and answers are both held to the service models of botocore. `World` has the resources; what the APIs say of
them is worked out here, from the APIs' side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from doctor_ground import World

from dynamodb_outbox.doctor.account.asking import CALLS
from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION

if TYPE_CHECKING:
    from dynamodb_outbox.infra.deployment import Deployment

UUID = "11111111-2222-3333-4444-555555555555"
REGION, NUMBER = "eu-west-1", "123456789012"
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def refused(code: str, status: int = 400) -> ClientError:
    """Return an answer that refuses."""
    told = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, "Operation")


class AnsweringAccount:
    """Answers calls; `calls` are those that were made, `refusals` what some of them are refused with.

    `by_hand` is what a Scan counts, `keys_of_aws` are keys of KMS that are no customer's.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.calls: list[tuple[str, str]] = []
        self.refusals: dict[tuple[str, str], Exception] = {}
        self.by_hand = 0
        self.keys_of_aws: set[str] = set()
        world = World(deployment)
        text = json.dumps({id_: [one.kind, one.arn, one.properties] for id_, one in world.pieces.items()})
        text = text.replace('"RelayStream"', f'"{UUID}"').replace(":RelayStream", f":{UUID}")
        plain = json.loads(text.replace(ANY_REGION, REGION).replace(ANY_ACCOUNT, NUMBER))
        self.pieces = {id_: SimpleNamespace(id=id_, kind=one[0], arn=one[1], told=one[2]) for id_, one in plain.items()}

    def clients(self, service: str, region: str | None) -> Any:
        """Return a client whose calls are answered here, until another account gives one out."""
        CURRENT[service] = self
        return client_of(service, region or REGION)

    def answer(self, service: str, model: Any, asked: Mapping[str, Any]) -> Any:
        """Return the answer to a call."""
        call = (service, model.name)
        self.calls.append(call)
        if call in self.refusals:
            raise self.refusals[call]
        answer = ANSWERS[call](self, asked)
        validate_parameters(answer, model.output_shape)
        return SimpleNamespace(status_code=200), {**answer, "ResponseMetadata": {"HTTPStatusCode": 200}}

    def of(self, kind: str) -> list[Any]:
        """Return the resources of a kind."""
        return [each for each in self.pieces.values() if each.kind == kind]

    def at(self, kind: str, name: str, code: str) -> Any:
        """Return the resource of a kind with a name or an ARN."""
        for each in self.of(kind):
            if name in (each.arn, each.id, each.arn.rpartition(":")[2], each.arn.rpartition("/")[2]):
                return each
        raise refused(code)


CURRENT: dict[str, AnsweringAccount] = {}
"""By service: who answers its calls."""


@cache
def client_of(service: str, region: str) -> Any:
    """Return a client that sends nothing, and is made once: that takes longer than what it is asked."""
    client = boto3.client(service, region_name=region, aws_access_key_id="x", aws_secret_access_key="x")
    asked: list[Mapping[str, Any]] = []
    client.meta.events.register("before-parameter-build", lambda params, **_: asked.append(dict(params)))
    client.meta.events.register("before-call", lambda model, **_: CURRENT[service].answer(service, model, asked.pop()))
    return client


def _table(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::DynamoDB::Table", asked["TableName"], "ResourceNotFoundException")
    copied = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "DeletionProtectionEnabled", "TableStatus")
    told = {name: found.told[name] for name in copied if name in found.told}
    told |= {"TableName": asked["TableName"], "TableArn": found.arn, "LatestStreamArn": found.told["StreamArn"]}
    if "SSESpecification" in found.told:
        key = found.told["SSESpecification"]["KMSMasterKeyId"]
        told["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": key}
    if "StreamSpecification" in found.told:
        told["StreamSpecification"] = {"StreamEnabled": True, **found.told["StreamSpecification"]}
    return {"Table": told}


def _ttl(account: AnsweringAccount, _asked: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = account.of("AWS::DynamoDB::Table")
    name = found.told["TimeToLiveSpecification"]["AttributeName"]
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": name}}


def _recovery(_account: AnsweringAccount, _asked: Mapping[str, Any]) -> dict[str, Any]:
    recovery = {"PointInTimeRecoveryStatus": "ENABLED"}
    told = {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": recovery}
    return {"ContinuousBackupsDescription": told}


def _mappings(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return mappings in two pages, the first of another table's."""
    if "Marker" not in asked:
        return {
            "NextMarker": "more",
            "EventSourceMappings": [{"UUID": UUID[::-1], "EventSourceArn": "arn:aws:sqs:::other"}],
        }
    return {"EventSourceMappings": list(map(_mapping, account.of("AWS::Lambda::EventSourceMapping")))}


def _mapping(found: Any) -> dict[str, Any]:
    left = {name: value for name, value in found.told.items() if name not in ("FunctionName", "Enabled")}
    arn = f"arn:aws:lambda:{REGION}:{NUMBER}:function:{found.told['FunctionName'].rpartition(':')[2]}"
    told = {**left, "UUID": found.arn.rpartition(":")[2], "FunctionArn": arn, "State": "Enabled"}
    return {**told, "LastProcessingResult": "OK", "EventSourceMappingArn": found.arn}


def _function(found: Any) -> dict[str, Any]:
    copied = ("FunctionName", "Handler", "Runtime", "Timeout", "MemorySize", "Role", "Environment")
    return {**{name: found.told[name] for name in copied}, "FunctionArn": found.arn}


def _whole_function(found: Any) -> dict[str, Any]:
    """Return what a list leaves out, too."""
    states = ("State", "LastUpdateStatus")
    return {**_function(found), **{name: found.told[name] for name in states if name in found.told}}


def _functions(account: AnsweringAccount, _asked: Mapping[str, Any]) -> dict[str, Any]:
    stranger = {"FunctionName": "stranger", "FunctionArn": "arn:aws:lambda:::function:stranger", "Handler": "app.f"}
    return {"Functions": [stranger, *map(_function, account.of("AWS::Lambda::Function"))]}


def _concurrency(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::Lambda::Function", asked["FunctionName"], "ResourceNotFoundException")
    name = "ReservedConcurrentExecutions"
    return {name: found.told[name]} if name in found.told else {}


def _role(account: AnsweringAccount, asked: Mapping[str, Any]) -> Any:
    return account.at("AWS::IAM::Role", asked["RoleName"], "NoSuchEntity")


def _alarms(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return alarms in two pages."""
    if asked["AlarmTypes"] == ["CompositeAlarm"]:
        return {"CompositeAlarms": []}
    found = [{**each.told, "AlarmArn": each.arn} for each in account.of("AWS::CloudWatch::Alarm")]
    found = [{**each, "Threshold": float(each["Threshold"])} for each in found]
    if "NextToken" not in asked:
        return {"MetricAlarms": found[:3], "NextToken": "more"}
    return {"MetricAlarms": found[3:]}


def _rules(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.of("AWS::Events::Rule")
    return {"RuleNames": [each.id for each in found if each.told["Targets"][0]["Arn"] == asked["TargetArn"]]}


def _rule(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::Events::Rule", asked["Name"], "ResourceNotFoundException")
    return {name: found.told[name] for name in ("ScheduleExpression", "State")} | {"Arn": found.arn}


def _bus(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::Events::EventBus", asked["Name"], "ResourceNotFoundException")
    return {"Name": found.told["Name"], "Arn": found.arn}


def _archives(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = [each for each in account.of("AWS::Events::Archive") if each.told["SourceArn"] == asked["EventSourceArn"]]
    return {"Archives": [{"ArchiveName": each.told["ArchiveName"]} for each in found]}


def _topic(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::SNS::Topic", asked["TopicArn"], "NotFound")
    (policy,) = account.of("AWS::SNS::TopicPolicy")
    told = {"TopicArn": found.arn, "SubscriptionsConfirmed": str(len(found.told["Subscription"]))}
    return {"Attributes": {**told, "Policy": json.dumps(policy.told["PolicyDocument"])}}


def _queue(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::SQS::Queue", asked["QueueUrl"].rpartition("/")[2], "QueueDoesNotExist")
    return {"Attributes": {name: str(value) for name, value in found.told.items()}}


def _url(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    account.at("AWS::SQS::Queue", asked["QueueName"], "AWS.SimpleQueueService.NonExistentQueue")
    return {"QueueUrl": f"https://queue/{asked['QueueOwnerAWSAccountId']}/{asked['QueueName']}"}


def _bucket(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    account.at("AWS::S3::Bucket", asked["Bucket"], "404")
    return {}


def _lifecycle(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::S3::Bucket", asked["Bucket"], "NoSuchBucket").told.get("LifecycleConfiguration")
    if found is None:
        raise refused("NoSuchLifecycleConfiguration", 404)
    (rule,) = found["Rules"]
    told = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    return {"Rules": [{**told, "Expiration": {"Days": rule["ExpirationInDays"]}}]}


def _invoking(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's policy, as Lambda makes it of a permission."""
    arn = account.at("AWS::Lambda::Function", asked["FunctionName"], "ResourceNotFoundException").arn
    found = [each for each in account.of("AWS::Lambda::Permission") if each.told["FunctionName"] == arn]
    if not found:
        raise refused("ResourceNotFoundException")
    statements = [
        {
            "Sid": each.id,
            "Effect": "Allow",
            "Principal": {"Service": each.told["Principal"]},
            "Action": each.told["Action"],
            "Resource": arn,
            "Condition": {"ArnLike": {"AWS:SourceArn": each.told["SourceArn"]}},
        }
        for each in found
    ]
    return {"Policy": json.dumps({"Version": "2012-10-17", "Id": "default", "Statement": statements})}


def _encryption(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = account.at("AWS::S3::Bucket", asked["Bucket"], "NoSuchBucket").told.get("BucketEncryption")
    if found is None:
        raise refused("ServerSideEncryptionConfigurationNotFoundError", 404)
    told = [each["ServerSideEncryptionByDefault"] for each in found["ServerSideEncryptionConfiguration"]]
    rules = [{"ApplyServerSideEncryptionByDefault": each} for each in told]
    return {"ServerSideEncryptionConfiguration": {"Rules": rules}}


def _bucket_policy(account: AnsweringAccount, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = [each for each in account.of("AWS::S3::BucketPolicy") if each.told["Bucket"] == asked["Bucket"]]
    if not found:
        raise refused("NoSuchBucketPolicy", 404)
    return {"Policy": json.dumps(found[0].told["PolicyDocument"])}


ANSWERS: dict[tuple[str, str], Callable[[AnsweringAccount, Mapping[str, Any]], Mapping[str, Any]]] = {
    ("dynamodb", "DescribeTable"): _table,
    ("dynamodb", "DescribeTimeToLive"): _ttl,
    ("dynamodb", "DescribeContinuousBackups"): _recovery,
    ("dynamodb", "Scan"): lambda account, asked: (
        {"Count": account.by_hand}
        if asked.get("Select") == "COUNT"
        else {"Items": [{}, {"expires_at": {"N": "1700000000"}}]}
    ),
    ("lambda", "ListEventSourceMappings"): _mappings,
    ("lambda", "ListFunctions"): _functions,
    ("lambda", "GetFunctionConfiguration"): lambda account, asked: _whole_function(
        account.at("AWS::Lambda::Function", asked["FunctionName"], "ResourceNotFoundException")
    ),
    ("lambda", "GetFunctionConcurrency"): _concurrency,
    ("lambda", "GetPolicy"): _invoking,
    ("kms", "DescribeKey"): lambda account, asked: {
        "KeyMetadata": {
            "KeyId": asked["KeyId"],
            "KeyManager": "AWS" if asked["KeyId"] in account.keys_of_aws else "CUSTOMER",
        }
    },
    ("s3", "GetBucketEncryption"): _encryption,
    ("s3", "GetBucketPolicy"): _bucket_policy,
    ("iam", "GetRole"): lambda account, asked: {
        "Role": {
            "Path": "/",
            "RoleName": asked["RoleName"],
            "RoleId": "A" * 16,
            "Arn": _role(account, asked).arn,
            "CreateDate": 0,
            "AssumeRolePolicyDocument": json.dumps(_role(account, asked).told["AssumeRolePolicyDocument"]),
        }
    },
    ("iam", "ListRolePolicies"): lambda account, asked: {
        "PolicyNames": [each["PolicyName"] for each in _role(account, asked).told["Policies"]]
    },
    ("iam", "GetRolePolicy"): lambda account, asked: {
        "RoleName": asked["RoleName"],
        "PolicyName": asked["PolicyName"],
        "PolicyDocument": json.dumps(_role(account, asked).told["Policies"][0]["PolicyDocument"]),
    },
    ("iam", "ListAttachedRolePolicies"): lambda *_: {
        "AttachedPolicies": [{"PolicyName": "Xray", "PolicyArn": "arn:aws:iam::aws:policy/Xray"}]
    },
    ("iam", "GetPolicy"): lambda *_: {"Policy": {"DefaultVersionId": "v1"}},
    ("iam", "GetPolicyVersion"): lambda *_: {
        "PolicyVersion": {
            "Document": json.dumps({"Statement": {"Effect": "Allow", "Action": "xray:Put*", "Resource": "*"}})
        }
    },
    ("cloudwatch", "DescribeAlarms"): _alarms,
    ("events", "DescribeEventBus"): _bus,
    ("events", "ListArchives"): _archives,
    ("events", "ListRuleNamesByTarget"): _rules,
    ("events", "DescribeRule"): _rule,
    ("sns", "GetTopicAttributes"): _topic,
    ("sqs", "GetQueueUrl"): _url,
    ("sqs", "GetQueueAttributes"): _queue,
    ("s3", "HeadBucket"): _bucket,
    ("s3", "GetBucketLifecycleConfiguration"): _lifecycle,
}
assert ANSWERS.keys() == CALLS.keys()
