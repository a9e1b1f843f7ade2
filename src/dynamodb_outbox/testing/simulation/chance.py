"""Chance by name: what is drawn depends on a seed and on what it is drawn for, and on nothing that was drawn before.

So taking one thing out of a run leaves the luck of all others as it was, which is what makes a run shrink.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["Chance"]

_BYTES = 7
_BITS = 8 * _BYTES
_ALL = 1 << _BITS
_number = int.from_bytes


class Chance:
    """Draws for one `seed`; `of` makes the chance of a part of the world, with draws of its own."""

    def __init__(self, seed: int | str) -> None:
        self.seed = str(seed)
        self._fresh = blake2b(self.seed.encode(), digest_size=_BYTES).copy

    def of(self, *what: object) -> Chance:
        """Return the chance of a part, named by `what`."""
        return Chance("/".join((self.seed, *map(str, what))))

    def unit(self, *what: object) -> float:
        """Return a number from 0 (included) to 1 (excluded), the same whenever it is asked for."""
        drawn = self._fresh()
        drawn.update(repr(what).encode())
        return _number(drawn.digest(), "big") / _ALL

    def whole(self, least: int, most: int, *what: object) -> int:
        """Return a whole number, both ends included."""
        if least == most:
            return least
        drawn = self._fresh()
        drawn.update(repr(what).encode())
        return least + (_number(drawn.digest(), "big") * (most - least + 1) >> _BITS)
