"""Chance by name: what is drawn depends on a seed and on what it is drawn for, and on nothing that was drawn before.

So taking one thing out of a run leaves the luck of all others as it was, which is what makes a run shrink.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["Chance"]

_BYTES = 7
_BITS = 8 * _BYTES
_ALL = 1 << _BITS


class Chance:
    """Draws for one `seed`; `of` makes the chance of a part of the world, with draws of its own."""

    def __init__(self, seed: int | str) -> None:
        self.seed = str(seed)
        self._root = blake2b(self.seed.encode(), digest_size=_BYTES)

    def of(self, *what: object) -> Chance:
        """Return the chance of a part, named by `what`."""
        return Chance("/".join((self.seed, *map(str, what))))

    def unit(self, *what: object) -> float:
        """Return a number from 0 (included) to 1 (excluded), the same whenever it is asked for."""
        return self._drawn(what) / _ALL

    def whole(self, least: int, most: int, *what: object) -> int:
        """Return a whole number, both ends included."""
        return least + (self._drawn(what) * (most - least + 1) >> _BITS)

    def _drawn(self, what: tuple[object, ...]) -> int:
        drawn = self._root.copy()
        drawn.update(repr(what).encode())
        return int.from_bytes(drawn.digest(), "big")
