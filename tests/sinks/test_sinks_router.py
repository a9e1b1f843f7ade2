"""Which of several destinations an event goes to, and sinks made from ARNs."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_events import ACCOUNT, QUEUE, TOPIC, URL, client, event

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sinks import EventBridge, Fault, Kind, Router, SinkLimits, Sns, Sqs, sink_from_arn

ORDERS, CRM, AUDIT, REST = EventBridge("orders"), Sns(TOPIC), Sqs(URL), EventBridge("default")


def way(router: Router, **changes: Any) -> Any:
    """Return the sink that an event goes to, or the code of its fault."""
    found = router.route(event(**changes))
    if isinstance(found, Fault):
        assert found.kind is Kind.CONTENT
        return found.code
    return router.sinks[found]


# --- by type ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "sink"),
    [
        ("order.placed", ORDERS),
        ("order.", ORDERS),
        ("order.audited", AUDIT),
        ("order.audited.twice", ORDERS),
        ("order.crm.sent", CRM),
        ("order.crm.", CRM),
        ("order", REST),
        ("Order.placed", REST),
        ("*", REST),
        ("order.*", ORDERS),
    ],
)
def test_an_exact_type_goes_first_then_the_longest_beginning(type_: str, sink: Any) -> None:
    """Whatever the order in which they are written."""
    routes: dict[str, Any] = {"order.*": ORDERS, "order.audited": AUDIT, "order.crm.*": CRM}
    for written in (routes, dict(reversed(routes.items()))):
        assert way(Router(written, default=REST), type=type_) is sink


def test_a_star_alone_takes_everything() -> None:
    """As a default does."""
    assert way(Router({"*": REST, "order.placed": ORDERS}), type="x") is REST


def test_an_event_that_no_route_fits_is_parked() -> None:
    """A content fault, unless there is a default."""
    assert way(Router({"order.*": ORDERS}), type="invoice.sent") == "NoRoute"
    assert way(Router({"order.*": ORDERS}, default=REST), type="invoice.sent") is REST


@given(st.dictionaries(st.from_regex(r"[ab]{0,4}\*?", fullmatch=True).filter(bool), st.integers(0, 3), min_size=1))
def test_routes_by_type_agree_with_the_rule_as_it_is_told(routes: dict[str, int]) -> None:
    """For every type of up to five letters: the exact route, else the longest beginning."""
    sinks: list[Any] = [ORDERS, CRM, AUDIT, REST]
    router = Router({pattern: sinks[number] for pattern, number in routes.items()})
    types = [""]
    for _ in range(4):
        types += [start + letter for start in types for letter in "ab"]
    for type_ in set(types):
        fitting = [pattern for pattern in routes if pattern.endswith("*") and type_.startswith(pattern[:-1])]
        best = type_ if type_ in routes else max(fitting, key=len, default=None)
        expected = "NoRoute" if best is None else sinks[routes[best]]
        assert way(router, type=type_) == expected


# --- by a function ----------------------------------------------------------------------------------------------------


def test_a_function_names_a_sink() -> None:
    """Anything of the event can decide; None means the default."""
    router = Router(lambda one: one.key, sinks={"a": ORDERS, "b": CRM}, default=REST)
    assert [way(router, key=key) for key in ("a", "b", None)] == [ORDERS, CRM, REST]
    assert way(Router(lambda _: None, sinks={"a": ORDERS})) == "NoRoute"


@pytest.mark.parametrize("answer", ["other", "", 5, ["a"], {}, True])
def test_a_name_that_no_sink_has_is_a_fault_of_the_event(answer: Any) -> None:
    """And what was named stays out of the log: it may be the event's data."""
    found = Router(lambda _: answer, sinks={"a": ORDERS}, default=REST).route(event())
    assert found == Fault(Kind.CONTENT, "UnknownSink", "the routing function named no sink of this router")


def test_a_function_that_raises_is_a_fault_of_the_event() -> None:
    """Others go on; what it said is not repeated."""

    def choose(one: Any) -> str:
        return {"1": "a"}[one.data["secret"]]

    router = Router(choose, sinks={"a": ORDERS})
    found = router.route(event('{"secret":"2"}'))
    assert found == Fault(Kind.CONTENT, "RouteFailed", "the routing function raised KeyError")
    assert way(router, payload='{"secret":"1"}') is ORDERS


# --- destinations -----------------------------------------------------------------------------------------------------


def test_two_names_for_one_sink_are_one_destination() -> None:
    """The positions are in the order of first mention, the default last."""
    assert Router({"b": CRM, "a": ORDERS, "c": CRM}, default=REST).sinks == (CRM, ORDERS, REST)
    assert Router({"b": CRM, "a": ORDERS}, default=CRM).sinks == (CRM, ORDERS)
    router = Router(lambda one: one.type, sinks={"x": CRM, "y": CRM})
    assert (router.sinks, way(router, type="x"), way(router, type="y")) == ((CRM,), CRM, CRM)
    assert repr(router) == f"Router({CRM!r})"


def test_two_sinks_of_one_destination_are_refused() -> None:
    """Breaker, batches and memory go by the destination, which has one set of settings."""
    with pytest.raises(ConfigurationError, match=r"'orders'.*Make the sink once"):
        Router({"a": ORDERS, "b": EventBridge("orders", envelope="raw")})
    with pytest.raises(ConfigurationError, match=r"'orders'.*'default'"):
        Router({"a": ORDERS}, default=EventBridge("orders"))


