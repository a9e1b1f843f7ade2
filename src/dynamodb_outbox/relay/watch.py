"""Looking on: what an observer is told of an invocation that neither the machine nor the log knows.

Requests are noted by the threads that made them, each in one step, and put together when nothing is under way any more.
A relay has one `Onlooker` for all its invocations, which come one after the other; nothing is noted where nobody looks
on.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import observer, refusal
from dynamodb_outbox.core.relay.facts import Relayed
from dynamodb_outbox.core.relay.outcome import Answered
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.relay.log import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.machine import Machine
    from dynamodb_outbox.core.relay.outcome import Outcome
    from dynamodb_outbox.core.sweeping.commands import Swept
    from dynamodb_outbox.ports import Observer
    from dynamodb_outbox.relay.delivery import Delivery

__all__ = ["Onlooker", "Watch", "onlooker_of"]

_KEYS = 10_000
"""Ordering keys of which an instance remembers where they were."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


def onlooker_of(who: str, given: Observer[Any] | None) -> Onlooker | None:
    """Return who tells an observer, None where nobody looks on. Raises ConfigurationError for what is no observer."""
    found = observer(given, refusal(who, "observer"))
    return None if found is None else Onlooker(found)


class Onlooker:
    """Tells an observer of invocations, and remembers from which partition the keys of the last ones came."""

    def __init__(self, observer: Observer[Any]) -> None:
        self._observer = observer
        self._partitions: OrderedDict[str, object] = OrderedDict()

    def tell(self, fact: Relayed | Swept) -> None:
        """Tell of an invocation. What the observer raises is logged, and changes nothing for any event."""
        try:
            self._observer.observe(fact)
        except Exception:  # noqa: BLE001 -- anybody's code
            log.exception("the observer raised, and was not told of %s", type(fact).__name__)

    def split(self, delivery: Delivery) -> int:
        """Count the ordering keys of a delivery that came from another partition before, or come from two now."""
        split, known = set(), self._partitions
        for entry in delivery.entries:
            partition = delivery.partition(entry.record)
            if known.setdefault(entry.key, partition) != partition:
                split.add(entry.key)
            known.move_to_end(entry.key)
        while len(known) > _KEYS:
            known.popitem(last=False)
        return len(split)


class Watch:
    """Counts in one invocation; several threads may add to it at once."""

    def __init__(self) -> None:
        self._requests: list[tuple[int, int]] = []  # entries, room
        self._ages_ms: list[int] = []
        self._not_settled: list[int] = []  # how many, call by call
        self._parked: list[int] = []  # records

    def requested(self, delivery: Delivery, numbers: Sequence[int], room: int, outcome: Outcome, now_ms: int) -> None:
        """Note a publish request that came to `outcome` at `now_ms` of the wall clock."""
        self._requests.append((len(numbers), room))
        if isinstance(outcome, Answered) and len(outcome.results) == len(numbers):
            told = zip(numbers, outcome.results, strict=True)
            times = [delivery.times[number] for number, fault in told if fault is None]
            self._ages_ms += [max(0, now_ms - (time - _EPOCH) // _MS) for time in times if time is not None]

    def parked(self, record: int) -> None:
        """Note that a record was newly parked."""
        self._parked.append(record)

    def not_settled(self, records: int) -> None:
        """Note records whose settling was refused for good."""
        self._not_settled.append(records)

    def fact(self, delivery: Delivery, machine: Machine, split_keys: int) -> Relayed:
        """Return what the invocation came to."""
        newly = frozenset(self._parked)
        accepted = machine.progress.at(State.ACCEPTED)
        known = sum(delivery.entries[number].accepted for number in accepted)
        failed: dict[str, int] = {}
        for fault, numbers in machine.progress.met(accepted=False).items():
            left = sum(not machine.progress.is_at(number, State.PARKED) for number in numbers)
            if left:
                failed[fault.code] = failed.get(fault.code, 0) + left
        return Relayed(
            delivery.table,
            records=len(delivery.selected),
            accepted=len(accepted) - known,
            known=known,
            recovered=sum(len(numbers) for numbers in machine.progress.met(accepted=True).values()),
            parked=sum(delivery.entries[number].record in newly for number in machine.progress.at(State.PARKED)),
            failed=failed,
            unsettled=machine.unsettled + sum(self._not_settled),
            requests=len(self._requests),
            sent=sum(sent for sent, _ in self._requests),
            room=sum(room for _, room in self._requests),
            ages_ms=tuple(self._ages_ms),
            split_keys=split_keys,
        )
