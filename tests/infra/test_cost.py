"""The cost model: the requests that it counts are those that the code makes, and the sums follow from them."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from dynamodb_outbox import Layout, Outbox, Relay
from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.choices import Settle, SinkKind
from dynamodb_outbox.cli import main
from dynamodb_outbox.core.metrics import METRICS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.alarms import alarms, dashboard
from dynamodb_outbox.infra.cost import BESIDE, Line, Load, Requests, lines_of, requests_by_hand, requests_of, total
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.prices import PRICED, PRICES
from dynamodb_outbox.infra.references import Joined
from dynamodb_outbox.local.provision import create_bus, create_table
from dynamodb_outbox.recover import Sweeper
from dynamodb_outbox.sinks import EventBridge, Sns, Sqs

if TYPE_CHECKING:
    from conftest import Account

DOCUMENT = Path(__file__).parents[2] / "docs/cost.md"
ENTRIES = {"PutEvents": "Entries", "SendMessageBatch": "Entries", "PublishBatch": "PublishBatchRequestEntries"}


class Counted:
    """Requests of clients, by operation, and what was in them."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()

    def watch(self, client: Any) -> Any:
        """Count what a client sends from here on."""
        client.meta.events.register("before-parameter-build", self._note)
        return client

    def _note(self, params: Any, model: Any, context: Any, **_: Any) -> None:
        if not context:  # nothing is sent: how a client is looked at before it is taken
            return
        self.requests[model.name] += 1
        for name in ("TransactItems", "Statements", *set(ENTRIES.values())):
            self.parts[name] += len(params.get(name, ()))

    def made(self, invocations: int) -> Requests:
        """Return them as the model has them."""
        return Requests(
            transactions=self.requests["TransactWriteItems"],
            actions=self.parts["TransactItems"],
            invocations=invocations,
            publishes=sum(self.requests[each] for each in ENTRIES),
            published=sum(self.parts[each] for each in set(ENTRIES.values())),
            settles=self.requests["BatchExecuteStatement"] + self.requests["UpdateItem"],
            settled=self.parts["Statements"] + self.requests["UpdateItem"],
        )


def sink_of(kind: str, engine: Account, counted: Counted) -> Any:
    """Return a sink of a kind, made on the engine."""
    if kind == "bus":
        create_bus(engine.client("events"), "orders")
        return EventBridge("orders", client=counted.watch(engine.client("events")))
    name, fifo = ("orders.fifo", True) if kind.endswith(".fifo") else ("orders", False)
    if kind.startswith("topic"):
        client = engine.client("sns")
        arn = client.create_topic(Name=name, Attributes={"FifoTopic": "true"} if fifo else {})["TopicArn"]
        return Sns(arn, client=counted.watch(client))
    client = engine.client("sqs")
    url = client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if fifo else {})["QueueUrl"]
    return Sqs(url, client=counted.watch(client))


PLACED = [
    (Load(events=40, per_invocation=20), Layout()),
    (Load(events=30, per_invocation=30, settle="delete", sink="topic", guarded=True), Layout(own_partition=True)),
    (Load(events=20, per_invocation=10, settle="none", sink="queue"), Layout()),
    (Load(events=11, per_invocation=11, settle="mark", sink="topic.fifo"), Layout(placement="table")),
    (Load(events=12, per_invocation=6, sink="queue.fifo", guarded=True), Layout(placement="table")),
]
"""Each sink, each way of settling, each placement, and with a guard or without one."""


