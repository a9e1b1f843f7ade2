"""What handlers send and are given is theirs: nothing that they do to it later is seen by anybody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from simulation_ground import Ground, ground

from dynamodb_outbox.layout import Layout
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.consuming.table import ConsumerClient, Effects
from dynamodb_outbox.testing.simulation.records import RecordsClient
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.table import TABLE, Table
from dynamodb_outbox.testing.simulation.wire import copied

if TYPE_CHECKING:
    from collections.abc import Callable

LAYOUT = Layout(version="version")
KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
ITEM: dict[str, Any] = {**KEY, "n": {"N": "1"}, "deep": {"L": [{"M": {"x": {"S": "y"}}}]}}


def relays(world: Ground) -> Any:
    """Return the client of a relay."""
    stream = Stream(world.kernel, world.ledger, Chance(1), StreamSettings())
    return RecordsClient(world.network, world.process(), Table(world.kernel, stream, LAYOUT, Chance(1)))


def consumers(world: Ground) -> Any:
    """Return the client of a consumer."""
    effects = Effects(world.network, LAYOUT)
    table = Table(world.kernel, effects, LAYOUT, Chance(1), name=TABLE)
    return ConsumerClient(world.network, world.process(), table, effects)


def spoilt(value: Any) -> None:
    """Change whatever can be changed in a value."""
    if isinstance(value, (dict, list)):
        for one in list(value.values() if isinstance(value, dict) else value):
            spoilt(one)
        value.clear()


@pytest.mark.parametrize("client_of", [relays, consumers])
def test_an_item_belongs_to_its_table(client_of: Callable[[Ground], Any]) -> None:
    """Put, updated, read, or shown by a condition that failed: each time it is as it was stored."""
    with ground() as world:
        client = client_of(world)

        def there() -> dict[str, Any]:
            return dict(client.get_item(TableName=TABLE, Key=KEY, ConsistentRead=True)["Item"])

        def body() -> None:
            given, values = copied(ITEM), {":m": {"L": [{"S": "z"}]}}
            client.put_item(TableName=TABLE, Item=given)
            spoilt(given)
            assert there() == ITEM
            spoilt(there())
            assert there() == ITEM
            client.update_item(
                TableName=TABLE, Key=KEY, UpdateExpression="SET more = :m", ExpressionAttributeValues=values
            )
            spoilt(values)
            after = {**ITEM, "more": {"L": [{"S": "z"}]}}
            assert there() == after
            with pytest.raises(ClientError) as failed:
                client.put_item(
                    TableName=TABLE,
                    Item=KEY,
                    ConditionExpression="attribute_not_exists(pk)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            spoilt(failed.value.response)
            assert there() == after
            actions = [{"Put": {"TableName": TABLE, "Item": copied(ITEM)}}]
            client.transact_write_items(TransactItems=actions)
            spoilt(actions)
            assert there() == ITEM

        assert world.run(body) == [None]
