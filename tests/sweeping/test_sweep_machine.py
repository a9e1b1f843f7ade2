"""The machine of a sweep: what it asks for, in which order, and what it does when something fails."""

from __future__ import annotations

from sweep_world import (
    MINUTE,
    NOW_MS,
    ROUND,
    SHARD,
    World,
    kinds,
    record,
    run,
    sweep,
)

from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.sweeping.ages import AHEAD_MS, Lag
from dynamodb_outbox.core.sweeping.commands import (
    Command,
    Fact,
    List,
    Publish,
    Published,
    ReadKeys,
    SweepReport,
)
from dynamodb_outbox.core.sweeping.phases import TRANSITIONS, Cause, Phase

# --- what is asked for ---


def test_an_idle_sweep_reads_one_page_of_each_partition_and_nothing_else() -> None:
    """No lease is read or written, and nothing of the table."""
    world = World()
    report = run(sweep(world, shards=("00", "01", "02")), world)
    assert world.log == [List(shard, 500) for shard in ("00", "01", "02")]
    assert report == SweepReport(partitions=3, idle=3)


def test_what_is_too_young_is_idle_too() -> None:
    """It is on its way through the relay."""
    world = World().put(record(1, age_ms=0), record(2, age_ms=4 * MINUTE))
    assert run(sweep(world), world) == SweepReport(partitions=1, idle=1, oldest_ms=4 * MINUTE)
    assert kinds(world) == ["List"]


def test_a_record_of_an_age_that_nothing_has_counts_from_the_beginning_of_time() -> None:
    """Its writer may have any number as its date: the figure stays one that others can read."""
    world = World().put(record(1, at={"N": str(-(10**110))}))
    assert run(sweep(world), world).oldest_ms == NOW_MS


def test_what_is_due_is_published_under_a_lease_that_is_left() -> None:
    """The index is read again when the lease is there, and the partition of the key before anything is published."""
    world = World().put(record(1), record(2, age_ms=9 * MINUTE), record(3, age_ms=0))
    report = run(sweep(world), world)
    assert kinds(world) == ROUND
    assert (world.accepted, world.pending()) == ([1, 2], [3])
    assert report == SweepReport(partitions=1, due=2, keys=1, done=2, accepted=2, young=1, oldest_ms=10 * MINUTE)
    assert world.leases[SHARD] == Lease("", 2, 0, world.wall_ms)


def test_where_there_is_no_place_for_leases_none_is_asked_for() -> None:
    """The rest is the same."""
    world = World().put(record(1))
    run(sweep(world, lease_ms=None), world)
    assert (kinds(world), world.accepted) == (["List", "ReadKeys", "Publish"], [1])


def test_a_dry_run_reads_and_neither_leases_nor_publishes() -> None:
    """It says what would be published."""
    world = World().put(record(1), record(2, key="B"), record(3, age_ms=0))
    report = run(sweep(world, dry_run=True), world)
    assert kinds(world) == ["List", "ReadKeys"]
    assert report == SweepReport(partitions=1, due=2, keys=2, done=2, young=1, oldest_ms=10 * MINUTE, dry_run=True)


def test_keys_are_read_in_rounds_and_the_lease_is_written_anew_before_each_further_one() -> None:
    """Those with the oldest record first."""
    world = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(5)))
    run(sweep(world, round_keys=2), world)
    assert kinds(world)[4:] == ["ReadKeys", "Publish", "WriteLease"] * 3
    assert world.accepted == [0, 1, 2, 3, 4]


