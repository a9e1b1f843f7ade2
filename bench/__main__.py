"""Run every comparison and print a line each: `python -m bench [--pairs N]`."""

from __future__ import annotations

import argparse
import itertools

from bench import commit, core, relay, throughput

_MEASURES = (commit.measure, relay.measure, core.measure, throughput.measure)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench", description="Ratios against a named rival, in the same run.")
    parser.add_argument("--pairs", type=int, default=9, help="rounds of each, in turn (default 9)")
    pairs = parser.parse_args().pairs
    for figure in itertools.chain(*(measure(pairs) for measure in _MEASURES)):
        print(figure, flush=True)  # noqa: T201 - a command's output


main()
