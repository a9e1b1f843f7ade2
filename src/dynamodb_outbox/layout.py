"""Where records live and what their attributes are called: shared by writer, relay, sweeper and infrastructure.

The defaults are those of the hand-written outboxes that this library replaces: `pk`, `sk`, and sort keys that start
with `OUTBOX#`. A schema that is there already is described by the names and types of its keys, by `columns` and by
`select`; `core.record.place` reads the description.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from dynamodb_outbox.arguments import duration, flag, mapping, shown, text, whole
from dynamodb_outbox.choices import Settle
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.keys import MAX_NAME_BYTES, Keys, KeyType

if TYPE_CHECKING:
    from dynamodb_outbox.arguments import Refusal

__all__ = ["OWN_ATTRIBUTES", "PUBLISHED_FOR", "RECORD_ATTRIBUTES", "Layout"]

RECORD_ATTRIBUTES = frozenset(
    (
        "type", "payload", "ts",  # what hand-written records carry
        "ob_v", "id", "source", "subject", "key", "seq", "time", "at", "attributes", "events", "tx", "region",
        "state", "ob_pending", "parked_pk", "parked_sk", "enc", "dataref", "datasha256", "keep_s", "ob_settle",
        "parked_at", "parked_code", "parked_reason", "parked_events", "parked_attempts", "discarded_at",
        "discarded_reason",
        "ob_state", "ob_parked_at", "ob_parked_code", "ob_parked_reason", "ob_parked_events",
        "ob_parked_attempts", "ob_discarded_at", "ob_discarded_reason",  # in hand-written ones
        "ob_guard", "ob_columns", "ob_again", "ob_parked_pk", "ob_parked_sk",
    )
)  # fmt: skip
"""Names of the attributes of the library's own items, as `core.record.schema` has them."""

OWN_ATTRIBUTES = frozenset(("ob_v", "ob_pending"))
"""Names that an item of the user's cannot have at its top: it would be taken for a record, or enter their index."""

PUBLISHED_FOR = timedelta(days=7)
"""How long a published record is kept that does not say otherwise itself."""

MAX_INDEX_SHARDS = 1000
"""More would cost an idle sweep more queries than any table needs."""

_OWN_PREFIX = "ob_"
_INDEX_NAME = re.compile(r"[A-Za-z0-9_.-]{3,}")
_GUARD_SORT_KEY = "GUARD"  # core.record.schema tells of it
_LEAST_KEPT = timedelta(minutes=1)
_CHOICES = {
    "placement": ("item", "table"),
    "payload_format": ("json", "map"),
    "settle": get_args(Settle),
}
_TEXT_KEYS = {
    "item": "Keep them in a table of their own whose keys are text: placement='table'.",
    "table": "The layout describes the records' table, whose keys need to be text; give your own table's keys by "
    "Outbox(tables={name: Keys(...)}).",
}

