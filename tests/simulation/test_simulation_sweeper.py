"""A sweeper in the simulated world: what it sees, what strikes it, and what it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from simulation_ground import Ground, ground

from dynamodb_outbox.adapters.leases import DynamoLeases
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.core.record import pending
from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.sweeping.commands import List, Listed, Tally, WriteLease
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import (
    NotSimulated,
    Scenario,
    check,
    generate,
    relay_handler,
    run,
    simulate,
    sweeper_handler,
)
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.facts import Accepted, Answered, Ended, Faulted, Gap, Leased, Moved, Swept
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.index import Index
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.queries import QueryingClient
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.table import TABLE, Table
from dynamodb_outbox.testing.simulation.timeline import timeline
from dynamodb_outbox.testing.simulation.world import LAYOUT
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.facts import Fact

LAG_MS = 1_000


def image(number: int, *, partition: str = "A", pending: str = "00", at_ms: int = 0, **other: Any) -> WireItem:
    """Return a record as the index and a sweeper look at it."""
    return {
        "pk": {"S": partition},
        "sk": {"S": f"OUTBOX#{number}"},
        "id": {"S": str(number)},
        "key": {"S": partition},
        "at": {"N": str(START_MS + at_ms)},
        "ob_pending": {"S": pending},
        **other,
    }


class Shop:
    """A table with its index, and a client of it in a process of a sweeper."""

    def __init__(self, world: Ground, lag_ms: int = 0) -> None:
        self.world = world
        stream = Stream(world.kernel, world.ledger, Chance(1), StreamSettings())
        self.table = Table(world.kernel, stream, LAYOUT, Chance(1))
        self.index = Index(world.kernel, self.table, Chance(1), lag_ms)
        self.process = world.process()
        self.process.invocation = 5
        self.client = QueryingClient(world.network, self.process, self.table, self.index)
        self.adapter = DynamoPendingIndex(LAYOUT, client=self.client)

    def write(self, *items: WireItem) -> None:
        """Put items into the table."""
        for item in items:
            self.table.write(self.table.key_of(item), item, by="writer")

    def ask(self, asked: List) -> Listed:
        """Return a page of the index."""
        (found,) = self.world.run(lambda: self.adapter.list(TABLE, asked))
        assert isinstance(found, Listed)
        return found

    def named(self, pending: str = "00") -> set[str]:
        """Return what the index has now of a partition."""
        return {entry["id"]["S"] for _, entry in self.index.partition(pending)}


def test_the_index_follows_its_table_at_a_distance() -> None:
    """A record comes, moves and goes up to a second later, each of its changes after those before it."""
    with ground() as world:
        shop = Shop(world, LAG_MS)
        shop.write(*(image(number) for number in range(20)))
        seen = []
        for at_ms in (0, LAG_MS // 2, LAG_MS):
            world.kernel.run(at_ms)
            seen.append(len(shop.named()))
        assert 0 <= seen[0] < seen[1] < seen[2] == 20
        shop.write(image(1, pending="parked"), {**image(2), "state": {"S": "published"}, "ob_pending": {"S": "00"}})
        shop.table.write(("A", "OUTBOX#3"), None, by="operator")
        world.kernel.run(2 * LAG_MS)
        assert shop.named("parked") == {"1"}
        assert shop.named() == {str(number) for number in range(20)} - {"1", "3"}
        shop.write(image(50))
        shop.table.write(("A", "OUTBOX#50"), None, by="operator")
        world.kernel.run(4 * LAG_MS)
        assert "50" not in shop.named()


def test_what_has_not_both_keys_of_the_index_is_not_in_it() -> None:
    """As a row has none that somebody put by hand, or whose column is a text."""
    with ground() as world:
        shop = Shop(world)
        shop.write(image(1, at={"S": "the counter"}), {**image(2), "ob_pending": {"S": "00"}})
        shop.write({name: value for name, value in image(3).items() if name != "ob_pending"})
        assert shop.named() == {"2"}


def test_pages_of_the_index_follow_each_other() -> None:
    """The oldest first, up to the limit; and those behind a date."""
    with ground() as world:
        shop = Shop(world)
        shop.write(*(image(number, at_ms=100 - number) for number in range(5)))
        first = shop.ask(List("00", 3))
        assert [entry.item["sk"]["S"] for entry in first.entries] == ["OUTBOX#4", "OUTBOX#3", "OUTBOX#2"]
        rest = shop.ask(List("00", 3, first.after))
        assert [entry.item["sk"]["S"] for entry in rest.entries] == ["OUTBOX#1", "OUTBOX#0"]
        assert rest.after is None
        later = shop.ask(List("00", 9, later_than_ms=START_MS + 98))
        assert [entry.at_ms - START_MS for entry in later.entries] == [99, 100]
        (tally,) = world.run(lambda: shop.adapter.tally(TABLE, "00"))
        assert tally == Tally(5, START_MS + 96)


def test_a_key_is_read_consistently_and_without_what_is_parked() -> None:
    """Whatever the index says by then; other items of the partition, and other partitions, are not in the answer."""
    with ground() as world:
        shop = Shop(world, 60_000)
        shop.write(image(1), image(2, pending="parked"), image(3, partition="B"), image(4))
        entry = shop.ask(List("00", 9)).entries
        assert entry == ()
        (found,) = world.run(lambda: shop.client.query(**partition_of("A")))
        assert [item["id"]["S"] for item in found["Items"]] == ["1", "4"]  # type: ignore[index]


def partition_of(partition: str, **other: Any) -> dict[str, Any]:
    """Return the arguments of a query for the pending records of a partition."""
    return {
        "TableName": TABLE,
        "ConsistentRead": True,
        "KeyConditionExpression": "#pk = :pk",
        "FilterExpression": "attribute_exists(#pending) AND #pending <> :parked",
        "ExpressionAttributeNames": {"#pk": "pk", "#pending": "ob_pending"},
        "ExpressionAttributeValues": {":pk": {"S": partition}, ":parked": {"S": "parked"}},
        **other,
    }


def test_a_read_that_is_not_consistent_finds_what_was() -> None:
    """By Query, GetItem and BatchGetItem: of some records what they were, of others what they are; later, what is."""
    with ground() as world:
        shop = Shop(world)
        records = [image(number) for number in range(20)]
        keys = [{name: item[name] for name in ("pk", "sk")} for item in records]

        def seen(**consistent: bool) -> list[int]:
            wanted = {TABLE: {"Keys": keys, **consistent}}
            single = [shop.client.get_item(TableName=TABLE, Key=key, **consistent) for key in keys]
            batch = shop.client.batch_get_item(RequestItems=wanted)
            found = shop.client.query(**{**partition_of("A"), "ConsistentRead": False, **consistent})
            return [sum(map(bool, single)), len(batch["Responses"][TABLE]), len(found["Items"])]

        def reads() -> list[list[int]]:
            shop.write(*records)
            first, consistent = seen(), seen(ConsistentRead=True)
            world.kernel.sleep(60_000)
            return [first, consistent, seen()]

        ((first, *others),) = world.run(reads)  # type: ignore[misc]
        assert 0 < min(first) <= max(first) < 20
        assert others == [[20, 20, 20], [20, 20, 20]]


def test_a_read_of_the_index_is_never_consistent() -> None:
    """Whoever asks for that is refused, as AWS does."""
    with ground() as world:
        shop = Shop(world)
        asked = pending.listing(TABLE, "00", LAYOUT, most=1)
        (error,) = world.run(lambda: shop.client.query(**asked, ConsistentRead=True))
        assert "ValidationException" in str(error)
        assert world.run(lambda: shop.client.query(**asked, ConsistentRead=False)) == [{"Items": []}]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"KeyConditionExpression": "#pk < :pk"}, "key condition"),
        ({"FilterExpression": "size(#pending) > :parked"}, "filter"),
        ({"ReturnConsumedCapacity": "TOTAL"}, "ReturnConsumedCapacity"),
        ({"IndexName": "another"}, "index 'another'"),
    ],
)
def test_a_query_that_is_not_simulated_ends_the_run(other: dict[str, Any], words: str) -> None:
    """It is not guessed at."""
    with ground() as world:
        shop = Shop(world)
        with pytest.raises(NotSimulated, match=words):
            world.run(lambda: shop.client.query(**partition_of("A", **other)))


def test_another_table_is_not_there() -> None:
    """As AWS has it, of the operation that asked."""
    with ground() as world:
        shop = Shop(world)
        (error,) = world.run(lambda: shop.client.query(**partition_of("A", TableName="other")))
        assert "ResourceNotFoundException) when calling the Query" in str(error)
        (error,) = world.run(lambda: shop.client.delete_item(TableName="other", Key={}, ReturnValues="ALL_OLD"))
        assert "ResourceNotFoundException) when calling the DeleteItem" in str(error)


def test_a_lease_that_takes_effect_is_noted() -> None:
    """With its end by the clock of the sweep; one that is refused is not, and one that is left has no end."""
    with ground() as world:
        shop = Shop(world)
        leases = DynamoLeases(LAYOUT, client=shop.client)
        shop.process.clock.offset_ms = 7_000
        mine, others = (Lease(owner, 1, START_MS + 67_000) for owner in ("me", "other"))
        for command in (
            WriteLease("00", mine, None),
            WriteLease("00", others, None),
            WriteLease("00", Lease("", 2, 0, START_MS), mine),
        ):
            world.run(lambda command=command: leases.write(TABLE, command))  # type: ignore[misc]
        noted = world.noted(Leased)
        assert [(fact.shard, fact.invocation, fact.until_ms) for fact in noted] == [("00", 5, 60_000), ("00", 5, None)]


# --- whole runs -------------------------------------------------------------------------------------------------------


def a_day(*faults: PlannedFault, seed: int = 1, changes: int = 6, **settings: Any) -> Scenario:
    """Return a scenario of changes of one key, a second apart, with a sweeper every ten seconds."""
    plain: dict[str, Any] = {"sweep_every_ms": 10_000, "min_age_ms": 5_000, "sweep_timeout_ms": 200_000}
    return Scenario(
        seed=seed,
        settings=Settings(**{**plain, **settings}),
        writes=tuple(
            Write(at_ms=1_000 * n, writer="writer-1", change=f"c{n}", keys=("A",)) for n in range(1, changes + 1)
        ),
        faults=faults,
        faults_until_ms=60_000,
    )


DOWN = PlannedFault("missing_target", 0, amount_ms=20_000)


def by_sweeps(facts: list[Fact]) -> int:
    """Return how many acceptances sweeps have brought about."""
    sweeps = {fact.invocation for fact in facts if isinstance(fact, Swept)}
    return sum(isinstance(fact, Accepted) and fact.invocation in sweeps for fact in facts)


def test_what_a_stream_forgets_unread_is_swept() -> None:
    """Without a sweeper the source has a gap, and that is it; with one all of it is accepted, in order."""
    scenario = a_day(DOWN, retention_ms=1_000, batch_size=1)
    facts = run(scenario, relay_handler)
    assert any(isinstance(fact, Gap) for fact in facts)
    assert check(facts, scenario.terms) == []
    assert len({fact.event_id for fact in facts if isinstance(fact, Accepted)}) == 6
    alone = replace(scenario, settings=replace(scenario.settings, sweep_every_ms=0))
    less = run(alone, relay_handler)
    assert len({fact.event_id for fact in less if isinstance(fact, Accepted)}) < 6
    assert check(less, alone.terms) == []
    assert [violation.invariant for violation in check(less, scenario.terms)] == ["nothing_is_lost"]


def test_what_a_mapping_gives_up_is_swept() -> None:
    """It went to the on-failure destination, where nobody looks here."""
    scenario = a_day(DOWN, retries=0, ordering="none", bisect=True)
    facts = run(scenario, relay_handler)
    assert by_sweeps(facts) > 0
    assert check(facts, scenario.terms) == []


def test_an_idle_sweeper_leaves_a_run_as_it_is() -> None:
    """It queries, and that is all: the relay does what it would do without it, to the last fact."""
    quiet = a_day(changes=3)
    alone = replace(quiet, settings=replace(quiet.settings, sweep_every_ms=0))
    facts, less = run(quiet, relay_handler), run(alone, relay_handler)
    assert [fact for fact in facts if isinstance(fact, (Accepted, Moved))] == [
        fact for fact in less if isinstance(fact, (Accepted, Moved))
    ]
    assert not any(isinstance(fact, Leased) for fact in facts)
    assert any(isinstance(fact, Swept) for fact in facts)


def test_a_sweeper_dies_and_stands_still() -> None:
    """Its process ends at an effect, or goes on long after one: what it had in hand is swept by another one."""
    for kind in ("recovery_crash", "recovery_frozen"):
        fault = PlannedFault(kind, 0, nth=12, amount_ms=90_000)
        scenario = a_day(DOWN, fault, retention_ms=1_000, batch_size=1)
        facts = run(scenario, relay_handler)
        assert check(facts, scenario.terms) == []
        (struck,) = [fact for fact in facts if isinstance(fact, Faulted) and fact.kind == kind]
        died = [fact.at_ms for fact in facts if isinstance(fact, Ended) and fact.invocation == struck.invocation]
        lived = [fact.at_ms for fact in facts if isinstance(fact, Answered) and fact.invocation == struck.invocation]
        if kind == "recovery_crash":
            assert (died, lived) == ([struck.at_ms], [])
        else:
            assert died == []
            assert lived[0] >= struck.at_ms + 90_000
        assert by_sweeps(facts) >= 3


def test_several_sweeps_at_once_do_no_harm() -> None:
    """Also where one of them has a clock that is off by minutes: order and loss are as with one."""
    skew = PlannedFault("clock_skew", 0, "sweeper", amount_ms=100_000)
    scenario = a_day(DOWN, skew, retention_ms=1_000, batch_size=1, sweepers=2, index_lag_ms=3_000)
    facts = run(scenario, relay_handler)
    assert check(facts, scenario.terms) == []
    assert {fact.ahead_ms for fact in facts if isinstance(fact, Swept)} == {0, 100_000}


def test_a_sweep_is_told() -> None:
    """When it began, what lease it had, and what it came to."""
    scenario = a_day(DOWN, retention_ms=1_000, batch_size=1)
    text = timeline(run(scenario, relay_handler), scenario.terms, most=10_000)
    for words in ("sweep 1000001          begins on sweeper#1", "has the lease of 0", " left, by sweep 10000"):
        assert words in text
    assert "from invocation 1000" in text


def test_a_sweeper_of_ones_own_is_found_out() -> None:
    """One that publishes nothing leaves what the stream has lost; its story says how to see it again."""
    report = simulate(relay_handler, sweeper=lambda _: lambda *_: {}, seeds=range(60), shrink_runs=40)
    (failure,) = report.failures
    assert failure.invariant == "nothing_is_lost"
    assert "sweeper=make_sweeper" in failure.text
    assert "nobody has published it" in failure.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sweeper": sweeper_handler, "destinations": 2}, "a sweeper publishes to one destination"),
        ({"operator": True, "destinations": 2}, "an operator publishes to one destination"),
        ({"settings": {"sweep_every_ms": 5_000}}, "it takes a sweeper"),
        ({"sweeper": 5}, "takes a function that gets a world"),
    ],
)
def test_a_sweeper_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    """Before anything is run."""
    with pytest.raises(ConfigurationError, match=words):
        simulate(relay_handler, seeds=[1], **options)


def test_without_a_sweeper_there_is_none() -> None:
    """Handlers run alone unless one is asked for: the scenario of a seed is what it was."""
    report = simulate(relay_handler, seeds=[0], shrink_runs=0)
    assert report.runs == 1
    swept = next(seed for seed in range(20) if generate(seed, sweeper=True).settings.sweep_every_ms)
    assert generate(swept).settings.sweep_every_ms == 0
