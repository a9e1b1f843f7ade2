"""`python -m dynamodb_outbox.testing.simulation`: this library's own relay through many seeds, and what came of it."""

from __future__ import annotations

import argparse
import sys

from dynamodb_outbox.testing.simulation.runs import simulate
from dynamodb_outbox.testing.simulation.world import relay_handler


def main() -> int:
    """Print the report, and the first failure; return 1 when there is one."""
    parser = argparse.ArgumentParser(prog="python -m dynamodb_outbox.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many, 200 unless given")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them, 0 unless given")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="processes that share them")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    report = simulate(relay_handler, seeds=seeds, processes=given.processes, stop_at_first=False)
    sys.stdout.write(f"{report}\n")
    for failure in report.failures[:1]:
        sys.stdout.write(f"\n{failure.text}\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
