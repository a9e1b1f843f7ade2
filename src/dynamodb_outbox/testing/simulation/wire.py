"""Items and requests as they are on the wire: a copy at each end.

boto3 makes bytes of a request, and an answer of bytes. So what a handler does to an item that it was given, or to one
that it has sent, is seen by nobody else. The clients here hand over copies for that.
"""

from __future__ import annotations

from typing import TypeVar, cast

__all__ = ["copied"]

T = TypeVar("T")


def copied(value: T) -> T:
    """Return a value with all dicts and lists in it anew; what else there is in items cannot be changed."""
    copy: object = value
    if isinstance(value, dict):
        copy = {name: copied(one) if isinstance(one, (dict, list)) else one for name, one in value.items()}
    elif isinstance(value, list):
        copy = [copied(one) if isinstance(one, (dict, list)) else one for one in value]
    return cast("T", copy)  # a dict for a dict, a list for a list
