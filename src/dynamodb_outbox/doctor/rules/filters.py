"""The mapping's filter, tried: on what has to pass, and on what should not.

A filter that lets too little through loses events in silence; the samples are made by the writer's own code, and the
filter is read as Lambda reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.filters import Filters, compile_filters
from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, relay_of
from dynamodb_outbox.doctor.inventory import NotSeen, Unseen, seen
from dynamodb_outbox.doctor.mapping_checks import mapping_check
from dynamodb_outbox.doctor.samples import Samples, stream_samples
from dynamodb_outbox.errors import InvalidFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynamodb_outbox.doctor.system import StreamMapping, System

__all__ = ["CHECKS"]


def _compiled(mapping: StreamMapping) -> Filters:
    try:
        return compile_filters(*seen(mapping.filters))
    except InvalidFilter as error:
        raise NotSeen(f"the filter is none: {error}") from None


def _filter_invalid(mapping: StreamMapping, system: System) -> Iterator[Said]:
    try:
        compile_filters(*seen(mapping.filters))
    except InvalidFilter as error:
        yield _with_filter(str(error), mapping, system)


def _filter_missing(mapping: StreamMapping, system: System) -> Iterator[Said]:
    if not seen(mapping.filters):
        yield _with_filter("no FilterCriteria", mapping, system)


def _filter_blocks(mapping: StreamMapping, system: System) -> Iterator[Said]:
    filters, names = _compiled(mapping), ("one event", "several events")
    samples = stream_samples(seen(relay_of(mapping, system).settings.layout)).records
    blocked = [name for name, each in zip(names, samples, strict=True) if not filters.match(each)]
    if blocked:
        yield _with_filter(f"an inserted record with {' and one with '.join(blocked)} does not pass", mapping, system)


def _passes(what: str, pick: Callable[[Samples], tuple[dict[str, object], ...]]) -> Callable[..., Iterator[Said]]:
    def look(mapping: StreamMapping, system: System) -> Iterator[Said]:
        if not seen(mapping.filters):
            return  # filter-missing tells of it
        filters = _compiled(mapping)
        samples = stream_samples(seen(relay_of(mapping, system).settings.layout))
        if any(filters.match(each) for each in pick(samples)):
            yield _with_filter(f"{what} passes", mapping, system)

    return look


def _with_filter(said: str, mapping: StreamMapping, system: System) -> Evidence:
    layout = relay_of(mapping, system).settings.layout
    right = "<the layout's>" if isinstance(layout, Unseen) else json.dumps(json.dumps(stream_filter(layout)))
    return Evidence(said, {"filter": right})


def _check(
    id_: str,
    severity: Severity,
    asks: str,
    consequence: str,
    look: Callable[..., Iterator[Said]],
    **more: Any,
) -> Check:
    return mapping_check(
        id_,
        severity,
        asks=asks,
        look=look,
        consequence=consequence,
        option='--filter-criteria \'{"Filters":[{"Pattern":<filter>}]}\'',
        snippet="FilterCriteria: {Filters: [{Pattern: <filter>}]}",
        **more,
    )


CHECKS = (
    _check(
        "filter-invalid",
        Severity.ERROR,
        "The filter is one that Lambda documents",
        "A pattern with a fault lets nothing through, or is refused when it is deployed.",
        _filter_invalid,
        closes=("stream",),
    ),
    _check(
        "filter-missing",
        Severity.WARNING,
        "The mapping has a filter",
        "The relay is invoked for each write to the table, its own settling included, and paid for.",
        _filter_missing,
    ),
    _check(
        "filter-blocks",
        Severity.ERROR,
        "The filter, tried: records of the layout pass",
        "What does not pass is never relayed, unless a sweeper finds it in the index.",
        _filter_blocks,
        limits=("P4",),
        closes=("stream",),
    ),
    _check(
        "filter-settles",
        Severity.WARNING,
        "The filter, tried: settled records (MODIFY) do not pass",
        "The relay is invoked by what it does itself: twice as often as there are events.",
        _passes("a record that was settled", lambda samples: samples.settled),
    ),
    _check(
        "filter-expiry",
        Severity.WARNING,
        "The filter, tried: records that TTL deletes (REMOVE) do not pass",
        "The relay is invoked for each record once more, days later.",
        _passes("a record that TTL deleted", lambda samples: samples.expired),
    ),
    _check(
        "filter-others",
        Severity.WARNING,
        "The filter, tried: other items of the table do not pass",
        "The relay is invoked for writes that have no event, and paid for.",
        _passes("an item that is no record", lambda samples: samples.others),
    ),
)
