"""What `simulate` reports, and how faults and recoveries are counted."""

from __future__ import annotations

import gc
import pickle
import re
import runpy
import sys
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hand_written import HandWritten, made
from simulation_ledger import accepted, committed, good_run, invoked, record, written
from wrong_answers import EventIdAsIdentifier
from wrong_relays import gate_removed, poison_not_parked

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import (
    INVARIANTS,
    Report,
    SimulationFailed,
    consumer_handler,
    generate,
    relay_handler,
    runs,
    simulate,
    sweeper_handler,
)
from dynamodb_outbox.testing.simulation.facts import (
    Answered,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Gap,
    Moved,
    Sent,
    Told,
    Trimmed,
    Written,
)
from dynamodb_outbox.testing.simulation.history import Terms, history
from dynamodb_outbox.testing.simulation.invariants import Violation
from dynamodb_outbox.testing.simulation.recoveries import recoveries
from dynamodb_outbox.testing.simulation.report import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.testing.simulation import FunctionWorld


ENOUGH = range(60)
SETTLED = next(place for place, fact in enumerate(good_run()) if isinstance(fact, Moved))
"""Where the first record of a good run is settled; what is before that place has been accepted."""
HANDED = SETTLED - 2
"""Where the first event is accepted: both have been handed over."""


def after(
    kind: str,
    facts: Sequence[Fact],
    *,
    at: int = HANDED,
    invocation: int = 1,
    where: str = "orders",
    process: str = "",
    shard: str = "",
) -> str:
    """Return what came of a fault that strikes at a place of a ledger."""
    fault = Faulted(facts[at - 1].at_ms, kind, where, invocation, process=process, shard=shard)
    struck = [*facts[:at], fault, *facts[at:]]
    ((_, how),) = recoveries(history(struck, Terms()))
    return how


# --- recoveries -------------------------------------------------------------------------------------------------------


def test_recovered_in_the_invocation() -> None:
    """What was open when the fault struck was accepted in the invocation that met it."""
    assert after("entry_throttled", good_run()) == "in the invocation"


def test_nothing_was_open() -> None:
    """A fault after the last acceptance concerned nothing."""
    assert after("crash", good_run(), at=SETTLED) == "nothing was open"


def test_delivered_again() -> None:
    """The invocation died, and another one did its work, or parked it."""
    start = [*good_run()[:HANDED], Ended(15, 1, "crash"), invoked(2, {"9": "a1", "10": "a2"}, at_ms=16)]
    assert after("crash", [*start, accepted("a1", 2), accepted("a2", 2)]) == "delivered again"
    assert after("crash", [*start, accepted("a1", 2), Moved(21, record("a2"), "parked", 2)]) == "delivered again"


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (Moved(30, record("a2"), "parked", 1), "parked"),
        (Discarded(30, "orders", "shard-1", ("10",), "RetryAttemptsExhausted"), "given up"),
        (Gap(30, "orders", "shard-1", None), "trimmed"),
        (Answered(30, 1, "", ("10",)), "open"),
    ],
)
def test_ends_without_acceptance(end: Fact, how: str) -> None:
    """The worst end of an event that was open is what came of the fault."""
    assert after("entry_internal", [*good_run()[:HANDED], accepted("a1"), Trimmed(30, "shard-1", ("10",)), end]) == how


def test_settling() -> None:
    """Faults of settling are about records, not events: settled later, or left pending."""
    facts = good_run()
    assert after("settle_throttled", facts, at=SETTLED) == "settled"
    assert after("settle_throttled", [*facts[:SETTLED], *facts[SETTLED + 2 :]], at=SETTLED) == "left pending"
    assert after("settle_throttled", facts, at=SETTLED + 2) == "nothing was open"


