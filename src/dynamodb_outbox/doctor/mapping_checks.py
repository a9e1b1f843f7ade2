"""Checks of the event source mapping: all of them are about the same thing, and corrected by the same command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.checks import Check, Said, Severity, of_mappings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynamodb_outbox.doctor.system import System

__all__ = ["mapping_check"]


def mapping_check(
    id_: str,
    severity: Severity,
    *,
    asks: str,
    look: Callable[[Any, System], Iterator[Said]],
    consequence: str,
    option: str,
    snippet: str,
    **more: Any,
) -> Check:
    """Return a check of the mapping; `option` is what corrects it, of the command that changes one."""
    return Check(
        id=id_,
        severity=severity,
        asks=asks,
        about=of_mappings,
        look=look,
        consequence=consequence,
        command=f"aws lambda update-event-source-mapping --uuid <mapping> {option}",
        snippet=snippet,
        **more,
    )
