"""The relay's crew: tasks side by side, in threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from relay_shell import Bus, Context, relay, row

from dynamodb_outbox.adapters.threads import ThreadCrew

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_crew_that_takes_no_work_is_an_error_and_not_an_answer() -> None:
    """As when the interpreter is shutting down: the batch is delivered again."""

    class Closed(ThreadCrew):
        def start(self, task: Callable[[], object]) -> None:
            raise RuntimeError(f"cannot schedule {task} after interpreter shutdown")

    made = relay(Bus(), crew=Closed(1, "closed"))
    with pytest.raises(RuntimeError, match="after interpreter shutdown"):
        made.lambda_handler({"Records": [row(1)]}, Context())


def test_a_crew_hands_results_back_in_the_order_in_which_they_come() -> None:
    """Not in the order in which the tasks were started; and it says so when none comes in time."""
    crew = ThreadCrew(2, "crew")
    results = crew.results()
    first_may_go = threading.Event()

    def first() -> None:
        first_may_go.wait()
        results.put("first")

    crew.start(first)
    crew.start(lambda: results.put("second"))
    assert results.get(None) == "second"
    assert results.get(0) is None
    assert results.get(-1) is None
    first_may_go.set()
    assert results.get(10_000) == "first"


def test_a_crew_does_no_more_tasks_at_a_time_than_it_is_large() -> None:
    """The third task begins when one of two has ended; queues of one crew do not see each other's results."""
    crew = ThreadCrew(2, "crew")
    begun, others = crew.results(), crew.results()
    may_go = threading.Event()

    def task() -> None:
        begun.put(threading.current_thread().name)
        may_go.wait()

    for _ in range(3):
        crew.start(task)
    names = {begun.get(10_000), begun.get(10_000)}
    assert begun.get(20) is None
    may_go.set()
    assert begun.get(10_000) in names
    assert names == {"crew_0", "crew_1"}
    assert others.get(0) is None
