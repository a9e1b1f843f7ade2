"""The relay's decisions: facts and times go in, commands come out.

The shell decodes the records of one invocation, hands their events to a `Machine` as entries, and carries out what it
is told; each command that starts something is answered by one fact. The machine owns the order of things and nothing
else: it has no clock, does no input or output, and draws no random number (`u`, from 0 to 1, comes with each fact).

Its parts know their own matter and nothing of each other: the gate, which event of a key is next; a destination, what
it may be sent now; parking, which record is stored as parked and how many may be; settling, which calls are worth
making; progress, where each event is. The machine lets events go from one to the other.

What always holds, whatever the facts and in whatever order they come:

 1. Only the head of a key's queue is sent or parked; one event of a key is under way at a time, whatever its
    destination, and the next follows when it is accepted or parked. With `ordered=False` each event is a key of its
    own. A park names all events of its record that are known to be refused; those behind the head pass without a call
    when their turn comes.
 2. An entry is accepted only by a result for it, or by the memory of one. A list of results of the wrong length accepts
    nothing.
 3. Only a content error of a single entry parks; a refused request of several is tried again in smaller ones first.
    With `on_poison="block"` nothing parks; with "park_key" nothing of a parked key is published.
 4. After a target error nothing more is published to that destination and nothing of it parked; what is under way is
    waited for. Other destinations go on, but for the keys that it holds.
 5. No request to a destination starts unless it was asked for within `verified_ms` before, and not found missing.
    Publishing waits for that answer: it costs a round trip a minute, and what is published meanwhile might be lost. A
    question that nobody answers is asked again, after a pause.
 6. No Publish, Verify or ReadKeys at or after `publish_until_ms`, no Park or Settle at or after `table_until_ms`.
 7. A record is settled when all its events are accepted, never before, and never when one of them is parked.
 8. Done comes once, last, with nothing under way; it names the lowest record with an event neither accepted nor parked.
 9. Neither a failed settle nor a missing one changes the answer; `unsettled` counts the records that it leaves pending.
10. Of `max_in_flight` requests one is left for each other destination that has no request under way and something to
    send: the head of a key, be it in a pause, or what follows a park that is under way. They take turns. So one that
    answers slowly, or not at all, slows down nobody but its own keys. Events behind the head of a key need nothing
    left: the request that accepts the head leaves its place. So a key that is stuck slows down no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import (
    NOWHERE,
    Command,
    Done,
    Entry,
    Fact,
    KeysRead,
    ParkDone,
    Publish,
    PublishDone,
    Settings,
    SettleDone,
    Verify,
    VerifyDone,
    WaitUntil,
)
from dynamodb_outbox.core.relay.destination import Destination
from dynamodb_outbox.core.relay.gate import Gate
from dynamodb_outbox.core.relay.health import NEW, NOTHING, Carried
from dynamodb_outbox.core.relay.outcome import Fault, Kind, RequestFailed
from dynamodb_outbox.core.relay.parking import KEY_PARKED, ParkQueue
from dynamodb_outbox.core.relay.progress import Progress
from dynamodb_outbox.core.relay.settling import Settling
from dynamodb_outbox.core.relay.states import Cause
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.relay.outcome import Outcome

__all__ = ["Machine"]

_LAST_PART = 8
"""Of the time between the last publish and the last call to the table one part in so many is left for a last settle."""


class Machine:
    """One invocation of the relay over `entries`, which are in the order of the stream.

    `limits` are those of the destinations, in their order. `carried` comes from the invocation before, on the same
    clock (`Carried.at` sees to that); the attribute of that name is what to hand to the next one. Of the records `idle`
    nothing is written when they are accepted. `progress` has the state of each event, `destinations` what is known of
    each.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        limits: Sequence[SinkLimits],
        settings: Settings,
        *,
        publish_until_ms: int,
        table_until_ms: int,
        carried: Carried = NOTHING,
        idle: Collection[int] = frozenset(),
    ) -> None:
        known = {**dict.fromkeys(range(len(limits)), NEW), **dict(enumerate(carried.health[: len(limits)]))}
        self.progress = Progress(entries)
        self.destinations = tuple(
            Destination(entries, limit, settings, known[number]) for number, limit in enumerate(limits)
        )
        self._entries = entries
        self._settings = settings
        self._publish_until = publish_until_ms
        self._table_until = table_until_ms
        # When what waits is settled, though a request is still under way: late, but in time to begin.
        self._last_call = table_until_ms - (table_until_ms - publish_until_ms) // _LAST_PART
        self._gate = Gate(entries, settings)
        self._parking = ParkQueue(entries, self.progress, settings, carried.parks)
        self._settling = Settling(entries, settings, table_until_ms, idle)
        self._apart_ms = carried.apart_ms
        self._attempts: dict[int, int] = {}
        self._sent: dict[int, tuple[int, tuple[int, ...]]] = {}  # batch -> (destination, entries)
        self._batches = 0
        self._verifying = 0
        self._table_calls = 0
        self._turn = 0
        self._started = False
        self._closing = False  # what is accepted has been settled to the last record: nothing more is published
        self._over = False

    @property
    def carried(self) -> Carried:
        """What to hand to the next invocation."""
        return Carried(tuple(one.health for one in self.destinations), self._parking.recent, self._apart_ms)

    @property
    def unsettled(self) -> int:
        """How many records were accepted, and there was no time, or no attempt left, to settle them."""
        return self._settling.unsettled

    @property
    def settled(self) -> Collection[int]:
        """The records that were settled in this invocation, as far as is known."""
        return self._settling.settled

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
        self._table_work(commands, now_ms)
        self._publishes(commands, now_ms)
        self._settles(commands, now_ms)
        due = self._next_due(now_ms)
        if due is not None:
            commands.append(WaitUntil(due))
        elif not self._sent and not self._table_calls and not self._verifying:
            self._parking.freeze()
            self._settling.give_up()
            self._over = True
            commands.append(Done(self.progress.lowest()))
        return commands

    # --- facts ---

    def _start(self) -> None:
        self._started = True
        for entry in self._entries:
            if entry.destination != NOWHERE:
                self.destinations[entry.destination].left += 1
        for number in self._gate.begin():
            self._come_up(number)

    def _take_in(self, fact: Fact, now_ms: int, u: float) -> None:
        if isinstance(fact, PublishDone):
            self._published(fact, now_ms, u)
        elif isinstance(fact, VerifyDone):
            self._verifying -= 1
            self.destinations[fact.destination].found(fact.verified, now_ms, u)
        elif isinstance(fact, ParkDone):
            self._table_calls -= 1
            self._parked(fact)
        elif isinstance(fact, KeysRead):
            self._table_calls -= 1
            for number in self._gate.read(fact, now_ms, u, self._publish_until):
                self._come_up(number)
        elif isinstance(fact, SettleDone):
            self._table_calls -= 1
            self._settling.settled.update(fact.settled)
            self._settling.again(fact.again, now_ms, u)

    def _published(self, fact: PublishDone, now_ms: int, u: float) -> None:
        place, numbers = self._sent.pop(fact.batch)
        destination = self.destinations[place]
        results, failed = _read(fact.outcome, len(numbers))
        destination.ended(results, now_ms, u, failed=failed)
        if len(numbers) > 1 and _is_refused(fact.outcome):
            self.progress.move_all(numbers, Cause.NARROWED)
            destination.narrow(numbers)
            return
        faults = [(number, fault) for number, fault in zip(numbers, results, strict=True) if fault is not None]
        self._accepted([n for n, fault in zip(numbers, results, strict=True) if fault is None] if faults else numbers)
        for number, fault in faults:
            self._fail(number, fault, now_ms, u)

    def _accepted(self, numbers: Sequence[int]) -> None:
        self.progress.move_all(numbers, Cause.ACCEPTED)
        for number in numbers:
            entry = self._entries[number]
            self.destinations[entry.destination].left -= 1
            self._settling.accepted(entry.record)
            self._next_of_key(number)

    def _fail(self, number: int, fault: Fault, now_ms: int, u: float) -> None:
        self.progress.faults[number] = fault
        if fault.kind is Kind.CONTENT:
            self._refuse(number)
        elif fault.kind is Kind.TARGET:
            self.destinations[self._entries[number].destination].halt()
            self.progress.move(number, Cause.FROZEN)
        else:
            self.progress.move(number, Cause.RETRIED)
            attempts = self._attempts.get(number, 0)
            self._attempts[number] = attempts + 1
            settings = self._settings
            due_ms = now_ms + full_jitter_ms(settings.backoff_base_ms, settings.backoff_cap_ms, attempts, u)
            if due_ms < self._publish_until:
                self.destinations[self._entries[number].destination].add_later(number, due_ms)

    def _refuse(self, number: int) -> None:
        if self._settings.on_poison == "block":
            self.progress.move(number, Cause.FROZEN)
        else:
            self.progress.move(number, Cause.REFUSED)
            self._parking.refuse(number)

    def _parked(self, fact: ParkDone) -> None:
        if fact.parked and fact.key_parked:
            self._gate.parked.add(self._entries[fact.entry].key)
        for number in self._parking.ended(fact):
            self._is_done(number)
            self._next_of_key(number)

    def _is_done(self, number: int) -> None:
        place = self._entries[number].destination
        if place != NOWHERE:
            self.destinations[place].left -= 1

    # --- the queue of a key ---

    def _next_of_key(self, number: int) -> None:
        following = self._gate.after(number)
        if following is not None:
            self._come_up(following)

    def _come_up(self, number: int) -> None:
        """Let an entry be the head of its key; and those behind it, as long as nothing is to be done for them."""
        head: int | None = number
        while head is not None and self._passes(head):
            self._is_done(head)
            head = self._gate.after(head)

    def _passes(self, number: int) -> bool:
        """Let an entry be the head of its key; return whether it is done already."""
        entry, move = self._entries[number], self.progress.move
        move(number, Cause.HEADS)
        if entry.accepted:
            move(number, Cause.REMEMBERED)
            self._settling.accepted(entry.record)
            return True
        fault = KEY_PARKED if self._gate.parked and entry.key in self._gate.parked else entry.fault
        if fault is not None:
            self.progress.faults[number] = fault
        if number in self._parking.stored:  # with another entry of its record
            move(number, Cause.REFUSED)
            move(number, Cause.PARKED)
            return True
        if fault is None:
            self.destinations[entry.destination].add(number)
            return False
        if fault.kind is Kind.CONTENT:
            self._refuse(number)
        else:
            if entry.destination != NOWHERE:
                self.destinations[entry.destination].halt()
            move(number, Cause.FROZEN)
        return False

    # --- commands ---

    def _wake(self, now_ms: int) -> None:
        for destination in self.destinations:
            for number in destination.wake(now_ms):
                self.progress.move(number, Cause.DUE)
        self._gate.wake(now_ms)
        self._settling.wake(now_ms)

    def _table_work(self, commands: list[Command], now_ms: int) -> None:
        """Read keys, and park."""
        if now_ms >= self._publish_until:
            self._gate.stop()
        if now_ms >= self._table_until:
            self._parking.freeze()
        for place, destination in enumerate(self.destinations):
            if destination.halted:
                self._parking.freeze(place)
        reads = self._gate.reads(self._free_calls())
        self._table_calls += len(reads)
        parks = self._parking.calls(now_ms, self._free_calls(), lambda place: self._may_park(place, now_ms))
        self._table_calls += len(parks)
        commands += reads
        commands += parks

    def _free_calls(self) -> int:
        return self._settings.max_table_calls - self._table_calls

    def _may_park(self, place: int, now_ms: int) -> bool:
        if place == NOWHERE:
            return True
        destination = self.destinations[place]
        return not destination.halted and destination.health.is_verified(now_ms)

    def _publishes(self, commands: list[Command], now_ms: int) -> None:
        """Ask for destinations, and publish, by turns."""
        if now_ms >= self._publish_until or self._closing:
            return
        while (free := self._settings.max_in_flight - len(self._sent) - self._verifying) > 0:
            place = self._next_in_turn(now_ms, free)
            if place is None:
                return
            destination = self.destinations[place]
            if not destination.health.is_verified(now_ms):
                destination.ask(now_ms)
                self._verifying += 1
                commands.append(Verify(place))
                continue
            numbers = destination.take(now_ms)
            self.progress.move_all(numbers, Cause.SENT)
            batch = self._batches
            self._batches += 1
            self._sent[batch] = (place, numbers)
            commands.append(Publish(batch, numbers, place))

    def _next_in_turn(self, now_ms: int, free: int) -> int | None:
        """Return the destination that takes one of the `free` requests, if any does."""
        count = len(self.destinations)
        for step in range(count):
            place = (self._turn + step) % count
            one = self.destinations[place]
            wants = one.wants_verify(now_ms, parks_wait=self._parking.waits_for(place)) or one.can_be_sent(now_ms)
            if wants and (not one.under_way or free > self._left_for_others(place, now_ms)):
                self._turn = place + 1
                return place
        return None

    def _left_for_others(self, place: int, now_ms: int) -> int:
        """Count the destinations besides that have something to send, and no request under way."""
        following = {self._entries[number].destination for number in self._following_parks()}
        return sum(
            one.needs_room(
                now_ms,
                parks_wait=self._parking.waits_for(other),
                more=other in following or (self._gate.is_reading and one.left > 0),
            )
            for other, one in enumerate(self.destinations)
            if other != place
        )

    def _following_parks(self) -> list[int]:
        """Return the entries that may come up when the parks that are under way have ended."""
        following = (self._gate.after(number) for number in self._parking.under_way())
        return [number for number in following if number is not None]

    def _settles(self, commands: list[Command], now_ms: int) -> None:
        if not self._settling.waits:
            return
        is_last = not self._may_publish_more(now_ms)
        calls = self._settling.calls(now_ms, self._free_calls(), all_of_them=is_last or now_ms >= self._last_call)
        self._closing = self._closing or (is_last and bool(calls))
        self._table_calls += len(calls)
        commands += calls

    def _may_publish_more(self, now_ms: int) -> bool:
        """Whether an event may still be accepted in this invocation."""
        if self._sent or self._closing:
            return bool(self._sent)
        if now_ms >= self._publish_until:
            return False
        busy = self._verifying or self._parking.is_under_way or self._gate.is_reading
        return bool(busy) or any(
            one.may_send_more(now_ms, self._publish_until, parks_wait=self._parking.waits_for(place))
            for place, one in enumerate(self.destinations)
        )

    # --- time ---

    def _next_due(self, now_ms: int) -> int | None:
        dues = [self._settling.next_due()]
        if self._settling.waits and self._sent and now_ms < self._last_call:
            dues.append(self._last_call)
        if not self._closing and now_ms < self._publish_until:
            publishing = [
                one.next_due(now_ms, parks_wait=self._parking.waits_for(place))
                for place, one in enumerate(self.destinations)
            ]
            publishing.append(self._gate.next_due())
            dues += [due for due in publishing if due is not None and due < self._publish_until]
        return min((due for due in dues if due is not None), default=None)


def _read(outcome: Outcome, count: int) -> tuple[Sequence[Fault | None], bool]:
    """Return what an outcome says of each entry, and whether the request failed as a whole in a way that may pass."""
    if isinstance(outcome, RequestFailed):
        return (outcome.fault,) * count, outcome.fault.kind in (Kind.TRANSIENT, Kind.UNKNOWN)
    if len(outcome.results) != count:
        said = f"{len(outcome.results)} results for {count} entries"
        return (Fault(Kind.UNKNOWN, "WrongResultCount", said),) * count, True
    return outcome.results, False


def _is_refused(outcome: Outcome) -> bool:
    return isinstance(outcome, RequestFailed) and outcome.fault.kind is Kind.CONTENT
