"""A simulated event bus behind a boto3 client of "events": PutEvents, by EventBridge's rules for its entries.

An entry is accepted, or refused in the answer with a code; when no entry of a request is valid the whole request fails
[EBG], with a code of its own or that of an entry. An event whose data says `"poison": true` is one that a bus can never
accept, unless it takes everything. Entries for another bus's name are answered as accepted, and are gone: so does
EventBridge with a bus that does not exist [EBG], also with this one while the fault `target_vanishes` lasts.
DescribeEventBus tells.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.core.limits import (
    EVENT_SOURCE_LENGTH,
    EVENT_TIME_BYTES,
    EVENT_TYPE_LENGTH,
    EVENTBRIDGE,
    INT64_MAX,
    INT64_MIN,
)
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.facts import Accepted, Rejected, Swallowed
from dynamodb_outbox.testing.simulation.history import CONTENT, POISON
from dynamodb_outbox.testing.simulation.network import BUS, client_error
from dynamodb_outbox.testing.simulation.wire import copied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.testing.simulation.consuming.queue import Queue
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["ENTRY_FAULTS", "EVENTS_CONFIG", "Bus", "EventsClient"]

EVENTS_CONFIG = Config(connect_timeout=0.8, read_timeout=1.7, retries={"mode": "standard", "total_max_attempts": 1})
_OPERATION = "PutEvents"
_DESCRIBE = "DescribeEventBus"
ENTRY_FAULTS = {
    "entry_throttled": ("ThrottlingException",),
    "entry_internal": ("InternalFailure", "InternalException"),
    "entry_denied": (
        "AccessDeniedException",
        "InvalidAccountIdException",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
    ),
    "entry_unknown_code": ("EntryNotAcceptedException",),
}
"""Codes of one entry that are no fault of its content, by kinds of faults; the last one nobody has ever seen."""
_REFUSALS = sorted(CONTENT)
_LONG = re.compile(r"[:,\[]\s*-?[0-9]{19}")
"""How an integer begins that 64 bits do not hold; so may a part of a text."""
_HALF = 0.5
_NAMES = frozenset(("Detail", "DetailType", "EventBusName", "Resources", "Source", "Time", "TraceHeader"))


class Bus:
    """The bus `name` of a destination. What it does is noted in the ledger under the destination.

    `refuses_poison`: whether poison is poison here; another bus may take what this one does not. `queue` gets what is
    accepted.
    """

    def __init__(
        self,
        network: Network,
        destination: str,
        name: str = "",
        *,
        refuses_poison: bool = True,
        queue: Queue | None = None,
    ) -> None:
        self.destination = destination
        self.name = name or destination
        self._poison = POISON if refuses_poison else None
        self._queue = queue
        self._network = network
        self._chance = network.chance.of("bus", destination)
        self._events = 0

    def client(self, process: Process, *, region: str = "eu-west-1", config: Config = EVENTS_CONFIG) -> EventsClient:
        """Return a client of "events" for a process."""
        return EventsClient(self, self._network, process, region=region, config=config)

    def describe(self, name: str, invocation: int) -> dict[str, Any]:
        """Say that the bus of this name is there. Raises ClientError when it is not."""
        bus = name.rpartition("/")[2]
        if bus != self.name or self._gone_since(invocation) is not None:
            raise client_error(_DESCRIBE, "ResourceNotFoundException", f"Event bus {bus} does not exist.")
        return {"Name": bus, "Arn": f"arn:aws:events:eu-west-1:000000000000:event-bus/{bus}"}

    def put(self, entries: Sequence[Mapping[str, Any]], invocation: int, sent_ms: int) -> dict[str, Any]:
        """Act on a request that has arrived, and return the answer. Raises ClientError."""
        _check_request(entries)
        wrongly = self._take("content_refused", invocation)
        looked_at = [_Entry(entry, self._poison, self._refusal, wrongly=wrongly) for entry in entries]
        invalid = [entry for entry in looked_at if entry.code]
        none_is_valid = len(invalid) == len(looked_at)
        if none_is_valid or (invalid and self._take("request_rejected", invocation)):
            for entry in invalid:
                self._note(Rejected, invocation, entry.event_id, entry.code)
            own = none_is_valid and self._chance.unit(invalid[0].event_id, "code of the request") < _HALF
            code = invalid[0].code if own else "ValidationException"
            raise client_error(_OPERATION, code, f"{invalid[0].code}: the request was not valid")
        return self._answer(looked_at, invocation, sent_ms)

    def _answer(self, looked_at: Sequence[_Entry], invocation: int, sent_ms: int) -> dict[str, Any]:
        """Answer a request of which some entry is valid."""
        since_ms = self._gone_since(invocation)
        lost = silent = None
        if self._take("entry_miscounted", invocation):
            lost = next(entry for entry in looked_at if not entry.code)
            silent = self._chance.unit(lost.event_id, self._network.kernel.now_ms, "silent") < _HALF
            lost.code = ENTRY_FAULTS["entry_internal"][0]
        results = [self._result(entry, invocation, sent_ms, since_ms) for entry in looked_at]
        refused = sum("ErrorCode" in result for result in results)
        if lost is not None and silent:
            results[looked_at.index(lost)] = {"EventId": self._new_id()}  # and it is counted as failed
        elif lost is not None:
            refused -= 1
        if self._take("entry_malformed_answer", invocation):
            results.pop()
            refused = sum("ErrorCode" in result for result in results)
        return {"FailedEntryCount": refused, "Entries": results}

    def _take(self, kind: str, invocation: int) -> bool:
        faults = self._network.faults
        return kind in faults.left and faults.take(kind, self.destination, invocation=invocation) is not None

    def _refusal(self, event_id: str) -> str:
        """Return the code with which this bus refuses an event for what it says: always the same."""
        return _REFUSALS[self._chance.whole(0, len(_REFUSALS) - 1, event_id, "refusal")]

    def _new_id(self) -> str:
        self._events += 1
        return f"{self.destination}-{self._events}"

    def _gone_since(self, invocation: int) -> int | None:
        """Return since when there is no such bus."""
        fault = self._network.faults.take("target_vanishes", self.destination, invocation=invocation)
        return None if fault is None else fault.at_ms

    def _result(self, entry: _Entry, invocation: int, sent_ms: int, since_ms: int | None) -> dict[str, str]:
        code = entry.code or self._trouble(entry, invocation)
        if code:
            self._note(Rejected, invocation, entry.event_id, code)
            return {"ErrorCode": code, "ErrorMessage": "refused by the simulated bus"}
        unsaid = self._take("entry_no_result", invocation)
        if unsaid and self._chance.unit(entry.event_id, self._network.kernel.now_ms, "unsaid") < _HALF:
            return {}
        if entry.bus == self.name and since_ms is None:
            self._note(Accepted, invocation, entry.event_id, entry.text)
            if self._queue is not None:
                self._queue.accept(entry.event_id, entry.given)
        else:
            now_ms = self._network.kernel.now_ms
            gone = Swallowed(now_ms, self.destination, invocation, entry.event_id, entry.bus, sent_ms, since_ms)
            self._network.ledger.note(gone)
        return {} if unsaid else {"EventId": self._new_id()}

    def _trouble(self, entry: _Entry, invocation: int) -> str:
        """Return the code with which a valid entry is refused, "" when it is not."""
        fault = self._network.faults.first(ENTRY_FAULTS, self.destination, invocation=invocation)
        if fault is None:
            return ""
        codes = ENTRY_FAULTS[fault.kind]
        return codes[self._chance.whole(0, len(codes) - 1, entry.event_id, self._network.kernel.now_ms)]

    def _note(self, fact: type[Accepted | Rejected], invocation: int, event_id: str, said: str) -> None:
        ledger = self._network.ledger
        ledger.note(fact(self._network.kernel.now_ms, self.destination, invocation, event_id, said))


class EventsClient(SimulatedClient):
    """boto3's client of "events", as far as a relay needs it."""

    def __init__(self, bus: Bus, network: Network, process: Process, *, region: str, config: Config) -> None:
        super().__init__(network, process, service="events", where=bus.destination, region=region, config=config)
        self._bus = bus

    def put_events(self, **request: Any) -> dict[str, Any]:
        """PutEvents."""
        (given,) = self._arguments(_OPERATION, request, "Entries")
        entries = [copied(dict(entry)) for entry in given]
        for entry in entries:
            if strange := sorted(entry.keys() - _NAMES):
                raise TypeError(f"PutEvents takes no {', '.join(strange)} in an entry")
        invocation = self._process.invocation
        sent_ms = self._network.kernel.now_ms
        return self._call(_OPERATION, lambda: self._bus.put(entries, invocation, sent_ms), BUS)

    def describe_event_bus(self, **request: Any) -> dict[str, Any]:
        """DescribeEventBus."""
        (name,) = self._arguments(_DESCRIBE, request, "Name")
        invocation = self._process.invocation
        return self._call(_DESCRIBE, lambda: self._bus.describe(str(name), invocation), BUS)


