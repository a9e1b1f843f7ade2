"""What `simulate` reports, and how faults and recoveries are counted."""

from __future__ import annotations

import gc
import logging
import pickle
import runpy
import sys
from typing import TYPE_CHECKING, Any

import pytest
from simulation_ledger import accepted, committed, good_run, invoked, record, written
from wrong_relays import EventIdAsIdentifier, gate_removed, made

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import INVARIANTS, Report, SimulationFailed, relay_handler, simulate
from dynamodb_outbox.testing.simulation.facts import (
    Answered,
    Checkpointed,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Heard,
    Moved,
    Sent,
    Told,
    Trimmed,
)
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.recoveries import recoveries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.testing.simulation import FunctionWorld


def after(kind: str, facts: Sequence[Fact], *, at: int = 7, invocation: int = 1, where: str = "orders") -> str:
    """Return what came of a fault that strikes at a place of a ledger."""
    struck = [*facts[:at], Faulted(facts[at - 1].at_ms, kind, where, invocation), *facts[at:]]
    ((_, how),) = recoveries(struck, Terms())
    return how


# --- recoveries -------------------------------------------------------------------------------------------------------


def test_recovered_in_the_invocation() -> None:
    """What was open when the fault struck was accepted in the invocation that met it."""
    assert after("entry_throttled", good_run()) == "in the invocation"


def test_nothing_was_open() -> None:
    """A fault after the last acceptance concerned nothing."""
    assert after("crash", good_run(), at=9) == "nothing was open"


def test_delivered_again() -> None:
    """The invocation died, and another one did its work, or parked it."""
    start = [*good_run()[:7], Ended(15, 1, "crash"), invoked(2, {"9": "a1", "10": "a2"}, at_ms=16)]
    assert after("crash", [*start, accepted("a1", 2), accepted("a2", 2)]) == "delivered again"
    assert after("crash", [*start, accepted("a1", 2), Moved(21, record("a2"), "parked", 2)]) == "delivered again"


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (Moved(30, record("a2"), "parked", 1), "parked"),
        (Discarded(30, "orders", "shard-1", ("10",), "RetryAttemptsExhausted"), "given up"),
        (Trimmed(30, "shard-1", ("10",)), "trimmed"),
        (Answered(30, 1, "", ("10",)), "open"),
    ],
)
def test_ends_without_acceptance(end: Fact, how: str) -> None:
    """The worst end of an event that was open is what came of the fault."""
    assert after("entry_internal", [*good_run()[:7], accepted("a1"), end]) == how


def test_settling() -> None:
    """Faults of settling are about records, not events: settled later, or left pending."""
    facts = good_run()
    assert after("settle_throttled", facts, at=9) == "settled"
    assert after("settle_throttled", [*facts[:9], *facts[11:]], at=9) == "left pending"
    assert after("settle_throttled", facts, at=11) == "nothing was open"


def test_faults_outside_of_invocations() -> None:
    """Those of the stream and its source are got over when what is open is done; those of an item concern its key."""
    facts = good_run()
    assert after("shard_split", facts, invocation=0) == "read on"
    assert after("source_restart", facts, at=11, invocation=0) == "nothing was open"
    assert after("trim", [*facts[:7], Trimmed(12, "shard-1", ("9", "10"))], invocation=0) == "trimmed"
    assert after("operator_delete", facts, at=7, invocation=0, where="A") == "read on"
    assert after("operator_delete", facts, at=7, invocation=0, where="other") == "nothing was open"
    assert after("iterator_expired", facts[:8], invocation=0) == "open"


def test_faults_of_writers() -> None:
    """What came of them is what the writer was told whose call was under way."""
    call = [Sent(0, "table", "TransactWriteItems", 0, 1, "w.1"), Sent(0, "table", "TransactWriteItems", 0, 2, "v.1")]
    told = [Told(9, "v", "b", "committed"), Told(9, "w", "a", "unknown")]
    assert after("commit_lost_after", [call[0], *told], at=1, invocation=0) == "told unknown"
    assert after("commit_lost_after", [call[1], *told], at=1, invocation=0) == "told committed"
    heard = Heard(1, "table", "TransactWriteItems", 0, 1, "")
    assert after("commit_conflict", [call[0], heard, *told], at=2, invocation=0) == "told committed"
    assert after("writer_crash", [call[0], Told(9, "w", "a", "died")], at=1, invocation=0) == "died"
    assert after("writer_crash", call, at=2, invocation=0) == "nothing was open"


def test_more_than_one_key() -> None:
    """An item's fault leaves other keys out of account."""
    facts = [*good_run()[:-1], *committed("b1", at_ms=60, key="B"), written("b1", "11", key="B")]
    facts += [Checkpointed(99, "orders", "shard-1", "10")]
    assert after("ttl_delete", facts, at=9, invocation=0, where="A") == "nothing was open"


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_of_good_runs() -> None:
    """It counts events, acceptances and faults, in the order of their names, and has nothing to complain about."""
    report = simulate(relay_handler, seeds=[1, 2, 3])
    report.check()
    assert (report.runs, report.failures) == (3, [])
    lines = str(report).splitlines()
    assert lines[0].startswith("3 runs, ")
    assert [line.split()[0] for line in lines[1:]] == sorted(report.faults)
    assert sum(report.faults.values()) == sum(report.recoveries.values())
    assert str(Report()).startswith("0 runs, 0 events")


