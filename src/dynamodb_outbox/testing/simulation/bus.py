"""A simulated event bus behind a boto3 client of "events": PutEvents, by EventBridge's rules for its entries.

An entry is accepted, or refused in the answer with a code; when no entry of a request is valid the whole request fails
[EBG]. An event whose data says `"poison": true` is one that a bus can never accept, unless it takes everything. Entries
for another bus's name are answered as accepted, and are gone: so does EventBridge with a bus that does not exist [EBG],
also with this one while the fault `target_vanishes` lasts. DescribeEventBus tells.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.core.limits import EVENT_SOURCE_LENGTH, EVENT_TIME_BYTES, EVENT_TYPE_LENGTH, EVENTBRIDGE
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.facts import Accepted, Rejected, Vanished
from dynamodb_outbox.testing.simulation.network import BUS, client_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["EVENTS_CONFIG", "POISON", "Bus", "EventsClient"]

POISON = "poison"
"""The member of an event's data that makes it unacceptable, when it is true."""

EVENTS_CONFIG = Config(connect_timeout=0.8, read_timeout=1.7, retries={"mode": "standard", "total_max_attempts": 1})
_OPERATION = "PutEvents"
_DESCRIBE = "DescribeEventBus"
_ENTRY_FAULTS = {"entry_throttled": "ThrottlingException", "entry_internal": "InternalFailure"}
_NAMES = frozenset(("Detail", "DetailType", "EventBusName", "Resources", "Source", "Time", "TraceHeader"))


class Bus:
    """The bus `name` of a destination. What it does is noted in the ledger under the destination.

    `refuses_poison`: whether poison is poison here; another bus may take what this one does not.
    """

    def __init__(self, network: Network, destination: str, name: str = "", *, refuses_poison: bool = True) -> None:
        self.destination = destination
        self.name = name or destination
        self._poison = POISON if refuses_poison else None
        self._network = network
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
        looked_at = [_Entry(entry, self._poison) for entry in entries]
        invalid = [entry for entry in looked_at if entry.code]
        if len(invalid) == len(looked_at) or (
            invalid
            and self._network.faults.take("request_rejected", self.destination, invocation=invocation) is not None
        ):
            for entry in invalid:
                self._note(Rejected, invocation, entry.event_id, entry.code)
            raise client_error(_OPERATION, "ValidationException", f"{invalid[0].code}: the request was not valid")
        since_ms = self._gone_since(invocation)
        results = [self._result(entry, invocation, sent_ms, since_ms) for entry in looked_at]
        if self._network.faults.take("entry_malformed_answer", self.destination, invocation=invocation) is not None:
            results.pop()
        return {"FailedEntryCount": sum("ErrorCode" in result for result in results), "Entries": results}

    def _gone_since(self, invocation: int) -> int | None:
        """Return since when there is no such bus."""
        fault = self._network.faults.take("target_vanishes", self.destination, invocation=invocation)
        return None if fault is None else fault.at_ms

    def _result(self, entry: _Entry, invocation: int, sent_ms: int, since_ms: int | None) -> dict[str, str]:
        code = entry.code
        if not code:
            fault = self._network.faults.first(_ENTRY_FAULTS, self.destination, invocation=invocation)
            code = _ENTRY_FAULTS[fault.kind] if fault is not None else ""
        if code:
            self._note(Rejected, invocation, entry.event_id, code)
            return {"ErrorCode": code, "ErrorMessage": "refused by the simulated bus"}
        self._events += 1
        if since_ms is not None:
            now_ms = self._network.kernel.now_ms
            gone = Vanished(now_ms, self.destination, invocation, entry.event_id, sent_ms, since_ms)
            self._network.ledger.note(gone)
        elif entry.bus == self.name:
            self._note(Accepted, invocation, entry.event_id, entry.text)
        return {"EventId": f"{self.destination}-{self._events}"}

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
        entries = [dict(entry) for entry in given]
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
    """An entry as the bus sees it: what is wrong with it (`code`), whose event it is, and what it says."""

    def __init__(self, entry: Mapping[str, Any], poison: str | None) -> None:
        self.bus = str(entry.get("EventBusName", "default")).rpartition("/")[2]
        self.text = _TEXT.encode(entry)
        detail = _object(entry.get("Detail"))
        self.event_id = "" if detail is None else str(detail.get("id", ""))
        self.code = _fault(entry, detail, poison)


def _fault(entry: Mapping[str, Any], detail: Mapping[str, Any] | None, poison: str | None) -> str:
    kind, source = entry.get("DetailType"), entry.get("Source")
    if not isinstance(kind, str) or not 0 < len(kind) <= EVENT_TYPE_LENGTH:
        return "InvalidArgument"
    if not isinstance(source, str) or not 0 < len(source) <= EVENT_SOURCE_LENGTH or source.startswith("aws."):
        return "InvalidArgument"
    if detail is None:
        return "MalformedDetail"
    data = detail.get("data", detail)
    return "MalformedDetail" if poison and isinstance(data, dict) and data.get(poison) is True else ""


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
