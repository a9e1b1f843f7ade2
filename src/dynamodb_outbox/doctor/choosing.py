"""Which of the resources are the outbox: the table, the relay on its stream, the sweeper, and where events go.

A ready-made function is known by its handler. One of the user's own is the relay when it is named, when its mapping
lets records through and little else, or when no other mapping reads a stream. A mapping that relays nothing beside one
that relays the same was left over, when the stream was switched off and on, or when another function took its place; it
is not looked at, and neither is a function that has no other, unless it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.doctor.around import alarms_of, payloads_of, sinks_of, store_at, target_at, topics_of
from dynamodb_outbox.doctor.functions import Assumed, function_of, reads
from dynamodb_outbox.doctor.inventory import Inventory, Piece, Seen, Unseen, function_name, name_in, same_arn, segments
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.reading import mapping_of, schedule_of, table_of
from dynamodb_outbox.doctor.resource_policies import Call, Policy, invoking_policy, lets
from dynamodb_outbox.doctor.roles import role_of
from dynamodb_outbox.doctor.samples import samples_of
from dynamodb_outbox.doctor.system import Function, Role, Schedule, Store, StreamMapping, System, Table
from dynamodb_outbox.environment.variables import RELAY, SWEEP
from dynamodb_outbox.errors import ConfigurationError, InvalidFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FUNCTIONS", "MAPPING", "POLICIES", "SCHEDULES", "SWEEPERS", "TABLES", "Asked", "system_of"]

TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
FUNCTIONS = ("AWS::Lambda::Function",)
MAPPING = "AWS::Lambda::EventSourceMapping"
SCHEDULES = ("AWS::Events::Rule", "AWS::Scheduler::Schedule")
POLICIES = ("AWS::Lambda::Permission", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy")
"""Policies of resources, which are resources of their own in a template."""
SWEEPERS = "sweepers"
"""A word among the kinds of `Inventory.unseen`: of the functions those that no mapping names may be others."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user says of an outbox: names, where there is more than one, and what a function's own code hides.

    `payloads` is the bucket of a claim check, `prefix` what its objects begin with.
    """

    table: str | None = None
    relays: tuple[str, ...] = ()
    sweepers: tuple[str, ...] = ()
    assumed: Assumed = field(default_factory=Assumed)
    payloads: str | None = None
    prefix: str = "outbox/"


def system_of(inventory: Inventory, asked: Asked) -> System:
    """Return the outbox. Raises ConfigurationError when there is none, or more than one and none was named."""
    chosen = _Choice(inventory, asked)
    relays = chosen.relays
    if not relays and not chosen.table_name:
        raise ConfigurationError("no relay and no table were found: --table and --relay name them.")
    unseen = None if relays else inventory.lacks(*FUNCTIONS)
    sinks = sinks_of(relays) if relays else unseen or Unseen("there is no relay")
    alarms = alarms_of(inventory)
    return System(
        source=inventory.source,
        table=chosen.table,
        table_arn=chosen.table_arn,
        readers=chosen.readers,
        mappings=chosen.mappings,
        relays=relays,
        unseen_relay=unseen,
        told_layout=asked.assumed.layout if asked.assumed.told else None,
        unseen_mapping=inventory.lacks(MAPPING),
        sweepers=chosen.sweepers,
        schedules=chosen.schedules,
        targets=sinks if isinstance(sinks, Unseen) else tuple(target_at(inventory, each) for each in sinks),
        failures=chosen.failures,
        alarms=alarms,
        unseen_alarm=inventory.lacks("AWS::CloudWatch::Alarm"),
        topics=topics_of(inventory, () if isinstance(alarms, Unseen) else alarms),
        payloads=payloads_of(inventory, asked.payloads, asked.prefix),
    )


class _Choice:
    """Goes from mappings to functions and tables, each step by the one before."""

    def __init__(self, inventory: Inventory, asked: Asked) -> None:
        self._inventory = inventory
        self._asked = asked
        self._functions = inventory.of(*FUNCTIONS)
        self._all = [mapping_of(each) for each in inventory.of(MAPPING)]
        self._streams = [each for each in self._all if self._is_ours(each)]
        self._relays = self._relay_pieces()
        self._nameless = Unseen("its name is not known")
        self.table_name = self._named()
        self.relays = tuple(self._function(each, RELAY) for each in self._relays)
        self.table, self.table_arn = self._table()
        self._left_over = self._replaced()
        self.mappings = self._mappings()
        self.relays = tuple(each for each in self.relays if not self._is_replaced(each))
        self.sweepers = self._sweepers()

    def _is_ours(self, mapping: StreamMapping) -> bool:
        """Whether a mapping reads a stream of a table, of the one that was asked for if one was."""
        if isinstance(mapping.stream, Unseen):
            return True
        if ":dynamodb:" not in mapping.stream or "/stream/" not in mapping.stream:
            return False
        return self._asked.table is None or _table_in(mapping.stream) == self._table_called(self._asked.table)

    def _table_called(self, name: str) -> str:
        """Return a table's name, where its id in a template may have been given."""
        found = next((each for each in self._inventory.of(*TABLES) if each.id == name), None)
        return name_in(name) if found is None else _table_in(found.arn)

    def _relay_pieces(self) -> list[Piece]:
        if self._asked.relays:
            return [self._one(name) for name in self._asked.relays]
        ready = [each for each in self._functions if reads(each) == RELAY and self._may_be_of(each)]
        if ready:
            return ready
        likely = [each for each in self._streams if _is_for_records(each, self._asked)]
        chosen = likely or (self._streams if len(self._streams) == 1 else [])
        names = {each.function for each in chosen}
        return [each for each in self._functions if _called(each) in names]

    def _one(self, name: str) -> Piece:
        found = next((each for each in self._functions if name in (each.id, _called(each))), None)
        if found is None:
            raise ConfigurationError(f"there is no function {name!r}.")
        return found

    def _may_be_of(self, piece: Piece) -> bool:
        """Whether a function is of the table that was asked for, as far as it says so."""
        if self._asked.table is None:
            return True
        name = Properties(piece.properties).text("Environment", "Variables", "OUTBOX_TABLE")
        if isinstance(name, str):
            return name_in(name) == self._table_called(self._asked.table)
        return any(each.function == _called(piece) for each in self._streams)

    def _named(self) -> str | None:
        if self._asked.table is not None:
            return self._table_called(self._asked.table)
        names = {_called(each) for each in self._relays}
        told: list[Seen[str | None]] = [each.stream for each in self._streams if each.function in names]
        told += [Properties(each.properties).text("Environment", "Variables", "OUTBOX_TABLE") for each in self._relays]
        self._nameless = next((each for each in told if isinstance(each, Unseen)), self._nameless)
        tables = {_table_in(each) for each in told if isinstance(each, str) and each}
        if len(tables) > 1:
            raise ConfigurationError(f"there are relays of several tables: --table names one of {_list(tables)}.")
        pieces = self._inventory.of(*TABLES)
        return next(iter(tables), _table_in(pieces[0].arn) if len(pieces) == 1 and not self._relays else None)

    def _mappings(self) -> Seen[tuple[StreamMapping, ...]]:
        names = {each.name for each in self.relays}
        found = [each for each in self._streams if each.function in names]
        lacking = self._inventory.lacks(MAPPING)
        return tuple(each for each in found if each not in self._left_over) if found or lacking is None else lacking

    def _replaced(self) -> list[StreamMapping]:
        """Return the mappings that were left over: of a function that was asked for, beside another one of its own."""
        layouts = {each.name: each.settings.layout for each in self.relays}
        found = [each for each in self._streams if each.function in layouts]
        reading = [each for each in found if self._reads(each)]

        def is_instead(one: StreamMapping, other: StreamMapping) -> bool:
            if self._asked.relays:
                return one.function == other.function
            return layouts[one.function] == layouts[other.function]

        return [each for each in found if each not in reading and any(is_instead(one, each) for one in reading)]

    def _is_replaced(self, relay: Function) -> bool:
        own = [each for each in self._streams if each.function == relay.name]
        return own != [] and all(each in self._left_over for each in own)

    def _reads(self, mapping: StreamMapping) -> bool:
        """Whether a mapping brings what is written, as far as is seen: it is enabled, and reads the latest stream."""
        latest = None if isinstance(self.table, Unseen) else self.table.stream
        stale = isinstance(latest, str) and isinstance(mapping.stream, str) and not same_arn(latest, mapping.stream)
        return mapping.enabled is not False and not stale

    @property
    def readers(self) -> Seen[int]:
        """How many mappings read the table's stream."""
        reading = [each.stream for each in self._all if self._reads(each) and isinstance(each.stream, str)]
        return sum(1 for each in reading if "/stream/" in each and _table_in(each) == self.table_name)

    def _table(self) -> tuple[Seen[Table], Seen[str]]:
        if self.table_name is None:
            return self._nameless, self._nameless
        for piece in self._inventory.of(*TABLES):
            if _table_in(piece.arn) == self.table_name:
                return table_of(piece), piece.arn
        why = self._inventory.lacks(*TABLES) or Unseen(f"there is no table {self.table_name}")
        place = segments(self.relays[0].arn) if self.relays else ["arn", "aws", "", "", "", ""]
        return why, f"arn:{place[1]}:dynamodb:{place[3]}:{place[4]}:table/{self.table_name}"

    def _sweepers(self) -> Seen[tuple[Function, ...]]:
        if self._asked.sweepers:
            pieces = [self._one(name) for name in self._asked.sweepers]
        else:
            pieces = [each for each in self._functions if reads(each) == SWEEP and self._sweeps(each)]
        lacking = self._inventory.lacks(SWEEPERS, *FUNCTIONS)
        if not pieces and lacking is not None:
            return lacking
        return tuple(self._function(each, SWEEP) for each in pieces)

    def _sweeps(self, piece: Piece) -> bool:
        name = Properties(piece.properties).text("Environment", "Variables", "OUTBOX_TABLE")
        return not isinstance(name, str) or self.table_name in (None, name_in(name))

    def _function(self, piece: Piece, kind: str) -> Function:
        return function_of(piece, self._role(piece), kind, self._asked.assumed)

    def _role(self, piece: Piece) -> Seen[Role]:
        arn = Properties(piece.properties).text("Role")
        if arn is None or isinstance(arn, Unseen):
            return arn or Unseen("the function names no role")
        found = self._inventory.at(arn, "AWS::IAM::Role")
        if found is None or isinstance(found, Unseen):
            return found or Unseen(f"there is no role {name_in(arn)}")
        return role_of(found, self._inventory)

    @property
    def failures(self) -> Mapping[str, Seen[Store | None]]:
        """The on-failure destinations, by ARN."""
        mappings = () if isinstance(self.mappings, Unseen) else self.mappings
        arns = {each.on_failure for each in mappings if isinstance(each.on_failure, str)}
        return {arn: store_at(self._inventory, arn) for arn in sorted(arns)}

    @property
    def schedules(self) -> Mapping[str, Seen[tuple[Schedule, ...]]]:
        """The schedules of each sweeper, by its name."""
        sweepers = () if isinstance(self.sweepers, Unseen) else self.sweepers
        return {each.name: self._scheduled(each) for each in sweepers}

    def _scheduled(self, function: Function) -> Seen[tuple[Schedule, ...]]:
        piece = next(each for each in self._functions if _called(each) == function.name)
        policy = invoking_policy(piece, self._inventory, function.name)
        ours = tuple(
            schedule_of(each, _may_invoke(each, function, policy))
            for each in self._inventory.of(*SCHEDULES)
            if _invokes(each, function)
        )
        lacking = self._inventory.lacks(*SCHEDULES) or self._aimless
        enabled = any(each.enabled is True for each in ours)
        return ours if enabled or lacking is None else lacking

    @property
    def _aimless(self) -> Unseen | None:
        """Why it is not seen what a schedule invokes, where there is such a one."""
        told = [each for piece in self._inventory.of(*SCHEDULES) for each in _targets_of(Properties(piece.properties))]
        return next((each for each in told if isinstance(each, Unseen)), None)


