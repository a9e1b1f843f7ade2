"""One invocation of the relay: has a crew do what the machine says, and hands back what came of it, until it is done.

Every command that starts something is answered by exactly one fact, whatever a sink raises, and the invocation never
ends while a request is under way.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Presence, RequestFailed, Verified
from dynamodb_outbox.core.relay.parking import KEY_PARKED
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.invocation_log import InvocationLog, log
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.relay.commands import Command
    from dynamodb_outbox.core.relay.machine import Machine
    from dynamodb_outbox.delivery import Delivery
    from dynamodb_outbox.ports import Clock, Crew, Entropy, ParkedKeys, RecordStates, Results, Sink

__all__ = ["Invocation", "Tools"]

_LOST = RequestFailed(Fault(Kind.UNKNOWN, "PublishRaised", "the sink raised an error; the log has it"))
_UNTOLD = Verified(Presence.UNSURE, "verify() raised an error; the log has it")


@dataclass(frozen=True)
class Tools:
    """What an invocation works with; `sinks` in the order of the machine's destinations."""

    sinks: Sequence[Sink]
    states: RecordStates
    parked_keys: ParkedKeys
    crew: Crew
    clock: Clock
    entropy: Entropy


class Invocation:
    """Carries out the commands of `machine` on a `delivery`. Its facts come back through one queue.

    `unsure` says why it cannot be told whether a destination is there, by its place; what is there has been logged.
    """

    def __init__(self, machine: Machine, delivery: Delivery, tools: Tools, unsure: dict[int, str]) -> None:
        self._machine = machine
        self._delivery = delivery
        self._tools = tools
        self._unsure = unsure
        self._missing: dict[int, str] = {}
        self._unanswered: dict[int, str] = {}
        self._log = InvocationLog()
        self._facts: Results[Fact] = tools.crew.results()
        self._under_way = 0
        self._starts: dict[type[Command], tuple[Callable[[Any], Fact], Callable[[Any], Fact]]] = {
            Publish: (self._publish, lambda command: PublishDone(command.batch, _LOST)),
            Verify: (self._verify, lambda command: VerifyDone(command.destination, _UNTOLD)),
            Park: (self._park, lambda command: ParkDone(command.entry, parked=False, lost=True)),
            ReadKeys: (self._read_keys, lambda command: KeysRead(command.keys, unread=frozenset(command.keys))),
            Settle: (self._settle, lambda command: SettleDone(command.records)),
        }

    def to_the_end(self) -> int | None:
        """Return the lowest record that is not done. Whatever happens, nothing is under way any more by then."""
        fact: Fact = Tick()
        clock, entropy = self._tools.clock, self._tools.entropy
        try:
            while True:
                wake_ms: int | None = None
                for command in self._machine.step(fact, clock.monotonic_ms(), entropy.unit()):
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
            self._delivery.remember(self._machine.progress.at(State.ACCEPTED), self._machine.settled)

    def _next(self, wake_ms: int | None) -> Fact:
        fact = self._facts.get(None if wake_ms is None else wake_ms - self._tools.clock.monotonic_ms())
        if fact is None:
            return Tick()
        self._under_way -= 1
        if isinstance(fact, PublishDone) and isinstance(fact.outcome, RequestFailed):
            self._log.request_failed(fact.outcome.fault)
        elif isinstance(fact, VerifyDone):
            self._note_presence(fact)
        return fact

    def _start(self, command: Command) -> None:
        """Have the crew do a command. It gives exactly one fact, also when it raises, whatever it raises."""
        work, otherwise = self._starts[type(command)]

        def carried_out() -> None:
            fact = otherwise(command)
            try:
                fact = work(command)
            except Exception as error:  # noqa: BLE001 -- a sink is anybody's code; `otherwise` claims nothing
                self._log.raised(type(command).__name__, error)
            finally:
                self._facts.put(fact)

        self._under_way += 1
        try:
            self._tools.crew.start(carried_out)
        except BaseException:
            self._under_way -= 1
            raise

    # --- commands, by the crew ---

    def _publish(self, command: Publish) -> Fact:
        outcome = self._tools.sinks[command.destination].publish(self._delivery.to_send(command.entries))
        if not isinstance(outcome, (Answered, RequestFailed)):
            raise TypeError(f"the sink returned {type(outcome).__name__}")
        return PublishDone(command.batch, outcome)

    def _verify(self, command: Verify) -> Fact:
        found = self._tools.sinks[command.destination].verify()
        if not isinstance(found, Verified):
            raise TypeError(f"the sink returned {type(found).__name__}")
        return VerifyDone(command.destination, found)

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
        number = self._delivery.selected[command.record].sequence_number
        if parked.failure is not None:
            log.error("record %s could not be parked (%s) for: %s", number, parked.failure, fault)
        elif parked.new:
            also = ", and its key with it" if key_parked else ""
            level = logging.INFO if fault is KEY_PARKED else logging.ERROR
            log.log(level, "an event of record %s was parked%s: %s", number, also, fault)
        else:
            log.info("record %s has been parked or settled before: %s", number, fault)
        done = parked.failure is None
        return ParkDone(command.entry, parked=done, new=parked.new, lost=parked.lost, key_parked=key_parked)

    def _read_keys(self, command: ReadKeys) -> Fact:
        parked, unread = self._tools.parked_keys.read(self._delivery.table, command.keys)
        return KeysRead(command.keys, parked, unread)

    def _settle(self, command: Settle) -> Fact:
        images = [self._delivery.selected[record].image for record in command.records]
        settled = self._tools.states.settle(self._delivery.table, images, self._tools.clock.now_ms())
        self._log.not_settled(settled.failed)
        again = tuple(command.records[position] for position in settled.again)
        all_told = settled.done + settled.changed + len(again) == len(command.records)  # else: which failed is not said
        known = tuple(record for record in command.records if all_told and record not in again)
        return SettleDone(command.records, again, known)

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

    def report(self, lowest: int | None) -> None:
        """Log what the invocation came to; a warning when records are left to be delivered again."""
        tally = self._machine.progress.tally()
        level = logging.DEBUG if lowest is None else logging.WARNING
        log.log(
            level,
            "%s of %s: %d accepted, %d parked%s",
            counted(sum(tally.values()), "event"),
            counted(len(self._delivery.selected), "record"),
            tally[State.ACCEPTED],
            tally[State.PARKED],
            "" if lowest is None else f"; delivered again from {self._delivery.selected[lowest].sequence_number} on",
        )
        if self._machine.unsettled:
            left = counted(self._machine.unsettled, "published record")
            log.warning("%s could not be settled in time; left pending", left)
        self._report_held()
        for accepted in (False, True):
            self._log.faults(self._machine.progress.met(accepted=accepted), accepted=accepted)
        self._log.finish()

    def _report_held(self) -> None:
        now_ms = self._tools.clock.monotonic_ms()
        for place, destination in enumerate(self._machine.destinations):
            name, held = self._tools.sinks[place].name, counted(destination.left, "event")
            if destination.halted and destination.is_missing():
                said = self._missing.get(place) or "it was missing before, and now nobody can tell"
                log.error("%s does not exist, and %s held: %s", name, _are(held, destination.left), said)
            elif destination.left and destination.health.is_open(now_ms):
                left_ms = (destination.health.open_until_ms or now_ms) - now_ms
                words = "%s held: requests to %s fail, and nothing is sent to it for %d ms"
                log.warning(words, _are(held, destination.left), name, left_ms)
            if destination.left and place in self._unanswered and not destination.health.is_verified(now_ms):
                log.warning("nobody answers whether %s exists: %s", name, self._unanswered[place])


def _are(what: str, count: int) -> str:
    return f"{what} {'is' if count == 1 else 'are'}"
