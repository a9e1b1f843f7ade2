"""A table's stream in virtual time: changes become records of shards, in an order that AWS promises, and no better one.

What AWS promises is little. The changes of ONE item come in the order in which they were made; that those of one
partition do is what everybody observes (`order="partition"`), and documented nowhere (`order="item-only"`). So a change
waits in the queue of its item, or of its partition, for a random time of up to `spread_ms`, before it gets its place in
a shard: records of one transaction arrive apart, between others, and not in the transaction's own order.

A shard holds a range of the hashes of partition keys. Its sequence numbers rise and get longer every few records, so
that whoever compares them as text is found out. A record can be read a while after it has its number (`lag_ms`), in the
order of the shard. A shard that splits is closed, and goes on in two children, which are listed a moment later. After
24 hours records are trimmed; an iterator is good for 15 minutes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache, partial
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.adapters.streams import lambda_form
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.eventsource.records import StreamRecord, stream_record
from dynamodb_outbox.core.eventsource.ttl import ttl_delete
from dynamodb_outbox.core.limits import ITERATOR_MS, STREAM_PAGE_RECORDS, STREAM_RETENTION_MS
from dynamodb_outbox.testing.simulation.facts import RecordKey, Trimmed, Written
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.process import START_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.facts import Ledger
    from dynamodb_outbox.testing.simulation.faults import FaultPlan, Faults, PlannedFault
    from dynamodb_outbox.testing.simulation.kernel import Kernel

__all__ = [
    "STREAM_ARN",
    "Change",
    "Iterator",
    "IteratorExpired",
    "Page",
    "ShardGone",
    "Stream",
    "StreamSettings",
    "TrimmedAway",
]

STREAM_ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-31T12:00:00.000"

_HASHES = 1 << 32
_FIRST_NUMBER = 90
"""Where sequence numbers start, at most: numbers of two and three digits are soon in one batch."""
_STEP = 8
"""The next number is greater by up to an eighth: one more digit every 40 records or so."""
_LONGEST = 10**38
"""AWS's numbers have up to 40 digits. Beyond this they rise slowly."""


class IteratorExpired(Exception):
    """The iterator is older than 15 minutes: make a new one."""


class TrimmedAway(Exception):
    """The position is no longer in the stream: records after it are lost."""


class ShardGone(Exception):
    """The shard was closed, and all of it was trimmed."""


@dataclass(frozen=True)
class Change:
    """A change of an item: its images before and after (None: there is none), `by` whom, and whether it is TTL's."""

    item: RecordKey
    keys: WireItem
    old: WireItem | None
    new: WireItem | None
    by: str
    expired: bool = False

    @property
    def kind(self) -> str:
        """INSERT, MODIFY or REMOVE."""
        if self.new is None:
            return "REMOVE"
        return "INSERT" if self.old is None else "MODIFY"


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How a stream behaves; times in milliseconds.

    shards      at the start, of equal ranges
    order       what keeps the order in which it was committed: a "partition", or "item-only"
    spread_ms   a change gets its place in the shard up to so much later
    lag_ms      a record can be read so much later than it has its place, at least and at most
    listed_ms   the children of a split are listed up to so much later, and never before their parent
    retention_ms    after which a record is trimmed: 24 hours on AWS
    """

    shards: int = 1
    order: Literal["partition", "item-only"] = "partition"
    spread_ms: int = 0
    lag_ms: tuple[int, int] = (0, 0)
    listed_ms: int = 0
    retention_ms: int = STREAM_RETENTION_MS


@dataclass(frozen=True)
class Iterator:
    """A position in a shard: the next record is the one with this index, counted from the shard's first ever."""

    shard: str
    index: int
    made_ms: int


@dataclass(frozen=True)
class Page:
    """Records, and where to go on; None when the shard is closed and this was the end of it."""

    records: tuple[StreamRecord, ...]
    following: Iterator | None


