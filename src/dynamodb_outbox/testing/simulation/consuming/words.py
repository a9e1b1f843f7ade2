"""What happened at a consumer, in words: who, and what.

A timeline tells of facts, each class of which has a function here that returns the two. Messages go by their own names
(`m4`), for one event may come in several of them; events by the key and number that they have everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import (
    CONSUMER,
    Acknowledged,
    Applied,
    Delivered,
    Queued,
    Subscribed,
)
from dynamodb_outbox.testing.simulation.facts import named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.testing.simulation.history import History

__all__ = ["CONSUMER_WORDS"]


def _subscribed(_: History, __: Subscribed) -> tuple[str, str]:
    return CONSUMER, "is there: what the buses accept is to be applied"


def _queued(of: History, fact: Queued) -> tuple[str, str]:
    what = f"{fact.message} with {_names(of, fact.events)}"
    return "queue", f"gives {what} again, though it was acknowledged" if fact.again else f"has {what} on its way"


def _delivered(of: History, fact: Delivered) -> tuple[str, str]:
    carried = "; ".join(
        f"{message} with {of.name(event)}" for message, event in zip(fact.messages, fact.events, strict=True)
    )
    return f"{CONSUMER} {named(fact.invocation)}", f"begins on {fact.instance} with {carried}"


def _acknowledged(of: History, fact: Acknowledged) -> tuple[str, str]:
    return "queue", f"forgets {fact.message} with {_names(of, fact.events)}, by {named(fact.invocation)}"


def _applied(of: History, fact: Applied) -> tuple[str, str]:
    what = [
        *([f"the effect of {_names(of, fact.events)}"] if fact.events else []),
        *([f"an event that tells of {_names(of, fact.own)}"] if fact.own else []),
    ]
    return f"table of the {CONSUMER}", f"has {' and '.join(what)}, by {named(fact.invocation)}"


def _names(of: History, events: Sequence[str]) -> str:
    return ", ".join(map(of.name, events))


CONSUMER_WORDS: dict[type, Callable[..., tuple[str, str]]] = {
    Acknowledged: _acknowledged,
    Applied: _applied,
    Delivered: _delivered,
    Queued: _queued,
    Subscribed: _subscribed,
}
