"""Consumers in the simulated world: what is delivered and applied, and what is found in wrong ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from wrong_consumers import RIGHT_CONSUMERS, WRONG_CONSUMERS, ByHand, by_hand

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import (
    INVARIANTS,
    NotSimulated,
    Scenario,
    SimulationFailed,
    check,
    consumer_handler,
    generate,
    relay_handler,
    run,
    simulate,
)
from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Acknowledged, Applied, Delivered, Queued
from dynamodb_outbox.testing.simulation.facts import Accepted, Faulted
from dynamodb_outbox.testing.simulation.faults import CONSUMED, PlannedFault
from dynamodb_outbox.testing.simulation.history import history
from dynamodb_outbox.testing.simulation.recoveries import recoveries
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.timeline import timeline
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox import Event
    from dynamodb_outbox.testing.simulation import ConsumerWorld
    from dynamodb_outbox.testing.simulation.facts import Fact

    Handler = Callable[[Any, Any], Any]

CONSUMED_SEEDS = [seed for seed in range(500) if generate(seed).settings.consumers]
"""Those of the first 500 in which there is a consumer: in the others nothing of a wrong one is to be seen."""
RIGHT_SEEDS = 12
DONE: dict[str, Any] = {"batchItemFailures": []}


@pytest.mark.usefixtures("uncovered")
@pytest.mark.parametrize("name", WRONG_CONSUMERS)
def test_a_wrong_consumer_is_found(name: str) -> None:
    """Within 500 seeds, by the invariant that is about what it does wrong."""
    consumer, invariant = WRONG_CONSUMERS[name]
    others = INVARIANTS.keys() - {invariant}
    report = simulate(relay_handler, consumer=consumer, seeds=CONSUMED_SEEDS, without=others, shrink_runs=0)
    assert [failure.invariant for failure in report.failures] == [invariant]


@pytest.mark.usefixtures("uncovered")
@pytest.mark.parametrize("name", RIGHT_CONSUMERS)
def test_a_right_consumer_is_not(name: str) -> None:
    """So what is found in the others is what is wrong with them."""
    seeds = CONSUMED_SEEDS[-RIGHT_SEEDS:]
    simulate(relay_handler, consumer=RIGHT_CONSUMERS[name], seeds=seeds).check()


@pytest.mark.parametrize("seed", CONSUMED_SEEDS[:2])
def test_a_seed_with_a_consumer_is_a_run(seed: int) -> None:
    """The same seed gives the same ledger, to the last fact; the relay's part of it is that without a consumer."""
    first = run(generate(seed), relay_handler, consumer=consumer_handler)
    assert run(generate(seed), relay_handler, consumer=consumer_handler) == first
    accepted = [fact.event_id for fact in first if isinstance(fact, Accepted)]
    assert accepted
    assert {event for fact in first if isinstance(fact, Queued) for event in fact.events} == set(accepted)


def test_a_consumer_is_there_in_a_fifth_of_the_runs() -> None:
    """With faults of its own; without one a scenario has neither, and nothing else of it is another one."""
    assert 80 <= len(CONSUMED_SEEDS) <= 120
    kinds = Counter(fault.kind for seed in CONSUMED_SEEDS for fault in generate(seed).faults)
    assert min(kinds[kind] for kind in CONSUMED) > 20
    with_one = generate(CONSUMED_SEEDS[0])
    without = generate(CONSUMED_SEEDS[0], consumers=0)
    assert without.settings == replace(with_one.settings, consumers=0)
    theirs = [fault for fault in with_one.faults if fault.kind in CONSUMED or fault.where == CONSUMER]
    assert without.faults == tuple(fault for fault in with_one.faults if fault not in theirs)
    assert not {fault.kind for seed in range(50) for fault in generate(seed, consumers=0).faults} & CONSUMED


def test_a_consumer_has_to_be_given() -> None:
    """Users' relays run alone unless they say otherwise; a number of consumers without one is a mistake."""
    seed = CONSUMED_SEEDS[0]
    seen: list[Any] = []

    def make_consumer(world: ConsumerWorld) -> Handler:
        seen.append(world)
        return lambda *_: DONE

    simulate(relay_handler, seeds=[seed]).check()
    assert not seen
    with pytest.raises(ConfigurationError, match=r"it takes a consumer, consumer=\.\.\."):
        simulate(relay_handler, seeds=[seed], settings={"consumers": 2})
    report = simulate(relay_handler, consumer=make_consumer, seeds=[seed], shrink_runs=0)
    with pytest.raises(SimulationFailed, match="consumer=make_consumer") as caught:
        report.check()
    assert "or run(failure.scenario, make_handler, consumer=make_consumer)." in str(caught.value)
    assert seen[0].client("dynamodb").meta.region_name == "eu-west-1"


