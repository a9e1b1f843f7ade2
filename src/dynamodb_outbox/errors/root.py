"""The root of all errors, and errors of what was set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ConfigurationError",
    "InvalidEnvironment",
    "NoClient",
    "OutboxError",
    "PortTaken",
]


class OutboxError(Exception):
    """The root of every error of this library."""

    retryable: bool = False


class ConfigurationError(OutboxError):
    """An argument of a constructor, or a setting, cannot work as given."""


class NoClient(ConfigurationError):
    """No client of AWS can be made: no Region is configured, or a profile or an endpoint that is named cannot work."""


class InvalidEnvironment(ConfigurationError):
    """A ready-made handler cannot work with the environment variables that are set.

    `problems` has a text for each thing that is wrong, with the name of its variable.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        more_than_one = len(self.problems) > 1
        super().__init__(
            " ".join(f"({number}) {each}" if more_than_one else each for number, each in enumerate(self.problems, 1))
        )


class PortTaken(OutboxError):
    """The `port` cannot be listened on: another process has it, or this user may not; `reason` is the system's word."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        self.reason = reason
        super().__init__(
            f"port {port} cannot be used ({reason}): end the process that has it, or take another one. Port 0 is any "
            "that is free."
        )
