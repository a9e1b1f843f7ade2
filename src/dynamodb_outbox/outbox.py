"""The writing side: a change and its events, committed in one write. `Outbox` is what a service keeps."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dynamodb_outbox.adapters.dynamodb import DynamoStore
from dynamodb_outbox.adapters.s3 import ClaimCheck
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.arguments import duration, mapping, shown, text, whole
from dynamodb_outbox.core.codec.compression import check_encoding
from dynamodb_outbox.core.codec.envelope import source_fault
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.commit.answers import ReadFailed
from dynamodb_outbox.core.commit.fingerprint import guard_hash
from dynamodb_outbox.core.commit.handmade import checked_events
from dynamodb_outbox.core.commit.plan import Guard, check_limits, ids_needed, record_puts
from dynamodb_outbox.core.commit.targets import Tables
from dynamodb_outbox.core.commit.tracing import traced
from dynamodb_outbox.core.commit.writable import check_guardable, check_writable
from dynamodb_outbox.core.limits import EVENTBRIDGE, MAX_EVENT_BYTES, PARTITION_KEY_BYTES
from dynamodb_outbox.core.record.encode import Origin
from dynamodb_outbox.core.record.guards import guard_content, newer_version
from dynamodb_outbox.core.record.place import guard_keys, guard_partition
from dynamodb_outbox.errors import ConfigurationError, InvalidAction, LimitExceeded, NoGuard
from dynamodb_outbox.event import NO_ATTRIBUTES
from dynamodb_outbox.keys import Keys, table_name
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.tracing import follower_of
from dynamodb_outbox.transaction import Setting, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Clock, Entropy, Tracing

__all__ = ["Outbox", "Transaction"]

_log = logging.getLogger(__name__)

_MILLISECOND = timedelta(milliseconds=1)
_CLOCK = ("now_ms", "monotonic_ms", "sleep_ms")
_ENTROPY = ("bytes", "unit")
_T = TypeVar("_T")


class Outbox:
    """Commits changes of a table together with the events that they mean. Safe for use by several threads.

    table            the table that transactions change unless an action names another, by its name or ARN. It holds the
                     records too, except with Layout(placement="table") and `outbox_table`
    source           CloudEvents source of the events: 1 to 256 characters, not starting with `aws.`
    layout           the keys of the records' table, names of attributes and prefixes; the relay needs the same
    outbox_table     with Layout(placement="table"): the table that holds the records and guards. Left out, or the same
                     as `table`, that one holds nothing else, and each action has to name the table of its item
    tables           the keys of other tables, by their names: {"stock": Keys("sku", None)}. A table that is not named
                     has those of the layout
    client           a boto3 client of DynamoDB. Left out, one is made on first use: one attempt, 2 s to connect, 5 s to
                     answer. Retries are this library's own, so a client that makes few of them is the better one
    max_event_bytes  the largest event accepted, counted as EventBridge counts an entry: source, type and CloudEvents
                     envelope in UTF-8, and 14 bytes of time. Less than 1 MB; some Regions take 256 KB, the default
    claim_check      a ClaimCheck: the data of events that are larger than its threshold is kept in S3. It is stored
                     before the transaction is sent, so that a record never refers to what is not there; a transaction
                     that then does not commit leaves an object that nothing refers to
    compression      "gzip" or "zstd" (an extra): what records store is compressed where that makes them smaller. The
                     relay publishes plain text; limits of events count it uncompressed. Relays need the same extra
    commit_within    how long one commit() goes on over conflicts, throttling and lost answers
    tracing          follows commits, and gives the events that have no `traceparent` that of their commit
                     (`ports.Tracing`), as `otel.OpenTelemetry` does
    clock, entropy   time and randomness; the operating system's unless given

    Raises ConfigurationError for arguments that cannot work. Warns with ClientRetriesWarning of a client whose own
    retries outlast the memory of DynamoDB.
    """

    def __init__(
        self,
        table: str,
        *,
        source: str,
        layout: Layout | None = None,
        outbox_table: str | None = None,
        tables: Mapping[str, Keys] | None = None,
        client: Any = None,
        max_event_bytes: int = MAX_EVENT_BYTES,
        claim_check: ClaimCheck | None = None,
        compression: Literal["gzip", "zstd"] | None = None,
        commit_within: timedelta = timedelta(seconds=20),
        tracing: Tracing | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.table = text(table, _refusal("table"))
        self.source = _source(source)
        self.layout = _layout(layout)
        encoding = check_encoding(compression)
        check_writable(self.layout, encoding)
        self._setting = Setting(
            tables=_tables(self.table, outbox_table, self.layout, tables),
            source=self.source,
            max_event_bytes=whole(max_event_bytes, _refusal("max_event_bytes"), least=1, most=EVENTBRIDGE.entry_bytes),
            commit_within_ms=duration(commit_within, _refusal("commit_within"), least=_MILLISECOND) // _MILLISECOND,
            store=DynamoStore(client),
            clock=_able(SystemClock() if clock is None else clock, "clock", _CLOCK),
            entropy=_able(SystemEntropy() if entropy is None else entropy, "entropy", _ENTROPY),
            payloads=_claim_check(claim_check, max_event_bytes),
            compression=encoding,
            follower=follower_of(tracing, _refusal("tracing")),
        )

    @property
    def records_table(self) -> str:
        """The table that holds the records and the guards, by its name or ARN as it was given."""
        return self._setting.tables.records

    def transaction(self, *, idempotency_key: str | None = None, fingerprint: str | None = None) -> Transaction:
        """Return a new transaction: use it as a context manager, or call its commit().

        With an `idempotency_key` the transaction is a command: it commits once for this key and source, for as long as
        the layout's `guard_for`, and a repetition gets the first receipt (`replayed`). A repetition with other content
        raises IdempotencyMismatch. Content is what the actions and events say, less the versions of `if_version` and
        the trace that events belong to; when it holds values made anew on each run, such as an id, a date, or a number
        read from the item, pass a `fingerprint`: text that is equal for equal commands.

        Raises InvalidAction for a key or a fingerprint that is empty or no text, or a fingerprint without a key;
        ConfigurationError for a key where the partition keys of the records' table are no text.
        """
        if idempotency_key is None:
            if fingerprint is not None:
                raise InvalidAction("transaction", "fingerprint= needs an idempotency_key= to belong to.")
            return Transaction(self._setting, None)
        check_guardable(self.layout, "transaction(idempotency_key=)")
        command = _command_text("idempotency_key", idempotency_key)
        content = None if fingerprint is None else _command_text("fingerprint", fingerprint)
        partition = guard_partition(self.layout, guard_hash(self.source, command))
        return Transaction(self._setting, Guard(partition, command, content, self.layout.guard_for))

    def event(
        self,
        type: str,  # noqa: A002 -- CloudEvents' own word
        data: Any,
        *,
        key: str,
        subject: str | None = None,
        time: datetime | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Event:
        """Return an event for `records()`: what `emit` makes, outside of a transaction, so that the key must be given.

        Raises InvalidEvent, and InvalidValue with the path in `data`, both also for data that a map cannot hold where
        the layout has payload_format="map".
        """
        return self._setting.new_event(type, data, time, key=key, subject=subject, attributes=attributes)

    def records(
        self, events: Iterable[Event], *, style: Literal["client", "resource"] = "client"
    ) -> list[dict[str, Any]]:
        """Return the members of `TransactItems` that carry these events, for a transaction assembled elsewhere.

        One `Put` a key, conditional, in the table that holds the records; put them into the same TransactWriteItems
        request as the change. `style` is "client" for values in DynamoDB's wire form, as boto3's clients and PynamoDB
        take them, and "resource" for Python values, as `boto3.resource("dynamodb").meta.client` takes them.

        Send a request that may be repeated with one ClientRequestToken, and build the records once for all of its
        attempts: the records of a second call have ids of their own. What `Transaction` does beyond that (commands,
        lost answers, versions and sequences) is up to the caller then. An event's `dataref` is not used, for where data
        is kept is the claim check's to decide: its `payload` is what is recorded, and has to be there.

        A client is made for it when none was given, because the records name its Region. With a claim check the data of
        large events is stored before this returns. What is returned is yours: changing it changes no other record.

        Raises InvalidEvent, MissingKey, EventTooLarge, ItemTooLarge, TransactionTooLarge, UploadFailed, InvalidValue
        for a payload that a map cannot hold where the layout has payload_format="map", and ConfigurationError without a
        Region.
        """
        if style not in ("client", "resource"):
            raise ConfigurationError(f"Outbox.records: style is {shown(style)}; 'client' or 'resource' is needed.")
        setting = self._setting
        trace = NO_ATTRIBUTES if setting.follower is None else setting.follower.context()
        checked = [traced(event, trace) for event in checked_events(events, setting.layout)]
        now_ms = setting.clock.now_ms()
        tx, *ids = (setting.new_id(now_ms) for _ in range(ids_needed(checked)))
        place = setting.place
        puts, claims = record_puts(checked, place, Origin(tx, now_ms, place.region), ids, setting.max_event_bytes)
        check_limits(puts)
        setting.keep(claims)
        return [{put.kind: _in_style(put.body, style)} for put in puts]

    def _transaction_under(self, guard: str, *, fingerprint: str, keep: timedelta) -> Transaction:
        """Return a transaction guarded by an item with the partition key `guard`, kept for `keep`.

        What `transaction(idempotency_key=)` does, for an inbox, which names its own guards: here the guard may be all
        that is written. Raises LimitExceeded for a guard that is too long for a partition key, InvalidAction for text
        without a form in UTF-8.
        """
        guard, fingerprint = _guard_text(guard), _command_text("fingerprint", fingerprint)
        return Transaction(self._setting, Guard(guard, guard, fingerprint, keep, alone=True))

    def _is_guarded(self, guard: str) -> bool:
        """Whether the guard of `_transaction_under` is there, read consistently: for an inbox, which looks first.

        False where it could not be read, since the commit finds out. Raises NoGuard for an item there that is none,
        LimitExceeded and InvalidAction as `_transaction_under` does.
        """
        table, key = self._setting.tables.records, guard_keys(self.layout, _guard_text(guard))
        found = self._setting.store.read(table, key)
        if isinstance(found, ReadFailed):
            _log.info("whether a guard is there could not be read: %s", found.detail)
            return False
        if found.item is not None and guard_content(found.item) is None:
            raise NoGuard(guard, table, newer_version(found.item))
        return found.item is not None


def _in_style(body: Mapping[str, Any], style: str) -> dict[str, Any]:
    return dict(body) if style == "client" else {**body, "Item": deserialize_item(body["Item"])}


def _guard_text(guard: str) -> str:
    plain = _command_text("guard", guard)
    if text_bytes(plain) > PARTITION_KEY_BYTES:
        raise LimitExceeded("guard", text_bytes(plain), PARTITION_KEY_BYTES, "bytes", "Use shorter names.")
    return plain


def _command_text(argument: str, value: object) -> str:
    return text(value, lambda said: InvalidAction("transaction", f"{argument}= {said}"))


def _refusal(argument: str) -> Refusal:
    return lambda said: ConfigurationError(f"Outbox: {argument} {said}")


def _able(given: _T, argument: str, methods: Sequence[str]) -> _T:
    """Return an object that has these methods: those of its protocol in `dynamodb_outbox.ports`."""
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in methods):
        raise _refusal(argument)(f"is {shown(given)}; an object with {', '.join(methods)} is needed.")
    return given


def _source(source: object) -> str:
    if (fault := source_fault(source)) is not None:
        raise ConfigurationError(f"Outbox(source={shown(source)}): {fault}")
    return text(source, _refusal("source"))


def _tables(table: str, outbox_table: object, layout: Layout, given: object) -> Tables:
    """Return the tables of an outbox, their roles and their keys."""
    schemas = _schemas(given, layout)
    records = table
    if outbox_table is not None:
        if layout.placement != "table":
            raise _refusal("outbox_table")(
                f"is {shown(outbox_table)}, and Layout(placement='item') keeps records in the table of the items that "
                "they tell about. Leave it out, or say placement='table'."
            )
        records = text(outbox_table, _refusal("outbox_table"))
    name = table_name(records)
    if schemas.get(name, layout.keys) != layout.keys:
        raise _refusal("tables")(
            f"says {name!r} has {schemas[name]}, and the layout says {layout.keys} of that table, which "
            "holds the records. Give Layout(...) its keys."
        )
    alone = layout.placement == "table" and name == table_name(table)
    return Tables(records, None if alone else table, layout, schemas)


def _schemas(given: object, layout: Layout) -> dict[str, Keys]:
    schemas: dict[str, Keys] = {}
    for name, keys in mapping(given, _refusal("tables")).items():
        named = text(name, _refusal("tables, the name of a table,"))
        if not isinstance(keys, Keys):
            raise _refusal(f"tables[{named!r}]")(f"is {shown(keys)}; Keys(...) is needed.")
        if layout.version in keys.types:
            raise _refusal(f"tables[{named!r}]")(f"has the key attribute {layout.version!r}, which counts versions.")
        if schemas.setdefault(table_name(named), keys) != keys:
            raise _refusal("tables")(f"names {table_name(named)!r} twice, with other keys.")
    return schemas


def _claim_check(given: object, max_event_bytes: int) -> ClaimCheck | None:
    if given is None:
        return None
    if not isinstance(given, ClaimCheck):
        raise ConfigurationError(f"Outbox: claim_check is {shown(given)}; a ClaimCheck is needed.")
    if given.rule.threshold_bytes > max_event_bytes:
        raise ConfigurationError(
            f"Outbox: claim_check has a threshold of {given.rule.threshold_bytes:,} bytes, above max_event_bytes "
            f"({max_event_bytes:,}): events in between would be neither published nor kept."
        )
    return given


def _layout(layout: object) -> Layout:
    if layout is None:
        return Layout()
    if not isinstance(layout, Layout):
        raise ConfigurationError(f"Outbox: layout is {shown(layout)}; a Layout is needed.")
    return layout
