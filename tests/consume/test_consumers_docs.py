"""docs/consumers.md is held to the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import WAYS, bridged, order

from dynamodb_outbox import Inbox, consume
from dynamodb_outbox.consume.inbox import _RUNS
from dynamodb_outbox.consume.powertools import PowertoolsInbox
from dynamodb_outbox.consume.worker import _WAIT_S
from dynamodb_outbox.core.consuming.sources import BY_MAPPING, BY_PIPE, Answering, Source
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from conftest import Account

TEXT = (Path(__file__).parents[2] / "docs" / "consumers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
ROWS = {row.split("|")[1].strip(): row for row in TEXT.splitlines() if row.startswith("| ")}


@pytest.fixture
def shown(engine: Account, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run the examples as they stand, on the engine."""
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    found: list[dict[str, Any]] = []
    for example in EXAMPLES:
        found.append({})
        exec(example, found[-1])  # noqa: S102 -- running it is the test
    return found


def test_the_examples_do_what_they_say(engine: Account, shown: list[dict[str, Any]]) -> None:
    """The first applies an order's event once and skips another; the rest can be made, and tell what they show."""
    create_table(engine.client("dynamodb"), "billing")
    first, foreign, order_of, powertools = shown
    batch = WAYS["SQS behind a rule"].of(order(1), order(1))
    assert first["lambda_handler"](batch, None) == {"batchItemFailures": []}
    items = engine.client("dynamodb").scan(TableName="billing")["Items"]
    assert sorted(item["pk"]["S"].partition("#")[0] for item in items) == ["INBOX", "INVOICE", "INVOICE"]
    assert first["inbox"]._functions.of(order(1, "customer.moved")) is first["move"]
    rule = foreign["uploads"]._reader.foreign
    detail = {"object": {"key": "a", "sequencer": "5"}}
    event = rule.event(bridged(detail, "Object Created", "aws.s3"), "m", origin="", arrived=None)
    assert event.id == '["a","5"]'
    assert isinstance(order_of["watched"], Inbox)
    assert isinstance(powertools["mails"], PowertoolsInbox)


def rows_of(source: Source) -> str:
    """Return how an answer of a source is told in the table."""
    name = ".".join(source.identifier)
    return {
        Answering.EACH: f"each `{name}` that failed",
        Answering.FIRST: f"the lowest `{name}` that failed",
        Answering.REST: f"`{name}` of the first that failed, and of all after it",
        Answering.WHOLE: "nothing: the error is raised",
    }[source.answering]


def test_the_table_of_sources_is_that_of_the_code() -> None:
    """Each row names the source as it names itself, and what an answer names."""
    told = {
        "SQS (`aws:sqs`)": BY_MAPPING["aws:sqs"],
        "SNS (`aws:sns`)": BY_MAPPING["aws:sns"],
        "Kinesis (`aws:kinesis`)": BY_MAPPING["aws:kinesis"],
        "DynamoDB stream (`aws:dynamodb`)": BY_MAPPING["aws:dynamodb"],
        "pipe from SQS (`aws:sqs`)": BY_PIPE["aws:sqs"],
        "pipe from Kinesis (`aws:kinesis`)": BY_PIPE["aws:kinesis"],
        "pipe from a DynamoDB stream (`aws:dynamodb`)": BY_PIPE["aws:dynamodb"],
    }
    assert [row for row in ROWS if "`aws:" in row] == list(told)
    for row, source in told.items():
        assert rows_of(source) in ROWS[row]


def test_every_fact_is_listed() -> None:
    """And no other."""
    listed = [name.strip("`") for name in ROWS if re.fullmatch(r"`[A-Z]\w+`", name)]
    assert sorted(listed) == sorted(set(consume.__all__) - {"Fact", "ForeignEvents"})


def test_the_numbers_are_those_of_the_code() -> None:
    """Of runs, and of the wait of the loop."""
    assert f"up to {_RUNS} times" in TEXT
    assert f"up to {_WAIT_S} s a request" in TEXT
    assert f"takes up to {_WAIT_S} s" in TEXT