def test_a_round_publishes_no_more_than_so_many_records_and_goes_on_where_it_stopped() -> None:
    """A key that did not fit comes first in the next round, in its order."""
    world = World().put(*(record(n, key="AB"[n // 3], age_ms=(60 - n) * MINUTE) for n in range(6)))
    report = run(sweep(world, round_records=2), world)
    assert [len(command.records) for command in world.log if isinstance(command, Publish)] == [2, 2, 2]
    assert (world.accepted, report.done, report.left) == ([0, 1, 2, 3, 4, 5], 6, 0)


def test_pages_of_the_index_follow_each_other() -> None:
    """Keys that had their turn have none again, though a later page names them."""
    world = World().put(*(record(n, key=f"K{n % 3}", age_ms=(60 - n) * MINUTE) for n in range(7)))
    report = run(sweep(world, page=2), world)
    assert sorted(world.accepted) == list(range(7))
    assert report.keys == 3
    assert len([command for command in world.log if isinstance(command, ReadKeys)]) == 2  # K0 and K1, then K2


def test_behind_a_page_of_young_records_only_what_is_dated_ahead_is_looked_for() -> None:
    """In place of reading all that is on its way."""
    young = [record(n, key=f"K{n}", age_ms=MINUTE + n) for n in range(9)]
    ahead = record(99, key="Z", age_ms=-60 * MINUTE)
    world = World().put(*young, ahead)
    run(sweep(world, page=3, lease_ms=None), world)
    lists = [command for command in world.log if isinstance(command, List)]
    assert lists == [List(SHARD, 3), List(SHARD, 3, later_than_ms=NOW_MS + AHEAD_MS)]
    assert world.accepted == [99]


def test_a_sweep_whose_clock_is_an_hour_behind_publishes_in_order_all_the_same() -> None:
    """All records are dated far ahead then: what is young is published too early, which is a duplicate and no more."""
    world = World(wall_ms=NOW_MS - 60 * MINUTE).put(record(2, age_ms=0), record(1, age_ms=2 * MINUTE))
    run(sweep(world), world)
    assert world.accepted == [1, 2]


# --- keys that are stuck, and keys that have more ---


def test_a_key_that_is_stuck_keeps_no_other_waiting() -> None:
    """It is not tried again in the same sweep; what follows of it is left as well."""
    world = World(refused={1}).put(record(1, age_ms=20 * MINUTE), record(2), record(3, key="B"))
    report = run(sweep(world), world)
    assert (world.accepted, world.pending()) == ([3], [1, 2])
    assert (report.done, report.left, report.stopped) == (1, 2, None)


def test_a_key_that_has_more_than_one_read_gives_is_read_again() -> None:
    """Until it is empty."""
    world = World(page_items=4).put(*(record(n, age_ms=(90 - 6 * n) * MINUTE) for n in range(11)))
    report = run(sweep(world), world)
    assert world.accepted == list(range(11))
    assert report.done == 11


def test_records_that_could_not_be_settled_are_not_published_twice_in_a_sweep() -> None:
    """Though a second read of their key still finds them pending."""
    world = World(page_items=4, unsettled={0, 1, 2, 3, 4, 5}).put(
        *(record(n, age_ms=(90 - 6 * n) * MINUTE) for n in range(6))
    )
    run(sweep(world), world)
    assert len(world.accepted) == len(set(world.accepted))


def test_keys_of_which_nothing_was_tried_have_another_turn() -> None:
    """A record that cannot be read here ends a round early; its own key is left, the others come again."""
    world = World().put(record(1), record(2, key="B"), record(3, key="C"))

    def do(command: Command) -> Fact | None:
        if isinstance(command, Publish) and len(command.records) == 3:
            return Published(frozenset(), untried=frozenset((1, 2)))
        return None

    report = run(sweep(world), world, do)
    assert (world.accepted, report.left, report.done) == ([2, 3], 1, 2)


def test_a_round_of_which_nothing_at_all_was_tried_is_left() -> None:
    """It would come again for ever."""
    world = World().put(record(1), record(2, key="B"))
    report = run(
        sweep(world),
        world,
        lambda c: Published(frozenset(), untried=frozenset((0, 1))) if isinstance(c, Publish) else None,
    )
    assert (report.left, kinds(world)) == (2, ROUND)


def test_an_entry_whose_record_is_gone_or_settled_is_passed_over() -> None:
    """The index is behind the table; nothing is created and nothing published."""
    one, other = record(1), record(2, key="B")
    world = World(stale=[one, other]).put(record(3, key="B", age_ms=8 * MINUTE))
    world.settle(other)
    world.leases[SHARD] = Lease("", 1, 0, NOW_MS)  # a sweep has just been here, and settled them
    run(sweep(world), world)
    assert world.accepted == [3]
    assert sorted(place for place in world.items if place[0] == "A") == []


# --- the relay's lag ---


def test_a_relay_that_is_met_gets_twice_its_lag() -> None:
    """What the index named is settled by then: somebody is at work at records of that age."""
    old = [record(n, key=f"K{n}", age_ms=(40 - n) * MINUTE) for n in range(4)]
    world = World(stale=old).put(*old)
    world.settle(old[0])
    machine = sweep(world)
    report = run(machine, world)
    assert (world.accepted, report.young) == ([], 3)
    assert (report.lag_ms, machine.lag) == (40 * MINUTE, Lag(40 * MINUTE, 1_000))


def test_what_a_sweep_before_has_just_settled_is_no_sign_of_the_relay() -> None:
    """The index may still name it; ten seconds later it is one."""
    for passed_ms, accepted in ((9_000, [1]), (11_000, [])):
        old = [record(0, age_ms=20 * MINUTE), record(1, key="B")]
        world = World(stale=old).put(*old)
        world.settle(old[0])
        world.leases[SHARD] = Lease("", 5, 0, NOW_MS - passed_ms)
        run(sweep(world), world)
        assert world.accepted == accepted


def test_a_lag_that_a_sweep_before_has_met_still_counts() -> None:
    """For ten minutes."""
    world = World().put(record(1, age_ms=10 * MINUTE))
    lag = Lag(6 * MINUTE, 1_000)
    assert run(sweep(world, lag=lag), world).idle == 1
    world.steady_ms += 10 * MINUTE
    assert run(sweep(world, lag=lag), world).done == 1


def test_the_table_of_moves_leads_everywhere() -> None:
    """Each phase and each cause is in it; that each move is made, the model shows."""
    assert set(TRANSITIONS.values()) == set(Phase)
    assert {before for before, _ in TRANSITIONS} == set(Phase) - {Phase.OVER}
    assert {cause for _, cause in TRANSITIONS} == set(Cause)
