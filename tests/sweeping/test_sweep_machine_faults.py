"""The machine of a sweep among others that want its lease, and when requests fail or time runs out."""

from __future__ import annotations

import pytest
from sweep_world import (
    DENIED,
    LEASE,
    LEAST,
    MINUTE,
    NOW_MS,
    ROUND,
    SHARD,
    THROTTLED,
    UNTOLD,
    World,
    first,
    kinds,
    record,
    run,
    sweep,
)

from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.sweeping.commands import (
    Command,
    Done,
    Fact,
    Failed,
    KeyFound,
    KeysFound,
    LeaseWritten,
    List,
    Publish,
    Published,
    ReadKeys,
    ReadLease,
    Tick,
    WaitUntil,
    WriteLease,
)
from dynamodb_outbox.core.sweeping.machine import NO_TIME

# --- leases ---


def test_a_partition_that_another_sweep_has_is_left_to_it() -> None:
    """Nothing is written, and nothing of the table is read."""
    world = World().put(record(1))
    world.leases[SHARD] = theirs = Lease("other", 3, NOW_MS + 10_000)
    report = run(sweep(world, shards=(SHARD, "01")), world)
    assert (kinds(world), world.accepted) == (["List", "ReadLease", "List"], [])
    assert (report.taken, report.idle, world.leases[SHARD]) == (1, 1, theirs)


def test_of_two_that_want_a_lease_one_gets_it() -> None:
    """The other one finds another version, and goes on elsewhere."""
    world = World().put(record(1))

    def do(command: Command) -> Fact | None:
        if isinstance(command, WriteLease):
            world.leases[SHARD] = Lease("other", 1, NOW_MS + LEASE)
        return None

    report = run(sweep(world), world, do)
    assert (kinds(world), world.accepted, report.taken) == (["List", "ReadLease", "WriteLease"], [], 1)


def test_who_has_lost_the_lease_publishes_nothing_more() -> None:
    """Another has taken it while this one published: the next round is not begun, the lease not touched."""
    world = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))
    theirs = Lease("other", 2, NOW_MS + LEASE)

    def do(command: Command) -> Fact | None:
        if isinstance(command, Publish):
            world.leases[SHARD] = theirs
        return None

    report = run(sweep(world, round_keys=2), world, do)
    assert world.accepted == [0, 1]
    assert kinds(world)[-2:] == ["Publish", "WriteLease"]
    assert (report.taken, report.left, world.leases[SHARD]) == (1, 2, theirs)


@pytest.mark.parametrize("lost", [False, True])
def test_a_lease_whose_answer_was_lost_is_read(lost: bool) -> None:
    """Stored or not: it is taken by the version that is there."""
    world = World().put(record(1))

    def do(command: Command) -> Fact | None:
        if isinstance(command, WriteLease) and kinds(world).count("WriteLease") == 0:
            if not lost:
                world.write(command)
            return UNTOLD
        return None

    run(sweep(world), world, do)
    assert kinds(world) == [
        "List",
        "ReadLease",
        "WriteLease",
        "ReadLease",
        "WriteLease",
        "List",
        "ReadKeys",
        "Publish",
        "WriteLease",
    ]
    assert (world.accepted, world.leases[SHARD].owner) == ([1], "")


def test_a_renewal_whose_answer_was_lost_is_read_and_no_key_has_a_second_turn() -> None:
    """The listing begins anew; what was stuck before stays so."""
    world = World(refused={0}).put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))
    seen = []

    def do(command: Command) -> Fact | None:
        if isinstance(command, WriteLease):
            seen.append(command)
            if len(seen) == 2:
                return UNTOLD
        return None

    report = run(sweep(world, round_keys=2), world, do)
    assert (world.accepted, report.done, report.left) == ([1, 2, 3], 3, 1)


def test_leases_that_are_never_told_of_are_given_up() -> None:
    """After as many questions as attempts."""
    world = World().put(record(1))
    report = run(sweep(world), world, lambda c: UNTOLD if isinstance(c, WriteLease) else None)
    assert (world.accepted, report.unread) == ([], 1)
    assert kinds(world).count("WriteLease") == 6  # three times each: told of by a read, and then tried again


