"""What environment variables come to, and what is said of those that cannot work."""

from __future__ import annotations

import inspect
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.envelope import ENVELOPES
from dynamodb_outbox.core.relay.outcome import Prepared
from dynamodb_outbox.environment.settings import layout_from, layout_text, settings_of
from dynamodb_outbox.environment.variables import RELAY, SWEEP, VARIABLES
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover import Sweeper
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge, Router, Sns, Sqs

BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:orders.fifo"
MADE: dict[str, type[Any]] = {RELAY: Relay, SWEEP: Sweeper}
BY_ARGUMENT = {each.argument: each for each in VARIABLES if each.argument is not None}
OF = {
    function: {name: each.default for name, each in inspect.signature(made).parameters.items()}
    for function, made in MADE.items()
}
NEEDED = {"OUTBOX_SINK": BUS, "OUTBOX_TABLE": "any"}
EACH = [(function, argument) for function in MADE for argument in BY_ARGUMENT if argument in OF[function]]


def problems(**variables: str) -> tuple[str, ...]:
    """Return what is said of variables, given by their names without the beginning, beside a sink that is right."""
    with pytest.raises(InvalidEnvironment) as caught:
        settings_of({"OUTBOX_SINK": BUS} | {f"OUTBOX_{name}": value for name, value in variables.items()})
    return tuple(map(str, caught.value.problems))


def test_a_sink_is_all_that_is_needed() -> None:
    """With it alone, everything else is as the arguments of Relay and Layout have it; other variables are not read."""
    settings = settings_of(
        {"OUTBOX_SINK": BUS, "PATH": "/bin", "AWS_REGION": "eu-west-1", "OUTBOX": "x", "MY_OUTBOX_": ""}
    )
    assert isinstance(settings.sink, EventBridge)
    assert (settings.sink.bus, settings.layout, settings.arguments, settings.log_level) == (BUS, Layout(), {}, None)


@pytest.mark.parametrize("environment", [{}, {"OUTBOX_SINK": ""}, {"OUTBOX_SINK": " \n"}, {"OUTBOX_TABLE": "shop"}])
def test_without_a_sink_nothing_works(environment: dict[str, str]) -> None:
    """Nobody can guess where events go."""
    with pytest.raises(InvalidEnvironment, match="OUTBOX_SINK is not set") as caught:
        settings_of(environment)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(("arn", "kind"), [(BUS, EventBridge), (TOPIC, Sns), (QUEUE, Sqs)])
def test_the_arn_tells_the_kind_of_sink(arn: str, kind: type) -> None:
    """A bus, a topic and a queue; white space around the ARN, as a template may leave it, is no part of it."""
    for given_arn in (arn, f" {arn}\n"):
        sink = settings_of({"OUTBOX_SINK": given_arn}).sink
        assert isinstance(sink, kind)
        assert getattr(sink, "name") == arn  # noqa: B009 -- a Router has none


def event(event_type: str) -> Event:
    """Return an event of this type."""
    return Event("1", event_type, "shop", '{"n":1}', datetime(2026, 1, 1, tzinfo=timezone.utc), "k")


def test_routes_send_each_type_to_one_sink() -> None:
    """As Router has it; one ARN in two routes is one destination."""
    routes = {"order.*": BUS, "order.audited": QUEUE, "stock.counted": BUS, "*": TOPIC}
    router = settings_of({"OUTBOX_SINK": json.dumps(routes)}).sink
    assert isinstance(router, Router)
    assert sorted(sink.name for sink in router.sinks) == sorted({BUS, QUEUE, TOPIC})
    for event_type, arn in {"order.placed": BUS, "order.audited": QUEUE, "stock.counted": BUS, "else": TOPIC}.items():
        index = router.route(event(event_type))
        assert isinstance(index, int)
        assert router.sinks[index].name == arn


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("orders", "OUTBOX_SINK: .*no ARN"),
        ("arn:aws:s3:::bucket", "no sink for 's3'"),
        ("{}", "a sink for each name"),
        ('{"a*b": "BUS"}', r"'a\*b'"),
        ('{"": "BUS"}', "no name"),
        ('{"a": "BUS", "b": "orders"}', "OUTBOX_SINK, the route 'b': .*no ARN"),
        ('{"a": 5}', "^OUTBOX_SINK, the route 'a' is 5; text"),
        ('{"a": ["BUS"]}', "the route 'a'"),
        ('{"a": "BUS", "b": "BUS", "a": "TOPIC"}', "OUTBOX_SINK names 'a' twice"),
        (
            "https://sqs.eu-west-1.amazonaws.com/123456789012/a.fifo",
            "its ARN: arn:aws:sqs:eu-west-1:123456789012:a.fifo",
        ),
        ('{"a": "BUS"', "no JSON"),
        ('{"a":' * 100_000, "no JSON"),
    ],
)
def test_a_sink_that_cannot_work_is_named(sink: str, words: str) -> None:
    """What is wrong is told of the variable, and of the route where there are several."""
    with pytest.raises(InvalidEnvironment, match=words) as caught:
        settings_of({"OUTBOX_SINK": sink.replace("BUS", BUS).replace("TOPIC", TOPIC)})
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("sink", [BUS, json.dumps({"*": BUS})])
@pytest.mark.parametrize(("envelope", "published"), [("raw", '{"n":1}'), ("cloudevents", None), ("", None)])
def test_the_envelope_is_that_of_every_sink(sink: str, envelope: str, published: str | None) -> None:
    """`raw` publishes the data alone; without the variable, a CloudEvent is published."""
    made = settings_of({"OUTBOX_SINK": sink, "OUTBOX_ENVELOPE": envelope}).sink
    prepared = (made.sinks[0] if isinstance(made, Router) else made).prepare(event("order.placed"))
    assert isinstance(prepared, Prepared)
    detail = prepared.entry["Detail"]
    assert detail == published if published else json.loads(detail)["specversion"] == "1.0"