def test_faults_of_the_source_concern_what_was_under_way() -> None:
    """What is open then, of the shard if it is about one; what comes later is read anyhow, and says nothing."""
    facts = good_run()
    assert after("source_restart", facts, invocation=0, shard="shard-1") == "read on"
    assert after("source_restart", facts, invocation=0, shard="shard-2") == "nothing was open"
    assert after("source_killed", facts, invocation=0) == "read on"
    assert after("source_killed", facts, at=SETTLED, invocation=0) == "nothing was open"
    later = [*facts, *committed("b1", at_ms=60, key="B"), written("b1", "11", key="B"), accepted("b1", 2, at_ms=70)]
    assert after("source_killed", later, at=SETTLED, invocation=0) == "nothing was open"
    assert after("iterator_expired", facts[:HANDED], invocation=0, shard="shard-1") == "open"
    given_up = [*facts[:HANDED], Discarded(30, "orders", "shard-1", ("9", "10"), "RecordAgeExceeded")]
    assert after("invoke_throttled", given_up, invocation=0, shard="shard-1") == "given up"


def test_a_batch_that_is_redelivered_is_done() -> None:
    """What counts is that it is handed over again, and that there are events in it."""
    facts = good_run()
    again = [*facts, invoked(2, {"9": "a1"}, at_ms=70)]
    options: dict[str, Any] = {"at": len(facts), "invocation": 0}
    assert after("redelivered", again, **options, shard="shard-1") == "delivered again"
    assert after("redelivered", again, **options, shard="shard-2") == "nothing was open"
    assert after("redelivered", [*facts, invoked(2, {}, at_ms=70)], **options, shard="shard-1") == "nothing was open"


def test_a_split_concerns_its_parent_and_what_its_partitions_get_later() -> None:
    """A shard with nothing open, and nothing to come, may split as it likes."""
    facts = good_run()
    assert after("shard_split", facts, invocation=0, shard="shard-1") == "read on"
    assert after("shard_split", facts, at=SETTLED, invocation=0, shard="shard-1") == "nothing was open"
    later = [*facts, *committed("a3", at_ms=60), written("a3", "11"), accepted("a3", 2, at_ms=70)]
    assert after("shard_split", later, at=SETTLED, invocation=0, shard="shard-1") == "read on"
    assert after("shard_split", later, at=SETTLED, invocation=0, shard="shard-2") == "nothing was open"


def test_a_delay_concerns_the_records_that_it_holds_back() -> None:
    """Those that are written just when it begins."""
    facts = good_run()
    place = next(place for place, fact in enumerate(facts) if isinstance(fact, Written))
    assert after("late_visibility", facts, at=place, invocation=0, where="stream", shard="shard-1") == "read on"
    assert after("late_visibility", facts, at=place, invocation=0, where="stream", shard="x") == "nothing was open"
    assert (
        after("late_visibility", facts, at=SETTLED, invocation=0, where="stream", shard="shard-1") == "nothing was open"
    )


def test_a_trimming_concerns_what_it_takes() -> None:
    """Lost, read before it went, or done long ago."""
    start, at_ms = good_run()[:HANDED], good_run()[HANDED - 1].at_ms
    gone = [Trimmed(at_ms, "shard-1", ("9", "10"))]
    options: dict[str, Any] = {"at": len(start), "invocation": 0, "where": "stream"}
    assert after("trim", [*start, *gone, Gap(at_ms + 9, "orders", "shard-1", None)], **options) == "trimmed"
    assert after("trim", [*start, *gone, accepted("a1"), accepted("a2")], **options) == "read on"
    assert after("trim", [*start, accepted("a1"), accepted("a2")], **options) == "nothing was open"


