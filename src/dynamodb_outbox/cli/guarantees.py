"""`outbox guarantees`: which promises hold for a set-up, and why."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.environment.settings import layout_from
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.destinations import destination
from dynamodb_outbox.promises import PROMISES, guarantees

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.promises import Guarantee

__all__ = ["run"]

_WIDTH = 100
_INDENT = " " * 4


def run(options: argparse.Namespace) -> int:
    """Print what holds; raises Unusable for arguments that do not fit."""
    try:
        found = guarantees(
            layout_from({"OUTBOX_LAYOUT": options.layout or "", "OUTBOX_SETTLE": options.settle or ""}),
            ordering=options.ordering,
            on_poison=options.on_poison,
            parallelization=options.parallelization,
            sink=_kind(options.sink),
            sweeper=not options.no_sweeper,
            keeps_records=not options.no_bucket,
            hand_written=options.hand_written,
        )
    except ConfigurationError as error:
        raise Unusable(str(error)) from None
    sys.stdout.write(_json(found) if options.json else "\n".join(_lines(found)) + "\n")
    return 0


def _kind(sink: str) -> Any:
    """Return the kind of a destination that is named by an ARN; else what was given."""
    if ":" not in sink:
        return sink
    kind = destination(sink).kind
    return f"{kind}.fifo" if sink.endswith(".fifo") else kind


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