# --- what is handed on to Relay and Sweeper ---

VALUES: dict[str, dict[str, Any]] = {
    "table": {"shop": "shop"},
    "source": {"shop.orders": "shop.orders", "x" * 256: "x" * 256},
    "ordering": {"key": "key", "none": "none"},
    "on_poison": {"park": "park", "park_key": "park_key", "block": "block"},
    "max_in_flight": {"1": 1, "1000": 1000},
    "rate_limit_per_instance": {"1": 1, "1000000": 1_000_000},
    "breaker_after": {"1": 1, "1000000": 1_000_000, "never": None},
    "remember_accepted": {"0": 0, "10000000": 10_000_000},
    "min_age": {"0": timedelta(0), "604800": timedelta(days=7)},
}
"""By argument: each text that is at an edge of what the variable may hold, and what it comes to."""

REFUSED: dict[str, list[str]] = {
    "table": [],
    "source": ["aws.shop", "x" * 257, "\ud800"],
    "ordering": ["keys", "KEY", "true"],
    "on_poison": ["drop", "park-key"],
    "max_in_flight": ["0", "1001", "-1", "8.0", "1e2", "1_0", "eight", "٨", "9" * 5000],
    "rate_limit_per_instance": ["0", "1000001", "never"],
    "breaker_after": ["0", "1000001", "none", "Never"],
    "remember_accepted": ["-1", "10000001"],
    "min_age": ["-1", "604801", "1.5", "5m"],
}

BEYOND = ("-1", "0", "1001", "1000001", "10000001")
"""Texts that are numbers, and beyond an edge."""


def test_each_argument_that_text_can_say_has_a_variable() -> None:
    """What has none is what only a program can give: clients, ports, and what is made of other variables."""
    for function, arguments in OF.items():
        read = {name for name, each in BY_ARGUMENT.items() if function in each.read_by}
        assert set(arguments) - read == {"sink", "layout", "client", "observer", "clock", "entropy", "crew"}
        assert read <= set(arguments)
    assert set(VALUES) == set(REFUSED) == set(BY_ARGUMENT)


@pytest.mark.parametrize(
    ("function", "argument", "given_text", "value"),
    [(function, name, *each) for function, name in EACH for each in VALUES[name].items()],
)
def test_a_value_is_handed_on_as_it_is_taken(function: str, argument: str, given_text: str, value: object) -> None:
    """Up to the edges of what the variable may hold; white space around it is no part of it."""
    for around in ("{}", "  {}\n"):
        settings = settings_of({**NEEDED, BY_ARGUMENT[argument].name: around.format(given_text)}, function)
        assert settings.arguments == {"table": "any"} | {argument: value}
        MADE[function](settings.sink, layout=settings.layout, **settings.arguments)


