"""The root of all errors, and errors of what was set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ConfigurationError",
    "InvalidEnvironment",
    "NoClient",
    "OutboxError",
    "PortTaken",
    "Problem",
    "said_of",
]


class OutboxError(Exception):
    """The root of every error of this library."""

    retryable: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is copied and pickled: as it is, for a constructor takes what its text is made of."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[OutboxError], args: tuple[object, ...]) -> OutboxError:
    return kind.__new__(kind, *args)


def said_of(name: str, reason: str) -> str:
    """Return what is said of a name: a reason goes on after it, by ":" or "," at once, else as its next word."""
    return f"{name}{reason}" if reason.startswith((":", ",")) else f"{name} {reason}"


class ConfigurationError(OutboxError):
    """An argument of a constructor, or a setting, cannot work as given.

    Where one argument is to blame, `argument` is its name, `owner` the name of what was called (None for a variable of
    the environment), and `reason` goes on after the argument's name: "is 5; text that is not empty is needed.". Else
    `owner` and `argument` are None, and `reason` is the whole text.
    """

    def __init__(self, reason: str, *, argument: str | None = None, owner: str | None = None) -> None:
        self.owner = owner
        self.argument = argument
        self.reason = reason
        told = reason if argument is None else said_of(argument, reason)
        super().__init__(told if owner is None else f"{owner}: {told}")


class NoClient(ConfigurationError):
    """No client of AWS can be made: no Region is configured, or a profile or an endpoint that is named cannot work."""


class Problem(NamedTuple):
    """What is wrong with a `variable`: the `reason` goes on after its name; `str()` of it is both.

    Where no single variable is to blame (there is none of that name, or several do not go together), `variable` is None
    and `reason` the whole text.
    """

    variable: str | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.variable is None else said_of(self.variable, self.reason)


class InvalidEnvironment(ConfigurationError):
    """A ready-made handler cannot work with the environment variables that are set.

    `problems` has a pair of `variable` and `reason` for each thing that is wrong; its `str()` is the text.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        texts = [str(each) for each in self.problems]
        if len(texts) > 1:
            texts = [f"({number}) {each}" for number, each in enumerate(texts, 1)]
        super().__init__(" ".join(texts))


class PortTaken(OutboxError):
    """The `port` cannot be listened on: another process has it, or this user may not; `reason` is the system's word."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        self.reason = reason
        super().__init__(
            f"port {port} cannot be used ({reason}): end the process that has it, or take another one. Port 0 is any "
            "that is free."
        )
