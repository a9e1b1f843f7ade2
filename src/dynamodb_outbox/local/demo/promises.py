"""Which promises held in a demo: six sentences, each with the figures that decide it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.local.demo.account import Account
    from dynamodb_outbox.local.demo.counting import Consumed

__all__ = ["Promise", "promises"]

_NAMED = 3


@dataclass(frozen=True)
class Promise:
    """One promise: its number in the design, what it says, whether it held, and what was seen against it."""

    number: str
    says: str
    broken: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether nothing was seen against it."""
        return not self.broken

    def __str__(self) -> str:
        return f"{'✓' if self.kept else '✗'} {self.number} {self.says}{''.join(f'; {what}' for what in self.broken)}"


def promises(account: Account) -> tuple[Promise, ...]:
    """Judge the outbox's lane, and say of each promise if the second hop was left out.

    What a demo cannot show (P7 is a computation) is not judged.
    """
    found = _judged(account)
    if account.second.judged:
        return found
    return tuple(replace(one, says=f"{one.says}; second hop not judged") for one in found)


def _judged(account: Account) -> tuple[Promise, ...]:
    lane, own, second = account.lanes["outbox"], account.outbox, account.second
    first, last = own.consumed, second.consumed
    return (
        Promise(
            "P1",
            "an event exists if and only if its change was committed",
            _seen(phantom=lane.phantom, invoices_phantom=second.phantom),
        ),
        Promise(
            "P2",
            f"every committed event was accepted by the bus or is parked ({own.parked} parked)",
            _seen(
                lost=lane.lost,
                parked_wrongly=own.parked_wrongly,
                invoices_lost=second.lost,
                invoices_parked_wrongly=second.parked,
            )
            + tuple(f"pending: {pending}" for pending in [own.pending + second.pending] if pending),
        ),
        Promise(
            "P3",
            "every publication of an event carried the same id",
            _seen(renamed=own.renamed, invoices_renamed=second.renamed),
        ),
        Promise(
            "P4",
            "for each key, first acceptances came in the order of the commits",
            _seen(out_of_order_keys=lane.out_of_order_keys, invoices_out_of_order_keys=second.out_of_order_keys),
        ),
        Promise(
            "P5",
            f"each event was applied once ({_duplicates(first, last)})",
            _seen(**_consumed(first), **{f"invoices_{name}": found for name, found in _consumed(last).items()}),
        ),
        Promise(
            "P6",
            "a retried command was committed once, and every caller was told the truth",
            _seen(
                committed_twice=own.committed_twice,
                wrong_outcomes=own.wrong_outcomes,
                invoices_committed_twice=second.committed_twice,
            ),
        ),
    )


def _consumed(one: Consumed) -> dict[str, Sequence[str]]:
    return {
        "effects_applied_twice": one.effects_twice,
        "effects_missing": one.effects_missing,
        "undelivered": one.undelivered,
        "wrong_balances": one.wrong_balances,
    }


def _duplicates(*hops: Consumed) -> str:
    number, deliveries = sum(one.duplicates_delivered for one in hops), sum(one.deliveries for one in hops)
    was = "was a duplicate" if number == 1 else "were duplicates"
    return f"{number} of {counted(deliveries, 'delivery', 'deliveries')} {was}"


def _seen(**against: Sequence[str]) -> tuple[str, ...]:
    """Return one phrase for each kind of finding: how many, and the first few of them."""
    return tuple(
        f"{kind}: {len(found)} ({', '.join(map(_printable, found[:_NAMED]))}{', ...' if len(found) > _NAMED else ''})"
        for kind, found in against.items()
        if found
    )


def _printable(name: str) -> str:
    """Return `name` with half a surrogate pair, which JSON can hold and no terminal can be sent, spelt out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
