"""Sweepers with one thing wrong each: the library's own, with a wrong part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import moves, pending
from dynamodb_outbox.core.record.states import PARKED, PENDING, state_of
from dynamodb_outbox.core.sweeping import choice, rounds
from dynamodb_outbox.core.sweeping.ages import Lag
from dynamodb_outbox.core.sweeping.choice import Choice, choose
from dynamodb_outbox.core.sweeping.commands import Settings
from dynamodb_outbox.core.sweeping.tenure import Tenure
from dynamodb_outbox.recover import sweeper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout


def unfenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep publish for as long as it likes, whatever has become of its lease."""
    monkeypatch.setattr(Tenure, "left_ms", lambda *_: 3_600_000)


def without_minimum_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep publish whatever it finds, beside a relay that is at work on it."""
    monkeypatch.setattr(sweeper, "Settings", lambda **more: Settings(**{**more, "min_age_ms": 0}))
    monkeypatch.setattr(Lag, "met", lambda self, *_: self)


def by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep publish the records of a key in the order of their ids, and not by what they say of it."""

    def chosen(found: Sequence[WireItem], layout: Layout, *rest: Any, **more: Any) -> Choice:
        right = choose(found, layout, *rest, **more)
        return Choice(tuple(sorted(right.records, key=lambda item: str(item[str(layout.sk)]["S"]))), more=right.more)

    monkeypatch.setattr(rounds, "choose", chosen)


def settles_what_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep take what is parked for what is pending, wherever it meets it."""
    partition = pending.partition

    def with_parked(*key: Any, **more: Any) -> dict[str, Any]:
        request = partition(*key, **more)
        del request["ExpressionAttributeValues"][":parked"]
        return {**request, "FilterExpression": "attribute_exists(#pending)"}

    def no_state(item: WireItem, layout: Layout) -> str:
        state = state_of(item, layout)
        return PENDING if state == PARKED else state

    monkeypatch.setattr(pending, "partition", with_parked)
    monkeypatch.setattr(choice, "state_of", no_state)


def reads_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep look for what is pending without a word about consistency."""
    partition = pending.partition

    def lagging(*key: Any, **more: Any) -> dict[str, Any]:
        return partition(*key, **more) | {"ConsistentRead": False}

    monkeypatch.setattr(pending, "partition", lagging)


def expires_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who settles a record forget for how long it is to be kept, relay and sweeper alike."""
    monkeypatch.setattr(moves, "keep_s", lambda *_: 0)


def raises_after_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep fail when all is done."""
    answer = sweeper.Sweeper.lambda_handler

    def raising(self: sweeper.Sweeper, event: Any, context: Any) -> Any:
        raise ValueError(answer(self, event, context))

    monkeypatch.setattr(sweeper.Sweeper, "lambda_handler", raising)


WRONG_SWEEPERS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    unfenced: "swept_under_a_lease",
    without_minimum_age: "swept_when_old_enough",
    by_id: "swept_in_order",
    settles_what_is_parked: "parked_is_the_operators",
    reads_what_was: "swept_in_order",
    expires_at_once: "settled_as_it_says",
    raises_after_its_work: "sweeps_answer",
}
"""Each with the invariant that it breaks."""
