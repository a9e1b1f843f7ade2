"""`python -m dynamodb_outbox.testing.simulation`: a relay through many seeds, this library's own unless told otherwise.

python -m dynamodb_outbox.testing.simulation --handler relay:make_handler --seeds 500 --no-poison
"""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.testing.simulation.consuming.world import consumer_handler
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.runs import simulate
from dynamodb_outbox.testing.simulation.sweeping import sweeper_handler
from dynamodb_outbox.testing.simulation.world import relay_handler

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import ModuleType

_REFUSED = 2
_METAVAR = "MODULE:FUNCTION"


def main() -> int:
    """Print the report, and the first failure; return 1 when there is one, 2 when nothing could be run."""
    given = _arguments().parse_args()
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else [given.seed]
    try:
        report = simulate(
            _made(given, "handler"),
            seeds=seeds,
            processes=given.processes,
            poison=given.poison,
            foreign=given.foreign,
            sweeper=_made(given, "sweeper"),
            operator=given.operator,
            consumer=_made(given, "consumer"),
            stop_at_first=False,
        )
    except (ConfigurationError, NotSimulated) as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED
    sys.stdout.write(f"{report}\n")
    for failure in report.failures[:1]:
        sys.stdout.write(f"\n{failure.text}\n")
    return 1 if report.failures else 0


def _arguments() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python -m dynamodb_outbox.testing.simulation",
        description=str(__doc__).partition(": ")[2].partition("\n")[0],
    )
    parser.add_argument(
        "--handler",
        default=relay_handler,
        metavar=_METAVAR,
        help="what makes the handler of a world, imported from where this is run; this library's relay unless given",
    )
    beside: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
        ("--sweeper", sweeper_handler, "with a sweeper beside it, in half of the runs"),
        ("--consumer", consumer_handler, "with a consumer behind it, in a fifth of the runs"),
    )
    for option, own, what in beside:
        parser.add_argument(
            option, nargs="?", const=own, metavar=_METAVAR, help=f"{what}: this library's, or what this makes"
        )
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many, 200 unless given")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them, 0 unless given")
    parser.add_argument("--seed", type=int, metavar="SEED", help="this one alone")
    parser.add_argument("--no-poison", dest="poison", action="store_false", help="without events that no bus accepts")
    parser.add_argument("--no-foreign", dest="foreign", action="store_false", help="without what other writers write")
    parser.add_argument("--operator", action="store_true", help="with somebody who redrives and discards")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="processes that share the seeds")
    return parser


def _made(given: argparse.Namespace, name: str) -> Any:
    """Return what an option gives, of a text the function that `module:function` names; None: it was not given.

    Raises ConfigurationError when there is none.
    """
    value, option = getattr(given, name), f"--{name}"
    return _found(value, option) if isinstance(value, str) else value


def _found(named: str, option: str) -> Callable[[Any], Any]:
    module, _, name = named.partition(":")
    try:
        found: Callable[[Any], Any] = getattr(_imported(module, f"{option} {named}"), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{option} {named}: {error}; as in {option} relay:make_handler.") from None
    return found


def _imported(module: str, said: str) -> ModuleType:
    """Import a module. One that raises has its traceback printed, and raises ConfigurationError."""
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it may raise anything; one that exits would end this in peace
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if not module or (missing is not None and f"{module}.".startswith(f"{missing}.")):
            raise  # there is none of this name
        raised = error
    traceback.print_exception(raised)
    words = f"{type(raised).__name__}: {raised}"
    raise ConfigurationError(f"{said}: importing {module} raised {words}.") from raised


if __name__ == "__main__":
    raise SystemExit(main())