def test_a_deletion_concerns_the_record_that_went() -> None:
    """Not others of its partition."""
    start = good_run()[:HANDED]
    ends = [accepted("a1"), accepted("a2")]

    def deleted(name: str) -> list[Fact]:
        return [*start, Written(12, "REMOVE", record(name), "shard-1", "11", "operator"), *ends]

    options: dict[str, Any] = {"at": len(start), "invocation": 0, "where": "A"}
    assert after("operator_delete", deleted("a1"), **options) == "read on"
    assert after("operator_delete", deleted("other"), **options) == "nothing was open"
    assert after("operator_delete", [*start, *ends], **options) == "nothing was open"
    assert after("ttl_delete", [*start, *ends, *deleted("a1")[-3:]], **{**options, "at": len(start) + 2}) == (
        "nothing was open"
    )


def test_faults_of_writers() -> None:
    """What came of them is what the writer was told that met them, not what another one was told before."""
    told = [Told(9, "v", "b", "committed"), Told(9, "w", "a", "unknown")]
    sent = Sent(0, "table", "TransactWriteItems", 0, 1, "w.1")
    options: dict[str, Any] = {"at": 1, "invocation": 0, "where": "table"}
    assert after("commit_lost_after", [sent, *told], **options, process="w.1") == "told unknown"
    assert after("outage", [sent, *told], **options, process="v.2") == "told committed"
    assert after("writer_crash", [sent, Told(9, "w", "a", "died")], **options, process="w.1") == "died"
    assert after("writer_crash", [sent, *told], **options, process="x.1") == "nothing was open"
    assert after("clock_skew", [sent, *told], **{**options, "where": "v"}) == "told committed"


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


def test_a_strike_with_nothing_open_is_not_effective() -> None:
    """It is counted, and tests nothing."""
    report = Report(recoveries=Counter({("crash", "nothing was open"): 3, ("crash", "parked"): 2, ("trim", "open"): 1}))
    assert report.faults == {"crash": 5, "trim": 1}
    assert report.effective == {"crash": 2, "trim": 1}


def test_two_destinations_share_a_table() -> None:
    """Each gets everything, by a relay that can; this library's own is not made for that, and found out.

    What one of two relays parks or settles is the state of the record, which the other finds: it takes an event that
    its own bus refused for done.
    """
    simulate(made(HandWritten), seeds=range(10), destinations=2, poison=False).check()
    assert (
        simulate(made(HandWritten), seeds=[0], destinations=2).accepted
        > simulate(made(HandWritten), seeds=[0]).accepted
    )
    (found,) = simulate(relay_handler, seeds=range(200), destinations=2, shrink_runs=0).failures
    assert found.invariant == "nothing_is_lost"
    with pytest.raises(ConfigurationError, match="destinations is 3; a whole number from 1 to 2 is needed"):
        simulate(relay_handler, seeds=[1], destinations=3)


def test_a_bus_that_is_gone_loses_events_of_whoever_does_not_look_for_it() -> None:
    """EventBridge answers 200 then. The fault is off unless it is asked for: no answer tells of it."""
    assert "target_vanishes" not in simulate(relay_handler, seeds=range(5)).faults
    report = simulate(made(HandWritten), seeds=range(50), faults=["target_vanishes"], shrink_runs=0)
    assert [failure.invariant for failure in report.failures] == ["nothing_is_lost"]
    assert set(report.faults) == {"target_vanishes"}


def test_a_bus_that_is_gone_loses_nothing_that_was_sent_later_than_a_minute_of_who_does() -> None:
    """What the bus took with it before that is told of, and nothing besides is lost."""
    report = simulate(relay_handler, seeds=range(60), faults=["target_vanishes"], shrink_runs=0)
    report.check()
    assert report.recoveries["target_vanishes", "lost unnoticed"] > 0
    assert report.recoveries["target_vanishes", "delivered again"] > 0


