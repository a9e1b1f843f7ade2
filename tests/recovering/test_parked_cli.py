"""`outbox parked`: what it prints, what it asks back, its exit statuses."""

from __future__ import annotations

import io
import json
import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.cli import main
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.provision import create_bus, create_queue, route
from dynamodb_outbox.recover import ParkedEvent, ParkedRecord, ParkedReport, Treated
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    from conftest import Account


@pytest.fixture
def shop(engine: Account, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return a table and a bus; the commands' own clients find them, and no other variable is set."""
    for name in list(os.environ):
        if name.startswith("OUTBOX_"):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "OUTBOX_TABLE": "shop",
        "OUTBOX_SINK": f"arn:aws:events:{REGION}:{engine.account}:event-bus/orders",
    }.items():
        monkeypatch.setenv(name, value)
    create_bus(engine.client("events"), "orders")
    return Shop(engine)


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its status and what it printed."""
    status = main(("parked", *arguments))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def parked(shop: Shop, key: str = "ORDER#1", data: object = None) -> str:
    """Commit an event and have it parked; return its id."""
    event_id = shop.emit(key, data)
    shop.sweeper(Bus(lambda _: CONTENT)).sweep()
    return event_id


def test_parked_records_are_listed_shown_redriven(
    shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list has no data; a dry run does nothing; the event reaches the queue behind the bus."""
    events, sqs = engine.client("events"), engine.client("sqs")
    queue = create_queue(sqs, "behind")
    route(events, sqs, bus="orders", queue=queue, rule="all")
    assert ran(capsys, "list") == (0, "0 records parked\n", "")
    event_id = parked(shop, data={"secret": 7})
    status, out, err = ran(capsys, "list")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].split() == ["id", "key", "events", "refused", "as", "times", "parked"]
    assert out.splitlines()[1].split()[:5] == [event_id, "ORDER#1", "order.placed", "Bad", "1"]
    assert "secret" not in out
    assert json.loads(ran(capsys, "list", "--json", "--key", "ORDER#1")[1])[0]["id"] == event_id
    assert json.loads(ran(capsys, "list", "--json", "--type", "other")[1]) == []
    shown = ran(capsys, "show", event_id)[1]
    assert '"secret":7' in shown.replace(" ", "")
    assert "never" in shown
    assert json.loads(ran(capsys, "show", event_id, "--json")[1])[0]["data"] == ['{"secret":7}']
    assert ran(capsys, "redrive", "--all", "--dry-run")[:2] == (0, "1 record would be published\n")
    assert ran(capsys, "redrive", "--id", event_id)[:2] == (0, "1 record published\n")
    assert ran(capsys, "redrive", "--all")[:2] == (0, "nothing that was asked for is parked\n")
    (message,) = sqs.receive_message(QueueUrl=queue.url, WaitTimeSeconds=5)["Messages"]
    assert json.loads(message["Body"])["detail"]["id"] == event_id


