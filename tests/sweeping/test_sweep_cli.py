"""`outbox sweep` and `outbox status`: arguments, what they print, exit statuses; and the status itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.cli import main
from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.sweeping.commands import SweepReport, WriteLease
from dynamodb_outbox.errors import ConfigurationError, TableUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.position import ShardPosition
from dynamodb_outbox.local.provision import create_bus, create_queue, route
from dynamodb_outbox.recover import OutboxStatus, status_of
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account

NOW_MS = 4_000_000_000_000


class Clock:
    """A clock that stands still, far ahead."""

    def now_ms(self) -> int:
        """Return the time."""
        return NOW_MS

    def monotonic_ms(self) -> int:
        """Return the same."""
        return NOW_MS

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for nothing."""


@pytest.fixture
def _variables(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients that the commands make for themselves be those of the engine's account; no other variable is set."""
    for name in list(os.environ):
        if name.startswith("OUTBOX_"):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # --endpoint-url has the right one
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "OUTBOX_SINK": f"arn:aws:events:{REGION}:{engine.account}:event-bus/orders",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def shop(engine: Account, _variables: None) -> Shop:
    """Return a table, and a bus beside it."""
    create_bus(engine.client("events"), "orders")
    return Shop(engine)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its status and what it printed."""
    status = main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


# --- sweep ---


def test_sweep_once_publishes_and_says_so(shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """First what would be published, then that it is, then that there is nothing to do."""
    events, sqs = engine.client("events"), engine.client("sqs")
    queue = create_queue(sqs, "behind")
    route(events, sqs, bus="orders", queue=queue, rule="all")
    shop.emit(data={"n": 1})
    table = ("sweep", "--table", "shop", "--endpoint-url", engine.url)
    old = (*table, "--min-age", "0")
    assert ran(capsys, *table, "--once") == (0, "nothing to do\n", "")
    assert ran(capsys, *old, "--dry-run") == (0, "1 record of 1 key would be published\n", "")
    assert ran(capsys, *old, "--once") == (0, "1 record of 1 key published or parked; 1 event accepted\n", "")
    assert ran(capsys, *old, "--once") == (0, "nothing to do\n", "")
    (message,) = sqs.receive_message(QueueUrl=queue.url, WaitTimeSeconds=5)["Messages"]
    assert json.loads(message["Body"])["detail"]["data"] == {"n": 1}


def test_sweep_as_json_is_the_report(shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """One line; the status says that something was left."""
    shop.emit()
    sink = f"arn:aws:events:{REGION}:{engine.account}:event-bus/nowhere"
    status, out, _ = ran(
        capsys, "sweep", "--table", "shop", "--endpoint-url", engine.url, "--min-age", "0", "--once", "--json",
        "--sink", sink, "--layout", "{}",
    )  # fmt: skip
    report = json.loads(out)
    assert status == 1
    assert (report["left"], report["stopped"]) == (1, f"nothing more can be sent to {sink}")
    assert report.keys() == SweepReport().to_json().keys()


def test_what_a_sweep_came_to_is_told_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each figure that is not 0, in the singular and the plural."""
    reports = [
        SweepReport(partitions=3, idle=1, taken=2),
        SweepReport(
            partitions=9, taken=1, unread=2, keys=2, done=3, accepted=2, parked=1, left=1, young=2, elsewhere=1,
            others=1, lag_ms=61_000, stopped="the bus is gone",
        ),
    ]  # fmt: skip
    monkeypatch.setattr("dynamodb_outbox.recover.Sweeper.sweep", lambda *_, **__: reports.pop(0))
    monkeypatch.setenv("OUTBOX_SINK", "arn:aws:sqs:eu-west-1:123456789012:orders")
    command = ("sweep", "--table", "shop", "--once")
    assert ran(capsys, *command)[:2] == (0, "nothing to do; 2 partitions are another sweep's\n")
    status, out, _ = ran(capsys, *command)
    assert status == 1
    assert out == (
        "3 records of 2 keys published or parked; 2 events accepted; 1 event parked; 1 record left, see the log; "
        "2 records too young; 1 record of other Regions; 1 record of other layouts, left to a sweeper that has theirs; "
        "1 partition is another sweep's; 2 partitions are unread; the relay is 61 s behind; stopped: the bus is gone\n"
    )


def test_sweep_goes_on_until_a_signal_ends_it(shop: Shop, engine: Account) -> None:
    """It says that it does, sweeps every so often, and says nothing more while there is nothing to do."""
    command = [sys.executable, "-m", "dynamodb_outbox.cli", "sweep", "--table", "shop", "--endpoint-url", engine.url]
    process = subprocess.Popen(
        [*command, "--min-age", "0", "--every", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    shop.emit()
    assert process.stdout is not None
    assert process.stdout.readline() == "1 record of 1 key published or parked; 1 event accepted\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, "")
    assert err.splitlines() == [
        "outbox sweep: every 0 s, until it is stopped; --once sweeps once",
        "outbox sweep: ended; what is pending is left to the next sweep",
    ]
    assert shop.index() == []


@pytest.mark.usefixtures("_variables")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sweep",), "--table is not given, and OUTBOX_TABLE is not set"),
        (("sweep", "--table", "shop", "--sink", "bus:orders"), "--sink: 'bus:orders': no ARN"),
        (("sweep", "--table", "shop", "--layout", "{"), "--layout is '{', and no JSON"),
        (("status",), "--table is not given"),
        (("status", "--table", "shop", "--layout", '{"prefx": "A"}'), "did you mean 'prefix'?"),
    ],
)
def test_what_is_missing_or_wrong_is_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    """Before anything is sent."""
    status, _, err = ran(capsys, *arguments)
    assert (status, says in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sweep", "--min-age", "-1"), "'-1' is not a whole number from 0 to 604800"),
        (("sweep", "--every", "soon"), "'soon' is not a whole number"),
        (("sweep", "--once", "--dry-run"), "not allowed with argument"),
        (("status", "--max-parked", "9999999999999"), "is not a whole number from 0 to 1000000000"),
    ],
)
def test_arguments_that_cannot_be_read_are_named(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by any command."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert (caught.value.code, says in capsys.readouterr().err) == (2, True)


@pytest.mark.usefixtures("_variables")
@pytest.mark.parametrize("command", ["sweep", "status"])
def test_a_table_that_is_not_there_is_status_3(
    engine: Account, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """With DynamoDB's words, and where it was asked."""
    status, out, err = ran(
        capsys, command, "--table", "nothing", "--endpoint-url", engine.url, *(["--once"] * (command == "sweep"))
    )
    assert (status, out) == (3, "")
    assert err.splitlines()[-1].startswith(f"outbox {command}: table 'nothing': ResourceNotFoundException")


# --- status ---


def test_the_status_of_an_outbox(shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty; with something pending and parked; and after a sweep."""
    command = ("status", "--table", "shop", "--endpoint-url", engine.url)
    assert ran(capsys, *command) == (
        0,
        "pending:    0\nparked:     0\nlast sweep that found something: none has left a trace\n",
        "",
    )
    bad = shop.emit("A")
    bus = Bus(lambda event: CONTENT if event.id == bad else None)
    shop.sweeper(bus).sweep()
    shop.emit("B")
    shop.emit("C")
    status, out, err = ran(capsys, *command)
    assert status == 1
    assert err == "outbox status: 1 record parked, more than 0\n"
    assert out.splitlines()[0].startswith("pending:    2, the oldest ")
    assert out.splitlines()[1].startswith("parked:     1, the oldest written 2")
    assert out.splitlines()[2].startswith("last sweep that found something: 2")
    assert ran(capsys, *command, "--max-parked", "1")[0] == 0


def test_the_status_as_json(shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """With what is wrong, and the age of the oldest."""
    shop.emit()
    status, out, err = ran(
        capsys, "status", "--table", "shop", "--endpoint-url", engine.url, "--json", "--max-age", "0"
    )
    told = json.loads(out)
    assert status == 1
    assert err == f"outbox status: {told['wrong'][0]}\n"
    assert told["wrong"][0].endswith("old, more than 0 s")
    assert told.keys() == {*OutboxStatus.__dataclass_fields__, "age_ms", "stream", "wrong"}
    assert (told["pending"], told["parked"], told["swept_ms"], told["stream"]) == (1, 0, None, None)


def test_the_status_tells_how_far_a_local_source_is(
    shop: Shop, engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its checkpoint: with something unread, with all read, lost, and without one."""
    command = ("status", "--table", "shop", "--endpoint-url", engine.url, "--checkpoint", str(tmp_path / "checkpoint"))
    status, out, err = ran(capsys, *command)
    assert (status, out, "nothing is known of where its source is" in err) == (2, "", True)
    stream = DynamoDbStream(engine.client("dynamodbstreams"), shop.stream or "")
    (shard,) = stream.shards()
    checkpoint = CheckpointFile(tmp_path / "checkpoint", stream.arn)
    checkpoint.begin({})
    shop.emit()
    assert re.search(r"^stream:     the first unread record is \d+ s old$", ran(capsys, *command)[1], re.MULTILINE)
    last = stream.open(shard.shard_id).read().records[-1]["dynamodb"]["SequenceNumber"]
    checkpoint.keep(shard.shard_id, Position(last))
    assert ran(capsys, *command)[1].endswith("stream:     all is read\n")
    (told,) = json.loads(ran(capsys, *command, "--json")[1])["stream"]
    assert told == {"shard_id": shard.shard_id, "after": last, "unread_since_ms": None, "lost": False}


def test_records_that_the_stream_forgot_unread_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the oldest of what is left."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    status = OutboxStatus(NOW_MS, 0, None, 0, None, None, 0)
    lost = [ShardPosition(shard, "1", since, lost=True) for shard, since in (("a", NOW_MS - 9_000), ("b", None))]
    monkeypatch.setattr("dynamodb_outbox.cli.status.status_of", lambda *_, **__: status)
    monkeypatch.setattr("dynamodb_outbox.cli.status.positions_of", lambda *_, **__: lost)
    _, out, _ = ran(capsys, "status", "--table", "shop", "--checkpoint", "anywhere")
    said = "stream:     the first unread record is 9 s old; records of 2 shards were forgotten unread"
    assert out.splitlines()[-1] == said


def test_the_status_counts_all_partitions_and_the_leases_that_are_held(shop: Shop) -> None:
    """The oldest of all; a lease that has ended counts for nothing."""
    for number in range(12):
        shop.emit(f"K{number}")
    leases = shop.sweeper(Bus())._means.leases
    for shard, until_ms in (("00", NOW_MS + 1), ("01", NOW_MS), ("02", NOW_MS + 9)):
        leases.write("shop", WriteLease(shard, Lease("other", 1, until_ms, 1_000 + int(shard)), None))
    shop.calls.clear()
    told = status_of("shop", client=shop.client, clock=Clock())
    assert set(shop.calls) == {"Query", "BatchGetItem"}
    assert (told.pending, told.parked, told.parked_since_ms) == (12, 0, None)
    assert (told.sweeping, told.swept_ms, told.at_ms) == (2, 1_002, NOW_MS)
    oldest = min(int(item["at"]["N"]) for item in shop.items())
    assert (told.pending_since_ms, told.age_ms) == (oldest, NOW_MS - oldest)


def test_a_table_without_leases_has_a_status(engine: Account) -> None:
    """Its keys are numbers."""
    shop = Shop(engine, Layout(pk_type="N", index_shards=2))
    shop.emit("7")
    told = status_of("shop", layout=shop.layout, client=shop.client)
    assert (told.pending, told.sweeping, told.swept_ms) == (1, 0, None)


def test_a_status_that_cannot_be_told_is_an_error(shop: Shop) -> None:
    """Which says whether it may be told later."""
    shop.fail("Query", "ThrottlingException", times=1)
    with pytest.raises(TableUnavailable, match="ThrottlingException") as caught:
        status_of("shop", client=shop.client)
    assert caught.value.retryable
    wrong: list[dict[str, Any]] = [{"table": ""}, {"table": "shop", "layout": "mine"}]
    for arguments in wrong:
        with pytest.raises(ConfigurationError):
            status_of(**arguments)


def test_times_are_told_in_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, minutes, hours, days; and a date that no calendar has."""
    ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800]
    told = []
    for age in ages:
        status = OutboxStatus(NOW_MS, 1, NOW_MS - 1000 * age, 1, 10**30, NOW_MS, 1)
        monkeypatch.setattr("dynamodb_outbox.cli.status.status_of", lambda *_, status=status, **__: status)
        _, out, _ = ran(capsys, "status", "--table", "shop", "--max-age", "604800")
        told.append(out.splitlines()[0].removeprefix("pending:    1, the oldest ").removesuffix(" old"))
        assert f"{10**30} ms after 1970" in out
        assert "2096-10-02 07:06:40Z; 1 partition being swept now" in out
    assert told == ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]
