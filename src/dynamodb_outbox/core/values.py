"""Types that the whole core shares: DynamoDB's wire form of a value and of an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["AttributeValue", "WireItem"]

AttributeValue = Mapping[str, Any]
"""One value as DynamoDB's API carries it: {"S": "text"}, {"N": "1"}, {"M": {...}}, ..."""

WireItem = Mapping[str, AttributeValue]
"""An item, or a key, in that form."""