@pytest.mark.parametrize(
    ("function", "argument", "given_text"),
    [(function, name, each) for function, name in EACH for each in REFUSED[name]],
)
def test_a_value_that_does_not_fit_is_refused_with_the_name_of_its_variable(
    function: str, argument: str, given_text: str
) -> None:
    """It is neither corrected nor left out; and the class itself would refuse what is beyond an edge as well."""
    variable = BY_ARGUMENT[argument]
    with pytest.raises(InvalidEnvironment, match=f"^{variable.name} is ") as caught:
        settings_of({**NEEDED, variable.name: given_text}, function)
    assert len(caught.value.problems) == 1
    value: Any = int(given_text) if given_text in BEYOND else given_text
    with pytest.raises(ConfigurationError):
        MADE[function](settings_of(NEEDED).sink, **{"table": "any", argument: value})


@pytest.mark.parametrize(("function", "argument"), [each for each in EACH if each[1] not in ("table", "source")])
def test_what_holds_without_a_variable_is_the_default(function: str, argument: str) -> None:
    """The table says so, in the words of the variable; `None` is "no limit", a time its seconds."""
    default = OF[function][argument]
    said = f"{default.total_seconds():.0f}" if isinstance(default, timedelta) else str(default)
    assert BY_ARGUMENT[argument].unset.strip("`") == ("no limit" if default is None else said)


def test_a_function_takes_the_variables_of_the_others_for_right() -> None:
    """So that a template may give all functions the same ones; what is wrong in them is told all the same."""
    shared = {**NEEDED, "OUTBOX_MIN_AGE": "60", "OUTBOX_ORDERING": "key", "OUTBOX_REMEMBER_ACCEPTED": "5"}
    assert settings_of(shared).arguments == {"table": "any", "ordering": "key", "remember_accepted": 5}
    assert settings_of(shared, SWEEP).arguments == {"table": "any", "min_age": timedelta(minutes=1)}
    for function in MADE:
        with pytest.raises(InvalidEnvironment, match=r"OUTBOX_ORDERING.*OUTBOX_MIN_AGE"):
            settings_of({**shared, "OUTBOX_MIN_AGE": "soon", "OUTBOX_ORDERING": "any"}, function)


def test_a_sweep_needs_a_table() -> None:
    """No stream names it."""
    with pytest.raises(InvalidEnvironment, match=r"^OUTBOX_TABLE is not set"):
        settings_of({"OUTBOX_SINK": BUS, "OUTBOX_TABLE": " "}, SWEEP)


def test_a_layout_is_read_alone() -> None:
    """By who needs no sink; other variables may say anything."""
    environment = {"OUTBOX_LAYOUT": '{"prefix": "A#"}', "OUTBOX_SETTLE": "mark", "OUTBOX_MIN_AGE": "soon"}
    assert layout_from(environment) == Layout(prefix="A#", settle="mark")
    assert layout_from({}) == Layout()
    with pytest.raises(InvalidEnvironment, match="OUTBOX_LAYOUT") as caught:
        layout_from({"OUTBOX_LAYOUT": '{"prefx": "A#"}', "OUTBOX_SETTLE": "burn"})
    assert len(caught.value.problems) == 2
    with pytest.raises(InvalidEnvironment, match="Layout"):
        layout_from({"OUTBOX_LAYOUT": '{"index": "?"}'})


def test_the_envelopes_are_those_that_sinks_know() -> None:
    """Each envelope that a sink knows by name can be chosen."""
    (variable,) = (each for each in VARIABLES if each.name == "OUTBOX_ENVELOPE")
    assert all(f"`{name}`" in variable.values for name in ENVELOPES)
    for name in ENVELOPES:
        settings_of({"OUTBOX_SINK": BUS, "OUTBOX_ENVELOPE": name})
    assert "'xml'" in problems(ENVELOPE="xml")[0]


@pytest.mark.parametrize(("given_text", "level"), [("INFO", "INFO"), ("warning", "WARNING"), ("Error", "ERROR")])
def test_the_log_level_is_read_in_any_case(given_text: str, level: str) -> None:
    """Both ways of writing it are common."""
    assert settings_of({"OUTBOX_SINK": BUS, "OUTBOX_LOG_LEVEL": given_text}).log_level == level


# --- the layout ---


