"""What a check is, and what comes of it.

A rule looks at one thing of a system, says what it saw where that is wrong, and nothing where it is right. A rule that
needs what was not seen ends with NotSeen; the others go on. Everything else about a check is data: how bad it is, what
follows, and how to correct it. The table in docs/doctor.md is made of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.doctor.inventory import NotSeen, Unseen, plain_arn, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dynamodb_outbox.doctor.system import Function, StreamMapping, System
    from dynamodb_outbox.layout import Layout

__all__ = [
    "Check",
    "Evidence",
    "Finding",
    "Severity",
    "Unjudged",
    "Way",
    "examine",
    "layouts_of",
    "of_all_functions",
    "of_functions",
    "of_mappings",
    "of_sweepers",
    "of_system",
    "of_table",
    "of_targets",
    "relay_of",
]


class Severity(Enum):
    """How bad it is.

    ERROR: events are lost, late, or not relayed at all. WARNING: they will be, when something else goes wrong. NOTE:
    something to know, which may be meant so.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


Way = Literal["stream", "sweep", "failure"]
"""A way on which events go: from the stream through the relay, from the index through the sweeper, and to where the
mapping stores what it gives up."""


@dataclass(frozen=True)
class Evidence:
    """What was seen; `words` fill the `<...>` of the check's fix; `closes`, where given, counts for the check's own."""

    said: str
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    closes: tuple[Way, ...] | None = None


Said = Evidence | str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check. `asks` is what is looked at, `look` the rule.

    `about` returns the things that it looks at, each with its name, and words for the fix. Of the fixes `command` is
    for an account, `snippet` for a template; either stands for both where the other is empty.

    While something is found, the promises that it `breaks` are not promised, those that it `limits` hold within bounds
    at most, and the ways that it `closes` cannot be relied on: "own" is that of the function that it is about.
    """

    id: str
    severity: Severity
    asks: str
    consequence: str
    about: Callable[[System], Iterable[Subject]]
    look: Callable[[Any, System], Iterator[Said]]
    command: str = ""
    snippet: str = ""
    breaks: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    closes: tuple[Way | Literal["own"], ...] = ()


@dataclass(frozen=True)
class Subject:
    """A thing that is looked at; `thing` is what the rule is given, or Unseen; a function is on a `way` of events."""

    name: str
    thing: Any
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    way: Way = "stream"


@dataclass(frozen=True)
class Finding:
    """What is wrong: `id` is the check's, `subject` what it is about, `evidence` what was seen."""

    id: str
    severity: Severity
    subject: str
    evidence: str
    consequence: str
    fix: str
    closes: tuple[Way, ...] = ()


@dataclass(frozen=True)
class Unjudged:
    """A check that could not be made, of what, and why."""

    id: str
    subject: str
    why: str
    closes: tuple[Way, ...] = ()


def examine(system: System, checks: Iterable[Check]) -> tuple[tuple[Finding, ...], tuple[Unjudged, ...]]:
    """Return what is wrong, the worst first, and what could not be seen."""
    findings: list[Finding] = []
    unjudged: list[Unjudged] = []
    for check in checks:
        for subject in check.about(system):
            hidden = _judge(check, subject, system, findings)
            if hidden is not None:
                unjudged.append(hidden)
    order = list(Severity)
    return tuple(sorted(findings, key=lambda each: order.index(each.severity))), tuple(unjudged)


def _judge(check: Check, subject: Subject, system: System, findings: list[Finding]) -> Unjudged | None:
    """Add what a rule says of a thing; return why it could not say all of it, None when it could."""
    try:
        findings.extend(_finding(check, subject, said, system) for said in check.look(seen(subject.thing), system))
    except NotSeen as reason:
        return Unjudged(check.id, plain_arn(subject.name), plain_arn(reason.why), _closed_by(check, subject))
    return None


def _finding(check: Check, subject: Subject, said: Said, system: System) -> Finding:
    evidence = said if isinstance(said, Evidence) else Evidence(said)
    fixes = (check.command, check.snippet) if system.source == "account" else (check.snippet, check.command)
    words = {**subject.words, **evidence.words}
    fix = re.sub(r"<(\w+)>", lambda found: words.get(found[1], found[0]), fixes[0] or fixes[1])
    closes = _closed_by(check, subject) if evidence.closes is None else evidence.closes
    told = (plain_arn(subject.name), plain_arn(evidence.said), check.consequence, plain_arn(fix))
    return Finding(check.id, check.severity, *told, closes)


def _closed_by(check: Check, subject: Subject) -> tuple[Way, ...]:
    """Return the ways that a check closes when it finds something about a subject."""
    return tuple(subject.way if each == "own" else each for each in check.closes)


def layouts_of(system: System) -> tuple[Layout, ...]:
    """Return the layouts that count: the relays', each once. Raises NotSeen."""
    if not system.relays:
        seen(system.unseen_relay)
        raise NotSeen("without a relay there is no layout to compare with")
    found: list[Layout] = []
    for each in system.relays:
        layout = seen(each.settings.layout)
        found += [] if layout in found else [layout]
    return tuple(found)


def relay_of(mapping: StreamMapping, system: System) -> Function:
    """Return the relay that a mapping invokes."""
    return next(each for each in system.relays if each.name == mapping.function)


# --- what checks are about ---


def of_system(system: System) -> tuple[Subject, ...]:
    """Return the system as a whole."""
    return (Subject("the outbox", system, _table_words(system)),)


def of_table(system: System) -> tuple[Subject, ...]:
    """Return the table."""
    table = system.table
    if isinstance(table, Unseen):
        return (Subject("the table", table),)
    return (Subject(f"table {table.name}", table, {"table": table.name}),)


def of_mappings(system: System) -> tuple[Subject, ...]:
    """Return the relay's mappings."""
    if isinstance(system.mappings, Unseen):
        return (Subject("the mapping", system.mappings),)
    return tuple(Subject(f"mapping {each.name}", each, {"mapping": each.id}) for each in system.mappings)


def of_functions(system: System) -> tuple[Subject, ...]:
    """Return the relays."""
    if system.unseen_relay is not None:
        return (Subject("the relay", system.unseen_relay),)
    return tuple(map(_function, system.relays))


def of_sweepers(system: System) -> tuple[Subject, ...]:
    """Return the sweepers."""
    if isinstance(system.sweepers, Unseen):
        return (Subject("the sweeper", system.sweepers, way="sweep"),)
    return tuple(_function(each, "sweep") for each in system.sweepers)


def of_all_functions(system: System) -> tuple[Subject, ...]:
    """Return relays and sweepers; sweepers only where they are seen, which another check tells of."""
    sweepers = () if isinstance(system.sweepers, Unseen) else of_sweepers(system)
    return (*map(_function, system.relays), *sweepers)


def of_targets(system: System) -> tuple[Subject, ...]:
    """Return where events go."""
    if isinstance(system.targets, Unseen):
        return (Subject("where events go", system.targets),)
    return tuple(
        Subject(f"{each.kind} {each.name}", each, {"target": each.name, "arn": each.arn}) for each in system.targets
    )


def _function(function: Function, way: Way = "stream") -> Subject:
    return Subject(f"function {function.name}", function, {"function": function.name}, way)


def _table_words(system: System) -> dict[str, str]:
    return {} if isinstance(system.table, Unseen) else {"table": system.table.name}
