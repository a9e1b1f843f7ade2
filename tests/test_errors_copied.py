"""Errors go from process to process as they are, as a pool of processes hands them over."""

from __future__ import annotations

import copy
import pickle

import pytest

from dynamodb_outbox import errors
from dynamodb_outbox.errors import (
    CommitUnknown,
    ConfigurationError,
    IdempotencyMismatch,
    InvalidEnvironment,
    InvalidEvent,
    OutboxError,
    PortTaken,
    Problem,
    TableUnavailable,
)

MADE: tuple[OutboxError, ...] = (
    CommitUnknown("token", "no answer"),
    ConfigurationError("is 5; text is needed.", argument="table", owner="Relay"),
    IdempotencyMismatch("pay-1"),
    InvalidEnvironment([Problem("OUTBOX_SINK", "is 5."), Problem(None, "nothing works.")]),
    InvalidEvent("time", "is None."),
    PortTaken(4566, "in use"),
    TableUnavailable("shop", "Throttled", retryable=True),
)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_copied_and_pickled_as_it_is(error: OutboxError) -> None:
    """With its text, its data and its class."""
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 -- our own
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_none_has_a_way_of_its_own() -> None:
    """One way for all: whoever makes a new error need not think of it."""
    kinds = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)]
    made = [kind for kind in kinds if issubclass(kind, OutboxError)]
    assert len(made) > 20
    assert {kind.__reduce__ for kind in made} == {OutboxError.__reduce__}
