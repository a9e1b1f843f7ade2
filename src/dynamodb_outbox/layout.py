"""Where records live and what their attributes are called: shared by writer, relay, sweeper and infrastructure.

The defaults are those of the hand-written outboxes that this library replaces: `pk`, `sk`, and sort keys that start
with `OUTBOX#`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dynamodb_outbox.errors import ConfigurationError

__all__ = ["RECORD_ATTRIBUTES", "Layout"]

RECORD_ATTRIBUTES = frozenset(
    (
        "type", "payload", "ts",  # what hand-written records carry
        "ob_v", "id", "source", "subject", "key", "seq", "time", "at", "attributes", "events", "tx", "region",
        "state", "ob_pending",
        "parked_at", "parked_code", "parked_reason", "parked_events",
        "fingerprint", "event_ids", "versions",
    )
)  # fmt: skip
"""Attribute names of the library's own items; a table's key attributes cannot have one of these names."""

MAX_INDEX_SHARDS = 1000
"""More would cost an idle sweep more queries than any table needs."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The shape of a table with an outbox in it.

    pk, sk           names of the table's key attributes, both of type S
    prefix           sort keys of outbox records start with it
    guard_prefix     partition keys of command guards start with it
    inbox_prefix     partition keys of inbox records start with it
    version          name of the attribute that counts an item's versions; None switches versioning off
    index            name of the sparse index of pending records
    index_shards     partitions of that index, 1 to 1,000
    ttl              name of the table's TTL attribute: Number, epoch seconds
    published_for    how long a published record is kept before its TTL
    guard_for        how long a command is remembered

    Raises ConfigurationError when the names cannot work together.
    """

    pk: str = "pk"
    sk: str = "sk"
    prefix: str = "OUTBOX#"
    guard_prefix: str = "IDEMP#"
    inbox_prefix: str = "INBOX#"
    version: str | None = None
    index: str = "outbox-pending"
    index_shards: int = 16
    ttl: str = "expires_at"
    published_for: timedelta = timedelta(days=7)
    guard_for: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        names = {"pk": self.pk, "sk": self.sk, "ttl": self.ttl}
        if self.version is not None:
            names["version"] = self.version
        if len(set(names.values())) != len(names):
            raise ConfigurationError(f"Layout: these attributes need different names: {names}.")
        for what, name in names.items():
            if not name or (what != "version" and name in RECORD_ATTRIBUTES):
                raise ConfigurationError(
                    f"Layout({what}={name!r}): a name must not be empty, nor one that outbox records use themselves "
                    f"({', '.join(sorted(RECORD_ATTRIBUTES))})."
                )
        guards, inbox = self.guard_prefix, self.inbox_prefix
        if not self.prefix or not guards or not inbox:
            raise ConfigurationError("Layout: prefix, guard_prefix and inbox_prefix must not be empty.")
        if guards.startswith(inbox) or inbox.startswith(guards):
            raise ConfigurationError(
                f"Layout: neither of guard_prefix={guards!r} and inbox_prefix={inbox!r} may start with the other."
            )
        if not 1 <= self.index_shards <= MAX_INDEX_SHARDS:
            raise ConfigurationError(f"Layout(index_shards={self.index_shards}): 1 to {MAX_INDEX_SHARDS:,}.")
        for what, span in (("published_for", self.published_for), ("guard_for", self.guard_for)):
            if span < timedelta(minutes=1):
                raise ConfigurationError(f"Layout({what}={span}): at least a minute.")
