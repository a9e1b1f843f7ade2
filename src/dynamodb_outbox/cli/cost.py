"""`outbox cost`: what an outbox costs a month."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from dynamodb_outbox.cli.cost_arguments import LOAD
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.infra.cost import BESIDE, Load, Part, lines_of, total
from dynamodb_outbox.infra.destinations import kind_of
from dynamodb_outbox.infra.prices import PRICED, PRICES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from dynamodb_outbox.infra.cost import Line
    from dynamodb_outbox.infra.prices import Price

__all__ = ["run"]

_LARGE = 100
"""Quantities from here on are told without a fraction."""


def run(options: argparse.Namespace) -> int:
    """Print the bill; raises Unusable and ConfigurationError for arguments that do not fit."""
    given = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in LOAD}
    if options.sink is not None:
        given["sink"] = kind_of(options.sink)
    load = Load(**{name: value for name, value in given.items() if value is not None})
    prices = _prices(dict(options.price or ()))
    text = json.dumps(_object(load, prices)) if options.json else "\n".join(_table(load, prices))
    sys.stdout.write(f"{text}\n")
    return 0


def _prices(given: Mapping[str, float]) -> Mapping[str, Price]:
    """Return the prices, with those that are given. Raises Unusable."""
    for name in given:
        if name not in PRICES:
            raise Unusable(f"--price: there is none of {name!r}; there are {', '.join(PRICES)}")
    return {name: replace(price, usd=given.get(name, price.usd)) for name, price in PRICES.items()}


def _object(load: Load, prices: Mapping[str, Price]) -> dict[str, Any]:
    lines = lines_of(load)
    return {
        "prices": PRICED,
        "load": vars(load),
        "lines": [_told(line, prices) for line in lines],
        "usd": total(lines, prices),
        "parts": {part: total(_of(part, lines), prices) for part in get_args(Part)},
        "beside": {name: total(bill(load), prices) for name, bill in BESIDE.items()},
    }


def _told(line: Line, prices: Mapping[str, Price]) -> dict[str, Any]:
    unit = prices[line.price].unit
    return {"what": line.what, "quantity": line.quantity, "unit": unit, "usd": line.usd(prices), "part": line.part}


def _of(part: str, lines: tuple[Line, ...]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.part == part)


def _table(load: Load, prices: Mapping[str, Price]) -> Iterator[str]:
    lines = lines_of(load)
    yield (
        f"{load.events:,} events a month of {load.record_bytes:,} bytes, settle={load.settle}, to a {load.sink}; "
        f"prices of {PRICED}"
    )
    yield ""
    for line in lines:
        digits = 0 if line.quantity >= _LARGE or line.quantity == int(line.quantity) else 2
        quantity = f"{line.quantity:,.{digits}f}"
        yield f"{line.what:<30} {quantity:>14} {prices[line.price].unit:<18} {line.usd(prices):>9,.2f}"
    yield f"{'sum, USD':<64} {total(lines, prices):>9,.2f}"
    for part in get_args(Part):
        yield f"{f'  of it, {part}':<64} {total(_of(part, lines), prices):>9,.2f}"
    yield ""
    for name, bill in BESIDE.items():
        yield f"{f'beside it: {name}':<64} {total(bill(load), prices):>9,.2f}"
