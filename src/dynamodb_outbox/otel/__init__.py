"""OpenTelemetry (extra `[otel]`): spans of commits, publish requests and consumers, linked by the events' contexts.

    tracing = OpenTelemetry()
    outbox = Outbox("shop", source="shop.orders", tracing=tracing)
    relay = Relay(tracing.sink(EventBridge("orders")))
    inbox = Inbox("billing", consumer="invoices", tracing=tracing)

Nothing else of the library imports this, or OpenTelemetry. docs/tracing.md says what the spans are.
"""

from __future__ import annotations

from dynamodb_outbox.words import extra

try:
    import opentelemetry.trace as _installed  # noqa: F401 -- whether it is there
except ImportError as error:
    raise ImportError(f"dynamodb_outbox.otel needs the extra: {extra('otel')}.") from error

from dynamodb_outbox.otel.tracing import OpenTelemetry

__all__ = ["OpenTelemetry"]
