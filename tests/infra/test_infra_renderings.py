"""Every rendering is valid in its own language, and says what the description says: no more, no less."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from cfnlint.core import get_rules
from read_back import Template, canonical, outputs
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from deployments import DEPLOYMENTS
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import ExistingTable
from dynamodb_outbox.infra.sam import sam
from dynamodb_outbox.infra.text import json_text, yaml_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.infra.deployment import Deployment

CODE = "s3://packages/outbox.zip"
every = pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)


@cache
def rules() -> Any:
    """Return all rules of cfn-lint, which take a second to load."""
    return get_rules([], [], ["I"])


def faults(template: Mapping[str, Any]) -> list[str]:
    """Return what cfn-lint has to say of a template, hints and all."""
    found = lint(json_text(template), rules(), config=ManualArgs(regions=["eu-west-1"], include_checks=["I"]))
    # I3042 is about an ARN that names a Region or an account: here a user gave it.
    return [f"{each.rule.id} {each.path}: {each.message}" for each in found if each.rule.id != "I3042"]


def translated(template: dict[str, Any]) -> dict[str, Any]:
    """Return what SAM makes of a template."""
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name="eu-west-1"))
    found: dict[str, Any] = translator.translate(json.loads(json.dumps(template)), {})
    return found


def described(deployment: Deployment) -> dict[str, Any]:
    """Return the description in a form that can be compared."""
    (table, *_), resources = resources_of(deployment), resources_of(deployment)
    return {each.id: canonical(each, table) for each in resources}


def said(template: dict[str, Any], deployment: Deployment) -> dict[str, Any]:
    """Return what a CloudFormation template says, in the same form."""
    (table, *_) = resources_of(deployment)
    found = Template(template).read(table.name if isinstance(table, ExistingTable) else None)
    return {id_: canonical(each, table) for id_, each in found.items()}


@every
def test_cloudformation_says_what_is_described(deployment: Deployment) -> None:
    """Read back, property by property, it is the description; and so are its outputs."""
    template = cloudformation(deployment)
    assert said(template, deployment) == described(deployment)
    assert Template(template).told() == outputs(resources_of(deployment))


@every
def test_sam_says_what_is_described(deployment: Deployment) -> None:
    """So is what SAM makes of its template: nothing is added to the roles, nothing is lost of the mapping."""
    template = translated(sam(deployment, CODE))
    assert said(template, deployment) == described(deployment)
    assert Template(template).told() == outputs(resources_of(deployment))


@pytest.mark.parametrize("which", ["new bus", "existing", "fifo topic, keys", "own keys", "routes"])
def test_cfn_lint_has_nothing_to_say(which: str, uncovered: None) -> None:  # noqa: ARG001
    """Not even hints: types, properties, actions, references."""
    assert faults(cloudformation(DEPLOYMENTS[which])) == []


def test_cfn_lint_has_nothing_to_say_of_what_sam_makes(uncovered: None) -> None:  # noqa: ARG001
    """A misspelt property of an event would be handed on by SAM; so that is linted, too."""
    assert faults(translated(sam(DEPLOYMENTS["new bus"], CODE))) == []


def test_cfn_lint_would_find_a_fault(uncovered: None) -> None:  # noqa: ARG001
    """A property that there is not, and an action that there is not."""
    resources = cloudformation(DEPLOYMENTS["plain"])["Resources"]
    template = {"Resources": {id_: resources[id_] for id_ in ("Table", "SweeperLog", "SweeperRole", "Sweeper")}}
    resources["Sweeper"]["Properties"] |= {"Code": {"S3Bucket": "packages", "S3Key": "code"}, "Timeoout": 5}
    (policy,) = resources["SweeperRole"]["Properties"]["Policies"]
    policy["PolicyDocument"]["Statement"][0]["Action"].append("dynamodb:GetItm")
    assert [each[:5] for each in sorted(faults(template))] == ["E3002", "W3037"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """YAML with CloudFormation's short forms."""


_Loader.add_constructor("!Ref", lambda loader, node: {"Ref": loader.construct_scalar(node)})
_Loader.add_constructor("!Sub", lambda loader, node: {"Fn::Sub": loader.construct_scalar(node)})
_Loader.add_constructor("!GetAtt", lambda loader, node: {"Fn::GetAtt": loader.construct_scalar(node).split(".")})


@every
def test_yaml_and_json_are_the_same(deployment: Deployment) -> None:
    """What people read is what was checked."""
    for template in (cloudformation(deployment), sam(deployment, "outbox.zip")):
        assert yaml.load(yaml_text(template), _Loader) == json.loads(json_text(template))  # noqa: S506 -- a SafeLoader
