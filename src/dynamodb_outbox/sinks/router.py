"""One of several destinations for each event.

A router sends an event to exactly one sink: by its type, or by a function of the user's own. Sending one event to
several places is the work of a bus, whose rules and subscriptions do it after one acceptance; a relay that did it would
have several answers for one record, and a record has one state.

A router is no sink. The relay asks it for the way of each event and keeps batches, faults and pauses of its sinks
apart, so that a destination that is down holds its own events alone. A destination is known by its sink's `name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.ports import lacks

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Sink

__all__ = ["Router"]

Choose = Callable[["Event"], "str | None"]
"""Says where an event goes: the name of a sink, None for the default."""


class Router:
    """Sends each event to exactly one of several sinks.

        Router({"order.*": EventBridge("orders"), "order.audited": Sqs(audit_arn)}, default=EventBridge("rest"))
        Router(lambda event: event.source, sinks={"shop": EventBridge("shop"), "crm": Sns(crm_arn)})

    routes   sinks by event type, where a trailing "*" stands for any rest: an exact type goes before a beginning, a
             longer beginning before a shorter one. Or a function from Event to a name in `sinks`
    sinks    with a function: the sinks by name
    default  where everything else goes. Without it, such an event is a content fault ("NoRoute") and is parked

    The function must say the same of the same event each time. When it raises, or names no sink of this router, the
    event at hand has a content fault, and others go on.

    Raises ConfigurationError for routes that cannot work, and for two sinks of one destination.
    """

    def __init__(
        self,
        routes: Mapping[str, Sink] | Choose,
        *,
        sinks: Mapping[str, Sink] | None = None,
        default: Sink | None = None,
    ) -> None:
        destinations = _Destinations()
        self._choose: Choose | None = None
        self._exact: dict[str, int] = {}
        self._beginnings: list[tuple[str, int]] = []
        if isinstance(routes, Mapping):
            if sinks is not None:
                raise ConfigurationError("Router(sinks=...) goes with a function; routes by type name their sinks.")
            self._take_types(_entries("routes", routes), destinations)
        elif callable(routes) and not isinstance(routes, type):
            self._choose = routes
            self._exact = {name: destinations.add(sink, name) for name, sink in _entries("sinks", sinks).items()}
        else:
            raise ConfigurationError(
                f"Router({shown(routes)}): a dict of sinks by event type, or a function from Event to a name in sinks=."
            )
        self._default = None if default is None else destinations.add(default, "default")
        self.sinks: tuple[Sink, ...] = tuple(destinations.sinks)

    def __repr__(self) -> str:
        return f"Router({', '.join(map(repr, self.sinks))})"

    def route(self, event: Event) -> int | Fault:
        """Return the position in `sinks` of the one that an event goes to, or why there is none; raises nothing."""
        if self._choose is not None:
            return self._chosen(event, self._choose)
        index = self._exact.get(event.type)
        if index is None:
            index = next((index for start, index in self._beginnings if event.type.startswith(start)), self._default)
        return _NO_ROUTE if index is None else index

    def _chosen(self, event: Event, choose: Choose) -> int | Fault:
        try:
            name = choose(event)
        except Exception as error:  # noqa: BLE001 -- a user's function: what it raises is a fault of this event
            return Fault(Kind.CONTENT, "RouteFailed", f"the routing function raised {type(error).__name__}")
        if name is None:
            return _NO_ROUTE if self._default is None else self._default
        index = self._exact.get(name) if isinstance(name, str) else None
        return _UNKNOWN_SINK if index is None else index

    def _take_types(self, routes: Mapping[str, Sink], destinations: _Destinations) -> None:
        for pattern, sink in routes.items():
            start, star, rest = pattern.partition("*")
            if rest:
                raise ConfigurationError(f"Router: the route {shown(pattern)}: a '*' can only be its last character.")
            index = destinations.add(sink, pattern)
            if star:
                self._beginnings.append((start, index))
            else:
                self._exact[pattern] = index
        self._beginnings.sort(key=lambda each: -len(each[0]))


_NO_ROUTE = Fault(Kind.CONTENT, "NoRoute", "no route fits the event's type, and there is no default")
_UNKNOWN_SINK = Fault(Kind.CONTENT, "UnknownSink", "the routing function named no sink of this router")


class _Destinations:
    """Distinct sinks in the order in which they are first named."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self._index: dict[str, int] = {}

    def add(self, sink: Sink, where: str) -> int:
        name = _name_of(sink, where)
        index = self._index.setdefault(name, len(self.sinks))
        if index == len(self.sinks):
            self.sinks.append(sink)
        elif self.sinks[index] is not sink:
            raise ConfigurationError(
                f"Router: two sinks for {name!r}, the second one for {shown(where)}. Make the sink once and name it in "
                "both routes: one destination has one set of settings."
            )
        return index


def _entries(argument: str, named: Any) -> Mapping[str, Sink]:
    if not isinstance(named, Mapping) or not named:
        raise ConfigurationError(f"Router({argument}={shown(named)}): a dict with a sink for each name is needed.")
    for name in named:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"Router({argument}=...): {shown(name)} is no name; text that is not empty is needed."
            )
    return named


def _name_of(sink: Any, where: str) -> str:
    """Return the name of a sink's destination. Raises ConfigurationError for what is no sink."""
    if lacking := lacks(sink):
        raise ConfigurationError(
            f"Router: {shown(where)} leads to {shown(sink)}, which lacks {', '.join(lacking)}. A sink is needed there, "
            "as EventBridge('orders'); routers do not nest."
        )
    return str(sink.name)
