"""One invocation of the relay: has a crew do what the machine says, and hands back what came of it, until it is done.

Every command that starts something is answered by exactly one fact, whatever a sink raises, and the invocation never
ends while a request is under way. So it is where there is no thread for a command: the machine is told that nothing was
sent, and tries again or holds. And so it is where a thread came too late, with fewer than the crew should have: what
would outlive the function is not begun any more.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.relay.commands import (
    Done,
    Fact,
    KeysRead,
    Park,
    ParkDone,
    Publish,
    PublishDone,
    ReadKeys,
    Settle,
    SettleDone,
    Tick,
    Verify,
    VerifyDone,
    WaitUntil,
)
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Presence, RequestFailed, Verified
from dynamodb_outbox.core.relay.parking import KEY_PARKED
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.relay.foreign import answer_of, outcome_of
from dynamodb_outbox.relay.leftovers import Left
from dynamodb_outbox.relay.log import log
from dynamodb_outbox.relay.watch import Watch
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.relay.commands import Command, Settings
    from dynamodb_outbox.core.relay.health import Carried
    from dynamodb_outbox.ports import Clock, Crew, Entropy, ParkedKeys, RecordStates, Results, Sink
    from dynamodb_outbox.relay.delivery import Delivery
    from dynamodb_outbox.relay.margins import Deadlines
    from dynamodb_outbox.relay.watch import Onlooker

__all__ = ["Invocation", "Tools"]

_LOST = RequestFailed(Fault(Kind.UNKNOWN, "PublishRaised", "the sink raised an error; the log has it"))
_UNTOLD = Verified(Presence.UNSURE, "verify() raised an error; the log has it", passing=True)
_NOT_SENT = Fault(Kind.TRANSIENT, "NotSent", "there was no thread for the request, or none in time")
_NOT_ASKED = Verified(Presence.UNSURE, "there was no thread for the question, or none in time", passing=True)
_GRACE_MS = 200
"""How late a command may begin: the margins before a deadline have more than that to spare."""


@dataclass(frozen=True)
class Tools:
    """What an invocation works with; `sinks` in the order of the machine's destinations."""

    sinks: Sequence[Sink]
    states: RecordStates
    parked_keys: ParkedKeys
    crew: Crew
    clock: Clock
    entropy: Entropy
    settings: Settings
    onlooker: Onlooker | None = None


