"""A template as the engine takes it, and a deployed mapping and function as the event source takes them."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded, Throttled
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.deployed import main
from dynamodb_outbox.local.mapping import DeployedFunction, config_of, failure_bucket, patience_with
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.local.stack import StackFailed, TableThere, adapted, deploy

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account

ANY_NAME = {  # which the engine chooses
    "Type": "AWS::DynamoDB::Table",
    "Properties": {
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    },
}
OURS = cloudformation(Deployment(table="shop", sink="bus:orders", notify="ops@example.com", new_bus=True))


class Functions:
    """A client of functions that answers as it is told, or raises."""

    def __init__(self, payload: bytes = b"", error: Exception | None = None, **said: Any) -> None:
        self.said = {"Payload": io.BytesIO(payload), **said}
        self.error = error
        self.asked: dict[str, Any] = {}

    def invoke(self, **asked: Any) -> dict[str, Any]:
        """Answer."""
        self.asked = asked
        if self.error is not None:
            raise self.error
        return self.said


def test_a_template_loses_what_the_engine_refuses_and_what_names_it() -> None:
    """The archive is told, for it is made by API; the mapping is off, for the engine would run it its own way."""
    before = json.dumps(OURS)
    changed = adapted(OURS)
    assert json.dumps(OURS) == before
    gone = OURS["Resources"].keys() - changed.template["Resources"].keys()
    assert gone == {"Archive", "SilenceAlarm", "Dashboard"}
    assert changed.left_out == ("SilenceAlarm", "Dashboard")
    assert changed.archives == {"Archive": OURS["Resources"]["Archive"]["Properties"]}
    assert changed.template["Outputs"] == {
        **OURS["Outputs"],
        "SourceOfArchive": {"Value": {"Fn::GetAtt": ["Bus", "Arn"]}},
    }
    assert changed.template["Resources"]["RelayStream"]["Properties"]["Enabled"] is False


@pytest.mark.parametrize(
    "reference",
    [{"Ref": "Math"}, {"Fn::GetAtt": ["Math", "Arn"]}, {"Fn::Sub": "a ${Math} b"}, {"Fn::Sub": "${Math.Arn}"}],
)
def test_whatever_refers_to_what_is_left_out_is_left_out(reference: Any) -> None:
    """By any of the ways to refer to it; so are outputs. What is only called like it stays."""
    found = adapted(
        {
            "Resources": {
                "Far": {"Type": "A::B::C", "DependsOn": "Near"},
                "Near": {"Type": "A::B::C", "Properties": {"Named": reference}},
                "Math": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": []}},
                "MathToo": {"Type": "A::B::C", "Properties": {"Named": {"Ref": "Maths"}}},
            },
            "Outputs": {"Gone": {"Value": reference}, "Kept": {"Value": "Maths"}},
        }
    )
    assert found.template == {
        "Resources": {"MathToo": {"Type": "A::B::C", "Properties": {"Named": {"Ref": "Maths"}}}},
        "Outputs": {"Kept": {"Value": "Maths"}},
    }
    assert found.left_out == ("Math", "Near", "Far")


def test_a_mapping_says_the_settings_of_its_event_source() -> None:
    """Each of them; what it does not say is Lambda's default."""
    mapping = {
        "BatchSize": 7,
        "MaximumBatchingWindowInSeconds": 2,
        "ParallelizationFactor": 3,
        "FilterCriteria": {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]},
        "MaximumRetryAttempts": 4,
        "MaximumRecordAgeInSeconds": 60,
        "BisectBatchOnFunctionError": True,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
    }
    found = config_of(mapping)
    assert found.filters.match({"eventName": "INSERT"})
    assert not found.filters.match({"eventName": "REMOVE"})
    assert found == MappingConfig(
        batch_size=7,
        batching_window_ms=2000,
        parallelization_factor=3,
        filters=found.filters,
        maximum_retry_attempts=4,
        maximum_record_age_s=60,
        bisect_on_error=True,
        report_batch_item_failures=True,
    )
    assert config_of({}) == MappingConfig()


