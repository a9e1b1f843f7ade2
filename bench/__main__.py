"""Run every comparison and print a line each: `python -m bench [--pairs N]`."""

from __future__ import annotations

import argparse
import itertools

from bench import commit, core, relay, throughput


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench", description="Ratios against a named rival, in the same run.")
    parser.add_argument("--pairs", type=int, default=9, help="rounds of each, in turn (default 9)")
    pairs = parser.parse_args().pairs
    for measure in (commit.measure, relay.measure):
        print(measure(pairs), flush=True)  # noqa: T201 - a command's output
    for figure in itertools.chain(core.measure(pairs), throughput.measure(pairs)):
        print(figure, flush=True)  # noqa: T201 - as above


main()
