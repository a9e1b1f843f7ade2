"""A run in words: one line a fact, with names that people can hold in their heads.

An event is called by its key and its place there (`A.3` is the third event of key A), a record by its events, a stream
record by what happened to which item. Facts that show a violation are marked. What concerns none of the events in
question can be left out, so that the timeline of a long run is about one thing; invocations that came to the same are
counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Carrying, Subscribed
from dynamodb_outbox.testing.simulation.consuming.words import CONSUMER_WORDS
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Checkpointed,
    Committed,
    Discarded,
    Ended,
    Faulted,
    Gap,
    Heard,
    Intended,
    Invoked,
    Leased,
    Left,
    Moved,
    Operated,
    Raised,
    Rejected,
    Said,
    Sent,
    Started,
    Swallowed,
    Swept,
    Told,
    Trimmed,
    Written,
    named,
)
from dynamodb_outbox.testing.simulation.history import history
from dynamodb_outbox.testing.simulation.repeats import Repeated, invocation_of, without_repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import Fact, RecordKey
    from dynamodb_outbox.testing.simulation.history import History, Terms

__all__ = ["WORDS", "timeline"]

_MARK = ">"
_LONGEST = 150  # characters of what is quoted from elsewhere


def timeline(
    facts: Sequence[Fact], terms: Terms, *, marked: Iterable[Fact] = (), most: int = 200, about_marked: bool = True
) -> str:
    """Return the run as text, a line a fact: virtual seconds, who, what.

    `marked` facts begin with `>`. Of a run of more than `most` lines those are shown that concern the events, records
    and invocations of the marked facts (unless `about_marked` is False), and then the last `most` up to the last mark;
    a line says what is left out.
    """
    of = history(facts, terms)
    marks = {id(fact) for fact in marked}
    facts = [fact for fact in facts if id(fact) in marks or not _goes_without_saying(fact)]

    def once(facts: Sequence[Fact]) -> list[Fact]:
        return without_repeats(of, facts, lambda fact: " ".join(WORDS[type(fact)](of, fact)), marks)

    shown = everything = once(facts)
    if about_marked and marks and len(shown) > most:
        focus = _Focus(of, [fact for fact in facts if id(fact) in marks])
        shown = once([fact for fact in facts if id(fact) in marks or focus.has(fact)])
    last = max((place for place, fact in enumerate(shown) if id(fact) in marks), default=len(shown) - 1)
    lines = [_line(of, fact, marked=id(fact) in marks) for fact in shown[max(0, last + 1 - most) : last + 1]]
    if left_out := max(0, len(everything) - len(lines)):
        lines.append(f"  ({left_out:,} more {'fact is' if left_out == 1 else 'facts are'} not shown)")
    return "\n".join(lines)


def _line(of: History, fact: Fact, *, marked: bool) -> str:
    if isinstance(fact, Repeated):
        return f"  {'...':>11}  {fact.destination:<22} {fact.words}"
    who, what = WORDS[type(fact)](of, fact)
    return f"{_MARK if marked else ' '} {fact.at_ms / 1000:>9.3f} s  {who:<22} {what}"


def _goes_without_saying(fact: Fact) -> bool:
    """Whether a fact is an intention, a request or a good answer, which other facts tell of."""
    return isinstance(fact, (Intended, Left, Sent, Subscribed)) or (isinstance(fact, Heard) and not fact.error)


# --- what concerns the marked facts -----------------------------------------------------------------------------------


class _Focus:
    """What a few facts are about: their records, where the stream has them, and the invocations that had them."""

    def __init__(self, of: History, about: Sequence[Fact]) -> None:
        self._of = of
        self._records = {record for fact in about for record in _records(of, fact)}
        places = [of.places[record] for record in self._records if record in of.places]
        self._shards, self._numbers = {shard for shard, _ in places}, {number for _, number in places}
        handed = {number for number, invoked in of.invoked.items() if self._numbers & set(invoked.numbers)}
        events = {one.event_id for record in self._records for one in of.records.get(record, ())}
        handed |= {number for number, fact in of.delivered.items() if not events.isdisjoint(fact.events)}
        self._invocations = (handed | {invocation_of(fact) for fact in about}) - {0}

    def has(self, fact: Fact) -> bool:
        """Whether a fact is about these records, or is what one of these invocations met and came to."""
        if isinstance(fact, Written):
            return fact.item in self._records
        if isinstance(fact, (Discarded, Trimmed)):
            return bool(self._numbers & set(fact.numbers))
        if isinstance(fact, Checkpointed):
            return fact.number in self._numbers
        if isinstance(fact, Gap):
            return fact.shard in self._shards
        if isinstance(fact, (Accepted, Carrying, Committed, Moved, Rejected, Swallowed)):
            return any(record in self._records for record in _records(self._of, fact))
        return invocation_of(fact) in self._invocations


def _records(of: History, fact: Fact) -> Iterator[RecordKey]:
    if isinstance(fact, Committed):
        yield from (record for record, _ in fact.records)
    elif isinstance(fact, (Accepted, Rejected, Swallowed)) and fact.event_id in of.born:
        yield of.born[fact.event_id].record
    elif isinstance(fact, Carrying):
        yield from (of.born[event].record for event in fact.events if event in of.born)
    elif isinstance(fact, Moved):
        yield fact.record


# --- a fact in words --------------------------------------------------------------------------------------------------


def _committed(of: History, fact: Committed) -> tuple[str, str]:
    carried = "; ".join(_record(of, record) for record, _ in fact.records)
    return f"writer {fact.writer}", f"{fact.change} is committed: {carried or 'no events'}"


def _intended(_: History, fact: Intended) -> tuple[str, str]:
    events = f"events of {', '.join(fact.keys)}" if fact.keys else "no events"
    items = ", ".join("/".join(item) for item in sorted(fact.items)) or "nothing"
    return f"writer {fact.writer}", f"means to commit {fact.change}: {events}; a change of {items}"


def _told(_: History, fact: Told) -> tuple[str, str]:
    what = {"died": "does not live to hear of"}.get(fact.outcome, f"is told {fact.outcome!r} about")
    return f"writer {fact.writer}", f"{what} {fact.change}"


def _written(of: History, fact: Written) -> tuple[str, str]:
    return f"stream {fact.shard}", f"no. {fact.number}: {fact.kind} of {_record(of, fact.item)}, by {fact.by}"


def _trimmed(_: History, fact: Trimmed) -> tuple[str, str]:
    return f"stream {fact.shard}", f"trims {_several(fact.numbers)}"


def _invoked(of: History, fact: Invoked) -> tuple[str, str]:
    carried = [_record(of, record) for record in of.records if record in fact.inserted]
    lane = f", lane {fact.lane}" if fact.lane else ""
    words = f"begins on {fact.instance} with {_several(fact.numbers)} of {fact.shard}{lane}"
    return _who(fact.destination, fact.invocation), words + (f": {'; '.join(carried)}" if carried else "")


def _swept(_: History, fact: Swept) -> tuple[str, str]:
    clock = f", its clock off by {fact.ahead_ms:,} ms" if fact.ahead_ms else ""
    return f"sweep {fact.invocation}", f"begins on {fact.instance}{clock}"


def _leased(of: History, fact: Leased) -> tuple[str, str]:
    until = "left" if fact.until_ms is None else f"taken until {fact.until_ms / 1000:.3f} s"
    return "table", f"has the lease of {fact.shard} {until}, by {_of_invocation(of, fact.invocation)}"


def _operated(_: History, fact: Operated) -> tuple[str, str]:
    return fact.process, fact.does


def _accepted(of: History, fact: Accepted) -> tuple[str, str]:
    return f"bus {fact.destination}", f"accepts {of.name(fact.event_id)} from invocation {fact.invocation}"


def _rejected(of: History, fact: Rejected) -> tuple[str, str]:
    words = f"refuses {of.name(fact.event_id)} from invocation {fact.invocation}: {fact.code}"
    return f"bus {fact.destination}", words


def _swallowed(of: History, fact: Swallowed) -> tuple[str, str]:
    what = of.name(fact.event_id)
    words = f"does not exist: answers 200 to invocation {fact.invocation}, and {what} is gone"
    return f"bus {fact.bus}", words


def _moved(of: History, fact: Moved) -> tuple[str, str]:
    part = "" if fact.events is None else f" (events {', '.join(sorted(fact.events))} of it)"
    by = f", by invocation {fact.invocation}" if fact.invocation else ""
    return "table", f"{_record(of, fact.record)} becomes {fact.state}{part}{by}"


def _answered(of: History, fact: Answered) -> tuple[str, str]:
    words = f"answers: failed from {_several(fact.failed)}" if fact.failed else f"answers {_short(fact.answer)}"
    return _of_invocation(of, fact.invocation), words


def _raised(of: History, fact: Raised) -> tuple[str, str]:
    return _of_invocation(of, fact.invocation), f"raises {_short(fact.error)}"


def _said(of: History, fact: Said) -> tuple[str, str]:
    who = _of_invocation(of, fact.invocation) if fact.invocation else f"writer {fact.owner}"
    return who, f"{fact.how} {_short(fact.text)}"


def _ended(of: History, fact: Ended) -> tuple[str, str]:
    how = {"crash": "its process dies", "timeout": "is ended at its time-out"}.get(fact.how, fact.how)
    return _of_invocation(of, fact.invocation), how + (f" of {_short(fact.error)}" if fact.error else "")


def _checkpointed(_: History, fact: Checkpointed) -> tuple[str, str]:
    return f"source of {fact.destination}", f"{fact.shard} is done up to no. {fact.number}"


def _started(_: History, fact: Started) -> tuple[str, str]:
    passed = ", ".join(f"{shard} up to no. {number}" for shard, number in fact.passed)
    return f"source of {fact.destination}", f"begins at LATEST, passing over {passed or 'nothing'}"


def _gap(_: History, fact: Gap) -> tuple[str, str]:
    after = "its start" if fact.after is None else f"no. {fact.after}"
    return f"source of {fact.destination}", f"{fact.shard} has a gap after {after}: what was trimmed was not read"


def _discarded(_: History, fact: Discarded) -> tuple[str, str]:
    return f"source of {fact.destination}", f"gives up {_several(fact.numbers)} of {fact.shard}: {fact.condition}"


def _left(_: History, fact: Left) -> tuple[str, str]:
    states = Counter(one.state for one in fact.records)
    return (
        "table",
        f"has records at the end: {', '.join(f'{n} {state}' for state, n in sorted(states.items())) or 'none'}",
    )


def _faulted(_: History, fact: Faulted) -> tuple[str, str]:
    meets = f", met by {named(fact.invocation)}" if fact.invocation else ""
    return "FAULT", f"{fact.kind} at {fact.where}{meets}"


def _sent(_: History, fact: Sent) -> tuple[str, str]:
    return fact.process, f"sends {fact.operation} to {fact.where}"


def _heard(of: History, fact: Heard) -> tuple[str, str]:
    who = _of_invocation(of, fact.invocation)
    if not fact.invocation:
        process = of.senders.get(fact.call, "")
        who = f"writer {process.rpartition('.')[0]}" if process else "a writer"
    what = f"meets {fact.error} in" if fact.error else "gets the answer to"
    return who, f"{what} its {fact.operation} to {fact.where}"


WORDS: dict[type, Callable[..., tuple[str, str]]] = {
    **CONSUMER_WORDS,
    Accepted: _accepted,
    Answered: _answered,
    Checkpointed: _checkpointed,
    Committed: _committed,
    Discarded: _discarded,
    Ended: _ended,
    Faulted: _faulted,
    Gap: _gap,
    Heard: _heard,
    Intended: _intended,
    Invoked: _invoked,
    Leased: _leased,
    Left: _left,
    Moved: _moved,
    Operated: _operated,
    Raised: _raised,
    Rejected: _rejected,
    Said: _said,
    Sent: _sent,
    Started: _started,
    Swallowed: _swallowed,
    Swept: _swept,
    Told: _told,
    Trimmed: _trimmed,
    Written: _written,
}


def _who(destination: str, invocation: int) -> str:
    return f"{destination} {named(invocation)}"


def _of_invocation(of: History, number: int) -> str:
    if number in of.sweeps:
        return f"sweep {number}"
    if number in of.operated_in:
        return of.operated_in[number].process
    invoked = of.invoked.get(number)
    whose = CONSUMER if number in of.delivered else "" if invoked is None else invoked.destination
    return _who(whose, number).strip()


def _record(of: History, record: RecordKey) -> str:
    events = of.records.get(record)
    return f"record {'+'.join(one.name for one in events)}" if events else f"item {'/'.join(record)}"


def _several(numbers: Sequence[str]) -> str:
    if not numbers:
        return "nothing"
    return f"no. {numbers[0]}" if len(numbers) == 1 else f"no. {numbers[0]} to {numbers[-1]} ({len(numbers)} records)"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