class Invocation:
    """Carries out the commands of a `machine` on a `delivery`. Its facts come back through one queue.

    `unsure` says why it cannot be told whether a destination is there, by its place; what is there has been logged.
    `carried` comes from the invocation before.
    """

    def __init__(
        self, delivery: Delivery, tools: Tools, deadlines: Deadlines, unsure: dict[int, str], carried: Carried
    ) -> None:
        self.machine = Machine(
            delivery.entries,
            [sink.limits for sink in tools.sinks],
            tools.settings,
            publish_until_ms=deadlines.publish_ms,
            table_until_ms=deadlines.table_ms,
            carried=carried,
            idle=delivery.idle,
        )
        self._delivery = delivery
        self._tools = tools
        self._deadlines = deadlines
        self._unsure = unsure
        self._missing: dict[int, str] = {}
        self._unanswered: dict[int, str] = {}
        self._not_parked: set[int] = set()  # records
        self._log = delivery.log
        self._facts: Results[Fact] = tools.crew.results()
        self._under_way = 0
        self._watch = Watch()

    def to_the_end(self) -> int | None:
        """Return the lowest record that is not done. Whatever happens, nothing is under way any more by then."""
        fact: Fact = Tick()
        clock, entropy = self._tools.clock, self._tools.entropy
        try:
            while True:
                wake_ms: int | None = None
                for command in self.machine.step(fact, clock.monotonic_ms(), entropy.unit()):
                    if isinstance(command, Done):
                        return command.lowest
                    if isinstance(command, WaitUntil):
                        wake_ms = command.at_ms
                    else:
                        self._start(command)
                fact = self._next(wake_ms)
        finally:
            while self._under_way:
                self._next(None)
            self._delivery.remember(self.machine.progress.at(State.ACCEPTED), self.machine.settled)

    def _next(self, wake_ms: int | None) -> Fact:
        fact = self._facts.get(None if wake_ms is None else wake_ms - self._tools.clock.monotonic_ms())
        if fact is None:
            return Tick()
        self._under_way -= 1
        if isinstance(fact, PublishDone) and isinstance(fact.outcome, RequestFailed):
            self._log.request_failed(fact.outcome.fault)
        elif isinstance(fact, VerifyDone):
            self._note_presence(fact)
        elif isinstance(fact, ParkDone) and not fact.parked:
            self._not_parked.add(self._delivery.entries[fact.entry].record)
        return fact

    def _start(self, command: Command) -> None:
        """Have the crew do a command. It gives exactly one fact, also when it raises, whatever it raises."""
        work, otherwise = self._starts[type(command)]
        turn = threading.Lock()  # held by the task once it has begun, or by whoever found that it will not

        def carried_out() -> None:
            if not turn.acquire(blocking=False):
                return
            fact = otherwise(command)
            try:
                fact = work(self, command) if self._is_in_time(command) else _not_begun(command)
            except Exception as error:  # noqa: BLE001 -- a sink is anybody's code; `otherwise` claims nothing
                self._log.raised(type(command).__name__, error)
            finally:
                self._facts.put(fact)

        self._under_way += 1
        try:
            self._tools.crew.start(carried_out)
        except Exception as error:  # noqa: BLE001 -- a crew without a thread; the invocation goes on without
            if turn.acquire(blocking=False):
                self._log.raised("starting a thread", error)
                self._facts.put(_not_begun(command))
        except BaseException:
            if turn.acquire(blocking=False):
                self._under_way -= 1
            raise

    def _is_in_time(self, command: Command) -> bool:
        at_table = isinstance(command, (Park, Settle))
        until_ms = self._deadlines.table_ms if at_table else self._deadlines.publish_ms
        return self._tools.clock.monotonic_ms() < until_ms + _GRACE_MS

    # --- commands, by the crew ---

    def _publish(self, command: Publish) -> Fact:
        sink = self._tools.sinks[command.destination]
        outcome = outcome_of(sink.publish(self._delivery.to_send(command.entries)))
        if self._tools.onlooker is not None:
            now_ms = self._tools.clock.now_ms()
            self._watch.requested(self._delivery, command.entries, sink.limits.entries, outcome, now_ms)
        return PublishDone(command.batch, outcome)

    def _verify(self, command: Verify) -> Fact:
        return VerifyDone(command.destination, answer_of(self._tools.sinks[command.destination].verify()))

    def _park(self, command: Park) -> Fact:
        image, table = self._delivery.selected[command.record].image, self._delivery.table
        fault, key_parked = command.fault, False
        parking = Parking(fault.code, fault.reason, self._tools.clock.now_ms(), self._delivery.positions(command))
        if command.key is None:
            parked = self._tools.states.park(table, image, parking)
        else:
            parked, key_parked = self._tools.parked_keys.park(table, image, parking, command.key)
        if fault is not KEY_PARKED and self._delivery.entries[command.entry].fault is None:
            fault = replace(fault, reason="")  # the bus's words, which may quote the event
        named, more = self._delivery.named(command.entry), len(command.refused) - 1
        named += f" (and {counted(more, 'more event')} of its record)" if more else ""
        if parked.failure is not None:
            log.error("not parked: %s: %s. The park failed: %s", named, fault, parked.failure)
        elif parked.new:
            self._watch.parked(command.record)
            also = ", and its key with it" if key_parked else ""
            level = logging.INFO if fault is KEY_PARKED else logging.ERROR
            log.log(level, "parked%s: %s: %s", also, named, fault)
        else:
            log.info("parked or settled before: %s: %s", named, fault)
        done = parked.failure is None
        return ParkDone(command.entry, parked=done, new=parked.new, lost=parked.lost, key_parked=key_parked)

    def _read_keys(self, command: ReadKeys) -> Fact:
        found = self._tools.parked_keys.read(self._delivery.table, command.keys)
        self._log.keys_read(command.keys, found.unread, found.failure)
        return KeysRead(command.keys, found.parked, found.unread)

    def _settle(self, command: Settle) -> Fact:
        images = [self._delivery.selected[record].image for record in command.records]
        settled = self._tools.states.settle(self._delivery.table, images, self._tools.clock.now_ms())
        self._log.not_settled(settled.failed)
        self._watch.not_settled(sum(settled.failed.values()))
        again = tuple(command.records[position] for position in settled.again)
        all_told = settled.done + settled.changed + len(again) == len(command.records)  # else: which failed is not said
        known = tuple(record for record in command.records if all_told and record not in again)
        return SettleDone(command.records, again, known)

    _starts: ClassVar[dict[type[Command], tuple[Callable[[Invocation, Any], Fact], Callable[[Any], Fact]]]] = {
        Publish: (_publish, lambda command: PublishDone(command.batch, _LOST)),
        Verify: (_verify, lambda command: VerifyDone(command.destination, _UNTOLD)),
        Park: (_park, lambda command: ParkDone(command.entry, parked=False, lost=True)),
        ReadKeys: (_read_keys, lambda command: KeysRead(command.keys, unread=frozenset(command.keys))),
        Settle: (_settle, lambda command: SettleDone(command.records)),
    }
    """How each command is begun, and the fact of one that raised. Of the class: an invocation that held methods of its
    own would be a circle, which is freed late."""

    # --- what is logged ---

    def _note_presence(self, fact: VerifyDone) -> None:
        place, found = fact.destination, fact.verified
        if found.passing:
            self._unanswered[place] = found.reason
        elif found.presence is Presence.UNSURE and self._unsure.get(place) != found.reason:
            self._unsure[place] = found.reason
            name = self._tools.sinks[place].name
            log.warning("it cannot be told whether %s exists; it is published to: %s", name, found.reason)
        elif found.presence is Presence.MISSING:
            self._missing[place] = found.reason

    def report(self, left: str | None) -> None:
        """Log what the invocation came to, and tell whoever looks on. `left`: what becomes of what is left."""
        tally = self.machine.progress.tally()
        accepted = self.machine.progress.at(State.ACCEPTED)
        before = sum(self._delivery.entries[number].accepted for number in accepted)
        level = logging.DEBUG if left is None else logging.WARNING
        log.log(
            level,
            "%s of %s: %d accepted%s, %d parked%s",
            counted(sum(tally.values()), "event"),
            counted(len(self._delivery.selected), "record"),
            tally[State.ACCEPTED],
            f" ({before:,} of them in an earlier invocation)" if before else "",
            tally[State.PARKED],
            "" if left is None else f"; {left}",
        )
        if self.machine.unsettled:
            unsettled = counted(self.machine.unsettled, "published record")
            log.warning("%s could not be settled in time; left pending", unsettled)
        if (onlooker := self._tools.onlooker) is not None:
            onlooker.tell(self._watch.fact(self._delivery, self.machine, onlooker.split(self._delivery)))
        self._report_held()
        if left is not None:
            self._report_left()
        if self.machine.progress.faults:
            self._log.not_accepted(self.machine.progress.met(accepted=False), self._delivery.named)
            self._log.accepted_after(self.machine.progress.met(accepted=True))
        self._log.finish()

    def _report_held(self) -> None:
        now_ms = self._tools.clock.monotonic_ms()
        for place, destination in enumerate(self.machine.destinations):
            name, held = self._tools.sinks[place].name, counted(destination.left, "event")
            if destination.halted and destination.is_missing():
                said = self._missing.get(place) or "it was missing before, and now nobody can tell"
                log.error("%s does not exist, and %s held: %s", name, _are(held, destination.left), said)
            elif destination.left and destination.health.is_open(now_ms):
                left_ms = (destination.health.open_until_ms or now_ms) - now_ms
                words = "%s held: requests to %s fail, and nothing is sent to it for %d ms"
                log.warning(words, _are(held, destination.left), name, left_ms)
            if destination.left and place in self._unanswered and not destination.health.is_verified(now_ms):
                words = "%s held: nobody answers whether %s exists: %s"
                log.error(words, _are(held, destination.left), name, self._unanswered[place])

    def _report_left(self) -> None:
        tools, now_ms = self._tools, self._tools.clock.monotonic_ms()
        left = Left(self.machine, self._delivery.entries, tools.settings, now_ms, self._deadlines.publish_ms)
        reasons = left.reasons(unanswered=self._unanswered, not_parked=self._not_parked, named=self._delivery.named)
        for words in reasons:
            log.warning("%s", words)


def _are(what: str, count: int) -> str:
    return f"{what} {'is' if count == 1 else 'are'}"


def _not_begun(command: Any) -> Fact:
    """Return the fact of a command that nobody began: nothing was sent, so nothing is lost and nobody is to blame."""
    if isinstance(command, Publish):
        return PublishDone(command.batch, Answered((_NOT_SENT,) * len(command.entries)))
    if isinstance(command, Verify):
        return VerifyDone(command.destination, _NOT_ASKED)
    if isinstance(command, Park):
        return ParkDone(command.entry, parked=False)
    if isinstance(command, ReadKeys):
        return KeysRead(command.keys, unread=frozenset(command.keys))
    return SettleDone(command.records, again=command.records)
