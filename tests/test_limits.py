"""AWS's numbers stand in one file, each with its source."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dynamodb_outbox
from dynamodb_outbox.core import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(dynamodb_outbox.__file__).parent
LIMITS = ROOT / "core" / "limits.py"
_SOURCE = re.compile(r"\[(BC|LDG|DDG|EBG|EMF|S3G|SNSG|REC)\b[^]]*\]")
_OURS = re.compile(r"\bours\b")


def sourced_numbers(source: str) -> Iterator[int]:
    """Yield the lines of assignments that hold a number and name one of AWS's sources beside it."""
    lines: dict[int, list[tokenize.TokenInfo]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        lines.setdefault(token.start[0], []).append(token)
    for number, tokens in lines.items():
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        has_number = any(token.type == tokenize.NUMBER for token in tokens)
        if has_number and any(_SOURCE.search(words) and not _OURS.search(words) for words in comments):
            yield number
    body = ast.parse(source).body
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _SOURCE.search(_words(following)):
            values = (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))
            if any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
                yield statement.lineno


def _words(statement: ast.stmt) -> str:
    """Return the text of a statement that is nothing but text, as one below a constant is."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


@pytest.mark.parametrize(
    "path", sorted(set(ROOT.rglob("*.py")) - {LIMITS}), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_number_of_aws_stands_elsewhere(path: Path) -> None:
    """A number with one of AWS's sources beside it belongs into core/limits.py."""
    assert list(sourced_numbers(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "MAX = 10  # [BC] messages",
        "MAX = 4  # more on request [LDG, BC]",
        'MAX = 10\n"""Messages [EBG]."""',
        "x = (1, 2)  # [REC]",
    ],
)
def test_the_check_sees_a_number_in_the_wrong_place(source: str) -> None:
    """The check itself can fail: in a comment and in the text below."""
    assert list(sourced_numbers(source))


@pytest.mark.parametrize(
    "source", ['CODES = {"a"}  # [BC]', "PAUSE = 3  # ours: AWS has 4 [LDG]", "N = 5\nf()", "N = 5"]
)
def test_the_check_lets_other_things_be(source: str) -> None:
    """Codes are no numbers, and numbers of our own may say what AWS has."""
    assert list(sourced_numbers(source)) == []


def test_each_constant_has_its_source() -> None:
    """In the comment on its line or in the text below; what is not AWS's says that it is ours."""
    source = LIMITS.read_text(encoding="utf-8")
    lines = source.splitlines()
    body = ast.parse(source).body
    found: dict[str, bool] = {}
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            words = lines[(statement.end_lineno or statement.lineno) - 1].partition("#")[2] + _words(following)
            found[ast.unparse(target)] = bool(_SOURCE.search(words) or _OURS.search(words))
    del found["__all__"]
    assert [name for name, sourced in found.items() if not sourced] == []
    assert {*found, "SinkLimits"} == set(limits.__all__)
