"""The engines' own stream records: each is delivered in Lambda's form, and the relay says what it lacks."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox import Layout, Outbox, Relay
from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.core.eventsource.answers import Responded
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Invoke
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.eventsource.machine import ShardMachine
from dynamodb_outbox.core.eventsource.records import StreamRecord, stream_record
from dynamodb_outbox.errors import ConfigurationError, ImageMissing
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.sinks import EventBridge
from moto_engine import MotoEngine

if TYPE_CHECKING:
    from conftest import Account

both_engines = pytest.mark.parametrize(
    "engine", ["ministack", pytest.param("moto", marks=pytest.mark.slow)], indirect=True
)

VALUES: dict[str, Any] = {
    "binary": {"B": b"\x00\xff"},
    "binaries": {"BS": [b"\x01", b"\x02"]},
    "deep": {"M": {"ß": {"L": [{"B": b"x"}, {"N": "1"}, {"NULL": True}, {"BOOL": False}]}}},
    "exponent": {"N": "1.5E+30"},
    "tiny": {"N": "1E-130"},
    "exact": {"N": "12345678901234567890.123456789012345678"},
    "numbers": {"NS": ["1", "2.5"]},
    "text": {"S": "ä\u2028\U0001f980"},
    "texts": {"SS": ["a", "é"]},
}
IN_JSON: dict[str, Any] = {
    **VALUES,
    "binary": {"B": "AP8="},
    "binaries": {"BS": ["AQ==", "Ag=="]},
    "deep": {"M": {"ß": {"L": [{"B": "eA=="}, {"N": "1"}, {"NULL": True}, {"BOOL": False}]}}},
}


def create(engine: Account, table: str, view: str, kinds: str = "SS") -> Any:
    """Create a table whose keys have these types, and return a client."""
    client = engine.client("dynamodb")
    names = ("pk", "sk")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, kind in zip(names, kinds, strict=True)
        ],
        KeySchema=[
            {"AttributeName": name, "KeyType": role} for name, role in zip(names, ("HASH", "RANGE"), strict=True)
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": view},
    )
    return client


def delivered(engine: Account, table: str, config: MappingConfig | None = None) -> list[StreamRecord]:
    """Run the table's stream through the event source; return what a function would be given."""
    stream = DynamoDbStream(engine.client("dynamodbstreams"), stream_arn(engine.client("dynamodb"), table))
    given: list[StreamRecord] = []
    for shard in stream.shards():
        machine = ShardMachine(config or MappingConfig())
        page = stream.open(shard.shard_id).read()
        commands = machine.read([stream_record(body) for body in page.records], 0)
        while commands:
            command = commands.pop(0)
            if isinstance(command, Invoke):
                given += command.records
                commands += machine.answered(Responded(None), 0, 0, command.lane)
            else:
                assert isinstance(command, Checkpoint)
        assert machine.drained
        if page.records:
            assert machine.checkpoint == page.records[-1]["dynamodb"]["SequenceNumber"]
    return given


def normal(value: Any) -> Any:
    """Return a value with sets in order and numbers compared as numbers: engines spell them in ways of their own."""
    if isinstance(value, dict):
        if set(value) <= {"BS", "SS"}:
            return {kind: sorted(inner) for kind, inner in value.items()}
        if set(value) == {"NS"}:
            return {"NS": sorted(map(Decimal, value["NS"]))}
        return {name: Decimal(inner) if name == "N" else normal(inner) for name, inner in value.items()}
    return [normal(inner) for inner in value] if isinstance(value, list) else value


