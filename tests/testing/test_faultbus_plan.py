"""The pure part of the fault bus: plans as data, and what they decide."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.faultbus import (
    Delay,
    Duplicate,
    FaultPlan,
    FaultPlanInvalid,
    Hold,
    Lost,
    Missing,
    Outage,
    Rejection,
    RequestError,
    Reset,
    Unacceptable,
)
from dynamodb_outbox.testing.faultbus.decide import (
    Content,
    Decider,
    Decision,
    Drop,
    Fate,
    Proceed,
    Refuse,
    RequestFails,
    chance,
)
from dynamodb_outbox.testing.faultbus.destinations import is_meant

FRACTIONS = st.floats(0, 1) | st.sampled_from([0, 1])
TEXTS = st.text(max_size=8)
BOUNDS = st.none() | st.integers(1, 4)
CODES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3).map(tuple)
SPANS = st.tuples(st.integers(0, 10_000), st.integers(1, 10_000))
PLANS = st.builds(
    FaultPlan,
    seed=st.integers(0, 2**40),
    rejections=st.lists(st.builds(Rejection, FRACTIONS, CODES, BOUNDS, TEXTS), max_size=2).map(tuple),
    unacceptable=st.lists(st.builds(Unacceptable, st.text(min_size=1, max_size=8)), max_size=2).map(tuple),
    duplicates=st.lists(st.builds(Duplicate, FRACTIONS, TEXTS), max_size=2).map(tuple),
    errors=st.lists(st.builds(RequestError, FRACTIONS, st.integers(400, 599), max_consecutive=BOUNDS), max_size=2).map(
        tuple
    ),
    resets=st.lists(st.builds(Reset, FRACTIONS, st.sampled_from(["before", "after"]), BOUNDS), max_size=2).map(tuple),
    delays=st.lists(st.builds(lambda share, span: Delay(share, span[0], sum(span)), FRACTIONS, SPANS), max_size=2).map(
        tuple
    ),
    holds=st.lists(st.builds(Hold, st.integers(1, 9), st.integers(1, 3), TEXTS, destination=TEXTS), max_size=2).map(
        tuple
    ),
    missing=st.lists(st.builds(Missing, st.text(min_size=1, max_size=8)), max_size=2).map(tuple),
    outages=st.lists(
        st.builds(
            lambda span, mode: Outage(span[0], sum(span), mode), SPANS, st.sampled_from(["503", "reset", "hang"])
        ),
        max_size=2,
    ).map(tuple),
    lost=st.lists(
        st.builds(Lost, st.text(min_size=1, max_size=8), TEXTS, st.just("a(b)"), FRACTIONS, st.integers(1, 4)),
        max_size=2,
    ).map(tuple),
)
IDENTITIES = st.lists(st.text(max_size=12), min_size=1, max_size=10)


def contents(*identities: str) -> list[Content]:
    """Return entries of these identities."""
    return [Content(identity, f"detail of {identity}") for identity in identities]


def proceed(decider: Decider, *identities: str, now_ms: int = 0) -> Proceed:
    """Return the decision about a request that must be let through."""
    decision = decider.publish(contents(*identities), now_ms)
    assert isinstance(decision, Proceed)
    return decision


@given(PLANS)
def test_plan_survives_json(plan: FaultPlan) -> None:
    """A plan written as JSON and read again is the same plan."""
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_empty_object_is_a_plan_without_faults() -> None:
    """Every part of a plan is optional; nothing given means nothing goes wrong."""
    assert FaultPlan.from_json("{}") == FaultPlan()
    assert json.loads(FaultPlan().to_json()) == {"seed": 0}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "the text"),
        ("[]", "the text"),
        ('{"rejectoins": []}', "rejectoins"),
        ('{"seed": "x"}', "seed"),
        ('{"seed": true}', "seed"),
        ('{"seed": -1}', "seed"),
        ('{"rejections": {}}', "rejections"),
        ('{"rejections": [3]}', "rejections[0]"),
        ('{"rejections": [{}]}', "rejections[0]"),
        ('{"rejections": [{"fraction": 0.1}, {"fraction": 1.5}]}', "rejections[1].fraction"),
        ('{"rejections": [{"fraction": "0.1"}]}', "rejections[0].fraction"),
        ('{"rejections": [{"fraction": true}]}', "rejections[0].fraction"),
        ('{"rejections": [{"fraction": NaN}]}', "rejections[0].fraction"),
        ('{"rejections": [{"fraction": 0.1, "codes": []}]}', "rejections[0].codes"),
        ('{"rejections": [{"fraction": 0.1, "codes": "InternalFailure"}]}', "rejections[0].codes"),
        ('{"rejections": [{"fraction": 0.1, "codes": [""]}]}', "rejections[0].codes"),
        ('{"rejections": [{"fraction": 0.1, "max_consecutive": 0}]}', "rejections[0].max_consecutive"),
        ('{"rejections": [{"fraction": 0.1, "contains": 3}]}', "rejections[0].contains"),
        ('{"rejections": [{"fraction": 0.1, "colour": "red"}]}', "rejections[0].colour"),
        ('{"unacceptable": [{"contains": ""}]}', "unacceptable[0].contains"),
        ('{"errors": [{"fraction": 1, "status": 200}]}', "errors[0].status"),
        ('{"errors": [{"fraction": 1, "status": 500.5}]}', "errors[0].status"),
        ('{"resets": [{"fraction": 1, "when": "during"}]}', "resets[0].when"),
        ('{"delays": [{"fraction": 1, "min_ms": 5, "max_ms": 4}]}', "delays[0].max_ms"),
        ('{"holds": [{"nth": 0}]}', "holds[0].nth"),
        ('{"outages": [{"start_ms": 5, "end_ms": 5}]}', "outages[0].end_ms"),
        ('{"outages": [{"start_ms": 0, "end_ms": 5, "mode": "slow"}]}', "outages[0].mode"),
        ('{"rejections": [{"fraction": 0.1, "sender_fault": 1}]}', "rejections[0].sender_fault"),
        ('{"unacceptable": [{"contains": "x", "sender_fault": "no"}]}', "unacceptable[0].sender_fault"),
        ('{"rejections": [{"fraction": 0.1, "destination": 5}]}', "rejections[0].destination"),
        ('{"unacceptable": [{"contains": "x", "destination": 5}]}', "unacceptable[0].destination"),
        ('{"duplicates": [{"fraction": 0.1, "destination": 5}]}', "duplicates[0].destination"),
        ('{"errors": [{"fraction": 0.1, "destination": 5}]}', "errors[0].destination"),
        ('{"resets": [{"fraction": 0.1, "when": "after", "destination": 5}]}', "resets[0].destination"),
        ('{"delays": [{"fraction": 0.1, "min_ms": 1, "max_ms": 1, "destination": 5}]}', "delays[0].destination"),
        ('{"holds": [{"destination": 5}]}', "holds[0].destination"),
        ('{"outages": [{"start_ms": 0, "end_ms": 5, "destination": 5}]}', "outages[0].destination"),
        ('{"missing": [{"destination": ""}]}', "missing[0].destination"),
        ('{"missing": [{}]}', "missing[0]"),
        ('{"lost": [{"operation": "GetItem", "destination": "orders"}]}', "lost[0].destination"),
        ('{"lost": [{"operation": "GetItem", "key": "("}]}', "lost[0].key"),
        ('{"lost": [{"operation": "GetItem", "key": 3}]}', "lost[0].key"),
        ('{"lost": [{"operation": "GetItem", "when": "never"}]}', "lost[0].when"),
    ],
)
def test_plan_that_cannot_work_is_refused_by_place(text: str, where: str) -> None:
    """A misspelt fault or an impossible value is an error that names the place, never a fault that does not happen."""
    with pytest.raises(FaultPlanInvalid) as caught:
        FaultPlan.from_json(text)
    assert caught.value.where == where
    assert where in str(caught.value)
    assert isinstance(caught.value, ConfigurationError)


@given(st.integers(0, 99), st.lists(st.text(max_size=8), max_size=4))
def test_chance_is_a_number_below_one_and_always_the_same(seed: int, parts: list[str]) -> None:
    """Chance depends on its arguments alone."""
    value = chance(seed, *parts)
    assert 0 <= value < 1
    assert chance(seed, *parts) == value


def test_rates_are_what_the_plan_says() -> None:
    """Over many entries a fraction is met within four standard deviations, for several seeds."""
    for seed in range(5):
        decider = Decider(FaultPlan(seed=seed, rejections=(Rejection(0.05),), duplicates=(Duplicate(0.2),)))
        fates = [fate for n in range(400) for fate in proceed(decider, *(f"{n}-{k}" for k in range(10))).fates]
        rejected = sum(fate.code is not None for fate in fates)
        doubled = sum(fate.copies == 2 for fate in fates)
        assert abs(rejected - 200) < 4 * (4000 * 0.05 * 0.95) ** 0.5
        assert abs(doubled - 760) < 4 * (3800 * 0.2 * 0.8) ** 0.5


def test_every_code_of_a_rejection_is_used() -> None:
    """A rejected entry gets one of the rule's codes by chance, and no other."""
    decider = Decider(FaultPlan(rejections=(Rejection(1.0, codes=("A", "B", "C")),)))
    fates = proceed(decider, *(str(n) for n in range(100))).fates
    assert {fate.code for fate in fates} == {"A", "B", "C"}
    assert not any(fate.permanent for fate in fates)


