"""Moments as other programs write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.moments import moment_of, parse_moment

NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, timezone.utc)
moments = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))  # noqa: DTZ001 -- the case itself


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00.25Z",
        "2026-01-31t12:00:00.250000z",
        "2026-01-31T12:00:00.250",
        "2026-01-31 12:00:00.250000",
        "2026-01-31T12:00:00.25+00:00",
        "2026-01-31 12:00:00.25+0000",
        "2026-01-31T13:00:00.25+01:00",
        "2026-01-31T06:30:00.250-0530",
        "2026-01-31T12:00:00.250000999999Z",
    ],
)
def test_text_of_every_usual_kind_is_read(text: str) -> None:
    """Without a zone it is UTC; digits beyond the microsecond are dropped."""
    assert parse_moment(text) == NOON
    assert parse_moment(text).utcoffset() == timedelta()


@given(moments, st.integers(-23 * 60, 23 * 60), st.sampled_from("T "))
def test_what_python_writes_is_read(moment: datetime, minutes: int, between: str) -> None:
    """With an offset or without one."""
    assert parse_moment(moment.isoformat(between)) == moment.replace(tzinfo=timezone.utc)
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_moment(aware.isoformat(between)) == aware


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("noon", "date as YYYY-MM-DD"),
        ("", "date as YYYY-MM-DD"),
        ("26-01-31T12:00:00Z", "date as YYYY-MM-DD"),
        ("2026-W05-6T12:00:00Z", "date as YYYY-MM-DD"),
        ("2026-01-31", "follows the date"),
        ("2026-01-31x12:00:00Z", "follows the date"),
        ("2026-01-31T12:00Z", "HH:MM:SS"),
        ("2026-01-31T24:00:00Z", "HH:MM:SS"),
        ("2026-01-31T12:00:60Z", "HH:MM:SS"),
        ("2026-01-31T12:00:00,5Z", "after the seconds"),
        ("2026-01-31T12:00:00.Z", "after the seconds"),
        ("2026-01-31T12:00:00 Z", "after the seconds"),
        ("2026-01-31T12:00:00+01", "after the seconds"),
        ("2026-01-31T12:00:00+24:00", "after the seconds"),
        ("2026-01-31T12:00:00Z\n", "after the seconds"),
        ("\u0662026-01-31T12:00:00Z", "date as YYYY-MM-DD"),
        ("2026-02-30T12:00:00Z", "no such day"),
        ("0000-01-01T00:00:00Z", "no such day"),
        ("0001-01-01T00:00:00+01:00", "outside the years"),
        ("9999-12-31T23:59:59-00:01", "outside the years"),
    ],
)
def test_text_of_no_usual_kind_is_refused_with_the_rule_that_it_breaks(text: str, rule: str) -> None:
    """The text itself is not repeated."""
    with pytest.raises(ValueError, match=rule) as caught:
        parse_moment(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "per_second", "moment"),
    [
        ("1769860800.25", 1, NOON),
        ("1769860800250", 1000, NOON),
        ("1769860800250.0009", 1000, NOON),
        ("1.76986080025E+9", 1, NOON),
        ("0", 1, datetime(1970, 1, 1, tzinfo=timezone.utc)),
        ("-0.5", 1, datetime(1969, 12, 31, 23, 59, 59, 500_000, timezone.utc)),
    ],
)
def test_numbers_are_read_exactly(number: str, per_second: int, moment: datetime) -> None:
    """To the microsecond."""
    assert moment_of(number, per_second) == moment


@pytest.mark.parametrize("number", ["x", "", "NaN", "Infinity", "1E+15", "-1E+15", "1E+999999999", None])
def test_numbers_of_no_moment_are_refused(number: str) -> None:
    """And cost nothing, however large they are."""
    with pytest.raises(ValueError, match=r"it is (no number|outside the years)"):
        moment_of(number, 1)
