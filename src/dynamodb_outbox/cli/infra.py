"""`outbox infra`: what deploys a relay and a sweeper, in the language chosen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.cli.infra_arguments import ARGUMENTS
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.environment.settings import layout_from
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.sam import sam
from dynamodb_outbox.infra.terraform import terraform
from dynamodb_outbox.infra.text import json_text, yaml_text

if TYPE_CHECKING:
    import argparse

__all__ = ["deployment_of", "run"]

_OTHERWISE = ("sink", "route", "layout", "settle", "env")


def run(options: argparse.Namespace) -> int:
    """Print the rendering; raises Unusable and ConfigurationError for arguments that do not fit."""
    deployment = deployment_of(options)
    sys.stdout.write(_rendered(deployment, options))
    if options.existing_table and options.rendering != "terraform":
        sys.stderr.write(
            "outbox infra: the stack has a parameter, StreamArn, for the table's stream: aws dynamodb describe-table "
            f"--table-name {deployment.table} --query Table.LatestStreamArn --output text\n"
        )
    if options.existing_table and not _layout(options):
        sys.stderr.write(
            "outbox infra: --existing-table, and no --layout: the keys of the table are taken to be pk and sk. With "
            "others the relay sees no record: `outbox doctor --table NAME` tells what they are\n"
        )
    return 0


def _layout(options: argparse.Namespace) -> str:
    given: str | None = options.layout
    return os.environ.get("OUTBOX_LAYOUT", "").strip() if given is None else given


def deployment_of(options: argparse.Namespace) -> Deployment:
    """Return what the arguments say. Raises ConfigurationError."""
    given: dict[str, Any] = {}
    for name in ARGUMENTS:
        value = getattr(options, name.replace("-", "_"))
        if name not in _OTHERWISE and value is not None:
            given[name.replace("-", "_")] = value
    if (options.sink is None) is (options.route is None):
        raise ConfigurationError("one of --sink and --route is needed.")
    sink = options.sink if options.route is None else dict(options.route)
    return Deployment(
        **given,
        sink=sink,
        layout=layout_from({"OUTBOX_LAYOUT": _layout(options), "OUTBOX_SETTLE": options.settle or ""}),
        environment=dict(options.env or ()),
    )


def _rendered(deployment: Deployment, options: argparse.Namespace) -> str:
    if options.rendering == "terraform":
        if options.json:
            raise Unusable("--json is for templates: terraform is printed as HCL.")
        return terraform(deployment, options.code)
    template = cloudformation(deployment) if options.rendering == "cloudformation" else sam(deployment, options.code)
    return json_text(template) if options.json else yaml_text(template)
