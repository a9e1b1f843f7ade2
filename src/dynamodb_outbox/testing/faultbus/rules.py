"""The rules of a fault plan, one frozen dataclass a kind of fault.

A rule says which requests or entries it is about and what happens to them; nothing here decides anything. `fraction`
is always the share of the attempts that are hit, from 0 to 1; `contains` is always a plain substring (empty: all), of
an entry's Detail for entries, of any of its entries' Details for a publish request, of the body for other requests.
`max_consecutive` bounds how often the rule hits the same thing in a row, so that a retry gets through in the end.

"Detail" stands for the event as text, whatever the operation calls it: Detail, Message or MessageBody. `destination`
confines a rule to one bus, topic or queue (empty: all), told by its name, or as the client tells it: ARN, URL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from dynamodb_outbox.testing.faultbus.errors import FaultPlanInvalid

if TYPE_CHECKING:
    from typing import TypeGuard

__all__ = [
    "Delay",
    "Duplicate",
    "Hold",
    "Lost",
    "Missing",
    "Outage",
    "OutageMode",
    "Rejection",
    "RequestError",
    "Reset",
    "Rule",
    "Somewhere",
    "Unacceptable",
    "When",
    "check_count",
]

OutageMode = Literal["503", "reset", "hang"]
When = Literal["before", "after"]


@dataclass(frozen=True)
class Rule:
    """What all rules have in common: they check themselves, with `FaultPlanInvalid`."""


@dataclass(frozen=True)
class Somewhere(Rule):
    """A rule about what goes to one destination, or to all of them."""

    destination: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.destination, "destination")


@dataclass(frozen=True)
class Rejection(Somewhere):
    """A fraction of the entries is refused inside an HTTP 200, each with one of `codes`, by chance.

    `sender_fault` is what SNS and SQS say of it beside the code (throttled entries may well be the sender's fault).
    """

    fraction: float
    codes: tuple[str, ...] = ("InternalFailure", "ThrottlingException")
    max_consecutive: int | None = None
    contains: str = ""
    sender_fault: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_flag(self.sender_fault, "sender_fault")
        _check_fraction(self.fraction)
        _check_codes(self.codes)
        _check_bound(self.max_consecutive)
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class Unacceptable(Somewhere):
    """Entries whose Detail contains `contains` are refused inside an HTTP 200 with `code`, for ever.

    `sender_fault` is what SNS and SQS say of it beside the code.
    """

    contains: str
    code: str = "MalformedDetail"
    sender_fault: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_flag(self.sender_fault, "sender_fault")
        _check_text(self.contains, "contains", empty=False)
        _check_text(self.code, "code", empty=False)


@dataclass(frozen=True)
class Duplicate(Somewhere):
    """A fraction of the accepted entries is handed upstream a second time."""

    fraction: float
    contains: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction(self.fraction)
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class RequestError(Somewhere):
    """A fraction of the publish requests is refused whole with an HTTP `status` and an error `code`."""

    fraction: float
    status: int = 500
    code: str = "InternalException"
    max_consecutive: int | None = None
    contains: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction(self.fraction)
        _check(_is_int(self.status) and 400 <= self.status <= 599, "status", "an HTTP status from 400 to 599")  # noqa: PLR2004 - the range IS the rule
        _check_text(self.code, "code", empty=False)
        _check_bound(self.max_consecutive)
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class Reset(Somewhere):
    """A fraction of the publish requests loses its connection, before anything was accepted or after."""

    fraction: float
    when: When
    max_consecutive: int | None = None
    contains: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction(self.fraction)
        _check_when(self.when)
        _check_bound(self.max_consecutive)
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class Delay(Somewhere):
    """A fraction of the publish requests waits from `min_ms` to `max_ms` milliseconds before it is looked at."""

    fraction: float
    min_ms: int
    max_ms: int
    contains: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction(self.fraction)
        check_count(self.min_ms, "min_ms", least=0)
        check_count(self.max_ms, "max_ms", least=self.min_ms)
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class Hold(Somewhere):
    """The answers to `count` requests are withheld, from the `nth` accepted one on that contains `contains`.

    "Accepted": at least one of its entries was taken by the upstream. Only accepted entries are looked at.
    """

    nth: int = 1
    count: int = 1
    contains: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.nth, "nth")
        check_count(self.count, "count")
        _check_text(self.contains, "contains")


@dataclass(frozen=True)
class Outage(Somewhere):
    """No publish request is served from `start_ms` to `end_ms`, counted from the first publish request to anywhere.

    A request with entries for several buses is not served while one of them is out.
    `mode` is what a client sees: an HTTP 503, its connection reset, or nothing at all until it gives up ("hang").
    """

    start_ms: int
    end_ms: int
    mode: OutageMode = "503"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.start_ms, "start_ms", least=0)
        check_count(self.end_ms, "end_ms", least=self.start_ms + 1)
        _check(self.mode in get_args(OutageMode), "mode", f"one of {', '.join(get_args(OutageMode))}")


@dataclass(frozen=True)
class Missing(Rule):
    """The `destination` is not there.

    SNS and SQS refuse the whole request. EventBridge accepts the entries, and they are gone. Asked for it by name
    (DescribeEventBus, GetTopicAttributes, GetQueueAttributes, GetQueueUrl), each says that there is none.
    """

    destination: str

    def __post_init__(self) -> None:
        _check_text(self.destination, "destination", empty=False)


@dataclass(frozen=True)
class Lost(Rule):
    """Calls that are passed through lose their answer (`when="after"`), or are never passed on ("before").

    `operation` is the operation's name, as `TransactWriteItems`. The first `first` calls of each match key are hit, a
    client's own retries included. The key is what the regular expression `key` finds in the body (its first group, if
    it has one; a call without a find is not hit), or the same for all calls when `key` is empty. `fraction` is the
    share of the keys that are hit at all.
    """

    operation: str
    contains: str = ""
    key: str = ""
    fraction: float = 1.0
    first: int = 1
    when: When = "after"

    def __post_init__(self) -> None:
        _check_text(self.operation, "operation", empty=False)
        _check_text(self.contains, "contains")
        _check_text(self.key, "key")
        try:
            re.compile(self.key)
        except re.error as error:
            raise FaultPlanInvalid("key", f"not a regular expression: {error}") from None
        _check_fraction(self.fraction)
        check_count(self.first, "first")
        _check_when(self.when)


def check_count(value: object, where: str, *, least: int = 1) -> None:
    """Raise `FaultPlanInvalid` unless `value` is a whole number of at least `least`."""
    _check(_is_int(value) and value >= least, where, f"a whole number of at least {least}")


def _check(holds: bool, where: str, wanted: str) -> None:
    if not holds:
        raise FaultPlanInvalid(where, f"must be {wanted}")


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_fraction(value: object) -> None:
    share = float(value) if _is_int(value) else value
    _check(isinstance(share, float) and 0 <= share <= 1, "fraction", "a number from 0 to 1")


def _check_bound(value: object) -> None:
    if value is not None:
        check_count(value, "max_consecutive")


def _check_text(value: object, where: str, *, empty: bool = True) -> None:
    _check(isinstance(value, str) and (empty or value != ""), where, "a text" if empty else "a text that is not empty")


def _check_flag(value: object, where: str) -> None:
    _check(isinstance(value, bool), where, "true or false")


def _check_codes(value: object) -> None:
    texts = isinstance(value, tuple) and all(isinstance(code, str) and code for code in value)
    _check(texts and value != (), "codes", "a list of at least one error code")


def _check_when(value: object) -> None:
    _check(value in get_args(When), "when", f"one of {', '.join(get_args(When))}")
