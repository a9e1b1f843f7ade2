"""Which promises hold for what was found: those of the set-up, lowered by what is wrong with it.

`guarantees` says what a set-up promises when all of it is there and runs. Each check says what it takes from that while
something is found: promises, or ways on which events go. P2 stands on two ways, the stream and the sweeper: with one
of them closed it is limited to what the other one has, with both there is nothing left of it. What is given up (the
third way) counts where nothing is swept. A check that could not be made is named at the promises that it may take from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.inventory import Unseen, seen, segments
from dynamodb_outbox.promises import Standing, guarantees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dynamodb_outbox.doctor.checks import Check, Finding, Unjudged, Way
    from dynamodb_outbox.doctor.system import Function, System
    from dynamodb_outbox.promises import Guarantee

__all__ = ["Promised", "promises_of"]

_ORDER = tuple(Standing)


@dataclass(frozen=True)
class Promised:
    """A promise, and how far it holds here. `because` of these checks it holds less far than the set-up's own.

    `unseen` are checks that could not be made, and may take from it.
    """

    promise: str
    standing: Standing
    why: str
    because: tuple[str, ...]
    unseen: tuple[str, ...]


def promises_of(
    system: System, checks: Iterable[Check], findings: tuple[Finding, ...], unjudged: tuple[Unjudged, ...]
) -> tuple[Promised, ...]:
    """Return the promises, empty without a relay. Raises NotSeen where the set-up is not known."""
    found = _Found(system, {each.id: each for each in checks}, findings, unjudged)
    return tuple(found.lowered(each) for each in found.of_set_up())


class _Found:
    """What was found, and what it takes from the promises."""

    def __init__(
        self,
        system: System,
        checks: Mapping[str, Check],
        findings: tuple[Finding, ...],
        unjudged: tuple[Unjudged, ...],
    ) -> None:
        self._system = system
        self._checks = checks
        self._findings = findings
        self._unjudged = unjudged
        self._closed: frozenset[Way] = frozenset(way for each in findings for way in each.closes)
        by_hand = system.table if isinstance(system.table, Unseen) else system.table.by_hand
        self._by_hand = not isinstance(by_hand, Unseen) and by_hand > 0
        sweepers = () if isinstance(system.sweepers, Unseen) else system.sweepers
        self._sweeper = bool(sweepers) and "sweep" not in self._closed

    def of_set_up(self) -> tuple[Guarantee, ...]:
        """Return what the set-up promises: of several relays and sinks the least, for each promise."""
        promised = [each for relay in self._system.relays for each in self._of_relay(relay)]
        return tuple(
            max(of_all, key=lambda each: _ORDER.index(each.standing)) for of_all in zip(*promised, strict=True)
        )

    def _of_relay(self, relay: Function) -> Iterator[tuple[Guarantee, ...]]:
        settings, arns = relay.settings, set(seen(relay.settings.sinks).values())
        mappings = [each for each in seen(self._system.mappings) if each.function == relay.name]
        failures = [seen(each.on_failure) for each in mappings]
        stored = bool(failures) and all(arn is not None and segments(arn)[2:3] == ["s3"] for arn in failures)
        for kind in dict.fromkeys(each.kind for each in seen(self._system.targets) if each.arn in arns):
            yield guarantees(
                seen(settings.layout),
                ordering=seen(settings.ordering),
                on_poison=seen(settings.on_poison),
                parallelization=max((seen(each.parallelization) for each in mappings), default=1),
                sink=kind,
                sweeper=self._sweeper,
                hand_written=self._by_hand,
                keeps_records=stored and "failure" not in self._closed,
            )

    def lowered(self, plain: Guarantee) -> Promised:
        """Return a promise as far as what was found leaves it."""
        takers = [
            (each, standing)
            for each in self._findings
            if (standing := self._left(plain.promise, self._checks[each.id], each.closes)) is not None
        ]
        said = [f"{each.id}: {each.subject}: {each.evidence}." for each, _ in takers]
        return Promised(
            plain.promise,
            max((plain.standing, *(standing for _, standing in takers)), key=_ORDER.index),
            " ".join([*said, plain.why]),
            tuple(dict.fromkeys(each.id for each, _ in takers)),
            tuple(dict.fromkeys(each.id for each in self._unjudged if self._may_take(plain.promise, each))),
        )

    def _may_take(self, promise: str, hidden: Unjudged) -> bool:
        return self._left(promise, self._checks[hidden.id], hidden.closes) is not None

    def _left(self, promise: str, check: Check, closes: tuple[Way, ...]) -> Standing | None:
        """Return how far a promise holds at most while a check finds something; None where that takes nothing."""
        if promise in check.breaks:
            return Standing.NOT_PROMISED
        if promise == "P2" and ({"stream", "sweep"} & {*closes} or (closes and not self._is_swept)):
            nothing_left = "stream" in self._closed and not self._is_swept
            return Standing.NOT_PROMISED if nothing_left else Standing.LIMITED
        return Standing.LIMITED if promise in check.limits else None

    @property
    def _is_swept(self) -> bool:
        """Whether what the stream misses is found by the sweeper."""
        layouts = [seen(each.settings.layout) for each in self._system.relays]
        return self._sweeper and not self._by_hand and all(each.settle != "none" for each in layouts)
