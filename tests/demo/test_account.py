"""The account and the promises: a perfect run is accepted, and each way to break a promise is noticed."""

from __future__ import annotations

import copy
import json

import pytest
from demo_evidence import Made, Row, perfect

from dynamodb_outbox.local.demo.account import account_of
from dynamodb_outbox.local.demo.evidence import LaneEvidence, acceptance, event_id
from dynamodb_outbox.local.demo.report import percentile, report_of
from dynamodb_outbox.local.demo.schedule import Order, plan

SCHEDULE = plan(60, 11)
PERFECT = perfect(SCHEDULE)


@pytest.fixture
def made() -> Made:
    """Make a perfect run, to be spoilt."""
    return copy.deepcopy(PERFECT)


def paid_order() -> Order:
    """Return an order with at least two commits, and so several events of one key."""
    return next(order for order in SCHEDULE.orders if order.paid and not order.flagged and order.fault is None)


def broken(made: Made) -> dict[str, list[str]]:
    """Return what was seen against each promise that was broken."""
    return {one.number: list(one.broken) for one in report_of(made.evidence()).promises if not one.kept}


def test_a_perfect_run_keeps_every_promise(made: Made) -> None:
    """Nothing is held against a run in which everything was published and applied once, in order."""
    report = report_of(made.evidence())
    assert report.kept, [str(promise) for promise in report.promises]
    assert [promise.number for promise in report.promises] == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert all(str(promise).startswith(f"✓ {promise.number} ") for promise in report.promises)


def test_the_figures_of_a_perfect_run(made: Made) -> None:
    """Orders, events and deliveries are counted from the tables and the buses."""
    figures = report_of(made.evidence()).to_json()
    losing = len(SCHEDULE.hit_by("loses"))
    events = sum(len(item.get("history", [])) for item in made.items)
    assert figures["orders"] == 60
    assert figures["committed"] == 60 - losing
    assert figures["rejected"] == losing
    assert figures["published"] == figures["deliveries"] == events
    assert figures["dual_write"]["publish_then_write"]["published"] == events
    nothing = ["lost", "phantom", "duplicates_delivered", "effects_applied_twice", "out_of_order_keys", "pending"]
    assert [figures[name] for name in nothing] == [0] * len(nothing)
    assert (figures["seed"], figures["seconds"]) == (11, 1.5)


def test_an_event_that_nobody_published_is_lost(made: Made) -> None:
    """P2: a row lists the event, the bus never accepted it, and it is not parked."""
    name = f"{paid_order().request_id}/order.placed"
    made.acceptances = [row for row in made.acceptances if name not in row["detail"]]
    made.deliveries = [row for row in made.deliveries if name not in row["body"]]
    assert broken(made)["P2"] == [f"lost: 1 ({name})"]


def never_published(made: Made, name: str) -> None:
    """Let the bus never have accepted the event of this name."""
    made.acceptances = [row for row in made.acceptances if name not in row["detail"]]
    made.deliveries = [row for row in made.deliveries if name not in row["body"]]


def test_the_event_that_no_bus_accepts_is_not_lost_when_it_is_parked(made: Made) -> None:
    """P2: an event that was never accepted, as planned, is accounted for by its parked record."""
    never_published(made, name := f"{SCHEDULE.hit_by('unpublishable')[0].request_id}/order.placed")
    made.find(lambda item: name in item.get("payload", ""))["state"] = "parked"
    report = report_of(made.evidence())
    assert report.kept
    assert report.figures["parked"] == 1
    assert "(1 parked)" in str(report.promises[1])


def test_parking_excuses_nothing_that_the_bus_would_have_taken(made: Made) -> None:
    """P2: a relay that parks an event instead of publishing it has lost it, whatever its record says."""
    never_published(made, name := f"{paid_order().request_id}/order.placed")
    made.find(lambda item: name in item.get("payload", ""))["state"] = "parked"
    assert broken(made)["P2"] == [f"lost: 1 ({name})", f"parked_wrongly: 1 ({name})"]


def test_an_event_that_was_published_and_parked_is_parked_wrongly(made: Made) -> None:
    """P2: an operator would send it once more."""
    name = f"{paid_order().request_id}/order.placed"
    made.find(lambda item: name in item.get("payload", ""))["state"] = "parked"
    assert broken(made) == {"P2": [f"parked_wrongly: 1 ({name})"]}