Wanted = str | Mapping[str, str]
"""What `select` asks of one attribute: a text, or `{"prefix": text}`."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The shape of a table with an outbox in it.

    placement        "item": a record lives beside the items it tells about, in their table. "table": in a table of its
                     own, which holds nothing else; `Outbox(outbox_table=...)` names it
    own_partition    with placement "item": a record lives in the partition `<prefix><key>` instead of the key's own, so
                     that queries of an entity's partition do not see records
    pk, sk           names of the key attributes of the records' table; sk=None for a table without a sort key
    pk_type, sk_type their types, "S", "N" or "B". What carries the prefix must be text
    prefix           what the sort keys of records start with; in a table without a sort key, their partition keys.
                     `core.record.schema` has the rules for keys
    guard_prefix     partition keys of command guards start with it
    inbox_prefix     partition keys of inbox records start with it
    columns          other names for attributes of records, by the names of `core.record.schema`:
                     {"type": "event_type", "payload": "body", "ts": "created_at"}. Of a hand-written record only
                     `type`, `payload` and `ts` are read, and besides `id`, `key`, `source`, `subject`, `seq`, `time`,
                     `at` and `attributes` where they are named here. When it happened is told by `time` where that is
                     text (ISO 8601), by `at` where it is a number of milliseconds since 1970, by `ts` where it is one
                     of seconds. Names that start with `ob_` can neither be changed nor given. Writers and relays need
                     the same columns: a relay with others stops at the first record that has these. Let it publish
                     what is pending before they change
    payload_format   "json": `payload` is JSON text. "map": it is a map, as a table's other attributes. What is read is
                     told by its type, S or M, whatever this says
    select           which items are records, where that is not told by the prefix: the text that attributes must have,
                     {"entity": "OUTBOX"}, or begin with, {"pk": {"prefix": "EVENT#"}}. {}: every item, guards and inbox
                     records excepted
    version          name of the attribute that counts an item's versions; None switches versioning off
    version_start    the version that `if_absent` writes: 1, or "clock", epoch milliseconds by the writer's clock. For
                     keys that are deleted and created again: from 1 the versions, and with them the sequence of the
                     events, would start over. From the clock they go on, as long as the writers' clocks agree better
                     than the time between creations of a key, and an item sees less than 1,000 versions a second
    dense_versions   every version of an item has an event: a commit that writes a version without one is refused, so
                     that a consumer may take a version that it never saw for an event that it has not got. Only with
                     version_start=1
    index            name of the sparse index of pending records: partition key `ob_pending` (S), sort key `at` (N), and
                     `id` and `key` projected; the last three by the names that `columns` gives them
    index_shards     partitions of that index, 1 to 1,000
    ttl              name of the table's TTL attribute: Number, epoch seconds. Set on a record when it is published, and
                     taken off one that is parked, hand-written ones too
    settle           what becomes of a record whose events were all accepted. "expire": it is published, leaves the
                     index, and its TTL removes it after `published_for`. "mark": the same without a TTL; its owner
                     removes it, `published_for` after the commit at the earliest. "delete": it is deleted at once; a
                     commit whose answer was lost may end as CommitUnknown, since a record that is not there may have
                     been published. "none": nothing is written any more. The writer sets the TTL, `published_for` from
                     the commit, and leaves the record out of the index, where nobody sees it unless it is parked: it
                     relies on the stream alone. The writer's counts, its records say so; the relay's counts for
                     hand-written rows alone
    published_for    how long a record is kept when it is published, before its TTL. The writer's counts, for a commit
                     whose answer was lost looks for its record; the relay's counts for hand-written rows alone. Nobody
                     may delete a record earlier, but for the relay where it deletes them
    guard_for        how long a command is remembered

    Each name and prefix is text of 1 to 255 bytes of UTF-8; the two durations are a minute at least. Raises
    ConfigurationError for arguments that cannot work, alone or together.
    """

    placement: Literal["item", "table"] = "item"
    own_partition: bool = False
    pk: str = "pk"
    sk: str | None = "sk"
    pk_type: KeyType = "S"
    sk_type: KeyType = "S"
    prefix: str = "OUTBOX#"
    guard_prefix: str = "IDEMP#"
    inbox_prefix: str = "INBOX#"
    columns: Mapping[str, str] = field(default_factory=dict, hash=False)
    payload_format: Literal["json", "map"] = "json"
    select: Mapping[str, Wanted] | None = field(default=None, hash=False)
    version: str | None = None
    version_start: Literal[1, "clock"] = 1
    dense_versions: bool = False
    index: str = "outbox-pending"
    index_shards: int = 16
    ttl: str = "expires_at"
    settle: Settle = "expire"
    published_for: timedelta = PUBLISHED_FOR
    guard_for: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        self._make_plain()
        for what, allowed in _CHOICES.items():
            if getattr(self, what) not in allowed:
                words = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
                raise _refusal(what)(f"is {shown(getattr(self, what))}; {words} is needed.")
        flag(self.own_partition, _refusal("own_partition"))
        _check_names(self)
        _check_place(self)
        _check_types(self)
        if not _INDEX_NAME.fullmatch(self.index):
            raise ConfigurationError(f"Layout(index={self.index!r}): 3 or more letters, digits, '_', '-' and '.'.")
        _check_prefixes(self)
        _check_versions(self)
        whole(self.index_shards, _refusal("index_shards"), least=1, most=MAX_INDEX_SHARDS)
        duration(self.published_for, _refusal("published_for"), least=_LEAST_KEPT)
        duration(self.guard_for, _refusal("guard_for"), least=_LEAST_KEPT)

    def _make_plain(self) -> None:
        """Keep a str of a subclass as what it is underneath, and copies of dicts, so that both stay what they are."""
        plain = ["pk", "prefix", "guard_prefix", "inbox_prefix", "index", "ttl"]
        plain += [what for what in ("sk", "version") if getattr(self, what) is not None]
        for what in plain:
            kept = text(getattr(self, what), _refusal(what), most_bytes=MAX_NAME_BYTES)
            object.__setattr__(self, what, kept)
        object.__setattr__(self, "columns", _columns(self.columns))
        if self.select is not None:
            object.__setattr__(self, "select", _wanted(self.select))

    @cached_property
    def keys(self) -> Keys:
        """The key schema of the records' table."""
        return Keys(self.pk, self.sk, self.pk_type, self.sk_type)

    @cached_property
    def carrier(self) -> str:
        """The name of the key attribute that carries a record's prefix and id."""
        return self.pk if self.sk is None else self.sk

    @cached_property
    def marks(self) -> Mapping[str, str]:
        """Attributes, each with its text, that a writer adds to its records so that `select` tells them.

        Names of the schema's own attributes are not among them: what these hold is not a matter of choice.
        """
        own = {*self.keys.types, self.ttl, *map(self.column, RECORD_ATTRIBUTES)}
        wanted = {} if self.select is None else self.select
        return {name: value for name, value in wanted.items() if isinstance(value, str) and name not in own}

    @cached_property
    def columns_digest(self) -> str | None:
        """What tells records of these columns from those of others; None where no attribute has another name.

        16 hex digits: `core.record.schema` has the rule, under `ob_columns`.
        """
        pairs = sorted((name, column) for name, column in self.columns.items() if name != column)
        said = "".join(f"{name}\0{column}\0" for name, column in pairs)
        return hashlib.sha256(said.encode("utf-8")).hexdigest()[:16] if said else None

    def column(self, name: str) -> str:
        """Return what an attribute of a record is called in this table, by its name in `core.record.schema`."""
        return self.columns.get(name, name)


