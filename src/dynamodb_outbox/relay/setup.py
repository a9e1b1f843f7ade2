"""What a relay and a sweeper are set up with, looked at when they are made: where to, which records, in which way.

`who` is the name of the class, for the errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from dynamodb_outbox.arguments import refusal, shown, text, whole
from dynamodb_outbox.choices import OnPoison, Ordering
from dynamodb_outbox.core.codec.envelope import source_fault
from dynamodb_outbox.core.record.parked_keys import can_park_keys
from dynamodb_outbox.core.relay.commands import Settings
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.keys import table_name
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.ports import lacks

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Routes, Sink

__all__ = ["TABLE_CALLS", "layout_of", "routes_of", "settings_of", "source_of", "table_of"]

TABLE_CALLS = 2
"""Calls to the table at the same time."""

_MOST_IN_FLIGHT = 1000  # each is a thread
_MOST_A_SECOND = 1_000_000
_MOST_FAILURES = 1_000_000


def layout_of(who: str, layout: object) -> Layout:
    """Return the layout that was given, the default one for None. Raises ConfigurationError."""
    if layout is None:
        return Layout()
    if not isinstance(layout, Layout):
        raise ConfigurationError(f"{who}(layout={shown(layout)}): a Layout is needed.")
    return layout


def table_of(who: str, table: object) -> str:
    """Return the name of a table that is given by that, or by its ARN. Raises ConfigurationError."""
    return table_name(text(table, refusal(who, "table")))


def source_of(who: str, source: object) -> str:
    """Return the source of events whose record names none. Raises ConfigurationError."""
    plain = text(source, refusal(who, "source"))
    if (fault := source_fault(plain)) is not None:
        raise ConfigurationError(f"{who}(source={shown(source)}): {fault}")
    return plain


def settings_of(
    who: str,
    layout: Layout,
    *,
    ordering: str = "key",
    on_poison: OnPoison,
    max_in_flight: int,
    rate_limit_per_instance: int | None,
    breaker_after: int | None,
) -> Settings:
    """Return the figures that the machine goes by. Raises ConfigurationError."""
    _check_ways(who, ordering, on_poison, layout)
    whole(max_in_flight, refusal(who, "max_in_flight"), least=1, most=_MOST_IN_FLIGHT)
    if rate_limit_per_instance is not None:
        whole(rate_limit_per_instance, refusal(who, "rate_limit_per_instance"), least=1, most=_MOST_A_SECOND)
    if breaker_after is not None:
        whole(breaker_after, refusal(who, "breaker_after"), least=1, most=_MOST_FAILURES)
    return Settings(
        ordered=ordering == "key",
        on_poison=on_poison,
        max_in_flight=max_in_flight,
        max_table_calls=TABLE_CALLS,
        rate_limit=rate_limit_per_instance,
        breaker_failures=breaker_after,
    )


def routes_of(who: str, given: Any) -> Routes:
    """Return the way to the sinks, of a sink or of several. Raises ConfigurationError."""
    if callable(getattr(given, "route", None)) and not isinstance(given, type):
        sinks = tuple(getattr(given, "sinks", ()))
        wrong = next((sink for sink in sinks if lacks(sink)), None)
        if not sinks or wrong is not None:
            why = f": {shown(wrong)} lacks {', '.join(lacks(wrong))}" if sinks else ""
            raise ConfigurationError(f"{who} takes a sink or a Router, and {shown(given)} has no sinks to go to{why}.")
        routes: Routes = given
        return routes
    if lacking := lacks(given):
        bus = repr(given) if isinstance(given, str) else "'orders'"
        raise ConfigurationError(
            f"{who} takes a sink, as in {who}(EventBridge({bus})), and was given {shown(given)}, which lacks "
            f"{', '.join(lacking)}. Sinks are in dynamodb_outbox.sinks; one of your own is as "
            "dynamodb_outbox.ports.Sink says."
        )
    return _Only((given,))


@dataclass(frozen=True)
class _Only:
    """One sink for all events: `ports.Routes`."""

    sinks: tuple[Sink]

    def route(self, event: Event) -> int:  # noqa: ARG002 -- as the port has it
        return 0


def _check_ways(who: str, ordering: str, on_poison: str, layout: Layout) -> None:
    if ordering not in get_args(Ordering):
        raise ConfigurationError(f"{who}(ordering={shown(ordering)}): 'key' or 'none'.")
    if on_poison not in get_args(OnPoison):
        raise ConfigurationError(f"{who}(on_poison={shown(on_poison)}): 'park', 'park_key' or 'block'.")
    if on_poison == "park_key" and ordering == "none":
        raise ConfigurationError(f"{who}(on_poison='park_key') needs ordering='key': without it, nothing follows.")
    if on_poison == "park_key" and not can_park_keys(layout):
        raise ConfigurationError(
            f"{who}(on_poison='park_key') marks a key as parked by an item of the records' table whose key attributes "
            "are text, and this Layout's are of other types. Choose 'park' or 'block'."
        )