def test_a_function_that_returns_has_answered() -> None:
    """With what it returned, nothing included."""
    functions = Functions(b'{"batchItemFailures": []}')
    assert DeployedFunction(functions, "relay").invoke({"Records": []}) == Responded({"batchItemFailures": []})
    assert functions.asked == {"FunctionName": "relay", "Payload": '{"Records": []}'}
    assert DeployedFunction(Functions(b""), "relay").invoke({}) == Responded(None)


@pytest.mark.parametrize(
    ("functions", "failure"),
    [
        (
            Functions(b'{"errorType": "KeyError", "errorMessage": "x"}', FunctionError="Unhandled"),
            FunctionFailed("KeyError", "x"),
        ),
        (Functions(b'"died"', FunctionError="Unhandled"), FunctionFailed("Unhandled", "died")),
        (Functions(b"<html>"), None),
        (Functions(error=ReadTimeoutError(endpoint_url="http://127.0.0.1:1")), None),
        (Functions(error=ClientError({"Error": {"Code": "ServiceException"}}, "Invoke")), None),
    ],
)
def test_a_function_that_does_not_return_has_failed(functions: Functions, failure: FunctionFailed | None) -> None:
    """As the engine says; where the engine itself does not answer, the batch is to be tried again."""
    found = DeployedFunction(functions, "relay").invoke({})
    assert isinstance(found, FunctionFailed)
    assert found == failure or (failure is None and found.kind == "Local.NotInvoked")


def test_a_function_without_concurrency_is_throttled() -> None:
    """Which uses up no retry."""
    throttled = ClientError({"Error": {"Code": "TooManyRequestsException"}}, "Invoke")
    assert DeployedFunction(Functions(error=throttled), "relay").invoke({}) == Throttled()


def test_a_function_is_waited_for_and_asked_once() -> None:
    """Twice would be two invocations side by side."""
    client = local_client("lambda", "http://127.0.0.1:1", config=patience_with(30))
    assert client.meta.config.read_timeout > 30
    assert client.meta.config.retries["total_max_attempts"] == 1


def test_only_a_bucket_takes_what_is_given_up() -> None:
    """A mapping that names none gives up without a trace, as on AWS; a queue is refused, not passed over."""
    assert failure_bucket(None, {}) is None
    queue = {"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:us-east-1:000000000000:failed"}}}
    with pytest.raises(ConfigurationError, match="only buckets"):
        failure_bucket(None, queue)


def test_a_stack_that_cannot_be_made_says_why(engine: Account) -> None:
    """With the resource, and what the engine said of it."""
    bad = {"Resources": {"Board": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {}}}}
    with pytest.raises(StackFailed) as failed:
        deploy(engine.client, bad, b"", name="bad")
    assert failed.value.status.startswith("ROLLBACK")
    assert any(reason.startswith("Board: DashboardBody") for reason in failed.value.reasons)


