"""Every error that this library raises on purpose.

One root, `OutboxError`. An error carries its facts as attributes, so that a program need not read its text; the text
names what is wrong, where, and what to do next. `retryable` says whether the same call may be made again and can
succeed: a program decides by that attribute, never by a list of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ActionFailure",
    "AmbiguousKey",
    "ClientRetriesWarning",
    "CommitConflict",
    "CommitFailed",
    "CommitThrottled",
    "CommitUnknown",
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
    "LimitExceeded",
    "MissingKey",
    "NestedTransaction",
    "NoGuard",
    "NotCommitted",
    "OutboxError",
    "PayloadAltered",
    "PayloadError",
    "PayloadMissing",
    "PayloadNotLoaded",
    "PayloadUnavailable",
    "PortTaken",
    "ReservedName",
    "StreamMissing",
    "StreamRefused",
    "StreamUnavailable",
    "TransactionClosed",
    "TransactionTooLarge",
    "UnconditionalPut",
    "UnhandledEvent",
    "UploadFailed",
]


class OutboxError(Exception):
    """The root of every error of this library."""

    retryable: bool = False


class ConfigurationError(OutboxError):
    """An argument of a constructor, or a setting, cannot work as given."""


class InvalidEnvironment(ConfigurationError):
    """A ready-made handler cannot work with the environment variables that are set.

    `problems` has a text for each thing that is wrong, with the name of its variable.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        more_than_one = len(self.problems) > 1
        super().__init__(
            " ".join(f"({number}) {each}" if more_than_one else each for number, each in enumerate(self.problems, 1))
        )


# --- building a transaction -------------------------------------------------------------------------------------------


class InvalidAction(OutboxError):
    """An action cannot be built from these arguments: `action` names it, `reason` says why."""

    def __init__(self, action: str, reason: str) -> None:
        self.action = action
        self.reason = reason
        super().__init__(f"{action}: {reason}")


class UnconditionalPut(InvalidAction):
    """A put without a condition would replace whatever is there; say which of the two is meant."""

    def __init__(self, action: str) -> None:
        super().__init__(
            action,
            "a put without a condition replaces whatever is there. Say what must hold (if_absent=True, if_exists=True, "
            "if_version=n or condition=), or overwrite=True to replace it on purpose.",
        )


class DuplicateAction(InvalidAction):
    """Two actions of one transaction touch the same item; DynamoDB takes one action per item."""

    def __init__(self, action: str, first: str) -> None:
        self.first = first
        super().__init__(action, f"this transaction already touches the item ({first}). Merge the two into one action.")