@both_engines
def test_every_kind_of_value_is_delivered_in_lambdas_form(engine: Account) -> None:
    """JSON throughout, digit for digit, with the size of what is handed over; insert, change and removal."""
    client = create(engine, "values", "NEW_AND_OLD_IMAGES")
    key = {"pk": {"S": "ä\u2028#\U0001f980"}, "sk": {"S": "ß"}}
    client.put_item(TableName="values", Item=key | VALUES)
    client.put_item(TableName="values", Item=key)
    client.delete_item(TableName="values", Key=key)
    given = delivered(engine, "values")
    assert [one.body["eventName"] for one in given] == ["INSERT", "MODIFY", "REMOVE"]
    for one in given:
        text = json.dumps(one.body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        assert one.size == len(text.encode())
        assert json.loads(text) == one.body
        assert one.body["dynamodb"]["Keys"] == key
        assert one.number == int(one.body["dynamodb"]["SequenceNumber"])
        assert one.arrived_ms > 1_600_000_000_000
    insert, change, removal = (one.body["dynamodb"] for one in given)
    assert normal(insert["NewImage"]) == normal(key | IN_JSON) == normal(change["OldImage"])
    assert (removal["OldImage"], "NewImage" in removal) == (key, False)


@both_engines
def test_binary_and_numeric_keys_are_delivered_and_keep_an_item_in_one_lane(engine: Account) -> None:
    """The key is in Lambda's form too, and the same in each record of the item."""
    client = create(engine, "binary", "KEYS_ONLY", kinds="BN")
    for place in range(6):
        key = {"pk": {"B": bytes([place % 3, 255])}, "sk": {"N": "1E+2"}}
        client.put_item(TableName="binary", Item=key | {"turn": {"N": str(place)}})
    given = delivered(engine, "binary", MappingConfig(parallelization_factor=10, batch_size=1))
    assert len(given) == 6
    keys = [one.body["dynamodb"]["Keys"] for one in given]
    names = {key["pk"]["B"] for key in keys}
    encode = base64.b64encode if isinstance(engine.engine, MotoEngine) else bytes  # moto encodes keys twice
    assert names == {encode(name).decode() for name in (b"AP8=", b"Af8=", b"Av8=")}
    assert {Decimal(key["sk"]["N"]) for key in keys} == {100}
    for name in names:
        of_item = [one.number for one, key in zip(given, keys, strict=True) if key["pk"]["B"] == name]
        assert of_item == sorted(of_item)


@both_engines
@pytest.mark.parametrize(
    ("view", "images"),
    [
        ("KEYS_ONLY", set()),
        ("NEW_IMAGE", {"NewImage"}),
        ("OLD_IMAGE", set()),
        ("NEW_AND_OLD_IMAGES", {"NewImage"}),
    ],
)
def test_a_view_type_without_the_image_is_delivered_and_the_relay_says_so(
    engine: Account, view: str, images: set[str]
) -> None:
    """The event source does not mind; the relay names the view type, and does not answer that all is well."""
    client = create(engine, "view", view)
    layout = Layout()
    client.put_item(TableName="view", Item={"pk": {"S": "a"}, "sk": {"S": f"{layout.prefix}1"}})
    [one] = delivered(engine, "view")
    assert one.body["dynamodb"].keys() & {"NewImage", "OldImage"} == images
    relay = Relay(EventBridge("orders", client=engine.client("events")), layout=layout, table="view", client=client)
    if images:
        return
    with pytest.raises(ImageMissing) as caught:
        relay.lambda_handler({"Records": [one.body]}, None)
    assert caught.value.view_type == view


@both_engines
def test_a_table_with_other_keys_is_named_by_the_relay(engine: Account) -> None:
    """Binary keys are no keys of an outbox: the relay says which attributes it has found, and publishes nothing."""
    client = create(engine, "binary", "NEW_IMAGE", kinds="BS")
    client.put_item(TableName="binary", Item={"pk": {"B": b"\x01"}, "sk": {"S": "OUTBOX#1"}})
    [one] = delivered(engine, "binary")
    relay = Relay(EventBridge("orders", client=engine.client("events")), table="binary", client=client)
    with pytest.raises(ConfigurationError, match=r"'pk' \(B\)"):
        relay.lambda_handler({"Records": [one.body]}, None)


@both_engines
def test_the_filter_of_an_outbox_selects_its_records_among_the_engines_own(engine: Account) -> None:
    """Of a transaction's change and record, and of what became of them, the inserted record alone."""
    client = engine.client("dynamodb")
    create_table(client, "shop")
    outbox = Outbox("shop", source="shop.orders", client=client)
    with outbox.transaction() as tx:
        tx.put({"pk": "ORDER#ä", "sk": "META"}, if_absent=True)
        event = tx.emit("order.placed", {"n": 1})
    pattern = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"sk": {"S": [{"prefix": "OUTBOX#"}]}}}}
    assert len(delivered(engine, "shop")) == 2
    [one] = delivered(engine, "shop", MappingConfig(filters=compile_filters(pattern)))
    assert one.body["dynamodb"]["NewImage"]["id"]["S"] == event.id


@pytest.mark.parametrize("change", ["NewImage", "Keys", "dynamodb"])
def test_a_record_without_its_parts_is_an_error_with_a_name(change: str) -> None:
    """A record that no stream makes: the relay names what is wrong instead of failing anywhere."""
    record: dict[str, Any] = {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "SequenceNumber": "1",
            "Keys": {"pk": {"S": "a"}, "sk": {"S": "OUTBOX#1"}},
            "NewImage": {"pk": {"S": "a"}, "sk": {"S": "OUTBOX#1"}},
        },
    }
    record.pop(change, None)
    record["dynamodb"] = record.get("dynamodb", "none")
    if isinstance(record["dynamodb"], dict):
        record["dynamodb"].pop(change, None)
    events, dynamodb = (local_client(service, "http://127.0.0.1:9") for service in ("events", "dynamodb"))
    relay = Relay(EventBridge("orders", client=events), table="t", client=dynamodb)
    with pytest.raises(Exception, match=r"view type|both text|stream") as caught:
        relay.lambda_handler({"Records": [record]}, None)
    assert type(caught.value).__module__ == "dynamodb_outbox.errors"
