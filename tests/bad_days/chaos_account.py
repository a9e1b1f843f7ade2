"""The account of a day of chaos: from what is left to the figures, and to what was broken. Pure.

What was committed is read from the table: each command has left a line in its order, which names its events, and its
guard does so too. A writer that was killed has nothing to say about it; what others were told has to agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from days import first_places, overtaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos_orders import Command

__all__ = ["Evidence", "Figures", "Gap", "Line", "Stored", "account"]


class Gap(NamedTuple):
    """Records of a shard that the relay may have missed: after the number `after`, until `until`.

    Until the first that it was handed at `since_ms` (epoch milliseconds) or later, where `until` is None.
    """

    shard: str
    after: int
    until: int | None
    since_ms: int | None


class Line(NamedTuple):
    """What a command has left in its order: its events, and the version of the order that it found."""

    key: str
    after: int
    events: tuple[str, ...]


class Stored(NamedTuple):
    """A record as it is stored at the end."""

    events: tuple[str, ...]
    state: str


@dataclass(frozen=True)
class Evidence:
    """What is left of a day.

    commands    what was to be committed, in the order of each writer
    lines       by command; `guards` the same events, by the guards; `versions` those of shared orders
    receipts    what writers were told, by command: the events, each time
    accepted    the ids of events as the bus accepted them
    stored      the records; `pending` how many the index has, `parked` which commands' events it has parked
    strange     what else is in the table
    places      where each event's record stands in the stream: shard and number
    gaps        what the relay missed of it, with their ends; `died` who died by itself
    """

    commands: Sequence[Command]
    lines: Mapping[str, Line]
    guards: Mapping[str, tuple[str, ...]]
    versions: Mapping[str, int]
    receipts: Mapping[str, Sequence[tuple[str, ...]]]
    accepted: Sequence[str]
    stored: Sequence[Stored]
    pending: int
    strange: Sequence[str] = ()
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    gaps: Sequence[Gap] = ()
    died: Sequence[str] = ()


@dataclass(frozen=True)
class Figures:
    """What came of it. `broken` says what was promised and is not so.

    missed      events in parts of the stream that the relay may have lost; `overtaken` of them were accepted after a
                later one of their key, which is not promised
    """

    commands: int
    events: int
    accepted: int
    parked: int
    duplicates: int
    missed: int
    overtaken: int
    broken: tuple[str, ...]


def account(of: Evidence) -> Figures:
    """Draw up the account."""
    wanted = {event for line in of.lines.values() for event in line.events}
    parked = {event for one in of.stored if one.state == "parked" for event in one.events}
    accepted = set(of.accepted)
    places = of.places

    def excused(earlier: str, later: str) -> bool:
        """Whether the relay did not know of the earlier one: the stream had lost it, and the later one comes behind."""
        return any(_in(gap, places.get(earlier)) and not _in(gap, places.get(later)) for gap in of.gaps)

    first = first_places(of.accepted)
    turned = [pair for events in _in_order(of).values() for pair in overtaken(events, first)]
    broken = [
        *_named("never accepted, and not parked", wanted - accepted - parked),
        *_named("accepted, and not committed", accepted - wanted),
        *_named("reordered", [pair for pair in turned if not excused(*pair)]),
        *_named("parked, though the bus would have taken it", _parked_wrongly(of)),
        *_named("what is no record, line, guard or lease", of.strange),
        *_named("neither published nor parked", {one.state for one in of.stored} - {"published", "parked"}),
        *_named("died by itself", of.died),
        *_commits(of),
    ]
    if of.pending:
        broken.append(f"pending at the end: {of.pending}")
    return Figures(
        commands=len(of.lines),
        events=len(wanted),
        accepted=len(accepted),
        parked=len(parked - accepted),
        duplicates=len(of.accepted) - len(accepted),
        missed=sum(any(_in(gap, places.get(event)) for gap in of.gaps) for event in wanted),
        overtaken=len({earlier for earlier, later in turned if excused(earlier, later)}),
        broken=tuple(broken),
    )


def _in(gap: Gap, place: tuple[str, int] | None) -> bool:
    """Whether a place in the stream is in a gap."""
    return (
        place is not None
        and place[0] == gap.shard
        and gap.after < place[1]
        and (gap.until is None or place[1] <= gap.until)
    )


def _in_order(of: Evidence) -> dict[str, list[str]]:
    """Return the events of each order as they were committed: by version, or as its writer's commands were."""
    lines: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for command in of.commands:
        if command.name in of.lines:
            lines[command.key].append((of.lines[command.name].after, command.name))
    return {
        key: [event for _, name in sorted(found, key=lambda one: one[0]) for event in of.lines[name].events]
        for key, found in lines.items()
    }


def _commits(of: Evidence) -> Iterator[str]:
    """Say which commands were not committed exactly once, or of which writers were told something else."""
    yield from _named("not committed", {command.name for command in of.commands} - of.lines.keys())
    for name, line in of.lines.items():
        if of.guards.get(name) != line.events:
            yield f"{name}: its guard says {of.guards.get(name)}, its line {line.events}"
        if any(told != line.events for told in of.receipts.get(name, ())):
            yield f"{name}: its writer was told of {of.receipts[name]}, its line has {line.events}"
    shared = Counter(line.key for name, line in of.lines.items() if line.key in of.versions)
    for key, version in of.versions.items():
        if shared[key] != version:
            yield f"{key} has version {version}, and {shared[key]} lines"


def _parked_wrongly(of: Evidence) -> set[str]:
    poisoned = {of.lines[each.name].events for each in of.commands if each.poison and each.name in of.lines}
    return {str(one.events) for one in of.stored if one.state == "parked" and one.events not in poisoned}


def _named(what: str, found: Sequence[object] | set[str]) -> list[str]:
    """Return what is broken in one line, with the first few that it is true of."""
    if not found:
        return []
    some = ", ".join(map(str, list(found)[:5]))
    return [f"{what}: {len(found)} ({some}{', ...' if len(found) > 5 else ''})"]
