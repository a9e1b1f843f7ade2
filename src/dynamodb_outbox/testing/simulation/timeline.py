"""A run in words: one line a fact, with names that people can hold in their heads.

An event is called by its key and its place there (`A.3` is the third event of key A), a record by its events, a stream
record by what happened to which item. Facts that show a violation are marked. What concerns none of the events in
question can be left out, so that the timeline of a long run is about one thing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    Moved,
    Raised,
    Rejected,
    Sent,
    Started,
    Told,
    Trimmed,
    Vanished,
    Written,
)
from dynamodb_outbox.testing.simulation.history import history

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
    shown = list(facts)
    if about_marked and marks and len(shown) > most:
        focus = _Focus(of, [fact for fact in facts if id(fact) in marks])
        shown = [fact for fact in facts if id(fact) in marks or focus.has(fact)]
    last = max((place for place, fact in enumerate(shown) if id(fact) in marks), default=len(shown) - 1)
    shown = shown[max(0, last + 1 - most) : last + 1]
    lines = [_line(of, fact, marked=id(fact) in marks) for fact in shown]
    left_out = len(facts) - len(lines)
    return "\n".join([*lines, *([f"  ({left_out} more facts are not shown)"] if left_out else [])])


def _line(of: History, fact: Fact, *, marked: bool) -> str:
    who, what = WORDS[type(fact)](of, fact)
    return f"{_MARK if marked else ' '} {fact.at_ms / 1000:>9.3f} s  {who:<22} {what}"


def _goes_without_saying(fact: Fact) -> bool:
    """Whether a fact is an intention, a request or a good answer, which other facts tell of."""
    return isinstance(fact, (Intended, Sent)) or (isinstance(fact, Heard) and not fact.error)


# --- what concerns the marked facts -----------------------------------------------------------------------------------


class _Focus:
    """What a few facts are about: their records, where the stream has them, and the invocations that had them."""

    def __init__(self, of: History, about: Sequence[Fact]) -> None:
        self._of = of
        self._records = {record for fact in about for record in _records(of, fact)}
        places = [of.places[record] for record in self._records if record in of.places]
        self._shards, self._numbers = {shard for shard, _ in places}, {number for _, number in places}
        handed = {number for number, invoked in of.invoked.items() if self._numbers & set(invoked.numbers)}
        self._invocations = (handed | {_invocation(fact) for fact in about}) - {0}

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
        if isinstance(fact, (Accepted, Committed, Moved, Rejected, Vanished)):
            return any(record in self._records for record in _records(self._of, fact))
        return _invocation(fact) in self._invocations


def _invocation(fact: Fact) -> int:
    return int(getattr(fact, "invocation", 0))


def _records(of: History, fact: Fact) -> Iterator[RecordKey]:
    if isinstance(fact, Committed):
        yield from (record for record, _ in fact.records)
    elif isinstance(fact, (Accepted, Rejected, Vanished)) and fact.event_id in of.born:
        yield of.born[fact.event_id].record
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
    return f"stream {fact.shard}", f"{fact.number}: {fact.kind} of {_record(of, fact.item)}, by {fact.by}"


def _trimmed(_: History, fact: Trimmed) -> tuple[str, str]:
    return f"stream {fact.shard}", f"trims {_several(fact.numbers)}"


def _invoked(of: History, fact: Invoked) -> tuple[str, str]:
    carried = [_record(of, record) for record in of.records if record in fact.inserted]
    lane = f", lane {fact.lane}" if fact.lane else ""
    words = f"begins on {fact.instance} with {_several(fact.numbers)} of {fact.shard}{lane}"
    return _who(fact.destination, fact.invocation), words + (f": {'; '.join(carried)}" if carried else "")


def _accepted(of: History, fact: Accepted) -> tuple[str, str]:
    return f"bus {fact.destination}", f"accepts {of.name(fact.event_id)} from invocation {fact.invocation}"


def _vanished(of: History, fact: Vanished) -> tuple[str, str]:
    words = f"is gone, and says that it accepts {of.name(fact.event_id)} from invocation {fact.invocation}"
    return f"bus {fact.destination}", words


def _rejected(of: History, fact: Rejected) -> tuple[str, str]:
    words = f"refuses {of.name(fact.event_id)} from invocation {fact.invocation}: {fact.code}"
    return f"bus {fact.destination}", words


def _moved(of: History, fact: Moved) -> tuple[str, str]:
    part = "" if fact.events is None else f" (events {', '.join(sorted(fact.events))} of it)"
    by = f", by invocation {fact.invocation}" if fact.invocation else ""
    return "table", f"{_record(of, fact.record)} becomes {fact.state}{part}{by}"


def _answered(of: History, fact: Answered) -> tuple[str, str]:
    words = f"answers: failed from {_several(fact.failed)}" if fact.failed else f"answers {_short(fact.answer)}"
    return _of_invocation(of, fact.invocation), words


def _raised(of: History, fact: Raised) -> tuple[str, str]:
    return _of_invocation(of, fact.invocation), f"raises {_short(fact.error)}"


def _ended(of: History, fact: Ended) -> tuple[str, str]:
    how = {"crash": "its process dies", "timeout": "is ended at its time-out"}.get(fact.how, fact.how)
    return _of_invocation(of, fact.invocation), how


def _checkpointed(_: History, fact: Checkpointed) -> tuple[str, str]:
    return f"source of {fact.destination}", f"{fact.shard} is done up to {fact.number}"


def _started(_: History, fact: Started) -> tuple[str, str]:
    passed = ", ".join(f"{shard} up to {number}" for shard, number in fact.passed)
    return f"source of {fact.destination}", f"begins at LATEST, passing over {passed or 'nothing'}"


def _gap(_: History, fact: Gap) -> tuple[str, str]:
    after = "its start" if fact.after is None else fact.after
    return f"source of {fact.destination}", f"{fact.shard} has a gap after {after}: what was trimmed was not read"


def _discarded(_: History, fact: Discarded) -> tuple[str, str]:
    return f"source of {fact.destination}", f"gives up {_several(fact.numbers)} of {fact.shard}: {fact.condition}"


def _faulted(_: History, fact: Faulted) -> tuple[str, str]:
    meets = f", met by invocation {fact.invocation}" if fact.invocation else ""
    return "FAULT", f"{fact.kind} at {fact.where}{meets}"


def _sent(_: History, fact: Sent) -> tuple[str, str]:
    return fact.process, f"sends {fact.operation} to {fact.where}"


def _heard(of: History, fact: Heard) -> tuple[str, str]:
    who = _of_invocation(of, fact.invocation) if fact.invocation else "somebody"
    what = f"meets {fact.error} in" if fact.error else "gets the answer to"
    return who, f"{what} its {fact.operation} to {fact.where}"


WORDS: dict[type, Callable[..., tuple[str, str]]] = {
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
    Moved: _moved,
    Raised: _raised,
    Rejected: _rejected,
    Sent: _sent,
    Started: _started,
    Told: _told,
    Trimmed: _trimmed,
    Vanished: _vanished,
    Written: _written,
}


def _who(destination: str, invocation: int) -> str:
    return f"{destination} invocation {invocation}"


def _of_invocation(of: History, number: int) -> str:
    invoked = of.invoked.get(number)
    return _who("" if invoked is None else invoked.destination, number).strip()


def _record(of: History, record: RecordKey) -> str:
    events = of.records.get(record)
    return f"record {'+'.join(one.name for one in events)}" if events else f"item {'/'.join(record)}"


def _several(numbers: Sequence[str]) -> str:
    if not numbers:
        return "nothing"
    return numbers[0] if len(numbers) == 1 else f"{len(numbers)} records {numbers[0]}…{numbers[-1]}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
