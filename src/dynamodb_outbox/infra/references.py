"""What a value of the description may be: text, or something that is known only where it is deployed.

A description is made without an account. An ARN in it is therefore a reference, and each rendering says it in its own
language: `!GetAtt Relay.Arn`, `aws_lambda_function.relay.arn`. Nothing is looked up here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REGION", "TABLE_ARN", "TABLE_NAME", "Attribute", "Joined", "Local", "Region", "Value", "joined"]


@dataclass(frozen=True)
class Attribute:
    """An attribute of a resource of the same description, by the resource's id."""

    resource: str
    name: Literal["arn", "name", "id", "stream_arn"]


@dataclass(frozen=True)
class Local:
    """The ARN of something in the account that is deployed to; the last part, as in `event-bus/orders`.

    `region` is the name of its Region; None for the one that is deployed to.
    """

    service: str
    resource: str
    region: str | None = None


@dataclass(frozen=True)
class Region:
    """The name of the Region that is deployed to."""


REGION = Region()

Piece = str | Attribute | Local | Region


@dataclass(frozen=True)
class Joined:
    """Text made of several parts."""

    parts: tuple[Piece, ...]


Value = str | Attribute | Local | Region | Joined


TABLE_ARN = Attribute("Table", "arn")
TABLE_NAME = Attribute("Table", "name")
"""Of the records' table, whether it is made here or there already."""


def joined(*parts: Value) -> Value:
    """Return parts as one value: joined parts are taken apart, and text beside text becomes one text."""
    flat: list[Piece] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Joined) else (part,):
            if isinstance(piece, str) and flat and isinstance(flat[-1], str):
                flat[-1] += piece
            elif piece != "":
                flat.append(piece)
    return flat[0] if len(flat) == 1 else Joined(tuple(flat)) if flat else ""