def _may_invoke(schedule: Piece, function: Function, policy: Policy) -> Seen[bool]:
    """Whether a function's policy lets a rule invoke it. A schedule of EventBridge Scheduler has a role for that."""
    call = Call(("events.amazonaws.com",), "lambda:InvokeFunction", function.arn, schedule.arn)
    return schedule.kind != SCHEDULES[0] or lets(policy, call)


def _invokes(piece: Piece, function: Function) -> bool:
    rule = Properties(piece.properties)
    return function.arn in _targets_of(rule) and bool(rule.raw("ScheduleExpression"))


def _targets_of(rule: Properties) -> list[Seen[str | None]]:
    several = rule.parts("Targets")
    targets = [several] if isinstance(several, Unseen) else [each.text("Arn") for each in several]
    return [rule.text("Target", "Arn"), *targets]


def _is_for_records(mapping: StreamMapping, asked: Asked) -> bool:
    """Whether a mapping lets a record through, and not everything else of its table."""
    if isinstance(mapping.filters, Unseen) or not mapping.filters:
        return False
    try:
        filters = compile_filters(*mapping.filters)
    except InvalidFilter:
        return "OUTBOX" in str(mapping.filters)
    samples = samples_of(asked.assumed.layout, mapping.stream, mapping.filters, filters)
    return any(map(filters.match, samples.records)) and not all(map(filters.match, samples.others))


def _called(piece: Piece) -> str:
    return function_name(str(piece.properties.get("FunctionName") or piece.id))


def _table_in(arn: str) -> str:
    """Return the name of the table in its ARN, or in that of its stream."""
    return segments(arn)[-1].split("/")[1] if "/" in arn else name_in(arn)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
