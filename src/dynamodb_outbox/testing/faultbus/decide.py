"""The decisions of the bus: pure, without clock, chance or I/O.

Chance is a hash. Whether a rule hits is `hash(seed, rule, what it is about, the attempt number)`, compared with the
rule's fraction. "What it is about" is something that stays the same when a client tries again: the identity of an
entry, and for a whole request the identity of its first entry. So the outcome of an entry's third attempt does not
depend on what else was in the batch, on threads or on the speed of the machine. Only `Hold` counts requests across
the bus, and `Outage` looks at the time that the caller passes in.

A decision falls in two steps, because a rule may speak of acceptance: `publish` before anything is handed upstream,
`accepted` after the upstream has said which entries it took.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.testing.faultbus.destinations import is_meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.testing.faultbus.plan import FaultPlan
    from dynamodb_outbox.testing.faultbus.rules import (
        Delay,
        Hold,
        OutageMode,
        Rejection,
        RequestError,
        Reset,
        Somewhere,
    )

__all__ = ["Content", "Decider", "Decision", "Drop", "Fate", "Proceed", "Refuse", "RequestFails", "chance"]

AfterAcceptance = Literal["answer", "hold", "reset"]
PassThrough = Literal["forward", "lose_before", "lose_after"]


@dataclass(frozen=True)
class Content:
    """What the decisions need to know of an entry: an `identity` stable across attempts, its text, where it goes."""

    identity: str
    detail: str
    destination: str = ""


@dataclass(frozen=True)
class Fate:
    """What happens to one entry: refused with `code` (for ever, if `permanent`), or taken, `copies` times.

    `missing`: neither, because its destination is not there.
    """

    code: str | None = None
    permanent: bool = False
    sender_fault: bool = False
    copies: int = 1
    missing: bool = False


@dataclass(frozen=True)
class Refuse:
    """The bus is out; the client sees `mode`."""

    mode: OutageMode


@dataclass(frozen=True)
class RequestFails:
    """The whole request is answered with this error."""

    status: int
    code: str


@dataclass(frozen=True)
class Drop:
    """The connection is reset and nothing is accepted."""


@dataclass(frozen=True)
class Proceed:
    """The request is served after `delay_ms`; `fates` are index-aligned with its entries."""

    delay_ms: int
    fates: tuple[Fate, ...]


Decision = Refuse | RequestFails | Drop | Proceed


def chance(seed: int, *parts: object) -> float:
    """Return a number from 0 (included) to 1 (excluded) that depends on the arguments alone."""
    text = "\x1f".join(str(part) for part in (seed, *parts))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


class Decider:
    """A plan in progress: the plan, and how often each thing has been tried. Not thread-safe: lock around it.

    It remembers a few numbers for every entry it has seen, for as long as it lives.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._streaks: Counter[tuple[str, str]] = Counter()
        self._held: Counter[int] = Counter()
        self._lost: Counter[tuple[int, str]] = Counter()
        self._keys = [re.compile(rule.key) for rule in plan.lost]
        self._began_ms: int | None = None
        self._switched: dict[str, OutageMode] = {}
        self.armed = 0

    def begin_outage(self, mode: OutageMode, destination: str) -> None:
        """Begin an outage by hand, of one destination or of all ("")."""
        self._switched[destination] = mode

    def end_outages(self) -> None:
        """End what was begun by hand. The plan's own outages hold either way."""
        self._switched.clear()

    def arm(self, count: int) -> None:
        """Hold the next `count` requests that are accepted, beyond what the plan holds."""
        self.armed += count

    def outage(self, now_ms: int, told: Sequence[str] | None = None) -> OutageMode | None:
        """Return how the bus is out at `now_ms` (any clock that does not go back), None when it serves.

        It is out when one of the destinations `told` is; None asks about all.
        """
        for wanted, mode in self._outages(now_ms):
            if told is None or any(is_meant(wanted, one) for one in told):
                return mode
        return None

    def is_missing(self, destination: str) -> bool:
        """Whether the plan says that there is no such destination."""
        return any(is_meant(rule.destination, destination) for rule in self._plan.missing)

    def publish(self, entries: Sequence[Content], now_ms: int) -> Decision:
        """Decide about a publish request of at least one entry."""
        if self._began_ms is None:
            self._began_ms = now_ms
        mode = self.outage(now_ms, [entry.destination for entry in entries])
        if mode is not None:
            return Refuse(mode)
        for index, error in enumerate(self._plan.errors):
            if self._request_hit(f"error{index}", error, entries):
                return RequestFails(error.status, error.code)
        for index, reset in enumerate(self._plan.resets):
            if reset.when == "before" and self._request_hit(f"reset{index}", reset, entries):
                return Drop()
        return Proceed(self._delay(entries), tuple(self._fate(entry) for entry in entries))

    def accepted(self, entries: Sequence[Content]) -> AfterAcceptance:
        """Decide about the answer to a request of which `entries`, at least one, were accepted."""
        if self._holds(entries):
            return "hold"
        for index, reset in enumerate(self._plan.resets):
            if reset.when == "after" and self._request_hit(f"reset{index}", reset, entries):
                return "reset"
        return "answer"

    def pass_through(self, operation: str, body: str) -> PassThrough:
        """Decide about a call of another service."""
        for index, rule in enumerate(self._plan.lost):
            if rule.operation != operation or rule.contains not in body:
                continue
            found = self._keys[index].search(body)
            if found is None:
                continue
            key = found.group(1 if found.re.groups else 0) or ""
            place = (index, key)
            if self._lost[place] < rule.first and chance(self._plan.seed, f"lost{index}", key) < rule.fraction:
                self._lost[place] += 1
                return "lose_before" if rule.when == "before" else "lose_after"
        return "forward"

    def _outages(self, now_ms: int) -> Iterator[tuple[str, OutageMode]]:
        yield from self._switched.items()
        if self._began_ms is not None:
            since = now_ms - self._began_ms
            for out in self._plan.outages:
                if out.start_ms <= since < out.end_ms:
                    yield out.destination, out.mode

    def _fate(self, entry: Content) -> Fate:
        if self.is_missing(entry.destination):
            return Fate(missing=True)
        for never in self._plan.unacceptable:
            if _speaks_of(never, never.contains, entry):
                return Fate(never.code, permanent=True, sender_fault=never.sender_fault)
        for index, rule in enumerate(self._plan.rejections):
            tag = f"rejection{index}"
            if _speaks_of(rule, rule.contains, entry) and self._hit(tag, entry.identity, rule):
                pick = chance(self._plan.seed, tag, "code", entry.identity, self._attempts[tag, entry.identity])
                return Fate(rule.codes[int(pick * len(rule.codes))], sender_fault=rule.sender_fault)
        twice = any(
            _speaks_of(rule, rule.contains, entry) and self._drawn(f"duplicate{index}", entry.identity) < rule.fraction
            for index, rule in enumerate(self._plan.duplicates)
        )
        return Fate(copies=2 if twice else 1)

    def _delay(self, entries: Sequence[Content]) -> int:
        key = entries[0].identity
        for index, rule in enumerate(self._plan.delays):
            if _mentions(entries, rule) and self._drawn(f"delay{index}", key) < rule.fraction:
                pick = chance(self._plan.seed, f"delay{index}", "ms", key, self._attempts[f"delay{index}", key])
                return rule.min_ms + int(pick * (rule.max_ms - rule.min_ms + 1))
        return 0

    def _holds(self, entries: Sequence[Content]) -> bool:
        hit = False
        for index, rule in enumerate(self._plan.holds):
            if _mentions(entries, rule):
                self._held[index] += 1
                hit = hit or rule.nth <= self._held[index] < rule.nth + rule.count
        if not hit and self.armed:
            self.armed -= 1
            return True
        return hit

    def _request_hit(self, tag: str, rule: RequestError | Reset, entries: Sequence[Content]) -> bool:
        return _mentions(entries, rule) and self._hit(tag, entries[0].identity, rule)

    def _hit(self, tag: str, key: str, rule: Rejection | RequestError | Reset) -> bool:
        drawn = self._drawn(tag, key)
        streak = self._streaks[tag, key]
        if drawn >= rule.fraction or (rule.max_consecutive is not None and streak >= rule.max_consecutive):
            self._streaks.pop((tag, key), None)
            return False
        self._streaks[tag, key] = streak + 1
        return True

    def _drawn(self, tag: str, key: str) -> float:
        self._attempts[tag, key] += 1
        return chance(self._plan.seed, tag, key, self._attempts[tag, key])


def _mentions(entries: Sequence[Content], rule: RequestError | Reset | Delay | Hold) -> bool:
    return any(_speaks_of(rule, rule.contains, entry) for entry in entries)


def _speaks_of(rule: Somewhere, contains: str, entry: Content) -> bool:
    return contains in entry.detail and is_meant(rule.destination, entry.destination)
