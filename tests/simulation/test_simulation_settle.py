"""Each way of settling in the simulation: a park that fails holds the stream, and what is gone is not written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from dynamodb_outbox.choices import Settle
from dynamodb_outbox.testing.simulation import Scenario, check, relay_handler, run
from dynamodb_outbox.testing.simulation.facts import Checkpointed, Faulted, Invoked, Moved, Written
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from dynamodb_outbox.testing.simulation.facts import Fact

each_way = pytest.mark.parametrize("settle", get_args(Settle))
PUBLISHED = {"expire": 2, "mark": 2, "delete": 2, "none": 0}


def ran(settle: Settle, *faults: PlannedFault, relay_settle: Settle | None = None) -> list[Fact]:
    """Run three changes, the event of the second one poison; nothing may be violated."""
    scenario = Scenario(
        seed=1,
        settings=Settings(settle=settle, relay_settle=relay_settle or settle),
        writes=tuple(
            Write(at_ms=at_ms, writer="writer-1", change=change, keys=("A",), poison=(0,) if change == "b" else ())
            for at_ms, change in ((1_000, "a"), (1_100, "b"), (1_200, "c"))
        ),
        faults=faults,
        faults_until_ms=60_000,
    )
    facts = run(scenario, relay_handler)
    assert check(facts, scenario.terms) == []
    return facts


def moves(facts: list[Fact], state: str) -> list[int]:
    """Return where in the ledger records became that."""
    return [place for place, fact in enumerate(facts) if isinstance(fact, Moved) and fact.state == state]


@each_way
def test_a_park_that_fails_holds_the_stream(settle: Settle) -> None:
    """Nothing after it is passed, the batch is delivered again, and the record is parked once."""
    facts = ran(settle, PlannedFault("park_throttled", 0, times=20))
    assert sum(isinstance(fact, Faulted) for fact in facts) == 20
    (parked,) = moves(facts, "parked")
    assert sum(isinstance(fact, Invoked) for fact in facts[:parked]) > 1
    record = next(fact for fact in facts if isinstance(fact, Moved) and fact.state == "parked").record
    place = next(int(fact.number) for fact in facts if isinstance(fact, Written) and fact.item == record)
    passed = [fact for fact in facts[:parked] if isinstance(fact, Checkpointed) and int(fact.number) >= place]
    assert passed == []
    assert len(moves(facts, "published")) == PUBLISHED[settle]


@each_way
@pytest.mark.parametrize("relay", get_args(Settle))
def test_the_record_is_obeyed_whatever_the_relay_was_told(settle: Settle, relay: Settle) -> None:
    """Each pair of ways, as in the middle of a deployment."""
    facts = ran(settle, relay_settle=relay)
    assert len(moves(facts, "published")) == PUBLISHED[settle]
    assert len(moves(facts, "parked")) == 1
    gone = {fact.gone for fact in facts if isinstance(fact, Moved) and fact.state == "published"}
    assert gone == ({settle == "delete"} if PUBLISHED[settle] else set())


@each_way
def test_a_settle_whose_answer_is_lost_makes_nothing_again(settle: Settle) -> None:
    """Deleted records stay so, and the others are as after the first settle."""
    facts = ran(settle, PlannedFault("settle_lost_after", 0, times=5))
    assert len(moves(facts, "published")) == PUBLISHED[settle]
    written = [fact for fact in facts if isinstance(fact, Written) and fact.item[1].startswith("OUTBOX#")]
    kinds = [fact.kind for fact in written]
    assert kinds.count("INSERT") == 3
    assert kinds.count("MODIFY") == (3 if settle in ("expire", "mark") else 1)
