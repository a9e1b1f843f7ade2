"""What the writers of chaos are to commit, from a seed: a writer that starts again goes on with the same commands.

A command adds a line to an order and emits one or two events. Orders are of two kinds. An `own` one is changed by one
writer, which waits for each commit before the next: the order of its events is that of the commands. A shared one is
changed by all of them, under its version: the order of its events is that of the versions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["META", "POISON", "Command", "commands", "line"]

META = "META"
POISON = "no bus can ever take this"
"""The text of the events that are to be parked."""

_OWN, _SHARED = 8, 12
"""Orders of each writer, and of all."""


@dataclass(frozen=True)
class Command:
    """The command `name` to change the order `key`, emitting so many `events`, the first of which may be `poison`."""

    name: str
    key: str
    shared: bool
    events: int
    poison: bool


def commands(seed: int, writer: int, events: int) -> list[Command]:
    """Return what a writer commits, so many events in all, in this order."""
    chance = random.Random(f"{seed}/{writer}")  # noqa: S311 -- to be repeated, not to be secret
    found: list[Command] = []
    left = events
    while left:
        emits = min(left, 2 if chance.random() < 0.2 else 1)
        shared = chance.random() < 0.4
        key = f"SHARED#{chance.randrange(_SHARED)}" if shared else f"OWN#{writer}#{chance.randrange(_OWN)}"
        found.append(Command(f"{writer}-{len(found):05d}", key, shared, emits, chance.random() < 0.01))
        left -= emits
    return found


def line(command: str) -> str:
    """Return the sort key of the line that a command adds."""
    return f"LINE#{command}"