def test_a_kill_that_did_not_happen_is_no_broken_promise_but_said(made: Made) -> None:
    """Nothing was seen against a promise, and yet it was not put to the test that was announced."""
    assert report_of(made.evidence()).unshown == ()
    made.kills.pop()
    report = report_of(made.evidence())
    assert report.kept
    assert report.unshown == ("2 of 3 planned relay kills happened",)


def test_callers_that_were_told_nothing_were_not_told_the_truth(made: Made) -> None:
    """P6: every order needs its verdict."""
    made.verdicts.clear()
    assert broken(made)["P6"][0].startswith("wrong_outcomes: 60 (")


def test_two_verdicts_that_contradict_each_other_are_wrong(made: Made) -> None:
    """P6: whichever comes last; the same one twice is no contradiction."""
    made.verdicts.append(made.verdicts[0])
    assert broken(made) == {}
    told = made.verdicts[0]["request"]
    made.verdicts.insert(0, {"request": told, "verdict": "rejected"})
    assert broken(made) == {"P6": [f"wrong_outcomes: 1 ({told})"]}


def test_a_pending_record_at_the_end_breaks_the_promise(made: Made) -> None:
    """P2: what still waits for the relay after the demo's patience was not published."""
    made.find(lambda item: item.get("state") == "published")["state"] = "pending"
    assert broken(made) == {"P2": ["pending: 1"]}


def test_a_record_without_a_state_counts_as_pending(made: Made) -> None:
    """A record as hand-written code leaves it has no state, and waits."""
    del made.find(lambda item: item.get("state") == "published")["state"]
    assert broken(made) == {"P2": ["pending: 1"]}


def test_an_event_of_a_change_that_never_happened_is_a_phantom(made: Made) -> None:
    """P1: the bus accepted an event that no row lists."""
    made.publish("id-x", "F99999/order.placed", 2_000_000)
    made.consumer.append({"pk": "CUSTOMER#1", "sk": "EFFECT#x", "event": "id-x", "cents": 0})
    assert broken(made) == {"P1": ["phantom: 1 (F99999/order.placed)"]}


def test_an_event_that_cannot_be_read_is_a_phantom(made: Made) -> None:
    """P1: whatever the bus accepted and no row explains counts, even if it is not JSON."""
    made.acceptances.append({"at_ms": 1, "detail": "not JSON"})
    assert broken(made)["P1"] == ["phantom: 1 (None)"]


def test_a_name_that_cannot_be_printed_is_spelt_out(made: Made) -> None:
    """JSON holds half a surrogate pair, and a relay may publish it: the account must not fail for it."""
    made.acceptances.append({"at_ms": 1, "detail": json.dumps({"id": "x", "name": "\ud800"})})
    assert broken(made)["P1"] == ["phantom: 1 (\\ud800)"]


def test_a_second_id_for_one_event_is_noticed(made: Made) -> None:
    """P3: the same event under two ids cannot be told from two events."""
    name = f"{paid_order().request_id}/order.placed"
    made.publish("another-id", name, 2_000_000)
    made.consumer.append({"pk": "CUSTOMER#1", "sk": "EFFECT#x", "event": "another-id", "cents": 0})
    assert broken(made) == {"P3": [f"renamed: 1 ({name})"]}


def test_first_acceptances_out_of_order_are_noticed(made: Made) -> None:
    """P4: a later event of a key was accepted before an earlier one."""
    order = paid_order()
    early, late = (
        next(i for i, row in enumerate(made.acceptances) if f'"{name}"' in row["detail"])
        for name in (f"{order.request_id}/order.placed", f"{order.payment_id}/order.paid")
    )
    made.acceptances[early], made.acceptances[late] = made.acceptances[late], made.acceptances[early]
    key = f"CUSTOMER#{order.customer}"
    assert broken(made) == {"P4": [f"out_of_order_keys: 1 ({key})"]}


def test_the_events_of_one_commit_have_an_order_too(made: Made) -> None:
    """P4: two events of one transaction are to be accepted in the order in which they were emitted."""
    order = next(order for order in SCHEDULE.orders if order.flagged and order.fault is None)
    first, second = (
        next(i for i, row in enumerate(made.acceptances) if f'"{order.request_id}/{kind}"' in row["detail"])
        for kind in ("order.placed", "order.flagged")
    )
    made.acceptances[first], made.acceptances[second] = made.acceptances[second], made.acceptances[first]
    assert list(broken(made)) == ["P4"]


