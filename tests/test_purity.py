"""The pure packages stay pure, judged by the imports in their source: what `sys.modules` holds proves nothing."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dynamodb_outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(dynamodb_outbox.__file__).parent
LEAVES = ("arguments", "words", "event", "ids", "keys", "layout")
PACKAGES = ("core", "errors")
PURE = [
    *(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))),
    *(ROOT / f"{leaf}.py" for leaf in LEAVES),
]

IMPURE = frozenset(
    (
        "asyncio", "boto3", "botocore", "concurrent", "http", "importlib", "io", "logging", "multiprocessing", "os",
        "pathlib", "random", "secrets", "selectors", "signal", "socket", "subprocess", "sys", "tempfile", "threading",
        "time", "urllib"
    )
)  # fmt: skip
"""Top-level modules that bring a clock, input or output, randomness, the environment or logging."""

CALLS = frozenset(("open", "print", "input", "eval", "exec", "__import__"))
CLOCKS = frozenset(("now", "utcnow", "today", "uuid1", "uuid4"))
"""Functions of otherwise pure modules (datetime, uuid) that read a clock or random bytes."""


def impurities(source: str) -> Iterator[str]:
    """Yield what makes this source impure, one line each."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if (called in CALLS and isinstance(node.func, ast.Name)) or called in CLOCKS:
                yield f"line {node.lineno}: {called}()"
            continue
        else:
            continue
        yield from (f"line {node.lineno}: import {name}" for name in names if name.split(".")[0] in IMPURE)


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pure_module_imports_nothing_impure(path: Path) -> None:
    """No pure module imports boto3, asyncio, time, random, os, logging or the like, nor reads a clock another way."""
    assert list(impurities(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from random import random",
        "def f():\n    import logging",
        "from botocore.exceptions import ClientError",
        "import datetime\ndatetime.datetime.now()",
        "import uuid\nuuid.uuid4()",
        "open('x')",
    ],
)
def test_the_check_sees_each_kind_of_impurity(source: str) -> None:
    """The check itself can fail: every kind of impurity is found, at any depth of the source."""
    assert list(impurities(source))


def test_the_check_covers_the_whole_core() -> None:
    """Every machine of the core is among the modules checked."""
    assert {"commit", "relay", "eventsource", "record", "codec"} <= {path.parent.name for path in PURE}
