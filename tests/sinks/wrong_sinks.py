# ruff: noqa: D102 -- what a method does wrong is said by its class
"""Sinks with one thing wrong each, and the check of the contract that finds it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from own_sink import Webhook

from dynamodb_outbox.sinks import Answered, Fault, Kind, Presence, RequestFailed, SinkLimits, Verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.sinks import Outcome, Prepared


class NoLimits(Webhook):
    """Says 10 where SinkLimits are needed."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.limits = 10  # type: ignore[assignment]  # that is what is wrong with it


class NoSenseInLimits(Webhook):
    """Takes entries that no request takes."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.limits = SinkLimits(10, 1000, 2000)


class NoTime(Webhook):
    """States its time in seconds."""

    @property
    def request_ms(self) -> int:
        return 0


class ANameOfItsOwn(Webhook):
    """Has a new name in each process."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.name = f"webhook {id(self)}"
        WITNESSES.append(self)


WITNESSES: list[Any] = []
"""Keeps sinks alive, so that none has the address of another one."""


class CountsCharacters(Webhook):
    """Counts characters in place of bytes."""

    def prepare(self, event: Event) -> Prepared | Fault:
        found = super().prepare(event)
        return found if isinstance(found, Fault) else replace(found, size=len(found.entry))


class OneByteTooMany(Webhook):
    """Lets through what is a byte too large."""

    def prepare(self, event: Event) -> Prepared | Fault:
        return Webhook(self.name, limits=replace(self.limits, entry_bytes=self.limits.entry_bytes + 1)).prepare(event)


class OneByteTooFew(Webhook):
    """Refuses what just fits."""

    def prepare(self, event: Event) -> Prepared | Fault:
        return Webhook(self.name, limits=replace(self.limits, entry_bytes=self.limits.entry_bytes - 1)).prepare(event)


