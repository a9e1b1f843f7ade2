"""The settings of an event source mapping, with AWS's ranges and defaults, and the pause between two attempts."""

from __future__ import annotations

from dataclasses import dataclass

from dynamodb_outbox.core.eventsource.filters import NO_FILTERS, Filters
from dynamodb_outbox.core.limits import (
    BATCH_WINDOW_MS,
    INVOCATION_BYTES,
    INVOCATION_RECORDS,
    LEAST_RECORD_AGE_S,
    PARALLELIZATION,
    RECORD_AGE_S,
    RETRY_ATTEMPTS,
)
from dynamodb_outbox.errors import ConfigurationError

__all__ = ["EVENT_WRAPPER_BYTES", "FOREVER", "PAYLOAD_BYTES", "MappingConfig", "retry_pause_ms"]

FOREVER = -1
"""As a number of retries or an age: without bound."""

PAYLOAD_BYTES = INVOCATION_BYTES
EVENT_WRAPPER_BYTES = 64
"""What `{"Records":[…]}` and the commas may add to the records themselves, generously."""

_RANGES = {
    "batch_size": INVOCATION_RECORDS,
    "batching_window_ms": BATCH_WINDOW_MS,
    "parallelization_factor": PARALLELIZATION,
    "maximum_retry_attempts": RETRY_ATTEMPTS,
    "maximum_record_age_s": RECORD_AGE_S,
    "retry_base_ms": (1, 60_000),  # ours
    "retry_cap_ms": (1, 300_000),  # ours
}
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class MappingConfig:
    """One mapping. The defaults are AWS's, so that what is not said here behaves as it would there.

    batch_size                  most records of one invocation, 1 to 10,000; also at most 6 MB of JSON
    batching_window_ms          how long to gather records before a batch that is not full goes out, 0 to 300,000
    parallelization_factor      lanes of a shard, 1 to 10; the records of one item are always in one lane
    filters                     which records count; the others are passed over and still move the checkpoint
    maximum_retry_attempts      n retries are n+1 invocations; -1 for ever; 0 to 10,000
    maximum_record_age_s        older records are discarded; -1 never; 60 to 604,800
    bisect_on_error             split a batch that failed instead of retrying it whole
    report_batch_item_failures  read `batchItemFailures` from the answer (FunctionResponseTypes)
    retry_base_ms, retry_cap_ms the first and the longest pause between two attempts; AWS does not publish its own

    Raises ConfigurationError for a value out of range.
    """

    batch_size: int = 100
    batching_window_ms: int = 0
    parallelization_factor: int = 1
    filters: Filters = NO_FILTERS
    maximum_retry_attempts: int = FOREVER
    maximum_record_age_s: int = FOREVER
    bisect_on_error: bool = False
    report_batch_item_failures: bool = False
    retry_base_ms: int = 100
    retry_cap_ms: int = 10_000

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"MappingConfig({name}={value}): {low} to {high:,}.")
        if FOREVER < self.maximum_record_age_s < LEAST_RECORD_AGE_S:
            raise ConfigurationError(
                f"MappingConfig(maximum_record_age_s={self.maximum_record_age_s}): -1 (for ever), or at "
                f"least {LEAST_RECORD_AGE_S}."
            )
        if self.retry_base_ms > self.retry_cap_ms:
            raise ConfigurationError(
                f"MappingConfig(retry_base_ms={self.retry_base_ms}): more than retry_cap_ms={self.retry_cap_ms}."
            )


def retry_pause_ms(config: MappingConfig, failures: int, jitter: float) -> int:
    """Return the pause after the n-th failure in a row (n from 1): doubling up to the cap, its second half random.

    `jitter` is a number from 0 to 1.
    """
    doublings = min(failures - 1, _MAX_DOUBLINGS)
    ceiling = min(config.retry_cap_ms, config.retry_base_ms << doublings)
    return round(ceiling * (0.5 + 0.5 * jitter))