def writes(load: Load, layout: Layout, engine: Account, counted: Counted) -> list[list[dict[str, Any]]]:
    """Commit the events of a load, and return the batches of records that the stream has of them."""
    records = "records" if layout.placement == "table" else "shop"
    for table in {"shop", records}:
        create_table(engine.client("dynamodb"), table, layout=layout)
    outbox = Outbox(
        "shop",
        source="shop.orders",
        layout=layout,
        client=counted.watch(engine.client("dynamodb")),
        outbox_table=records if records != "shop" else None,
    )
    for number in range(load.events):
        with outbox.transaction(idempotency_key=str(number) if load.guarded else None) as tx:
            tx.put({"pk": f"ORDER#{number}", "sk": "META"}, if_absent=True)
            tx.emit("order.placed", {"number": number})
    stream = DynamoDbStream(engine.client("dynamodbstreams"), stream_arn(engine.client("dynamodb"), records))
    found = [each for shard in stream.shards() for each in stream.open(shard.shard_id).read().records]
    ours = [each for each in found if "payload" in each["dynamodb"]["NewImage"]]
    return [ours[start : start + load.per_invocation] for start in range(0, len(ours), load.per_invocation)]


@pytest.mark.parametrize(("load", "layout"), PLACED, ids=[f"{each.sink}, {each.settle}" for each, _ in PLACED])
def test_the_requests_are_those_that_are_made(load: Load, layout: Layout, engine: Account) -> None:
    """Counted at the clients of a writer and of a relay, from commit to settling; wherever records are placed."""
    counted, layout = Counted(), replace(layout, settle=load.settle)
    batches = writes(load, layout, engine, counted)
    sink, client = sink_of(load.sink, engine, counted), counted.watch(engine.client("dynamodb"))
    relay = Relay(sink, layout=layout, client=client)
    for batch in batches:
        assert relay.lambda_handler({"Records": batch}, None) == {"batchItemFailures": []}
    assert counted.made(len(batches)) == requests_of(load)


def test_the_requests_of_a_relay_by_hand_are_those_that_it_makes(engine: Account) -> None:
    """As it is written everywhere: each event is published, and its record marked."""
    load, counted = Load(events=6, per_invocation=3), Counted()
    batches = writes(load, Layout(), engine, counted)
    create_bus(engine.client("events"), "orders")
    bus, client = counted.watch(engine.client("events")), counted.watch(engine.client("dynamodb"))
    for batch in batches:
        for image in (each["dynamodb"]["NewImage"] for each in batch):
            entry = {"Source": "shop", "DetailType": image["type"]["S"], "Detail": image["payload"]["S"]}
            assert bus.put_events(Entries=[{**entry, "EventBusName": "orders"}])["FailedEntryCount"] == 0
            client.update_item(
                TableName="shop",
                Key={name: image[name] for name in ("pk", "sk")},
                UpdateExpression="SET published = :yes REMOVE ob_pending",
                ExpressionAttributeValues={":yes": {"BOOL": True}},
            )
    assert counted.made(len(batches)) == requests_by_hand(load)


