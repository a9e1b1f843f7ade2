"""Item sizes as DynamoDB counts them."""

from __future__ import annotations

from typing import Any

import pytest

from dynamodb_outbox.core.codec.size import item_bytes, value_bytes


@pytest.mark.parametrize(
    ("wire", "size"),
    [
        ({"S": "abc"}, 3),
        ({"S": "é€"}, 5),
        ({"N": "0"}, 1),
        ({"N": "27"}, 2),
        ({"N": "-27"}, 3),
        ({"N": "461"}, 3),
        ({"N": "1000000"}, 2),
        ({"N": "1.5E+20"}, 2),
        ({"B": b"12345"}, 5),
        ({"NULL": True}, 1),
        ({"BOOL": False}, 1),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"BOOL": True}]}, 3 + 3 + 2),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
        ({"SS": ["a", "é"]}, 3),
        ({"NS": ["1", "22"]}, 4),
        ({"BS": [b"a", b"bc"]}, 3),
    ],
)
def test_the_size_of_each_type(wire: dict[str, Any], size: int) -> None:
    """Each type costs what DynamoDB's guide says."""
    assert value_bytes(wire) == size


def test_an_item_costs_its_names_too() -> None:
    """Names of top-level attributes count as UTF-8."""
    assert item_bytes({"pk": {"S": "é"}, "é": {"NULL": True}}) == 2 + 2 + 2 + 1
