"""A consumer without a table: it remembers in memory what it has applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.consume.consumer import Consumer
from dynamodb_outbox.core.consuming.facts import Applied, Duplicate

if TYPE_CHECKING:
    from dynamodb_outbox.core.consuming.facts import Fact
    from dynamodb_outbox.event import Event

__all__ = ["Noted", "Remembering", "throw"]


class Noted:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, fact: Fact) -> None:
        """Keep a fact."""
        self.facts.append(fact)


class Remembering(Consumer):
    """Applies each event once while it lives; `ids` are those applied, in order."""

    def __init__(self, **options: Any) -> None:
        self.noted = Noted()
        defaults: dict[str, Any] = dict.fromkeys(("records", "foreign", "claim_check", "rejected"))
        super().__init__("memory", functions=("def f(event):", 1), observer=self.noted, **{**defaults, **options})
        self.applied: list[Event] = []

    @property
    def ids(self) -> list[str]:
        """The ids of what was applied."""
        return [event.id for event in self.applied]

    def apply(self, event: Event) -> bool:
        """Apply an event."""
        if any((event.source, event.id) == (each.source, each.id) for each in self.applied):
            self._observe(Duplicate(event))
            return False
        self._functions.run(self._functions.of(event), event)
        self.applied.append(event)
        self._observe(Applied(event))
        return True


def throw(error: BaseException) -> None:
    """Raise an error, where only an expression may stand."""
    raise error
