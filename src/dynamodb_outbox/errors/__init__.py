"""Every error that this library raises on purpose.

One root, `OutboxError`. An error carries its facts as attributes, so that a program need not read its text; the text
names what is wrong, where, and what to do next. `retryable` says whether the same call may be made again and can
succeed: a program decides by that attribute, never by a list of classes.
"""

from __future__ import annotations

from dynamodb_outbox.errors.building import (
    AmbiguousKey,
    DuplicateAction,
    EmptyTransaction,
    EventTooLarge,
    InvalidAction,
    InvalidEvent,
    InvalidValue,
    ItemTooLarge,
    LimitExceeded,
    MissingKey,
    NestedTransaction,
    NotCommitted,
    ReservedName,
    TransactionClosed,
    TransactionTooLarge,
    UnconditionalPut,
)
from dynamodb_outbox.errors.committing import (
    ActionFailure,
    ClientRetriesWarning,
    CommitConflict,
    CommitFailed,
    CommitThrottled,
    CommitUnknown,
    CommitUnreached,
    ConditionFailed,
    IdempotencyMismatch,
    NoGuard,
)
from dynamodb_outbox.errors.consuming import (
    QueueRefused,
    QueueUnavailable,
    Reject,
    RejectionUnpublished,
    RetryLater,
    Skip,
)
from dynamodb_outbox.errors.reading import (
    BucketUnavailable,
    ImageMissing,
    InvalidFilter,
    InvalidMessage,
    InvalidRecord,
    PayloadAltered,
    PayloadError,
    PayloadMissing,
    PayloadNotLoaded,
    PayloadUnavailable,
    StreamMissing,
    StreamRefused,
    StreamUnavailable,
    TableUnavailable,
    UnhandledEvent,
    UploadFailed,
)
from dynamodb_outbox.errors.relaying import KeyNotReleased, TableMismatch
from dynamodb_outbox.errors.root import (
    ConfigurationError,
    InvalidEnvironment,
    NoClient,
    OutboxError,
    PortTaken,
)

__all__ = [
    "ActionFailure",
    "AmbiguousKey",
    "BucketUnavailable",
    "ClientRetriesWarning",
    "CommitConflict",
    "CommitFailed",
    "CommitThrottled",
    "CommitUnknown",
    "CommitUnreached",
    "ConditionFailed",
    "ConfigurationError",
    "DuplicateAction",
    "EmptyTransaction",
    "EventTooLarge",
    "IdempotencyMismatch",
    "ImageMissing",
    "InvalidAction",
    "InvalidEnvironment",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidMessage",
    "InvalidRecord",
    "InvalidValue",
    "ItemTooLarge",
    "KeyNotReleased",
    "LimitExceeded",
    "MissingKey",
    "NestedTransaction",
    "NoClient",
    "NoGuard",
    "NotCommitted",
    "OutboxError",
    "PayloadAltered",
    "PayloadError",
    "PayloadMissing",
    "PayloadNotLoaded",
    "PayloadUnavailable",
    "PortTaken",
    "QueueRefused",
    "QueueUnavailable",
    "Reject",
    "RejectionUnpublished",
    "ReservedName",
    "RetryLater",
    "Skip",
    "StreamMissing",
    "StreamRefused",
    "StreamUnavailable",
    "TableMismatch",
    "TableUnavailable",
    "TransactionClosed",
    "TransactionTooLarge",
    "UnconditionalPut",
    "UnhandledEvent",
    "UploadFailed",
]

for _name in __all__:  # a traceback and a pickle tell the name that a program imports
    globals()[_name].__module__ = __name__
