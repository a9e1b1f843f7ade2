"""Where records live and what their attributes are called: shared by writer, relay, sweeper and infrastructure.

The defaults are those of the hand-written outboxes that this library replaces: `pk`, `sk`, and sort keys that start
with `OUTBOX#`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.arguments import duration, flag, text, whole
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.arguments import Refusal

__all__ = ["OWN_ATTRIBUTES", "RECORD_ATTRIBUTES", "Layout"]

RECORD_ATTRIBUTES = frozenset(
    (
        "type", "payload", "ts",  # what hand-written records carry
        "ob_v", "id", "source", "subject", "key", "seq", "time", "at", "attributes", "events", "tx", "region",
        "state", "ob_state", "ob_pending", "parked_sk", "enc", "dataref", "datasha256",
        "parked_at", "parked_code", "parked_reason", "parked_events",
        "fingerprint", "event_ids", "versions",
    )
)  # fmt: skip
"""Attribute names of the library's own items; a table's key attributes cannot have one of these names."""

OWN_ATTRIBUTES = frozenset(("ob_v", "ob_pending"))
"""Names that an item of the user's cannot have at its top: it would be taken for a record, or enter their index."""

MAX_INDEX_SHARDS = 1000
"""More would cost an idle sweep more queries than any table needs."""

MAX_NAME_BYTES = 255
"""Of each name and prefix. DynamoDB takes no more for a key attribute or an index; a prefix of this length leaves three
quarters of a sort key to the id that follows it."""

_INDEX_NAME = re.compile(r"[A-Za-z0-9_.-]{3,}")
_GUARD_SORT_KEY = "GUARD"  # core.record.schema tells of it
_LEAST_KEPT = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The shape of a table with an outbox in it.

    pk, sk           names of the table's key attributes, both of type S
    prefix           sort keys of outbox records start with it
    guard_prefix     partition keys of command guards start with it
    inbox_prefix     partition keys of inbox records start with it
    version          name of the attribute that counts an item's versions; None switches versioning off
    version_start    the version that `if_absent` writes: 1, or "clock", epoch milliseconds by the writer's clock. For
                     keys that are deleted and created again: from 1 the versions, and with them the sequence of the
                     events, would start over. From the clock they go on, as long as the writers' clocks agree better
                     than the time between creations of a key, and an item sees less than 1,000 versions a second
    dense_versions   every version of an item has an event: a commit that writes a version without one is refused, so
                     that a consumer may take a version that it never saw for an event that it has not got. Only with
                     version_start=1
    index            name of the sparse index of pending records
    index_shards     partitions of that index, 1 to 1,000
    ttl              name of the table's TTL attribute: Number, epoch seconds
    published_for    how long a published record is kept before its TTL
    guard_for        how long a command is remembered

    Each name and prefix is text of 1 to 255 bytes of UTF-8; the two durations are a minute at least. Raises
    ConfigurationError for arguments that cannot work, alone or together.
    """

    pk: str = "pk"
    sk: str = "sk"
    prefix: str = "OUTBOX#"
    guard_prefix: str = "IDEMP#"
    inbox_prefix: str = "INBOX#"
    version: str | None = None
    version_start: Literal[1, "clock"] = 1
    dense_versions: bool = False
    index: str = "outbox-pending"
    index_shards: int = 16
    ttl: str = "expires_at"
    published_for: timedelta = timedelta(days=7)
    guard_for: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        names = {"pk": self.pk, "sk": self.sk, "ttl": self.ttl}
        if self.version is not None:
            names["version"] = self.version
        prefixes = {"prefix": self.prefix, "guard_prefix": self.guard_prefix, "inbox_prefix": self.inbox_prefix}
        for what, given in {**names, **prefixes, "index": self.index}.items():
            # A str of a subclass is kept as what it is underneath, so that it reads the same in every form.
            object.__setattr__(self, what, text(given, _refusal(what), most_bytes=MAX_NAME_BYTES))
        _check_names(names)
        if not _INDEX_NAME.fullmatch(self.index):
            raise ConfigurationError(f"Layout(index={self.index!r}): 3 or more letters, digits, '_', '-' and '.'.")
        _check_prefixes(self.prefix, self.guard_prefix, self.inbox_prefix)
        _check_versions(self)
        whole(self.index_shards, _refusal("index_shards"), least=1, most=MAX_INDEX_SHARDS)
        duration(self.published_for, _refusal("published_for"), least=_LEAST_KEPT)
        duration(self.guard_for, _refusal("guard_for"), least=_LEAST_KEPT)


def _check_names(names: Mapping[str, str]) -> None:
    if len(set(names.values())) != len(names):
        raise ConfigurationError(f"Layout: these attributes need different names: {names}.")
    for what, name in names.items():
        if what != "version" and name in RECORD_ATTRIBUTES:
            raise ConfigurationError(
                f"Layout({what}={name!r}): a name must not be one that outbox records use themselves "
                f"({', '.join(sorted(RECORD_ATTRIBUTES))})."
            )


def _check_versions(layout: Layout) -> None:
    start: object = layout.version_start
    if start != "clock" and (type(start) is not int or start != 1):
        raise ConfigurationError(f"Layout(version_start={start!r}): 1 or 'clock'.")
    dense = flag(layout.dense_versions, _refusal("dense_versions"))
    if layout.version is None and (dense or start == "clock"):
        raise ConfigurationError("Layout: version_start= and dense_versions= need version=, the attribute that counts.")
    if dense and start == "clock":
        raise ConfigurationError(
            "Layout: dense_versions=True and version_start='clock' cannot both hold: a clock leaves gaps."
        )


def _check_prefixes(records: str, guards: str, inbox: str) -> None:
    if guards.startswith(inbox) or inbox.startswith(guards):
        raise ConfigurationError(
            f"Layout: neither of guard_prefix={guards!r} and inbox_prefix={inbox!r} may start with the other."
        )
    if _GUARD_SORT_KEY.startswith(records):
        raise ConfigurationError(
            f"Layout(prefix={records!r}): guards have the sort key {_GUARD_SORT_KEY!r} and would be taken for records."
        )


def _refusal(what: str) -> Refusal:
    return lambda reason: ConfigurationError(f"Layout: {what} {reason}")
