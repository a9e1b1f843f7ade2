"""Metrics: what an observer is told of relays and sweeps, and what CloudWatch is told of that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from relay_shell import CONTENT, TRANSIENT, Bus, Context, Table, relay, row, several, short

from dynamodb_outbox import Relay
from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.aws_lambda import relay_from, sweeper_from
from dynamodb_outbox.core.metrics import METRICS, NAMESPACE, values_of
from dynamodb_outbox.core.record.moves import Settled
from dynamodb_outbox.core.relay.facts import Relayed
from dynamodb_outbox.core.sweeping.commands import SweepReport, Swept
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.infra.alarms import alarms
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.metrics import EmfMetrics
from sweep_shell import Bus as SweptBus
from sweep_shell import Shop

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox.core.relay.outcome import Fault
    from dynamodb_outbox.event import Event

ROOT = Path(__file__).parents[2]
WRITTEN_MS = 1_769_860_800_000  # `ts` of `row`
BUS_ARN = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"


class Notes:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.facts: list[Any] = []

    def observe(self, fact: object) -> None:
        """Keep it."""
        self.facts.append(fact)


class Clock(SystemClock):
    """The wall clock stands, a minute after the rows were written; the other one goes on."""

    def now_ms(self) -> int:
        """Return that moment."""
        return WRITTEN_MS + 60_000


def relayed(*records: Any, bus: Bus | None = None, table: Table | None = None, **options: Any) -> Any:
    """Relay records, and return what the observer was told."""
    notes = Notes()
    made = relay(bus if bus is not None else Bus(), table, observer=notes, clock=Clock(), **options)
    made.lambda_handler({"Records": list(records)}, Context())
    (fact,) = notes.facts
    return fact


def test_an_invocation_is_told_with_counts_requests_and_ages() -> None:
    """Three events in one request: each as old as it is when the bus has taken it."""
    assert relayed(row(1, pk="a"), row(2, pk="b"), row(3, pk="c")) == Relayed(
        "shop", records=3, accepted=3, requests=1, sent=3, room=Bus.limits.entries, ages_ms=(60_000,) * 3
    )


def test_what_was_refused_is_told_by_what_became_of_it() -> None:
    """Accepted after a fault, parked, or left with its last code."""
    rejections = {"1": 1}

    def script(event: Event) -> Fault | None:
        number = short(event)
        rejections[number] = rejections.get(number, 0) - 1
        if number == "3":
            return CONTENT
        return TRANSIENT if rejections[number] >= 0 else None

    fact = relayed(row(1, pk="a"), row(2, pk="b"), row(3, pk="c"), bus=Bus(script))
    assert (fact.accepted, fact.recovered, fact.parked, fact.failed) == (2, 1, 1, {})
    held = relayed(row(1, pk="a"), row(3, pk="c"), bus=Bus(lambda _: CONTENT), on_poison="block")
    assert (held.accepted, held.parked, held.failed) == (0, 0, {CONTENT.code: 2})


def test_events_of_one_record_are_parked_and_told_one_by_one() -> None:
    """Two of three are refused."""
    fact = relayed(several(1, "xyz"), bus=Bus(lambda event: CONTENT if event.id in "xz" else None))
    assert (fact.records, fact.accepted, fact.parked) == (1, 1, 2)


def test_a_batch_that_comes_twice_is_told_as_known() -> None:
    """Nothing of it is published again, so it is no publication."""
    notes = Notes()
    made = relay(Bus(lambda event: TRANSIENT if short(event) == "2" else None), observer=notes)
    for _ in range(2):
        made.lambda_handler({"Records": [row(1, pk="a"), row(2, pk="b")]}, Context(600))
    assert [(fact.accepted, fact.known, fact.failed) for fact in notes.facts] == [
        (1, 0, {TRANSIENT.code: 1}),
        (0, 1, {TRANSIENT.code: 1}),
    ]


def test_published_records_that_could_not_be_settled_are_told() -> None:
    """A settle that fails for good."""
    table = Table()
    table.answers = [Settled(failed={"AccessDenied": 1})]
    fact = relayed(row(1), table=table)
    assert (fact.accepted, fact.unsettled) == (1, 1)


def test_a_key_from_two_partitions_is_told_also_when_they_come_in_two_batches() -> None:
    """Once for each batch in which its partition is not the one that was known."""
    notes = Notes()
    made = relay(Bus(), observer=notes)
    ours = {
        "ob_v": {"N": "1"},
        "key": {"S": "K"},
        "source": {"S": "s"},
        "time": {"S": "2026-01-31T12:00:00Z"},
    }
    for partitions in (("a", "a"), ("b",), ("a", "b")):
        records = [row(number, pk=pk, id={"S": str(number)}, **ours) for number, pk in enumerate(partitions, 1)]
        made.lambda_handler({"Records": records}, Context())
    assert [fact.split_keys for fact in notes.facts] == [0, 1, 1]


def test_an_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the answer is what it was."""

    def boom(_: object) -> None:
        raise ValueError("no disk")

    made = relay(Bus(), observer=SimpleNamespace(observe=boom))
    assert made.lambda_handler({"Records": [row(1)]}, Context()) == {"batchItemFailures": []}
    assert "the observer raised, and was not told of Relayed" in caplog.text


