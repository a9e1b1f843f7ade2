"""Templates in the manner of public ones, right and wrong; what is expected of each stands beside it.

And our own renderings: nothing is found in them but what a deployment was asked for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from doctor_ground import on_template
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from deployments import DEPLOYMENTS
from dynamodb_outbox.doctor.choosing import Asked
from dynamodb_outbox.doctor.functions import Assumed
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.sam import sam
from dynamodb_outbox.infra.text import json_text, yaml_text
from dynamodb_outbox.template_text import parsed

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.report import Report

HERE = Path(__file__).parent / "templates"
TEMPLATES = sorted(each for each in HERE.iterdir() if each.suffix in (".yaml", ".json"))
MANAGED = ("AmazonDynamoDBFullAccess", "AmazonSNSFullAccess")

NOTES = {
    "plain": [],
    "new bus": [],
    "existing": [],
    "unordered": ["on-failure-numbers"],
    "fifo topic, keys": ["not-reserved", "on-failure-numbers"],
    "own keys": [],
    "routes": ["target-unordered"],
}
"""What is said of our own renderings: a queue for what is given up, no reserved concurrency, a standard topic."""


def lines(report: Report) -> str:
    """Return a report as the files have it."""
    found = sorted(f"{each.severity.value} {each.id} {each.subject}" for each in report.findings)
    hidden = sorted(f"? {each.id} {each.subject}: {each.why}" for each in report.unjudged)
    return "".join(f"{each}\n" for each in [*dict.fromkeys(found), *hidden])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_what_is_expected_of_a_template_is_found(path: Path) -> None:
    """No more and no less, and what it does not say is not seen."""
    expected = path.with_name(f"{path.name}.expected").read_text(encoding="utf-8")
    assert lines(on_template(path.read_text(encoding="utf-8"))) == expected


def test_there_are_right_and_wrong_ones_of_each_maker() -> None:
    """SAM, CDK, Serverless and CloudFormation; those that are right have nothing to be said of."""
    names = [each.name for each in TEMPLATES]
    assert len(names) >= 8
    assert {each.partition("-")[0] for each in names} == {"sam", "cdk", "serverless", "cloudformation"}
    for path in TEMPLATES:
        expected = path.with_name(f"{path.name}.expected").read_text(encoding="utf-8")
        assert ("-right" in path.name) is (expected == "")


def translated(template: dict[str, Any]) -> str:
    """Return what SAM's own translator makes of a template."""
    for resource in (*template["Resources"].values(), template.get("Globals", {}).get("Function", {})):
        properties = resource.get("Properties", resource)
        if "CodeUri" in properties:
            properties["CodeUri"] = "s3://packages/outbox.zip"
    managed = {name: f"arn:aws:iam::aws:policy/{name}" for name in MANAGED}
    translator = Translator(managed, Parser(), boto_session=boto3.Session(region_name="eu-west-1"))
    return json.dumps(translator.translate(template, {}))


@pytest.mark.parametrize("name", ["sam-by-hand", "sam-right", "sam-wrong-settings"])
def test_sam_is_read_as_its_own_translator_reads_it(name: str) -> None:
    """The same is found in what that makes: globals, roles, policy templates, events."""
    text = (HERE / f"{name}.yaml").read_text(encoding="utf-8")
    assert lines(on_template(translated(parsed(text)))) == lines(on_template(text))


@pytest.mark.parametrize("which", DEPLOYMENTS)
def test_our_own_renderings_are_right(which: str) -> None:
    """CloudFormation and SAM, as YAML and as JSON: the same is said of each, and no warning among it."""
    deployment = DEPLOYMENTS[which]
    templates = (cloudformation(deployment), sam(deployment, "outbox.zip"))
    reports = [on_template(write(each)) for each in templates for write in (json_text, yaml_text)]
    assert [each.id for each in reports[0].findings] == NOTES[which]
    assert reports[0].is_well
    assert len(set(reports)) == 1


def test_a_function_of_ones_own_goes_by_what_is_told() -> None:
    """Its layout and its ordering are arguments, since its code is not read."""
    text = (HERE / "sam-by-hand.yaml").read_text(encoding="utf-8")
    found = on_template(text, Asked(assumed=Assumed(ordering="none")))
    assert "retries-unordered" in {each.id for each in found.findings}
