"""A queue of messages behind the buses, and who takes them off it: at least once, late, and in any order.

A rule sends what a bus accepts to a standard queue, in EventBridge's form, with a second copy now and then. Lambda
takes some of the messages that are to be had, hides them for a while, and hands them to a free instance; those that its
answer does not name are acknowledged, the others come again when they are no longer hidden. So do those of an instance
that died, or stands still for longer. An acknowledgement that comes after the message was handed out once more counts
for nothing, and one that counted may be forgotten by the queue: a standard queue delivers at least once [SQS].
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import rfc3339
from dynamodb_outbox.core.consuming.messages import lambda_record
from dynamodb_outbox.core.eventsource.answers import Responded, reported_failures
from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Acknowledged, Delivered, Queued, Subscribed
from dynamodb_outbox.testing.simulation.functions import Function
from dynamodb_outbox.testing.simulation.process import CONSUMER_PERILS, START_MS
from dynamodb_outbox.testing.simulation.table import REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.core.eventsource.answers import Answer
    from dynamodb_outbox.testing.simulation.network import Network

__all__ = ["Queue"]

_ARN = f"arn:aws:sqs:{REGION}:000000000000:{CONSUMER}"
_TWICE = 0.1
"""So often a bus delivers an event twice."""
_ON_ITS_WAY_MS = (1, 600)
_HIDDEN_MS = (3_000, 12_000)
"""Shorter than the time-out of the function, against AWS's advice: nothing else has two at work on one message."""
_AGAIN_MS = (1, 15_000)
_MOST = 10
_WINDOW_MS = (0, 3_000)
"""So long messages are gathered, at most, before they are handed out."""


@dataclass
class _Message:
    name: str
    event: str
    body: str
    sent_ms: int
    received: int = 0
    not_before_ms: int = 0
    gone: bool = False


class ConsumerFunction(Function):
    """The function of the consumer, which is handed messages."""

    perils = CONSUMER_PERILS

    def begin(self, number: int, messages: tuple[str, ...], event: str, answered: Callable[[Answer], object]) -> str:
        """Begin an invocation on an event, as JSON; return the name of the process that does it."""
        invocation = self._invocation(number, answered, messages)
        self._start(invocation, event)
        return invocation.instance.process.name