def test_faults_and_poison_can_be_chosen() -> None:
    """Only the kinds asked for strike, and without poison nothing is parked."""
    report = simulate(relay_handler, seeds=range(6), faults=["crash", "slow"], poison=False)
    assert set(report.faults) <= {"crash", "slow"}
    assert not any(how == "parked" for _, how in report.recoveries)


def test_unknown_names_are_refused() -> None:
    """A misspelt fault would never strike, a misspelt invariant never be left out."""
    for options in ({"faults": ["crush"]}, {"without": ["order"]}):
        with pytest.raises(ConfigurationError, match=r"there is no (crush|order); there are"):
            simulate(relay_handler, seeds=[], **options)  # type: ignore[arg-type]  # one option at a time


def test_order_is_asked_for_unless_it_is_not_promised() -> None:
    """A relay without order is found, and is right where none is asked of it."""
    only_order = INVARIANTS.keys() - {"order_per_key", "order_in_record"}
    (found,) = simulate(gate_removed, seeds=range(500), without=only_order, shrink_runs=0).failures
    assert not simulate(gate_removed, seeds=[found.seed], ordered=False, shrink_runs=0).failures


def test_processes_share_the_seeds() -> None:
    """Several processes come to the same as one: what happened, and who failed."""
    alone = simulate(gate_removed, seeds=range(18, 26), shrink_runs=0, stop_at_first=False)
    shared = simulate(gate_removed, seeds=range(18, 26), shrink_runs=0, stop_at_first=False, processes=2)
    assert sorted(shared.events) == sorted(alone.events)
    assert shared.recoveries == alone.recoveries
    assert [failure.seed for failure in shared.failures] == [failure.seed for failure in alone.failures]
    assert [failure.text for failure in shared.failures] == [failure.text for failure in alone.failures]
    stopped = simulate(gate_removed, seeds=range(18, 50), shrink_runs=0, processes=2)
    assert len(stopped.failures) >= 1
    assert stopped.runs < 32


def test_a_failure_travels() -> None:
    """The error has the failure as data, is an assertion that failed, and survives a process boundary."""
    report = simulate(made(EventIdAsIdentifier), seeds=[0], shrink_runs=0)
    with pytest.raises(AssertionError) as caught:
        report.check()
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own
    assert isinstance(error, SimulationFailed)
    assert error.failure.scenario == report.failures[0].scenario
    assert str(error) == report.failures[0].text


def test_a_failure_that_does_not_happen_again_is_told_as_it_was() -> None:
    """A handler with a memory of its own outside of the world may be right at the second time; the failure stands."""
    wrong = [True]

    def forgetful(world: FunctionWorld) -> Callable[[Any, Any], Any]:
        handler = made(EventIdAsIdentifier)(world) if wrong else relay_handler(world)

        def handled(event: Any, context: Any) -> Any:
            answer = handler(event, context)
            if answer["batchItemFailures"]:
                wrong.clear()
            return answer

        return handled

    report = simulate(forgetful, seeds=[0], shrink_runs=20)
    assert len(report.failures[0].scenario.writes) > 20


def test_logging_is_switched_off_meanwhile_only() -> None:
    """What handlers log in thousands of runs is of no use; afterwards logging is as it was, also after an error.

    The collector of garbage looks less often meanwhile.
    """
    seen: list[bool] = []
    thresholds = [gc.get_threshold()]

    def make_handler(world: FunctionWorld) -> object:
        seen.append(logging.getLogger("dynamodb_outbox").isEnabledFor(logging.ERROR))
        thresholds.append(gc.get_threshold())
        raise RuntimeError(world.destination)

    with pytest.raises(SimulationFailed):
        simulate(make_handler, seeds=[1], shrink_runs=1).check()  # type: ignore[arg-type]  # it never returns
    assert set(seen) == {False}
    assert logging.getLogger("dynamodb_outbox").isEnabledFor(logging.ERROR)
    assert gc.get_threshold() == thresholds[0]
    assert {during[0] > thresholds[0][0] for during in thresholds[1:]} == {True}


def test_what_is_not_simulated_is_refused() -> None:
    """A client of another service does not exist in the world."""

    def make_handler(world: FunctionWorld) -> object:
        with pytest.raises(ValueError, match="no service 'sqs' is simulated: events, dynamodb"):
            world.client("sqs")
        raise SystemExit

    with pytest.raises(SimulationFailed):
        simulate(make_handler, seeds=[1], shrink_runs=0).check()  # type: ignore[arg-type]  # it never returns


@pytest.mark.parametrize("command", [["--seeds", "2"], ["--seeds", "2", "--first", "7"]])
def test_the_command(command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m` runs this library's relay and prints the report; its status says whether all is well."""
    monkeypatch.setattr(sys, "argv", ["simulation", *command])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dynamodb_outbox.testing.simulation", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("2 runs, ")
