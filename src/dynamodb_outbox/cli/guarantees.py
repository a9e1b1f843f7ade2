"""`outbox guarantees`: which promises hold for a set-up, and why."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.environment.settings import layout_from
from dynamodb_outbox.infra.destinations import kind_of
from dynamodb_outbox.promises import PROMISES, guarantees

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.promises import Guarantee

__all__ = ["run"]

_WIDTH = 100
_INDENT = " " * 4


def run(options: argparse.Namespace) -> int:
    """Print what holds; raises ConfigurationError for arguments that do not fit."""
    sink: Any = kind_of(options.sink)  # guarantees says what is no kind
    found = guarantees(
        layout_from({"OUTBOX_LAYOUT": options.layout or "", "OUTBOX_SETTLE": options.settle or ""}),
        ordering=options.ordering,
        on_poison=options.on_poison,
        parallelization=options.parallelization,
        sink=sink,
        sweeper=not options.no_sweeper,
        keeps_records=not options.no_bucket,
        hand_written=options.hand_written,
    )
    sys.stdout.write(_json(found) if options.json else "\n".join(_lines(found)) + "\n")
    return 0


def _json(found: Sequence[Guarantee]) -> str:
    told = [
        {
            "promise": each.promise,
            "says": PROMISES[each.promise],
            "standing": each.standing.value,
            "why": each.why,
            "changes": list(each.changes),
        }
        for each in found
    ]
    return json.dumps(told) + "\n"


def _lines(found: Sequence[Guarantee]) -> Iterator[str]:
    for each in found:
        yield f"{each.promise} {each.standing.value}: {PROMISES[each.promise]}"
        yield textwrap.fill(each.why, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        for change in each.changes:
            yield textwrap.fill(change, _WIDTH, initial_indent=f"{_INDENT}- ", subsequent_indent=f"{_INDENT}  ")
