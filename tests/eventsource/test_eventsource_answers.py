"""What a function's answer means for its batch. The cases marked REC are recordings of AWS's own behaviour."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.eventsource.answers import (
    FunctionFailed,
    Outcome,
    Responded,
    Throttled,
    judge,
    reported_failures,
)

BATCH = ["9", "10", "100"]


def named(*identifiers: Any) -> dict[str, Any]:
    """Return an answer that names these."""
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


@pytest.mark.parametrize(
    "payload",
    [
        "",  # REC
        [],  # REC
        None,  # REC
        {},  # REC
        {"batchItemFailures": []},  # REC
        {"batchItemFailures": None},  # REC
        {"batchItemFailure": [{"itemIdentifier": "9"}]},  # misspelt: the key that counts is absent
        {"statusCode": 500},
    ],
)
def test_an_answer_without_failures_is_a_success(payload: Any) -> None:
    """Empty, null and unrelated answers are a success of the whole batch."""
    assert judge(Responded(payload), BATCH, report_failures=True).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    "payload",
    [
        named(123),  # REC
        named(""),  # REC
        named(None),  # REC
        {"batchItemFailures": [{"foo": 123}]},  # REC
        {"batchItemFailures": [{"foo": None}]},  # REC
        named("11"),
        named("9", "11"),
        named("10", ""),
        {"batchItemFailures": ["9"]},
        {"batchItemFailures": "9"},
        {"batchItemFailures": {"itemIdentifier": "9"}},
        "done",
        7,
        True,
        ["9"],
    ],
)
def test_an_answer_that_names_nothing_of_the_batch_fails_all_of_it(payload: Any) -> None:
    """One identifier that is not of the batch is enough, and an answer of another form is no success."""
    verdict = judge(Responded(payload), BATCH, report_failures=True)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason


@pytest.mark.parametrize(
    ("identifiers", "first"),
    [(("9",), 0), (("100",), 2), (("100", "10"), 1), (("10", "100", "9"), 0), (("10",) * 3, 1)],
)
def test_the_lowest_number_decides_compared_as_a_number(identifiers: tuple[str, ...], first: int) -> None:
    """Of several failures the lowest counts, where 9 comes before 10 and 10 before 100."""
    verdict = judge(Responded(named(*identifiers)), BATCH, report_failures=True)
    assert (verdict.outcome, verdict.first_failed) == (Outcome.PARTIAL, first)


@pytest.mark.parametrize("payload", [named("9"), named("no such"), "text", None])
def test_without_the_response_type_any_answer_is_a_success(payload: Any) -> None:
    """A mapping that lacks ReportBatchItemFailures does not look into the answer."""
    assert judge(Responded(payload), BATCH, report_failures=False).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("report", [True, False])
def test_errors_fail_the_batch_and_throttles_are_told_apart(report: bool) -> None:
    """An error fails the batch whatever the mapping reads; a throttle is not the function's failure."""
    failed = judge(FunctionFailed("Sandbox.Timedout", "3 s"), BATCH, report_failures=report)
    assert (failed.outcome, failed.reason) == (Outcome.FAILED, "Sandbox.Timedout: 3 s")
    assert judge(Throttled(), BATCH, report_failures=report).outcome is Outcome.THROTTLED


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["batchItemFailures", "itemIdentifier", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_value)
def test_no_answer_can_break_the_reading(payload: Any) -> None:
    """Whatever JSON a function returns, the result names identifiers of the batch, or the whole of it."""
    reported = reported_failures(payload, frozenset(BATCH))
    assert reported.failed <= frozenset(BATCH)
    assert not (reported.failed and reported.whole)
