"""The documentation is held to the code: what the README shows is run, and what it names exists."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox import Outbox
from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.moves import Parking, park
from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.errors import ConditionFailed, ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, REGION
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


def test_the_readme_sweeps(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example, as it stands: what is young is the relay's."""
    configure(engine, monkeypatch)
    create_table(engine.client("dynamodb"), "shop")
    create_bus(engine.client("events"), "orders")
    with Outbox("shop", source="shop.orders", client=engine.client("dynamodb")).transaction() as tx:
        tx.emit("order.placed", {"n": 1}, key="ORDER#1")
    (example,) = (block for block in python_blocks(README) if "Sweeper(" in block)
    found: dict[str, Any] = {}
    exec(example, found)  # noqa: S102 -- running it is the test
    assert found["sweep"]({}, None)["idle"] == 16


def test_the_readme_keeps_large_data_in_s3(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example of a claim check, as it stands: data beyond all limits is written, published and consumed."""
    configure(engine, monkeypatch)
    dynamodb, s3 = engine.client("dynamodb"), engine.client("s3")
    for table in ("shop", "billing"):
        create_table(dynamodb, table)
    s3.create_bucket(Bucket="shop-payloads")
    large: dict[str, Any] = {}
    (example,) = (block for block in python_blocks(README) if "ClaimCheck(" in block)
    exec(example, large)  # noqa: S102 -- running it is the test
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
    """Its local example, as it stands: order and record are in the table, and the event arrives at the queue."""
    tried: dict[str, Any] = {}
    exec(python_blocks(README)[-2], tried)  # noqa: S102 -- running it is the test
    assert sorted(item["sk"]["S"].partition("#")[0] for item in tried["stored"]) == ["META", "OUTBOX"]
    (record,) = (item for item in tried["stored"] if "ob_v" in item)
    assert [json.loads(message["Body"])["detail"]["id"] for message in tried["delivered"]] == [record["id"]["S"]]


def test_the_readmes_command_lines_are_understood() -> None:
    """Each program takes the arguments that are shown for it."""
    shown = re.findall(r"\$ python -m (dynamodb_outbox\.local\.\w+) ((?:.*\\\n)*.*)", README)
    parsed = {
        module: importlib.import_module(module)._parser().parse_args(arguments.replace("\\\n", " ").split())
        for module, arguments in shown
    }
    assert parsed["dynamodb_outbox.local.source"].handler == "shop_relay:handler"
    assert parsed["dynamodb_outbox.local.queue"].queue == "billing"


def test_the_readmes_variables_are_those_of_the_local_engine() -> None:
    """A writer that has another Region or account finds no table there."""
    assert set(re.findall(r"AWS_DEFAULT_REGION=([\w-]+)", README)) == {REGION}
    assert set(re.findall(r"AWS_ACCESS_KEY_ID=(\w+)", README)) == {DEFAULT_ACCOUNT}


def test_the_readme_redrives_what_is_parked(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example, as it stands."""
    configure(engine, monkeypatch)
    client = engine.client("dynamodb")
    create_table(client, "shop")
    create_bus(engine.client("events"), "orders")
    with Outbox("shop", source="shop.orders", client=client).transaction() as tx:
        tx.emit("order.placed", {}, key="ORDER#1")
    (image,) = client.scan(TableName="shop")["Items"]
    client.put_item(**park("shop", image, Layout(), Parking("Refused", "said so", 1_700_000_000_000)))
    (example,) = (block for block in python_blocks(README) if "ParkedRecords(" in block)
    shown: dict[str, Any] = {}
    exec(example, shown)  # noqa: S102 -- running it is the test
    assert shown["report"].count("published") == 1
    (settled,) = client.scan(TableName="shop")["Items"]
    assert (settled["state"], "ob_pending" in settled) == ({"S": "published"}, False)


def test_the_readmes_filters_on_columns_are_those_that_tell_layouts_apart() -> None:
    """As tests of the relay use them."""
    absent, digest = re.findall(r'`"ob_columns": (\{.*?\})`', README)
    assert json.loads(absent) == {"S": [{"exists": False}]}
    assert json.loads(digest.replace("...", str(Layout(columns={"type": "kind"}).columns_digest)))
    assert "with the layout's `columns_digest`" in README


def layouts_of(text: str) -> list[str]:
    """Return each `Layout(...)` that a Markdown text shows inline or in its examples, whole."""
    starts = [found.start() for found in re.finditer(r"\bLayout\(", text)]
    return [text[start : end_of_call(text, start)] for start in starts]


def end_of_call(text: str, start: int) -> int:
    """Return where the parentheses that open behind `start` are closed."""
    depth = 0
    for at in range(text.index("(", start), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise AssertionError(text[start : start + 40])


def test_every_layout_of_the_readme_can_be_made() -> None:
    """Each is evaluated as it stands, so none is shown that is refused; the table of schemas has several."""
    shown = layouts_of(README)
    made = [eval(each, {"Layout": Layout}) for each in shown]  # noqa: S307 -- evaluating it is the test
    assert {layout.sk for layout in made} == {"sk", None}
    assert {layout.placement for layout in made} == {"item", "table"}
    assert len(shown) == README.count("Layout(")


def test_the_readmes_advice_on_names_that_records_use() -> None:
    """A table whose partition key is `id` is refused as such, and taken with the columns that the README gives."""
    (said,) = re.findall(r"with `pk=\"id\"` also\s`columns=(.*?)`", README)
    with pytest.raises(ConfigurationError, match="columns="):
        Layout(pk="id")
    assert Layout(pk="id", columns=json.loads(said)).column("id") == "event_id"


def test_the_readmes_filter_is_that_of_the_layout() -> None:
    """What it shows for the event source mapping lets through what a relay takes for a record."""
    (shown,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    assert json.loads(shown) == stream_filter(Layout())


def test_the_readme_simulates_bad_days(capsys: pytest.CaptureFixture[str]) -> None:
    """Its last example, as it stands: nothing is violated, and what happened is printed."""
    exec(python_blocks(README)[-1], {})  # noqa: S102 -- running it is the test
    assert "20 runs" in capsys.readouterr().out


DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a document names a file that is there, and a heading that the file has."""
    targets = re.findall(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8"))
    for name, heading in targets:
        target = path.parent / name if name else path
        assert target.exists(), name
        assert not heading or heading in headings(target), f"{name}#{heading}"


def headings(path: Path) -> set[str]:
    """Return what links call the headings of a document: in small letters, hyphens for spaces, no other sign."""
    said = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-").lower() for each in said}


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
