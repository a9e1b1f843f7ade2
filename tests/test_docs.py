"""The documentation is held to the code: what the README shows is run, and what it names exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import ConditionFailed
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, route

if TYPE_CHECKING:
    from conftest import Account

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    """Return the Python examples of a Markdown text, in order."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def stream_records(engine: Account, table: str) -> list[dict[str, Any]]:
    """Return what the table's stream holds, in the form that Lambda hands to a function."""
    stream = DynamoDbStream(engine.client("dynamodbstreams"), stream_arn(engine.client("dynamodb"), table))
    return [record for shard in stream.shards() for record in stream.open(shard.shard_id).read().records]


def configure(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients that the examples make for themselves find the engine."""
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)


def test_the_readme_writes_relays_and_consumes(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its three examples, as they stand: an order is placed once, its event reaches the queue, the invoice is made."""
    configure(engine, monkeypatch)
    dynamodb, events, sqs = (engine.client(service) for service in ("dynamodb", "events", "sqs"))
    for table in ("shop", "billing"):
        create_table(dynamodb, table)
    create_bus(events, "orders")
    queue = create_queue(sqs, "billing")
    route(events, sqs, bus="orders", queue=queue, rule="all")

    written: dict[str, Any] = {}
    relayed: dict[str, Any] = {}
    consumed: dict[str, Any] = {}
    write, relay, consume, *_ = python_blocks(README)
    exec(write, written)  # noqa: S102 -- running it is the test
    exec(relay, relayed)  # noqa: S102
    exec(consume, consumed)  # noqa: S102

    first = written["place_order"]("1", 500, "request-1")
    again = written["place_order"]("1", 500, "request-1")
    assert (first.replayed, again.replayed, first.event_ids) == (False, True, again.event_ids)
    with pytest.raises(ConditionFailed):
        written["place_order"]("1", 500, "request-2")

    assert relayed["handler"]({"Records": stream_records(engine, "shop")}, None) == {"batchItemFailures": []}
    messages = sqs.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10, WaitTimeSeconds=2)["Messages"]
    assert [json.loads(message["Body"])["detail"]["id"] for message in messages] == list(first.event_ids)
    batch = {
        "Records": [
            {"messageId": message["MessageId"], "eventSource": "aws:sqs", "body": message["Body"]}
            for message in messages * 2
        ]
    }
    assert consumed["lambda_handler"](batch, None) == {"batchItemFailures": []}
    invoice = dynamodb.get_item(TableName="billing", Key={"pk": {"S": "INVOICE#1"}, "sk": {"S": "META"}})["Item"]
    assert invoice["cents"] == {"N": "500"}


def test_the_readme_keeps_large_data_in_s3(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example of a claim check, as it stands: data beyond all limits is written, published and consumed."""
    configure(engine, monkeypatch)
    dynamodb, s3 = engine.client("dynamodb"), engine.client("s3")
    for table in ("shop", "billing"):
        create_table(dynamodb, table)
    s3.create_bucket(Bucket="shop-payloads")
    large: dict[str, Any] = {}
    exec(python_blocks(README)[3], large)  # noqa: S102 -- running it is the test
    data = {"text": "x" * 2_000_000}
    with large["reports"].transaction() as tx:
        event = tx.emit("report.made", data, key="REPORT#1")
    (record,) = dynamodb.scan(TableName="shop")["Items"]
    (published,) = decode(record, Layout(), source="?").events
    seen: list[Any] = []
    large["archive"].consumer(lambda event, _: seen.append(event.data))
    assert large["archive"].apply(published)
    assert (seen, published.id) == ([data], event.id)


@pytest.mark.usefixtures("engine_extra")
def test_the_readme_can_be_tried_locally() -> None:
    """Its example on the local engine, as it stands: the order and the record of its event are in the table."""
    tried: dict[str, Any] = {}
    exec(python_blocks(README)[-2], tried)  # noqa: S102 -- running it is the test
    assert sorted(item["sk"]["S"].partition("#")[0] for item in tried["stored"]) == ["META", "OUTBOX"]


def test_the_readme_simulates_bad_days(capsys: pytest.CaptureFixture[str]) -> None:
    """Its last example, as it stands: nothing is violated, and what happened is printed."""
    exec(python_blocks(README)[-1], {})  # noqa: S102 -- running it is the test
    assert "20 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "document", ["README.md", "docs/decisions/README.md", "docs/demo.md", "docs/event-source.md", "docs/simulation.md"]
)
def test_links_lead_somewhere(document: str) -> None:
    """Every relative link of a document names a file that is there."""
    path = ROOT / document
    targets = re.findall(r"\]\((?!https?://)([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_make_target_that_the_documents_name_exists() -> None:
    """`make x` in a document is a target of the Makefile."""
    named = set(re.findall(r"make ([a-z]+)", README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test", "check"} <= named
    assert named - targets == set()


def test_every_decision_is_in_the_list() -> None:
    """A decision record that the list does not name would not be found."""
    records = {path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    listed = set(re.findall(r"\]\((\d{4}-[^)]+)\)", (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")))
    assert records == listed
