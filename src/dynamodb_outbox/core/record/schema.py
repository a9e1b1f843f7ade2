"""The outbox record, schema 1: what a writer stores and the relay reads. Writers in other languages start here.

A record is one item of the table. It carries the events of ONE ordering key in ONE transaction, and it lives in that
key's own partition: partition key = the ordering key, sort key = the layout's prefix (`OUTBOX#`) + a UUID version 7 in
its 36-character form. It is written with `attribute_not_exists(<partition key name>)`, in the same TransactWriteItems
as the change it announces, and never without it. The writer inserts it once; later only the relay changes it.

Two forms, told apart by the attribute `events`:

*plain*, one event. The event's fields are attributes of the record. The event's id is the UUID of the sort key.
*several*, two or more events of the key, in the order in which they happened. `events` is a JSON array (text); each
element is an object {"id", "type", "source", "subject"?, "sequence"?, "time", "attributes"?, "data"}, where `data` is
the JSON value itself, not text inside text; of a claim check "dataref" and "datasha256" (texts) stand in its place.
`type`, `payload`, `source`, `subject`, `seq`, `time`, `attributes`, `dataref` and `datasha256` are
absent from the record then, and `id` is the record's own: the UUID of the sort key, the id of none of its events.

    attribute    type  form     meaning
    <pk>         S     both     the ordering key. Its name, like that of <sk>, is the layout's
    <sk>         S     both     prefix + UUID
    type         S     plain    the event's type, 1 to 128 characters
    payload      S     plain    the event's data as JSON text; numbers keep every digit. B with `enc`
    ts           N     both     epoch SECONDS at which the record was first sent to the table (`at` without its ms)
    ob_v         N     both     1, the schema's version. Absent: a hand-written record, see below
    id           S     both     the UUID of the sort key
    source       S     plain    CloudEvents source
    subject      S     plain    CloudEvents subject. Optional
    key          S     both     the ordering key (CloudEvents partitionkey); equal to <pk> where the record lives now
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
                                bytes of `key` modulo the layout's index_shards, at least two digits: `00` to `15`
    <ttl>        N     -        epoch SECONDS. NEVER on a pending record: one that TTL removed would be lost. The relay
                                sets it when it settles the record. Its name is the layout's (`expires_at`)

*Claim checks.* The object holds the event's data as JSON text (UTF-8), never compressed, and is there before the record
is: a writer stores it, and only then sends the transaction. Consumers read and verify it; nobody deletes it on reading.

*Hand-written records* (no `ob_v`) carry <pk>, <sk>, `type`, `payload` and `ts`, and whatever else their writer likes;
they are relayed as they are. The key is <pk>, the time is `ts`, the source is the relay's setting. The id is what
follows the prefix in the sort key when that is a UUID in its 36-character form. Anything else may be the name of an
event in one partition alone, so the id is then made of both: <pk>, with `%` written as `%25` and `#` as `%23`, then
`#`, then what follows the prefix; of more than 512 bytes (UTF-8) the SHA-256 of that, in hex. `state` and `region` of
such a record are its writer's own: they are neither read nor changed. Names that begin with `ob_` are this library's.

    ob_state     S     what `state` is in a record with `ob_v`; absent while the record is pending

A record to which nothing can be added, since it is as large as an item may be, is parked apart: a small item, under
the same partition key, says what would have been written into the record, which stays as it is (less its TTL). Its
sort key is the record's + `#parked`, or prefix + SHA-256 (hex) of the record's + `#parked` where that is too long or
the key of an item that does not stand for the record: `parked_sk` tells.

    parked_sk    S     sort key of the record that this one stands for
    ob_v, id, key, at, state, ob_pending     as in a parked record; parked_at and others: see core/record/states.py

The guard of a command (an idempotency key) is an item of its own and no record: partition key = the layout's
guard_prefix (`IDEMP#`) + SHA-256, in hex, of the source, a zero byte and the idempotency key (UTF-8); sort key =
`GUARD`. A consumer's inbox record is such a guard too, under a partition key of its own.

    fingerprint  S     SHA-256, in hex, of what the command does
    event_ids    L     of S: ids of the events of the first commit, in the order of emit
    versions     L     of M {table S, pk S, sk S, version N}: the versions which that commit wrote
    tx           S     the transaction's UUID: tells the first commit from a repetition
    at           N     as in a record
    ob_v         N     1
    <ttl>        N     epoch SECONDS, from the start: `at` + how long it is kept (the layout's guard_for). An expired
                       guard that is still there still counts: a repetition that it catches is none the less one
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import SORT_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "AT",
    "ATTRIBUTES",
    "DATAREF",
    "DATASHA256",
    "ENCODING",
    "EVENTS",
    "EVENT_IDS",
    "FINGERPRINT",
    "GUARD_SORT_KEY",
    "ID",
    "KEY",
    "PARKED",
    "PARKED_SK",
    "PAYLOAD",
    "PENDING",
    "PENDING_INDEX",
    "REGION",
    "SCHEMA",
    "SCHEMA_VERSION",
    "SEQUENCE",
    "SOURCE",
    "STATE",
    "STATE_BY_HAND",
    "SUBJECT",
    "TIME",
    "TS",
    "TX",
    "TYPE",
    "VERSIONS",
    "apart_sort_keys",
    "id_by_hand",
    "index_shard",
    "state_name",
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
STATE = "state"
STATE_BY_HAND = "ob_state"
PARKED_SK = "parked_sk"
PENDING_INDEX = "ob_pending"

FINGERPRINT = "fingerprint"
EVENT_IDS = "event_ids"
VERSIONS = "versions"
GUARD_SORT_KEY = "GUARD"

PENDING = "pending"
"""The value of `state` in a record as its writer made it."""

PARKED = "parked"
"""The value of `ob_pending` (and of `state`) in a parked record: an index partition of its own."""


def index_shard(key: str, shards: int) -> str:
    """Return the partition of the sparse index (`ob_pending`) for an ordering key, of `shards` in all."""
    return f"{zlib.crc32(key.encode('utf-8')) % shards:02d}"


def state_name(item: Mapping[str, Any]) -> str:
    """Return the attribute that holds an item's state: a hand-written one may have a `state` of its own."""
    return STATE if SCHEMA in item else STATE_BY_HAND


def id_by_hand(partition: str, suffix: str) -> str:
    """Return the id of a hand-written record, by its partition key and what follows the prefix in its sort key."""
    if _UUID.fullmatch(suffix):
        return suffix
    both = f"{partition.replace('%', '%25').replace('#', '%23')}#{suffix}"
    content = both.encode("utf-8", "surrogatepass")
    return both if len(content) <= _ID_BYTES else hashlib.sha256(content).hexdigest()


def apart_sort_keys(sort_key: str, prefix: str) -> tuple[str, ...]:
    """Return the sort keys, first choice first, of the item that stands for a record to which nothing can be added."""
    apart = sort_key + _APART
    hashed = prefix + hashlib.sha256(sort_key.encode("utf-8")).hexdigest() + _APART
    return (apart, hashed) if len(apart.encode("utf-8")) <= SORT_KEY_BYTES else (hashed,)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_ID_BYTES = 512  # an inbox record's partition key holds the id and has 2,048 bytes for it and for other names
_APART = "#parked"