def test_a_table_that_is_there_is_not_replaced(engine: Account) -> None:
    """The engine would do that, without a word; nothing is made then."""
    create_table(engine.client("dynamodb"), "shop")
    engine.client("dynamodb").put_item(TableName="shop", Item={"pk": {"S": "1"}, "sk": {"S": "1"}})
    with pytest.raises(TableThere, match="table shop is there already"):
        deploy(engine.client, OURS, b"", name="shop")
    assert engine.client("dynamodb").scan(TableName="shop")["Count"] == 1
    assert engine.client("s3").list_buckets()["Buckets"] == []
    deploy(engine.client, {"Resources": {"Other": ANY_NAME}}, b"", name="other")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, r"parameter StreamArn has no value \(LatestStreamArn .*: --parameter StreamArn=\.\.\."),
        ({"StreamArn": "shop"}, "--parameter StreamArn=shop is no stream here: "),
        (
            {"StreamArn": "arn:aws:dynamodb:us-east-1:000000000000:table/shop/stream/2026-01-01T00:00:00.000"},
            "is no stream here: ResourceNotFoundException",
        ),
    ],
)
def test_the_stream_of_a_table_that_is_there_is_asked_for(engine: Account, given: dict[str, str], says: str) -> None:
    """By the name of the parameter, and before anything is made."""
    existing = cloudformation(
        Deployment(table="shop", sink="bus:orders", notify="ops@example.com", existing_table=True)
    )
    with pytest.raises(ConfigurationError, match=says):
        deploy(engine.client, existing, b"", name="shop", parameters=given)
    assert engine.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "5",
        '{"Resources": {}}',
        '{"Resources": []}',
        '{"Resources": {"A": 5}}',
        '{"Resources": {"A": {}}}',
        '{"Resources": {"A": {"Type": "AWS::SNS::Topic", "Properties": []}}}',
        '{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}, "Outputs": []}',
        '{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}, "Parameters": {"B": 5}}',
        "Resources:",
        "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_template_is_told_in_a_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the file's name, before anything is asked of the engine."""
    (tmp_path / "template.json").write_text(text)
    (tmp_path / "outbox.zip").write_bytes(b"")
    common = ["--endpoint", "http://127.0.0.1:1", "--account", "0" * 12, "--checkpoint", str(tmp_path / "at.json")]
    template = ["--template", str(tmp_path / "template.json"), "--package", str(tmp_path / "outbox.zip")]
    assert main([*common, *template]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"python -m dynamodb_outbox.local.deployed: error: {tmp_path / 'template.json'}: no ")
    assert told.count("\n") == 1


def test_resources_without_properties_are_taken_as_they_are() -> None:
    """CloudFormation has such."""
    bare = {"Topic": {"Type": "AWS::SNS::Topic"}, "Alarm": {"Type": "AWS::CloudWatch::Alarm"}}
    found = adapted({"Resources": {**bare, "Relay": {"Type": "AWS::Lambda::EventSourceMapping"}}})
    assert found.template["Resources"].keys() == {"Topic", "Alarm", "Relay"}


def test_the_program_says_what_is_missing(engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package beside the template, a template in its file, a stack where there is no template, a mapping in it."""
    common = ["--endpoint", engine.url, "--account", engine.account, "--checkpoint", str(tmp_path / "at.json")]
    template = tmp_path / "template.yaml"
    template.write_text("- 1")
    (tmp_path / "outbox.zip").write_bytes(b"")
    assert main([*common, "--template", str(template)]) == 1
    assert "--template needs --package" in capsys.readouterr().err
    assert main(common) == 1
    assert "outbox" in capsys.readouterr().err
    assert main([*common, "--template", str(template), "--package", str(tmp_path / "outbox.zip")]) == 1
    assert f"{template}: no template: it has no Resources" in capsys.readouterr().err
    template.write_text("Resources: {Bus: {Type: 'AWS::Events::EventBus', Properties: {Name: !Sub orders}}}")
    assert main([*common, "--template", str(template), "--package", str(tmp_path / "outbox.zip")]) == 1
    assert "stack outbox has 0 event source mappings" in capsys.readouterr().err
    assert main([*common, "--template", str(template), "--package", str(tmp_path / "outbox.zip")]) == 1
    assert "stack outbox is there already" in capsys.readouterr().err
    template.write_text("Resources: {Relay: {Type: 'AWS::Serverless::Function'}}")
    assert main([*common, "--template", str(template), "--package", str(tmp_path / "outbox.zip")]) == 1
    assert f"{template}: a template of SAM" in capsys.readouterr().err
    assert main([*common, "--template", "there/is.none", "--package", str(tmp_path / "outbox.zip")]) == 1
    assert ": error: there/is.none: no such file or directory" in capsys.readouterr().err
