"""Checks of what a sink says and does before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Prepared
from dynamodb_outbox.testing.sink_contract.samples import event, padded, prepared, strange
from dynamodb_outbox.testing.sink_contract.stand_in import ContractBroken, Reply

if TYPE_CHECKING:
    from dynamodb_outbox.testing.sink_contract.stand_in import StandIn

__all__ = [
    "facts_are_stated",
    "prepare_never_raises",
    "prepare_repeats_itself",
    "size_is_exact",
    "size_limit_is_exact",
]


def facts_are_stated(stand_in: StandIn) -> None:
    """Check that `limits`, `request_ms` and `name` are there, and that two sinks of one destination have one name.

    The relay makes batches by the limits and its deadline by `request_ms`, and knows a destination by its name: in its
    memory of what was accepted, in its log, in what it reports.
    """
    check, sink = "facts_are_stated", stand_in.sink()
    limits = sink.limits
    if not isinstance(limits, SinkLimits) or limits.entries < 1 or not 0 < limits.entry_bytes <= limits.request_bytes:
        raise ContractBroken(check, f"limits is {limits!r}; SinkLimits are needed, by which an entry fits a request")
    if isinstance(sink.request_ms, bool) or not isinstance(sink.request_ms, int) or sink.request_ms < 1:
        raise ContractBroken(check, f"request_ms is {sink.request_ms!r}; a whole number of milliseconds is needed")
    if not isinstance(sink.name, str) or not sink.name or sink.name != stand_in.sink().name:
        raise ContractBroken(check, f"name is {sink.name!r}; text is needed, the same for each sink of a destination")


def size_is_exact(stand_in: StandIn) -> None:
    """Check that `Prepared.size` is what the service counts, also for text of more than one byte a character.

    A batch that is too large by a byte is refused as a whole; one that is counted too large costs requests.
    """
    check, sink = "size_is_exact", stand_in.sink()
    texts = ("", "x", "\u00e9", "\u4e16", "\U0001f600", "\u00e9" * 100)
    samples = [event(number, f'{{"t":"{text}"}}', subject=text or None) for number, text in enumerate(texts)]
    for one in (*samples, event(90, key="\u4e16"), event(91, attributes={"traceparent": "00-1-1-00"})):
        found = prepared(sink, one, check)
        counted = stand_in.size(found.entry)
        if found.size != counted:
            raise ContractBroken(check, f"size is {found.size:,}, and the service counts {counted:,}")


def size_limit_is_exact(stand_in: StandIn) -> None:
    """Check that an event of exactly `limits.entry_bytes` is sent, and that one of a byte more is a content fault.

    An event that is let through and refused is found out one request later each time it comes; one that is refused in
    error is parked.
    """
    check, sink = "size_limit_is_exact", stand_in.sink()
    limit = sink.limits.entry_bytes
    room = limit - prepared(sink, padded(0, 0), check).size
    largest = prepared(sink, padded(0, room), check)
    if largest.size != limit:
        raise ContractBroken(check, f"an event that should have {limit:,} bytes has {largest.size:,}")
    beyond = sink.prepare(padded(0, room + 1))
    if not isinstance(beyond, Fault) or beyond.kind is not Kind.CONTENT:
        raise ContractBroken(check, f"a byte above the limit of {limit:,} is no content fault: {_short(beyond)}")
    stand_in.play(Reply.ACCEPT)
    outcome = sink.publish([largest.entry])
    if list(getattr(outcome, "results", ())) != [None]:
        raise ContractBroken(check, f"an event of exactly {limit:,} bytes was not accepted: {_short(outcome)}")


def prepare_never_raises(stand_in: StandIn) -> None:
    """Check that any event that a table can hold comes back prepared, or as a content fault that says why.

    An exception would end the invocation, and the next one, and hold the stream for a day.
    """
    check, sink = "prepare_never_raises", stand_in.sink()
    for one in strange(sink.limits.request_bytes):
        try:
            found = sink.prepare(one)
        except Exception as error:
            raise ContractBroken(check, f"{type(error).__name__} for the event {_short(one)}") from error
        if isinstance(found, Prepared):
            if found.size > sink.limits.entry_bytes:
                raise ContractBroken(check, f"an entry of {found.size:,} bytes, more than the limit, for {_short(one)}")
            continue
        if not isinstance(found, Fault) or found.kind is not Kind.CONTENT or not found.code:
            raise ContractBroken(check, f"{_short(found)} for the event {_short(one)}: Prepared, or a content Fault")


def prepare_repeats_itself(stand_in: StandIn) -> None:
    """Check that the same event makes the same entry, also in another sink: a retry carries the same bytes."""
    check, one = "prepare_repeats_itself", event(1, subject="s")
    sink = stand_in.sink()
    if not prepared(sink, one, check) == prepared(sink, one, check) == prepared(stand_in.sink(), one, check):
        raise ContractBroken(check, "the same event was prepared in two ways")


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 300 else f"{said[:300]}..."  # noqa: PLR2004 -- enough to know it again
