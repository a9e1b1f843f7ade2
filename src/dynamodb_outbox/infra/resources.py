"""The pieces of a deployment, as values: what there is, and every setting of it, in the words of this library.

A description is a tuple of these. A resource names another one by its id, in a reference (`references`), and stands
after it. The renderings turn each kind into the words of CloudFormation, SAM, Terraform or the CDK and decide nothing
themselves: what is not here is in none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.record.table import RecordsTable
    from dynamodb_outbox.infra.references import Value

__all__ = [
    "EVENT_COUNTS",
    "RECORD_AGE_S",
    "Alarm",
    "Archive",
    "Bucket",
    "Bus",
    "Dashboard",
    "ExistingTable",
    "Function",
    "LogGroup",
    "Metric",
    "Resource",
    "Role",
    "Schedule",
    "Statement",
    "StreamMapping",
    "Table",
    "Topic",
]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that is made here, billed by request, and kept when the stack is deleted."""

    id: str
    name: str
    needs: RecordsTable
    stream_view: str
    kms_key: str | None


@dataclass(frozen=True, kw_only=True)
class ExistingTable:
    """A table that is there, with a stream. Its stream's ARN is looked up, or asked for, when it is deployed."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Bus:
    """An event bus that is made here."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Keeps the events of a bus for some days, so that they can be replayed."""

    id: str
    name: str
    bus: Value
    days: int


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A private bucket for batches that were given up; objects are removed after some days."""

    id: str
    days: int
    kms_key: str | None


@dataclass(frozen=True, kw_only=True)
class LogGroup:
    """Where a function's log goes, and for how many days."""

    id: str
    name: str
    days: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a role may do. `sid` says what for."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[Value, ...]
    condition: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)


@dataclass(frozen=True, kw_only=True)
class Role:
    """The role of a function, and all that it may do."""

    id: str
    policy: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A ready-made function of this library. `reserved` is its reserved concurrency, None for none.

    `retries` and `event_age_s` are for asynchronous invocations (a schedule's); None for a function that has none.
    """

    id: str
    name: str
    describes: str
    handler: str
    role: str
    log: str
    runtime: str
    architecture: str
    memory_mb: int
    timeout_s: int
    reserved: int | None
    environment: Mapping[str, Value] = field(hash=False)
    retries: int | None = None
    event_age_s: int | None = None


EVENT_COUNTS = (
    "PolledEventCount",
    "FilteredOutEventCount",
    "InvokedEventCount",
    "FailedInvokeEventCount",
    "DroppedEventCount",
    "OnFailureDestinationDeliveredEventCount",
)
"""The event-count metrics of a mapping, as Lambda names them: what becomes of the records of a stream."""


RECORD_AGE_S = 12 * 3600
"""A record that has been in the stream for longer is given up: half of the 24 hours are left for whoever looks."""


@dataclass(frozen=True, kw_only=True)
class StreamMapping:
    """The event source mapping from a table's stream to a function: from TRIM_HORIZON on, in the answer's own terms.

    Besides what is here each mapping has ReportBatchItemFailures, BisectBatchOnFunctionError, and EVENT_COUNTS.
    """

    id: str
    name: str
    function: str
    stream: Value
    filters: tuple[str, ...]
    batch_size: int
    parallelization: int
    retries: int
    record_age_s: int
    on_failure: Value
    on_failure_kind: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Invokes a function every so many minutes."""

    id: str
    name: str
    function: str
    minutes: int


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Where alarms go, and the address that is subscribed to it."""

    id: str
    name: str
    email: str


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of CloudWatch: `statistic` over periods of `period_s` seconds. `id` names it in an expression."""

    namespace: str
    name: str
    dimensions: Mapping[str, Value] = field(hash=False)
    statistic: str
    period_s: int
    id: str = "value"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm, which notifies when it starts and when it is over.

    One metric is compared as it is; several are the operands of `expression`. It starts when `datapoints` of the last
    `periods` values are `comparison` than `threshold`; what is missing counts as `missing` says.
    """

    id: str
    name: str
    says: str
    metrics: tuple[Metric, ...]
    expression: str | None = None
    comparison: str = "GreaterThanThreshold"
    threshold: int = 0
    periods: int = 1
    datapoints: int = 1
    missing: str = "notBreaching"
    notify: Value

    @property
    def slug(self) -> str:
        """What it is about, in words with hyphens: the end of its name."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.id.removesuffix("Alarm")).lower()


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard; the body is its JSON text."""

    id: str
    name: str
    body: Value


Resource = (
    Table
    | ExistingTable
    | Bus
    | Archive
    | Bucket
    | LogGroup
    | Role
    | Function
    | StreamMapping
    | Schedule
    | Topic
    | Alarm
    | Dashboard
)
