"""Names of the library's own metrics: what reports them and what alarms on them use the same words.

All have one dimension, the table, so that they cost the same however many functions report them.
"""

from __future__ import annotations

__all__ = ["NAMESPACE", "OLDEST_PENDING", "PARKED", "TABLE"]

NAMESPACE = "DynamoDBOutbox"
TABLE = "Table"
"""The dimension: the name of the records' table."""

PARKED = "Parked"
"""How many records are parked, told by each sweep."""

OLDEST_PENDING = "OldestPending"
"""The age of the oldest record that is pending, in milliseconds, told by each sweep; 0 where none is."""
