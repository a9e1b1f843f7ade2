"""A simulated Lambda function: warm instances, each a process with a handler of its own, and what ends them.

An instance is made when one is needed, does one invocation at a time, and is used again; one that dies, hangs until its
time-out, or cannot be loaded is gone. An invocation goes on when whoever asked for it is dead. Event and answer pass
through JSON, as they do on their way to a function.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded, Throttled, reported_failures
from dynamodb_outbox.testing.simulation.facts import Answered, Ended, Invoked, Raised
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.kernel import Killed
from dynamodb_outbox.testing.simulation.process import FUNCTION_PERILS, Process
from dynamodb_outbox.testing.simulation.refusal import raised_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.eventsource.answers import Answer
    from dynamodb_outbox.core.eventsource.records import StreamRecord
    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.kernel import Kernel
    from dynamodb_outbox.testing.simulation.network import Network

    MakeHandler = Callable[[Process], Callable[[Any, Any], Any]]

__all__ = ["Context", "Function"]

_ANSWER = json.JSONEncoder(allow_nan=False)
_LOADING_MS = (40, 250)
_IDS = 1 << 48
_PASSING_MS = (1, 5)
"""How long an event, or an answer, is on its way between an event source and a function."""


@dataclass(frozen=True)
class Context:
    """The second argument of a Lambda function; names and types are Lambda's."""

    kernel: Kernel
    function_name: str
    aws_request_id: str
    until_ms: int
    memory_limit_in_mb: str = "128"
    function_version: str = "$LATEST"
    log_stream_name: str = "simulation"
    identity: None = None
    client_context: None = None

    @property
    def invoked_function_arn(self) -> str:
        """An ARN that names this function and no real account."""
        return f"arn:aws:lambda:eu-west-1:000000000000:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        """The log group this function would have."""
        return f"/aws/lambda/{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the process is ended."""
        return max(0, self.until_ms - self.kernel.now_ms)