def test_the_layout_has_the_arguments_of_layout() -> None:
    """By their names, in JSON; durations are seconds."""
    members = {"pk": "id", "sk": None, "own_partition": True, "columns": {"id": "event_id"}, "published_for": 86400}
    assert settings_of({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": json.dumps(members)}).layout == Layout(
        pk="id", sk=None, own_partition=True, columns={"id": "event_id"}, published_for=timedelta(days=1)
    )


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout(own_partition=True, sk=None, pk="order_id"),
        Layout(pk_type="N", prefix="OUT#", guard_prefix="É#", settle="none"),
        Layout(placement="table", pk="event_id", sk=None, select={}, columns={"type": "event_type", "at": "sent"}),
        Layout(placement="table", payload_format="map", select={"entity": "OUTBOX", "sk": {"prefix": "OUTBOX#"}}),
        Layout(version="v", dense_versions=True, index="pending", index_shards=4, ttl="gone_at"),
    ],
)
def test_a_layout_becomes_text_and_is_read_as_the_same(layout: Layout) -> None:
    """Whatever a writer's layout is, `layout_text` says it."""
    assert settings_of({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": layout_text(layout)}).layout == layout


@given(
    st.timedeltas(timedelta(minutes=1), timedelta(days=36_500)),
    st.sampled_from(["expire", "mark", "delete", "none"]),
    st.integers(1, 1000),
)
def test_durations_and_choices_of_a_layout_become_text(kept: timedelta, settle: Any, shards: int) -> None:
    """To the microsecond; a whole number of seconds has no fraction."""
    layout = Layout(
        published_for=kept, guard_for=kept, settle=settle, index_shards=shards, version="v", version_start="clock"
    )
    assert settings_of({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": layout_text(layout)}).layout == layout


def test_the_text_of_a_layout_is_short() -> None:
    """Lambda takes 4 KB of variables together."""
    assert layout_text(Layout()) == "{}"
    assert layout_text(Layout(settle="mark", guard_for=timedelta(days=1))) == '{"settle":"mark","guard_for":86400}'


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("[]", "a JSON object is needed"),
        ('"pk"', "a JSON object is needed"),
        ("{", "no JSON"),
        ('{"pk": NaN}', "NaN"),
        (f'{{"index_shards": {"9" * 5000}}}', "no JSON"),
        ("pk=id", 'For example {"pk": "customer_id", "sk": "item"}.'),
        ('["pk"]', 'a JSON object is needed. For example {"pk": "customer_id"'),
        ('{"partition_key": "id"}', "did you mean 'pk'?"),
        ('{"RangeKey": "id"}', "did you mean 'sk'?"),
        ('{"own_partitions": true}', "did you mean 'own_partition'?"),
        ('{"colums": {}}', "names 'colums', which is no argument of Layout; did you mean 'columns'?"),
        ('{"zzz": 1}', "it has placement, "),
        ('{"pk": "a", "pk": "b"}', "OUTBOX_LAYOUT names 'pk' twice"),
        ('{"columns": {"type": "a", "type": "b"}}', "OUTBOX_LAYOUT names 'type' twice"),
        ('{"published_for": -1}', "published_for is -1 s; the least is 60 s"),
        ('{"pk": 5}', "OUTBOX_LAYOUT: Layout: pk is 5"),
        ('{"pk": "sk"}', "OUTBOX_LAYOUT: Layout"),
        ('{"settle": "burn"}', "OUTBOX_LAYOUT: Layout: settle"),
        ('{"placement": ["item"]}', "OUTBOX_LAYOUT: Layout: placement"),
        ('{"own_partition": 1}', "own_partition is 1"),
        ('{"published_for": "7d"}', "names 'published_for', which is '7d'; a number of seconds"),
        ('{"published_for": true}', "a number of seconds"),
        ('{"published_for": 1e999}', "a number of seconds"),
        ('{"guard_for": 1e300}', "names 'guard_for', which is 1e\\+300, more seconds than"),
        ('{"guard_for": 5}', "guard_for"),
    ],
)
def test_a_layout_that_cannot_work_is_told_by_its_member(layout: str, words: str) -> None:
    """The variable is named, and which of its members."""
    with pytest.raises(InvalidEnvironment, match=words) as caught:
        settings_of({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": layout})
    assert [each.variable for each in caught.value.problems] == ["OUTBOX_LAYOUT"]


def test_settle_is_a_short_way_to_say_it() -> None:
    """OUTBOX_SETTLE alone, or beside a layout that says nothing of it, or the same."""
    assert settings_of({"OUTBOX_SINK": BUS, "OUTBOX_SETTLE": "mark"}).layout == Layout(settle="mark")
    for layout in ('{"ttl": "gone"}', '{"ttl": "gone", "settle": "delete"}'):
        environment = {"OUTBOX_SINK": BUS, "OUTBOX_SETTLE": "delete", "OUTBOX_LAYOUT": layout}
        assert settings_of(environment).layout == Layout(ttl="gone", settle="delete")


def test_two_ways_of_settling_contradict_each_other() -> None:
    """Nobody can tell which of them is meant; the default is a word like any other when it is said."""
    for settle, layout in (("mark", "delete"), ("mark", "expire"), ("expire", "mark")):
        (problem,) = problems(SETTLE=settle, LAYOUT=json.dumps({"settle": layout}))
        assert repr(settle) in problem
        assert repr(layout) in problem


# --- all of them ---


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_variable_that_holds_nothing_is_not_set(blank: str) -> None:
    """Templates hand on parameters that were left out as empty text."""
    environment = {each.name: blank for each in VARIABLES} | {"OUTBOX_SINK": BUS}
    settings = settings_of(environment)
    assert (settings.layout, settings.arguments, settings.log_level) == (Layout(), {}, None)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OUTBOX_TABEL", "OUTBOX_TABLE"),
        ("OUTBOX_TABLE_NAME", "OUTBOX_TABLE"),
        ("OUTBOX_SINK_ARN", "OUTBOX_SINK"),
        ("OUTBOX_ONPOISON", "OUTBOX_ON_POISON"),
        ("OUTBOX_RATE", "OUTBOX_RATE_LIMIT"),
        ("OUTBOX_LOGLEVEL", "OUTBOX_LOG_LEVEL"),
        ("OUTBOX_MAX_INFLIGHT", "OUTBOX_MAX_IN_FLIGHT"),
        ("outbox_table", "OUTBOX_TABLE"),
        ("Outbox_Setle", "OUTBOX_SETTLE"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_was_meant(name: str, meant: str) -> None:
    """It would else be a setting that does nothing. An empty one is misspelt, too."""
    for value in ("x", ""):
        with pytest.raises(InvalidEnvironment) as caught:
            settings_of({"OUTBOX_SINK": BUS, name: value})
        assert caught.value.problems == ((None, f"{name!r} is no variable of this handler; did you mean {meant}?"),)


@pytest.mark.parametrize("name", ["OUTBOX_", "OUTBOX_XYZ", "OUTBOX_\udcff"])
def test_a_variable_that_is_like_none_is_refused_with_all_that_there_are(name: str) -> None:
    """The value is not told: nobody knows what it is."""
    with pytest.raises(InvalidEnvironment) as caught:
        settings_of({"OUTBOX_SINK": BUS, name: "hunter2"})
    assert all(each.name in str(caught.value) for each in VARIABLES)
    assert "hunter2" not in str(caught.value)
    str(caught.value).encode()  # a log can write it


def test_all_that_is_wrong_is_told_at_once() -> None:
    """One deployment shows every mistake; each has its own text, and the error numbers them."""
    with pytest.raises(InvalidEnvironment) as caught:
        settings_of({"OUTBOX_TABEL": "t", "OUTBOX_ORDERING": "x", "OUTBOX_LAYOUT": "{", "OUTBOX_SINK": "orders"})
    found = tuple(map(str, caught.value.problems))
    assert [each.variable for each in caught.value.problems] == [
        None,
        "OUTBOX_ORDERING",
        "OUTBOX_LAYOUT",
        "OUTBOX_SINK",
    ]
    assert [name for name in ("TABEL", "ORDERING", "LAYOUT", "SINK") if not any(name in each for each in found)] == []
    assert len(found) == 4
    assert str(caught.value).startswith(f"(1) {found[0]} (2) ")
    assert isinstance(caught.value, ConfigurationError)
    assert not caught.value.retryable


@given(st.dictionaries(st.sampled_from([each.name for each in VARIABLES]), st.text(), min_size=1))
def test_any_text_is_taken_or_refused(variables: dict[str, str]) -> None:
    """Nothing but InvalidEnvironment is raised, whatever the variables hold."""
    assert outcome({"OUTBOX_SINK": BUS, **variables}) in ("taken", "refused")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from([BUS, QUEUE]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=30)
@given(
    st.dictionaries(st.sampled_from([*inspect.signature(Layout).parameters]), json_values, max_size=3),
    st.dictionaries(st.text(max_size=4) | st.just("order.*"), json_values, max_size=2),
)
def test_any_json_is_taken_or_refused(layout: dict[str, Any], routes: dict[str, Any]) -> None:
    """Values of the wrong type for a member or a route end as InvalidEnvironment, like all others."""
    assert outcome({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": json.dumps(layout)}) in ("taken", "refused")
    assert outcome({"OUTBOX_SINK": json.dumps(routes)}) in ("taken", "refused")


def outcome(environment: dict[str, str]) -> str:
    """Read an environment: it is taken or refused, and the refusal can be written."""
    try:
        settings_of(environment)
    except InvalidEnvironment as error:
        return "refused" if error.problems and str(error).encode() else "without a reason"
    return "taken"
