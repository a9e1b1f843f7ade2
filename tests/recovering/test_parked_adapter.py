"""Parked records over a client that answers as no engine does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.stub import Stubber
from parked_shell import row

from dynamodb_outbox.adapters.parked_records import DynamoParkedRecords
from dynamodb_outbox.core.sweeping.commands import Failed
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS: list[Any] = [{"pk": {"S": "ORDER#1"}, "sk": {"S": f"OUTBOX#{n}"}} for n in range(3)]


@pytest.fixture
def client() -> Any:
    """Return a client that never gets as far as a network."""
    return local_client("dynamodb", "http://127.0.0.1:1")


@pytest.fixture
def stub(client: Any) -> Iterator[Stubber]:
    """Return what makes its answers; all of them are used."""
    with Stubber(client) as made:
        yield made
        made.assert_no_pending_responses()


def unprocessed(keys: list[Any], *items: Any) -> dict[str, Any]:
    """Return an answer of BatchGetItem that leaves keys out."""
    left = {"shop": {"Keys": keys}} if keys else {}
    return {"Responses": {"shop": list(items)}, "UnprocessedKeys": left}


def test_what_an_answer_leaves_out_is_asked_for_again(client: Any, stub: Stubber) -> None:
    """More than 16 MB come in several; an answer with nothing in it is a failure that may pass."""
    parked = DynamoParkedRecords(Layout(), client=client)
    stub.add_response("batch_get_item", unprocessed(KEYS[1:], row(0)))
    stub.add_response("batch_get_item", unprocessed([], row(1), row(2)))
    assert parked.read("shop", KEYS) == [row(0), row(1), row(2)]
    stub.add_response("batch_get_item", unprocessed(KEYS))
    found = parked.read("shop", KEYS)
    assert isinstance(found, Failed)
    assert found.passing


def test_failures_are_answers(client: Any, stub: Stubber) -> None:
    """Of each call, with what was said."""
    parked = DynamoParkedRecords(Layout(), client=client)
    image: Any = {**row(), "at": {"N": "1"}, "ob_state": {"S": "parked"}}
    for operation in ("batch_get_item", "query", "query", "update_item", "update_item"):
        stub.add_client_error(operation, "ThrottlingException", http_status_code=400)
    answers = [
        parked.read("shop", KEYS),
        parked.of_partition("shop", "ORDER#1"),
        parked.is_overtaken("shop", image),
        parked.discard("shop", image, "no", 1),
        parked.unlist("shop", row()),
    ]
    assert all(isinstance(answer, Failed) and answer.passing for answer in answers)
    stub.add_client_error("update_item", "ConditionalCheckFailedException", http_status_code=400)
    assert parked.unlist("shop", row()) is False


def test_where_a_key_has_no_partition_nothing_is_asked(client: Any, stub: Stubber) -> None:
    """In a table without a sort key, and for a key that no partition key of its type can be."""
    assert DynamoParkedRecords(Layout(sk=None, placement="table"), client=client).of_partition("shop", "A") == []
    assert DynamoParkedRecords(Layout(pk_type="N"), client=client).of_partition("shop", "A") == []
    assert DynamoParkedRecords(Layout(), client=client).is_overtaken("shop", row()) is False
    stub.assert_no_pending_responses()


def test_a_partition_is_read_to_its_end(client: Any, stub: Stubber) -> None:
    """Page by page."""
    stub.add_response("query", {"Items": [KEYS[0]], "LastEvaluatedKey": KEYS[0]})
    stub.add_response("query", {"Items": [KEYS[1]]})
    assert DynamoParkedRecords(Layout(), client=client).of_partition("shop", "ORDER#1") == KEYS[:2]


def test_another_client_is_refused() -> None:
    """Of another service, or a resource's."""
    with pytest.raises(ConfigurationError):
        DynamoParkedRecords(Layout(), client=local_client("sqs", "http://127.0.0.1:1"))
    assert DynamoParkedRecords(Layout(), timeout_s=3).request_ms == 6_000