class ReservedName(InvalidAction):
    """An item's key lies in the name space of the library's own records (`prefix`)."""

    def __init__(self, action: str, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(
            action,
            f"keys that start with {prefix!r} belong to the outbox's own records. Use another key, or another "
            "Layout(prefix=...).",
        )


class InvalidValue(OutboxError):
    """A value cannot be stored or published unchanged: `path` says where it sits, `reason` why not."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class InvalidEvent(OutboxError):
    """An event cannot be emitted, or recorded, as given: `field` names what is wrong with it, `reason` says why."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"event: {field} {reason}")


class AmbiguousKey(OutboxError):
    """Several partitions are written and the event does not say which of them orders it.

    `partitions` are their keys as text, `types` the types of these: "S", "N" or "B".
    """

    def __init__(self, event_type: str, partitions: Sequence[str], types: Sequence[str]) -> None:
        self.event_type = event_type
        self.partitions = tuple(partitions)
        self.types = tuple(types)
        several = len(set(types)) > 1
        said = [f"{key!r} ({kind})" if several else repr(key) for key, kind in zip(partitions, types, strict=True)]
        super().__init__(
            f"event {event_type!r}: the transaction writes {len(self.partitions)} partitions "
            f"({', '.join(said)}). Pass emit(..., key=...) to say which one orders the event."
        )


class MissingKey(OutboxError):
    """An event has no key to be ordered by, and nothing is written that could give it one. `advice` says what to do."""

    def __init__(self, event_type: str, advice: str = "Pass emit(..., key=...).") -> None:
        self.event_type = event_type
        self.advice = advice
        super().__init__(f"event {event_type!r}: nothing is written that could give the event its key. {advice}")


class EmptyTransaction(OutboxError):
    """The transaction has neither an action nor an event."""

    def __init__(self) -> None:
        super().__init__("the transaction is empty: put, update, delete, check or emit something before it ends.")


class TransactionClosed(OutboxError):
    """The transaction was committed or left already: `operation` came too late."""

    def __init__(self, operation: str, state: str) -> None:
        self.operation = operation
        self.state = state
        super().__init__(f"{operation}: this transaction is {state}. Open a new one with outbox.transaction().")


class NotCommitted(OutboxError):
    """The receipt of a transaction was asked for before there was one."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"there is no receipt: this transaction is {state}. It has one after a commit that succeeded.")


class NestedTransaction(OutboxError):
    """A transaction was entered a second time, or inside of another one of the same outbox."""

    def __init__(self) -> None:
        super().__init__(
            "a transaction is entered once and does not nest: what an inner one writes would stay when the outer one "
            "fails. Pass the outer one (tx) to the code that adds to it; what is to be committed by itself goes "
            "before or after it, or into a transaction that is committed with commit() and without `with`."
        )


# --- limits -----------------------------------------------------------------------------------------------------------


class LimitExceeded(OutboxError):
    """Something is larger than AWS takes: `what` it is, its `size` and the `limit`, in `unit`."""

    def __init__(self, what: str, size: int, limit: int, unit: str, advice: str) -> None:
        self.what = what
        self.size = size
        self.limit = limit
        self.unit = unit
        super().__init__(f"{what}: {size:,} {unit}, {size - limit:,} over the limit of {limit:,}. {advice}")


class EventTooLarge(LimitExceeded):
    """The published form of an event is larger than `max_event_bytes`."""


class ItemTooLarge(LimitExceeded):
    """An item is larger than DynamoDB stores."""


class TransactionTooLarge(LimitExceeded):
    """A transaction has more actions, or more bytes, than DynamoDB takes."""


# --- commit -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActionFailure:
    """Why one action of a cancelled transaction stopped it.

    `index` is its place in the request; `action` names it (`put orders {'pk': 'ORDER#1', 'sk': 'META'}`); `code` and
    `message` are DynamoDB's; `item` is the item as it was, in Python values, or None when there was none. `unmet` says
    which of the action's conditions did not hold (`version is 2, if_version=1`); it is empty where that is not known.
    """

    index: int
    action: str
    code: str
    message: str = ""
    item: Mapping[str, Any] | None = None
    unmet: str = ""

    def __str__(self) -> str:
        # Without the item: errors are logged, and a log is no place for data.
        said = self.unmet or self.message
        return f"{self.action}: {self.code}{': ' + said if said else ''}"


class CommitFailed(OutboxError):
    """DynamoDB refused the transaction, and nothing of it was written. `failures` names the actions at fault."""

    advice = "Nothing was written."

    def __init__(self, failures: Sequence[ActionFailure], *, detail: str = "") -> None:
        self.failures = tuple(failures)
        said = "; ".join(map(str, self.failures)) or detail or "no reason was given"
        super().__init__(f"{said}. {self.advice}")


class ConditionFailed(CommitFailed):
    """A condition did not hold, so nothing was written.

    `failures[i].action` and `.unmet` say which, `.item` what was there.
    """

    advice = "Nothing was written: read the item again and decide anew."


class CommitConflict(CommitFailed):
    """Another transaction kept holding the same items for the whole time budget. Nothing was written."""

    retryable = True
    advice = "Nothing was written: commit() may be called again."


class CommitThrottled(CommitFailed):
    """DynamoDB kept throttling for the whole time budget. Nothing was written."""

    retryable = True
    advice = "Nothing was written: commit() may be called again; look at the table's capacity."


class CommitUnknown(OutboxError):
    """No answer said whether the transaction was committed, within the time budget.

    `token` is the ClientRequestToken of every attempt, `reason` the last error. Calling `commit()` on the same
    transaction goes on with the same request and never commits twice; so does running the command again with the same
    idempotency_key.
    """

    retryable = True

    def __init__(self, token: str, reason: str) -> None:
        self.token = token
        self.reason = reason
        super().__init__(
            f"whether the transaction was committed is unknown ({reason}; token {token}). Call commit() again on the "
            "same transaction, or run the command again with the same idempotency_key: neither commits twice."
        )


class ClientRetriesWarning(UserWarning):
    """A client that was passed in may repeat a request for longer than DynamoDB remembers its token."""


class IdempotencyMismatch(OutboxError):
    """This idempotency_key was used for a command with other content."""

    def __init__(self, idempotency_key: str) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(
            f"idempotency_key {idempotency_key!r} was used before for a command with other content. Nothing was "
            "written. If this is the same command, its content holds values made anew on each run (an id, a time): "
            "pass fingerprint=. For a different command use a new key."
        )


class NoGuard(OutboxError):
    """An item that is no guard this version knows stands where that of a command, or an inbox record, belongs.

    It does not say whether the command ran before. `command` is its idempotency_key, or the partition key of the inbox
    record; `table` is where the item stands. `newer` is the schema's version (`ob_v`) of a guard that a newer version
    of this library wrote, else None: that one has to be read by such a version, and not to be removed.
    """

    def __init__(self, command: str, table: str, newer: int | None = None) -> None:
        self.command = command
        self.table = table
        self.newer = newer
        what, advice = "an item that is no guard", "Find out what wrote it; when it is removed, the command can run."
        if newer is not None:
            what = f"a guard of a newer version of this library (ob_v {newer})"
            advice = "Upgrade dynamodb-outbox here, and leave the guard: without it the command could run twice."
        super().__init__(
            f"{what} stands in {table} where the guard of {command!r} belongs, so it cannot be told whether the "
            f"command was committed. {advice}"
        )


# --- reading records --------------------------------------------------------------------------------------------------


class InvalidRecord(OutboxError):
    """A stored record cannot be read as events: `where` is its key, `reason` what is wrong with it."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"record {where}: {reason}")


class ImageMissing(OutboxError):
    """A stream record has no NewImage: the stream's view type does not carry what the relay publishes."""

    def __init__(self, view_type: str) -> None:
        self.view_type = view_type
        super().__init__(
            f"the stream's view type is {view_type}, so its records do not carry the item. The relay needs NEW_IMAGE "
            "or NEW_AND_OLD_IMAGES; a view type cannot be changed: disable the stream and enable it with the right one."
        )


class InvalidMessage(OutboxError):
    """A delivered message cannot be read as an event: `where` names the message, `reason` says what is wrong."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"message {where}: {reason}")


class UnhandledEvent(OutboxError):
    """A consumer was given an event that none of its functions takes."""

    def __init__(self, event_type: str, consumer: str) -> None:
        self.event_type = event_type
        self.consumer = consumer
        super().__init__(
            f"consumer {consumer!r} has no function for {event_type!r} events. Add one with @inbox.on({event_type!r}), "
            "or narrow the rule that feeds the queue: what is not handled goes back to the queue and, in the end, to "
            "its dead-letter queue."
        )


# --- claim checks -----------------------------------------------------------------------------------------------------


class UploadFailed(OutboxError):
    """The data of an event could not be stored under `uri`; `reason` is what the store said.

    Nothing was committed: data is stored before the transaction is sent. `commit()` may be called again on the same
    transaction, and stores the same bytes under the same name; `retryable` says whether that can succeed by itself.
    """

    def __init__(self, uri: str, reason: str, *, retryable: bool) -> None:
        self.uri = uri
        self.reason = reason
        self.retryable = retryable
        advice = (
            "Call commit() again."
            if retryable
            else "The writer needs s3:PutObject there, and kms:GenerateDataKey where a key encrypts."
        )
        super().__init__(f"nothing was committed: storing {uri} failed ({reason}). {advice}")


class PayloadError(OutboxError):
    """The data of an event cannot be had from where the event says it is, `uri`; `reason` says why."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"the data at {uri}: {reason}")


class PayloadNotLoaded(PayloadError):
    """The data of an event is in an object and has not been fetched. The inbox fetches it; a relay never does."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, "it is not loaded; an Inbox(..., claim_check=ClaimCheck(bucket)) fetches it.")


class PayloadMissing(PayloadError):
    """There is no such object: it was deleted, or a lifecycle rule removed it before the event was consumed."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            uri,
            "there is no such object. A lifecycle rule must keep objects for longer than queues, dead-letter queues, "
            "parked records and replays keep their events.",
        )


