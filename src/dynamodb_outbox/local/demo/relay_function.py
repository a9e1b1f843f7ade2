"""The demo's relay, as a service would have it: a function on the table's stream, configured by its environment.

Its time-outs are chosen for its time. A publish starts only while a whole request, the settling after it and some slack
still fit, and the function has 3 s in all, to be out of time twice in an outage: so a request to the bus may take 0.6 s
and one to the table 0.4 s, each in one attempt, since the relay retries by itself. Bus and table are on this
machine and answer in milliseconds. In AWS one would give the function more time rather than the clients less.

It has no breaker either: that would leave a bus alone for up to a minute which is out for seconds, and the demo waits
for half of one.
"""

from __future__ import annotations

import os

from boto3.session import Session
from botocore.config import Config

from dynamodb_outbox.local.demo.names import LAYOUT
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

__all__ = ["handler"]

_session = Session()
_once = Config(connect_timeout=0.05, retries={"mode": "standard", "total_max_attempts": 1}, max_pool_connections=16)
_bus = _session.client("events", config=_once.merge(Config(read_timeout=0.55)))
_table = _session.client("dynamodb", config=_once.merge(Config(read_timeout=0.35)))

_sink = EventBridge(os.environ["ORDERS_BUS"], client=_bus)
handler = Relay(_sink, layout=LAYOUT, client=_table, breaker_after=None).lambda_handler
