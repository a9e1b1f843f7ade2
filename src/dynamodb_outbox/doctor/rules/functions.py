"""The functions: handler, variables, runtime, time-out, memory, concurrency, and what boto3 reads of variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import PYTHON_RUNTIMES, SDK_ATTEMPTS
from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, of_all_functions, of_functions
from dynamodb_outbox.doctor.functions import HANDLERS
from dynamodb_outbox.doctor.inventory import Unseen, name_in, seen
from dynamodb_outbox.environment.variables import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.inventory import Seen
    from dynamodb_outbox.doctor.system import Function, System

__all__ = ["CHECKS"]

_INVOKED = ("Active", "Pending", "Inactive")
"""States in which a function is invoked; one that is inactive wakes up by that."""
_OWN = "dynamodb_outbox."
_PYTHON = re.compile(r"python3\.(\d+)")
_OLDEST_MINOR = int(PYTHON_RUNTIMES[0].rpartition(".")[2])
_LEAST_MEMORY_MB = 256
_CONFIGURE = "aws lambda update-function-configuration --function-name <function> "


def _state(function: Function, _system: System) -> Iterator[Said]:
    state, reason = function.state
    if seen(state) not in (None, *_INVOKED):
        yield f"State is {state}{_because(reason)}"


def _update(function: Function, _system: System) -> Iterator[Said]:
    update, reason = function.update
    if seen(update) == "Failed":
        yield f"LastUpdateStatus is {update}{_because(reason)}"


def _because(reason: Seen[str | None]) -> str:
    return f": {reason}" if isinstance(reason, str) and reason else ""


def _handler(function: Function, system: System) -> Iterator[Said]:
    handler = seen(function.handler)
    if handler is not None and handler.startswith(_OWN) and not function.ready_made:
        does = "relay" if function in system.relays else "sweep"
        yield Evidence(f"Handler is {handler}", {"handler": HANDLERS[does]})


def _variables(function: Function, _system: System) -> Iterator[Said]:
    if function.ready_made:
        environment = seen(function.environment)
        yield from function.settings.problems
        for name, value in environment.items():
            if name.startswith(PREFIX):
                seen(value)


def _table(function: Function, system: System) -> Iterator[Said]:
    named, arn = seen(function.environment).get("OUTBOX_TABLE"), seen(system.table_arn)
    if function.ready_made and named is not None and name_in(seen(named)) not in ("", name_in(arn)):
        yield Evidence(f"OUTBOX_TABLE is {named}, and the stream is of {name_in(arn)}", {"table": name_in(arn)})


def _metrics(function: Function, _system: System) -> Iterator[Said]:
    """Alarms on this library's own metrics never start where nobody writes these."""
    if function.ready_made and seen(seen(function.environment).get("OUTBOX_METRICS")) != "emf":
        yield "OUTBOX_METRICS is not emf"


def _runtime(function: Function, _system: System) -> Iterator[Said]:
    runtime = seen(function.runtime)
    found = _PYTHON.fullmatch(runtime or "")
    own = function.ready_made and runtime is not None and found is None
    if own or (found is not None and int(found[1]) < _OLDEST_MINOR):
        yield f"Runtime is {runtime}"


def _timeout(function: Function, _system: System) -> Iterator[Said]:
    timeout, least = seen(function.timeout_s), function.settings.least_timeout_s
    if timeout < least:
        yield Evidence(f"Timeout is {timeout} s; requests that hang need {least} s", {"least": str(max(least, 30))})


def _memory(function: Function, _system: System) -> Iterator[Said]:
    if seen(function.memory_mb) < _LEAST_MEMORY_MB:
        yield f"MemorySize is {function.memory_mb} MB"


def _switched_off(function: Function, _system: System) -> Iterator[Said]:
    if seen(function.reserved) == 0:
        yield "ReservedConcurrentExecutions is 0"


def _reserved(function: Function, _system: System) -> Iterator[Said]:
    if seen(function.reserved) is None:
        yield Evidence("no ReservedConcurrentExecutions", {"reserved": "10"})


def _too_few(function: Function, system: System) -> Iterator[Said]:
    reserved = seen(function.reserved)
    factors = [seen(each.parallelization) for each in seen(system.mappings) if each.function == function.name]
    if reserved and factors and reserved < max(factors):
        yield Evidence(
            f"ReservedConcurrentExecutions is {reserved}, and ParallelizationFactor {max(factors)}",
            {"reserved": str(10 * max(factors))},
        )


def _retry_mode(function: Function, _system: System) -> Iterator[Said]:
    """Clients that this library makes have attempts and a mode of their own, which go before the environment."""
    if function.ready_made:
        return
    environment = seen(function.environment)
    found = {name: environment[name] for name in ("AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE") if name in environment}
    attempts, mode = found.get("AWS_MAX_ATTEMPTS"), found.get("AWS_RETRY_MODE")
    if isinstance(attempts, str) and attempts.isdigit() and int(attempts) > SDK_ATTEMPTS:
        yield f"AWS_MAX_ATTEMPTS is {attempts}"
    if mode in ("legacy", "adaptive"):
        yield f"AWS_RETRY_MODE is {mode}"
    for value in found.values():
        if isinstance(value, Unseen):
            seen(value)


