"""An operator in the simulated world: what is parked is redriven and discarded, what was given up is published."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from simulation_ground import ground

from dynamodb_outbox.testing.simulation import Scenario, check, generate, relay_handler, run, simulate
from dynamodb_outbox.testing.simulation.facts import Accepted, Answered, Discarded, Ended, Moved, Operated, Raised
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.on_failure import Message, OnFailure, QueueClient
from dynamodb_outbox.testing.simulation.recovery import OPERATOR, Does, Operation
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.timeline import timeline
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from dynamodb_outbox.testing.simulation.facts import Fact

PARKED: Does = "redrives what is parked"
DISCARD: Does = "discards what is parked"
GIVEN_UP: Does = "redrives what was given up"
REFUSES = PlannedFault("content_refused", 0, amount_ms=8_000)
DOWN = PlannedFault("missing_target", 0, amount_ms=20_000)


def a_day(*operations: Operation, faults: tuple[PlannedFault, ...], **settings: Any) -> Scenario:
    """Return a scenario of four changes, a second apart."""
    return Scenario(
        seed=1,
        settings=Settings(**settings),
        writes=tuple(Write(at_ms=1_000 * n, writer="writer-1", change=f"c{n}", keys=("AB"[n % 2],)) for n in range(4)),
        faults=faults,
        faults_until_ms=60_000,
        operations=operations,
    )


def ran(scenario: Scenario) -> list[Fact]:
    """Run a scenario in which nothing may be violated."""
    facts = run(scenario, relay_handler)
    assert check(facts, scenario.terms) == []
    return facts


def moved(facts: list[Fact], state: str) -> list[int]:
    """Return who moved records to a state: invocations."""
    return [fact.invocation for fact in facts if isinstance(fact, Moved) and fact.state == state]


def accepted(facts: list[Fact]) -> set[str]:
    """Return the events that were accepted."""
    return {fact.event_id for fact in facts if isinstance(fact, Accepted)}


def test_what_is_parked_is_redriven() -> None:
    """What a bus had refused for a while is accepted in the end, and settled by whoever redrove it."""
    facts = ran(a_day(Operation(30_000, PARKED), faults=(REFUSES,)))
    assert len(moved(facts, "parked")) == 4
    assert len(accepted(facts)) == 4
    (operated,) = [fact for fact in facts if isinstance(fact, Operated)]
    assert moved(facts, "published") == [operated.invocation] * 4


def test_a_key_that_was_parked_goes_on() -> None:
    """When nothing of it is parked any more; what follows is the relay's again."""
    scenario = a_day(Operation(30_000, PARKED), faults=(REFUSES,), on_poison="park_key")
    late = Write(at_ms=50_000, writer="writer-1", change="late", keys=("A",))
    facts = ran(replace(scenario, writes=(*scenario.writes, late)))
    assert len(moved(facts, "parked")) == 4
    assert len(accepted(facts)) == 5
    assert max(fact.invocation for fact in facts if isinstance(fact, Accepted) and fact.at_ms > 50_000) < 1_000_000


def test_what_is_refused_again_stays_parked() -> None:
    """Each time it is redriven, and counted."""
    facts = ran(a_day(Operation(6_000, PARKED), Operation(7_000, PARKED), faults=(REFUSES,)))
    assert len(moved(facts, "parked")) == 4
    assert accepted(facts) == set()


def test_what_is_discarded_is_done() -> None:
    """One each time; where nothing is parked nothing is done."""
    facts = ran(
        a_day(Operation(100, DISCARD), Operation(30_000, DISCARD), Operation(31_000, DISCARD), faults=(REFUSES,))
    )
    assert len(moved(facts, "discarded")) == 2
    assert "nothing is parked" in [fact.answer for fact in facts if isinstance(fact, Answered)]


@pytest.mark.parametrize("of", ["bucket", "queue"])
def test_what_was_given_up_is_redriven(of: Literal["bucket", "queue"]) -> None:
    """From the payload of objects, or by the numbers that messages have, from the stream."""
    scenario = a_day(Operation(200_000, GIVEN_UP, of), faults=(DOWN,), retries=0, ordering="none")
    assert scenario.terms.redriven
    facts = ran(scenario)
    assert any(isinstance(fact, Discarded) for fact in facts)
    assert len(accepted(facts)) == 4
    assert not any(isinstance(fact, Raised) for fact in facts)


