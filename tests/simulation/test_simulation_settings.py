"""Settings that are the same in each run, chosen by whoever calls `simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import Scenario, generate, relay_handler, run, simulate
from dynamodb_outbox.testing.simulation.facts import Invoked
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.testing.simulation import FunctionWorld


def test_settings_are_the_same_in_each_run() -> None:
    """They may be named as those of a mapping are; whatever is not given is drawn as before."""
    sizes: set[int] = set()

    def make_handler(_: FunctionWorld) -> Callable[[Any, Any], Any]:
        def handler(event: Any, _: Any) -> None:
            sizes.add(len(event["Records"]))

        return handler

    settings = {"batch_size": 1, "parallelization_factor": 4, "maximum_retry_attempts": 2, "ordering": "none"}
    (failure,) = simulate(make_handler, seeds=[4], settings=settings, shrink_runs=0).failures
    assert sizes == {1}
    chosen = failure.scenario.settings
    assert (chosen.batch_size, chosen.parallelization, chosen.retries, chosen.ordering) == (1, 4, 2, "none")
    assert chosen.shards == generate(4).settings.shards
    assert chosen.window_ms == generate(4).settings.window_ms


def test_a_setting_reaches_the_world() -> None:
    """An invocation has the time that is said."""
    scenario = Scenario(
        seed=1,
        settings=Settings(function_timeout_ms=7_000),
        writes=(Write(at_ms=10_000, writer="writer-1", change="c1", keys=("A",)),),
        faults=(),
        faults_until_ms=20_000,
    )
    facts = run(scenario, lambda _: lambda *_: None)
    assert {fact.until_ms - fact.at_ms for fact in facts if isinstance(fact, Invoked)} == {7_000}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batchsize": 1}, "there is no batchsize to be set; there are shards, order, "),
        ({"destinations": ("a",)}, "there is no destinations to be set"),
        ({"batch_size": 0}, r"batch_size=0\): 1 to 10,000"),
        ({"parallelization": 11}, r"parallelization_factor=11\): 1 to 10"),
        ({"batch_size": "1"}, "'batch_size': '1'}.: has to be of type int"),
        ({"bisect": 1}, "'bisect': 1}.: has to be of type bool"),
        ({"ordering": "yes"}, "'ordering': 'yes'}.: has to be 'key' or 'none'"),
        ({"function_timeout_ms": 0}, "'function_timeout_ms': 0}.: 1,000 to 900,000"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    """Before anything is run."""
    with pytest.raises(ConfigurationError, match=words):
        simulate(relay_handler, seeds=[1], settings=settings)
