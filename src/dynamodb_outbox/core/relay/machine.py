"""The relay's decisions: facts and times go in, commands come out.

The shell decodes the records of one invocation, hands their events to a `Machine` as entries, and carries out what it
is told; each command that starts something is answered by one fact. The machine owns the order of things and nothing
else: it has no clock, does no input or output, and draws no random number (`u`, from 0 to 1, comes with each fact).

What always holds, whatever the facts and in whatever order they come:

 1. Only the head of a key's queue is sent or parked; one event of a key is under way at a time, and the next follows
    when it is accepted or parked. With `ordered=False` each event is a key of its own. A park names all events of its
    record that are known to be refused; those behind the head pass without a call when their turn comes.
 2. An entry is accepted only by a result for it. A list of results of the wrong length accepts nothing.
 3. Only a content error of a single entry parks; a refused request of several is tried again in smaller ones first.
 4. After a target error nothing more is published or parked; what is under way is waited for.
 5. No Publish at or after `publish_until_ms`, no Park or Settle at or after `table_until_ms`.
 6. A record is settled when all its events are accepted, never before, and never when one of them is parked.
 7. Done comes once, last, with nothing under way; it names the lowest record with an event neither accepted nor parked.
 8. Neither a failed settle nor a missing one changes the answer; `unsettled` counts the records that it leaves pending.
 9. At most `park_limit` records are newly parked within the window, the lowest waiting record first; one whose park
    lost its answer counts as parked, one whose park was turned away does not.

Poison never stops a stream for good. What counts against the park limit is a record that becomes parked: not a second
event of it, and not a record that turns out to be parked already or whose park is turned away (the table is throttled,
say): its unit is given back. A park whose answer was lost keeps its unit, for it may be stored. The last unit is kept
for the lowest record that is not done, because that one holds the checkpoint; whatever the later records use up, it has
its turn in each window. A record that finds no unit left waits for what is under way, and is held only at the end. So
each window moves the checkpoint beyond one poisoned record at least, also when every invocation is a new process.

A record of several events of which one cannot pass: that one is parked (the record is stored as parked and names it),
the others of the record are published, in order, and so is what follows of the key. The parked record is the only
place where the refused event exists from then on, so the record is never settled by this machine.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import (
    Command,
    Done,
    Entry,
    Fact,
    Park,
    ParkDone,
    Publish,
    PublishDone,
    Settings,
    Settle,
    SettleDone,
    WaitUntil,
)
from dynamodb_outbox.core.relay.outcome import Fault, Kind, RequestFailed
from dynamodb_outbox.core.relay.states import DONE, TRANSITIONS, Cause, State
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Machine"]


class Machine:
    """One invocation of the relay over `entries`, which are in the order of the stream.

    `recent_parks` are the times of parks of earlier invocations, on the same clock; the attribute of that name is what
    to hand to the next one. `unsettled` counts the records whose events were all accepted and for which there was no
    time, or no attempt left, to settle them.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        settings: Settings,
        *,
        publish_until_ms: int,
        table_until_ms: int,
        recent_parks: Sequence[int] = (),
    ) -> None:
        self.recent_parks = tuple(recent_parks)
        self.unsettled = 0
        self._entries = entries
        self._settings = settings
        self._publish_until = publish_until_ms
        self._table_until = table_until_ms
        self._state = [State.QUEUED] * len(entries)
        self._attempts = [0] * len(entries)
        self._largest: dict[int, int] = {}  # entry -> entries that a request may have when this one is in it
        self._faults: dict[int, Fault] = {}
        self._queues: dict[str | int, deque[int]] = {}
        self._ready: deque[int] = deque()
        self._later: list[tuple[int, int]] = []  # (due, entry)
        self._sent: dict[int, tuple[int, ...]] = {}
        self._batches = 0
        self._halted = False
        self._to_park: list[tuple[bool, int]] = []  # (whether it needs a unit of the park limit, entry)
        self._refused: dict[int, list[int]] = {}  # record -> entries that cannot pass
        self._parking: dict[int, frozenset[int]] = {}  # record -> entries that the park under way names
        self._stored: set[int] = set()  # entries that are parked, some of them before their turn
        self._charged: dict[int, int | None] = {}  # record -> when it took its unit, None when that is decided
        self._first_open = 0  # every entry before this one is done
        self._table_calls = 0
        self._open: dict[int, int] = {}  # record -> events not accepted yet
        self._to_settle: deque[int] = deque()
        self._settle_later: list[tuple[int, int]] = []  # (due, record)
        self._settle_attempts: dict[int, int] = {}
        self._over = False
        self._started = False

    def step(self, fact: Fact, now_ms: int, u: float) -> list[Command]:
        """Take in what happened and say what to do about it, in order.

        `Done` is the last command ever. Without it, and without a WaitUntil, the next step is for the next fact.
        """
        if self._over:
            return []
        if not self._started:
            self._start()
        self._take_in(fact, now_ms, u)
        self._wake(now_ms)
        commands: list[Command] = []
        self._parks(commands, now_ms)
        self._publishes(commands, now_ms)
        self._settles(commands, now_ms)
        due = self._next_due()
        if due is not None:
            commands.append(WaitUntil(due))
        elif not self._sent and not self._table_calls:
            self._freeze_parks()
            self._over = True
            commands.append(Done(self._lowest()))
        return commands

    def tally(self) -> Mapping[State, int]:
        """Count the events by state."""
        return Counter(self._state)

    def faults(self, *, accepted: bool) -> Mapping[Fault, int]:
        """Count the events that met a fault and were, or were not, accepted after it; by their last fault."""
        return Counter(
            fault for number, fault in self._faults.items() if (self._state[number] is State.ACCEPTED) is accepted
        )

    # --- facts ---

    def _start(self) -> None:
        self._started = True
        for number, entry in enumerate(self._entries):
            key: str | int = entry.key if self._settings.ordered else number
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque((number,))
            else:
                queue.append(number)
            self._open[entry.record] = self._open.get(entry.record, 0) + 1
            if entry.fault is not None and entry.fault.kind is Kind.CONTENT:
                self._refused.setdefault(entry.record, []).append(number)
        for queue in self._queues.values():
            self._head(queue[0])

    def _take_in(self, fact: Fact, now_ms: int, u: float) -> None:
        if isinstance(fact, PublishDone):
            self._published(fact, now_ms, u)
        elif isinstance(fact, ParkDone):
            self._table_calls -= 1
            self._parked(fact)
        elif isinstance(fact, SettleDone):
            self._table_calls -= 1
            self._settle_again(fact.again, now_ms, u)

    def _published(self, fact: PublishDone, now_ms: int, u: float) -> None:
        numbers = self._sent.pop(fact.batch)
        outcome = fact.outcome
        if isinstance(outcome, RequestFailed):
            if outcome.fault.kind is Kind.CONTENT and len(numbers) > 1:
                self._narrow(numbers)
                return
            results: Sequence[Fault | None] = (outcome.fault,) * len(numbers)
        elif len(outcome.results) != len(numbers):
            said = f"{len(outcome.results)} results for {len(numbers)} entries"
            results = (Fault(Kind.UNKNOWN, "WrongResultCount", said),) * len(numbers)
        else:
            results = outcome.results
        for number, fault in zip(numbers, results, strict=True):
            if fault is None:
                self._accept(number)
            else:
                self._fail(number, fault, now_ms, u)

    def _accept(self, number: int) -> None:
        self._move(number, Cause.ACCEPTED)
        record = self._entries[number].record
        left = self._open[record] - 1
        self._open[record] = left
        if not left:
            self._to_settle.append(record)
        self._next_of_key(number)

    def _fail(self, number: int, fault: Fault, now_ms: int, u: float) -> None:
        self._faults[number] = fault
        if fault.kind is Kind.CONTENT:
            self._refuse(number)
        elif fault.kind is Kind.TARGET:
            self._halted = True
            self._move(number, Cause.FROZEN)
        else:
            self._move(number, Cause.RETRIED)
            due = now_ms + self._pause(self._attempts[number], u)
            self._attempts[number] += 1
            if due < self._publish_until:
                heappush(self._later, (due, number))

    def _narrow(self, numbers: tuple[int, ...]) -> None:
        for number in reversed(numbers):
            self._move(number, Cause.NARROWED)
            self._largest[number] = len(numbers) // 2
            self._ready.appendleft(number)

    def _refuse(self, number: int) -> None:
        self._move(number, Cause.REFUSED)
        record = self._entries[number].record
        if self._entries[number].fault is None:
            self._refused.setdefault(record, []).append(number)
        if record not in self._parking:  # else the end of that park sees to it
            self._wants_park(number)

    def _parked(self, fact: ParkDone) -> None:
        record = self._entries[fact.entry].record
        named = self._parking.pop(record)
        if fact.parked:
            self._stored |= named
        self._decide_charge(record, fact)
        for number in tuple(self._refused[record]):
            if self._state[number] is not State.PARKING:
                continue
            if number not in named:
                self._wants_park(number)
            elif fact.parked:
                self._move(number, Cause.PARKED)
                self._next_of_key(number)
            else:
                self._move(number, Cause.FROZEN)

    def _wants_park(self, number: int) -> None:
        heappush(self._to_park, (self._entries[number].record not in self._charged, number))

    # --- the queue of a key ---

    def _next_of_key(self, number: int) -> None:
        queue = self._queues[self._entries[number].key if self._settings.ordered else number]
        queue.popleft()
        while queue and self._head(queue[0]):
            queue.popleft()

    def _head(self, number: int) -> bool:
        """Bring an entry to the head of its key; return whether it is done already."""
        self._move(number, Cause.HEADS)
        fault = self._entries[number].fault
        if fault is None:
            self._ready.append(number)
            return False
        self._faults[number] = fault
        if fault.kind is not Kind.CONTENT:
            self._halted = True
            self._move(number, Cause.FROZEN)
        else:
            if number in self._stored:  # with another entry of its record
                self._move(number, Cause.REFUSED)
                self._move(number, Cause.PARKED)
                return True
            self._refuse(number)
        return False

    def _move(self, number: int, cause: Cause) -> None:
        self._state[number] = TRANSITIONS[self._state[number], cause]

    # --- commands ---

    def _wake(self, now_ms: int) -> None:
        while self._later and self._later[0][0] <= now_ms:
            number = heappop(self._later)[1]
            self._move(number, Cause.DUE)
            self._ready.append(number)
        while self._settle_later and self._settle_later[0][0] <= now_ms:
            self._to_settle.append(heappop(self._settle_later)[1])

    def _parks(self, commands: list[Command], now_ms: int) -> None:
        if self._halted or now_ms >= self._table_until:
            self._freeze_parks()
        while self._to_park and self._table_calls < self._settings.max_table_calls:
            number = self._to_park[0][1]
            record = self._entries[number].record
            if self._state[number] is State.PARKING and record not in self._parking:
                if not self._charge(record, now_ms):
                    return  # what is under way may give a unit back, or make this one the lowest
                refused = tuple(sorted(self._refused[record]))
                self._parking[record] = frozenset(refused)
                self._table_calls += 1
                commands.append(Park(number, record, refused, self._faults[number]))
            heappop(self._to_park)  # a park of its record names it, or has ended

    def _freeze_parks(self) -> None:
        for _, number in self._to_park:
            if self._state[number] is State.PARKING and self._entries[number].record not in self._parking:
                self._move(number, Cause.FROZEN)
        self._to_park.clear()

    def _charge(self, record: int, now_ms: int) -> bool:
        """Take a unit of the park limit for a record that has none yet; return whether it may be parked."""
        if record in self._charged:
            return True
        since = now_ms - self._settings.park_window_ms
        self.recent_parks = tuple(at for at in self.recent_parks if at > since)
        left = self._settings.park_limit - len(self.recent_parks)
        if left < 1 or (left == 1 and record != self._lowest()):
            return False
        self._charged[record] = now_ms
        self.recent_parks += (now_ms,)
        return True

    def _decide_charge(self, record: int, fact: ParkDone) -> None:
        """Keep or return the unit of a record: the first park that is not turned away decides; a lost answer keeps it.

        One that is turned away parked nothing: another park of the record takes a unit anew.
        """
        at = self._charged[record]
        if at is None:
            return
        if fact.parked or fact.lost:
            self._charged[record] = None
        else:
            del self._charged[record]
        if not (fact.new if fact.parked else fact.lost) and at in self.recent_parks:
            first = self.recent_parks.index(at)
            self.recent_parks = self.recent_parks[:first] + self.recent_parks[first + 1 :]

    def _publishes(self, commands: list[Command], now_ms: int) -> None:
        if self._halted or now_ms >= self._publish_until:
            return
        while self._ready and len(self._sent) < self._settings.max_in_flight:
            numbers = self._batch()
            for number in numbers:
                self._move(number, Cause.SENT)
            batch = self._batches
            self._batches += 1
            self._sent[batch] = numbers
            commands.append(Publish(batch, numbers))

    def _batch(self) -> tuple[int, ...]:
        """Take from the front of what is ready as much as one request holds, and at least one."""
        limits = self._settings.limits
        most, size = limits.entries, 0
        chosen: list[int] = []
        while self._ready:
            number = self._ready[0]
            most = min(most, self._largest.get(number, most))
            size += self._entries[number].size
            if chosen and (len(chosen) >= most or size > limits.request_bytes):
                break
            chosen.append(self._ready.popleft())
        return tuple(chosen)

    def _settles(self, commands: list[Command], now_ms: int) -> None:
        if now_ms >= self._table_until:
            self.unsettled += len(self._to_settle)
            self._to_settle.clear()
            return
        size = self._settings.settle_batch
        while self._to_settle and self._table_calls < self._settings.max_table_calls:
            if len(self._to_settle) < size and self._sent:
                return  # more may be accepted soon; the rest goes when nothing is being published
            records = tuple(self._to_settle.popleft() for _ in range(min(size, len(self._to_settle))))
            self._table_calls += 1
            commands.append(Settle(records))

    def _settle_again(self, records: tuple[int, ...], now_ms: int, u: float) -> None:
        for record in records:
            attempts = self._settle_attempts.get(record, 1)
            self._settle_attempts[record] = attempts + 1
            due = now_ms + self._pause(attempts, u)
            if attempts < self._settings.settle_attempts and due < self._table_until:
                heappush(self._settle_later, (due, record))
            else:
                self.unsettled += 1

    # --- time, and the end ---

    def _pause(self, attempts: int, u: float) -> int:
        return full_jitter_ms(self._settings.backoff_base_ms, self._settings.backoff_cap_ms, attempts, u)

    def _next_due(self) -> int | None:
        dues = [heap[0][0] for heap in (() if self._halted else self._later, self._settle_later) if heap]
        return min(dues, default=None)

    def _lowest(self) -> int | None:
        while self._first_open < len(self._state) and self._state[self._first_open] in DONE:
            self._first_open += 1
        return self._entries[self._first_open].record if self._first_open < len(self._state) else None
