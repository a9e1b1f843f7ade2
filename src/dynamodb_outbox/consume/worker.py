"""A consumer without Lambda: a loop over an SQS queue, for containers and for development.

It does what Lambda's mapping does, with the same handler: messages are received, given to the handler as Lambda gives
them, and deleted when the answer does not name them. Nothing is remembered: whoever dies at any point leaves messages
that come again.

    received -> held, and held on -> the handler -> deleted                 it was applied, or is a duplicate
                                                 -> let lapse               it failed: it comes again when its hold ends
             -> let go                                                      a stop was asked for before it was begun

A message is held for `hold_s`, and that is put off again and again for as long as it is worked on: a function may take
longer than any time-out that was thought of when the queue was made. Who is killed holds nothing on, and the messages
are somebody else's after `hold_s`. Of a FIFO queue the messages of a group are worked on in their order, by one thread;
SQS gives no others of that group meanwhile.

Asked to stop, it begins nothing more, and ends when what has been begun is done: within the longest of these, and the
wait for messages that is under way.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.system import SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.core.consuming.messages import units
from dynamodb_outbox.core.eventsource.answers import reported_failures
from dynamodb_outbox.core.limits import RECEIVE_MESSAGES
from dynamodb_outbox.core.timing import full_jitter_ms
from dynamodb_outbox.errors import ConfigurationError, QueueUnavailable
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.ports import Crew, Entropy, MessageQueue
    from dynamodb_outbox.process.stop import StopFlag

    Unit = Sequence[Mapping[str, Any]]

__all__ = ["QueueWorker"]

_log = logging.getLogger(__name__)

_WAIT_S = 10
"""Half of what SQS allows: so long a stop may have to wait."""
_FIRST_PAUSE_MS = 500
_LONGEST_PAUSE_MS = 20_000
_LOOK_MS = 200
"""How often a stop is looked for while all threads are at work."""


@dataclass
class QueueWorker:
    """Consumes `queue` with `handler` until `stop` is set.

    handler      takes Lambda's SQS event and a context, which is None here: `inbox.lambda_handler`
    concurrency  how many messages, or groups of a FIFO queue, are worked on at once, each in a thread
    hold_s       for how many seconds a message stays held by a worker that was killed, and a failed one stays away
    wait_s       how many seconds to wait for messages in one request

    Raises ConfigurationError for numbers that cannot work.
    """

    queue: MessageQueue
    handler: Callable[[dict[str, Any], object], Any]
    stop: StopFlag
    concurrency: int = 8
    hold_s: int = 60
    wait_s: int = _WAIT_S
    entropy: Entropy = field(default_factory=SystemEntropy)

    def __post_init__(self) -> None:
        for name, least, most in (("concurrency", 1, 1000), ("hold_s", 3, 43_200), ("wait_s", 0, 20)):
            if not least <= getattr(self, name) <= most:
                raise ConfigurationError(f"QueueWorker: {name} is {getattr(self, name)}; {least} to {most:,}.")
        self._crew: Crew = ThreadCrew(self.concurrency, "consume")
        self._done = self._crew.results()
        self._held = _Held(self.queue, self.hold_s, self.hold_s / 3)
        self._outages = 0

    def run(self) -> None:
        """Work until stopped, and drain. A queue that cannot be reached is tried again for ever.

        Raises QueueRefused when the queue refuses to be read, and ConfigurationError, after draining.
        """
        at_work = 0
        with self._held:
            try:
                while not self.stop.is_set():
                    at_work -= self._finished(at_work)
                    if at_work < self.concurrency:
                        at_work += self._begun(self._received(self.concurrency - at_work))
            finally:
                at_work -= self._finished(at_work)
                _log.info("stopping: %d still at work", at_work)
                while at_work:
                    self._done.get(None)
                    at_work -= 1
        _log.info("stopped")

    def _finished(self, at_work: int) -> int:
        """Return how many units have been finished since; wait a while for one where all threads are at work."""
        finished = 0
        wait_ms = _LOOK_MS if at_work >= self.concurrency else 0
        while finished < at_work and self._done.get(0 if finished else wait_ms) is not None:
            finished += 1
        return finished

    def _received(self, free: int) -> Sequence[Mapping[str, Any]]:
        try:
            records = self.queue.receive(min(free, RECEIVE_MESSAGES), self.wait_s, self.hold_s)
        except QueueUnavailable as error:
            if not self._outages:
                _log.warning("%s; trying again until it can", error)
            pause_ms = full_jitter_ms(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, self._outages, self.entropy.unit())
            self._outages += 1
            self.stop.wait(pause_ms / 1000)
            return ()
        self._outages = 0
        return records

    def _begun(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Have what was received worked on, or let it go where a stop has come meanwhile; return how many units."""
        if records and self.stop.is_set():
            _warn("let go", self.queue.hold(records, 0))
            return 0
        return sum(map(self._begin, units(records, fifo=self.queue.fifo)))

    def _begin(self, unit: Unit) -> bool:
        """Have a unit worked on; return whether it is."""
        self._held.add(unit)
        try:
            self._crew.start(lambda: self._worked(unit))
        except RuntimeError as error:  # the system has no thread to give
            self._held.remove(unit)
            _log.warning("%s cannot be worked on now, and will come again: %s", counted(len(unit), "message"), error)
            return False
        return True

    def _worked(self, unit: Unit) -> None:
        try:
            done = self._applied(unit)
            if done:
                _warn("deleted", self.queue.delete(done))
        finally:
            self._held.remove(unit)
            self._done.put(unit)

    def _applied(self, unit: Unit) -> Unit:
        """Return the messages of a unit that are done."""
        try:
            answer = self.handler({"Records": unit}, None)
        except BaseException:  # noqa: BLE001 - the user's own, in a thread of ours: also SystemExit ends nothing but this
            _log.exception("the handler raised: %s will come again", counted(len(unit), "message"))
            return []
        reported = reported_failures(answer, {record["messageId"] for record in unit})
        if reported.whole:
            _log.error("%s: %s will come again", reported.whole, counted(len(unit), "message"))
            return []
        return [record for record in unit if record["messageId"] not in reported.failed]


class _Held:
    """The messages that are worked on, held on for as long as that takes: each for `hold_s` anew, every `every_s`."""

    def __init__(self, queue: MessageQueue, hold_s: int, every_s: float) -> None:
        self._queue = queue
        self._every_s = every_s
        self._hold_s = hold_s
        self._units: dict[int, Unit] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="consume_hold", daemon=True)

    def __enter__(self) -> _Held:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def add(self, unit: Unit) -> None:
        """Hold these on from now on."""
        with self._lock:
            self._units[id(unit)] = unit

    def remove(self, unit: Unit) -> None:
        """Hold these on no longer."""
        with self._lock:
            del self._units[id(unit)]

    def _go_on(self) -> None:
        while not self._end.wait(self._every_s):
            with self._lock:
                now = [record for unit in self._units.values() for record in unit]
            for at in range(0, len(now), RECEIVE_MESSAGES):
                _warn("held on", self._queue.hold(now[at : at + RECEIVE_MESSAGES], self._hold_s))


def _warn(what: str, failures: Sequence[str]) -> None:
    """Log what could not be done for some messages: they come again, or are somebody else's for a while."""
    for failure in failures:
        _log.warning("a message was not %s, and may come again: %s", what, failure)