def test_a_failure_says_how_to_see_it_again() -> None:
    """With the arguments that it came with; those that are as usual are left out."""

    def again(**options: Any) -> str:
        report = simulate(made(EventIdAsIdentifier), seeds=ENOUGH, shrink_runs=0, **options)
        return report.failures[0].text.splitlines()[-1]

    plain = again()
    assert re.fullmatch(r"Again: simulate\(make_handler, seeds=\[\d+\]\), or run\(.*", plain)
    text = again(
        poison=False,
        ordered=False,
        destinations=2,
        faults=["reset_before"],
        without=["everything_ends"],
        settings={"parallelization_factor": 4, "batch_size": 5},
    )
    options = ", destinations=2, ordered=False, poison=False, faults=['reset_before'], without=['everything_ends']"
    options += ", settings={'parallelization': 4, 'batch_size': 5}"
    assert options in text
    asked = text.removeprefix("Again: ").partition(", or run")[0]
    names = {"simulate": simulate, "make_handler": made(EventIdAsIdentifier)}
    assert eval(asked, names).failures[0].text.splitlines()[-1] == text  # noqa: S307 -- it is what people paste


def test_faults_and_poison_can_be_chosen() -> None:
    """Only the kinds asked for strike, and without poison nothing is parked."""
    report = simulate(relay_handler, seeds=range(6), faults=["crash", "slow"], poison=False)
    assert set(report.faults) <= {"crash", "slow"}
    assert not any(how == "parked" for _, how in report.recoveries)


def test_unknown_names_are_refused() -> None:
    """A misspelt fault would never strike, a misspelt invariant never be left out."""
    for options in ({"faults": ["crush"]}, {"without": ["order"]}):
        with pytest.raises(ConfigurationError, match=r"there is no (crush|order); there are"):
            simulate(relay_handler, seeds=[1], **options)  # type: ignore[arg-type]  # one option at a time


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
    report = simulate(made(EventIdAsIdentifier), seeds=ENOUGH, shrink_runs=0)
    with pytest.raises(AssertionError) as caught:
        report.check()
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own
    assert isinstance(error, SimulationFailed)
    assert error.failure.scenario == report.failures[0].scenario
    assert str(error) == report.failures[0].text


def test_a_failure_that_does_not_happen_again_is_told_as_it_was() -> None:
    """A handler with a memory of its own outside of the world may be right at the second time; the failure stands.

    It says that this is so.
    """
    wrong = [True]

    def forgetful(world: FunctionWorld) -> Callable[[Any, Any], Any]:
        handler = made(EventIdAsIdentifier)(world) if wrong else relay_handler(world)

        def handled(event: Any, context: Any) -> Any:
            answer = handler(event, context)
            if answer["batchItemFailures"]:
                wrong.clear()
            return answer

        return handled

    (failure,) = simulate(forgetful, seeds=ENOUGH, shrink_runs=20).failures
    assert len(failure.scenario.writes) > 20
    assert failure.text.startswith(f"{failure.invariant}: ")
    assert "\n\nThis did not happen again when the same seed was run a second time: the handler keeps" in failure.text


def test_the_collector_of_garbage_looks_less_often_meanwhile_only() -> None:
    """Afterwards it is as it was, also after an error."""
    thresholds = [gc.get_threshold()]

    def make_handler(world: FunctionWorld) -> object:
        thresholds.append(gc.get_threshold())
        raise RuntimeError(world.destination)

    with pytest.raises(ConfigurationError):
        simulate(make_handler, seeds=[1])  # type: ignore[arg-type]  # it never returns
    assert gc.get_threshold() == thresholds[0]
    assert {during[0] > thresholds[0][0] for during in thresholds[1:]} == {True}


def test_a_world_is_gone_before_the_next_one_begins() -> None:
    """However many runs there are, no more than one of them is in memory."""
    clocks: list[weakref.ref[Any]] = []
    others: list[int] = []

    def make_handler(world: FunctionWorld) -> Callable[[Any, Any], Any]:
        mine: Any = world.clock
        alive = [clock for one in clocks if (clock := one()) is not None]
        others.append(sum(clock._kernel is not mine._kernel for clock in alive))
        clocks.append(weakref.ref(mine))
        return relay_handler(world)

    simulate(make_handler, seeds=range(6))
    assert len(others) >= 6
    assert set(others) == {0}


