"""What AWS allows of a name, an ARN or a function's variables: what it refuses is refused before anything is deployed.

A stack that fails while it is made is rolled back, minutes later, with an error about a resource; here the error is
about the argument. What can only be known in an account, such as whether a bucket is there, is not asked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import has_utf8_form, shown
from dynamodb_outbox.core.limits import (
    BUCKET_NAME,
    ENVIRONMENT_BYTES,
    ENVIRONMENT_NAME,
    ENVIRONMENT_RESERVED,
    NOT_GIVEN_UP_TO,
    PYTHON_RUNTIMES,
    QUEUE_NAME_LENGTH,
    TOPIC_NAME_LENGTH,
)
from dynamodb_outbox.sinks.arns import arn_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.sinks.arns import Arn

__all__ = [
    "check_environment",
    "check_name_of_bus",
    "check_on_failure",
    "check_runtime",
    "check_topic",
    "check_variable",
]

_VARIABLE = re.compile(ENVIRONMENT_NAME, re.ASCII)
_TOPIC = re.compile(rf"(?=.{{1,{TOPIC_NAME_LENGTH}}}\Z)[A-Za-z0-9_-]+(?:\.fifo)?", re.ASCII)
_QUEUE = re.compile(rf"(?=.{{1,{QUEUE_NAME_LENGTH}}}\Z)[A-Za-z0-9_-]+(?:\.fifo)?", re.ASCII)
_GIVEN_UP_TO = {"s3": re.compile(BUCKET_NAME, re.ASCII), "sqs": _QUEUE, "sns": _TOPIC}


def check_name_of_bus(name: str, refuse: Refusal) -> None:
    """Refuse a name that no bus can be made with, though there may be such a bus."""
    if name == "default":
        raise refuse("would make the bus 'default', which every account has.")
    if name.startswith("aws."):
        raise refuse(f"would make the bus {shown(name)}; names that begin with 'aws.' are those of AWS's own.")


def check_runtime(value: str, refuse: Refusal) -> None:
    """Refuse a runtime of Lambda's in which this library does not run."""
    if value not in PYTHON_RUNTIMES:
        raise refuse(f"is {shown(value)}; one of {', '.join(PYTHON_RUNTIMES)} is needed.")


def check_topic(arn: Arn, refuse: Refusal) -> None:
    """Refuse an ARN of SNS that is no topic's: a subscription's has one more part."""
    if not (arn.region and arn.account and _TOPIC.fullmatch(arn.resource)):
        said = f"arn:{arn.partition}:sns:{arn.region}:{arn.account}:{arn.resource}"
        raise refuse(f"is {shown(said)}; the ARN of a topic is needed, as arn:aws:sns:<Region>:<account>:<name>.")


def check_on_failure(value: str, refuse: Refusal) -> None:
    """Refuse what no mapping of a stream stores at. A bucket's ARN has its name alone; no queue or topic is FIFO."""
    found = arn_of(value)
    pattern = None if found is None else _GIVEN_UP_TO.get(found.service)
    if found is None or pattern is None:
        raise refuse(f"is {shown(value)}; the ARN of an S3 bucket, an SQS queue or an SNS topic is needed.")
    place = [found.region, found.account]
    is_right = place == ["", ""] if found.service == "s3" else all(place)
    if not (is_right and pattern.fullmatch(found.resource)):
        raise refuse(
            f"is {shown(value)}; the ARN of a bucket is needed, as arn:aws:s3:::<name>, without a key behind it, or "
            "that of a queue or topic, as arn:aws:sqs:<Region>:<account>:<name>."
        )
    if found.service != "s3" and found.resource.endswith(NOT_GIVEN_UP_TO):
        raise refuse(f"is {shown(value)}, which is FIFO; Lambda hands what is given up to a standard queue or topic.")


def check_variable(name: object, value: object, refuse: Refusal) -> None:
    """Refuse a variable that Lambda does not take, or sets itself."""
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise refuse(f"names {shown(name)}; two letters, digits and '_' are needed at least, a letter first.")
    if name in ENVIRONMENT_RESERVED:
        raise refuse(f"sets {name}, which Lambda sets itself.")
    if not isinstance(value, str) or not has_utf8_form(value):
        raise refuse(f"sets {name} to {shown(value)}; text is needed.")


def check_environment(variables: Mapping[str, str], refuse: Refusal) -> None:
    """Refuse more than Lambda takes: it measures the variables of a function as a JSON object."""
    size = len(json.dumps(variables, separators=(",", ":"), ensure_ascii=False).encode("utf-8"))
    if size > ENVIRONMENT_BYTES:
        raise refuse(
            f"comes to {size:,} bytes, with the destinations and the layout; Lambda takes {ENVIRONMENT_BYTES:,} of "
            "all variables together."
        )