@given(PLANS, st.lists(IDENTITIES, min_size=1, max_size=8))
def test_same_requests_same_faults(plan: FaultPlan, requests: list[list[str]]) -> None:
    """A plan that meets the same requests at the same times decides the same."""
    one, two = Decider(plan), Decider(plan)
    for now_ms, request in enumerate(requests):
        entries = contents(*request)
        assert one.publish(entries, now_ms) == two.publish(entries, now_ms)
        assert one.accepted(entries) == two.accepted(entries)


@given(
    st.integers(0, 99),
    st.floats(0, 1),
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_fate_of_an_entry_does_not_depend_on_company_or_order(
    seed: int, fraction: float, arrivals: list[str], shuffle: Any
) -> None:
    """The n-th attempt of an entry has the same fate however attempts of other entries are batched and interleaved."""
    plan = FaultPlan(seed=seed, rejections=(Rejection(fraction, max_consecutive=3),), duplicates=(Duplicate(0.5),))

    def fates(order: list[str], size: int) -> dict[str, list[Fate]]:
        decider, found = Decider(plan), dict[str, list[Fate]]()
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            for identity, fate in zip(batch, proceed(decider, *batch).fates, strict=True):
                found.setdefault(identity, []).append(fate)
        return found

    other = list(arrivals)
    shuffle.shuffle(other)
    assert fates(arrivals, 1) == fates(other, 7)


@given(st.integers(0, 999), st.floats(0, 1), st.integers(1, 4))
def test_consecutive_rejections_are_bounded(seed: int, fraction: float, most: int) -> None:
    """An entry that is tried again and again gets through after at most `max_consecutive` rejections."""
    decider = Decider(FaultPlan(seed=seed, rejections=(Rejection(fraction, max_consecutive=most),)))
    streak = 0
    for _ in range(40):
        rejected = proceed(decider, "one").fates[0].code is not None
        streak = streak + 1 if rejected else 0
        assert streak <= most


def test_unbounded_rejection_never_lets_through() -> None:
    """Without a bound a fraction of 1 rejects for ever."""
    decider = Decider(FaultPlan(rejections=(Rejection(1.0, contains="of b"),)))
    for _ in range(50):
        fates = proceed(decider, "a", "b").fates
        assert [fate.code is None for fate in fates] == [True, False]


def test_unacceptable_entry_is_refused_for_ever_and_first() -> None:
    """A content fault comes before chance, is marked permanent and never passes."""
    plan = FaultPlan(unacceptable=(Unacceptable("of bad", "InvalidArgument"),), rejections=(Rejection(1.0),))
    decider = Decider(plan)
    for _ in range(20):
        bad, good = proceed(decider, "bad", "good").fates
        assert bad == Fate(code="InvalidArgument", permanent=True, sender_fault=True)
        assert good.code in {"InternalFailure", "ThrottlingException"}


def test_outage_counts_from_the_first_request() -> None:
    """The clock of an outage starts with the first publish request, includes its start and excludes its end."""
    decider = Decider(FaultPlan(outages=(Outage(100, 200, "reset"), Outage(300, 301, "hang"))))
    assert decider.outage(7_150) is None
    proceed(decider, "a", now_ms=7_000)
    assert decider.outage(7_099) is None
    assert decider.publish(contents("a"), 7_100) == Refuse("reset")
    assert decider.publish(contents("a"), 7_199) == Refuse("reset")
    proceed(decider, "a", now_ms=7_200)
    assert decider.outage(7_300) == "hang"


def test_outage_by_hand_leaves_the_plan_alone() -> None:
    """An outage can be switched on before any request; switching it off leaves the planned ones."""
    decider = Decider(FaultPlan(outages=(Outage(0, 10),)))
    decider.begin_outage("hang", "")
    assert decider.publish(contents("a"), 0) == Refuse("hang")
    decider.end_outages()
    assert decider.publish(contents("a"), 9) == Refuse("503")
    proceed(decider, "a", now_ms=10)


def test_outage_uses_up_no_attempt() -> None:
    """What an entry meets after an outage is what it would have met without it."""
    plan = FaultPlan(seed=3, rejections=(Rejection(0.5),))
    undisturbed, disturbed = Decider(plan), Decider(plan)
    expected = [proceed(undisturbed, "a").fates for _ in range(20)]
    disturbed.begin_outage("503", "")
    for _ in range(7):
        disturbed.publish(contents("a"), 0)
    disturbed.end_outages()
    assert [proceed(disturbed, "a").fates for _ in range(20)] == expected


def test_request_faults_are_bounded_and_matched() -> None:
    """Whole-request faults hit requests that mention the text, at most so often in a row for one first entry."""
    plan = FaultPlan(
        errors=(RequestError(1.0, 400, "ThrottlingException", max_consecutive=2, contains="of a"),),
        resets=(Reset(1.0, "before", max_consecutive=1, contains="of b"),),
    )
    decider = Decider(plan)
    seen = [decider.publish(contents("a"), 0) for _ in range(4)]
    assert seen[:2] == [RequestFails(400, "ThrottlingException")] * 2
    assert isinstance(seen[2], Proceed)
    assert seen[3] == RequestFails(400, "ThrottlingException")
    assert decider.publish(contents("b"), 0) == Drop()
    assert isinstance(decider.publish(contents("b"), 0), Proceed)
    assert isinstance(decider.publish(contents("c"), 0), Proceed)


@given(st.integers(0, 99), st.integers(0, 50), st.integers(0, 50))
def test_delay_lies_between_its_bounds(seed: int, least: int, more: int) -> None:
    """A delayed request waits for at least `min_ms` and at most `max_ms`."""
    decider = Decider(FaultPlan(seed=seed, delays=(Delay(0.0, 0, 0), Delay(1.0, least, least + more))))
    assert all(least <= proceed(decider, "a").delay_ms <= least + more for _ in range(10))


def test_no_delay_without_a_hit() -> None:
    """A request that no rule hits does not wait."""
    assert proceed(Decider(FaultPlan(delays=(Delay(1.0, 5, 5, contains="nowhere"),))), "a").delay_ms == 0


def test_hold_counts_matching_acceptances() -> None:
    """Only accepted requests that mention the text are counted; `count` of them are held from the `nth` on."""
    decider = Decider(FaultPlan(holds=(Hold(nth=2, count=2, contains="of a"),)))
    assert decider.accepted(contents("b")) == "answer"
    assert [decider.accepted(contents("x", "a")) for _ in range(5)] == ["answer", "hold", "hold", "answer", "answer"]


def test_holds_on_demand_come_on_top_of_the_plan() -> None:
    """An armed hold is not used up by a request that the plan holds anyway."""
    decider = Decider(FaultPlan(holds=(Hold(nth=1),)))
    decider.arm(2)
    assert [decider.accepted(contents("a")) for _ in range(4)] == ["hold", "hold", "hold", "answer"]
    assert decider.armed == 0


def test_reset_after_acceptance_is_bounded() -> None:
    """An accepted request whose answer was lost gets its answer on the retry, when the rule is bounded."""
    decider = Decider(FaultPlan(resets=(Reset(1.0, "after", max_consecutive=1),)))
    assert isinstance(decider.publish(contents("a"), 0), Proceed)
    assert [decider.accepted(contents("a")) for _ in range(3)] == ["reset", "answer", "reset"]


def test_answers_are_lost_for_the_first_calls_of_each_key() -> None:
    """Each match key loses its first answers; other operations, bodies and bodies without a key lose nothing."""
    rule = Lost("TransactWriteItems", contains="OUTBOX#", key='"Token": "([^"]+)"', first=2)
    decider = Decider(FaultPlan(lost=(rule,)))

    def call(token: str, operation: str = "TransactWriteItems", text: str = "OUTBOX#") -> str:
        return decider.pass_through(operation, f'{text} "Token": "{token}"')

    assert [call("t1"), call("t2"), call("t1"), call("t1"), call("t2"), call("t2")] == [
        "lose_after",
        "lose_after",
        "lose_after",
        "forward",
        "lose_after",
        "forward",
    ]
    assert call("t3", operation="PutItem") == "forward"
    assert call("t3", text="else") == "forward"
    assert decider.pass_through("TransactWriteItems", "OUTBOX#") == "forward"


def test_lost_before_and_without_a_key() -> None:
    """Without a key all matching calls count together; a key without a group is its whole find."""
    decider = Decider(
        FaultPlan(lost=(Lost("A", first=2, when="before"), Lost("B", key="k[0-9]"), Lost("C", key="(x)?")))
    )
    assert [decider.pass_through("A", body) for body in "xyz"] == ["lose_before", "lose_before", "forward"]
    assert [decider.pass_through("B", body) for body in ("k1", "k2", "k1")] == ["lose_after", "lose_after", "forward"]
    assert [decider.pass_through("C", "y") for _ in range(2)] == ["lose_after", "forward"]


def test_fraction_of_keys_loses_answers() -> None:
    """The fraction of a loss is a share of the keys, and a key that is spared is spared for ever."""
    decider = Decider(FaultPlan(seed=1, lost=(Lost("A", key=".+", fraction=0.25, first=9),)))
    hit = {str(n) for n in range(1000) if decider.pass_through("A", str(n)) == "lose_after"}
    assert 190 < len(hit) < 310
    spared = next(str(n) for n in range(1000) if str(n) not in hit)
    assert {decider.pass_through("A", spared) for _ in range(20)} == {"forward"}


def test_rules_keep_to_their_destination() -> None:
    """Entries for other places are taken, and a request is hit when one of its entries goes to the rule's place."""
    here, there = Content("a", "text", "orders"), Content("b", "text", "payments")
    plan = FaultPlan(
        rejections=(Rejection(1.0, ("X",), destination="orders"),),
        duplicates=(Duplicate(1.0, destination="payments"),),
        unacceptable=(Unacceptable("text", "Y", destination="stock"),),
        missing=(Missing("gone"),),
    )
    decision = Decider(plan).publish([here, there, Content("c", "text", "stock"), Content("d", "text", "gone")], 0)
    assert decision == Proceed(
        0, (Fate("X"), Fate(copies=2), Fate("Y", permanent=True, sender_fault=True), Fate(missing=True))
    )


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (FaultPlan(errors=(RequestError(1.0, destination="orders"),)), RequestFails(500, "InternalException")),
        (FaultPlan(resets=(Reset(1.0, "before", destination="orders"),)), Drop()),
        (FaultPlan(delays=(Delay(1.0, 5, 5, destination="orders"),)), Proceed(5, (Fate(),))),
        (FaultPlan(outages=(Outage(0, 9, "reset", destination="orders"),)), Refuse("reset")),
    ],
)
def test_request_faults_keep_to_their_destination(rule: FaultPlan, wanted: Decision) -> None:
    """A rule about the whole request hits those to its place alone."""
    decider = Decider(rule)
    assert decider.publish([Content("b", "text", "payments")], 0) == Proceed(0, (Fate(),))
    assert decider.publish([Content("a", "text", "orders")], 0) == wanted


