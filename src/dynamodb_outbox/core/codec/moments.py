"""Moments as programs write them that know nothing of this library: ISO 8601 text of several kinds, epoch numbers.

Not by `datetime.fromisoformat`: what it takes differs between Pythons, and it does not say what is wrong. Text without
a zone is UTC, since that is what `datetime.utcnow().isoformat()` writes. Numbers are read exactly, whatever the decimal
context of the thread is; digits beyond the microsecond are dropped.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation

__all__ = ["moment_of", "parse_moment"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND_US = 1_000_000
_LARGEST_POWER = 20  # of ten: such a number, of whatever parts of a second, is far beyond the year 9999
_PARTS = (
    (r"([0-9]{4}-[0-9]{2}-[0-9]{2})", "it does not begin with a date as YYYY-MM-DD"),
    (r"[Tt ]", "neither 'T' nor a space follows the date"),
    (r"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])", "no time of day as HH:MM:SS, 00:00:00 to 23:59:59, is there"),
    (r"(?:\.([0-9]+))?", ""),
    (r"(Z|z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?\Z", "after the seconds comes neither a fraction, 'Z' nor +HH:MM"),
)
_RULES = tuple((re.compile(pattern), fault) for pattern, fault in _PARTS)


def parse_moment(text: str) -> datetime:
    """Return ISO 8601 text as an aware datetime in UTC. Raises ValueError, with the rule that it breaks."""
    at = 0
    found: list[str | None] = []
    for rule, fault in _RULES:
        match = rule.match(text, at)
        if match is None:
            raise ValueError(fault)
        at = match.end()
        found += match.groups()
    date, clock, fraction, zone = found
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}.{fraction or '0':0<6.6}+00:00")
    except ValueError:
        raise ValueError("there is no such day") from None
    return _shifted(moment, -_offset_s(zone) * _SECOND_US)


def moment_of(number: str, per_second: int) -> datetime:
    """Return a number of seconds, or of parts of one, since 1970 as an aware datetime in UTC. Raises ValueError."""
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) <= _LARGEST_POWER:
        return _shifted(_EPOCH, int(number) * _SECOND_US // per_second)  # as most are: a third of the time
    try:
        value = Decimal(number)
    except (InvalidOperation, TypeError):
        raise ValueError("it is no number") from None
    if not value.is_finite() or value.adjusted() > _LARGEST_POWER:
        raise ValueError("it is outside the years 1 to 9999")
    whole, parts = value.as_integer_ratio()
    return _shifted(_EPOCH, whole * _SECOND_US // (parts * per_second))


def _shifted(moment: datetime, by_us: int) -> datetime:
    try:
        return moment + timedelta(microseconds=by_us)
    except OverflowError:
        raise ValueError("it is outside the years 1 to 9999") from None


def _offset_s(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    size = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -size if zone[0] == "-" else size