def quantities(load: Load) -> dict[str, float]:
    """Return what is used of each price."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in lines_of(load):
        found[line.price] += line.quantity
    return dict(found)


@pytest.mark.parametrize(
    ("load", "units"),
    [
        (Load(events=1), 4 + 1 + 1 + 1),
        (Load(events=1, guarded=True), 6 + 3),
        (Load(events=1, settle="none"), 4),
        (Load(events=1, settle="delete"), 4 + 3),
        (Load(events=1, record_bytes=1025), 2 + 4 + 1 + 2 + 1),
        (Load(events=1, item_bytes=5000), 10 + 2 + 3),
        (Load(events=0), 0),
    ],
)
def test_write_units_of_an_event(load: Load, units: int) -> None:
    """Two for each KB in the transaction, one for each KB that is settled, one on the way into the index and out."""
    assert quantities(load)["write"] == units


def test_a_sweep_that_finds_nothing_reads_half_a_unit_of_each_partition() -> None:
    """A month of them; nothing else is due but time, alarms, metrics and the dashboard."""
    load = Load(events=0, sweep_minutes=5, index_shards=4)
    assert quantities(load)["read"] == 30 * 24 * 12 * 4 / 2
    assert {line.part for line in lines_of(load) if line.quantity} == {"sweeper", "watching"}


def test_a_sweep_that_finds_nothing_asks_once_for_each_partition(engine: Account) -> None:
    """Counted at the client of a sweeper: the queries that the model prices, and no other request."""
    counted, layout = Counted(), Layout(index_shards=3)
    create_table(engine.client("dynamodb"), "shop", layout=layout)
    client = counted.watch(engine.client("dynamodb"))
    sink = EventBridge("orders", client=counted.watch(engine.client("events")))
    Sweeper(sink, table="shop", layout=layout, client=client).sweep()
    assert counted.requests == {"Query": layout.index_shards}


def test_what_watches_is_what_is_deployed() -> None:
    """As many metrics as the alarms of a deployment compare."""
    deployment = Deployment(table="shop", sink="bus:orders", notify="a@b.example")
    compared = sum(len(each.metrics) for each in alarms(deployment, "any"))
    assert quantities(Load(events=0))["alarm"] == compared


@pytest.mark.parametrize("settle", get_args(Settle))
def test_a_sweeper_is_paid_for_where_one_is_deployed(settle: Any) -> None:
    """With every settle: it looks, whether there is anything to find or not."""
    deployment = Deployment(table="shop", sink="bus:orders", notify="a@b.example", layout=Layout(settle=settle))
    deployed = any(each.id == "Sweeper" for each in resources_of(deployment))
    assert deployed == any(line.part == "sweeper" for line in lines_of(Load(settle=settle)))


def test_the_metrics_are_those_of_the_mapping_and_our_own() -> None:
    """Of the mapping those that the dashboard has by its UUID, of our own each that is reported."""
    deployment = Deployment(table="shop", sink="bus:orders", notify="a@b.example")
    body = dashboard(deployment, ()).body
    assert isinstance(body, Joined)
    text = "".join(part if isinstance(part, str) else "?" for part in body.parts)
    lines = [line for each in json.loads(text)["widgets"] for line in each["properties"].get("metrics", ())]
    of_mapping = {line[1] for line in lines if "EventSourceMappingUUID" in line}
    assert quantities(Load(events=0))["metric"] == len(of_mapping) + len({each.name for each in METRICS})


@pytest.mark.parametrize(
    ("events", "per_invocation", "publishes", "settles"),
    [
        (0, 10_000, 0, 0),
        (1, 10_000, 1, 1),
        (1001, 1000, 101, 41),
        (999, 1000, 100, 40),
        (26, 100, 3, 2),
        (250, 100, 25, 10),
    ],
)
def test_an_invocation_that_is_not_full_requests_what_is_in_it(
    events: int, per_invocation: int, publishes: int, settles: int
) -> None:
    """No more calls than there are events for, whatever an invocation could take."""
    made = requests_of(Load(events=events, per_invocation=per_invocation, sink="queue"))
    assert (made.publishes, made.settles) == (publishes, settles)


def test_a_request_is_no_larger_than_the_events_that_there_are() -> None:
    """Of one event of 50 KB it has one chunk, though ten would fit."""
    load = Load(events=1, per_invocation=10_000, record_bytes=50_000, sink="queue")
    assert [line.quantity for line in lines_of(load) if line.what == "publish requests"] == [1]


def test_the_most_that_there_can_be_is_a_sum_that_json_can_tell(capsys: pytest.CaptureFixture[str]) -> None:
    """The most events, of the most bytes, at the highest prices."""
    most = ["--events", str(10**12), "--record-bytes", "400000", "--item-bytes", "400000", "--per-invocation", "1"]
    slow = ["--call-ms", "10000", "--memory-mb", "10240", "--kept-days", "3650", "--guarded"]
    prices = [each for name in PRICES for each in ("--price", f"{name}=1e6")]
    assert main(["cost", *most, *slow, *prices, "--json"]) == 0
    told = capsys.readouterr().out
    assert "Infinity" not in told
    assert "NaN" not in told


def test_a_bus_charges_events_and_a_queue_requests() -> None:
    """However many are in one; larger ones count by 64 KB."""
    assert quantities(Load(events=100))["bus"] == 100
    assert quantities(Load(events=100, record_bytes=65_537))["bus"] == 200
    assert quantities(Load(events=100, sink="queue"))["queue"] == 10
    assert quantities(Load(events=100, sink="topic.fifo", per_invocation=5))["topic.fifo"] == 20
    assert quantities(Load(events=100, sink="queue", record_bytes=20_000))["queue"] == 40


def test_records_that_are_deleted_take_no_room() -> None:
    """Others do, for as long as they are kept."""
    assert "storage" not in quantities(Load(settle="delete"))
    assert quantities(Load(settle="mark"))["storage"] > quantities(Load())["storage"] > 0


def test_an_invocation_is_as_long_as_the_calls_that_it_waits_for() -> None:
    """Ten records: one publish and one settle; by hand twenty calls."""
    (time,) = (line.quantity for line in lines_of(Load(events=10, memory_mb=1024)) if line.what == "relay: time")
    assert time == pytest.approx(0.010 + 2 * 0.020)
    hand = BESIDE["a relay by hand"](Load(events=10, memory_mb=1024))
    (time,) = (line.quantity for line in hand if line.what == "relay: time")
    assert time == pytest.approx(0.010 + 20 * 0.020)


def test_the_others_are_counted_by_the_same_rules() -> None:
    """A Pipe: no settling and no function. Plain writes: one unit for each KB."""
    load = Load(events=1_000_000)
    pipe = BESIDE["an EventBridge Pipe"](load)
    assert {line.price for line in pipe} == {"write", "storage", "pipe", "bus"}
    full = requests_of(replace(load, settle="none", per_invocation=10))  # held to counted requests, as any
    assert [line.quantity for line in pipe if line.price == "pipe"] == [full.publishes]
    assert total(BESIDE["plain writes, and no events"](load)) == pytest.approx(0.625)
    assert BESIDE["a relay by hand"](load)[2] == Line("record is marked", "write", 1_000_000)


def test_a_bill_is_the_sum_of_its_lines_at_the_prices_given() -> None:
    """Twice the price, twice the line."""
    dear = {name: replace(price, usd=2 * price.usd) for name, price in PRICES.items()}
    lines = lines_of(Load())
    assert total(lines, dear) == pytest.approx(2 * total(lines))
    assert total(lines) == pytest.approx(sum(line.usd() for line in lines))
    assert all(price.source for price in PRICES.values())


@pytest.mark.parametrize(
    "given",
    [
        {"events": -1},
        {"record_bytes": 0},
        {"settle": "any"},
        {"sink": "kafka"},
        {"guarded": 1},
        {"per_invocation": True},
    ],
)
def test_anything_else_is_refused(given: dict[str, Any]) -> None:
    """By its name."""
    with pytest.raises(ConfigurationError, match=f"Load: {next(iter(given))} is"):
        Load(**given)


def test_the_command_says_what_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    """With the arguments and the prices given."""
    arguments = ["--events", "5", "--sink", "queue.fifo", "--settle", "mark", "--guarded", "--sweep-minutes", "9"]
    assert main(["cost", *arguments, "--price", "write=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    load = Load(events=5, sink="queue.fifo", settle="mark", guarded=True, sweep_minutes=9)
    prices = {**PRICES, "write": replace(PRICES["write"], usd=2)}
    assert found["usd"] == pytest.approx(total(lines_of(load), prices))
    assert sum(found["parts"].values()) == pytest.approx(found["usd"])
    assert [each["what"] for each in found["lines"]] == [line.what for line in lines_of(load)]
    assert found["beside"].keys() == BESIDE.keys()
    assert (found["load"], found["prices"]) == (vars(load), PRICED)


@pytest.mark.parametrize("more", [["--settle", "any"], ["--price", "gold=1"]])
def test_what_there_is_not_is_a_sentence(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And the status for arguments that cannot be used."""
    assert main(["cost", *more]) == 2
    assert "outbox cost: " in capsys.readouterr().err