def _columns(given: object) -> dict[str, str]:
    columns = {}
    for name, column in mapping(given, _refusal("columns")).items():
        if name not in RECORD_ATTRIBUTES or name.startswith(_OWN_PREFIX):
            known = sorted(known for known in RECORD_ATTRIBUTES if not known.startswith(_OWN_PREFIX))
            raise _refusal("columns")(f"names {shown(name)}; what can be named is {', '.join(known)}.")
        refuse = _refusal(f"columns[{str.__str__(name)!r}]")
        called = columns[str.__str__(name)] = text(column, refuse, most_bytes=MAX_NAME_BYTES)
        if "\0" in called:  # which separates names in what `ob_columns` is the hash of
            raise refuse(f"is {called!r}; no name of a column has a zero byte.")
        if called.startswith(_OWN_PREFIX):
            raise refuse(f"is {called!r}; names that start with {_OWN_PREFIX!r} are this library's.")
    return columns


def _wanted(given: object) -> dict[str, Wanted]:
    wanted: dict[str, Wanted] = {}
    for name, value in mapping(given, _refusal("select")).items():
        attribute = text(name, _refusal("select, the name of an attribute"))
        refuse = _refusal(f"select[{attribute!r}]")
        if isinstance(value, Mapping):
            if set(value) != {"prefix"}:
                raise refuse(f"is {shown(value)}; text, or {{'prefix': text}}, is needed.")
            wanted[attribute] = {"prefix": text(value["prefix"], refuse)}
        else:
            wanted[attribute] = text(value, refuse)
    return wanted


