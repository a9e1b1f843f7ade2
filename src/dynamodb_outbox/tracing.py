"""Whoever follows events (`ports.Tracing`), at arm's length: what is raised there is logged, and changes nothing.

Without a tracing there is no follower, and nothing of this is run.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.commit.tracing import trustworthy
from dynamodb_outbox.event import NO_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Span, Tracing

__all__ = ["Follower", "Work", "follower_of"]

_log = logging.getLogger(__name__)
_METHODS = ("context", "committing", "processing")


def follower_of(given: Tracing | None, refuse: Refusal) -> Follower | None:
    """Return the follower of a tracing, None without one. Raises what `refuse` makes for what is none."""
    if given is None:
        return None
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in _METHODS):
        raise refuse(f"is {shown(given)}; an object with {', '.join(_METHODS)} is needed, such as OpenTelemetry().")
    return Follower(given)


class Work:
    """Something under way that is followed, as a context manager; `outcome` is what it came to, once that is known."""

    def __init__(self, begin: Callable[[], Span]) -> None:
        self.outcome = ""
        self._begin = begin
        self._span: Span | None = None

    @property
    def context(self) -> Mapping[str, str]:
        """The trace context of events that come from this; empty where there is none."""
        span = self._span
        return NO_ATTRIBUTES if span is None else _told(lambda: span.context)

    def __enter__(self) -> Work:
        try:
            self._span = self._begin()
        except Exception:  # noqa: BLE001 -- anybody's code
            _log.exception("the tracing raised, and does not follow this")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is None:
            return
        try:
            self._span.end(self.outcome, error)
        except Exception:  # noqa: BLE001 -- as above
            _log.exception("the tracing raised, and was not told of the end")


class Follower:
    """Has a tracing follow commits, and events in a consumer."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def context(self) -> Mapping[str, str]:
        """Return the trace context of who is calling; empty where there is none."""
        return _told(self._tracing.context)

    def committing(self, table: str, events: Sequence[Event]) -> Work:
        """Return the commit of events as work that is followed."""
        return Work(partial(self._tracing.committing, table, events))

    def processing(self, consumer: str, event: Event, origin: str) -> Work:
        """Return the application of an event as work that is followed."""
        return Work(partial(self._tracing.processing, consumer, event, origin))


def _told(context: Callable[[], object]) -> Mapping[str, str]:
    try:
        return trustworthy(context())
    except Exception:  # noqa: BLE001 -- as above
        _log.exception("the tracing raised, and gave no context")
        return NO_ATTRIBUTES
