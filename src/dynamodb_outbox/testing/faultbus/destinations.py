"""Which destination a rule means, and how a client may tell of one.

The same bus is told by its name or by its ARN, the same queue by its name or by its URL. A rule may use any of these:
where one of the two sides is a bare name, the names must be equal; otherwise the two texts must.
"""

from __future__ import annotations

__all__ = ["is_meant"]


def is_meant(wanted: str, told: str) -> bool:
    """Whether a rule for `wanted` (empty: any destination) is about the destination that a client tells as `told`."""
    if wanted in ("", told):
        return True
    name, other = _name(wanted), _name(told)
    return name == other and (name == wanted or other == told)


def _name(destination: str) -> str:
    """Return the last part of an ARN or a URL; a bare name is its own."""
    return destination.rpartition("/")[2].rpartition(":")[2]