CHECKS = (
    Check(
        id="function-state",
        severity=Severity.ERROR,
        asks="The function can be invoked (an account's alone)",
        about=of_all_functions,
        look=_state,
        consequence="It is never started.",
        command="aws lambda get-function-configuration --function-name <function>: correct what it tells, or "
        "deploy the function again",
        closes=("own",),
    ),
    Check(
        id="function-update",
        severity=Severity.WARNING,
        asks="Its last update was made (an account's alone)",
        about=of_all_functions,
        look=_update,
        consequence="It runs with the code and settings from before, whatever is shown of it.",
        command="aws lambda get-function-configuration --function-name <function>: correct what it tells, and "
        "deploy it again",
    ),
    Check(
        id="handler",
        severity=Severity.ERROR,
        asks="A handler of this library is one that it has, in its place",
        about=of_all_functions,
        look=_handler,
        consequence="The function fails to load, or does the other one's work.",
        command=_CONFIGURE + "--handler <handler>",
        snippet="Handler: <handler>",
        closes=("own",),
    ),
    Check(
        id="variables",
        severity=Severity.ERROR,
        asks="The OUTBOX_ variables are ones that the function takes",
        about=of_all_functions,
        look=_variables,
        consequence="Each invocation fails, and nothing is relayed.",
        command="correct the variable: docs/aws-lambda.md has all of them",
        closes=("own",),
    ),
    Check(
        id="table-name",
        severity=Severity.ERROR,
        asks="OUTBOX_TABLE names the table of the stream",
        about=of_functions,
        look=_table,
        consequence="Each invocation is refused, and nothing is relayed.",
        command="set OUTBOX_TABLE to <table>, or leave it out",
        snippet="OUTBOX_TABLE: !Ref <the table>",
        closes=("own",),
    ),
    Check(
        id="metrics",
        severity=Severity.WARNING,
        asks="The ready-made functions write metrics",
        about=of_all_functions,
        look=_metrics,
        consequence="Nothing but the log tells of parked events and of old ones: alarms on them never start.",
        command="set OUTBOX_METRICS to emf on <function>: docs/metrics.md",
        snippet="OUTBOX_METRICS: emf",
    ),
    Check(
        id="runtime",
        severity=Severity.ERROR,
        asks="The runtime is Python 3.10 or later",
        about=of_all_functions,
        look=_runtime,
        consequence="The library does not load.",
        command=_CONFIGURE + "--runtime python3.13",
        snippet="Runtime: python3.13",
        closes=("own",),
    ),
    Check(
        id="timeout",
        severity=Severity.WARNING,
        asks="The time-out leaves room for requests that hang",
        about=of_all_functions,
        look=_timeout,
        consequence="An invocation is cut off in the middle of a request: its events are published again.",
        command=_CONFIGURE + "--timeout <least>",
        snippet="Timeout: <least>",
    ),
    Check(
        id="memory",
        severity=Severity.NOTE,
        asks="There are 256 MB at least",
        about=of_all_functions,
        look=_memory,
        consequence="Processor time comes with memory: starting takes seconds, and a backlog much longer.",
        command=_CONFIGURE + "--memory-size 512",
        snippet="MemorySize: 512",
    ),
    Check(
        id="switched-off",
        severity=Severity.ERROR,
        asks="Reserved concurrency is not 0",
        about=of_all_functions,
        look=_switched_off,
        consequence="The function is never started.",
        command="aws lambda put-function-concurrency --function-name <function> --reserved-concurrent-executions 10",
        snippet="ReservedConcurrentExecutions: 10",
        closes=("own",),
    ),
    Check(
        id="not-reserved",
        severity=Severity.NOTE,
        asks="The relay's concurrency is reserved",
        about=of_functions,
        look=_reserved,
        consequence="Other functions may take what the account has and hold the relay up; and a table that splits into "
        "many shards has as many relays on the bus.",
        command="aws lambda put-function-concurrency --function-name <function> "
        "--reserved-concurrent-executions <reserved>",
        snippet="ReservedConcurrentExecutions: <reserved>",
    ),
    Check(
        id="reserved-few",
        severity=Severity.WARNING,
        asks="Reserved concurrency is not below ParallelizationFactor",
        about=of_functions,
        look=_too_few,
        consequence="One shard alone is throttled, and its records grow old.",
        command="aws lambda put-function-concurrency --function-name <function> "
        "--reserved-concurrent-executions <reserved>",
        snippet="ReservedConcurrentExecutions: <reserved>",
    ),
    Check(
        id="retry-mode",
        severity=Severity.WARNING,
        asks="Variables of boto3 do not make clients of your own repeat for long (a function of your own)",
        about=of_functions,
        look=_retry_mode,
        consequence="A client that is passed in repeats requests longer than the relay allows for: an invocation is "
        "cut off, and publishes twice.",
        command="take the variable out, and give clients Config(retries={'total_max_attempts': 1})",
    ),
)
