"""Deployments that differ in everything that a rendering, a policy or an alarm can depend on."""

from __future__ import annotations

import dataclasses
from typing import Any

from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.layout import Layout

ACCOUNT = "arn:aws:{}:eu-west-1:123456789012:{}"
TOPIC_KEY = ACCOUNT.format("kms", "key/11111111-2222-3333-4444-555555555555")
TABLE_KEY = ACCOUNT.format("kms", "key/66666666-7777-8888-9999-000000000000")
GIVEN_UP_KEY = ACCOUNT.format("kms", "key/22222222-3333-4444-5555-666666666666")
TELL = ACCOUNT.format("sns", "operators")
EMAIL = "operators@example.com"

DEPLOYMENTS: dict[str, Deployment] = {
    "plain": Deployment(table="shop", sink="bus:orders", notify=EMAIL),
    "new bus": Deployment(table="shop", sink="bus:orders", notify=EMAIL, new_bus=True, archive_days=365, log_days=7),
    "existing": Deployment(
        table="shop.v1", sink=ACCOUNT.format("events", "event-bus/orders"), notify=TELL, existing_table=True,
    ),
    "unordered": Deployment(
        table="shop", sink="queue:orders", notify=TELL, ordering="none", parallelization=10, batch_size=10_000,
        on_failure=ACCOUNT.format("sqs", "given-up"), on_failure_kms_key=GIVEN_UP_KEY,
        environment={"OUTBOX_RATE_LIMIT": "100"},
    ),
    "fifo topic, keys": Deployment(
        table="shop", sink="topic:orders.fifo", notify=EMAIL, on_poison="park_key", kms_key=TABLE_KEY,
        layout=Layout(settle="delete"), on_failure=ACCOUNT.format("sns", "given-up"), reserved_concurrency=0,
        sink_kms_key=TOPIC_KEY,
    ),
    "own keys": Deployment(
        table="orders", name="x", sink="bus:default", notify=EMAIL,
        on_poison="block", archive_days=1, kms_key=TABLE_KEY,
        layout=Layout(
            pk="order_id", sk=None, own_partition=True, settle="none", columns={"id": "event_id", "at": "made_at"}
        ),
        sweep_minutes=7, lag_minutes=60, memory_mb=1024, timeout_s=60, runtime="python3.12", architecture="x86_64",
    ),
    "routes": Deployment(
        table="outbox", notify=EMAIL,
        layout=Layout(placement="table", select={"kind": "EVENT"}, pk_type="N", sk_type="N"),
        sink={
            "order.*": "bus:orders",
            "order.audited": "queue:audit.fifo",
            "stock.*": ACCOUNT.replace("eu-west-1", "us-west-2").format("events", "event-bus/stock"),
            "*": ACCOUNT.format("sns", "rest"),
        },
    ),
}  # fmt: skip


def arguments(deployment: Deployment) -> dict[str, Any]:
    """Return what a deployment was made with."""
    return {each.name: getattr(deployment, each.name) for each in dataclasses.fields(deployment)}