def test_what_is_no_observer_is_refused() -> None:
    """By the name of the argument."""
    with pytest.raises(ConfigurationError, match=r"Relay: observer is 5; an object with observe\(\) is needed"):
        Relay(Bus(), observer=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="write is no function"):
        EmfMetrics("stdout")  # type: ignore[arg-type]


def test_a_sweep_is_told_with_how_old_the_oldest_was(engine: Account) -> None:
    """And its rounds of publishing; one without anything to do has the age 0."""
    shop, notes = Shop(engine), Notes()
    shop.emit()
    sweeper = shop.sweeper(SweptBus(), observer=notes)
    sweeper.sweep()
    sweeper.sweep()
    published, first, second = notes.facts
    assert (published.table, published.accepted) == ("shop", 1)
    assert (first.table, first.report.accepted) == ("shop", 1)
    assert 0 < first.report.oldest_ms < 60_000
    assert second.report.oldest_ms == 0


# --- CloudWatch -------------------------------------------------------------------------------------------------------


def documents(*facts: Any) -> list[dict[str, Any]]:
    """Return the documents that are written of facts."""
    lines: list[str] = []
    metrics = EmfMetrics(lines.append, clock=Clock())
    for fact in facts:
        metrics.observe(fact)
    assert all("\n" not in line for line in lines)
    return [json.loads(line) for line in lines]


def test_a_document_names_each_metric_that_it_has_and_has_each_that_it_names() -> None:
    """By the specification: dimensions and metrics are members at the top, with units that there are."""
    fact = Relayed("shop", accepted=3, requests=2, sent=3, room=20, ages_ms=(5, 7), failed={"Throttled": 2, "Bad": 1})
    whole, bad, throttled = documents(fact)
    (directive,) = whole["_aws"]["CloudWatchMetrics"]
    assert whole["_aws"]["Timestamp"] == WRITTEN_MS + 60_000
    assert (directive["Namespace"], directive["Dimensions"]) == (NAMESPACE, [["Table"]])
    assert {each["Name"] for each in directive["Metrics"]} | {"_aws", "Table"} == whole.keys()
    assert {each["Unit"] for each in directive["Metrics"]} <= {"Count", "Percent", "Milliseconds"}
    assert (whole["Published"], whole["BatchFill"], whole["Age"], whole["Failed"]) == (3, 15, [5, 7], 3)
    for document, code, count in ((bad, "Bad", 1), (throttled, "Throttled", 2)):
        (directive,) = document["_aws"]["CloudWatchMetrics"]
        assert directive["Dimensions"] == [["Table", "Code"]]
        assert (document["Table"], document["Code"], document["Failed"]) == ("shop", code, count)


def test_codes_are_told_as_cloudwatch_takes_them() -> None:
    """In printable ASCII, not blank, of 1,024 characters at most; those that are the same then are one."""
    codes = {"": 1, "  ": 2, "\u00dcn": 3, "\u00dfn": 4, "a\nb": 5, "x" * 5000: 6, "x" * 6000: 7, "ok:": 8}
    whole, *others = documents(Relayed("", failed=codes))
    assert {each["Code"]: each["Failed"] for each in others} == {
        "Unknown": 3,
        "?n": 7,
        "a?b": 5,
        "x" * 1024: 13,
        "ok:": 8,
    }
    assert (whole["Failed"], whole["Table"]) == (36, "Unknown")


