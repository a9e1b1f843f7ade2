"""A system as the rules see it: a table, what relays its stream, what sweeps it, and what is around them.

Frozen values. Durations and sizes carry their unit in the name; an ARN is text. `Seen[T]` may be `Unseen`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.doctor.inventory import Seen, Unseen, name_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.layout import Layout

__all__ = [
    "Alarm",
    "Bucket",
    "Function",
    "Index",
    "Metric",
    "OnPoison",
    "Ordering",
    "Role",
    "Schedule",
    "Settings",
    "Statement",
    "Store",
    "StreamMapping",
    "System",
    "Table",
    "Target",
    "Topic",
]

Ordering = Literal["key", "none"]
OnPoison = Literal["park", "park_key", "block"]
Keys = tuple[tuple[str, str | None], ...]
"""Names and types of key attributes, the partition's first."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """A global index; `projected` is None for all attributes."""

    name: str
    keys: Seen[Keys]
    projected: Seen[tuple[str, ...] | None]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The records' table. `stream` is the latest stream's ARN, `view` None while it has none.

    `ttl` is the attribute, None while TTL is off; `ttl_values` are values of that attribute in some items, by type.
    `by_hand` counts records among them that no sweeper sees.
    """

    name: str
    arn: str
    stream: Seen[str | None]
    view: Seen[str | None]
    keys: Seen[Keys]
    indexes: Seen[tuple[Index, ...]]
    ttl: Seen[str | None]
    recovery: Seen[bool]
    protected: Seen[bool]
    replicas: Seen[tuple[str, ...]]
    consistency: Seen[str]
    key: Seen[str | None]
    ttl_values: Seen[tuple[Mapping[str, str], ...]] = field(hash=False)
    by_hand: Seen[int]


@dataclass(frozen=True, kw_only=True)
class StreamMapping:
    """An event source mapping on a stream."""

    id: str
    name: str
    function: str
    stream: Seen[str]
    enabled: Seen[bool]
    state: Seen[str]
    result: Seen[str | None]
    batch_size: Seen[int]
    window_s: Seen[int]
    tumbling_s: Seen[int]
    parallelization: Seen[int]
    retries: Seen[int]
    record_age_s: Seen[int]
    bisects: Seen[bool]
    responses: Seen[tuple[str, ...]]
    start: Seen[str | None]
    filters: Seen[tuple[str, ...]]
    on_failure: Seen[str | None]
    metrics: Seen[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a function goes by: from its variables, or assumed where its own code says it.

    `sinks` are ARNs by event type; `problems` is what its variables are refused for; `least_timeout_s` is the time-out
    that leaves room for requests that hang.
    """

    layout: Seen[Layout]
    ordering: Seen[Ordering]
    on_poison: Seen[OnPoison]
    sinks: Seen[Mapping[str, str]] = field(hash=False)
    min_age_s: Seen[int]
    problems: tuple[str, ...]
    least_timeout_s: int


@dataclass(frozen=True, kw_only=True)
class Function:
    """A Lambda function, and what it goes by. `ready_made` is one of this library's, by its handler."""

    name: str
    arn: str
    handler: Seen[str | None]
    runtime: Seen[str | None]
    timeout_s: Seen[int]
    memory_mb: Seen[int]
    reserved: Seen[int | None]
    environment: Seen[Mapping[str, Seen[str]]] = field(hash=False)
    log_group: Seen[str]
    role: Seen[Role]
    ready_made: bool
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of a policy; `policy` is where it stands. The two lists may be of what it is not about."""

    policy: str
    allows: bool
    actions: Seen[tuple[str, ...]]
    resources: Seen[tuple[str, ...]]
    not_actions: bool = False
    not_resources: bool = False
    conditional: bool = False
    managed: bool = False


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role, by what is seen of its policies; `hidden` says what is not, and may allow more.

    `boundary` is there where a permissions boundary may take away from what they allow.
    """

    name: str
    arn: str
    statements: tuple[Statement, ...]
    attached: tuple[str, ...]
    hidden: tuple[str, ...]
    boundary: Unseen | None


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric that an alarm looks at."""

    namespace: str
    name: str
    dimensions: Mapping[str, Seen[str]] = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm of CloudWatch. `relayed` is whether a composite alarm that notifies looks at it.

    `computed`: it compares what an expression makes of its metrics. `threshold` is None where it is no number.
    """

    name: str
    metrics: Seen[tuple[Metric, ...]]
    computed: bool
    comparison: Seen[str | None]
    threshold: Seen[float | None]
    missing: Seen[str | None]
    enabled: Seen[bool]
    actions: Seen[tuple[str, ...]]
    relayed: Seen[bool]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic that alarms notify: how many have subscribed and said yes, and its KMS key."""

    name: str
    arn: str
    subscribed: Seen[int]
    key: Seen[str | None]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where events go. `archives` are those of a bus, `most_bytes` a message's limit (None: the service's own)."""

    arn: str
    kind: Literal["bus", "topic", "topic.fifo", "queue", "queue.fifo"]
    exists: Seen[bool]
    key: Seen[str | None]
    most_bytes: Seen[int | None]
    archives: Seen[tuple[str, ...]]

    @property
    def name(self) -> str:
        """What people call it."""
        return name_in(self.arn)


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where a mapping stores what it gives up, and the KMS key of a queue or topic; a bucket's is not looked at."""

    key: Seen[str | None]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What invokes a sweeper, and how many minutes there are between two runs."""

    name: str
    enabled: Seen[bool]
    minutes: Seen[float]


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A bucket, and after how many days its lifecycle removes what begins with a prefix (None: never)."""

    name: str
    exists: Seen[bool]
    prefix: str
    days: Seen[int | None]


@dataclass(frozen=True, kw_only=True)
class System:
    """All of it. `source` decides how a fix is told; `readers` counts the mappings on the table's streams.

    `mappings` are those of relays; `relays` and `sweepers` are functions; `unseen_relay` says why there is no relay,
    where there may be one, `unseen_mapping` and `unseen_alarm` why there may be more than those that are here.
    `schedules` are those of each sweeper, by its name. `failures` are on-failure destinations by ARN, None for one that
    is not there.
    """

    source: Literal["account", "template"]
    table: Seen[Table]
    table_arn: Seen[str]
    readers: Seen[int]
    mappings: Seen[tuple[StreamMapping, ...]]
    relays: tuple[Function, ...]
    unseen_relay: Unseen | None
    unseen_mapping: Unseen | None
    sweepers: Seen[tuple[Function, ...]]
    schedules: Mapping[str, Seen[tuple[Schedule, ...]]] = field(hash=False)
    targets: Seen[tuple[Target, ...]]
    failures: Mapping[str, Seen[Store | None]] = field(hash=False)
    alarms: Seen[tuple[Alarm, ...]]
    unseen_alarm: Unseen | None
    topics: Mapping[str, Seen[Topic | None]] = field(hash=False)
    payloads: Bucket | None
