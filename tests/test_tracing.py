"""One trace from a commit over the relay to the consumer, on the engine; what is loaded where nobody asks for it."""

from __future__ import annotations

import builtins
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dynamodb_outbox.otel
from dynamodb_outbox import Inbox, Outbox, Relay
from dynamodb_outbox.adapters.queues import SqsMessages
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, route
from dynamodb_outbox.sinks import EventBridge
from spans_kept import Kept, attributes, linked, place
from test_docs import configure, python_blocks, stream_records

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Event, Transaction

DOC = Path(__file__).parent.parent / "docs" / "tracing.md"


def test_one_trace_from_the_commit_to_the_consumer(engine: Account) -> None:
    """An order, the request that published it, the invoice, and the event that the invoice emits."""
    dynamodb, events, sqs = (engine.client(service) for service in ("dynamodb", "events", "sqs"))
    for table in ("shop", "billing"):
        create_table(dynamodb, table)
    create_bus(events, "orders")
    queue = create_queue(sqs, "billing")
    route(events, sqs, bus="orders", queue=queue, rule="all")
    kept = Kept()
    outbox = Outbox("shop", source="shop.orders", client=dynamodb, tracing=kept.tracing)
    with kept.tracer.start_as_current_span("request") as request, outbox.transaction() as tx:
        tx.put({"pk": "ORDER#1", "sk": "META"}, if_absent=True)
        tx.emit("order.placed", {"order_id": "1"})
    ordered = kept.one("commit")

    relay = Relay(kept.tracing.sink(EventBridge("orders", client=events)), client=dynamodb)
    assert relay.lambda_handler({"Records": stream_records(engine, "shop")}, None) == {"batchItemFailures": []}
    published = kept.one("publish")

    inbox = Inbox("billing", consumer="invoices", client=dynamodb, tracing=kept.tracing)

    @inbox.on("order.placed")
    def invoice(event: Event, tx: Transaction) -> None:
        tx.put({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, if_absent=True)
        tx.emit("invoice.made", {})

    records = SqsMessages(queue.url, sqs).receive(10, 5, 30)
    assert inbox.lambda_handler({"Records": [*records, *records]}) == {"batchItemFailures": []}
    first, again = kept.spans("process")
    _, invoiced, _ = kept.spans("commit")

    assert {place(span)[0] for span in (request, ordered, first, again, invoiced)} == {place(request)[0]}
    assert linked(published) == linked(first) == linked(again) == [place(ordered)]
    assert [span.parent for span in (ordered, published, first, invoiced)] == [
        request.get_span_context(), None, first.parent, first.context,
    ]  # fmt: skip
    assert first.parent is not None
    assert (first.parent.trace_id, first.parent.span_id) == place(ordered)
    assert [attributes(span)["dynamodb_outbox.outcome"] for span in (first, again)] == ["applied", "duplicate"]


NOTHING = """
import sys
import dynamodb_outbox.aws_lambda
from dynamodb_outbox import Inbox, Outbox, Relay
from dynamodb_outbox.sinks import EventBridge
Outbox("shop", source="shop"), Relay(EventBridge("orders")), Inbox("billing", consumer="invoices")
assert not [name for name in sys.modules if name.split(".")[0] == "opentelemetry" or name == "dynamodb_outbox.otel"]
"""


def test_opentelemetry_is_not_loaded_unless_it_is_asked_for() -> None:
    """By the package, the ready-made handlers, or a writer, a relay and a consumer that are made without it."""
    subprocess.run([sys.executable, "-c", NOTHING], check=True, timeout=60)


def test_without_the_extra_the_error_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how it is installed."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'dynamodb-outbox\[otel\]'"):
        importlib.reload(dynamodb_outbox.otel)


def test_the_examples_run(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the document, as they stand, on the engine."""
    configure(engine, monkeypatch)
    for table in ("shop", "billing"):
        create_table(engine.client("dynamodb"), table)
    create_bus(engine.client("events"), "orders")
    for example in python_blocks(DOC.read_text(encoding="utf-8")):
        exec(example, {})  # noqa: S102 -- running it is the test


def test_the_document_names_each_attribute() -> None:
    """What spans have is what the document says, and the other way round."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(dynamodb_outbox.otel.__path__[0]).glob("*.py"))
    pattern = r"(?:messaging|cloudevents|error|exception)\.[a-z_.]+|dynamodb_outbox\.outcome"
    assert set(re.findall(f'"({pattern})"', source)) == set(
        re.findall(f"`({pattern})`", DOC.read_text(encoding="utf-8"))
    )