@pytest.mark.parametrize("price", ["bus", "bus=x", "=1", "bus=-1", "bus=inf", "bus=nan", "bus=1e308", "bus=1000001"])
def test_a_price_is_a_name_and_a_number(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By argparse's own status."""
    with pytest.raises(SystemExit):
        main(["cost", "--price", price])
    assert "NAME=USD" in capsys.readouterr().err


# --- the document ---


def test_the_bills_of_the_document_are_printed_by_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Each as it stands."""
    shown = re.findall(r"```console\n\$ outbox (cost.*)\n((?:.*\n)*?)```", DOCUMENT.read_text(encoding="utf-8"))
    assert len(shown) > 1
    for command, output in shown:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == output


def comparison() -> str:
    """Return the table of docs/cost.md: the bill of a million events by settle and sink, beside the others."""
    lines = ["| USD for a million events | " + " | ".join(SINKS) + " |", "|---|" + "---:|" * len(SINKS)]
    for settle in WAYS:
        loads = [Load(settle=settle, sink=sink) for sink in SINKS]
        sums = [total(tuple(line for line in lines_of(load) if line.part == "events")) for load in loads]
        lines.append(f'| `settle="{settle}"` | ' + " | ".join(f"{usd:.2f}" for usd in sums) + " |")
    for name, bill in BESIDE.items():
        sums = [total(bill(Load(sink=sink))) for sink in SINKS]
        lines.append(f"| {name} | " + " | ".join(f"{usd:.2f}" for usd in sums) + " |")
    return "\n".join(lines)


def test_the_formulas_are_those_of_the_code() -> None:
    """Each line of a bill is what the table makes of it, and there where the table has it."""
    (shown,) = re.findall(
        r"<!-- formulas -->\n(.*?)\n<!-- end of formulas -->", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in shown.splitlines()[2:]]
    loads = [
        Load(events=1003, record_bytes=7000, item_bytes=1025, guarded=guarded, settle=settle, sink=sink,
             per_invocation=33, call_ms=15, memory_mb=256, index_shards=5, sweep_minutes=7, kept_days=3)
        for guarded in (True, False) for settle in WAYS for sink in SINKS
    ]  # fmt: skip
    for load in loads:
        known = {**vars(load), "entries": load.entries, "ceil": math.ceil, "min": min}
        known |= {"kb": lambda size: math.ceil(size / 1024), "chunks": lambda size: math.ceil(size / 65_536)}
        expected = {}
        for name, formula, where in rows:
            value = eval(formula.strip("`"), {}, known)  # noqa: S307 -- evaluating it is the test
            if name.startswith("`"):
                known[name.strip("`")] = value
            elif not where or eval(where.strip("`"), {}, known):  # noqa: S307
                expected[name.replace("`kept_days`", str(load.kept_days))] = value
        lines = [line for line in lines_of(load) if line.part != "watching"]
        assert {line.what: line.quantity for line in lines} == pytest.approx(expected)


SINKS: tuple[SinkKind, ...] = get_args(SinkKind)
WAYS: tuple[Settle, ...] = get_args(Settle)


def test_the_comparison_is_made_from_the_model() -> None:
    """Row by row."""
    (shown,) = re.findall(
        r"<!-- comparison -->\n(.*?)\n<!-- end of comparison -->", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown == comparison()


def test_the_prices_of_the_document_are_those_of_the_code() -> None:
    """With where they are from."""
    (shown,) = re.findall(
        r"<!-- prices -->\n(.*?)\n<!-- end of prices -->", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown == price_table()


def price_table() -> str:
    """Return the table of prices."""
    lines = ["| `--price` | USD | for | source |", "|---|---:|---|---|"]
    for name, price in PRICES.items():
        each = f"{price.per:,} {price.unit}" if price.per > 1 else f"one of {price.unit}"
        lines.append(f"| `{name}` | {price.usd:g} | {each} | {price.source} |")
    return "\n".join(lines)
