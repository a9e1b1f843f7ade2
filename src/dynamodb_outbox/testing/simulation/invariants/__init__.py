"""What must hold of every run, one function each: a pure reading of the ledger that yields what broke.

P1 to P6 are the promises of the library; the others say how a relay, and a consumer, keep them, so that one that broke
none of the promises by luck is found as well. Each is about what took effect (what the bus accepted, what the table
stored), never about what somebody was told. The names are stable: tests and reports go by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.history import history
from dynamodb_outbox.testing.simulation.invariants.answers import (
    answers_after_partial_failure,
    answers_name_the_batch,
    answers_name_what_is_open,
    dies_of_a_crash_alone,
    ends_in_time,
    nothing_after_the_end,
    published_from_inserts,
)
from dynamodb_outbox.testing.simulation.invariants.applying import (
    acknowledged_after_applied,
    acknowledged_in_the_end,
    applied_in_the_end,
    applied_once,
    effects_add_up,
    effects_say_what_is_so,
    own_events_once,
)
from dynamodb_outbox.testing.simulation.invariants.commits import (
    commands_commit_once,
    committed_as_intended,
    no_phantoms,
    writers_know_the_truth,
)
from dynamodb_outbox.testing.simulation.invariants.entries import entries_carry_their_event, one_id_one_entry
from dynamodb_outbox.testing.simulation.invariants.losses import (
    checkpoint_follows_done,
    everything_ends,
    nothing_is_lost,
)
from dynamodb_outbox.testing.simulation.invariants.order import (
    items_in_order,
    order_in_record,
    order_per_key,
    parked_keys_stay_parked,
)
from dynamodb_outbox.testing.simulation.invariants.states import (
    parked_only_what_cannot_pass,
    parked_stays_parked,
    parks_are_limited,
    settled_after_accepted,
    settled_as_it_says,
    settled_in_the_end,
)
from dynamodb_outbox.testing.simulation.invariants.sweeps import (
    parked_is_the_operators,
    sweeps_answer,
    swept_in_order,
    swept_under_a_lease,
    swept_when_old_enough,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.history import Found, History, Terms

__all__ = ["INVARIANTS", "Violation", "broken", "check"]


@dataclass(frozen=True)
class Violation:
    """An invariant did not hold: its name, what happened in words, and the facts that show it, in order."""

    invariant: str
    words: str
    facts: tuple[Fact, ...]


INVARIANTS: dict[str, Callable[[History], Iterator[Found]]] = {
    invariant.__name__: invariant
    for invariant in (
        no_phantoms,
        committed_as_intended,
        writers_know_the_truth,
        commands_commit_once,
        nothing_is_lost,
        everything_ends,
        checkpoint_follows_done,
        one_id_one_entry,
        entries_carry_their_event,
        order_per_key,
        order_in_record,
        items_in_order,
        parked_keys_stay_parked,
        applied_once,
        applied_in_the_end,
        effects_add_up,
        effects_say_what_is_so,
        own_events_once,
        acknowledged_after_applied,
        acknowledged_in_the_end,
        settled_after_accepted,
        settled_as_it_says,
        settled_in_the_end,
        parked_only_what_cannot_pass,
        parked_stays_parked,
        parks_are_limited,
        parked_is_the_operators,
        swept_when_old_enough,
        swept_in_order,
        swept_under_a_lease,
        sweeps_answer,
        published_from_inserts,
        answers_after_partial_failure,
        answers_name_the_batch,
        answers_name_what_is_open,
        ends_in_time,
        dies_of_a_crash_alone,
        nothing_after_the_end,
    )
}
"""All of them, by name."""


def check(facts: Sequence[Fact], terms: Terms) -> list[Violation]:
    """Return the first violation of each invariant that a run broke, in the order of `INVARIANTS`."""
    return broken(history(facts, terms))


def broken(of: History, *, without: Collection[str] = ()) -> list[Violation]:
    """Return the same of a ledger that was read; the invariants `without` are not asked for."""
    found = []
    for name, invariant in INVARIANTS.items():
        first = None if name in without else next(invariant(of), None)
        if first is not None:
            words, indexes = first
            found.append(Violation(name, words, tuple(of.facts[index] for index in sorted(set(indexes)))))
    return found
