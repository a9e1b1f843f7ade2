"""Whether an alarm can start by what it compares its metric with.

When it should is its owner's matter; one that looks the wrong way, or beyond what its metric can come to, looks at
nothing. An alarm on what an expression makes of its metrics, or on a band that CloudWatch learns, is taken at its word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.core.metrics import OLDEST_PENDING
from dynamodb_outbox.doctor.inventory import Seen, Unseen

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.system import Alarm
    from dynamodb_outbox.infra.resources import Alarm as Wanted

__all__ = ["never_starts"]

_MOST = {"IteratorAge": STREAM_RETENTION_MS, OLDEST_PENDING: STREAM_RETENTION_MS}
"""What a metric cannot pass, or not before it is too late: by then the stream has forgotten the record."""
_MOST_COUNTED = 10**6
"""No relay fails, and no mapping gives up, so often within a period."""


def never_starts(wanted: Wanted, alarm: Alarm) -> Seen[str | None]:
    """Return why an alarm on the metric of `wanted` never starts, None when it can."""
    comparison, threshold, missing = alarm.comparison, alarm.threshold, alarm.missing
    for each in (comparison, threshold, missing):
        if isinstance(each, Unseen):
            return each
    if alarm.computed or not isinstance(comparison, str) or not isinstance(threshold, float):
        return None
    if wanted.missing == "breaching" and missing != "breaching":
        return f"what it counts has no values when there is nothing, and TreatMissingData is {missing or 'missing'}"
    upward = wanted.comparison.startswith("Greater")
    if comparison.startswith("Greater") is not upward or _is_out_of_reach(wanted, comparison, threshold):
        return f"{comparison} {threshold:,.10g}"
    return None


def _is_out_of_reach(wanted: Wanted, comparison: str, threshold: float) -> bool:
    if comparison.startswith("Greater"):
        return threshold >= _MOST.get(wanted.metrics[0].name, _MOST_COUNTED)
    return threshold < 0 or (threshold == 0 and comparison == "LessThanThreshold")
