"""One publish request through the bus: decide, hand the rest upstream, write down, answer.

The order of effects is the point. Upstream first, then the evidence, then whatever happens to the answer: so an
acceptance is on record before the client can know of it, and a client that dies meanwhile changes nothing. An entry is
accepted only if the upstream said so; a request whose answer from the upstream is missing or cannot be read is
answered with a 502 and recorded as `upstream_failed`, because nobody knows what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.faultbus.decide import Content, Drop, Refuse, RequestFails
from dynamodb_outbox.testing.faultbus.held import Held
from dynamodb_outbox.testing.faultbus.upstream import UpstreamFailed

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.testing.faultbus.decide import Fate, Proceed
    from dynamodb_outbox.testing.faultbus.decisions import Decisions
    from dynamodb_outbox.testing.faultbus.evidence import Evidence, FaultKind
    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request
    from dynamodb_outbox.testing.faultbus.held import HeldRequests
    from dynamodb_outbox.testing.faultbus.protocol import Batch, BatchProtocol, Entry, Verdict
    from dynamodb_outbox.testing.faultbus.rules import OutageMode
    from dynamodb_outbox.testing.faultbus.upstream import Upstream

__all__ = ["Parts", "serve"]

_OK = 200
_HANG_LOOK_S = 0.02


@dataclass(frozen=True)
class Parts:
    """What all requests of one bus share; each is safe to use from several threads. `closing` is set at the end."""

    decisions: Decisions
    evidence: Evidence
    upstream: Upstream
    held: HeldRequests
    clock: Clock
    closing: threading.Event


def serve(
    parts: Parts, protocol: BatchProtocol, batch: Batch, request: Request, client_gone: Callable[[], bool]
) -> Answer | None:
    """Serve one publish request and return its answer, None when its connection is to be reset instead.

    Raises `EvidenceUnusable` when the evidence cannot be written.
    """
    number, decision = parts.decisions.publish(_contents(batch.entries))
    publication = _Publication(parts, protocol, batch, request, number, client_gone)
    if isinstance(decision, Refuse):
        publication.note("outage", mode=decision.mode)
        return publication.refuse(decision.mode)
    if isinstance(decision, RequestFails):
        publication.note("request_error", status=decision.status, code=decision.code)
        return protocol.error(decision.status, decision.code, "refused by the fault plan")
    if isinstance(decision, Drop):
        publication.note("reset_before")
        return None
    return publication.proceed(decision)


@dataclass(frozen=True)
class _Publication:
    """One publish request on its way."""

    parts: Parts
    protocol: BatchProtocol
    batch: Batch
    request: Request
    number: int
    client_gone: Callable[[], bool]

    def note(self, kind: FaultKind, **what: object) -> None:
        self.parts.evidence.fault(kind, self.protocol.operation, request=self.number, **what)

    def refuse(self, mode: OutageMode) -> Answer | None:
        if mode == "503":
            return self.protocol.error(503, "ServiceUnavailable", "the bus is out, by the fault plan")
        told = [entry.destination for entry in self.batch.entries]
        while mode == "hang" and self.parts.decisions.outage(told) == "hang" and not self.client_gone():
            if self.parts.closing.wait(_HANG_LOOK_S):
                break
        return None

    def proceed(self, decision: Proceed) -> Answer | None:
        if decision.delay_ms:
            self.note("delayed", ms=decision.delay_ms)
            self.parts.closing.wait(decision.delay_ms / 1000)
        gone = [entry for entry, fate in zip(self.batch.entries, decision.fates, strict=True) if fate.missing]
        for entry in gone:
            self.note("destination_missing", id=entry.identity, destination=entry.destination)
        if gone and self.protocol.swallowed(gone[0]) is None:
            return self.protocol.not_found(gone[0].destination)
        own = [self._own_verdict(entry, fate) for entry, fate in zip(self.batch.entries, decision.fates, strict=True)]
        taken = [index for index, verdict in enumerate(own) if verdict is None]
        answer, results = self._forward(taken) if taken else (None, ())
        if results is None:
            return answer
        upstream = dict(zip(taken, results, strict=True))
        verdicts = [upstream[index] if verdict is None else verdict for index, verdict in enumerate(own)]
        accepted = [index for index in taken if upstream[index].code is None]
        self._record(decision.fates, verdicts, accepted)
        self._duplicate([index for index in accepted if decision.fates[index].copies > 1])
        if answer is None or len(taken) < len(verdicts):
            answer = self.protocol.answer(verdicts)
        return self._finish(answer, accepted)

    def _own_verdict(self, entry: Entry, fate: Fate) -> Verdict | None:
        """Return the bus's own verdict on an entry, None for one that goes upstream."""
        if fate.code is not None:
            return self.protocol.rejection(entry, fate.code, sender_fault=fate.sender_fault)
        return self.protocol.swallowed(entry) if fate.missing else None

    def _forward(self, indexes: Sequence[int]) -> tuple[Answer | None, Sequence[Verdict] | None]:
        """Hand entries upstream; the verdicts are None when the whole request failed with the answer given."""
        whole = len(indexes) == len(self.batch.entries)
        request = self.request if whole else self.request.with_body(self.protocol.body(self.batch, indexes))
        try:
            answer = self.parts.upstream.send(request)
        except UpstreamFailed as error:
            self.note("upstream_failed", reason=error.reason, sent=error.sent)
            return self.protocol.error(502, "UpstreamFailed", str(error)), None
        if answer.status != _OK:
            self.note("upstream_error", status=answer.status)
            return answer, None
        verdicts = self.protocol.verdicts(answer.body, self._entries(indexes))
        if verdicts is None:
            reason = "its answer does not have one result for each entry"
            self.note("upstream_failed", reason=reason, sent=True)
            return self.protocol.error(502, "UpstreamFailed", reason), None
        return answer, verdicts

    def _record(self, fates: Sequence[Fate], verdicts: Sequence[Verdict], accepted: Sequence[int]) -> None:
        if accepted:
            self._accept(accepted, copy=0)
        for entry, fate, verdict in zip(self.batch.entries, fates, verdicts, strict=True):
            if verdict.code is None:
                continue
            kind: FaultKind = "entry_refused_upstream"
            if fate.code is not None:
                kind = "entry_unacceptable" if fate.permanent else "entry_rejected"
            self.note(kind, id=entry.identity, code=verdict.code)

    def _duplicate(self, indexes: Sequence[int]) -> None:
        if not indexes:
            return
        ids = [self.batch.entries[index].identity for index in indexes]
        try:
            answer = self.parts.upstream.send(self.request.with_body(self.protocol.body(self.batch, indexes)))
        except UpstreamFailed as error:
            self.note("duplicate_failed", ids=ids, reason=error.reason)
            return
        results = self.protocol.verdicts(answer.body, self._entries(indexes)) if answer.status == _OK else None
        if results is None:
            self.note("duplicate_failed", ids=ids, reason=f"HTTP {answer.status}")
            return
        again = [index for index, verdict in zip(indexes, results, strict=True) if verdict.code is None]
        if again:
            self._accept(again, copy=1)
        for index, verdict in zip(indexes, results, strict=True):
            kind: FaultKind = "duplicated" if verdict.code is None else "duplicate_failed"
            self.note(kind, id=self.batch.entries[index].identity)

    def _accept(self, indexes: Sequence[int], *, copy: int) -> None:
        self.parts.evidence.accept(self._entries(indexes), request=self.number, copy=copy)

    def _entries(self, indexes: Sequence[int]) -> list[Entry]:
        return [self.batch.entries[index] for index in indexes]

    def _finish(self, answer: Answer, accepted: Sequence[int]) -> Answer | None:
        entries = self._entries(accepted)
        if not entries:
            return answer
        then = self.parts.decisions.accepted(_contents(entries))
        ids = tuple(entry.identity for entry in entries)
        if then == "reset":
            self.note("reset_after", ids=ids)
            return None
        if then == "hold":
            self.note("held", ids=ids)
            held = Held(self.number, self.parts.clock.now_ms(), self.protocol.operation, ids)
            end = self.parts.held.hold(held, self.client_gone)
            self.note(end)
            return answer if end == "released" else None
        return answer


def _contents(entries: Sequence[Entry]) -> list[Content]:
    return [Content(entry.identity, entry.detail, entry.destination) for entry in entries]