def test_what_is_no_consumer_is_refused() -> None:
    """As what is no relay: a handler in the place of what makes it, nothing, and what another process cannot find."""
    settings = {"consumers": 1}

    def a_handler(event: Any, context: Any) -> Any:
        return event, context

    def nothing(_: ConsumerWorld) -> None: ...

    wrongs: tuple[tuple[Any, str], ...] = (
        (a_handler, r"simulate\(consumer=lambda world: "),
        (nothing, r"consumer\(world\) returned nothing"),
    )
    for wrong, words in wrongs:
        with pytest.raises(ConfigurationError, match=words):
            simulate(relay_handler, consumer=wrong, seeds=[0], settings=settings)
    with pytest.raises(ConfigurationError, match="other processes find consumer by its name"):
        simulate(relay_handler, consumer=by_hand(ByHand), seeds=[0], processes=2)
    with pytest.raises(NotSimulated, match="no service 'events' is simulated"):
        simulate(relay_handler, consumer=lambda world: world.client("events"), seeds=[0], settings=settings)


# --- one thing at a time ----------------------------------------------------------------------------------------------


def scenario(*faults: PlannedFault, changes: int = 1, consumers: int = 2, seed: int = 1) -> Scenario:
    """Return a day on which so many events are written, a second apart."""
    writes = [Write(at_ms=10_000 + 1_000 * n, writer="writer-1", change=f"c{n}", keys=("A",)) for n in range(changes)]
    return Scenario(
        seed=seed,
        settings=Settings(consumers=consumers),
        writes=tuple(writes),
        faults=faults,
        faults_until_ms=120_000,
    )


def ran(one: Scenario, consumer: Callable[[ConsumerWorld], Handler] = consumer_handler) -> list[Fact]:
    """Run a day, which breaks nothing."""
    facts = run(one, relay_handler, consumer=consumer)
    assert check(facts, one.terms) == []
    return facts


def of_kind(facts: list[Fact], *kinds: type[Fact]) -> list[Any]:
    """Return the facts of some kinds."""
    return [fact for fact in facts if isinstance(fact, kinds)]


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("consumer_crash", "delivered again"),
        ("apply_lost_before", "in the invocation"),
        ("apply_lost_after", "in the invocation"),
        ("apply_conflict", "in the invocation"),
        ("apply_throttled", "in the invocation"),
        ("message_again", "delivered again"),
        ("message_late", "read on"),
        ("clock_skew", "in the invocation"),
    ],
)
def test_each_fault_strikes_and_is_recovered_from(kind: str, how: str) -> None:
    """And the report says how."""
    where = "consumer" if kind == "clock_skew" else ""
    one = scenario(PlannedFault(kind, 0, where, amount_ms=0 if kind.startswith("apply") else 5_000, nth=2))
    of = history(ran(one), one.terms)
    assert recoveries(of) == {(kind, how): 1}


def test_what_strikes_after_the_effect_has_nothing_open() -> None:
    """A process that dies before it answers leaves a message that comes again, and is a duplicate."""
    one = scenario(PlannedFault("consumer_crash", 0, nth=4), seed=4)
    facts = ran(one)
    assert recoveries(history(facts, one.terms)) == {("consumer_crash", "nothing was open"): 1}
    assert len(of_kind(facts, Delivered)) == 2
    assert len(of_kind(facts, Applied)) == 1


def test_who_stands_still_goes_on_when_others_have_done_the_work() -> None:
    """The message is handed to another instance meanwhile; what the first one sends then has no effect."""
    one = scenario(PlannedFault("consumer_frozen", 0, amount_ms=18_000, nth=2))
    facts = ran(one)
    first, second, *_ = of_kind(facts, Delivered)
    (applied,) = of_kind(facts, Applied)
    assert first.messages == second.messages
    assert first.instance != second.instance
    assert applied.invocation == second.invocation
    late = [fact for fact in facts if getattr(fact, "invocation", 0) == first.invocation and fact.at_ms > applied.at_ms]
    assert late


def test_a_consumer_that_is_gone_for_good_is_found_by_its_messages() -> None:
    """They come again until the end, and the story says which."""
    one = scenario()

    def make_consumer(_: ConsumerWorld) -> Handler:
        def handler(*_: Any) -> None:
            raise ValueError("no")

        return handler

    facts = run(one, relay_handler, consumer=make_consumer)
    broken = {violation.invariant: violation for violation in check(facts, one.terms)}
    assert broken.keys() == {"applied_in_the_end", "acknowledged_in_the_end"}
    assert broken["acknowledged_in_the_end"].words.startswith("m1 with A.1 is delivered again and again")
    told = timeline(facts, one.terms, marked=broken["applied_in_the_end"].facts)
    for words in ("queue                  has m1 with A.1 on its way", "consumer delivery 1", "ValueError: no"):
        assert words in told
    assert re.search(r"consumer               [0-9]+ more deliveries \(4 to [0-9]+\) ended the same way", told)
    assert len(told.splitlines()) < 60


