"""A deployment of ours as an account would have it, to break one thing of; and what the doctor says of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.choosing import Asked, system_of
from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Inventory, Piece
from dynamodb_outbox.doctor.report import Report, report_on
from dynamodb_outbox.doctor.template.resources import inventory_of
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.text import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

BUS = Deployment(table="shop", sink="bus:orders", notify="ops@example.com", new_bus=True)
QUEUE = Deployment(
    table="shop",
    sink="queue:orders.fifo",
    notify="ops@example.com",
    sink_kms_key="arn:aws:kms:eu-west-1:123456789012:key/1",
)
UNORDERED = Deployment(table="shop", sink="bus:orders", notify="ops@example.com", new_bus=True, ordering="none")
PAYLOADS = Asked(table="shop", payloads="payloads")
PLACE = f"{ANY_REGION}:{ANY_ACCOUNT}"

OUTSIDE: dict[str, tuple[Piece, ...]] = {
    "queue": (
        Piece(
            "orders.fifo",
            "AWS::SQS::Queue",
            f"arn:aws:sqs:{PLACE}:orders.fifo",
            {"KmsMasterKeyId": "alias/mine", "MaximumMessageSize": "1048576"},
        ),
    ),
    "payloads": (
        Piece(
            "payloads",
            "AWS::S3::Bucket",
            "arn:aws:s3:::payloads",
            {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled", "Prefix": "outbox/", "ExpirationInDays": 90}]}},
        ),
    ),
}


class World:
    """The resources of a deployment, by their ids, as if all of them had been found in an account."""

    def __init__(self, deployment: Deployment = BUS) -> None:
        found = inventory_of(json_text(cloudformation(deployment)), {"CodeBucket": "packages", "CodeKey": "outbox.zip"})
        self.pieces = {each.id: copy.deepcopy(each) for each in (*found.pieces, *sum(OUTSIDE.values(), ()))}
        self["Table"]["TimeToLiveValues"] = [{"N": "1700000000"}]
        self["Table"]["WrittenByHand"] = 0

    def __getitem__(self, id_: str) -> dict[str, Any]:
        properties = self.pieces[id_].properties
        assert isinstance(properties, dict)  # made of JSON
        return properties

    def statements(self, role: str) -> list[dict[str, Any]]:
        """Return the statements of a role's only policy."""
        (policy,) = self[role]["Policies"]
        found: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
        return found

    def move(self, id_: str, arn: str) -> None:
        """Give a resource another ARN."""
        self.pieces[id_] = replace(self.pieces[id_], arn=arn)

    def inventory(self) -> Inventory:
        """Return what was found."""
        return Inventory("account", tuple(self.pieces.values()))

    def report(self, asked: Asked = PAYLOADS) -> Report:
        """Return what the doctor says."""
        return report_on(system_of(self.inventory(), asked))


def on_template(text: str, asked: Asked | None = None, given: Mapping[str, str] | None = None) -> Report:
    """Return what the doctor says of a template."""
    return report_on(system_of(inventory_of(text, given), asked or Asked()))


def said(report: Report) -> list[str]:
    """Return the ids of what was found."""
    return [each.id for each in report.findings]
