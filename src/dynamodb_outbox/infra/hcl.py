"""Terraform's language, written: blocks of arguments and blocks, in the form that `terraform fmt` leaves alone.

Only what a description needs: text, whole numbers, booleans, lists, maps, references, and calls. Text with references
in it is a template in quotes, or a here-document where it has several lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

__all__ = ["Block", "Call", "Expression", "Template", "hcl_text"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True)
class Expression:
    """An expression as it stands: `aws_sns_topic.alarms.arn`."""

    text: str


@dataclass(frozen=True)
class Template:
    """Text with expressions in it."""

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True)
class Call:
    """A function, called with one value: `jsonencode({...})`."""

    function: str
    argument: Any


@dataclass(frozen=True)
class Block:
    """A block: its type and labels, its arguments, and the blocks in it."""

    kind: str
    labels: tuple[str, ...] = ()
    arguments: Mapping[str, Any] | None = None
    blocks: tuple[Block, ...] = ()


def hcl_text(blocks: Sequence[Block]) -> str:
    """Return a file of these blocks."""
    return "\n".join("\n".join(line.removeprefix(_HERE_LINE) for line in _block(block)) + "\n" for block in blocks)


def _block(block: Block) -> Iterator[str]:
    head = " ".join((block.kind, *map(json.dumps, block.labels)))
    arguments = block.arguments or {}
    if not arguments and not block.blocks:
        yield f"{head} {{}}"
        return
    yield f"{head} {{"
    yield from _moved(_pairs(arguments))
    for place, inner in enumerate(block.blocks):
        if place or arguments:
            yield ""
        yield from _moved(_block(inner))
    yield "}"


_HERE_LINE = "\0"
"""Begins a line of a here-document, which is never moved to the right."""


def _pairs(pairs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of arguments; the signs of neighbours that take one line each stand in a column."""
    told = [(name if _NAME.fullmatch(name) else json.dumps(name), list(_value(value))) for name, value in pairs.items()]
    for single, group in groupby(told, key=lambda pair: len(pair[1]) == 1):
        members = list(group)
        width = max(len(name) for name, _ in members) if single else 0
        for name, (first, *rest) in members:
            yield f"{name:<{width}} = {first}"
            yield from rest


def _value(value: Any) -> Iterator[str]:
    """Yield the lines of a value."""
    if isinstance(value, Mapping) and value:
        yield "{"
        yield from _moved(_pairs(value))
        yield "}"
    elif isinstance(value, (list, tuple)) and any(len(list(_value(each))) > 1 for each in value):
        yield "["
        for each in value:
            *lines, last = _value(each)
            yield from _moved([*lines, f"{last},"])
        yield "]"
    elif isinstance(value, Call):
        first, *rest = _value(value.argument)
        lines = [f"{value.function}({first}", *rest]
        yield from [*lines[:-1], f"{lines[-1]})"]
    elif isinstance(value, Template) and any("\n" in part for part in value.parts if isinstance(part, str)):
        yield "<<EOT"
        yield from (f"{_HERE_LINE}{line}" for line in _template(value, quoted=False).split("\n"))
        yield f"{_HERE_LINE}EOT"
    else:
        yield _inline(value)


def _moved(lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"  {line}" if line and not line.startswith(_HERE_LINE) else line for line in lines)


def _inline(value: Any) -> str:
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, (str, Template)):
        return f'"{_template(value if isinstance(value, Template) else Template((value,)), quoted=True)}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)  # a number, a boolean, an empty map


def _template(value: Template, *, quoted: bool) -> str:
    return "".join(
        f"${{{part.text}}}" if isinstance(part, Expression) else _escaped(part, quoted=quoted) for part in value.parts
    )


def _escaped(text: str, *, quoted: bool) -> str:
    plain = json.dumps(text, ensure_ascii=False)[1:-1] if quoted else text
    return plain.replace("${", "$${").replace("%{", "%%{")
