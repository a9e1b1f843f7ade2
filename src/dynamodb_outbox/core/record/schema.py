"""The outbox record, schema 1: what a writer stores and the relay reads. Writers in other languages start here.

A record is one item of a table. It carries the events of ONE ordering key in ONE transaction, and lives under keys that
the layout decides (below). It is written with `attribute_not_exists(<partition key name>)`, in the same
TransactWriteItems as the change it announces, and never without it. The writer inserts it once; later only the relay
changes it.

Two forms, told apart by the attribute `events`:

*plain*, one event. The event's fields are attributes of the record. The event's id is the record's.
*several*, two or more events of the key, in the order in which they happened. `events` is a JSON array (text); each
element is an object {"id", "type", "source", "subject"?, "sequence"?, "time", "attributes"?, "data"}, where `data` is
the JSON value itself, not text inside text; of a claim check "dataref" and "datasha256" (texts) stand in its place.
`type`, `payload`, `source`, `subject`, `seq`, `time`, `attributes`, `dataref` and `datasha256` are
absent from the record then, and `id` is the record's own: the id of none of its events.

    attribute    type  form     meaning
    <pk>, <sk>         both     the keys: see below
    type         S     plain    the event's type, 1 to 128 characters
    payload      S, M  plain    the event's data as JSON text; numbers keep every digit. B with `enc`. M: see below
    ts           N     both     epoch SECONDS at which the record was first sent to the table (`at` without its ms)
    ob_v         N     both     1, the schema's version. Absent: a hand-written record, see below
    id           S     both     the record's id: a UUID version 7 in its 36-character form
    source       S     plain    CloudEvents source
    subject      S     plain    CloudEvents subject. Optional
    key          S     both     the ordering key (CloudEvents partitionkey)
    seq          S     plain    CloudEvents sequence, compared as text. Optional
    time         S     plain    when it happened: RFC 3339 in UTC, ending in `Z`
    attributes   M     plain    CloudEvents extension attributes: lower-case names to S. Optional
    events       S     several  see above. B with `enc`
    enc          S     both     how `payload` or `events` is compressed: `gzip` (RFC 1952) or `zstd` (RFC 8878), of the
                                UTF-8 of what it would say; one member or frame, nothing after it, at most 4 MiB when
                                decompressed. Optional; absent: not at all. A value that the relay does not know parks
    dataref      S     plain    claim check: where the data is kept, `s3://bucket/key`. In place of `payload`
    datasha256   S     plain    SHA-256, 64 hex digits in lower case, of the bytes kept there. With `dataref`
    at           N     both     epoch MILLISECONDS at which the record was first sent; the same on every retry
    tx           M     both     {id S, index N, count N}: the transaction's UUID, the record's place among the records
                                of this transaction (from 0), and how many there are
    region       S     both     AWS Region of the writer. Optional; absent where the writer does not know it
    state        S     both     `pending` as written. core/record/states.py has the others
    ob_pending   S     both     partition key of the sparse index, whose sort key is `at`: CRC-32 (IEEE) of the UTF-8
                                bytes of `key` modulo the layout's index_shards, at least two digits: `00` to `15`.
                                Absent with `ob_settle` = `none`
    ob_settle    S     both     what becomes of the record once its events are accepted: `expire`, `mark`, `delete` or
                                `none`, see below. Optional; absent: `expire`
    keep_s       N     both     for how many SECONDS a record that expires is kept once it is published. Optional;
                                absent: 604800, which is 7 days
    ob_columns   S     both     where the layout's `columns` give attributes other names, and not there otherwise: the
                                first 16 hex digits of the SHA-256 (UTF-8) of, for each such name in the order of their
                                characters, the name, a zero byte, the column, a zero byte. A relay whose layout has
                                another value stops there: by other names it would publish another event
    ob_again     S     both     absent when the record is first written. Whoever deletes it and puts it again gives it a
                                text here that it never had: it is another record then, under the same keys
    <ttl>        N     -        epoch SECONDS. The relay sets it when it settles a record that expires: now and
                                `keep_s`. Its name is the layout's (`expires_at`). NEVER on a pending record that the
                                relay settles: one that TTL removed would be lost to whoever reads the index. With
                                `ob_settle` = `none` from the start: `at` in seconds, and `keep_s`

*Settling.* The record says what its writer counts on, and the relay does that, whatever its own layout says:

    ob_settle    once all events are accepted                       a writer that got no answer finds the record for
    expire       `published`, the TTL, out of the index             `keep_s` at least
    mark         `published`, no TTL, out of the index              `published_for` at least: its owner removes it
    delete       deleted                                            no time that it could count on
    none         nothing: TTL, and out of the index, from the       `keep_s` from `at`
                 start

A record that was parked is settled as `expire` where it says `none`. One that says anything else is settled as `mark`:
nothing that its writer may count on is taken away. In all modes a condition holds the record to the state it was seen
in, so nothing settles a record that is parked, and nothing writes one that is gone.

But for that nobody deletes a record. A writer that got no answer looks for it, to know whether it has committed.

*Keys.* Names and types are the layout's. One of them *carries* the layout's prefix (`OUTBOX#`) and the id, and so is of
type S:

    keys of the table    own_partition    partition key     sort key
    pk, sk               False            <key>             <prefix><id>
    pk, sk               True             <prefix><key>     <prefix><id>
    pk alone             -                <prefix><id>

A partition key of type N or B holds the number or the bytes that the ordering key names as text: a number in plain
decimal digits, with no sign but `-`, no exponent and no needless zero (`10`, not `1E1` or `10.0`); bytes in base64 (RFC
4648, padded). Where the key attribute does not begin with the prefix, which only `select` lets happen, the relay takes
the id from `id`.

*Names.* The layout's `columns` give attributes other names, all but those that begin with `ob_`. That goes for every
attribute of a record named here, and of what stands for one; guards have none of them. An attribute of the table whose
name is one of the schema's that `columns` gave another is the table's own, and neither read nor changed.

*Telling records.* By the prefix in the sort key (in a table without one, the partition key). Or by the layout's
`select`: each attribute named there is of type S and has the text given, or begins with it; an item with `ob_v` whose
partition key begins with the prefix of guards or of inbox records is none, whatever `select` says. A writer adds the
attributes that have to be equal to a text, those of the schema, the keys and the TTL excepted. An item with `ob_guard`
is never a record. An inserted item with `ob_v` and an `ob_pending` that is not `parked`, or with `ob_settle` = `none`
and no `ob_pending`, is a record of somebody's: a relay that would not take it for one has another layout than its
writer, and stops there while it waits. So does one that finds another `id` in it than its key tells: no prefix may
begin with another one in one table.

*Payloads that are maps.* Told by the type, S or M. The relay publishes a map as a JSON object: names in the order of
their code points, S, BOOL, NULL, L and M as what they are in JSON, N with the digits that DynamoDB gives. B, SS, NS and
BS have no form in JSON: such a record is parked. Never with `enc`; `events` is always JSON text.

*Claim checks.* The object holds the event's data as JSON text (UTF-8), never compressed, and is there before the record
is: a writer stores it, and only then sends the transaction. Consumers read and verify it; nobody deletes it on reading.

*Hand-written records* (no `ob_v`) carry their keys, `type`, `payload` and `ts`, and whatever else their writer likes;
they are relayed as they are. Other attributes are read only where `columns` names them ({"id": "id"} names one by its
own name), and only `id`, `key`, `source`, `subject`, `seq`, `time`, `at` and `attributes`; one that a row does not
have, or that is NULL or empty text there, is told as if `columns` did not name it:

    id        S. Else what follows the prefix in the sort key, when that is a UUID in its 36-character form.
              Anything else may be the name of an event in one partition alone, so the id is then made of both: <pk>,
              with `%` written as `%25` and `#` as `%23`, then `#`, then what follows the prefix. In a table without a
              sort key, what follows the prefix in <pk>. With `select` a prefix is taken off a UUID only; keys of type N
              and B count as their text (above). An id of more than 512 bytes (UTF-8) becomes the SHA-256 of it, in hex
    key       S or N (its text). Else <pk> as text, with own_partition less the prefix; in a table without a
              sort key, the id
    time      S: date, `T` or a space, time of day with seconds, with any digits of a second or none, and `Z`, an offset
              (`+01:00`, `+0100`) or nothing, which is UTC. Else `at`, N, epoch milliseconds. Else `ts`, N, epoch
              seconds. Digits beyond the microsecond are dropped
    source    S. Else the relay's setting
    subject, seq (S), attributes (M of S)    as above. Else none

`state`, `region` and all else that such a record has are its writer's own: they are neither read nor changed, but for
the TTL, which is taken off when the record is parked, and set when it is published and the relay's layout has them
expire: how such records are settled is the relay's to say. Names that begin with `ob_` are this library's.

    ob_state     S     what `state` is in a record with `ob_v`; absent while the record is pending
    ob_parked_at, ob_parked_code, ob_parked_reason, ob_parked_events, ob_parked_attempts, ob_discarded_at,
    ob_discarded_reason                                                  what `parked_at` and the others are there
    ob_again     S     as in a record with `ob_v`
    id, key, at, ob_pending     what the index needs, as in a parked record with `ob_v`; the first three where the
                                record has none itself

A record to which nothing can be added, since it is as large as an item may be, or since a hand-written one has an `at`
that is no number, is parked apart: a small item beside it says what would have been written into the record, which
stays as it is (less its TTL). Of its keys one differs from the
record's, the first of these that is of type S: the sort key, the partition key. That one is the record's + `#parked`,
or prefix + SHA-256 (hex) of the record's as text + `#parked` where that is too long, is the key of an item that does
not stand for the record, or where the record is not told by this key. `parked_pk` and `parked_sk` tell. With keys of
types N and B alone there is no such item: the park fails, and the stream waits at this record.

A record under whose keys another one is by now (core/record/same.py tells them apart) is parked apart as a whole, with
the marks of a parked record, for it exists nowhere else. Its key differs in the same attribute: the prefix + SHA-256
(hex) of what tells it from others + `#parked`. `ob_parked_pk`, where that differs from this item's own, and
`ob_parked_sk`, in a table with a sort key, say what its keys were. Put again under these, it is a record as before.

    parked_sk    S, N, B    sort key of the record that this one stands for; absent in a table without one
    parked_pk    S          its partition key; absent where it is this item's own
    ob_v, ob_columns, id, key, at, state, ob_pending     as in a parked record; parked_at and others: see
                                                         core/record/states.py

The guard of a command (an idempotency key) is an item of its own and no record: partition key = the layout's
guard_prefix (`IDEMP#`) + SHA-256, in hex, of the source, a zero byte and the idempotency key (UTF-8); sort key =
`GUARD`, where the table has one. Both are of type S: other tables have no guards. A consumer's inbox record is such a
guard too, under a partition key of its own.

    ob_guard     M     fingerprint  S   SHA-256, in hex, of what the command does
                       event_ids    L   of S: ids of the events of the first commit, in the order of emit
                       versions     L   of M {table S, pk S, sk S, version N}: the versions which that commit wrote,
                                        keys as text, `sk` empty where there is none
                       tx           S   the transaction's UUID: tells the first commit from a repetition
                       at           N   epoch MILLISECONDS, as in a record
    ob_v         N     1
    <ttl>        N     epoch SECONDS, from the start: `at` + how long it is kept (the layout's guard_for). An expired
                       guard that is still there still counts: a repetition that it catches is none the less one
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "ABSENT",
    "AGAIN",
    "AT",
    "ATTRIBUTES",
    "COLUMNS",
    "COPY_PK",
    "COPY_SK",
    "DATAREF",
    "DATASHA256",
    "ENCODING",
    "EVENTS",
    "GUARD",
    "GUARD_SORT_KEY",
    "ID",
    "KEEP",
    "KEY",
    "PARKED",
    "PARKED_PK",
    "PARKED_SK",
    "PAYLOAD",
    "PENDING",
    "PENDING_INDEX",
    "REGION",
    "SCHEMA",
    "SCHEMA_VERSION",
    "SEQUENCE",
    "SETTLE",
    "SOURCE",
    "STATE",
    "STATE_BY_HAND",
    "SUBJECT",
    "TIME",
    "TS",
    "TX",
    "TYPE",
    "canonical",
    "columns_mark",
    "index_shard",
    "renamed",
    "state_name",
    "value",
]

SCHEMA_VERSION = 1

TYPE = "type"
PAYLOAD = "payload"
TS = "ts"
SCHEMA = "ob_v"
ID = "id"
SOURCE = "source"
SUBJECT = "subject"
KEY = "key"
SEQUENCE = "seq"
TIME = "time"
ATTRIBUTES = "attributes"
EVENTS = "events"
ENCODING = "enc"
DATAREF = "dataref"
DATASHA256 = "datasha256"
AT = "at"
TX = "tx"
REGION = "region"
SETTLE = "ob_settle"
AGAIN = "ob_again"
KEEP = "keep_s"
COLUMNS = "ob_columns"
STATE = "state"
STATE_BY_HAND = "ob_state"
PARKED_PK = "parked_pk"
PARKED_SK = "parked_sk"
COPY_PK = "ob_parked_pk"
COPY_SK = "ob_parked_sk"
PENDING_INDEX = "ob_pending"

GUARD = "ob_guard"
GUARD_SORT_KEY = "GUARD"

PENDING = "pending"
"""The value of `state` in a record as its writer made it."""

PARKED = "parked"
"""The value of `ob_pending` (and of `state`) in a parked record: an index partition of its own."""

ABSENT: AttributeValue = {}
"""What reading an attribute gives that an item does not have."""


def value(item: WireItem, layout: Layout, name: str) -> AttributeValue:
    """Return one attribute of an item, by the name that it has here; an empty dict when the item does not have it.

    What `canonical` has under that name, without the work for all the others.
    """
    return item.get(layout.columns.get(name, name), ABSENT)


def canonical(item: WireItem, layout: Layout) -> WireItem:
    """Return an item's attributes by the names that they have here, where the layout's `columns` give them others.

    What has a name of this schema that the layout uses for nothing (`id`, where ids are in another column) is the
    table's own and left out. So may be a key attribute: those are read from the item as it is.
    """
    columns = layout.columns
    if not columns:
        return item
    renamed = set(columns.values())
    found = {name: value for name, value in item.items() if name not in columns and name not in renamed}
    return found | {name: item[column] for name, column in columns.items() if column in item}


def renamed(item: WireItem, layout: Layout) -> WireItem:
    """Return an item whose attributes have the names of this schema, with the names of the layout's `columns`.

    The inverse of `canonical`, for an item without key attributes and TTL.
    """
    if not layout.columns:
        return item
    return {layout.column(name): value for name, value in item.items()}


def columns_mark(layout: Layout) -> AttributeValue | None:
    """Return what `ob_columns` is in the records of a layout; None where they have none."""
    return None if layout.columns_digest is None else {"S": layout.columns_digest}


def index_shard(key: str, shards: int) -> str:
    """Return the partition of the sparse index (`ob_pending`) for an ordering key, of `shards` in all."""
    return f"{zlib.crc32(key.encode('utf-8')) % shards:02d}"


def state_name(item: WireItem) -> str:
    """Return the attribute that holds an item's state: a hand-written one may have a `state` of its own."""
    return STATE if SCHEMA in item else STATE_BY_HAND
