"""What the relay relies on of a sink, as checks: for the tests of whoever writes a sink of their own.

    from dynamodb_outbox.testing.sink_contract import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract(check):
        with MyStandIn() as stand_in:
            check(stand_in)

A `StandIn` is the writer's own: a server that speaks the destination's protocol and answers as it is told (`Reply`).
The checks know no protocol and no library; they talk to the sink as the relay does, and look at what the stand-in
accepted. So they judge a sink together with the client that it uses, time-outs included.

What they ask for, and why the relay needs it, stands at each check. A check that fails raises `ContractBroken`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.testing.sink_contract import preparing, publishing, verifying
from dynamodb_outbox.testing.sink_contract.stand_in import ContractBroken, Reply, StandIn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHECKS", "ContractBroken", "Reply", "StandIn", "check_sink"]

CHECKS: tuple[Callable[[StandIn], None], ...] = (
    preparing.facts_are_stated,
    preparing.size_is_exact,
    preparing.size_limit_is_exact,
    preparing.prepare_never_raises,
    preparing.prepare_repeats_itself,
    publishing.a_full_request_is_accepted,
    publishing.refused_entries_are_told_apart,
    publishing.failed_requests_have_their_class,
    publishing.a_broken_answer_accepts_nothing,
    publishing.requests_end_in_time,
    publishing.threads_do_not_meet,
    verifying.verify_is_honest,
)
"""All checks. Each may be run by itself, against a stand-in of its own."""


def check_sink(stand_in: StandIn) -> None:
    """Run all checks against one stand-in. Raises ContractBroken, which names the first that fails."""
    for check in CHECKS:
        check(stand_in)