def test_a_report_names_every_seed_that_failed() -> None:
    """By invariant; of many the first."""
    scenario = generate(0)

    def failure(seed: int, invariant: str) -> Failure:
        return Failure(seed, (Violation(invariant, "words", ()),), scenario, "text")

    report = Report(failures=[failure(7, "loss"), failure(8, "order"), *(failure(n, "loss") for n in range(100, 130))])
    loss, order = str(report).splitlines()[-2:]
    assert loss.startswith("broken: loss, by 31 seeds: 7, 100, 101, ")
    assert loss.endswith(", 118, ...")
    assert order == "broken: order, by 1 seed: 8"


def test_a_report_counts_in_good_english() -> None:
    """One run is one run."""
    report = Report(events=[1], accepted=1, recoveries=Counter({("crash", "parked"): 1}))
    assert str(report).startswith("1 run, 1 event committed (median 1 a run), 1 acceptance, 1 fault, 0 failures")


@pytest.mark.parametrize("command", [["--seeds", "2"], ["--seeds", "2", "--first", "7", "--sweeper", "--operator"]])
def test_the_command(command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m` runs this library's relay and prints the report; its status says whether all is well."""
    monkeypatch.setattr(sys, "argv", ["simulation", *command])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dynamodb_outbox.testing.simulation", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("2 runs, ")


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ([], (relay_handler, None, False, None)),
        (["--sweeper", "--operator", "--consumer"], (relay_handler, sweeper_handler, True, consumer_handler)),
        (
            ["--handler", "wrong_relays:gate_removed", "--sweeper", "wrong_relays:poison_not_parked"],
            (gate_removed, poison_not_parked, False, None),
        ),
        (["--consumer", "wrong_relays:poison_not_parked"], (relay_handler, None, False, poison_not_parked)),
    ],
)
def test_the_command_runs_alone_what_is_asked_for(
    command: list[str], made: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `simulate` does; a sweeper and a consumer are this library's, or what is named."""
    given: list[tuple[Any, ...]] = []

    def simulate(make_handler: Any, *, sweeper: Any, operator: bool, consumer: Any, **_: Any) -> Report:
        given.append((make_handler, sweeper, operator, consumer))
        return Report()

    monkeypatch.setattr(runs, "simulate", simulate)
    monkeypatch.setattr(sys, "argv", ["simulation", *command])
    with pytest.raises(SystemExit):
        runpy.run_module("dynamodb_outbox.testing.simulation", run_name="__main__")
    assert given == [made]


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["--sweeper", "wrong_relays:nobody"], 2, "--sweeper wrong_relays:nobody: module 'wrong_relays' has no"),
        (["--handler", "wrong_relays:gate_removed", "--seed", "3", "--no-poison"], 0, "1 run, "),
        (["--handler", "wrong_relays:poison_not_parked", "--seed", "1"], 1, "\neverything_ends: F.1 is stuck"),
        (["--handler", "wrong_relays:nobody"], 2, "--handler wrong_relays:nobody: module 'wrong_relays' has no"),
        (["--handler", "no_such_module"], 2, "No module named 'no_such_module'"),
        (["--handler", ""], 2, "--handler : Empty module name; as in"),
        (["--seeds", "0"], 2, "simulate: seeds is empty: nothing would be run."),
        (["--seeds", "-5"], 2, "simulate: seeds is empty"),
    ],
)
def test_the_command_runs_other_relays(
    command: list[str], status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are named as module:function; what cannot be run is said, without a traceback."""
    monkeypatch.setattr(sys, "argv", ["simulation", *command])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dynamodb_outbox.testing.simulation", run_name="__main__")
    printed = capsys.readouterr()
    assert said in (printed.err if status == 2 else printed.out)
    assert ended.value.code == status
