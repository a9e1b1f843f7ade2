"""A template as text: YAML for people, with CloudFormation's short forms.

YAML is written here and not by a library, which the core does without: a template is made of dicts, lists, text, whole
numbers and booleans, and JSON's form of a text is one of YAML's. A text stands plain only where it can be nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["json_text", "yaml_text"]

_PLAIN = re.compile(r"[A-Za-z/$][A-Za-z0-9_./:$()*-]*(?: [A-Za-z0-9_./$()*-]+)*", re.ASCII)
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What JSON lets stand in a text, and YAML does not."""
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_BLOCK = re.compile(r"[!-~](?:[ -~]*[!-~])?(?:\n *[!-~](?:[ -~]*[!-~])?)+", re.ASCII)
"""Lines of printable ASCII, the first of which begins at once: what a block can hold as it is."""
_SHORT = {"Ref": "!Ref", "Fn::GetAtt": "!GetAtt", "Fn::Sub": "!Sub"}


def json_text(template: Mapping[str, Any]) -> str:
    """Return a template as JSON."""
    return json.dumps(template, indent=2) + "\n"


def yaml_text(template: Mapping[str, Any]) -> str:
    """Return a template as YAML; parsed, it is the same as the JSON form."""
    return "\n".join(_lines(template)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of a mapping or a list that is not empty."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _entry(f"{_text(name)}:", inner)
    else:
        for inner in value:
            if _is_block(inner):
                first, *rest = _lines(inner)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield f"- {_inline(inner)}"


def _entry(name: str, inner: Any) -> Iterator[str]:
    tag, text = ("!Sub ", inner["Fn::Sub"]) if _short(inner) and "Fn::Sub" in inner else ("", inner)
    if isinstance(text, str) and _BLOCK.fullmatch(text):
        yield f"{name} {tag}|-"
        yield from (f"  {line}" for line in text.split("\n"))
    elif _is_block(inner):
        yield name
        yield from (f"  {line}" for line in _lines(inner))
    else:
        yield f"{name} {_inline(inner)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, (Mapping, list)) and bool(value) and _short(value) is None


def _short(value: Any) -> str | None:
    """Return the short form of a reference, None for anything else."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    ((word, content),) = value.items()
    if word not in _SHORT:
        return None
    return f"{_SHORT[word]} {_text('.'.join(content) if isinstance(content, list) else content)}"


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    return _short(value) or json.dumps(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.endswith(":"):
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