class _Instance:
    """A process with a handler, once it is loaded."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.handler: Callable[[Any, Any], Any] | None = None


class Function:
    """The function of a destination. `make_handler` is called in each new instance, and returns its handler.

    instances    kept warm; when all are at work a further one is started
    timeout_ms   after which an invocation is ended, with its process
    keys         names of the key attributes, to tell the records of a batch apart

    `perils` are what may happen to its processes, `replaced` is the kind of fault that puts a new instance in the place
    of a warm one.
    """

    perils = FUNCTION_PERILS
    replaced = "cold_start"

    def __init__(
        self,
        network: Network,
        destination: str,
        make_handler: MakeHandler,
        *,
        instances: int = 1,
        timeout_ms: int = 20_000,
        keys: tuple[str, str] = ("pk", "sk"),
    ) -> None:
        self.destination = destination
        self.timeout_ms = timeout_ms
        self._network = network
        self._kernel = network.kernel
        self._chance = network.chance.of("function", destination)
        self._make_handler = make_handler
        self._most = instances
        self._keys = keys
        self._made = 0
        self._warm: list[_Instance] = []
        self._busy = 0

    def invoke(
        self, records: Sequence[StreamRecord], answered: Callable[[Answer], object], *, shard: str, lane: int = 0
    ) -> None:
        """Run the function on a batch of stream records, to its end; `answered` is called with its answer.

        `shard` and `lane` say, in the ledger, where the batch comes from.
        """
        now_ms = self._kernel.now_ms
        if self._network.faults.take("invoke_throttled", self.destination, met=Met(shard=shard)) is not None:
            self._kernel.call_at(now_ms + _PASSING_MS[1], partial(answered, Throttled()))
            return
        number = self._network.ledger.new_invocation()
        there_ms = self._chance.whole(*_PASSING_MS, number, "there")
        self._kernel.call_at(now_ms + there_ms, partial(self._begin, number, records, answered, shard, lane))

    def _begin(
        self,
        number: int,
        records: Sequence[StreamRecord],
        answered: Callable[[Answer], object],
        shard: str,
        lane: int,
    ) -> None:
        """Begin an invocation whose event has arrived."""
        batch = tuple([record.sequence_number for record in records])
        invocation = self._invocation(number, answered, batch)
        self._note_invoked(invocation, records, shard, lane)
        self._start(invocation, f'{{"Records":[{",".join([record.text for record in records])}]}}')

    def _invocation(
        self, number: int, answered: Callable[[Answer], object], batch: tuple[str, ...] = ()
    ) -> _Invocation:
        """Return a new invocation in an instance that is free."""
        instance = self._instance(number)
        until_ms = self._kernel.now_ms + self.timeout_ms

        def over(answer: Answer) -> None:
            self._over(instance)
            back_ms = self._chance.whole(*_PASSING_MS, number, "back")
            self._kernel.call_at(self._kernel.now_ms + back_ms, partial(answered, answer))

        return _Invocation(self._network, instance, number, until_ms, over, batch=batch)

    def _start(self, invocation: _Invocation, event: str) -> None:
        """Run an invocation on its event, as JSON, until its time-out."""
        process, context = invocation.instance.process, self._context(invocation)
        process.spawn(str(invocation.number), lambda: invocation.run(self._make_handler, event, context))
        self._kernel.call_at(invocation.until_ms, invocation.time_out)

    def _instance(self, number: int) -> _Instance:
        """Return an instance that is free: a warm one, or a new one, as chance has it while there may be more."""
        warm = self._warm
        chosen = self._chance.whole(0, max(1, self._most - self._busy) - 1, number, "instance")
        self._busy += 1
        if chosen < len(warm):
            instance = warm.pop(chosen)
            if self._network.faults.take(self.replaced, self.destination, invocation=number) is None:
                return instance
            instance.process.kill()
        return _Instance(self._new_process(number))

    def _new_process(self, number: int) -> Process:
        self._made += 1
        skew = self._network.faults.take("clock_skew", self.destination, invocation=number)
        return Process(
            self._kernel,
            f"{self.destination}#{self._made}",
            self._chance.seed,
            0 if skew is None else skew.amount_ms,
            owner=self.destination,
            perils=self.perils,
        )

    def _note_invoked(self, invocation: _Invocation, records: Sequence[StreamRecord], shard: str, lane: int) -> None:
        pk, sk = self._keys
        keys = [one.body["dynamodb"]["Keys"] for one in records if one.body["eventName"] == "INSERT"]
        self._network.ledger.note(
            Invoked(
                self._kernel.now_ms,
                self.destination,
                invocation.number,
                shard,
                lane,
                invocation.instance.process.name,
                invocation.batch,
                frozenset([(str(key[pk]["S"]), str(key[sk]["S"])) for key in keys]),
                invocation.until_ms,
            )
        )

    def _context(self, invocation: _Invocation) -> Context:
        request_id = f"00000000-0000-4000-8000-{self._chance.whole(0, _IDS - 1, invocation.number, 'id'):012x}"
        return Context(self._kernel, self.destination, request_id, invocation.until_ms)

    def _over(self, instance: _Instance) -> None:
        self._busy -= 1
        if instance.handler is None:
            instance.process.kill()
        if instance.process.alive:
            instance.process.when_killed = None
            self._warm.append(instance)


class _Invocation:
    """One invocation. It ends once: with an answer, an error, the death of its process, or its time-out."""

    def __init__(
        self,
        network: Network,
        instance: _Instance,
        number: int,
        until_ms: int,
        over: Callable[[Answer], None],
        *,
        batch: tuple[str, ...],
    ) -> None:
        self.instance = instance
        self.number = number
        self.batch = batch
        self.until_ms = until_ms
        self._network = network
        self._over = over
        self._ended = False
        self._dies_of = ""
        instance.process.invocation = number
        instance.process.boundaries = 0
        instance.process.when_killed = self._die

    def run(self, make_handler: MakeHandler, event: str, context: Context) -> None:
        """Do the invocation, on a strand of its process."""
        process = self.instance.process
        try:
            if self.instance.handler is None:
                self._network.kernel.sleep(self._network.chance.whole(*_LOADING_MS, process.name, "loading"))
                self.instance.handler = make_handler(process)
            self._network.boundary(process)
            answer = self.instance.handler(json.loads(event), context)
            self._network.boundary(process)
        except Killed:
            raise
        except Exception as error:  # noqa: BLE001 -- the handler may raise anything; Lambda reports it
            self._raised(type(error).__name__, str(error), raised_at(error))
            return
        except BaseException as error:  # noqa: BLE001 -- no Exception: the runtime does not survive it
            self._network.kernel.here()
            self._dies_of = _words(type(error).__name__, str(error), raised_at(error))
            process.kill()
            return
        try:
            text = _ANSWER.encode(answer)
        except (TypeError, ValueError, RecursionError) as error:
            self._raised("Runtime.MarshalError", f"the answer is not JSON: {error}")
            return
        payload = json.loads(text)
        said = reported_failures(payload, self.batch)
        failed = tuple(number for number in self.batch if number in said.failed)
        answered = Answered(self._network.kernel.now_ms, self.number, text, failed, said.whole)
        self._end(answered, Responded(payload))

    def time_out(self) -> None:
        """End the invocation, and its process, unless it has ended."""
        if not self._ended:
            ended = Ended(self._network.kernel.now_ms, self.number, "timeout")
            self._end(ended, FunctionFailed("Sandbox.Timedout", f"invocation {self.number} timed out"), dead=True)

    def _die(self) -> None:
        ended = Ended(self._network.kernel.now_ms, self.number, "crash", self._dies_of)
        self._end(ended, FunctionFailed("Runtime.ExitError", "Runtime exited without providing a reason"))

    def _raised(self, kind: str, message: str, place: str = "") -> None:
        self._network.kernel.here()
        words = _words(kind, message, place)
        self._end(Raised(self._network.kernel.now_ms, self.number, words), FunctionFailed(kind, message))

    def _end(self, fact: Fact, answer: Answer, *, dead: bool = False) -> None:
        if self._ended:
            return
        self._ended = True
        self._network.ledger.note(fact)
        if dead:
            self.instance.process.kill()
        self._over(answer)


def _words(kind: str, message: str, place: str) -> str:
    return kind + (f": {message}" if message else "") + (f" ({place})" if place else "")
