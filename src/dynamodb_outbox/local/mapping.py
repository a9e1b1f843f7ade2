"""A deployed event source mapping, run on this machine: the engine's settings and functions, Lambda's rules.

What the mapping says is asked of the engine (GetEventSourceMapping), the function is the deployed one (Invoke), and
what is between the two is the local event source: batches, filters, partial answers, retries, what is given up. So
code, handler, variables and time-out are those that were deployed, and the batches are as AWS would make them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded, Throttled
from dynamodb_outbox.core.eventsource.config import FOREVER, MappingConfig
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.eventsource.on_failure import Mapped
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.on_failure import FailureBucket
from dynamodb_outbox.sdk.errors import is_refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.eventsource.answers import Answer

__all__ = ["DeployedFunction", "config_of", "failure_bucket", "patience_with"]

_BUCKET = "arn:aws:s3:::"
_ANSWER_S = 10  # for the engine, beside the function's own time


@dataclass(frozen=True)
class DeployedFunction:
    """The function `name` of the engine behind `client`, a `lambda` client made with `patience_with` its time-out."""

    client: Any
    name: str

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Run the function on `event` (JSON) and return its answer, or why there is none.

        An engine that cannot be asked is a function that failed (`Local.NotInvoked`): the batch is tried again.
        """
        try:
            said = self.client.invoke(FunctionName=self.name, Payload=json.dumps(event, allow_nan=False))
            payload = json.loads(said["Payload"].read() or "null")
        except (BotoCoreError, ClientError, ValueError) as error:
            if is_refused(error, "TooManyRequestsException"):
                return Throttled()
            return FunctionFailed("Local.NotInvoked", str(error))
        if "FunctionError" not in said:
            return Responded(payload)
        told = payload if isinstance(payload, dict) else {}
        return FunctionFailed(str(told.get("errorType", said["FunctionError"])), str(told.get("errorMessage", payload)))


def patience_with(timeout_s: int) -> Config:
    """Return how long a client waits for a function that has `timeout_s`. It asks once: twice would run it twice."""
    return Config(read_timeout=timeout_s + _ANSWER_S, retries={"mode": "standard", "total_max_attempts": 1})


def config_of(mapping: Mapping[str, Any]) -> MappingConfig:
    """Return the settings of a stream's mapping, as GetEventSourceMapping tells them; Lambda's own, where it does not.

    Raises ConfigurationError and InvalidFilter for what Lambda would not take.
    """
    patterns = [each["Pattern"] for each in mapping.get("FilterCriteria", {}).get("Filters", ())]
    defaults = MappingConfig()
    return MappingConfig(
        batch_size=mapping.get("BatchSize", defaults.batch_size),
        batching_window_ms=mapping.get("MaximumBatchingWindowInSeconds", 0) * 1000,
        parallelization_factor=mapping.get("ParallelizationFactor", defaults.parallelization_factor),
        filters=compile_filters(*patterns),
        maximum_retry_attempts=mapping.get("MaximumRetryAttempts", FOREVER),
        maximum_record_age_s=mapping.get("MaximumRecordAgeInSeconds", FOREVER),
        bisect_on_error=mapping.get("BisectBatchOnFunctionError", False),
        report_batch_item_failures="ReportBatchItemFailures" in mapping.get("FunctionResponseTypes", ()),
    )


def failure_bucket(client: Any, mapping: Mapping[str, Any]) -> FailureBucket | None:
    """Return where a mapping's records go that are given up; None when it names no place. `client` is an `s3` client.

    Raises ConfigurationError for a queue or a topic.
    """
    arn = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
    if not arn:
        return None
    if not arn.startswith(_BUCKET):
        raise ConfigurationError(f"on-failure destination {arn}: only buckets are written to here.")
    mapped = Mapped(mapping["UUID"], mapping["FunctionArn"], mapping["EventSourceArn"])
    return FailureBucket(client, arn.removeprefix(_BUCKET), mapped)
