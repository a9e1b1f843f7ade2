"""Checks of what a sink makes of the answers that it gets.

Accepted is what the relay would take for accepted: a result of None, in a list as long as the request.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, RequestFailed
from dynamodb_outbox.testing.sink_contract.samples import entries_of, event
from dynamodb_outbox.testing.sink_contract.stand_in import ContractBroken, Reply

if TYPE_CHECKING:
    from dynamodb_outbox.testing.sink_contract.stand_in import StandIn

__all__ = [
    "a_broken_answer_accepts_nothing",
    "a_full_request_is_accepted",
    "failed_requests_have_their_class",
    "refused_entries_are_told_apart",
    "requests_end_in_time",
    "threads_do_not_meet",
]

SLACK_MS = 1000
"""What a request may take beyond what is stated: signing, parsing, a busy machine."""
_LONGEST_MS = 30_000
_THREADS = 8
_ROUNDS = 3

_CLASSES = {
    Reply.DENIED: Kind.TARGET,
    Reply.TROUBLE: Kind.TRANSIENT,
    Reply.THROTTLED: Kind.TRANSIENT,
    Reply.RESET: Kind.UNKNOWN,
}


def a_full_request_is_accepted(stand_in: StandIn) -> None:
    """Check that as many entries as the limits allow go in one request, and arrive in the order given."""
    check, sink = "a_full_request_is_accepted", stand_in.sink()
    events = [event(number) for number in range(sink.limits.entries)]
    before = len(stand_in.accepted())
    stand_in.play(Reply.ACCEPT)
    outcome = _publish(sink, entries_of(sink, events, check), check)
    if outcome != Answered((None,) * len(events)):
        raise ContractBroken(check, f"{len(events)} entries were accepted, and the outcome is {outcome!r}")
    there = list(stand_in.accepted())[before:]
    if there != [one.id for one in events]:
        raise ContractBroken(check, f"sent {[one.id for one in events]}, and the service has {there}")


def refused_entries_are_told_apart(stand_in: StandIn) -> None:
    """Check that each result is that of the entry at its position, whichever entry is refused.

    The oldest mistake of such programs is to take a request for accepted of which some entries were not.
    """
    check, sink = "refused_entries_are_told_apart", stand_in.sink()
    events = [event(number) for number in range(min(sink.limits.entries, 10))]
    entries = entries_of(sink, events, check)
    every = range(len(events))
    for refused in ({position} for position in every):
        _compare(stand_in, sink, (check, events, entries, refused))
    _compare(stand_in, sink, (check, events, entries, set(every[::2])))


def _compare(stand_in: StandIn, sink: Any, case: tuple[str, list[Any], list[Any], set[int]]) -> None:
    check, events, entries, refused = case
    stand_in.play(Reply.REFUSE, frozenset(events[position].id for position in refused))
    outcome = _publish(sink, entries, check)
    if len(entries) == 1 and isinstance(outcome, RequestFailed):
        return  # a request of one entry may be refused as a whole
    accepted = _accepted(outcome, len(entries))
    if accepted != set(range(len(entries))) - refused:
        raise ContractBroken(check, f"entries {sorted(refused)} were refused, and {sorted(accepted)} taken as accepted")


def failed_requests_have_their_class(stand_in: StandIn) -> None:
    """Check that a request that fails as a whole accepts nothing, and says whose fault it is.

    Not allowed: target, or events would be parked that are in order. The service's own trouble: transient, and
    throttling says so. A connection that breaks after the request went out: unknown, for it may have been accepted.
    """
    check, sink = "failed_requests_have_their_class", stand_in.sink()
    entries = entries_of(sink, [event(1), event(2)] if sink.limits.entries > 1 else [event(1)], check)
    for reply, kind in _CLASSES.items():
        stand_in.play(reply)
        outcome = _publish(sink, entries, check)
        faults = [outcome.fault] if isinstance(outcome, RequestFailed) else list(outcome.results)
        if not faults or not all(isinstance(fault, Fault) and fault.kind is kind for fault in faults):
            raise ContractBroken(check, f"{reply.name} should be {kind.name}, and came out as {outcome!r}")
        if reply is Reply.THROTTLED and not all(fault is not None and fault.throttled for fault in faults):
            raise ContractBroken(check, f"THROTTLED does not say `throttled`: {outcome!r}")


def a_broken_answer_accepts_nothing(stand_in: StandIn) -> None:
    """Check that what an answer does not say was accepted is not.

    A body of another form accepts nothing, and one without an entry's result does not accept that entry.
    """
    check, sink = "a_broken_answer_accepts_nothing", stand_in.sink()
    events = [event(number) for number in range(min(sink.limits.entries, 3))]
    entries = entries_of(sink, events, check)
    stand_in.play(Reply.GARBLED)
    outcome = _publish(sink, entries, check)
    if _accepted(outcome, len(entries)):
        raise ContractBroken(check, f"GARBLED was taken as an acceptance: {outcome!r}")
    every = set(range(len(events)))
    for omitted in (*({position} for position in every), every):
        stand_in.play(Reply.OMIT, frozenset(events[position].id for position in omitted))
        outcome = _publish(sink, entries, check)
        if not _accepted(outcome, len(entries)).isdisjoint(omitted):
            raise ContractBroken(check, f"entries {sorted(omitted)} have no result, and one was taken as accepted")


def requests_end_in_time(stand_in: StandIn) -> None:
    """Check that a service that never answers costs no more than `request_ms`, and leaves its request unknown.

    The relay starts no request for which there is no time left; one that lasts longer than stated may outlive the
    function.
    """
    check, sink = "requests_end_in_time", stand_in.sink()
    if sink.request_ms > _LONGEST_MS:
        raise ContractBroken(check, f"request_ms is {sink.request_ms:,}: give the stand-in's sink shorter time-outs")
    entries = entries_of(sink, [event(1)], check)
    stand_in.play(Reply.SILENT)
    began = time.monotonic()
    outcome = _publish(sink, entries, check)
    took_ms = round(1000 * (time.monotonic() - began))
    if took_ms > sink.request_ms + SLACK_MS:
        raise ContractBroken(check, f"request_ms is {sink.request_ms:,}, and a request took {took_ms:,} ms")
    if not isinstance(outcome, RequestFailed) or outcome.fault.kind is not Kind.UNKNOWN:
        raise ContractBroken(
            check, f"a request without an answer came out as {outcome!r}, not as a fault that is unknown"
        )


def threads_do_not_meet(stand_in: StandIn) -> None:
    """Check that several threads can publish through one new sink at once, each told about its own entries."""
    check, sink = "threads_do_not_meet", stand_in.sink()
    stand_in.play(Reply.REFUSE, frozenset(event(number).id for number in range(0, 10_000, 3)))
    together = threading.Barrier(_THREADS)
    wrong: list[str] = []

    def work(first: int) -> None:
        together.wait()
        for begin in range(first, first + 10 * _ROUNDS, 10):
            numbers = range(begin, begin + min(sink.limits.entries, 10))
            try:
                outcome = sink.publish(entries_of(sink, [event(number) for number in numbers], check))
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is what was found
                wrong.append(f"{type(error).__name__}: {error}")
                return
            accepted = {numbers[position] for position in _accepted(outcome, len(numbers))}
            if accepted != {number for number in numbers if number % 3}:
                wrong.append(f"of the entries {list(numbers)} it took {sorted(accepted)} as accepted")

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise ContractBroken(check, wrong[0])


def _publish(sink: Any, entries: list[Any], check: str) -> Answered | RequestFailed:
    try:
        outcome = sink.publish(entries)
    except Exception as error:
        raise ContractBroken(check, f"publish raised {type(error).__name__}: {error}") from error
    if not isinstance(outcome, (Answered, RequestFailed)):
        raise ContractBroken(check, f"publish returned {outcome!r}; Answered or RequestFailed is needed")
    return outcome


def _accepted(outcome: Any, count: int) -> set[int]:
    """Return the positions that the relay would take as accepted."""
    if not isinstance(outcome, Answered) or len(outcome.results) != count:
        return set()
    return {position for position, result in enumerate(outcome.results) if result is None}
