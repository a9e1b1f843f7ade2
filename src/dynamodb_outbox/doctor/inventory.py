"""What a collector found: resources by their kind, with properties in the words of CloudFormation.

A template has these words, and most of Lambda's, CloudWatch's and DynamoDB's APIs have them too; so a rule cannot tell
where a value comes from. Any value may be `Unseen`, at any depth: access was denied, or the template says what is known
only when it is deployed. `seen` turns such a value into `NotSeen`, which ends the rule that needs it, and no other.

The account and the Region that a template is deployed to are not known. Two words stand for them, which are like
any other account and Region where ARNs are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANY_ACCOUNT",
    "ANY_REGION",
    "Inventory",
    "NotSeen",
    "Piece",
    "Seen",
    "Unseen",
    "function_name",
    "name_in",
    "plain_arn",
    "same_arn",
    "seen",
    "segments",
]

T = TypeVar("T")

ANY_ACCOUNT = "000000000000"
ANY_REGION = "any-region-0"

_SEGMENTS = 6


@dataclass(frozen=True)
class Unseen:
    """In place of a value that could not be seen; `why` reads after "not seen:"."""

    why: str


Seen: TypeAlias = T | Unseen


class NotSeen(Exception):
    """A rule needs what was not seen."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def seen(value: Seen[T]) -> T:
    """Return a value that was seen. Raises NotSeen for another one."""
    if isinstance(value, Unseen):
        raise NotSeen(value.why)
    return value


@dataclass(frozen=True)
class Piece:
    """One resource: its id in the template (in an account: its name), its kind, its ARN, and its properties."""

    id: str
    kind: str
    arn: str
    properties: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Inventory:
    """The resources that were found. `unseen` tells of the kinds of which there may be others, and why.

    `hidden` does so of single ones, by their ARNs. `source` is where they are from. A kind that is not in `unseen` was
    looked for, and all of it is here.
    """

    source: Literal["account", "template"]
    pieces: tuple[Piece, ...]
    unseen: Mapping[str, Unseen] = field(default_factory=dict, hash=False)
    hidden: Mapping[str, Unseen] = field(default_factory=dict, hash=False)

    def of(self, *kinds: str) -> tuple[Piece, ...]:
        """Return the resources of these kinds that were found."""
        return tuple(each for each in self.pieces if each.kind in kinds)

    def at(self, arn: str, *kinds: str) -> Seen[Piece | None]:
        """Return the resource with an ARN; None when it is known that there is none."""
        found = next((each for each in self.of(*kinds) if same_arn(each.arn, arn)), None)
        return found or self.hidden.get(arn) or self.lacks(*kinds)

    def lacks(self, *kinds: str) -> Unseen | None:
        """Return why there may be more of these kinds than was found, None when there is no more."""
        return next((self.unseen[kind] for kind in kinds if kind in self.unseen), None)


def segments(arn: str) -> list[str]:
    """Return the six parts of an ARN; text that is none is one part."""
    return arn.split(":", _SEGMENTS - 1)


def same_arn(one: str, other: str) -> bool:
    """Whether two ARNs may be of the same resource."""
    parts, others = segments(one), segments(other)
    if len(parts) != _SEGMENTS or len(others) != _SEGMENTS:
        return one == other
    alike = zip(parts, others, (None, None, None, ANY_REGION, ANY_ACCOUNT, None), strict=True)
    return all(part == its or (any_ is not None and any_ in (part, its)) for part, its, any_ in alike)


def name_in(arn: str) -> str:
    """Return the last part of an ARN: what people call the resource."""
    return re.split(r"[:/]", arn)[-1]


def function_name(text: str) -> str:
    """Return the name in a function's name or ARN, whole or from its account on, without the alias or version."""
    return (text.partition(":function:")[2] or text).split(":")[0]


def plain_arn(text: str) -> str:
    """Return a text as people read it: with CloudFormation's words for the account and Region of a template."""
    return text.replace(ANY_REGION, "${AWS::Region}").replace(ANY_ACCOUNT, "${AWS::AccountId}")