@dataclass
class _Shard:
    name: str
    parent: str | None
    low: int
    high: int
    last: int
    listed_ms: int
    records: list[StreamRecord] = field(default_factory=list)
    visible_ms: list[int] = field(default_factory=list)
    trimmed: int = 0
    closed_ms: int | None = None


class Stream:
    """The stream of one table; `arn` names it."""

    def __init__(
        self, kernel: Kernel, ledger: Ledger, chance: Chance, settings: StreamSettings, *, arn: str = STREAM_ARN
    ) -> None:
        self.arn = arn
        self.gone: dict[str, str | None] = {}
        """Shards that were closed and trimmed, to the last of their records, each with its parent."""
        self._region = arn.split(":")[3]
        self._kernel = kernel
        self._ledger = ledger
        self._chance = chance.of("stream")
        self._settings = settings
        self._shards: dict[str, _Shard] = {}
        self._waiting: defaultdict[object, deque[tuple[Change, int]]] = defaultdict(deque)
        self._changes: Counter[str] = Counter()  # by partition: what is drawn for one depends on no other
        self._opened = 0
        self._numbers: set[int] = set()
        self._sizes: dict[RecordKey, int] = {}
        self._key_sizes: dict[RecordKey, int] = {}
        self._held_until_ms = 0
        self._when_held: Callable[[str], object] | None = None
        self._watchers: list[Callable[[str, int], object]] = []
        for place in range(settings.shards):
            low, high = (_HASHES * edge // settings.shards for edge in (place, place + 1))
            self._open(None, low, high, self._chance.whole(1, _FIRST_NUMBER, "first number", place), listed_ms=0)

    # --- the table's side ---

    def append(self, changes: Sequence[Change]) -> None:
        """Take the changes of one transaction, committed now."""
        spread_ms, several = self._settings.spread_ms, len(changes) > 1
        taken = []
        for change in changes:
            partition = change.item[0]
            self._changes[partition] += 1
            nth = self._changes[partition]
            queue = partition if self._settings.order == "partition" else change.item
            place = self._chance.unit("place", partition, nth) if several else 0
            taken.append((place, nth, queue, change))
        for _, nth, queue, change in sorted(taken, key=itemgetter(0)):
            self._waiting[queue].append((change, nth))
            wait_ms = self._chance.whole(0, spread_ms, "spread", change.item[0], nth) if spread_ms else 0
            if wait_ms:
                self._kernel.call_at(self._kernel.now_ms + wait_ms, partial(self._release, queue))
            else:
                self._release(queue)

    # --- the readers' side ---

    def watch(self, watcher: Callable[[str, int], object]) -> None:
        """Call `watcher(shard, at_ms)` when something of a shard can be read from a time on: records, or its end."""
        self._watchers.append(watcher)

    def shards(self) -> dict[str, str | None]:
        """Return the shards that are listed now, each with its parent."""
        self._trim_old()
        return {shard.name: shard.parent for shard in self._shards.values() if shard.listed_ms <= self._kernel.now_ms}

    def latest(self, shard: str) -> str | None:
        """Return the number of the last record that can be read now; None when there is none. Raises ShardGone."""
        found = self._shard(shard)
        readable = self._readable(found)
        return found.records[readable - 1].sequence_number if readable else None

    def iterator(self, shard: str, *, after: str | None = None) -> Iterator:
        """Return a position: after a sequence number, or at the oldest record. Raises TrimmedAway, ShardGone."""
        found = self._shard(shard)
        if after is None:
            return self._at(found, found.trimmed)
        place = bisect_left(found.records, int(after), key=_number)
        if place == len(found.records) or found.records[place].sequence_number != after:
            raise TrimmedAway(f"{after} is not in shard {shard}")
        return self._at(found, found.trimmed + place + 1)

    def read(self, iterator: Iterator, limit: int = STREAM_PAGE_RECORDS) -> Page:
        """Return the next records. Raises IteratorExpired, TrimmedAway, ShardGone."""
        now_ms = self._kernel.now_ms
        if now_ms - iterator.made_ms > ITERATOR_MS:
            raise IteratorExpired(f"an iterator of shard {iterator.shard}, made at {iterator.made_ms}")
        shard = self._shard(iterator.shard)
        start = iterator.index - shard.trimmed
        if start < 0:
            raise TrimmedAway(f"{-start} records of shard {shard.name} were trimmed unread")
        readable = self._readable(shard)
        end = min(start + limit, readable)
        at_the_end = shard.closed_ms is not None and end == len(shard.records)
        following = None if at_the_end else self._at(shard, shard.trimmed + end)
        return Page(tuple(shard.records[start:end]), following)

    # --- what happens to streams ---

    def arm(self, plan: FaultPlan, faults: Faults) -> None:
        """Let those faults of a plan happen, in their time, that are the stream's."""
        for number, fault in enumerate(plan.of("shard_split", "late_visibility", "trim")):
            self._kernel.call_at(fault.at_ms, partial(self._strike, number, fault, faults))

    def _strike(self, number: int, fault: PlannedFault, faults: Faults) -> None:
        now_ms = self._kernel.now_ms
        if fault.kind == "shard_split":
            where = self.split(self._chance.whole(0, _HASHES, "split", number))
            faults.note(fault.kind, where, met=Met(shard=where))
        elif fault.kind == "late_visibility":
            note = partial(faults.note, fault.kind, "stream")
            self.hold_back(now_ms + fault.amount_ms, lambda shard: note(met=Met(shard=shard)))
        else:
            before_ms = now_ms - fault.amount_ms
            if any(self._older(shard, before_ms) for shard in self._shards.values()):
                faults.note(fault.kind, "stream")
            self.trim(before_ms)

    def split(self, place: int) -> str:
        """Split one of the open shards, the one that `place` falls on counted round, and return its name."""
        now_ms = self._kernel.now_ms
        candidates = [one for one in self._shards.values() if one.closed_ms is None]
        shard = candidates[place % len(candidates)]
        shard.closed_ms = now_ms
        middle = (shard.low + shard.high) // 2
        listed_ms = max(now_ms + self._chance.whole(0, self._settings.listed_ms, "listed", shard.name), shard.listed_ms)
        self._tell(shard.name, max([now_ms, *shard.visible_ms[-1:]]))
        for low, high in ((shard.low, middle), (middle, shard.high)):
            self._tell(self._open(shard.name, low, high, shard.last, listed_ms=listed_ms), listed_ms)
        return shard.name

    def hold_back(self, until_ms: int, when_held: Callable[[str], object] | None = None) -> None:
        """Let nothing new be readable before a time; `when_held(shard)` is called if that holds a record back, once."""
        self._held_until_ms = max(self._held_until_ms, until_ms)
        self._when_held = when_held

    def trim(self, before_ms: int) -> None:
        """Trim what was written before a time and can be read; and shards that were closed before it and are empty."""
        for shard in list(self._shards.values()):
            gone = self._older(shard, before_ms)
            if gone:
                numbers = tuple(record.sequence_number for record in shard.records[:gone])
                self._ledger.note(Trimmed(self._kernel.now_ms, shard.name, numbers))
                del shard.records[:gone], shard.visible_ms[:gone]
                shard.trimmed += gone
            if not shard.records and shard.closed_ms is not None and shard.closed_ms < before_ms:
                del self._shards[shard.name]
                self.gone[shard.name] = shard.parent

    # --- inside ---

    def _older(self, shard: _Shard, before_ms: int) -> int:
        """Return how many records of a shard were written before a time and can be read."""
        return min(bisect_left(shard.records, START_MS + before_ms, key=_arrived), self._readable(shard))

    def _release(self, queue: object) -> None:
        """Give the first change in a queue its place in its shard."""
        waiting = self._waiting[queue]
        change, nth = waiting.popleft()
        if not waiting:
            del self._waiting[queue]
        hashed = _hash(change.item[0])
        (shard,) = [one for one in self._shards.values() if one.closed_ms is None and one.low <= hashed < one.high]
        now_ms = self._kernel.now_ms
        number = self._next_number(shard, change.item[0], nth)
        record = stream_record(self._body(change, number))
        lag_ms = self._chance.whole(*self._settings.lag_ms, "lag", change.item[0], nth)
        sooner_ms = max(now_ms + lag_ms, shard.listed_ms, *shard.visible_ms[-1:])
        visible_ms = max(sooner_ms, self._held_until_ms)
        if visible_ms > sooner_ms and self._when_held is not None:
            self._when_held(shard.name)
            self._when_held = None
        shard.records.append(record)
        shard.visible_ms.append(visible_ms)
        self._ledger.note(Written(now_ms, change.kind, change.item, shard.name, record.sequence_number, change.by))
        self._tell(shard.name, visible_ms)

    def _next_number(self, shard: _Shard, partition: str, nth: int) -> int:
        step = max(1, min(shard.last, _LONGEST) // _STEP)
        number = shard.last + self._chance.whole(1, step, "number", partition, nth)
        while number in self._numbers:
            number += 1
        self._numbers.add(number)
        shard.last = number
        return number

    def _body(self, change: Change, number: int) -> dict[str, Any]:
        """Return a record as Lambda hands it on."""
        seconds = (START_MS + self._kernel.now_ms) // 1000
        images = {"NewImage": change.new, "OldImage": change.old}
        there = {name: image for name, image in images.items() if image is not None}
        record: dict[str, Any] = {
            "eventID": f"{number:032x}",
            "eventName": change.kind,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": self._region,
            "dynamodb": {
                "ApproximateCreationDateTime": datetime.fromtimestamp(seconds, timezone.utc),
                "Keys": change.keys,
                **there,
                "SequenceNumber": str(number),
                "SizeBytes": self._size(change),
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }
        body = lambda_form(record, self.arn)
        return ttl_delete(body) if change.expired else body

    def _size(self, change: Change) -> int:
        """Return the bytes of the key and of both images; an image is measured once, as the new one."""
        before = self._sizes.pop(change.item, 0)
        after = 0 if change.new is None else item_bytes(change.new)
        if after:
            self._sizes[change.item] = after
        if change.item not in self._key_sizes:
            self._key_sizes[change.item] = item_bytes(change.keys)
        return self._key_sizes[change.item] + before + after

    def _open(self, parent: str | None, low: int, high: int, last: int, *, listed_ms: int) -> str:
        name = f"shardId-{self._opened:08d}"
        self._opened += 1
        self._shards[name] = _Shard(name, parent, low, high, last, listed_ms)
        return name

    def _shard(self, name: str) -> _Shard:
        self._trim_old()
        if name not in self._shards:
            raise ShardGone(name)
        return self._shards[name]

    def _trim_old(self) -> None:
        if self._kernel.now_ms > self._settings.retention_ms:
            self.trim(self._kernel.now_ms - self._settings.retention_ms)

    def _readable(self, shard: _Shard) -> int:
        """Return how many of the records that are kept can be read now."""
        times, now_ms = shard.visible_ms, self._kernel.now_ms
        return len(times) if not times or times[-1] <= now_ms else bisect_left(times, now_ms + 1)

    def _at(self, shard: _Shard, index: int) -> Iterator:
        return Iterator(shard.name, index, self._kernel.now_ms)

    def _tell(self, shard: str, at_ms: int) -> None:
        for watcher in self._watchers:
            watcher(shard, at_ms)


@lru_cache(maxsize=256)
def _hash(partition: str) -> int:
    return int.from_bytes(blake2b(partition.encode(), digest_size=4).digest(), "big")


def _number(record: StreamRecord) -> int:
    return record.number


def _arrived(record: StreamRecord) -> int:
    return record.arrived_ms