_TEXT = json.JSONEncoder(sort_keys=True, default=str, ensure_ascii=False)


class _Entry:
    """An entry as it was `given`, and as the bus sees it: what is wrong with it (`code`), whose it is, its text."""

    def __init__(
        self, entry: Mapping[str, Any], poison: str | None, refusal: Callable[[str], str], *, wrongly: bool
    ) -> None:
        self.bus = str(entry.get("EventBusName", "default")).rpartition("/")[2]
        self.given = entry
        self.text = _TEXT.encode(entry)
        detail = _object(entry.get("Detail"))
        self.event_id = "" if detail is None else str(detail.get("id", ""))
        self.code = _fault(entry, detail)
        if not self.code and (wrongly or _is_poison(detail, poison)):
            self.code = refusal(self.event_id)


def _fault(entry: Mapping[str, Any], detail: Mapping[str, Any] | None) -> str:
    kind, source = entry.get("DetailType"), entry.get("Source")
    if not isinstance(kind, str) or not 0 < len(kind) <= EVENT_TYPE_LENGTH:
        return "InvalidArgument"
    if not isinstance(source, str) or not 0 < len(source) <= EVENT_SOURCE_LENGTH or source.startswith("aws."):
        return "InvalidArgument"
    return "MalformedDetail" if detail is None or (_LONG.search(entry["Detail"]) and _is_wide(detail)) else ""


def _is_wide(value: Any) -> bool:
    """Whether an integer that 64 bits do not hold is in it."""
    if isinstance(value, (dict, list)):
        return any(map(_is_wide, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX


def _is_poison(detail: Mapping[str, Any] | None, poison: str | None) -> bool:
    data = {} if detail is None else detail.get("data", detail)
    return poison is not None and isinstance(data, dict) and data.get(poison) is True


def _object(detail: Any) -> dict[str, Any] | None:
    try:
        found = json.loads(detail) if isinstance(detail, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _check_request(entries: Sequence[Mapping[str, Any]]) -> None:
    if not 1 <= len(entries) <= EVENTBRIDGE.entries:
        raise client_error(_OPERATION, "ValidationException", f"1 to {EVENTBRIDGE.entries} entries are needed")
    if sum(map(_size, entries)) > EVENTBRIDGE.request_bytes:
        raise client_error(_OPERATION, "ValidationException", "the total size of the entries is over the limit")


def _size(entry: Mapping[str, Any]) -> int:
    texts = [entry.get(name) or "" for name in ("Source", "DetailType", "Detail")]
    texts += entry.get("Resources") or []
    return EVENT_TIME_BYTES * ("Time" in entry) + sum(len(str(text).encode()) for text in texts)