def test_an_instance_tells_so_many_codes_apart_and_no_more() -> None:
    """Each is a metric that is paid for. Those that are known stay so, the others are one, and no count is lost."""
    lines: list[str] = []
    metrics = EmfMetrics(lines.append, clock=Clock())
    for failed in ({f"C{number:03}": 1 for number in range(1000)}, {"C001": 2, "New": 3, "Other": 4}):
        metrics.observe(Relayed("shop", failed=failed))
    told = [json.loads(line) for line in lines]
    first, second = told[:52], told[52:]
    assert len(told) == 52 + 3
    assert {each["Code"] for each in first[1:]} == {f"C{number:03}" for number in range(50)} | {"Other"}
    assert sum(each["Failed"] for each in first[1:]) == first[0]["Failed"] == 1000
    assert {each["Code"]: each["Failed"] for each in second[1:]} == {"C001": 2, "Other": 7}


def test_what_has_no_value_is_not_reported() -> None:
    """An invocation without a request has no fill, one without an acceptance no age."""
    (document,) = documents(Relayed("shop"))
    assert not {"BatchFill", "Age"} & document.keys()
    assert document["Published"] == 0


def test_many_ages_are_told_by_a_hundred_of_them() -> None:
    """CloudWatch takes no more in a document; the least and the greatest are there."""
    (document,) = documents(Relayed("shop", ages_ms=tuple(range(9_999, -1, -1))))
    assert (len(document["Age"]), document["Age"][0], document["Age"][-1]) == (100, 0, 9_999)
    assert document["Age"] == sorted(document["Age"])


def test_a_sweep_reports_its_own_metrics_and_others_are_passed_over() -> None:
    """A fact of a consumer is none of a relay."""
    (document,) = documents(Swept("shop", SweepReport(oldest_ms=7, accepted=2, left=1)), object())
    assert (document["OldestPending"], document["SweptAccepted"], document["SweptLeft"]) == (7, 2, 1)
    assert "Published" not in document


def test_lines_go_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Where Lambda looks for them, one line each."""
    EmfMetrics().observe(Relayed("shop", failed={"Bad": 1}))
    assert [json.loads(line)["Table"] for line in capsys.readouterr().out.splitlines()] == ["shop", "shop"]


def test_the_ready_made_functions_report_when_their_environment_says_so() -> None:
    """And not otherwise; another word is refused."""
    of = {"OUTBOX_SINK": BUS_ARN, "OUTBOX_TABLE": "shop"}
    for make in (relay_from, sweeper_from):
        with_them, without = (make(of | {"OUTBOX_METRICS": word})._onlooker for word in ("emf", "none"))
        assert with_them is not None
        assert without is None
        assert make(of)._onlooker is None
        with pytest.raises(InvalidEnvironment, match="OUTBOX_METRICS is 'on'; 'emf' or 'none' is needed"):
            make(of | {"OUTBOX_METRICS": "on"})


def test_what_is_deployed_reports_what_its_alarms_look_at() -> None:
    """Each alarm on a metric of this namespace is on one that there is."""
    deployment = Deployment(table="shop", sink=BUS_ARN, notify="ops@example.com")
    assert deployment.variables()["OUTBOX_METRICS"] == "emf"
    watched = {one.name for alarm in alarms(deployment, "arn") for one in alarm.metrics if one.namespace == NAMESPACE}
    assert watched == {"Parked", "OldestPending"}
    assert watched <= {metric.name for metric in METRICS}


def test_the_document_has_the_table() -> None:
    """Line by line."""
    told_by = {Relayed: "relay, and rounds of a sweep", Swept: "sweep"}
    wanted = [f"| `{each.name}` | {each.unit} | {each.says} | {told_by[each.of]} |" for each in METRICS]
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"<!-- metrics -->\n(.*?)\n<!-- end of metrics -->", text, re.DOTALL)
    assert part.splitlines()[2:] == wanted


def test_the_examples_of_the_document_work() -> None:
    """As they stand, one after the other."""
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, found)  # noqa: S102 -- running it is the test
        assert isinstance(found["relay"], Relay)


def test_each_metric_has_a_value_in_one_fact_alone() -> None:
    """No fact reports a metric of another."""
    full = Relayed("shop", requests=1, sent=1, room=10, ages_ms=(1,))
    assert [*values_of(full), *values_of(Swept("shop", SweepReport()))] == list(METRICS)
