"""The door of a process to AWS: where a request, or its answer, can be caught while the process is killed or frozen.

A gate hands what comes in to the fault bus, and that to the engine. What it has caught goes on when it is told so: with
a request that means that it reaches the table, or the bus, after the process that sent it has died.

The gate of the event source has a `Retention` besides. The engine keeps what it has; here the stream forgets, when it
is told so, as AWS's does after 24 hours: who asks for what is forgotten is told TrimmedDataAccessException, and the
oldest record is the first that is left.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.faultbus.exchange import json_answer
from dynamodb_outbox.testing.faultbus.server import HOST, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from dynamodb_outbox.adapters.streams import DynamoDbStream
    from dynamodb_outbox.testing.faultbus import FaultBus
    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request

__all__ = ["Gate", "Retention", "Trap"]

_POLL_S = 0.05
_CLOSE_WITHIN_S = 2.0
_HELD_AT_MOST_S = 120.0
_OK = 200


@dataclass
class Trap:
    """Catches the next request of an operation: before it goes on, or its answer, after it was carried out."""

    operation: str
    after: bool
    caught: threading.Event = field(default_factory=threading.Event)
    _free: threading.Event = field(default_factory=threading.Event)
    _on: bool = True

    def hold(self) -> bool:
        """Wait until what is caught may go; return whether it goes on, or is dropped."""
        self.caught.set()
        self._free.wait(_HELD_AT_MOST_S)
        return self._on

    def let(self, *, on: bool) -> None:
        """Let go of what is caught; nothing is held any more."""
        self._on = on
        self._free.set()


class Gate:
    """Listens on 127.0.0.1 for one process, in threads of this one, until it is closed.

    `used` has the operations that it was used for since it was last emptied; `published`, the ids of the events that
    the process was told to be accepted; `defects` is what went wrong in here.
    """

    def __init__(self, bus: FaultBus, retention: Retention | None = None) -> None:
        self._bus = bus
        self._retention = retention
        self._trap: Trap | None = None
        self._taking = threading.Lock()
        self.used: set[str] = set()
        self.published: set[str] = set()
        self.defects: list[BaseException] = []
        self._server = Server(0, self._serve, self.defects.append)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The endpoint for the process."""
        return f"http://{HOST}:{self._server.server_port}"

    def set(self, trap: Trap | None) -> None:
        """Catch the next request that a trap is for, once; None takes a trap away."""
        with self._taking:
            self._trap = trap

    def close(self) -> None:
        """End all connections, and stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.close(_CLOSE_WITHIN_S)

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self, request: Request, client_gone: Callable[[], bool]) -> Answer | None:
        self.used.add(request.operation)
        trap = self._sprung(request.operation)
        if trap is not None and not trap.after and not trap.hold():
            return None
        if self._retention is not None and request.operation == "GetShardIterator":
            asked = self._retention.asked(json.loads(request.body))
            if asked is None:
                return json_answer(400, {"__type": "TrimmedDataAccessException", "message": "trimmed"})
            request = request.with_body(json.dumps(asked).encode())
        answer = self._bus._serve(request, client_gone)
        if request.operation == "PutEvents" and answer is not None and answer.status == _OK:
            self._note(json.loads(request.body)["Entries"], json.loads(answer.body)["Entries"])
        if trap is not None and trap.after:
            trap.hold()
        return answer

    def _note(self, entries: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
        for entry, result in zip(entries, results, strict=True):
            if "ErrorCode" not in result:
                self.published.add(json.loads(entry["Detail"])["id"])

    def _sprung(self, operation: str) -> Trap | None:
        with self._taking:
            if self._trap is None or self._trap.operation != operation:
                return None
            trap, self._trap = self._trap, None
            return trap


class Retention:
    """Which records of a stream are forgotten: those up to a number, in each shard. The stream itself has them all."""

    def __init__(self, stream: DynamoDbStream) -> None:
        self._stream = stream
        self._forgotten: dict[str, str] = {}
        self._read: dict[str, str] = {}
        self.records: list[tuple[str, dict[str, Any]]] = []

    def shards(self) -> list[str]:
        """Return the shards of the stream."""
        return [shard.shard_id for shard in self._stream.shards()]

    def read(self) -> None:
        """Read what is new into `records`: each with its shard."""
        for shard in self._stream.shards():
            reader = self._stream.open(shard.shard_id, after=self._read.get(shard.shard_id))
            while found := reader.read().records:
                self._read[shard.shard_id] = str(found[-1]["dynamodb"]["SequenceNumber"])
                self.records += [(shard.shard_id, record) for record in found]

    def forget(self) -> dict[str, str]:
        """Forget all that there is now; return the last number that is forgotten of each shard."""
        self.read()
        self._forgotten.update(self._read)
        return dict(self._forgotten)

    def asked(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return what GetShardIterator is to ask of the stream; None when that is forgotten."""
        forgotten = self._forgotten.get(body["ShardId"])
        if forgotten is None or body["ShardIteratorType"] == "LATEST":
            return body
        if body["ShardIteratorType"] == "TRIM_HORIZON":
            return {**body, "ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": forgotten}
        first = int(body["SequenceNumber"]) + (body["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER")
        return None if first <= int(forgotten) else body