def test_a_repetition_is_not_out_of_order(made: Made) -> None:
    """P4 is about first acceptances: everything may be accepted again, later, in any order."""
    for row in reversed(list(made.acceptances)):
        made.acceptances.append(row)
    assert broken(made) == {}


def test_an_effect_applied_twice_is_noticed(made: Made) -> None:
    """P5: two effect rows name the same event; the balance shows it as well, unless it was booked twice too."""
    effect = next(item for item in made.consumer if "event" in item)
    made.consumer.append({**effect, "sk": "EFFECT#again", "cents": 0, "history": []})
    assert broken(made) == {"P5": [f"effects_applied_twice: 1 ({effect['event']})"]}


def test_a_delivery_without_an_effect_is_noticed(made: Made) -> None:
    """P5: an event was handed to the consumer and never applied."""
    effect = next(item for item in made.consumer if "event" in item)
    missing, effect["event"] = effect["event"], "id-of-nothing"
    assert broken(made) == {"P5": [f"effects_missing: 1 ({missing})"]}


def test_an_acceptance_that_was_never_delivered_is_noticed(made: Made) -> None:
    """P5: the consumer can apply only what reaches it."""
    lost = made.deliveries.pop()
    assert broken(made) == {"P5": [f"undelivered: 1 ({event_id(lost)})"]}


def test_a_balance_that_is_not_the_sum_is_noticed(made: Made) -> None:
    """P5: half of an effect was applied."""
    invoice = next(item for item in made.consumer if item["sk"].startswith("INVOICE#"))
    invoice["cents"] += 1
    assert broken(made) == {"P5": [f"wrong_balances: 1 ({invoice['pk']})"]}
    made.consumer += [{"pk": invoice["pk"], "sk": "BALANCE", "cents": -1}]
    assert broken(made) == {}


def test_duplicates_are_counted_and_harmless(made: Made) -> None:
    """A delivery of an event that was delivered before is a duplicate, and breaks nothing when it was applied once."""
    made.deliveries += made.deliveries[:3]
    report = report_of(made.evidence())
    assert report.kept
    assert report.figures["duplicates_delivered"] == 3


def test_an_event_listed_twice_was_committed_twice(made: Made) -> None:
    """P6: the same command is in the table twice."""
    order = paid_order()
    row = made.row(order)
    row["history"].append(row["history"][0])
    assert f"{order.request_id}/order.placed" in broken(made)["P6"][0]


def test_a_counter_that_says_more_commits_than_the_rows_was_committed_twice(made: Made) -> None:
    """P6: the customer's counter and the customer's rows disagree."""
    counter = made.find(lambda item: item["sk"] == "META")
    counter["version"] += 1
    assert broken(made) == {"P6": [f"committed_twice: 1 ({counter['pk']})"]}


def test_an_order_that_should_have_been_rejected_is_a_wrong_outcome(made: Made) -> None:
    """P6: a command overwrote an order in spite of its condition."""
    loser = SCHEDULE.hit_by("loses")[0]
    first = next(order for order in SCHEDULE.orders if order.order_id == loser.order_id)
    made.row(first)["request"] = loser.request_id
    assert any(loser.request_id in one for one in broken(made)["P6"])


def test_an_order_that_is_missing_is_a_wrong_outcome(made: Made) -> None:
    """P6: a command without any obstacle is not in the table as it had to be."""
    order = paid_order()
    made.row(order)["history"].pop()
    assert any(f"wrong_outcomes: 1 ({order.request_id})" in one for one in broken(made)["P6"])


@pytest.mark.parametrize("verdict", ["rejected", "unknown"])
def test_a_caller_that_was_told_the_wrong_thing_is_noticed(made: Made, verdict: str) -> None:
    """P6: never a committed change reported as failed, nor as unknown to the end."""
    order = paid_order()
    told = next(row for row in made.verdicts if row["request"] == order.request_id)
    told["verdict"] = verdict
    assert broken(made) == {"P6": [f"wrong_outcomes: 1 ({order.request_id})"]}


