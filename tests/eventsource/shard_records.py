"""Stream records, answers and machines, as short as tests like them."""

from __future__ import annotations

from typing import Any

from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded
from dynamodb_outbox.core.eventsource.commands import Command, Discard, Invoke, Tried, WaitUntil
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.eventsource.lanes import lane_of
from dynamodb_outbox.core.eventsource.machine import ShardMachine
from dynamodb_outbox.core.eventsource.records import StreamRecord, stream_record

NOW = 1_800_000_000_000
SUCCESS = Responded(None)
ERROR = FunctionFailed("ValueError", "no")
WANTED = compile_filters({"eventName": ["INSERT"]})


def record(
    number: int, *, wanted: bool = True, at_ms: int = NOW, size: int | None = None, item: str = "a"
) -> StreamRecord:
    """Return a stream record of an item; those not wanted are filtered out by WANTED."""
    made = stream_record(
        {
            "eventID": f"event-{number}",
            "eventName": "INSERT" if wanted else "MODIFY",
            "dynamodb": {
                "Keys": {"pk": {"S": item}},
                "SequenceNumber": str(number),
                "ApproximateCreationDateTime": at_ms // 1000,
            },
        }
    )
    if size is not None:
        vars(made)["size"] = size  # instead of what it would come to
    return made


def records(*numbers: int) -> list[StreamRecord]:
    """Return records with these numbers."""
    return [record(number) for number in numbers]


def failed_at(*numbers: int) -> Responded:
    """Return an answer that names these."""
    return Responded({"batchItemFailures": [{"itemIdentifier": str(number)} for number in numbers]})


def machine(*, checkpoint: str | None = None, tried: tuple[Tried, ...] = (), **settings: Any) -> ShardMachine:
    """Return a machine that reads partial answers and pauses exactly 100 ms, 200 ms, … (with jitter 1)."""
    config = MappingConfig(**{"report_batch_item_failures": True} | settings)
    return ShardMachine(config, checkpoint=checkpoint, tried=tried)


def numbers(command: Command) -> list[int]:
    """Return the numbers that a command hands over or gives up."""
    assert isinstance(command, (Invoke, Discard))
    return [one.number for one in command.records]


def fail(shard: ShardMachine, answer: Answer, now_ms: int = NOW, lane: int = 0) -> list[Command]:
    """Answer and let the pause go by: what the machine does before and after it."""
    commands = shard.answered(answer, now_ms, 1.0, lane)
    waits = [command for command in commands if isinstance(command, WaitUntil)]
    rest = [command for command in commands if not isinstance(command, WaitUntil)]
    return rest + (shard.tick(waits[0].at_ms) if waits else [])


def item_in(lane: int, lanes: int) -> str:
    """Return the name of an item whose records go to this lane."""
    names = map(str, range(1_000))
    return next(name for name in names if lane_of(record(1, item=name), lanes) == lane)
