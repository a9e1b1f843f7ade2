"""What nobody can send, and what comes from elsewhere: in the table, in the stream, and in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest
from wrong_relays import RIGHT

from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.sinks import EventBridge
from dynamodb_outbox.testing.simulation import Scenario, check, relay_handler, run
from dynamodb_outbox.testing.simulation.facts import Accepted, Committed, Intended, Left, Moved, Rejected, Told, Written
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.scenario import Settings, generate
from dynamodb_outbox.testing.simulation.unfit import BY_HAND, Amiss, row
from dynamodb_outbox.testing.simulation.world import LAYOUT
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from dynamodb_outbox.testing.simulation.facts import Fact

UNFIT: tuple[Amiss, ...] = tuple(one for one in get_args(Amiss) if one != "refused")


def scenario(amiss: Amiss, *faults: PlannedFault, keys: tuple[str, ...] = ("A",), poison: int = 0) -> Scenario:
    """Return a scenario of three changes, of which something is amiss with the second one."""
    plain = Write(at_ms=1_000, writer="writer-1", change="a", keys=("A",))
    second = replace(plain, at_ms=1_100, change="b", keys=keys, poison=(poison,), amiss=amiss)
    return Scenario(
        seed=1,
        settings=Settings(),
        writes=(plain, second, replace(plain, at_ms=1_200, change="c")),
        faults=faults,
        faults_until_ms=60_000,
    )


def states(facts: list[Fact]) -> list[str]:
    """Return the states of records that are left, those of which nothing stands for another."""
    (left,) = (fact for fact in facts if isinstance(fact, Left))
    return sorted(one.state for one in left.records)


@pytest.mark.parametrize("amiss", UNFIT)
@pytest.mark.parametrize("name", RIGHT)
def test_what_nobody_can_send_is_parked_unsent(amiss: Amiss, name: str) -> None:
    """Its key goes on after it; a record that has no room for the marks of a parked one is parked beside itself."""
    given = scenario(amiss)
    facts = run(given, RIGHT[name])
    assert check(facts, given.terms) == []
    assert sum(isinstance(fact, Accepted) for fact in facts) == 2
    assert not any(isinstance(fact, Rejected) for fact in facts)
    apart = ["pending"] if amiss == "taken column" else []
    assert states(facts) == ["parked", *apart, "published", "published"]
    (parked,) = (fact for fact in facts if isinstance(fact, Moved) and fact.state == "parked")
    assert parked.record in {record for fact in facts if isinstance(fact, Committed) for record, _ in fact.records}


def test_of_several_events_the_one_that_cannot_be_sent_is_parked() -> None:
    """The others of its record are published, in order."""
    given = scenario("wide", keys=("A", "A", "A"), poison=1)
    facts = run(given, relay_handler)
    assert check(facts, given.terms) == []
    assert sum(isinstance(fact, Accepted) for fact in facts) == 4
    (parked,) = (fact for fact in facts if isinstance(fact, Moved) and fact.state == "parked")
    assert parked.events == frozenset("1")


def test_rows_by_hand_are_as_their_names_say() -> None:
    """Most of them cannot be read; one can, and not be sent."""
    for amiss in BY_HAND:
        item = row(LAYOUT, "A", "c1", amiss)
        if amiss == "long type":
            (one,) = decode(item, LAYOUT, source="shop").events
            fault = EventBridge("orders").prepare(one)
            assert isinstance(fault, Fault)
            assert (fault.kind, fault.code) == (Kind.CONTENT, "TypeTooLong")
        else:
            with pytest.raises(InvalidRecord):
                decode(item, LAYOUT, source="shop")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (PlannedFault("commit_lost_after", 1_050), ["committed"]),
        (PlannedFault("commit_lost_before", 1_050), ["committed"]),
        (PlannedFault("commit_lost_after", 1_050, times=3), ["unknown"]),
        (PlannedFault("commit_throttled", 1_050, times=3), ["failed"]),
        (PlannedFault("commit_conflict", 1_050), ["committed"]),
        (PlannedFault("writer_crash", 1_050), ["died"]),
    ],
)
def test_a_writer_by_hand_asks_again_with_its_token(fault: PlannedFault, told: list[str]) -> None:
    """So it writes once, and knows what it can know."""
    given = scenario("no time", fault)
    facts = run(given, relay_handler)
    assert check(facts, given.terms) == []
    assert [fact.outcome for fact in facts if isinstance(fact, Told) and fact.change == "b"] == told
    assert sum(isinstance(fact, Committed) and fact.change == "b" for fact in facts) <= 1
    (meant,) = (fact for fact in facts if isinstance(fact, Intended) and fact.change == "b")
    assert meant.unfit == {0}


def test_something_is_amiss_in_every_way_and_often_enough() -> None:
    """At least fifty times in two thousand seeds; rows by hand are single, and no commands."""
    writes = [write for seed in range(500) for write in generate(seed).writes if write.poison]
    found = Counter(write.amiss for write in writes)
    assert found.keys() == set(get_args(Amiss))
    assert min(found.values()) * 4 >= 50
    assert found["refused"] > sum(found.values()) / 2
    assert not any(write.by_hand and (write.command or len(write.keys) > 1) for write in writes)


def test_records_of_other_regions_come_in_and_are_nobody_s_here() -> None:
    """Beside those of a partition, or alone; they are pending in the end, and none of them was published."""
    given = scenario("refused", PlannedFault("replicated", 100), PlannedFault("replicated", 5_000))
    facts = run(given, relay_handler)
    assert check(facts, given.terms) == []
    inserted = [fact.item for fact in facts if isinstance(fact, Written) and fact.by == "us-east-1"]
    assert len(inserted) == 2
    assert states(facts) == ["parked", "pending", "pending", "published", "published"]
    assert sum(isinstance(fact, Accepted) for fact in facts) == 2
