"""Relays with one thing wrong are found by the simulation, and nothing is found in those with nothing wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hand_written import made
from wrong_answers import EventIdAsIdentifier
from wrong_consumers import WRONG_CONSUMERS
from wrong_relays import RIGHT, WRONG
from wrong_sweepers import WRONG_SWEEPERS

from dynamodb_outbox.adapters.dynamodb import DynamoStore
from dynamodb_outbox.core.commit import machine
from dynamodb_outbox.core.commit.answers import Lost, Refused
from dynamodb_outbox.core.commit.machine import CommitMachine
from dynamodb_outbox.core.eventsource import machine as shard_machine
from dynamodb_outbox.core.relay.progress import Progress
from dynamodb_outbox.core.relay.states import DONE, State
from dynamodb_outbox.errors import ConditionFailed
from dynamodb_outbox.outbox import Outbox
from dynamodb_outbox.testing.simulation import (
    INVARIANTS,
    SimulationFailed,
    relay_handler,
    run,
    simulate,
    source,
    sweeper_handler,
)
from dynamodb_outbox.testing.simulation.faults import USUAL
from dynamodb_outbox.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.core.commit.answers import Answer
    from dynamodb_outbox.core.commit.commands import Command
    from dynamodb_outbox.errors import CommitFailed
    from dynamodb_outbox.event import Event

pytestmark = pytest.mark.usefixtures("uncovered")

ENOUGH = range(500)
RIGHT_SEEDS = 30
"""Enough for what is rare: an item that is inserted for what was parked of another one comes in every 50th run."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_relay_is_found(name: str) -> None:
    """Within 500 seeds, by the invariant that is about what it does wrong."""
    make_handler, invariant = WRONG[name]
    only_this = INVARIANTS.keys() - {invariant}
    report = simulate(
        make_handler,
        seeds=ENOUGH,
        without=only_this,
        destinations=1 + ("destinations" in name),
        settings={"ordering": "key", "on_poison": "park_key"} if "parked keys" in name else {},
        faults=["target_vanishes"] if "vanishes" in name else USUAL,
        shrink_runs=0,
    )
    assert [failure.invariant for failure in report.failures] == [invariant]


def children_before_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the event source read all shards side by side."""
    monkeypatch.setattr(
        source, "readable", lambda parents, finished, *_: [one for one in parents if one not in finished]
    )


def lost_answers_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writing side take a lost answer for a refusal."""
    transact = DynamoStore.transact

    def refused(self: DynamoStore, request: Mapping[str, Any]) -> Answer:
        answer = transact(self, request)
        return Refused(answer.detail) if isinstance(answer, Lost) else answer

    monkeypatch.setattr(DynamoStore, "transact", refused)


def commands_have_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers forget the key of a command."""
    transaction = Outbox.transaction
    monkeypatch.setattr(Outbox, "transaction", lambda self, **_: transaction(self))


def only_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction drop all events after its first."""
    emit = Transaction.emit

    def emit_once(self: Transaction, *event: Any, **more: Any) -> Event:
        first = self.__dict__.get("first_event")
        if first is None:
            first = self.__dict__["first_event"] = emit(self, *event, **more)
        return first

    monkeypatch.setattr(Transaction, "emit", emit_once)


def events_without_their_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction drop its changes."""
    monkeypatch.setattr(Transaction, "put", lambda *_, **__: None)
    monkeypatch.setattr(Transaction, "update", lambda *_, **__: None)


def the_guard_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command whose change was made by an earlier run fail at its conditions, and not look at its guard."""
    judge = CommitMachine._judge

    def hasty(self: CommitMachine, error: CommitFailed, now_ms: int, **more: bool) -> Command:
        if isinstance(error, ConditionFailed) and self._doubt is None:
            return self._fail(error)
        return judge(self, error, now_ms, **more)

    monkeypatch.setattr(CommitMachine, "_judge", hasty)


def ids_of_the_wrong_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command that is repeated get a receipt with ids that were made for the repetition."""
    monkeypatch.setattr(machine, "guard_verdict", lambda _, plan, __: plan.receipt)


def gaps_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the event source go on after what was trimmed as if nothing had been there."""
    monkeypatch.setattr(source.Source, "_lost", lambda *_: None)


def what_waits_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the relay leave out of its answer what waited for a request to travel in."""

    def lowest(self: Progress) -> int | None:
        done = {*DONE, State.READY}
        return next((entry.record for n, entry in enumerate(self._entries) if self._states[n] not in done), None)

    monkeypatch.setattr(Progress, "lowest", lowest)


def lanes_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the event source give the changes of an item to several lanes."""
    monkeypatch.setattr(shard_machine, "lane_of", lambda record, lanes: record.number % lanes)


PARTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    children_before_parents: "order_per_key",
    lost_answers_are_failures: "writers_know_the_truth",
    commands_have_no_guard: "commands_commit_once",
    only_the_first_event: "committed_as_intended",
    events_without_their_change: "committed_as_intended",
    the_guard_is_not_read: "writers_know_the_truth",
    ids_of_the_wrong_run: "writers_know_the_truth",
    gaps_in_silence: "nothing_is_lost",
    what_waits_is_forgotten: "checkpoint_follows_done",
    lanes_by_number: "items_in_order",
}


@pytest.mark.parametrize("damage", PARTS)
def test_a_damaged_part_around_the_relay_is_found(
    damage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay is right, and what stands before it is not."""
    damage(monkeypatch)
    invariant = PARTS[damage]
    report = simulate(relay_handler, seeds=ENOUGH, without=INVARIANTS.keys() - {invariant}, shrink_runs=0)
    assert [failure.invariant for failure in report.failures] == [invariant]


@pytest.mark.parametrize("damage", WRONG_SWEEPERS)
def test_a_wrong_sweeper_is_found(
    damage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a relay that is right, within 500 seeds."""
    damage(monkeypatch)
    invariant = WRONG_SWEEPERS[damage]
    report = simulate(
        relay_handler,
        sweeper=sweeper_handler,
        seeds=ENOUGH,
        without=INVARIANTS.keys() - {invariant},
        shrink_runs=0,
    )
    assert [failure.invariant for failure in report.failures] == [invariant]


def test_every_invariant_has_found_something() -> None:
    """None of them is there for show."""
    wrong = (*WRONG.values(), *WRONG_CONSUMERS.values())
    found = {invariant for _, invariant in wrong} | {*PARTS.values(), *WRONG_SWEEPERS.values()}
    assert found == INVARIANTS.keys()


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_relay_is_not(name: str) -> None:
    """So what is found in the others is what is wrong with them, and not the way in which they are written."""
    report = simulate(RIGHT[name], seeds=range(RIGHT_SEEDS))
    report.check()
    assert report.runs == RIGHT_SEEDS


def test_a_failure_is_told_by_its_smallest_scenario() -> None:
    """It takes one write and one fault to see what is wrong; the story is short, and happens again exactly so."""
    make_handler = made(EventIdAsIdentifier)
    report = simulate(make_handler, seeds=ENOUGH, faults=["access_denied"], poison=False)
    with pytest.raises(SimulationFailed) as caught:
        report.check()
    failure = caught.value.failure
    scenario = failure.scenario
    assert (len(scenario.writes), len(scenario.faults)) == (1, 1)
    assert failure.invariant == "answers_name_the_batch"
    assert all(part in str(caught.value) for part in (failure.invariant, str(scenario), "\n> "))
    assert len(str(caught.value).splitlines()) < 60
    assert run(scenario, make_handler) == run(scenario, make_handler)