def test_acceptance_faults_keep_to_their_destination() -> None:
    """Holds count, and resets hit, what one destination accepted."""
    decider = Decider(
        FaultPlan(holds=(Hold(2, destination="orders"),), resets=(Reset(1.0, "after", destination="payments"),))
    )
    here, there = [Content("a", "text", "orders")], [Content("b", "text", "payments")]
    assert [decider.accepted(one) for one in (here, there, here, here)] == ["answer", "reset", "hold", "answer"]


def test_outages_by_hand_add_up_by_destination() -> None:
    """Several destinations can be out at a time, each in its own way, and all of them come back together."""
    decider = Decider(FaultPlan())
    decider.begin_outage("hang", "orders")
    decider.begin_outage("reset", "payments")
    assert decider.publish([Content("a", "", "orders")], 0) == Refuse("hang")
    assert decider.publish([Content("a", "", "stock"), Content("b", "", "payments")], 0) == Refuse("reset")
    assert decider.publish([Content("a", "", "stock")], 0) == Proceed(0, (Fate(),))
    assert decider.outage(0) == "hang"
    decider.end_outages()
    assert decider.outage(0) is None


BUS = "arn:aws:events:us-east-1:000000000001:event-bus/orders"
TOPIC = "arn:aws:sns:us-east-1:000000000001:orders"
QUEUE = "http://127.0.0.1:4566/000000000001/orders"


@pytest.mark.parametrize(
    ("wanted", "told", "meant"),
    [
        ("", "orders", True),
        ("orders", "orders", True),
        ("orders", BUS, True),
        ("orders", TOPIC, True),
        ("orders", QUEUE, True),
        (BUS, "orders", True),
        (QUEUE, "orders", True),
        (BUS, BUS, True),
        (BUS, TOPIC, False),
        (QUEUE, QUEUE.replace("1/", "2/"), False),
        ("order", "orders", False),
        ("orders", TOPIC + "-2", False),
        ("orders", QUEUE + ".fifo", False),
    ],
)
def test_destination_is_told_by_name_or_in_full(wanted: str, told: str, meant: bool) -> None:
    """A bare name means all of that name; where both sides are told in full they must be equal."""
    assert is_meant(wanted, told) is meant


def test_rules_are_plain_data() -> None:
    """A rule's attributes are its settings, nothing more."""
    assert asdict(Hold(nth=3)) == {"nth": 3, "count": 1, "contains": "", "destination": ""}
