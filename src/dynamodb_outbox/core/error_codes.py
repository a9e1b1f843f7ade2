"""Codes of AWS's error answers that more than one reader goes by, as data.

What an answer means for the request is the reader's to say: a throttled publish is sent again, a throttled commit held.
Which codes are throttling is said here alone. The lists are those that botocore's own retry modes go by [BC,
retries/standard.py and _retry.json].
"""

from __future__ import annotations

__all__ = [
    "CONDITION_FAILED",
    "CONFLICTS",
    "INVALID",
    "NO_INDEX",
    "NO_TABLE",
    "SERVER_ERROR",
    "SERVER_TROUBLE",
    "THROTTLING",
    "UNFINISHED",
    "may_pass",
]

THROTTLING = frozenset(
    (
        "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled",
        "RequestThrottledException", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException",
        "TooManyRequestsException",
    )
)  # fmt: skip
"""The request was turned away without a doubt, to be sent again later. botocore counts TransactionInProgressException
among these; here it is UNFINISHED, because an earlier attempt of the same transaction is still at work."""

CONFLICTS = frozenset(("ReplicatedWriteConflictException", "TransactionConflictException"))
"""Another request holds the item: turned away without a doubt, to be sent again."""

UNFINISHED = frozenset(("RequestTimeout", "RequestTimeoutException", "TransactionInProgressException"))
"""They do not say what became of the request: it was cut off, or an earlier one is still at work."""

SERVER_TROUBLE = frozenset(
    (
        "InternalException", "InternalFailure", "InternalServerError", "InternalServerErrorException",
        "ServiceUnavailable",
    )
)  # fmt: skip
"""Faults of the service itself, should one come with a status that does not say so."""

CONDITION_FAILED = "ConditionalCheckFailedException"
"""A write's condition did not hold: nothing was written by this attempt."""

INVALID = "ValidationException"
"""The request, or a value in it, cannot be had so; of a read by keys, that the table has others."""

NO_TABLE = "ResourceNotFoundException"
"""There is no such table, or it is not active yet; the answer names none."""

NO_INDEX = "does not have the specified index"
"""Words, not a code: so DynamoDB's ValidationException says that a table lacks the index of a Query."""

SERVER_ERROR = 500
_TOO_MANY = 429


def may_pass(code: str, status: int) -> bool:
    """Whether the same request may succeed later, by the code and the HTTP status of the error answer."""
    passing = code in THROTTLING or code in CONFLICTS or code in UNFINISHED or code in SERVER_TROUBLE
    return passing or status >= SERVER_ERROR or status == _TOO_MANY
