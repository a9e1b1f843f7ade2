"""A stand-in for what `dynamodb_outbox.cdk` uses of the CDK, so that its own part is tested without 430 MB and node.

Tokens are told by `${`, as the CDK's; what they stand for is their text, so that a template needs no resolving. The
real thing is `make cdk`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


class Construct:
    """A node of the tree."""

    def __init__(self, scope: Construct | None, construct_id: str) -> None:
        self.node = SimpleNamespace(scope=scope, id=construct_id)


class CfnResource(Construct):
    """A resource, as it would be in the template."""

    def __init__(self, scope: Construct, construct_id: str, *, type: str, properties: dict[str, Any]) -> None:  # noqa: A002
        super().__init__(scope, construct_id)
        self.type = type
        self.properties = properties
        self.logical_id = ""
        self.cfn_options = SimpleNamespace(deletion_policy=None, update_replace_policy=None)
        self.overrides: dict[str, Any] = {}

    def override_logical_id(self, logical_id: str) -> None:
        """Set the id in the template."""
        self.logical_id = logical_id

    def add_override(self, path: str, value: Any) -> None:
        """Set something beside the properties."""
        self.overrides[path] = value

    def told(self) -> dict[str, Any]:
        """Return what the template has."""
        return {"Type": self.type, "Properties": self.properties, **self.overrides}


class Asset(Construct):
    """A file, which is read when the asset is made."""

    contents: list[bytes] = []  # noqa: RUF012 -- of the process: a test looks at the last one

    def __init__(self, scope: Construct, construct_id: str, *, path: str) -> None:
        super().__init__(scope, construct_id)
        self.contents.append(Path(path).read_bytes())
        self.s3_bucket_name = "assets"
        self.s3_object_key = "outbox.zip"


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in in the place of the CDK, and have our module loaded anew."""
    cdk, constructs, assets = ModuleType("aws_cdk"), ModuleType("constructs"), ModuleType("aws_cdk.aws_s3_assets")
    vars(assets)["Asset"] = Asset
    vars(constructs)["Construct"] = Construct
    vars(cdk).update(
        Aws=SimpleNamespace(PARTITION="${Partition}", REGION="${Region}", ACCOUNT_ID="${AccountId}"),
        CfnDeletionPolicy=SimpleNamespace(RETAIN="Retain"),
        CfnResource=CfnResource,
        Names=SimpleNamespace(
            node_unique_id=lambda node: f"Unique{node.id}",
            unique_resource_name=lambda construct, **_: f"Shop-{construct.node.id}",
        ),
        Stack=SimpleNamespace(of=lambda _: SimpleNamespace(region="us-east-2")),
        Token=SimpleNamespace(is_unresolved=lambda text: "${" in text),
        aws_s3_assets=assets,
    )
    for name, module in (("aws_cdk", cdk), ("constructs", constructs), ("aws_cdk.aws_s3_assets", assets)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "dynamodb_outbox.cdk", raising=False)