def test_what_the_bus_did_wrong_is_counted_from_its_own_record(made: Made) -> None:
    """Rejections by entry and by answer, lost answers to committed writes alone, kills that hit a held request."""
    made.faults += [
        {"kind": "entry_rejected", "what": {"request": 4, "id": "a"}},
        {"kind": "entry_rejected", "what": {"request": 4, "id": "b"}},
        {"kind": "entry_unacceptable", "what": {"request": 5, "id": "c"}},
        {"kind": "answer_lost", "what": {"status": 200}},
        {"kind": "answer_lost", "what": {"status": 400}},
        {"kind": "outage", "what": {"request": 6}},
        {"kind": "held", "what": {"request": 3}},
    ]
    made.kills += [{"at_ms": 1, "pid": 2, "request": 3}, {"at_ms": 2, "pid": 3, "request": 9}]
    own = account_of(made.evidence()).outbox
    assert (own.bus_rejections, own.partial_failures, own.lost_answers, own.relay_kills) == (3, 2, 1, 1 + 3)


def test_latency_is_that_of_the_calm_orders_but_the_first() -> None:
    """Latency runs from the record's time to the first acceptance; the order that woke the functions is left out."""
    own = account_of(PERFECT.evidence()).outbox
    calm = SCHEDULE.phase(calm=True)[1:]
    assert min(own.calm_latency_ms) == 10 + calm[0].number
    assert max(own.calm_latency_ms) == 10 + calm[-1].number
    assert list(own.calm_latency_ms) == sorted(own.calm_latency_ms)


def test_percentiles_are_values_that_occurred() -> None:
    """The nearest-rank percentile; nothing when there is nothing."""
    values = list(range(1, 101))
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7], 0.99)) == (50, 99, 7)
    assert percentile([], 0.5) is None


# --- the second hop ---------------------------------------------------------------------------------------------------


def own_event(made: Made, place: int = 0) -> tuple[Row, str, str]:
    """Return an effect of the consumer, and the name and the id of the event that it was committed with."""
    effect = [item for item in made.consumer if "history" in item][place]
    name = effect["history"][0]["name"]
    record = next(item for item in made.consumer if "payload" in item and name in item["payload"])
    return effect, name, record["sk"].removeprefix("OUTBOX#")


def test_the_figures_of_a_perfect_second_hop(made: Made) -> None:
    """Each event of an order is followed by one of an invoice."""
    report = report_of(made.evidence())
    figures = report.figures["invoices"]
    events = report.figures["published"]
    assert (figures["events"], figures["published"], figures["deliveries"]) == (events, events, events)
    assert set(figures.values()) == {events, 0, True}
    assert not any("not judged" in str(promise) for promise in report.promises)
    assert list(figures.values()).count(events) == 3
    assert f"(0 of {2 * events} deliveries were duplicates)" in str(report.promises[4])


def test_an_event_in_turn_that_nobody_published_is_lost(made: Made) -> None:
    """P2: whether its record waits, is parked, or is gone."""
    _, name, event_id = own_event(made)
    for accepted in (made.invoices, made.entered):
        accepted[:] = [row for row in accepted if name not in str(row)]
    assert broken(made) == {"P2": [f"invoices_lost: 1 ({name})"]}
    record = next(item for item in made.consumer if item["sk"] == f"OUTBOX#{event_id}")
    record["state"] = "parked"
    assert broken(made) == {"P2": [f"invoices_lost: 1 ({name})", f"invoices_parked_wrongly: 1 ({name})"]}
    record["state"] = "pending"
    assert broken(made) == {"P2": [f"invoices_lost: 1 ({name})", "pending: 1"]}


def test_an_event_in_turn_of_no_effect_is_a_phantom(made: Made) -> None:
    """P1: its bus accepted what no row lists. A consumer that lists nothing at all is not asked, and that is said."""
    made.publish_invoice("id-x", "F9/order.placed/invoice.changed", 2_000_000)
    made.ledger.append({"pk": "CUSTOMER#1", "sk": "EFFECT#x", "event": "id-x", "cents": 0})
    assert broken(made) == {"P1": ["invoices_phantom: 1 (F9/order.placed/invoice.changed)"]}
    made.consumer[:] = [{name: value for name, value in item.items() if name != "history"} for item in made.consumer]
    made.ledger.clear()
    report = report_of(made.evidence())
    assert report.kept
    assert not report.figures["invoices"]["judged"]
    assert all("; second hop not judged" in str(promise) for promise in report.promises)


