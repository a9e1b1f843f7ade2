"""The ready-made relay function: what importing it does, how it fails, and that it relays on the engine."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox import Outbox, aws_lambda
from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.aws_lambda import relay_from, relay_handler, sweep_handler, sweeper_from
from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.environment import function_environment
from dynamodb_outbox.local.function import FunctionProcess
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, route
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from conftest import Account

HANDLER = "dynamodb_outbox.aws_lambda:relay_handler"
BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
NOTHING: dict[str, Any] = {"Records": []}
NO_FAILURES: dict[str, Any] = {"batchItemFailures": []}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return a way to set variables, in a process whose handler was never invoked."""
    for name in os.environ:
        if name.startswith("OUTBOX_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(aws_lambda, "_ours", aws_lambda._one_relay(os.environ))
    monkeypatch.setattr(aws_lambda, "_our_sweeper", aws_lambda._one_sweeper(os.environ))
    return monkeypatch


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter, with these variables of ours and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTBOX_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# --- what importing it does ---

IMPORTS = """
    import sys, threading

    before = set(sys.modules)
    allowed = {*sys.stdlib_module_names, "boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3",
               "dynamodb_outbox", "coverage"}

    class OnlyBoto3:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] not in allowed:
                raise ImportError(f"{name} is not there")

    sys.meta_path.insert(0, OnlyBoto3())
    import dynamodb_outbox.aws_lambda

    loaded = set(sys.modules) - before
    ours = {name.removeprefix("dynamodb_outbox.").partition(".")[0] for name in loaded if "dynamodb_outbox." in name}
    assert "boto3" in loaded
    others = {"outbox", "transaction", "consume", "recover", "local", "testing", "cli", "process"}
    assert not ours & others, sorted(ours)
    assert not {"dynamodb_outbox.core.commit", "dynamodb_outbox.core.eventsource"} & loaded
    assert not {"asyncio", "difflib", "sqlite3", "unittest"} & loaded
    assert threading.active_count() == 1
    import boto3
    assert boto3.DEFAULT_SESSION is None
    assert dynamodb_outbox.aws_lambda._ours._made is None
    assert dynamodb_outbox.aws_lambda._our_sweeper._made is None
"""


@pytest.mark.parametrize("environment", [{}, {"OUTBOX_SINK": "no ARN", "OUTBOX_TABEL": "x"}])
def test_importing_it_needs_boto3_alone_and_makes_nothing(environment: dict[str, str]) -> None:
    """No other package, nothing of the writing side, no thread, client or relay; whatever the variables are."""
    done = run(IMPORTS, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_table_of_variables_loads_no_boto3() -> None:
    """A tool that only lists the variables is quick."""
    done = run("import sys, dynamodb_outbox.environment.variables; sys.exit('boto3' in sys.modules)")
    assert (done.returncode, done.stderr) == (0, "")


def test_making_the_relay_makes_no_client_and_no_thread(variables: pytest.MonkeyPatch) -> None:
    """They are made when a batch needs them: after a snapshot was restored, and in the process that uses them."""
    variables.setattr("boto3.session.Session.client", lambda *_, **__: pytest.fail("a client was made"))
    variables.setenv("OUTBOX_SINK", BUS)
    threads = threading.active_count()
    assert relay_handler(NOTHING, None) == NO_FAILURES
    assert threading.active_count() == threads


# --- variables that cannot work ---


def test_each_invocation_fails_and_the_log_says_it_once(
    variables: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch stays in the stream: an answer would drop it. The errors are equal, and none grows with the others."""
    variables.setenv("OUTBOX_SINK", "orders")
    variables.setenv("OUTBOX_TABEL", "shop")
    errors = []
    for _ in range(3):
        with pytest.raises(InvalidEnvironment, match=r"OUTBOX_TABEL.*OUTBOX_SINK") as caught:
            relay_handler(NOTHING, None)
        errors.append(caught.value)
    assert len({error.problems for error in errors}) == 1
    assert len(set(map(id, errors))) == 3
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert all(str(problem) in record.getMessage() for problem in errors[0].problems)


def test_what_does_not_go_together_is_refused_in_the_same_way(variables: pytest.MonkeyPatch) -> None:
    """Each variable may be right by itself; the reason is Relay's own."""
    environment = {"OUTBOX_SINK": BUS, "OUTBOX_ORDERING": "none", "OUTBOX_ON_POISON": "park_key"}
    with pytest.raises(InvalidEnvironment, match=r"go together: .*park_key") as made:
        relay_from(environment)
    for name, value in environment.items():
        variables.setenv(name, value)
    for _ in range(2):
        with pytest.raises(InvalidEnvironment) as caught:
            relay_handler(NOTHING, None)
        assert caught.value.problems == made.value.problems


def test_an_event_of_another_source_is_refused(variables: pytest.MonkeyPatch) -> None:
    """As by any relay: the variables are not at fault, and the relay is kept."""
    variables.setenv("OUTBOX_SINK", BUS)
    with pytest.raises(ConfigurationError, match="no Records"):
        relay_handler({}, None)
    assert relay_handler(NOTHING, None) == NO_FAILURES


# --- one relay ---


def test_all_invocations_of_a_process_have_one_relay(variables: pytest.MonkeyPatch) -> None:
    """Made once, also when the first invocations come at once: what it remembers is worth keeping."""
    made: list[Relay] = []

    def counted(*arguments: Any, **named: Any) -> Relay:
        time.sleep(0.05)  # for the others to come in, if they could
        made.append(Relay(*arguments, **named))
        return made[-1]

    variables.setattr(aws_lambda, "Relay", counted)
    variables.setenv("OUTBOX_SINK", BUS)
    start = threading.Barrier(4)

    def invoke() -> None:
        start.wait()
        relay_handler(NOTHING, None)

    threads = [threading.Thread(target=invoke) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    variables.setenv("OUTBOX_SINK", "changed later, and not read")
    relay_handler(NOTHING, None)
    assert len(made) == 1


def test_the_relay_has_what_the_variables_say() -> None:
    """Sink, layout and arguments arrive; without a variable the relay has its own default."""
    relay = relay_from({"OUTBOX_SINK": BUS, "OUTBOX_LAYOUT": '{"ttl": "gone"}', "OUTBOX_TABLE": "shop"})
    assert isinstance(relay, Relay)
    assert (repr(relay.sink), relay.layout, relay._table) == (f"EventBridge({BUS!r})", Layout(ttl="gone"), "shop")


# --- the sweeper ---


def test_the_sweeper_has_what_the_variables_say() -> None:
    """Sink, layout and arguments arrive; what does not go together is told in one error."""
    needed = {"OUTBOX_SINK": BUS, "OUTBOX_TABLE": "shop"}
    sweeper = sweeper_from({**needed, "OUTBOX_LAYOUT": '{"ttl": "gone"}', "OUTBOX_MIN_AGE": "60"})
    assert (repr(sweeper.sink), sweeper.layout, sweeper.table) == (f"EventBridge({BUS!r})", Layout(ttl="gone"), "shop")
    assert sweeper.min_age == timedelta(minutes=1)
    layout = '{"pk_type": "N"}'
    with pytest.raises(InvalidEnvironment, match=r"go together: .*Sweeper\(on_poison='park_key'\)"):
        sweeper_from({**needed, "OUTBOX_LAYOUT": layout, "OUTBOX_ON_POISON": "park_key"})


def test_a_sweep_that_is_set_up_wrong_fails_each_time_and_the_log_says_it_once(
    variables: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A schedule's error metric shows it."""
    variables.setenv("OUTBOX_SINK", BUS)
    for _ in range(2):
        with pytest.raises(InvalidEnvironment, match="OUTBOX_TABLE is not set"):
            sweep_handler({}, None)
    (record,) = caplog.records
    assert record.getMessage().startswith("nothing is swept until")


def test_all_sweeps_of_a_process_have_one_sweeper(variables: pytest.MonkeyPatch) -> None:
    """What it has met of the relay's lag, and of its sinks, is worth keeping."""
    variables.setenv("OUTBOX_SINK", BUS)
    variables.setenv("OUTBOX_TABLE", "shop")
    assert aws_lambda._our_sweeper.get() is aws_lambda._our_sweeper.get()
    with pytest.raises(ConfigurationError, match="on a schedule"):
        sweep_handler(NOTHING, None)


# --- what is logged ---

INVOKES = """
    import sys, dynamodb_outbox.aws_lambda as ours
    ours.relay_handler({"Records": []}, None)
"""


def test_the_log_level_is_this_librarys_alone() -> None:
    """INFO says what is relayed to, also where nothing writes logs yet; other levels are as they were."""
    told = run(INVOKES, OUTBOX_SINK=BUS, OUTBOX_LOG_LEVEL="info")
    assert told.stderr == f"INFO dynamodb_outbox.aws_lambda: relaying to EventBridge({BUS!r})\n"
    for level in ({"OUTBOX_LOG_LEVEL": "WARNING"}, {"OUTBOX_LOG_LEVEL": ""}, {}):
        assert run(INVOKES, OUTBOX_SINK=BUS, **level).stderr == ""
    root = run(INVOKES + "    import logging; sys.exit(logging.root.level != logging.WARNING)", OUTBOX_SINK=BUS)
    assert (root.returncode, root.stderr) == (0, "")


def test_where_something_writes_logs_they_are_written_once() -> None:
    """On Lambda the platform's handler is there, and no second one is added."""
    program = "    import logging; logging.basicConfig(format='%(message)s')" + INVOKES
    told = run(program, OUTBOX_SINK=BUS, OUTBOX_LOG_LEVEL="INFO")
    assert told.stderr == f"relaying to EventBridge({BUS!r})\n"


def test_a_fault_is_logged_where_nothing_writes_logs() -> None:
    """In a plain process, too, the reason is seen, before the traceback."""
    told = run(INVOKES, OUTBOX_SINK="orders")
    assert told.returncode == 1
    assert told.stderr.startswith("nothing is relayed until these environment variables are corrected: OUTBOX_SINK")
    assert told.stderr.rstrip().splitlines()[-1].startswith("dynamodb_outbox.errors.InvalidEnvironment: OUTBOX_SINK")


# --- on the engine ---


def batch(engine: Account, stream_arn: str | None) -> dict[str, Any]:
    """Return all that the table's stream holds, as Lambda hands it over."""
    assert stream_arn is not None
    stream = DynamoDbStream(engine.client("dynamodbstreams"), stream_arn)
    return {"Records": [record for shard in stream.shards() for record in stream.open(shard.shard_id).read().records]}


@pytest.mark.parametrize(
    "endpoints",
    [
        ("AWS_ENDPOINT_URL",),
        ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_EVENTBRIDGE", "AWS_ENDPOINT_URL_SQS"),
    ],
)
def test_it_relays_on_the_engine_by_variables_alone(engine: Account, endpoints: tuple[str, ...]) -> None:
    """In its own process: each event reaches the destination of its route, and its record is settled as is said.

    The endpoints are AWS's own variables, one for all services, or one for each: the general one leads nowhere then.
    """
    dynamodb, events, sqs = (engine.client(service) for service in ("dynamodb", "events", "sqs"))
    layout = Layout(prefix="OUT#", settle="delete")
    arn = create_table(dynamodb, "shop", layout=layout)
    create_bus(events, "orders")
    behind, direct = create_queue(sqs, "behind"), create_queue(sqs, "direct")
    route(events, sqs, bus="orders", queue=behind, rule="all")
    bus = f"arn:aws:events:{REGION}:{engine.account}:event-bus/orders"

    outbox = Outbox("shop", source="shop.orders", layout=layout, client=dynamodb)
    with outbox.transaction() as tx:
        tx.emit("order.placed", {"n": 1}, key="ORDER#1")
        tx.emit("stock.counted", {"n": 2}, key="STOCK#1")

    variables = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        **dict.fromkeys(endpoints, engine.url),
        "OUTBOX_SINK": json.dumps({"order.*": bus, "*": direct.arn}),
        "OUTBOX_LAYOUT": json.dumps({"prefix": "OUT#"}),
        "OUTBOX_SETTLE": "delete",
        "OUTBOX_MAX_IN_FLIGHT": "2",
        "OUTBOX_RATE_LIMIT": "1000",
    }
    environment = function_environment(engine.url, engine.account, extra=variables)
    with FunctionProcess(HANDLER, timeout_ms=30_000, init_timeout_ms=60_000, environment=environment) as function:
        answer = function.invoke(batch(engine, arn))
    assert answer == Responded(NO_FAILURES)

    (of_bus,) = sqs.receive_message(QueueUrl=behind.url, WaitTimeSeconds=5)["Messages"]
    (of_queue,) = sqs.receive_message(QueueUrl=direct.url, WaitTimeSeconds=5)["Messages"]
    assert json.loads(of_bus["Body"])["detail"]["data"] == {"n": 1}
    assert json.loads(of_queue["Body"])["data"] == {"n": 2}
    assert dynamodb.scan(TableName="shop")["Count"] == 0


def test_it_sweeps_on_the_engine_by_variables_alone(engine: Account) -> None:
    """In its own process, at the event of a schedule: what nobody has relayed is on the bus, and settled."""
    dynamodb, events, sqs = (engine.client(service) for service in ("dynamodb", "events", "sqs"))
    create_table(dynamodb, "shop")
    create_bus(events, "orders")
    queue = create_queue(sqs, "behind")
    route(events, sqs, bus="orders", queue=queue, rule="all")
    with Outbox("shop", source="shop.orders", client=dynamodb).transaction() as tx:
        tx.emit("order.placed", {"n": 1}, key="ORDER#1")
    variables = {
        "OUTBOX_SINK": f"arn:aws:events:{REGION}:{engine.account}:event-bus/orders",
        "OUTBOX_TABLE": "shop",
        "OUTBOX_MIN_AGE": "0",
    }
    environment = function_environment(engine.url, engine.account, extra=variables)
    handler = "dynamodb_outbox.aws_lambda:sweep_handler"
    with FunctionProcess(handler, timeout_ms=30_000, init_timeout_ms=60_000, environment=environment) as function:
        answer = function.invoke({"source": "aws.scheduler"})
    assert isinstance(answer, Responded)
    assert isinstance(answer.payload, dict)
    assert (answer.payload["done"], answer.payload["left"], answer.payload["stopped"]) == (1, 0, None)
    (message,) = sqs.receive_message(QueueUrl=queue.url, WaitTimeSeconds=5)["Messages"]
    assert json.loads(message["Body"])["detail"]["data"] == {"n": 1}


def test_a_function_that_is_set_up_wrong_fails_by_name(engine: Account) -> None:
    """As Lambda sees it: the module loads, and each invocation fails with the reason; nothing is settled."""
    dynamodb = engine.client("dynamodb")
    arn = create_table(dynamodb, "shop")
    with Outbox("shop", source="shop.orders", client=dynamodb).transaction() as tx:
        tx.emit("order.placed", {"n": 1}, key="ORDER#1")
    before = dynamodb.scan(TableName="shop")["Items"]
    environment = function_environment(engine.url, engine.account, extra={"OUTBOX_BUS": "orders"})
    with FunctionProcess(
        HANDLER, timeout_ms=30_000, init_timeout_ms=60_000, environment=environment, output=subprocess.DEVNULL
    ) as function:
        for _ in range(2):
            answer = function.invoke(batch(engine, arn))
            assert isinstance(answer, FunctionFailed)
            assert answer.kind == "InvalidEnvironment"
            assert "OUTBOX_SINK is not set" in answer.message
    assert dynamodb.scan(TableName="shop")["Items"] == before