def test_what_nobody_redrives_is_lost() -> None:
    """Where an operator is to do it, and does not find it: that is a violation."""
    scenario = a_day(Operation(200_000, GIVEN_UP, "bucket"), faults=(DOWN,), retries=0, ordering="none")
    facts = [fact for fact in run(scenario, relay_handler) if not isinstance(fact, (Accepted, Moved))]
    assert "nothing_is_lost" in {violation.invariant for violation in check(facts, scenario.terms)}


def test_what_the_stream_has_trimmed_is_told_and_nobody_dies() -> None:
    """A queue has no payload: the numbers lead nowhere any more."""
    scenario = a_day(
        Operation(200_000, GIVEN_UP, "queue"), faults=(DOWN,), retries=0, ordering="none", retention_ms=1_000
    )
    facts = ran(scenario)
    (said,) = [fact.answer for fact in facts if isinstance(fact, Answered) and fact.invocation > 2_000_000]
    assert "trimmed" in said


def test_an_operator_dies_and_meets_an_outage() -> None:
    """It is as if it had not begun, or half of it is done; nothing is violated, and the next one goes on."""
    crash = PlannedFault("recovery_crash", 0, OPERATOR, nth=9)
    facts = ran(a_day(Operation(20_000, PARKED), Operation(40_000, PARKED), faults=(REFUSES, crash)))
    assert [fact.invocation for fact in facts if isinstance(fact, Ended)] == [2_000_001]
    assert len(accepted(facts)) == 4
    outage = PlannedFault("outage", 19_000, "table", amount_ms=30_000)
    facts = ran(a_day(Operation(20_000, PARKED), faults=(REFUSES, outage)))
    (raised,) = [fact for fact in facts if isinstance(fact, Raised)]
    assert raised.error.startswith("TableUnavailable")
    assert "operator#1" in timeline(facts, a_day(faults=()).terms, most=10_000)


def test_messages_are_hidden_until_they_are_deleted_or_let_go() -> None:
    """As a queue does it: what is not deleted comes again."""
    with ground() as world:
        kept = OnFailure(world.kernel)
        client = QueueClient(world.network, world.process(), kept)
        kept.messages += [Message("a", "{}"), Message("b", "{}")]

        def receive() -> list[dict[str, Any]]:
            request = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 60}
            found: list[dict[str, Any]] = client.receive_message(**request)["Messages"]
            return found

        def body() -> list[int]:
            first = receive()
            counts = [len(first), len(receive())]
            client.delete_message_batch(Entries=[{"Id": "0", "ReceiptHandle": first[0]["ReceiptHandle"]}])
            let_go = {"Id": "0", "ReceiptHandle": first[1]["ReceiptHandle"], "VisibilityTimeout": 0}
            client.change_message_visibility_batch(Entries=[let_go])
            return [*counts, len(receive())]

        assert world.run(body) == [[2, 0, 1]]


def test_an_operator_comes_in_some_of_the_seeds_where_one_is_asked_for() -> None:
    """In half of those the mapping gives up, so that there is something to redrive."""
    some = [one for one in (generate(seed, operator=True) for seed in range(300)) if one.operations]
    assert 25 < len(some) < 70
    assert len([one for one in some if one.settings.retries >= 0]) > len(some) // 3
    assert {one.does for scenario in some for one in scenario.operations} == {PARKED, DISCARD, GIVEN_UP}
    assert {one.of for scenario in some for one in scenario.operations} == {"", "bucket", "queue"}
    assert all("an operator " in str(one) for one in some)


def test_what_an_operator_does_is_made_smaller_too() -> None:
    """A failure in which it has no part is told without it."""
    seed = next(seed for seed in range(99) if generate(seed, operator=True).operations)
    report = simulate(lambda _: lambda *_: None, operator=True, seeds=[seed], shrink_runs=60)
    (failure,) = report.failures
    assert "operator=True" in failure.text
    assert len(failure.scenario.operations) <= 1