def test_what_is_not_there_is_status_1(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a show, a redrive and a discard by id."""
    assert shop.index("parked") == []
    shown = "outbox parked: nothing is parked under the id 'x' (discarded: docs/recovery.md)\n"
    assert ran(capsys, "show", "x") == (1, "", shown)
    said = "nothing is parked under the id x\nnothing that was asked for is parked\n"
    assert ran(capsys, "redrive", "--id", "x") == (1, said, "")
    assert ran(capsys, "discard", "--id", "x", "--reason", "no") == (1, said, "")


def test_all_is_asked_back_on_a_terminal(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anything but yes does nothing; --yes does not ask."""
    parked(shop)
    command = ("discard", "--all", "--reason", "test data")
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    status, out, err = ran(capsys, *command)
    assert (status, out) == (2, "")
    assert err.startswith("1 record parked. Shall all of it be discarded? [y/N] ")
    assert len(shop.index("parked")) == 1
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert ran(capsys, *command)[:2] == (0, "1 record discarded\n")
    parked(shop)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert ran(capsys, *command, "--yes") == (0, "1 record discarded\n", "")


def test_what_cannot_be_read_is_told_with_how_to_look_at_it(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no events to show. A dry run tells that it would be refused, as the redrive does."""
    row = {"type": {"S": "order.placed"}, "payload": {"S": "no JSON"}, "ts": {"N": "1769860800"}}
    keys = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}
    shop.client.put_item(
        TableName="shop",
        Item={**keys, **row, "at": {"N": "1"}, "ob_pending": {"S": "parked"}, "ob_state": {"S": "parked"}},
    )
    (id_,) = (one["id"] for one in json.loads(ran(capsys, "list", "--json")[1]))
    _, out, _ = ran(capsys, "show", id_)
    (line,) = (line for line in out.splitlines() if line.startswith("as it is:"))
    words = shlex.split(line.partition(":")[2])
    assert words[:-1] == ["aws", "dynamodb", "get-item", "--table-name", "shop", "--key"]
    assert json.loads(words[-1]) == keys
    status, out, _ = ran(capsys, "redrive", "--all", "--dry-run")
    assert (status, out.splitlines()[-1]) == (1, "1 record would be refused")
    assert "its payload is not JSON" in out


def test_events_that_were_not_refused_are_discarded_by_name(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Else their record is left, and the exit status says that something was."""
    with shop.outbox.transaction() as tx:
        bad, _ = (tx.emit("order.placed", {"n": n}, key="A") for n in range(2))
    shop.sweeper(Bus(lambda event: CONTENT if event.id == bad.id else None)).sweep()
    command = ("discard", "--id", bad.id, "--reason", "test data")
    status, out, _ = ran(capsys, *command)
    assert (status, out.splitlines()[-1]) == (1, "1 record left")
    assert "1 event of it was not refused" in out
    assert ran(capsys, *command, "--others") == (0, "1 record discarded\n", "")


def test_what_became_of_records_is_told_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each that is neither published nor discarded, and what somebody has to know besides."""
    events = (ParkedEvent("e", "order.placed", refused=True),)
    record = ParkedRecord("e", "A\x1b[2J", events, "Bad", "never", 2, None, None, "in place", {"pk": "A", "sk": "e"})
    report = ParkedReport(
        (
            Treated(record, "published", overtaken=True),
            Treated(record, "refused", "Bad: never"),
            Treated(record, "left", "later"),
        ),
        missing=("x",),
        unsettled=1,
        released=("B",),
        unreleased={"C": "AccessDenied"},
        stopped="no bus",
    )
    monkeypatch.setattr("dynamodb_outbox.recover.ParkedRecords.redrive", lambda *_, **__: report)
    monkeypatch.setenv("OUTBOX_SINK", "arn:aws:sqs:eu-west-1:123456789012:orders")
    status, out, _ = ran(capsys, "redrive", "--table", "shop", "--all")
    assert status == 1
    late = "which had been published: a parked event is out of the order of its key (no promise of P4)"
    assert out.splitlines() == [
        "e of key A\\x1b[2J refused: Bad: never",
        "e of key A\\x1b[2J left: later",
        "nothing is parked under the id x",
        "the key B goes on",
        "the key C is parked still: AccessDenied",
        f"1 record behind a later event of the same key, {late}",
        "1 record published and parked still: run it again, which publishes a second time",
        "stopped: no bus",
        "1 record left; 1 record published; 1 record refused",
    ]
    json_report = json.loads(ran(capsys, "redrive", "--table", "shop", "--all", "--json")[1])
    assert json_report["records"][0]["record"]["events"] == [{"id": "e", "type": "order.placed", "refused": True}]


def test_a_record_that_nobody_can_read_is_shown_as_far_as_it_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the list and alone; so is one that is gone."""
    plain = ParkedRecord("e", "A", (), "", "", 1, 1_700_000_000_000, 1_700_000_000_000, "apart", {"pk": "A"})
    records = (replace(plain, unreadable="no JSON"), replace(plain, gone=True))
    monkeypatch.setattr("dynamodb_outbox.recover.ParkedRecords.list", lambda *_, **__: records)
    monkeypatch.setattr("dynamodb_outbox.recover.ParkedRecords.show", lambda *_, **__: [(each, ()) for each in records])
    _, out, _ = ran(capsys, "list", "--table", "shop")
    assert [line.split()[2] for line in out.splitlines()[1:3]] == ["unreadable", "gone"]
    status, out, _ = ran(capsys, "show", "--table", "shop", "e")
    assert status == 0
    assert "unreadable: no JSON" in out
    assert "gone:       the record has been deleted" in out
    assert "2023-11-14 22:13:20Z" in out


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("redrive",), "which records? Say --id,"),
        (("redrive", "--all", "--key", "A"), "leave out --all, or --id"),
        (("redrive", "--all", "--sink", "orders"), "--sink: 'orders': no ARN"),
        (("list", "--layout", "{"), "--layout is '{'"),
        (("list", "--table", ""), "neither names the outbox's table"),
    ],
)
def test_what_cannot_be_meant_is_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    """Before anything is read, or asked back."""
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    status, _, err = ran(capsys, *arguments)
    assert (status, says in err, "[y/N]" in err) == (2, True, False)


def test_a_layout_that_was_forgotten_is_told_by_what_is_parked(
    shop: Shop, engine: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read by keys that the table has not; by a status, too."""
    shop.client.delete_table(TableName="shop")
    parked(Shop(engine, Layout(pk="customer_id", sk="item")))
    for command in (["list"], ["show", "no-id"], ["discard", "--reason", "none", "--all"]):
        status, said, complaint = ran(capsys, *command)
        assert (status, said) == (3, "")
        assert """give the writer's layout, Layout(pk='customer_id', sk='item'), or --layout""" in complaint
    assert main(["status", "--table", "shop"]) == 3
    assert """--layout '{"pk": "customer_id", "sk": "item"}'""" in capsys.readouterr().err