def test_a_sink_of_ones_own_is_one() -> None:
    """Told by what it has, not by its class."""
    own: Any = SimpleNamespace(
        name="own", limits=SinkLimits(1, 1, 1), request_ms=1, prepare=print, publish=print, verify=print
    )
    assert way(Router({"*": own})) is own


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {}, "routes"),
    (None, {}, "dict of sinks"),
    ("order.*", {}, "dict of sinks"),
    ([("order.*", ORDERS)], {}, "dict of sinks"),
    (EventBridge, {}, "dict of sinks"),
    ({"": ORDERS}, {}, "not empty"),
    ({5: ORDERS}, {}, "not empty"),
    ({"order.*.x": ORDERS}, {}, "last character"),
    ({"**": ORDERS}, {}, "last character"),
    ({"a": "orders"}, {}, "EventBridge"),
    ({"a": EventBridge}, {}, "EventBridge"),
    ({"a": Router({"b": ORDERS})}, {}, "do not nest"),
    ({"a": SimpleNamespace(name="x", prepare=print, publish=print, verify=print)}, {}, "A sink is needed"),
    ({"a": ORDERS}, {"default": "rest"}, "'default'"),
    ({"a": ORDERS}, {"sinks": {"a": ORDERS}}, "function"),
    (str, {"sinks": {"a": ORDERS}}, "dict of sinks"),
    (lambda _: "a", {}, "sinks"),
    (lambda _: "a", {"sinks": {}}, "sinks"),
    (lambda _: "a", {"sinks": [ORDERS]}, "sinks"),
    (lambda _: "a", {"sinks": {"a": 5}}, "'a'"),
]


@pytest.mark.parametrize(("routes", "options", "said"), WRONG)
def test_routes_that_cannot_work_are_refused(routes: Any, options: dict[str, Any], said: str) -> None:
    """When the router is made, with what is needed."""
    with pytest.raises(ConfigurationError, match=said.replace("*", r"\*")):
        Router(routes, **options)


# --- from ARNs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arn", "kind"),
    [
        (f"arn:aws:events:eu-west-1:{ACCOUNT}:event-bus/orders", EventBridge),
        (f"arn:aws-us-gov:events:us-gov-west-1:{ACCOUNT}:event-bus/orders", EventBridge),
        (TOPIC, Sns),
        (f"{TOPIC}.fifo", Sns),
        (QUEUE, Sqs),
        (f"{QUEUE}.fifo", Sqs),
    ],
)
def test_a_sink_from_its_arn(arn: str, kind: type[Any]) -> None:
    """The service tells the kind; client and envelope are handed on."""
    sink: Any = sink_from_arn(arn)
    assert (type(sink), sink.name, getattr(sink, "fifo", False)) == (kind, arn, arn.endswith(".fifo"))
    service = {EventBridge: "events", Sns: "sns", Sqs: "sqs"}[kind]
    given = client(service)
    assert sink_from_arn(arn, client=given)._client.get() is given
    entry: Any = sink_from_arn(arn, envelope="raw").prepare(event())
    assert '{"n":1}' in entry.entry.values()


@pytest.mark.parametrize(
    "arn",
    [
        "",
        None,
        "orders",
        f"arn:aws:kinesis:eu-west-1:{ACCOUNT}:stream/orders",
        f"arn:aws:lambda:eu-west-1:{ACCOUNT}:function:orders",
        f"arn:aws:events:eu-west-1:{ACCOUNT}:event-busv2/orders",
        f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/orders",
        "arn:aws:s3:::orders",
    ],
)
def test_an_arn_of_anything_else_is_refused(arn: Any) -> None:
    """With what is known."""
    with pytest.raises(ConfigurationError, match="sink_from_arn") as caught:
        sink_from_arn(arn)
    if arn:
        assert all(known in str(caught.value) for known in ("EventBridge", "SNS", "SQS"))


@pytest.mark.parametrize(
    ("url", "arn"),
    [
        (URL, QUEUE),
        (f"https://eu-west-1.queue.amazonaws.com/{ACCOUNT}/a.fifo", f"arn:aws:sqs:eu-west-1:{ACCOUNT}:a.fifo"),
        (f"https://sqs.cn-north-1.amazonaws.com.cn/{ACCOUNT}/a", f"arn:aws-cn:sqs:cn-north-1:{ACCOUNT}:a"),
        (f"https://sqs.us-gov-west-1.amazonaws.com/{ACCOUNT}/a", f"arn:aws-us-gov:sqs:us-gov-west-1:{ACCOUNT}:a"),
        (f"http://127.0.0.1:4566/{ACCOUNT}/a", None),
        ("https://sqs.eu-west-1.amazonaws.com/mine/a", None),
    ],
)
def test_the_url_of_a_queue_is_answered_with_its_arn(url: str, arn: str | None) -> None:
    """The console shows both. Where the URL does not tell all of it, what is known is said."""
    with pytest.raises(ConfigurationError) as caught:
        sink_from_arn(url)
    assert (
        f"It takes its ARN: {arn}." in str(caught.value) if arn else "no ARN. It takes the ARN of" in str(caught.value)
    )


@pytest.mark.parametrize("arn", [f"{TOPIC}:subscription", f"arn:aws:events:eu-west-1:{ACCOUNT}:event-bus/a b"])
def test_an_arn_that_only_looks_right_is_refused_by_its_sink(arn: str) -> None:
    """The constructor's own error."""
    with pytest.raises(ConfigurationError):
        sink_from_arn(arn)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bus:orders", "no ARN (`bus:orders` is a word of `outbox infra` alone). It takes the ARN of"),
        ("orders", "no ARN. It takes the ARN of"),
        (f"arn:aws:events:eu-west-1:{ACCOUNT}:orders", "no event bus. It takes the ARN of"),
        ("arn:aws:s3:::b", "no sink for 's3' here. It takes the ARN of"),
    ],
)
def test_what_is_no_sinks_arn_is_told_apart(text: str, said: str) -> None:
    """A word that another command takes, a name, an ARN that names no bus, and one of another service."""
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        sink_from_arn(text)
