"""AWS's numbers, as data, each with its source. Nothing else in the code states one of them.

Sources: BC botocore's service models and its own source, DDG DynamoDB developer guide, EBG EventBridge user guide, EMF
specification of CloudWatch's embedded metric format, LDG Lambda developer guide, S3G S3 user guide, SNSG SNS developer
guide. What is "ours" leaves room below a number of AWS's.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ARCHIVE_NAME_LENGTH",
    "ATTRIBUTE_NAME_BYTES",
    "BATCH_GET_KEYS",
    "BATCH_RECORDS",
    "BATCH_STATEMENTS",
    "BATCH_WINDOW_MS",
    "BUCKET_NAME",
    "CONTAINER_BYTES",
    "DECODED_BYTES",
    "DIMENSION_LENGTH",
    "ELEMENT_BYTES",
    "ENVIRONMENT_BYTES",
    "ENVIRONMENT_NAME",
    "ENVIRONMENT_RESERVED",
    "EVENTBRIDGE",
    "EVENT_BUS_NAME",
    "EVENT_DETAIL_LEVELS",
    "EVENT_SOURCE_LENGTH",
    "EVENT_TIME_BYTES",
    "EVENT_TYPE_LENGTH",
    "FILTERS",
    "FILTER_LENGTH",
    "FUNCTION_INIT_MS",
    "FUNCTION_LONGEST_MS",
    "FUNCTION_MEMORY_MB",
    "FUNCTION_TIMEOUT_MS",
    "GLOBAL_STREAM_READERS",
    "INT64_MAX",
    "INT64_MIN",
    "INVOCATION_BYTES",
    "INVOCATION_RECORDS",
    "ITEM_BYTES",
    "ITEM_HEADROOM_BYTES",
    "ITERATOR_MS",
    "LEAST_RECORD_AGE_S",
    "MAX_EVENT_BYTES",
    "MESSAGE_ATTRIBUTES",
    "MESSAGE_GROUP_LENGTH",
    "METRIC_VALUES",
    "NESTING_LEVELS",
    "NOT_GIVEN_UP_TO",
    "NUMBER_DIGITS",
    "NUMBER_LARGEST_EXPONENT",
    "NUMBER_SMALLEST_EXPONENT",
    "PARALLELIZATION",
    "PARTITION_KEY_BYTES",
    "PYTHON_RUNTIMES",
    "QUEUE_NAME_LENGTH",
    "RECEIVE_MESSAGES",
    "RECORD_AGE_S",
    "RETRY_ATTEMPTS",
    "S3_PUT_BYTES",
    "SDK_ATTEMPTS",
    "SDK_LEGACY_ATTEMPTS",
    "SDK_LEGACY_ATTEMPTS_OF",
    "SDK_TIMEOUT_S",
    "SEQUENCE_NUMBER_DIGITS",
    "SNS",
    "SORT_KEY_BYTES",
    "SQS",
    "STREAM_PAGE_RECORDS",
    "STREAM_POLL_MS",
    "STREAM_READERS",
    "STREAM_RETENTION_MS",
    "TOKEN_LENGTH",
    "TOKEN_LIFE_MS",
    "TOPIC_NAME_LENGTH",
    "TRANSACTION_ACTIONS",
    "TRANSACTION_BYTES",
    "TTL_OLDEST_S",
    "SinkLimits",
]

# --- DynamoDB ---------------------------------------------------------------------------------------------------------

TRANSACTION_ACTIONS = 100  # [BC, DDG]
TRANSACTION_BYTES = 4 * 1024 * 1024  # [DDG]
ITEM_BYTES = 400 * 1024  # [DDG]
ITEM_HEADROOM_BYTES = 2 * 1024  # ours: settling adds attributes to a record, and an item at the limit cannot be settled
CONTAINER_BYTES = 3  # [DDG] of a list or a map itself
ELEMENT_BYTES = 1  # [DDG] more for each of its elements
MAX_EVENT_BYTES = 256 * 1024  # ours, when nothing else is said: what EventBridge takes in every Region [EBG]
DECODED_BYTES = TRANSACTION_BYTES  # ours: of a compressed attribute; compression saves storage and raises no limit
ATTRIBUTE_NAME_BYTES = 65_535  # [BC, DDG] of an attribute that is no key
PARTITION_KEY_BYTES = 2048  # [DDG]
SORT_KEY_BYTES = 1024  # [DDG]
NESTING_LEVELS = 32  # [DDG]
NUMBER_DIGITS = 38  # [DDG]
NUMBER_LARGEST_EXPONENT = 125  # [DDG] 9.99...E+125 is the largest number
NUMBER_SMALLEST_EXPONENT = -130  # [DDG] 1E-130 is the smallest positive one
TOKEN_LENGTH = 36  # [BC] ClientRequestToken
TOKEN_LIFE_MS = 10 * 60 * 1000  # [BC] counted from the end of the first request that completed
BATCH_STATEMENTS = 25  # [BC] BatchExecuteStatement
BATCH_GET_KEYS = 100  # [BC] BatchGetItem
SEQUENCE_NUMBER_DIGITS = 40  # [BC] at most, and at least 21; local engines have fewer
STREAM_PAGE_RECORDS = 1000  # [BC] GetRecords
STREAM_POLL_MS = 250  # [DDG] Lambda polls a shard 4 times a second
ITERATOR_MS = 15 * 60 * 1000  # [BC] of a shard iterator, from its making
STREAM_READERS = 2  # [LDG] of a shard at the same time, before they are throttled
GLOBAL_STREAM_READERS = 1  # [LDG] as above, where the table has replicas
STREAM_RETENTION_MS = 24 * 3600 * 1000  # [DDG] of a record in a stream
TTL_OLDEST_S = 5 * 365 * 24 * 3600  # [DDG] an item that expired more than five years ago is not deleted

# --- Lambda's event source mapping; ranges with both ends -------------------------------------------------------------

INVOCATION_BYTES = 6 * 1024 * 1024  # [LDG] of one event
INVOCATION_RECORDS = (1, 10_000)  # [LDG, BC] BatchSize
BATCH_RECORDS = 100  # [BC] BatchSize on a stream, when nothing is set
BATCH_WINDOW_MS = (0, 300_000)  # [LDG, BC] MaximumBatchingWindowInSeconds
PARALLELIZATION = (1, 10)  # [LDG, BC] ParallelizationFactor
RETRY_ATTEMPTS = (-1, 10_000)  # [LDG, BC] MaximumRetryAttempts; -1 is for ever
RECORD_AGE_S = (-1, 604_800)  # [LDG, BC] MaximumRecordAgeInSeconds; -1 is for ever
LEAST_RECORD_AGE_S = 60  # [LDG] where it is not for ever
FILTERS = 5  # [LDG] of one mapping; more on request
FILTER_LENGTH = 4096  # [BC] characters of a pattern
NOT_GIVEN_UP_TO = ".fifo"  # [LDG, parameters for DynamoDB] ending of a queue or topic; standard ones alone get it

# --- Lambda functions and SQS -----------------------------------------------------------------------------------------

FUNCTION_TIMEOUT_MS = 3_000  # [BC] of an invocation, when nothing is set
FUNCTION_LONGEST_MS = 900_000  # [BC] of an invocation, at most
FUNCTION_MEMORY_MB = 128  # [BC] when nothing is set
PYTHON_RUNTIMES = tuple(f"python3.{minor}" for minor in range(10, 16))  # [BC] those that this library runs in
ENVIRONMENT_NAME = r"[a-zA-Z][a-zA-Z0-9_]+"  # [BC] of a variable
ENVIRONMENT_BYTES = 4096  # [LDG] of all variables of a function
ENVIRONMENT_RESERVED = frozenset(
    (
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LAMBDA_RUNTIME_DIR",
        "LAMBDA_TASK_ROOT",
    )
)
"""Variables that a function may not set, of those with such a name [LDG, Defined runtime environment variables]."""
FUNCTION_INIT_MS = 10_000  # [LDG] for loading a function, whatever is set
RECEIVE_MESSAGES = 10  # [BC] ReceiveMessage, and so an invocation without a batching window

# --- CloudWatch -------------------------------------------------------------------------------------------------------

DIMENSION_LENGTH = 1024  # [BC] characters of a dimension's value, of printable ASCII and not blank
METRIC_VALUES = 100  # [EMF] of one metric in one document

# --- S3 ---------------------------------------------------------------------------------------------------------------

BUCKET_NAME = r"[A-Za-z0-9._-]{3,255}"  # [S3G] with the names that us-east-1 once took
S3_PUT_BYTES = 5 * 1024**3  # [S3G] of one PutObject

# --- EventBridge ------------------------------------------------------------------------------------------------------

ARCHIVE_NAME_LENGTH = 48  # [BC] CreateArchive
EVENT_TYPE_LENGTH = 128  # [BC] PutEvents DetailType
EVENT_SOURCE_LENGTH = 256  # [EBG] PutEvents Source; it may not start with "aws."
EVENT_TIME_BYTES = 14  # [EBG] what Time counts in the size of an entry
EVENT_DETAIL_LEVELS = 1000  # [EBG] of nesting in Detail
EVENT_BUS_NAME = r"(arn:aws[\w-]*:events:[a-z]+-[a-z]+-[\w-]+:[0-9]{12}:event-bus/)?[.\-_A-Za-z0-9]{1,256}"  # [BC]
INT64_MIN = -(1 << 63)  # [EBG] integers in Detail
INT64_MAX = (1 << 63) - 1  # [EBG]


@dataclass(frozen=True)
class SinkLimits:
    """What one publish request takes: `entries`, `request_bytes` together, and `entry_bytes` for a single entry.

    The bytes of an entry are `entry_overhead_bytes` and those of the UTF-8 of its `counted` members (of message
    attributes: their names, types and values).
    """

    entries: int
    request_bytes: int
    entry_bytes: int
    entry_overhead_bytes: int = 0
    counted: tuple[str, ...] = ()


EVENTBRIDGE = SinkLimits(
    entries=10,
    request_bytes=1024 * 1024 - 1,
    entry_bytes=1024 * 1024 - 1,
    entry_overhead_bytes=EVENT_TIME_BYTES,
    counted=("Source", "DetailType", "Detail", "Resources"),
)
"""PutEvents: 1 to 10 entries, the sum of entry sizes below 1 MB [BC, EBG]; 256 KB in some Regions: a sink's setting."""

