"""A parser of options that takes none for another, and names the one that is misspelt before it misses others.

argparse takes a beginning of an option for the option, and says of `--tabel shop` that `--table` is required.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["OptionParser"]


class OptionParser(argparse.ArgumentParser):
    """argparse's, with options by their whole names; so are the parsers of its commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; end with status 2 at the first option that there is none of."""
        given = sys.argv[1:] if args is None else list(args)
        for name in self._own(given):
            if name not in self._option_string_actions:
                like = difflib.get_close_matches(name, self._option_string_actions, n=1)
                self.error(f"there is no option {name}" + (f"; did you mean {like[0]}?" if like else ""))
        return super().parse_known_args(given, namespace)

    def _own(self, given: Sequence[str]) -> Iterator[str]:
        """Yield the names of long options, as far as they are for this parser and not for that of a command."""
        for each in given:
            if each == "--" or (self._subparsers is not None and not each.startswith("-")):
                return
            if each.startswith("--") and " " not in each.partition("=")[0]:
                yield each.partition("=")[0]
