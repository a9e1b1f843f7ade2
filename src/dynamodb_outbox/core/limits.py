"""AWS's numbers, as data, each with its source. Nothing else in the code states one of them.

Sources: BC botocore's service model, DDG DynamoDB developer guide, EBG EventBridge user guide.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BATCH_STATEMENTS",
    "EVENTBRIDGE",
    "EVENT_SOURCE_LENGTH",
    "EVENT_TYPE_LENGTH",
    "INT64_MAX",
    "INT64_MIN",
    "ITEM_BYTES",
    "ITEM_HEADROOM_BYTES",
    "NESTING_LEVELS",
    "NUMBER_DIGITS",
    "PARTITION_KEY_BYTES",
    "SORT_KEY_BYTES",
    "TOKEN_LENGTH",
    "TOKEN_LIFE_MS",
    "TRANSACTION_ACTIONS",
    "TRANSACTION_BYTES",
    "SinkLimits",
]

TRANSACTION_ACTIONS = 100  # [BC, DDG]
TRANSACTION_BYTES = 4 * 1024 * 1024  # [DDG]
ITEM_BYTES = 400 * 1024  # [DDG]
ITEM_HEADROOM_BYTES = 2 * 1024  # ours: settling adds attributes to a record, and an item at the limit cannot be settled
PARTITION_KEY_BYTES = 2048  # [DDG]
SORT_KEY_BYTES = 1024  # [DDG]
NESTING_LEVELS = 32  # [DDG]
NUMBER_DIGITS = 38  # [DDG]
TOKEN_LENGTH = 36  # [BC] ClientRequestToken
TOKEN_LIFE_MS = 10 * 60 * 1000  # [BC] counted from the end of the first request that completed
BATCH_STATEMENTS = 25  # [BC] BatchExecuteStatement
EVENT_TYPE_LENGTH = 128  # [BC] PutEvents DetailType
EVENT_SOURCE_LENGTH = 256  # [EBG] PutEvents Source; it may not start with "aws."
INT64_MIN = -(1 << 63)  # [EBG] integers in Detail
INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class SinkLimits:
    """What one publish request takes: `entries`, `request_bytes` together, and `entry_bytes` for a single entry."""

    entries: int
    request_bytes: int
    entry_bytes: int


EVENTBRIDGE = SinkLimits(entries=10, request_bytes=1024 * 1024 - 1, entry_bytes=1024 * 1024 - 1)
"""PutEvents: 1 to 10 entries, the sum of entry sizes below 1 MB [BC, EBG]; 256 KB in some Regions: a sink's setting."""
