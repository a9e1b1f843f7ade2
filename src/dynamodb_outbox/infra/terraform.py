"""The description as a Terraform configuration, in HCL: what people review.

The stream of a table that is there is looked up (a data source), and so are the account, its Region and its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.hcl import Block, Expression, Template, hcl_text
from dynamodb_outbox.infra.plan import outputs_of, resources_of
from dynamodb_outbox.infra.references import Attribute, Joined, Local, Region
from dynamodb_outbox.infra.terraform_kinds import ADDRESSES, BLOCKS, label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.infra.deployment import Deployment
    from dynamodb_outbox.infra.references import Value
    from dynamodb_outbox.infra.resources import Resource

__all__ = ["terraform"]

_PROVIDER = {"source": "hashicorp/aws", "version": ">= 6.0"}
_REGION = Expression("data.aws_region.current.region")
_PARTITION = Expression("data.aws_partition.current.partition")
_ACCOUNT = Expression("data.aws_caller_identity.current.account_id")


def terraform(deployment: Deployment, code: str) -> str:
    """Return the configuration; `code` is the path of the package, as `outbox package` writes it."""
    resources = resources_of(deployment)
    say = _References(resources).say
    blocks = [
        Block(
            "terraform",
            (),
            {"required_version": ">= 1.3"},
            (Block("required_providers", (), {"aws": _PROVIDER}),),
        ),
        *(Block("data", (f"aws_{what}", "current")) for what in ("partition", "region", "caller_identity")),
        Block("locals", (), {"code": code}),
    ]
    for resource in resources:
        blocks += BLOCKS[type(resource)](resource, say)
    blocks += [Block("output", (label(name),), {"value": say(each)}) for name, each in outputs_of(resources).items()]
    return hcl_text(blocks)


class _References:
    """Says references as expressions."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._by_id: Mapping[str, Resource] = {each.id: each for each in resources}

    def say(self, value: Value) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, (Joined, Local)):
            return Template(self._parts(value))
        return self._expression(value)

    def _parts(self, value: Joined | Local) -> tuple[str | Expression, ...]:
        found: list[str | Expression] = []
        for part in value.parts if isinstance(value, Joined) else (value,):
            if isinstance(part, Local):
                region = _REGION if part.region is None else part.region
                found += ["arn:", _PARTITION, f":{part.service}:", region, ":", _ACCOUNT, f":{part.resource}"]
            else:
                found.append(part if isinstance(part, str) else self._expression(part))
        return tuple(found)

    def _expression(self, value: Attribute | Region) -> Expression:
        if isinstance(value, Region):
            return _REGION
        address = ADDRESSES[type(self._by_id[value.resource]), value.name]
        return Expression(address.format(label(value.resource)))