def test_nothing_is_published_beyond_the_end_of_the_lease() -> None:
    """Reading took so long that no request fits any more: the lease is written anew first, and the keys read again."""
    world = World().put(record(1))

    def do(command: Command) -> Fact | None:
        if isinstance(command, ReadKeys) and kinds(world).count("ReadKeys") == 0:
            world.steady_ms += LEASE - LEAST
        return None

    run(sweep(world), world, do)
    assert kinds(world) == [
        "List",
        "ReadLease",
        "WriteLease",
        "List",
        "ReadKeys",
        "WriteLease",
        "ReadKeys",
        "Publish",
        "WriteLease",
    ]
    assert world.accepted == [1]


@pytest.mark.parametrize(("wall", "steady"), [(10_000, 10_000), (10_000, 0), (-3_600_000, 10_000)])
def test_publishing_ends_with_the_lease(wall: int, steady: int) -> None:
    """By the clock that says more; and with the time of the sweep itself."""
    world = World().put(record(1))

    def do(command: Command) -> Fact | None:
        if isinstance(command, ReadKeys):
            world.wall_ms += wall
            world.steady_ms += steady
        return None

    run(sweep(world), world, do)
    (publish,) = [command for command in world.log if isinstance(command, Publish)]
    assert publish.until_ms == 1_000 + steady + LEASE - 10_000
    early = World().put(record(1))
    run(sweep(early, until_ms=8_000), early)
    assert [command.until_ms for command in early.log if isinstance(command, Publish)] == [8_000]


def test_a_sweep_that_ends_early_can_leave_its_lease() -> None:
    """Only one that it has."""
    world = World().put(record(1))
    machine = sweep(world)
    fact: Fact = Tick()
    commands: list[Command] = []
    while not commands or not isinstance(commands[-1], Publish):
        assert (machine.abandoned(world.now) is None) is (len(commands) < 4)
        commands.append(machine.step(fact, world.now, 0.5))
        fact = world.do(commands[-1])
    leaving = machine.abandoned(world.now)
    assert leaving is not None
    assert world.write(leaving) == LeaseWritten(written=True)
    assert world.leases[SHARD].owner == ""


# --- faults ---


def test_a_fault_that_concerns_all_destinations_ends_the_sweep() -> None:
    """The lease is left; the other partitions are not looked at."""
    world = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))
    report = run(
        sweep(world, shards=(SHARD, "01"), round_keys=2),
        world,
        first(Publish, Published(frozenset(), stop="the bus is gone")),
    )
    assert (world.accepted, report.stopped, report.left) == ([], "the bus is gone", 4)
    assert kinds(world) == ROUND
    assert (report.partitions, world.leases[SHARD].owner) == (1, "")


@pytest.mark.parametrize("kind", [List, ReadLease, WriteLease])
def test_a_request_that_is_throttled_is_tried_again_after_a_pause(kind: type[Command]) -> None:
    """And comes through."""
    world = World().put(record(1))
    report = run(sweep(world), world, first(kind, THROTTLED, times=2))
    assert (world.accepted, report.unread, kinds(world).count("WaitUntil")) == ([1], 0, 2)


@pytest.mark.parametrize("kind", [List, ReadLease, WriteLease])
def test_a_partition_whose_requests_go_on_failing_is_left_and_the_next_one_swept(kind: type[Command]) -> None:
    """After three attempts."""
    world = World().put(record(1), record(2, ob_pending={"S": "01"}, key="B"))
    report = run(sweep(world, shards=(SHARD, "01")), world, first(kind, THROTTLED, times=3))
    assert (report.unread, world.accepted) == (1, [2])


def test_a_second_page_that_cannot_be_read_leaves_the_lease() -> None:
    """What was published before it stays so."""
    world = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))

    def do(command: Command) -> Fact | None:
        return THROTTLED if isinstance(command, List) and command.after is not None else None

    report = run(sweep(world, page=2), world, do)
    assert (world.accepted, report.unread, world.leases[SHARD].owner) == ([0, 1], 1, "")


def test_a_lease_that_cannot_be_left_ends_by_itself() -> None:
    """The sweep goes on."""
    world = World().put(record(1), record(2, ob_pending={"S": "01"}, key="B"))

    def do(command: Command) -> Fact | None:
        leaves = isinstance(command, WriteLease) and not command.lease.owner and command.shard == SHARD
        return UNTOLD if leaves else None

    report = run(sweep(world, shards=(SHARD, "01")), world, do)
    assert (world.accepted, report.unread) == ([1, 2], 0)
    assert world.leases[SHARD].owner == "me"


