"""What an argument of a sink must be, and the client that a sink makes when none is given.

One attempt a request: the relay retries by itself, so that nothing is hidden from it, and its deadline counts on the
time-out. No validation of parameters by botocore: `prepare` has looked at all that is in an entry, by stricter rules
than the service's model has, and to look again takes a sixth of a request's time (decision 0027).

The names in errors are those of the constructor that was called.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.codec.envelope import ENVELOPES
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.envelope import Envelope

__all__ = ["envelope_of", "function_of", "limits_of", "own_config"]

_LONGEST_CONNECT_S = 1.0


def envelope_of(sink: str, envelope: str | Envelope) -> Envelope:
    """Return the function that turns an event into text. Raises ConfigurationError for what is none."""
    if envelope not in ENVELOPES if isinstance(envelope, str) else not callable(envelope):
        raise ConfigurationError(
            f"{sink}(envelope={shown(envelope)}): one of {sorted(ENVELOPES)}, or a function from Event to text."
        )
    return ENVELOPES[envelope] if isinstance(envelope, str) else envelope


def function_of(sink: str, argument: str, function: Any, of_what: str) -> None:
    """Raise ConfigurationError when an argument that may be left out is there and no function."""
    if function is not None and not callable(function):
        raise ConfigurationError(f"{sink}({argument}={shown(function)}): a function from Event to {of_what}.")


def limits_of(sink: str, limits: Any) -> SinkLimits:
    """Return what one request takes. Raises ConfigurationError for limits by which nothing could be sent."""
    if not isinstance(limits, SinkLimits):
        raise ConfigurationError(f"{sink}(limits={shown(limits)}): SinkLimits are needed.")
    if limits.entries < 1 or not 0 < limits.entry_bytes <= limits.request_bytes:
        raise ConfigurationError(
            f"{sink}(limits={shown(limits)}): at least one entry, and a request that takes its largest entry."
        )
    return limits


def own_config(sink: str, timeout_s: Any) -> Config:
    """Return the settings of a sink's own client, with which no request takes longer than `timeout_s` seconds.

    Raises ConfigurationError when that is not a number of seconds more than 0.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < math.inf:
        raise ConfigurationError(f"{sink}(timeout_s={shown(timeout_s)}): a number of seconds, more than 0.")
    connect_s = min(_LONGEST_CONNECT_S, timeout_s / 3)
    return Config(
        connect_timeout=connect_s,
        read_timeout=timeout_s - connect_s,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=64,
        parameter_validation=False,
        tcp_keepalive=True,
    )
