"""The demo's relay, as a service would have it: a function on the table's stream, configured by its environment."""

from __future__ import annotations

import os

from dynamodb_outbox.local.demo.names import LAYOUT
from dynamodb_outbox.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

__all__ = ["handler"]

handler = Relay(EventBridge(os.environ["ORDERS_BUS"]), layout=LAYOUT).lambda_handler
