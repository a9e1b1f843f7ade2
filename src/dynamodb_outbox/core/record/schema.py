"""The outbox record, schema 1: what a writer stores and the relay reads. Writers in other languages start here.

A record is one item of the table. It carries the events of ONE ordering key in ONE transaction, and it lives in that
key's own partition: partition key = the ordering key, sort key = the layout's prefix (`OUTBOX#`) + a UUID version 7 in
its 36-character form. It is written with `attribute_not_exists(<partition key name>)`, in the same TransactWriteItems
as the change it announces, and never without it. The writer inserts it once; later only the relay changes it.

Two forms, told apart by the attribute `events`:

*plain*, one event. The event's fields are attributes of the record. The event's id is the UUID of the sort key.
*several*, two or more events of the key, in the order in which they happened. `events` is a JSON array (text); each
element is an object {"id", "type", "source", "subject"?, "sequence"?, "time", "attributes"?, "data"}, where `data` is
the JSON value itself, not text inside text. `type`, `payload`, `source`, `subject`, `seq`, `time` and `attributes` are
absent from the record then, and `id` is the record's own: the UUID of the sort key, the id of none of its events.

    attribute    type  form     meaning
    <pk>         S     both     the ordering key. Its name, like that of <sk>, is the layout's
    <sk>         S     both     prefix + UUID
    type         S     plain    the event's type, 1 to 128 characters
    payload      S     plain    the event's data as JSON text; numbers keep every digit
    ts           N     both     epoch SECONDS at which the record was first sent to the table (`at` without its ms)
    ob_v         N     both     1, the schema's version. Absent: a hand-written record, see below
    id           S     both     the UUID of the sort key
    source       S     plain    CloudEvents source
    subject      S     plain    CloudEvents subject. Optional
    key          S     both     the ordering key (CloudEvents partitionkey); equal to <pk> where the record lives now
    seq          S     plain    CloudEvents sequence, compared as text. Optional
    time         S     plain    when it happened: RFC 3339 in UTC, ending in `Z`
    attributes   M     plain    CloudEvents extension attributes: lower-case names to S. Optional
    events       S     several  see above
    at           N     both     epoch MILLISECONDS at which the record was first sent; the same on every retry
    tx           M     both     {id S, index N, count N}: the transaction's UUID, the record's place among the records
                                of this transaction (from 0), and how many there are
    region       S     both     AWS Region of the writer. Optional; absent where the writer does not know it
    state        S     both     `pending` as written. core/record/states.py has the others
    ob_pending   S     both     partition key of the sparse index, whose sort key is `at`: CRC-32 (IEEE) of the UTF-8
                                bytes of `key` modulo the layout's index_shards, at least two digits: `00` to `15`
    <ttl>        N     -        epoch SECONDS. NEVER on a pending record: one that TTL removed would be lost. The relay
                                sets it when it settles the record. Its name is the layout's (`expires_at`)

*Hand-written records* carry <pk>, <sk>, `type`, `payload` and `ts` alone and are relayed as they are: the id is what
follows the prefix in the sort key, the key is <pk>, the time is `ts`, the source is the relay's setting.

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

import zlib

__all__ = [
    "AT",
    "ATTRIBUTES",
    "EVENTS",
    "EVENT_IDS",
    "FINGERPRINT",
    "GUARD_SORT_KEY",
    "ID",
    "KEY",
    "PARKED",
    "PAYLOAD",
    "PENDING",
    "PENDING_INDEX",
    "REGION",
    "SCHEMA",
    "SCHEMA_VERSION",
    "SEQUENCE",
    "SOURCE",
    "STATE",
    "SUBJECT",
    "TIME",
    "TS",
    "TX",
    "TYPE",
    "VERSIONS",
    "index_shard",
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
AT = "at"
TX = "tx"
REGION = "region"
STATE = "state"
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