def test_keys_that_cannot_be_read_have_another_turn_after_a_pause_and_are_left_then() -> None:
    """Others are published meanwhile."""
    world = World().put(record(1), record(2, key="B"))

    def do(command: Command) -> Fact | None:
        if not isinstance(command, ReadKeys):
            return None
        keys = [entries[0].key for entries in command.keys]
        return KeysFound(
            tuple(
                KeyFound(failure=THROTTLED) if key == "A" else world.read(entries)
                for key, entries in zip(keys, command.keys, strict=True)
            )
        )

    report = run(sweep(world), world, do)
    assert (world.accepted, report.done, report.left) == ([2], 1, 1)
    assert (kinds(world).count("ReadKeys"), kinds(world).count("WaitUntil")) == (3, 2)


@pytest.mark.parametrize("kind", [List, ReadLease, WriteLease, ReadKeys])
def test_what_is_not_allowed_ends_the_sweep_with_the_reason(kind: type[Command]) -> None:
    """No permission, no such index: it concerns all partitions."""
    world = World().put(record(1))
    answer: Fact = KeysFound((KeyFound(failure=DENIED),)) if kind is ReadKeys else DENIED
    machine, fact = sweep(world, shards=(SHARD, "01")), Tick()
    done: Command | None = None
    do = first(kind, answer)
    current: Fact = fact
    while not isinstance(done, Done):
        done = machine.step(current, world.now, 0.5)
        if not isinstance(done, Done):
            current = do(done) or world.do(done)
    assert (done.fault, done.report.stopped) == ("AccessDeniedException", "AccessDeniedException")
    assert world.accepted == []
    assert world.leases.get(SHARD, Lease("", 0, 0)).owner == ""


# --- time ---


def test_no_partition_and_no_round_is_begun_without_time() -> None:
    """What is not reached is left to the next sweep."""
    world = World()
    report = run(sweep(world, shards=("00", "01", "02"), until_ms=1_000 + 2 * LEAST), world, step_ms=LEAST)
    assert (report.partitions, report.stopped) == (1, NO_TIME)
    busy = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))
    report = run(sweep(busy, round_keys=2, until_ms=1_000 + LEAST + 700), busy, step_ms=100)
    assert (busy.accepted, report.left, report.stopped) == ([0, 1], 2, NO_TIME)
    assert busy.leases[SHARD].owner == ""


def test_no_further_round_is_begun_when_publishing_took_all_the_time() -> None:
    """The lease is left, and not written to be kept."""
    world = World().put(*(record(n, key=f"K{n}", age_ms=(60 - n) * MINUTE) for n in range(4)))

    def do(command: Command) -> Fact | None:
        if isinstance(command, Publish):
            world.steady_ms += 30_000
        return None

    report = run(sweep(world, round_keys=2, until_ms=1_000 + 30_000), world, do)
    assert (kinds(world), world.accepted) == (ROUND, [0, 1])
    assert (report.left, report.stopped) == (2, NO_TIME)


def test_records_that_were_read_too_late_are_left() -> None:
    """There is no time to publish them."""
    world = World().put(record(1))

    def do(command: Command) -> Fact | None:
        if isinstance(command, ReadKeys):
            world.steady_ms += 20_000
        return None

    report = run(sweep(world, until_ms=20_000), world, do)
    assert (world.accepted, report.left, world.leases[SHARD].owner) == ([], 1, "")


def test_pauses_grow_and_are_bounded() -> None:
    """From 0 to a ceiling that doubles; the random number says where in between."""
    world = World()
    machine = sweep(world, attempts=9, backoff_base_ms=100, backoff_cap_ms=300)
    command: Command = machine.step(Tick(), world.now, 0.5)
    waits = []
    for _ in range(4):
        pause = machine.step(THROTTLED, world.now, 0.5)
        assert isinstance(pause, WaitUntil)
        waits.append(pause.at_ms - world.steady_ms)
        assert machine.step(Tick(), world.now, 0.5) == command
    assert waits == [100, 150, 150, 150]


def test_a_command_that_nobody_could_do_is_no_reason_to_stand_still() -> None:
    """A failure of another kind leads on, whatever the phase."""
    world = World().put(record(1))
    report = run(sweep(world), world, first(List, Failed("odd", passing=True), times=3))
    assert report.unread == 1
