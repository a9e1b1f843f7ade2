"""Invocations that come to the same, one after the other: a story tells the first and the last of them, and counts.

What is stuck is delivered again for a quarter of an hour, and nobody reads the same three lines a hundred times.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Delivered
from dynamodb_outbox.testing.simulation.facts import Fact, Invoked, Said, named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from dynamodb_outbox.testing.simulation.history import History

__all__ = ["Repeated", "invocation_of", "without_repeats"]

_FEWEST = 2
"""Invocations that are counted instead of told: one line in the place of one is no gain."""


@dataclass(frozen=True)
class Repeated(Fact):
    """So many invocations of a destination, from `first` to `last`, ended as the one before them did."""

    destination: str
    count: int
    first: int
    last: int

    @property
    def words(self) -> str:
        """What people call them."""
        which = "invocations" if self.first > 0 else "deliveries"
        return f"{self.count:,} more {which} ({abs(self.first)} to {abs(self.last)}) ended the same way"


def invocation_of(fact: Fact) -> int:
    """Return the invocation that a fact is part of; 0: none."""
    return int(getattr(fact, "invocation", 0))


def without_repeats(
    of: History, facts: Sequence[Fact], words: Callable[[Fact], str], marks: Collection[int]
) -> list[Fact]:
    """Return facts with a `Repeated` for those of invocations that came to the same as the ones before and after them.

    `words` tells a fact, `marks` are the identities of facts that stay.
    """
    told: defaultdict[int, list[Fact]] = defaultdict(list)
    for fact in facts:
        if invocation_of(fact) in of.invoked or invocation_of(fact) in of.delivered:
            told[invocation_of(fact)].append(fact)
    marked = {number for number, its in told.items() if any(id(fact) in marks for fact in its)}
    left_out: set[int] = set()
    before: dict[int, Repeated] = {}
    for series in _series(of, told):
        for _, alike in groupby(series, key=lambda number: _outcome(told[number], number, words)):
            numbers = list(alike)
            more = [number for number in numbers[1:-1] if number not in marked]
            if len(more) >= _FEWEST:
                left_out.update(more)
                following = numbers[numbers.index(more[-1]) + 1]
                at_ms, destination = _begun(of, following)
                before[following] = Repeated(at_ms, destination, len(more), more[0], more[-1])
    kept: list[Fact] = []
    for fact in facts:
        number = invocation_of(fact)
        if number in before:
            kept.append(before.pop(number))
        if number not in left_out:
            kept.append(fact)
    return kept


def _series(of: History, told: Collection[int]) -> Iterator[list[int]]:
    """Yield the invocations of each lane, and the deliveries of the same messages, in order."""
    series: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number in sorted(told, key=abs):
        invoked = of.invoked.get(number)
        if invoked is None:
            series[of.delivered[number].messages].append(number)
        else:
            series[invoked.destination, invoked.shard, invoked.lane].append(number)
    yield from series.values()


def _begun(of: History, number: int) -> tuple[int, str]:
    """Return when an invocation began, and whose it is."""
    invoked = of.invoked.get(number)
    return (of.delivered[number].at_ms, CONSUMER) if invoked is None else (invoked.at_ms, invoked.destination)


def _outcome(facts: Sequence[Fact], number: int, words: Callable[[Fact], str]) -> tuple[str, ...]:
    """Say what an invocation came to; what it was handed, and what it had to say, may differ."""
    own = named(number)
    return tuple(words(fact).replace(own, "it") for fact in facts if not isinstance(fact, (Delivered, Invoked, Said)))