def _check_names(layout: Layout) -> None:
    names = {"pk": layout.pk, "sk": layout.sk, "ttl": layout.ttl, "version": layout.version}
    given = {what: name for what, name in names.items() if name is not None}
    if len(set(given.values())) != len(given):
        raise ConfigurationError(f"Layout: these attributes need different names: {given}.")
    taken: dict[str, str] = {}
    for name in sorted(RECORD_ATTRIBUTES):
        column = layout.column(name)
        if column in taken:
            raise _refusal("columns")(f"calls both {taken[column]!r} and {name!r} {column!r}; two names are needed.")
        taken[column] = name
    for what, name in given.items():
        if name.startswith(_OWN_PREFIX):
            raise ConfigurationError(
                f"Layout({what}={name!r}): names that start with {_OWN_PREFIX!r} are this library's. Choose another."
            )
        if what != "version" and name in taken:
            own = taken[name]
            raise ConfigurationError(
                f"Layout({what}={name!r}): outbox records use this name themselves. Choose another, or theirs: "
                f"columns={{{own!r}: 'outbox_{own}'}}."
            )


def _check_place(layout: Layout) -> None:
    """Check what the table is for, and which key attributes it has for that."""
    if layout.own_partition and layout.placement == "table":
        raise _refusal("own_partition")("is for records beside other items; in a table of their own it says nothing.")
    if layout.sk is None and layout.placement == "item" and not layout.own_partition:
        raise _refusal("sk")(
            "is None: without a sort key a record cannot share its key's partition. Say own_partition=True, or "
            "placement='table' when the table holds nothing but records."
        )


def _check_types(layout: Layout) -> None:
    """Check that what has to hold text is of type S."""
    types = layout.keys.types  # raises for a type that there is not
    if layout.sk is None and layout.sk_type != "S":
        raise _refusal("sk_type")(f"is {layout.sk_type!r}, of a sort key that is not there: sk is None.")
    if layout.own_partition and layout.pk_type != "S":
        raise _refusal("own_partition")(
            f"needs a partition key of type S, to carry {layout.prefix!r}, and pk_type is {layout.pk_type!r}. Keep the "
            "records in a table of their own: placement='table'."
        )
    for name in layout.select or ():
        if name == layout.ttl or types.get(name, "S") != "S":
            raise _refusal("select")(f"names {name!r}, which is of another type than S in this table.")
    if layout.select is None and (kind := types[layout.carrier]) != "S":
        raise _refusal("pk_type" if layout.sk is None else "sk_type")(
            f"is {kind!r}: {layout.carrier!r} cannot carry {layout.prefix!r}, by which records are told. "
            f"{_TEXT_KEYS[layout.placement]} For records that are there already say how to tell them: select=."
        )


def _check_versions(layout: Layout) -> None:
    start: object = layout.version_start
    if start != "clock" and (type(start) is not int or start != 1):
        raise ConfigurationError(f"Layout(version_start={shown(start)}): 1 or 'clock'.")
    dense = flag(layout.dense_versions, _refusal("dense_versions"))
    if layout.version is None and (dense or start == "clock"):
        raise ConfigurationError("Layout: version_start= and dense_versions= need version=, the attribute that counts.")
    if dense and start == "clock":
        raise ConfigurationError(
            "Layout: dense_versions=True and version_start='clock' cannot both hold: a clock leaves gaps."
        )


def _check_prefixes(layout: Layout) -> None:
    guards, inbox = layout.guard_prefix, layout.inbox_prefix
    apart = [("guard_prefix", guards), ("inbox_prefix", inbox)]
    if layout.own_partition or layout.sk is None:
        apart.append(("prefix", layout.prefix))
    for (one, first), (other, second) in itertools.combinations(apart, 2):
        if first.startswith(second) or second.startswith(first):
            raise ConfigurationError(
                f"Layout: neither of {one}={first!r} and {other}={second!r} may start with the other."
            )
    if layout.sk is not None and _GUARD_SORT_KEY.startswith(layout.prefix):
        raise ConfigurationError(
            f"Layout(prefix={layout.prefix!r}): guards have the sort key {_GUARD_SORT_KEY!r} and would be taken for "
            "records."
        )


def _refusal(what: str) -> Refusal:
    return lambda reason: ConfigurationError(f"Layout: {what} {reason}")