class Queue:
    """Hands what buses accept to the `function` of the consumer, in as many instances as may be at work at once.

    `expire` is called before a message comes again long after it was acknowledged: by then TTL has been at work.
    """

    def __init__(
        self, network: Network, function: ConsumerFunction, *, instances: int, expire: Callable[[], object]
    ) -> None:
        self._network = network
        self._kernel = network.kernel
        self._chance = network.chance.of(CONSUMER)
        self._function = function
        self._free = instances
        self._expire = expire
        self._hidden_ms = self._chance.whole(*_HIDDEN_MS, "hidden")
        self._window_ms = self._chance.whole(*_WINDOW_MS, "window")
        self._gathers = False
        self._to_be_had: list[_Message] = []
        self._accepted = 0
        self._messages = 0
        self._invocations = 0
        network.ledger.note(Subscribed(self._kernel.now_ms))

    def accept(self, event: str, entry: Mapping[str, Any]) -> None:
        """Take an event that a bus accepted just now; `entry` is what PutEvents was given."""
        self._accepted += 1
        body = _body(entry, f"{self._accepted:08x}-0000-4000-8000-000000000000", self._kernel.now_ms)
        for _ in range(1 + (self._chance.unit("twice", self._accepted) < _TWICE)):
            self._messages += 1
            message = _Message(f"m{self._messages}", event, body, self._kernel.now_ms)
            wait_ms = self._chance.whole(*_ON_ITS_WAY_MS, message.name, "on its way")
            late = self._network.faults.take("message_late", CONSUMER)
            self._promise(message, wait_ms + (0 if late is None else late.amount_ms))

    def _promise(self, message: _Message, wait_ms: int, *, again: bool = False) -> None:
        """Let a message be had after a time."""
        now_ms = self._kernel.now_ms
        self._network.ledger.note(Queued(now_ms, (message.event,), message.name, again))
        self._kernel.call_at(now_ms + wait_ms, partial(self._show, message, message.received))

    def _show(self, message: _Message, received: int) -> None:
        """Let a message be had now, unless it is, is gone, or was handed out since."""
        if self._kernel.now_ms < message.not_before_ms:
            return
        if not message.gone and message.received == received and message not in self._to_be_had:
            if message.not_before_ms:
                self._expire()
            self._to_be_had.append(message)
            if not self._gathers:
                self._gathers = True
                self._kernel.call_at(self._kernel.now_ms + self._window_ms, self._gathered)

    def _gathered(self) -> None:
        self._gathers = False
        self._hand_out()

    def _hand_out(self) -> None:
        """Hand messages to those instances that are free, side by side."""
        while self._free and self._to_be_had:
            self._invocations += 1
            most = min(self._chance.whole(1, _MOST, "how many", self._invocations), len(self._to_be_had))
            self._deliver([self._one(place) for place in range(most)], -self._invocations)

    def _one(self, place: int) -> _Message:
        """Take one of the messages, in no order."""
        chosen = self._chance.whole(0, len(self._to_be_had) - 1, "which", self._invocations, place)
        return self._to_be_had.pop(chosen)

    def _deliver(self, messages: Sequence[_Message], number: int) -> None:
        now_ms = self._kernel.now_ms
        self._free -= 1
        for message in messages:
            message.received += 1
            self._kernel.call_at(now_ms + self._hidden_ms, partial(self._show, message, message.received))
        handed = [(message, message.received) for message in messages]
        names = tuple(message.name for message in messages)
        text = json.dumps({"Records": [_record(message, now_ms) for message in messages]})
        process = self._function.begin(number, names, text, partial(self._answered, number, handed))
        events = tuple(message.event for message in messages)
        self._network.ledger.note(Delivered(now_ms, events, number, process, names))

    def _answered(self, number: int, handed: Sequence[tuple[_Message, int]], answer: Answer) -> None:
        """Acknowledge what an answer does not name; what it names comes again by itself."""
        self._free += 1
        if isinstance(answer, Responded):
            said = reported_failures(answer.payload, {message.name for message, _ in handed})
            for message, receipt in handed:
                if not said.whole and message.name not in said.failed and message.received == receipt:
                    self._acknowledge(message, number)
        if not self._gathers:
            self._hand_out()

    def _acknowledge(self, message: _Message, number: int) -> None:
        """Take a message off the queue. It may have been to be had again by now."""
        now_ms = self._kernel.now_ms
        self._network.ledger.note(Acknowledged(now_ms, (message.event,), number, message.name))
        if message in self._to_be_had:
            self._to_be_had.remove(message)
        again = self._network.faults.take("message_again", CONSUMER, invocation=number)
        if again is not None:
            wait_ms = self._chance.whole(*_AGAIN_MS, message.name, message.received, "again")
            message.not_before_ms = now_ms + again.amount_ms if again.amount_ms else 0
            self._promise(message, wait_ms + again.amount_ms, again=True)
        else:
            message.gone = True


def _body(entry: Mapping[str, Any], acceptance: str, now_ms: int) -> str:
    """Return the object that EventBridge sends to a target, as text; `acceptance` is its own id [EBG]."""
    at = datetime.fromtimestamp((START_MS + now_ms) // 1000, timezone.utc)
    outer = {
        "version": "0",
        "id": acceptance,
        "detail-type": entry["DetailType"],
        "source": entry["Source"],
        "account": "000000000000",
        "time": rfc3339(at),
        "region": REGION,
        "resources": list(entry.get("Resources", ())),
    }
    return f'{json.dumps(outer)[:-1]}, "detail": {entry["Detail"]}}}'


def _record(message: _Message, now_ms: int) -> dict[str, Any]:
    """Return a message as it is handed to a function [LDG]."""
    received = {
        "MessageId": message.name,
        "ReceiptHandle": f"{message.name}/{message.received}",
        "Body": message.body,
        "MD5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "Attributes": {
            "ApproximateReceiveCount": str(message.received),
            "ApproximateFirstReceiveTimestamp": str(START_MS + now_ms),
            "SenderId": CONSUMER,
            "SentTimestamp": str(START_MS + message.sent_ms),
        },
    }
    return lambda_record(received, _ARN, REGION)
