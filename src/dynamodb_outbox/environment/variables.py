"""The environment variables of the ready-made handlers: what each is called, may hold, and means, as one table.

The table is the only place that knows of a variable: reading, the errors and the table in docs/aws-lambda.md come from
it. What a variable may hold is what the argument takes that it becomes; a test holds the one to the other.

Routes and the arguments of `Layout` are JSON. No name may come twice in an object of it, which JSON leaves open: of two
values the last one would count, and nobody would see the first.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from dynamodb_outbox.arguments import shown, text, whole
from dynamodb_outbox.choices import OnPoison, Ordering, Settle
from dynamodb_outbox.core.codec.envelope import source_fault
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.errors import OutboxError

__all__ = ["LAYOUT_MEMBERS", "PREFIX", "RELAY", "SWEEP", "VARIABLES", "Variable", "alike"]

PREFIX = "OUTBOX_"
"""What the names of all variables begin with."""

RELAY, SWEEP = "relay", "sweep"
"""The ready-made functions."""

_NEVER = "never"
_ALIKE, _MUCH_ALIKE = 0.5, 0.75
_KEYS = """For example {"pk": "customer_id", "sk": "item"}."""
_ROUTES = """For example {"order.*": "arn:...", "*": "arn:..."}."""
"""How much a name must have in common with a known one to be taken for it, misspelt; 1 is the same name."""
_MOST_AGE_S = 7 * 24 * 3600
_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)

_PLAIN = Layout()
LAYOUT_MEMBERS: Mapping[str, Any] = {each.name: getattr(_PLAIN, each.name) for each in dataclasses.fields(Layout)}
"""The arguments of Layout, and what holds without them. Those that are durations are numbers of seconds in JSON."""


# --- how a value is read: text in, the argument out; what does not fit is refused ---


def _choice(*allowed: str) -> Callable[[str, Refusal], str]:
    either = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"

    def read(value: str, refuse: Refusal) -> str:
        if value not in allowed:
            raise refuse(f"is {shown(value)}; {either} is needed.")
        return value

    return read


def _number(least: int, most: int) -> Callable[[str, Refusal], int]:
    def read(value: str, refuse: Refusal) -> int:
        return whole(int(value) if _WHOLE.fullmatch(value) else value, refuse, least=least, most=most)

    return read


def _age(value: str, refuse: Refusal) -> timedelta:
    return timedelta(seconds=_number(0, _MOST_AGE_S)(value, refuse))


def _number_or_never(least: int, most: int) -> Callable[[str, Refusal], int | None]:
    number = _number(least, most)

    def read(value: str, refuse: Refusal) -> int | None:
        if value == _NEVER:
            return None
        return number(value, lambda reason: refuse(f"{reason.removesuffix('.')}, or {_NEVER!r}."))

    return read


def _source(value: str, refuse: Refusal) -> str:
    if (fault := source_fault(text(value, refuse))) is not None:
        raise refuse(f"is {shown(value)}: {fault}")
    return value


def _level(value: str, refuse: Refusal) -> str:
    return _choice("INFO", "WARNING", "ERROR")(value.upper(), refuse)


def _destinations(value: str, refuse: Refusal) -> str | dict[str, Any]:
    return _object(value, refuse, _ROUTES) if value.startswith("{") else value


def _members(value: str, refuse: Refusal) -> dict[str, Any]:
    members = _object(value, refuse, _KEYS)
    for name, given in members.items():
        if name not in LAYOUT_MEMBERS:
            meant = alike(name, LAYOUT_MEMBERS, _MUCH_ALIKE) or _key_named(name) or alike(name, LAYOUT_MEMBERS)
            told = f"did you mean {meant!r}?" if meant else f"it has {', '.join(LAYOUT_MEMBERS)}."
            raise refuse(f"names {shown(name)}, which is no argument of Layout; {told}")
        if isinstance(LAYOUT_MEMBERS[name], timedelta):
            members[name] = _seconds(given, partial(_member_refused, refuse, name))
    return members


def _member_refused(refuse: Refusal, name: str, reason: str) -> OutboxError:
    return refuse(f"names {name!r}, which {reason}")


def _seconds(given: object, refuse: Refusal) -> timedelta:
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not math.isfinite(given):
        raise refuse(f"is {shown(given)}; a number of seconds is needed.")
    try:
        return timedelta(seconds=given)
    except OverflowError:
        raise refuse(f"is {shown(given)}, more seconds than can be counted.") from None


def _object(value: str, refuse: Refusal, example: str) -> dict[str, Any]:
    twice: list[str] = []
    try:
        found = json.loads(value, object_pairs_hook=partial(_once_each, twice), parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise refuse(f"is {shown(value)}, and no JSON: {error}. {example}") from None
    if not isinstance(found, dict):
        raise refuse(f"is {shown(value)}; a JSON object is needed. {example}")
    if twice:
        raise refuse(f"names {shown(twice[0])} twice in one object; nobody could tell which of the two counts.")
    return found


def _once_each(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, and note the names that it has more than once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice += [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return found


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


# --- the table ---


@dataclass(frozen=True)
class Variable:
    """One variable: its name, what it may hold, what counts when it is not set, and what it says.

    `argument` is that of `Relay` and `Sweeper` which it is handed on as, None where it is not handed on as it is.
    `read_by` are the functions for which it means anything; the others take it for right, so that a template may give
    all of them the same variables.
    """

    name: str
    values: str
    unset: str
    says: str
    read: Callable[[str, Refusal], Any]
    argument: str | None = None
    read_by: tuple[str, ...] = (RELAY, SWEEP)


VARIABLES = (
    Variable(
        "OUTBOX_SINK",
        "an ARN, or a JSON object of ARNs by event type",
        "(needed)",
        "where events go: an EventBridge event bus, an SNS topic or an SQS queue; or one of several for each event, by "
        "its type, as `Router` does: in the type a trailing `*` stands for any rest, an exact type goes before a "
        "beginning, a longer beginning before a shorter one",
        _destinations,
    ),
    Variable(
        "OUTBOX_TABLE",
        "text",
        "the table in the stream's ARN; to sweep it is needed",
        "the table's name. Where the stream's ARN names another table, each invocation fails and nothing is relayed",
        text,
        "table",
    ),
    Variable(
        "OUTBOX_SOURCE",
        "text of 1 to 256 characters that does not start with `aws.`",
        "the table's name",
        "the source of events whose record names none (hand-written ones)",
        _source,
        "source",
    ),
    Variable(
        "OUTBOX_ENVELOPE",
        "`cloudevents` or `raw`",
        "`cloudevents`",
        "what is published: a CloudEvents 1.0 object, or the event's data alone",
        _choice("cloudevents", "raw"),
    ),
    Variable(
        "OUTBOX_ORDERING",
        "`key` or `none`",
        "`key`",
        "`key`: of the events of one key the next is sent when the one before it was accepted; `none`: in no order, "
        "and faster",
        _choice(*get_args(Ordering)),
        "ordering",
        (RELAY,),
    ),
    Variable(
        "OUTBOX_ON_POISON",
        "`park`, `park_key` or `block`",
        "`park`",
        "what becomes of an event that can never be accepted. `park`: it is parked, and its key goes on; `park_key`: "
        "what follows of its key is parked, too; `block`: it is held, and its key with it",
        _choice(*get_args(OnPoison)),
        "on_poison",
    ),
    Variable(
        "OUTBOX_MAX_IN_FLIGHT",
        "1 to 1000",
        "8",
        "publish requests at the same time, of all destinations together; each is a thread",
        _number(1, 1000),
        "max_in_flight",
    ),
    Variable(
        "OUTBOX_RATE_LIMIT",
        "1 to 1000000",
        "no limit",
        "events a second that one instance of the function sends to each destination",
        _number(1, 1_000_000),
        "rate_limit_per_instance",
    ),
    Variable(
        "OUTBOX_BREAKER_AFTER",
        "1 to 1000000, or `never`",
        "5",
        "requests that fail as a whole, one after the other, after which a destination is left alone for a while",
        _number_or_never(1, 1_000_000),
        "breaker_after",
    ),
    Variable(
        "OUTBOX_REMEMBER_ACCEPTED",
        "0 to 10000000",
        "10000",
        "accepted events that an instance remembers, so that a batch which is delivered again does not publish them "
        "again; each takes some 300 bytes",
        _number(0, 10_000_000),
        "remember_accepted",
        (RELAY,),
    ),
    Variable(
        "OUTBOX_MIN_AGE",
        "0 to 604800",
        "300",
        "how old a pending record is before it is swept, in seconds; longer than it is on its way in ordinary times",
        _age,
        "min_age",
        (SWEEP,),
    ),
    Variable(
        "OUTBOX_SETTLE",
        "`expire`, `mark`, `delete` or `none`",
        "`expire`, or what `OUTBOX_LAYOUT` says",
        "`settle` of the layout: what becomes of a hand-written record when its events were accepted. By `mark` it "
        "stays for good, as published; by `none` it stays as it is, and nothing tells that it was published. Those of "
        "an `Outbox` say it themselves, by the writer's layout",
        _choice(*get_args(Settle)),
    ),
    Variable(
        "OUTBOX_LAYOUT",
        "a JSON object",
        "`{}`",
        "the arguments of the writer's `Layout` that are not its defaults; `published_for` and `guard_for` in seconds",
        _members,
    ),
    Variable(
        "OUTBOX_METRICS",
        "`emf` or `none`",
        "`none`",
        "`emf`: each invocation writes what it came to as metrics of CloudWatch, a line of JSON on the standard "
        "output; docs/metrics.md tells of them",
        _choice("emf", "none"),
    ),
    Variable(
        "OUTBOX_LOG_LEVEL",
        "`INFO`, `WARNING` or `ERROR`",
        "as `logging` is set up: on Lambda `WARNING`",
        "what this library logs: from this level on",
        _level,
    ),
)
"""All variables, the needed one first."""


def _key_named(name: str) -> str | None:
    """Return which key attribute a name is about, in the words of others: partition or hash key, sort or range key."""
    words = {"partition": "pk", "hash": "pk", "sort": "sk", "range": "sk"}
    return next((key for word, key in words.items() if word in name.lower()), None)


def alike(name: str, known: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """Return the known name that an unknown one is most like, None when it is like none of them."""
    import difflib  # noqa: PLC0415 -- takes longer to load than this module, and only an error needs it

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)
