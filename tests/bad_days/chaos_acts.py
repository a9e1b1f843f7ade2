"""What is done to the processes of chaos, and when: all of it from a seed.

An act is due when a share of the commands has been begun, and those that come first are done first. Where it strikes is
a `Point`: a request of the process, before it reaches the table or the bus or after it was carried out and before its
answer; the writing of a checkpoint; or some moment.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

__all__ = ["CHECKPOINT_POINT", "KILLING", "POINTS", "Act", "Kind", "Point", "acts"]

Kind = Literal["kill", "kill alone", "kill the function", "kill all", "freeze", "replace", "forget", "latest", "outage"]

KILLING = ("kill", "kill alone", "kill the function", "kill all", "replace", "forget", "latest")
"""The acts that end a process by SIGKILL."""

CHECKPOINT_POINT = "checkpoint"


@dataclass(frozen=True)
class Point:
    """Where a process is caught; `what` empty is anywhere. What is caught goes on afterwards, or is dropped."""

    what: str = ""
    after: bool = False
    on: bool = False

    def __str__(self) -> str:
        if not self.what or self.what == CHECKPOINT_POINT:
            return self.what or "some moment"
        return f"{self.what}, {'answer' if self.after else 'request, delivered late' if self.on else 'request, lost'}"


@dataclass(frozen=True)
class Act:
    """One act, on the process `whom`, which rests for `rest_s` (frozen, or down)."""

    kind: Kind
    whom: str
    point: Point
    rest_s: float


POINTS = {
    "writer": ("TransactWriteItems", "TransactWriteItems", "TransactWriteItems", ""),
    "relay": ("PutEvents", "PutEvents", "BatchExecuteStatement", "BatchExecuteStatement", CHECKPOINT_POINT, ""),
    "sweeper": ("PutEvents", "PutEvents", "BatchExecuteStatement", "PutItem", "Query", ""),
}
"""The requests at which a process is caught, by its kind: commits; publishing and settling; leases and reading."""

_LONG = 40
_BEYOND_A_LEASE_S = 75.0

_ON_RELAY: tuple[Kind, ...] = (
    *("kill", "kill", "kill", "kill alone", "kill alone", "kill the function", "kill the function"),
    *("freeze", "freeze", "forget", "latest"),
)
_ON_WRITER: tuple[Kind, ...] = ("kill", "kill", "kill", "freeze", "replace")
_ON_SWEEPER: tuple[Kind, ...] = ("kill", "kill", "kill", "freeze")


def acts(seed: int, count: int, *, writers: int, sweepers: int) -> list[Act]:
    """Return so many acts: in turns on a relay, a writer and a sweeper, each kind of them as often as the others.

    In the middle the bus is out, and everything is killed at once. On a long day a sweeper is frozen for longer than
    its lease lasts.
    """
    chance = random.Random(f"acts/{seed}")  # noqa: S311 -- to be repeated, not to be secret
    decks: dict[str, list[Kind]] = {"relay": [], "writer": [], "sweeper": []}
    kinds = {"relay": _ON_RELAY, "writer": _ON_WRITER, "sweeper": _ON_SWEEPER}
    found: list[Act] = []
    for number in range(count):
        role = ("relay", "writer", "relay", "sweeper")[number % 4]
        if not decks[role]:
            decks[role] = chance.sample(kinds[role], len(kinds[role]))
        kind = decks[role].pop()
        whom = {"relay": "relay", "writer": f"writer {chance.randrange(writers)}"}.get(role)
        point = Point(chance.choice(POINTS[role]), chance.random() < 0.5, chance.random() < 0.5)
        rest_s = chance.uniform(0.3, 2.0)
        found.append(Act(kind, whom or f"sweeper {chance.randrange(sweepers)}", point, rest_s))
    found[count // 3 : count // 3] = [Act("outage", "bus", Point(), 2.0)]
    found[count // 2 : count // 2] = [Act("kill all", "all", Point(), 0.3)]
    if count >= _LONG:
        at = count * 2 // 3
        found[at:at] = [Act("freeze", "sweeper 0", Point("PutEvents"), _BEYOND_A_LEASE_S)]
    return found