def test_events_in_turn_have_an_order_and_an_id(made: Made) -> None:
    """P3 and P4: of the customer's commits in the consumer's table, by their numbers there."""
    effect, name, _ = own_event(made)
    later = next(
        item["history"][0]["name"]
        for item in made.consumer
        if item["pk"] == effect["pk"] and item.get("history", [{"n": 0}])[0]["n"] == 2
    )
    first, second = (
        next(place for place, row in enumerate(made.invoices) if f'"{one}"' in row["detail"]) for one in (name, later)
    )
    made.invoices[first], made.invoices[second] = made.invoices[second], made.invoices[first]
    assert broken(made) == {"P4": [f"invoices_out_of_order_keys: 1 ({effect['pk']})"]}
    made.invoices[first], made.invoices[second] = made.invoices[second], made.invoices[first]
    made.publish_invoice("another", name, 2_000_000)
    made.ledger.append({"pk": "CUSTOMER#1", "sk": "EFFECT#x", "event": "another", "cents": 0})
    assert broken(made) == {"P3": [f"invoices_renamed: 1 ({name})"]}


def test_what_the_ledger_has_twice_or_not_at_all_is_noticed(made: Made) -> None:
    """P5 of the second hop, as of the first."""
    entry = next(item for item in made.ledger if "event" in item)
    made.ledger.append({**entry, "sk": "EFFECT#again", "cents": 0})
    assert broken(made) == {"P5": [f"invoices_effects_applied_twice: 1 ({entry['event']})"]}
    made.ledger.pop()
    event, entry["event"] = entry["event"], "nothing"
    assert broken(made) == {"P5": [f"invoices_effects_missing: 1 ({event})"]}
    entry["event"] = event
    balance = next(item for item in made.ledger if item["sk"] == "BALANCE")
    balance["cents"] += 1
    assert broken(made) == {"P5": [f"invoices_wrong_balances: 1 ({balance['pk']})"]}
    balance["cents"] -= 1
    lost = made.entered.pop()
    assert broken(made) == {"P5": [f"invoices_undelivered: 1 ({event_id(lost)})"]}


def test_an_effect_that_told_twice_was_committed_twice(made: Made) -> None:
    """P6: the same event in turn is listed twice."""
    effect, name, _ = own_event(made)
    effect["history"] *= 2
    assert broken(made) == {"P6": [f"invoices_committed_twice: 1 ({name})"]}


def test_dual_writes_are_judged_by_their_own_evidence(made: Made) -> None:
    """Lost and phantom events of another lane are its own, and do not touch the outbox's promises."""
    order = paid_order()
    name = f"{order.request_id}/order.placed"
    rows = tuple(item for item in made.items if "OUTBOX#" not in item["sk"])
    published = tuple({"at_ms": 1, "detail": row["detail"]} for row in made.acceptances if name not in row["detail"])
    phantom = {"at_ms": 1, "detail": json.dumps({"id": "x", "name": "F99999/order.placed"})}
    evidence = made.evidence(
        write_then_publish=LaneEvidence(published, (), rows),
        publish_then_write=LaneEvidence((*published, phantom), (), rows),
    )
    report = report_of(evidence)
    assert report.kept
    first, second = report.figures["dual_write"].values()
    assert (first["lost"], first["phantom"]) == (1, 0)
    assert (second["lost"], second["phantom"]) == (1, 1)


def test_the_table_has_a_row_for_each_figure_and_a_column_for_each_lane(made: Made) -> None:
    """Every row has four cells; what a lane does not have is a dash."""
    table = report_of(made.evidence()).table
    assert [len([cell for cell in row if cell]) for row in table] == [4] * len(table)
    assert ("still on their way (pending)", "0", "-", "-") in table


def test_details_with_and_without_an_envelope_are_read() -> None:
    """An acceptance's detail is a CloudEvent, or the data alone; an id or a name that is no text does not count."""
    assert acceptance({"at_ms": 5, "detail": '{"id":"a","data":{"name":"n"}}'}).name == "n"
    assert acceptance({"at_ms": 5, "detail": '{"id":"a","name":"n"}'}).name == "n"
    assert acceptance({"at_ms": 5, "detail": '{"id":1,"name":2}'}) == acceptance({"at_ms": 5, "detail": "[]"})
    assert event_id({"body": "no JSON"}) is None
    assert event_id({"body": '{"detail": 5}'}) is None
