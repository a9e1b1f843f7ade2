"""The trace context of events: which trace they belong to, in CloudEvents' own extension for that.

`traceparent` and `tracestate` are those of W3C Trace Context, as extension attributes of an event (CloudEvents,
"Distributed Tracing extension"). They say who asked for an event and nothing of what it says: a command that is retried
belongs to another trace than its first run, and is the same command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.event import NO_ATTRIBUTES

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["TRACE_ATTRIBUTES", "traced", "trustworthy"]

_PARENT, _STATE = "traceparent", "tracestate"
TRACE_ATTRIBUTES = frozenset((_PARENT, _STATE))

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
"""What everybody has to pass on (W3C Trace Context, 3.3.1.5); a longer one is left out, as it may be."""


def trustworthy(context: object) -> Mapping[str, str]:
    """Return what of a trace context can be an event's: nothing without a `traceparent` that is one."""
    if not isinstance(context, Mapping):
        return NO_ATTRIBUTES
    parent, state = context.get(_PARENT), context.get(_STATE)
    if not isinstance(parent, str) or not _TRACEPARENT.fullmatch(parent):
        return NO_ATTRIBUTES
    if not isinstance(state, str) or not _TRACESTATE.fullmatch(state):
        return {_PARENT: parent}
    return {_PARENT: parent, _STATE: state}


def traced(event: Event, context: Mapping[str, str]) -> Event:
    """Return an event with a trace context; one that has its own is left alone."""
    if not context or not TRACE_ATTRIBUTES.isdisjoint(event.attributes):
        return event
    return replace(event, attributes={**event.attributes, **context})