def test_a_story_is_about_the_messages_of_its_events() -> None:
    """Of a long run those deliveries are told that had the event, and what became of it."""
    one = scenario(PlannedFault("message_again", 0), changes=12)
    facts = ran(one)
    (again,) = [fact for fact in of_kind(facts, Queued) if fact.again]
    told = timeline(facts, one.terms, marked=[again], most=30)
    name = history(facts, one.terms).name(again.events[0])
    assert f"gives {again.message} with {name} again, though it was acknowledged" in told
    assert f"forgets {again.message} with {name}, by delivery " in told
    assert f"has the effect of {name} and an event that tells of {name}, by delivery " in told
    assert "more facts are not shown" in told
    assert "FAULT                  message_again at consumer" in told


def test_an_acknowledgement_that_comes_too_late_counts_for_nothing() -> None:
    """A message that was handed out once more by then is not deleted: it comes again."""
    one = scenario(PlannedFault("consumer_frozen", 0, amount_ms=13_000, nth=4), seed=4)
    facts = ran(one)
    (frozen,) = of_kind(facts, Faulted)
    answered = [fact for fact in of_kind(facts, Acknowledged) if fact.invocation == frozen.invocation]
    assert len(of_kind(facts, Delivered)) == 2
    assert not answered


def test_a_table_that_is_gone_for_a_while_is_tried_until_it_is_back() -> None:
    """The message comes again and again, and is applied then."""
    one = scenario(PlannedFault("outage", 0, CONSUMER, amount_ms=60_000))
    facts = ran(one)
    assert len(of_kind(facts, Delivered)) > 3
    (applied,) = of_kind(facts, Applied)
    assert applied.at_ms > 60_000
    assert {fact.where for fact in of_kind(facts, Faulted)} == {CONSUMER}


def test_a_message_may_come_again_long_after_it_was_acknowledged() -> None:
    """By then TTL has deleted what was kept for less; the memory of an inbox is there."""
    one = scenario(PlannedFault("message_again", 0, amount_ms=300_000))
    seen: list[int] = []

    class Remembering(ByHand):
        def apply(self, event: Event, record: Mapping[str, Any]) -> None:
            super().apply(event, record)
            for place, kept_s in enumerate((120, 600)):
                expires = {"N": str(self.world.clock.now_ms() // 1_000 + kept_s)}
                item = {"pk": {"S": "X"}, "sk": {"S": str(place)}, self.world.layout.ttl: expires}
                self.client.put_item(TableName=self.world.table, Item=item)

        def is_remembered(self, memory: Mapping[str, str]) -> bool:
            keys = [{"pk": {"S": "X"}, "sk": {"S": place}} for place in "01"]
            asked = [{"TableName": self.world.table, "Key": key, "ConsistentRead": True} for key in keys]
            seen.append(sum("Item" in self.client.get_item(**one) for one in asked))
            return super().is_remembered(memory)

    facts = ran(one, by_hand(Remembering))
    first, *_, last = of_kind(facts, Delivered)
    assert last.at_ms > first.at_ms + 300_000
    assert seen == [0, 1]
    assert len(of_kind(facts, Applied)) == 1


def test_what_the_function_is_handed_is_what_lambda_hands_over() -> None:
    """Records of a queue, whose body is EventBridge's object, whose detail is the CloudEvent."""
    batches: list[Any] = []

    def make_consumer(_: ConsumerWorld) -> Handler:
        def handler(event: Any, _: Any) -> Any:
            batches.append(event)
            return DONE

        return handler

    run(scenario(), relay_handler, consumer=make_consumer)
    (record,) = batches[0]["Records"]
    assert record["eventSource"] == "aws:sqs"
    assert record["receiptHandle"] == f"{record['messageId']}/1"
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    body = json.loads(record["body"])
    assert body.keys() >= {"version", "id", "detail-type", "source", "account", "time", "region", "resources"}
    assert body["time"].startswith("2026-01-31T12:00:1")
    assert body["detail"]["specversion"] == "1.0"
    assert body["detail"]["data"] == {"change": "c0", "n": 0}


def test_the_table_of_a_consumer_takes_single_writes_too() -> None:
    """As a consumer by hand makes them; another table is not there; what is read may be what was."""
    seen: list[Any] = []
    lagging: list[dict[str, Any]] = []

    class Single(ByHand):
        def handler(self, batch: Any, context: Any) -> dict[str, Any]:
            key = {"pk": {"S": "X"}, "sk": {"S": "META"}}
            at = {"TableName": self.world.table}
            self.client.put_item(**at, Item={**key, "n": {"N": "1"}})
            update = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "2"}}}
            self.client.update_item(**at, Key=key, **update)
            lagging.extend(self.client.get_item(**at, Key=key) for _ in range(20))
            asked = {**at, "Key": key, "ConsistentRead": True}
            seen.append(self.client.get_item(**asked)["Item"]["n"])
            self.client.delete_item(**at, Key=key)
            seen.append(self.client.get_item(**asked))
            with pytest.raises(self.client.exceptions.ResourceNotFoundException):
                self.client.get_item(TableName="orders", Key=key)
            return super().handler(batch, context)

    ran(scenario(), by_hand(Single))
    assert seen[:2] == [{"N": "3"}, {}]
    assert {len(one) for one in lagging} == {0, 1}  # some of them find what was
