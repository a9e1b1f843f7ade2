"""What a user says of a deployment; everything else follows from it (`plan`).

Each argument is checked here, and so is what they come to together: an order that the mapping could not keep, variables
that the relay would refuse. A description that can be made can be deployed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.arguments import Refusal, flag, mapping, refusal, shown, text, whole
from dynamodb_outbox.core.limits import INVOCATION_RECORDS, PARALLELIZATION
from dynamodb_outbox.core.record.leases import can_lease
from dynamodb_outbox.environment.settings import layout_text, settings_of
from dynamodb_outbox.environment.variables import RELAY, SWEEP
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.allowed import (
    check_environment,
    check_name_of_bus,
    check_on_failure,
    check_runtime,
    check_topic,
    check_variable,
)
from dynamodb_outbox.infra.destinations import Destination, destination
from dynamodb_outbox.infra.references import TABLE_NAME, Local, Value, joined
from dynamodb_outbox.infra.resources import RECORD_AGE_S
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.sweeper import Sweeper
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks.arns import arn_of

if TYPE_CHECKING:
    from dynamodb_outbox.choices import OnPoison, Ordering

__all__ = ["Deployment"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_refusal = partial(refusal, "Deployment")
_LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
_OWN = ("OUTBOX_SINK", "OUTBOX_TABLE", "OUTBOX_LAYOUT", "OUTBOX_SETTLE", "OUTBOX_ORDERING", "OUTBOX_ON_POISON")
_METRICS = {"OUTBOX_METRICS": "emf"}
_FAILURE_KINDS = {"s3": "S3", "sqs": "SQS", "sns": "SNS"}
_RANGES = {
    "parallelization": PARALLELIZATION,
    "batch_size": INVOCATION_RECORDS,
    "memory_mb": (128, 10_240),
    "timeout_s": (15, 900),
    "sweep_minutes": (1, 60),
    "lag_minutes": (1, RECORD_AGE_S // 2 // 60),
}
_WHY = {
    "lag_minutes": f"The mapping gives records up after {RECORD_AGE_S // 3600} hours: by then somebody has to know, "
    "and to have mended it."
}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A relay and a sweeper on a table, and what watches over them.

    table            the name of the records' table; made here unless `existing_table`
    sink             where events go: an ARN, or "bus:NAME", "topic:NAME", "queue:NAME" of the same account and Region;
                     or a dict of these by event type, as `Router` has it
    notify           who is told by the alarms: an e-mail address (a topic is made, and the address subscribed), or the
                     ARN of an SNS topic
    name             what the names of functions, alarms and so on begin with; `<table>-outbox` when not given
    existing_table   the table is there, with a stream: nothing of it is changed
    new_bus          the bus (there is one, by its name) is made here, with an archive
    layout           the writer's Layout
    ordering, on_poison    those of Relay
    parallelization  batches of a shard at the same time. More than 1 keeps no order of a key, whose records are
                     different items; so it needs ordering="none"
    reserved_concurrency   of the relay; 10 for each of `parallelization` when not given; 0 for none, which needs a
                     layout that has leases: without them 1 is reserved for the sweeper
    batch_size       records of an invocation, at most
    environment      further variables of the functions, as OUTBOX_RATE_LIMIT
    on_failure       the ARN of an S3 bucket (which gets the records too), a queue or a topic for what the mapping gives
                     up; a bucket is made when not given
    archive_days     keeps the events of the bus for so many days; 90 with `new_bus`, and 0 (no archive) otherwise, when
                     not given: the archive of a bus that is there would hold everybody's events. The bus is told by its
                     name
    kms_key          the ARN of the table's KMS key (of one that is there: its own), and of the bucket's
    sink_kms_key     the ARN of the KMS key of the topic or queue, where it has one
    on_failure_kms_key     that of `on_failure`, where it has one of its own
    memory_mb        of both functions
    timeout_s        of the relay
    sweep_minutes    how often the sweeper runs
    lag_minutes      how late events may be before an alarm tells; half of the 12 hours after which the mapping gives
                     records up are the most
    log_days         for how long logs are kept, one of the numbers that CloudWatch takes
    runtime, architecture    of the functions: Lambda's names

    Raises ConfigurationError for what cannot work, alone or together.
    """

    table: str
    sink: str | Destination | Mapping[str, str | Destination] = field(hash=False)
    notify: str
    name: str | None = None
    existing_table: bool = False
    new_bus: bool = False
    layout: Layout = field(default_factory=Layout)
    ordering: Ordering = "key"
    on_poison: OnPoison = "park"
    parallelization: int = 1
    reserved_concurrency: int | None = None
    batch_size: int = 1000
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    on_failure: str | None = None
    archive_days: int | None = None
    kms_key: str | None = None
    sink_kms_key: str | None = None
    on_failure_kms_key: str | None = None
    memory_mb: int = 512
    timeout_s: int = 30
    sweep_minutes: int = 1
    lag_minutes: int = 5
    log_days: int = 30
    runtime: str = "python3.13"
    architecture: Literal["arm64", "x86_64"] = "arm64"

    def __post_init__(self) -> None:
        if not _TABLE.fullmatch(text(self.table, _refusal("table"))):
            raise _refusal("table")(f"is {shown(self.table)}; 3 to 255 letters, digits, '_', '-' and '.' are needed.")
        if not _NAME.fullmatch(self.prefix):
            raise _refusal("name")(f"is {shown(self.prefix)}; 1 to 50 letters, digits, '_' and '-' are needed.")
        for what, (least, most) in _RANGES.items():
            whole(getattr(self, what), _out_of_range(what), least=least, most=most)
        flag(self.existing_table, _refusal("existing_table"))
        flag(self.new_bus, _refusal("new_bus"))
        if not isinstance(self.layout, Layout):
            raise _refusal("layout")(f"is {shown(self.layout)}; a Layout is needed.")
        self._check_words()
        self._check_arns()
        self._check_together()

    @property
    def prefix(self) -> str:
        """What names begin with."""
        return self.name if self.name is not None else f"{self.table.replace('.', '-')}-outbox"

    @cached_property
    def routes(self) -> Mapping[str, Destination]:
        """The destinations by event type; of a single one, by `*`."""
        given = self.sink if isinstance(self.sink, Mapping) else {"*": self.sink}
        return {pattern: _read(each) for pattern, each in given.items()}

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The destinations, each once."""
        return tuple(dict.fromkeys(self.routes.values()))

    @property
    def bus(self) -> Destination | None:
        """The one event bus among the destinations, None where there is none, or more than one."""
        found = [each for each in self.destinations if each.kind == "bus"]
        return found[0] if len(found) == 1 else None

    @property
    def ordered(self) -> bool:
        """Whether the order of a key's events is kept."""
        return self.ordering == "key"

    @property
    def reserved(self) -> int | None:
        """The relay's reserved concurrency, None for none."""
        given = self.reserved_concurrency
        return (10 * self.parallelization if given is None else given) or None

    @property
    def archived_days(self) -> int:
        """For how many days events of the bus are archived; 0: not at all."""
        given = self.archive_days
        return (90 if self.new_bus else 0) if given is None else given

    @property
    def on_failure_kind(self) -> str:
        """The kind of the on-failure destination: S3, SQS or SNS."""
        found = None if self.on_failure is None else arn_of(self.on_failure)
        return "S3" if found is None else _FAILURE_KINDS[found.service]

    def variables(self) -> Mapping[str, Value]:
        """Return the environment variables of the functions; with metrics, for alarms go by them."""
        return self._variables({pattern: each.arn for pattern, each in self.routes.items()}, TABLE_NAME)

    def _variables(self, arns: Mapping[str, Value], table: Value) -> dict[str, Value]:
        found: dict[str, Value] = {
            "OUTBOX_SINK": _sink_text(arns) if isinstance(self.sink, Mapping) else arns["*"],
            "OUTBOX_TABLE": table,
            **_METRICS,
        }
        told = layout_text(self.layout)
        if told != "{}":
            found["OUTBOX_LAYOUT"] = told
        if not self.ordered:
            # The mapping's retries are bounded then, and quick invocations of a relay that waits would use them up.
            found |= {"OUTBOX_ORDERING": self.ordering, "OUTBOX_BREAKER_AFTER": "never"}
        if self.on_poison != "park":
            found["OUTBOX_ON_POISON"] = self.on_poison
        return {**found, **self.environment}

    def _check_words(self) -> None:
        if self.log_days not in _LOG_DAYS:
            raise _refusal("log_days")(f"is {shown(self.log_days)}; one of {', '.join(map(str, _LOG_DAYS))} is needed.")
        if self.reserved_concurrency is not None:
            whole(self.reserved_concurrency, _refusal("reserved_concurrency"), least=0, most=1_000_000)
        if self.archive_days is not None:
            whole(self.archive_days, _refusal("archive_days"), least=0, most=36_500)
        if self.architecture not in ("arm64", "x86_64"):
            raise _refusal("architecture")(f"is {shown(self.architecture)}; 'arm64' or 'x86_64' is needed.")
        check_runtime(text(self.runtime, _refusal("runtime")), _refusal("runtime"))
        for name, value in mapping(self.environment, _refusal("environment")).items():
            check_variable(name, value, _refusal("environment"))
            if name in _OWN:
                raise _refusal("environment")(f"sets {name}, which has an argument of its own.")
            if name in _METRICS:
                raise _refusal("environment")(f"sets {name}, which the alarms go by: it is {_METRICS[name]!r}.")

    def _check_arns(self) -> None:
        found = arn_of(text(self.notify, _refusal("notify")))
        if not (_EMAIL.fullmatch(self.notify) if found is None else found.service == "sns"):
            raise _refusal("notify")(f"is {shown(self.notify)}; an e-mail address or a topic's ARN is needed.")
        if found is not None:
            check_topic(found, _refusal("notify"))
        for what in ("kms_key", "sink_kms_key", "on_failure_kms_key"):
            key = getattr(self, what)
            found = None if key is None else arn_of(text(key, _refusal(what)))
            if key is not None and (found is None or found.service != "kms" or not found.resource.startswith("key/")):
                raise _refusal(what)(f"is {shown(key)}; the ARN of a KMS key is needed.")
        if self.on_failure is not None:
            check_on_failure(text(self.on_failure, _refusal("on_failure")), _refusal("on_failure"))
        elif self.on_failure_kms_key is not None:
            raise _refusal("on_failure_kms_key")("is that of on_failure: the bucket that is made has kms_key.")

    def _check_together(self) -> None:
        if self.new_bus and (self.bus is None or not isinstance(self.bus.arn, Local)):
            raise _refusal("new_bus")("needs one event bus among the destinations, by its name: 'bus:NAME'.")
        if self.new_bus and self.bus is not None:
            check_name_of_bus(self.bus.name, _refusal("new_bus"))
        if self.archived_days and self.bus is None:
            raise _refusal("archive_days")("needs one event bus: EventBridge alone archives.")
        if self.archived_days and self.bus is not None and not self.bus.is_here:
            raise _refusal("archive_days")(
                f"is {self.archived_days}, and the bus {shown(self.bus.sample)}, which may be another account's or "
                "Region's: those archive it themselves. One of here is named by its name: 'bus:NAME'."
            )
        if self.reserved is None and not can_lease(self.layout):
            raise _refusal("reserved_concurrency")(
                f"is {self.reserved_concurrency}: with keys that are no text there are no leases, so that one sweeper "
                "alone may run, and a concurrency of 1 has to be reserved for it."
            )
        if self.ordered and self.parallelization > 1:
            raise _refusal("parallelization")(
                f"is {self.parallelization}: the records of a key are different items, which Lambda hands over at the "
                "same time then. Keep it at 1, or give up their order: ordering='none'."
            )
        samples = {pattern: each.longest for pattern, each in self.routes.items()}
        plain = {name: _plain(value) for name, value in self._variables(dict(samples), self.table).items()}
        check_environment(plain, _refusal("environment"))
        settings = settings_of(plain, RELAY)
        Relay(settings.sink, layout=settings.layout, **settings.arguments)
        settings = settings_of(plain, SWEEP)
        Sweeper(settings.sink, layout=settings.layout, **settings.arguments)


def _out_of_range(what: str) -> Refusal:
    refuse = _refusal(what)
    return lambda reason: refuse(f"{reason} {_WHY[what]}" if what in _WHY else reason)


def _read(given: Any) -> Destination:
    if isinstance(given, Destination):
        return given
    named = text(given, _refusal("sink"))
    try:
        return destination(named)
    except ConfigurationError as error:
        raise _refusal("sink")(error.reason) from None


def _sink_text(arns: Mapping[str, Value]) -> Value:
    """Return the JSON object of ARNs by event type."""
    parts: list[Value] = ["{"]
    for place, (pattern, arn) in enumerate(arns.items()):
        parts += [f'{", " if place else ""}{json.dumps(pattern)}: "', arn, '"']
    return joined(*parts, "}")


def _plain(value: Value) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")  # samples are, and so is what they are joined to
    return value