class PayloadAltered(PayloadError):
    """The object is not what the writer stored: its SHA-256 is another, or it is no JSON text."""


class PayloadUnavailable(PayloadError):
    """The data could not be fetched, or may not be. `retryable` says whether the same call may succeed later."""

    def __init__(self, uri: str, reason: str, *, retryable: bool = False) -> None:
        super().__init__(uri, reason)
        self.retryable = retryable


# --- programs that listen on this machine -----------------------------------------------------------------------------


class PortTaken(OutboxError):
    """The `port` cannot be listened on: another process has it, or this user may not; `reason` is the system's word."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        self.reason = reason
        super().__init__(
            f"port {port} cannot be used ({reason}): end the process that has it, or take another one. Port 0 is any "
            "that is free."
        )


# --- streams and event source mappings --------------------------------------------------------------------------------


class StreamMissing(OutboxError):
    """There is no such stream: `name` is the table's or the stream's."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(
            f"{name}: {reason}. Create the table with a stream, or enable it, and look the stream up again"
        )


class StreamUnavailable(OutboxError):
    """The stream gave no answer, or asked to slow down. The same call may be made again."""

    retryable = True

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the stream cannot be read at the moment: {reason}")


class StreamRefused(OutboxError):
    """The stream refuses the request, and will again: `code` is AWS's (AccessDeniedException, …)."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"the stream refuses to be read: {code}: {reason}")


class InvalidFilter(ConfigurationError):
    """A filter pattern that cannot be honoured: `path` says where, `operator` which one (empty when it is not that)."""

    def __init__(self, path: str, reason: str, operator: str = "") -> None:
        self.path = path
        self.operator = operator
        self.reason = reason
        super().__init__(f"filter {path}: {reason}")