# --- SNS and SQS ------------------------------------------------------------------------------------------------------

MESSAGE_ATTRIBUTES = 10  # [SNSG] of one message; with raw delivery one that has more is accepted, and then dropped
MESSAGE_GROUP_LENGTH = 128  # [BC] characters of MessageGroupId and of MessageDeduplicationId
QUEUE_NAME_LENGTH = 80  # [BC] CreateQueue
TOPIC_NAME_LENGTH = 256  # [BC] CreateTopic

SNS = SinkLimits(
    entries=10,
    request_bytes=256 * 1024,
    entry_bytes=256 * 1024,
    counted=("Message", "MessageAttributes"),
)
"""PublishBatch: bodies and attributes of 10 messages together [BC]; up to 1 MiB where the topic's MaximumMessageSize
says so: a sink's setting."""

SQS = SinkLimits(
    entries=10,
    request_bytes=1024 * 1024,
    entry_bytes=1024 * 1024,
    counted=("MessageBody", "MessageAttributes"),
)
"""SendMessageBatch: bodies and attributes of 10 messages together [BC]; less where the queue's MaximumMessageSize says
so: a sink's setting."""

# --- the SDK ----------------------------------------------------------------------------------------------------------

SDK_TIMEOUT_S = 60.0  # [BC, endpoint.py] each of the two time-outs of a client that sets none
SDK_ATTEMPTS = 3  # [BC, retries/standard.py] modes standard and adaptive
SDK_LEGACY_ATTEMPTS = 5  # [BC, _retry.json] the mode legacy, which is the default
SDK_LEGACY_ATTEMPTS_OF: Mapping[str, int] = MappingProxyType({"dynamodb": 10})  # [BC, _retry.json]
