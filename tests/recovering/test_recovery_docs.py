"""docs/recovery.md is held to the code: its rules are tests, its commands are understood, its examples run."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.cli import _parser
from dynamodb_outbox.core.record.states import MOVES
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.provision import create_bus
from dynamodb_outbox.recover import ParkedRecords
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    import pytest

    from conftest import Account

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = (ROOT / "docs/recovery.md").read_text(encoding="utf-8")


def test_each_rule_is_a_test() -> None:
    """By its name."""
    rows = [row for row in DOCUMENT.splitlines() if row.startswith("| ") and "`test_" in row]
    named = [re.findall(r"`(test_\w+)` \|$", row) for row in rows]
    assert all(len(names) == 1 for names in named)
    assert len(named) > 20
    files = (path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    there = {node.name for text in files for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert {name for (name,) in named} <= there


def test_the_commands_are_understood() -> None:
    """Those of the document and of the README."""
    texts = (DOCUMENT, (ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [
        line
        for text in texts
        for line in re.findall(r"^\$ outbox ((?:parked|redrive|status) [^#\n]*(?:#1)?)", text, re.MULTILINE)
    ]
    assert len(lines) > 8
    for line in lines:
        _parser().parse_args(shlex.split(line))


def test_the_examples_run(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand: a parked event is redriven, and a bucket that is empty."""
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    shop = Shop(engine)
    create_bus(engine.client("events"), "orders")
    engine.client("s3").create_bucket(Bucket="relay-failed")
    shop.emit("ORDER#1")
    shop.sweeper(Bus(lambda _: CONTENT)).sweep()
    parked, given_up = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    found: dict[str, Any] = {}
    exec(parked, found)  # noqa: S102 -- running it is the test
    assert found["report"].count("published") == 1
    exec(given_up, found)  # noqa: S102 -- as above
    assert found["report"].batches == 0


def test_discarded_records_are_found_by_a_scan(engine: Account) -> None:
    """Those of an Outbox and hand-written ones; not what is published, nor another item that has a `state`."""
    (command,) = re.findall(r"^\$ aws dynamodb scan ((?:.*\\\n)*.*)", DOCUMENT, re.MULTILINE)
    words = iter(shlex.split(command.replace("\\\n", " ")))
    given = {name.removeprefix("--"): next(words) for name in words}
    shop = Shop(engine)
    shop.emit("ORDER#1")
    shop.sweeper(Bus(lambda _: CONTENT)).sweep()
    shop.emit("ORDER#2")
    shop.sweeper(Bus()).sweep()
    assert ParkedRecords("shop", client=shop.client).discard("test data", all=True).count("discarded") == 1
    for name, state in (("OUTBOX#by-hand", "ob_state"), ("META", "state")):
        item = {"pk": {"S": "ORDER#3"}, "sk": {"S": name}, state: {"S": "discarded"}}
        shop.client.put_item(TableName="shop", Item=item)
    found = shop.client.scan(
        TableName=given["table-name"],
        FilterExpression=given["filter-expression"],
        ExpressionAttributeNames=json.loads(given["expression-attribute-names"]),
        ExpressionAttributeValues=json.loads(given["expression-attribute-values"]),
    )["Items"]
    assert {item["pk"]["S"] for item in found} == {"ORDER#1", "ORDER#3"}
    (ours,) = (item for item in found if "ob_v" in item)
    assert (ours["discarded_reason"], int(ours["discarded_at"]["N"]) > 0) == ({"S": "test data"}, True)
    assert [item["sk"]["S"] for item in found if item is not ours] == ["OUTBOX#by-hand"]


def test_the_moves_that_an_operator_makes_are_in_the_table_of_states() -> None:
    """A parked record is published or discarded, and nothing else; of a discarded one there is no move."""
    assert {after for before, after in MOVES if before == "parked"} == {"published", "discarded"}
    assert not [before for before, _ in MOVES if before == "discarded"]