class CountsInBlocks(Webhook):
    """Counts blocks of 64 bytes, which the service may charge and does not measure."""

    def prepare(self, event: Event) -> Prepared | Fault:
        found = super().prepare(event)
        return found if isinstance(found, Fault) else replace(found, size=found.size // 64 * 64 + 1)


class RefusesTheLargest(Webhook):
    """States more than it sends."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        if any(len(entry) > 1000 for entry in entries):
            return RequestFailed(Fault(Kind.CONTENT, "TooLarge"))
        return super().publish(entries)


class RaisesInPrepare(Webhook):
    """Looks at the key without asking whether there is one."""

    def prepare(self, event: Event) -> Prepared | Fault:
        assert len(event.key.encode()) > 0  # type: ignore[union-attr]  # that is what is wrong with it
        return super().prepare(event)


class HoldsForOneEvent(Webhook):
    """Calls an event's own fault one of the target."""

    def prepare(self, event: Event) -> Prepared | Fault:
        found = super().prepare(event)
        return replace(found, kind=Kind.TARGET) if isinstance(found, Fault) and "Large" not in found.code else found


class NeverTooLarge(Webhook):
    """Has no limit of its own, but one that it states."""

    def prepare(self, event: Event) -> Prepared | Fault:
        return Webhook(self.name, limits=SinkLimits(1, 1 << 40, 1 << 40)).prepare(event)


class CountsUp(Webhook):
    """Makes another entry each time."""

    count = 0

    def prepare(self, event: Event) -> Prepared | Fault:
        found = super().prepare(event)
        self.count += 1
        return found if isinstance(found, Fault) else replace(found, entry=f"{found.entry}{' ' * self.count}")


class SendsBackwards(Webhook):
    """Publishes in another order."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries[::-1])
        return outcome if isinstance(outcome, RequestFailed) else Answered(outcome.results[::-1])


class SendsTwice(Webhook):
    """Makes sure."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        super().publish(entries)
        return super().publish(entries)


class NeverSends(Webhook):
    """Refuses the first entry of everything."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed):
            return outcome
        return Answered((Fault(Kind.CONTENT, "First"), *outcome.results[1:]))


class SendsOne(Webhook):
    """Sends the first entry of each request, and says so of all."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        super().publish(entries[:1])
        return Answered((None,) * len(entries))


class TwoHundredIsFine(Webhook):
    """Does not read results."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        return outcome if isinstance(outcome, RequestFailed) else Answered((None,) * len(entries))


class ByPosition(Webhook):
    """Takes results for those of entries in the order of the answer: refused ones first."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed):
            return outcome
        return Answered(tuple(sorted(outcome.results, key=lambda result: result is None)))


class AllIsContent(Webhook):
    """Would park whatever fails."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed):
            return RequestFailed(replace(outcome.fault, kind=Kind.CONTENT))
        return outcome


class NeverThrottled(Webhook):
    """Does not say that it is asked to slow down."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        return RequestFailed(replace(outcome.fault, throttled=False)) if isinstance(outcome, RequestFailed) else outcome


class RaisesInPublish(Webhook):
    """Lets exceptions out."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed):
            raise OSError(str(outcome.fault))
        return outcome


class Optimist(Webhook):
    """Takes what it cannot read for an acceptance."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed):
            return Answered((None,) * len(entries)) if outcome.fault.code == "NotUnderstood" else outcome
        return Answered(tuple(None if fault and fault.code == "NoResult" else fault for fault in outcome.results))


class Patient(Webhook):
    """Tries three times, and states the time of once."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        for _ in range(2):
            outcome = super().publish(entries)
            if isinstance(outcome, Answered):
                return outcome
            time.sleep(1)
        return super().publish(entries)


class TimeOutIsTransient(Webhook):
    """Says that nothing was accepted where nobody knows."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        outcome = super().publish(entries)
        silent = isinstance(outcome, RequestFailed) and outcome.fault.kind is Kind.UNKNOWN
        return RequestFailed(Fault(Kind.TRANSIENT, "TimedOut")) if silent else outcome


class NeverEnds(Webhook):
    """States an hour."""

    @property
    def request_ms(self) -> int:
        return 3_600_000


class OneForAll(Webhook):
    """Keeps the entries of a request where the next thread puts its own."""

    _entries: Sequence[Any] = ()

    def publish(self, entries: Sequence[Any]) -> Outcome:
        self._entries = entries
        time.sleep(0.005)
        return super().publish(self._entries)


class BreaksInThreads(Webhook):
    """Can be used by one thread at a time, and says so by raising."""

    _busy = False

    def publish(self, entries: Sequence[Any]) -> Outcome:
        if self._busy:
            raise RuntimeError("busy")
        self._busy = True
        time.sleep(0.005)
        try:
            return super().publish(entries)
        finally:
            self._busy = False


class AlwaysThere(Webhook):
    """Does not look."""

    def verify(self) -> Verified:
        return Verified(Presence.OK)


class UnsureIsMissing(Webhook):
    """Says missing for all that it does not know."""

    def verify(self) -> Verified:
        found = super().verify()
        return found if found.presence is Presence.OK else Verified(Presence.MISSING, found.reason)


class TakesSilenceForAnAnswer(Webhook):
    """Lets the relay publish where nobody has answered."""

    def verify(self) -> Verified:
        return replace(super().verify(), passing=False)


class BelievesWhatItCannotRead(Webhook):
    """Lets the relay publish on an answer in another form."""

    def verify(self) -> Verified:
        found = super().verify()
        return replace(found, passing=found.passing and "another kind" not in found.reason)


class AsksForEver(Webhook):
    """Holds everything where only the question is not allowed."""

    def verify(self) -> Verified:
        found = super().verify()
        return replace(found, passing=found.presence is Presence.UNSURE)


class NoReason(Webhook):
    """Does not say why."""

    def verify(self) -> Verified:
        return Verified(super().verify().presence)


class SlowToTell(Webhook):
    """Waits long for its destination."""

    def verify(self) -> Verified:
        found = super().verify()
        time.sleep(0 if found.presence is Presence.OK else 1.2 + 2 * self.request_ms / 1000)
        return found


class RaisesInVerify(Webhook):
    """Lets exceptions out."""

    def verify(self) -> Verified:
        found = super().verify()
        if found.presence is Presence.UNSURE:
            raise PermissionError(found.reason)
        return found


class SaysYes(Webhook):
    """Answers with a bool."""

    def verify(self) -> Any:
        return super().verify().presence is Presence.OK


class SaysNothing(Webhook):
    """Returns None."""

    def publish(self, entries: Sequence[Any]) -> Any:
        super().publish(entries)


WRONG: list[tuple[type[Webhook], str]] = [
    (NoLimits, "facts_are_stated"),
    (NoSenseInLimits, "facts_are_stated"),
    (NoTime, "facts_are_stated"),
    (ANameOfItsOwn, "facts_are_stated"),
    (CountsCharacters, "size_is_exact"),
    (OneByteTooMany, "size_limit_is_exact"),
    (OneByteTooFew, "size_limit_is_exact"),
    (CountsInBlocks, "size_limit_is_exact"),
    (RefusesTheLargest, "size_limit_is_exact"),
    (RaisesInPrepare, "prepare_never_raises"),
    (HoldsForOneEvent, "prepare_never_raises"),
    (NeverTooLarge, "prepare_never_raises"),
    (CountsUp, "prepare_repeats_itself"),
    (SendsBackwards, "a_full_request_is_accepted"),
    (SendsTwice, "a_full_request_is_accepted"),
    (NeverSends, "a_full_request_is_accepted"),
    (SendsOne, "a_full_request_is_accepted"),
    (SaysNothing, "a_full_request_is_accepted"),
    (TwoHundredIsFine, "refused_entries_are_told_apart"),
    (ByPosition, "refused_entries_are_told_apart"),
    (AllIsContent, "failed_requests_have_their_class"),
    (NeverThrottled, "failed_requests_have_their_class"),
    (RaisesInPublish, "failed_requests_have_their_class"),
    (Optimist, "a_broken_answer_accepts_nothing"),
    (TwoHundredIsFine, "a_broken_answer_accepts_nothing"),
    (Patient, "requests_end_in_time"),
    (TimeOutIsTransient, "requests_end_in_time"),
    (NeverEnds, "requests_end_in_time"),
    (OneForAll, "threads_do_not_meet"),
    (BreaksInThreads, "threads_do_not_meet"),
    (AlwaysThere, "verify_is_honest"),
    (UnsureIsMissing, "verify_is_honest"),
    (TakesSilenceForAnAnswer, "verify_is_honest"),
    (BelievesWhatItCannotRead, "verify_is_honest"),
    (AsksForEver, "verify_is_honest"),
    (NoReason, "verify_is_honest"),
    (SlowToTell, "verify_is_honest"),
    (RaisesInVerify, "verify_is_honest"),
    (SaysYes, "verify_is_honest"),
]
