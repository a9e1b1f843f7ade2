"""Settings that are the same in each run, chosen by whoever calls `simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import Scenario, consumer_handler, generate, relay_handler, run, simulate
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 3}, "seeds is 3; several whole numbers are needed"),
        ({"seeds": "12"}, "seeds is '12'; several whole numbers are needed"),
        ({"seeds": []}, "seeds is empty: nothing would be run"),
        ({"seeds": range(-5)}, "seeds is empty"),
        ({"seeds": ["a"]}, "seeds has 'a', and a seed is a whole number"),
        ({"seeds": [1.5]}, r"seeds has 1\.5"),
        ({"seeds": [True]}, "seeds has True"),
        ({"processes": 1.5}, r"processes is 1\.5; a whole number from 1 "),
        ({"destinations": "2"}, "destinations is '2'; a whole number from 1 to 2"),
        ({"destinations": True}, "destinations is True"),
        ({"faults": None}, "faults is None; several names are needed"),
        ({"faults": "crash"}, r"faults is 'crash'; several names are needed, as in \['crash'\]"),
        ({"faults": [1]}, "faults: a name is 1; text"),
        ({"without": "order_per_key"}, "without is 'order_per_key'; several names"),
        ({"settings": [("shards", 1)]}, r"settings is \[.*\]; a dict is needed"),
        ({"settings": {1: 2}}, "settings: a name is 1; text"),
        ({"settings": {"parallelization": 2, "parallelization_factor": 3}}, "parallelization is given twice"),
        ({"poison": "no"}, "poison is 'no'; True or False is needed"),
        ({"ordered": 1}, "ordered is 1; True or False"),
        ({"foreign": None}, "foreign is None; True or False"),
        ({"operator": "yes"}, "operator is 'yes'; True or False"),
        ({"stop_at_first": 0}, "stop_at_first is 0; True or False"),
        ({"shrink_runs": -1}, "shrink_runs is -1; a whole number from 0"),
        ({"faults": ["consumer_crash"]}, r"none can strike; that takes a consumer, consumer=\.\.\."),
        ({"faults": ["recovery_crash"]}, r"none can strike; that takes a sweeper, sweeper=\.\.\., or operator=True"),
        ({"faults": ["replicated"], "foreign": False}, "none can strike; that takes foreign=True"),
        (
            {"faults": ["consumer_crash"], "consumer": consumer_handler, "settings": {"consumers": 0}},
            "none can strike; that takes a consumer",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    """By their names, and before anything is run: what is run in silence, or not at all, would be a green light."""
    with pytest.raises(ConfigurationError, match=words):
        simulate(relay_handler, **{"seeds": [1], **options})


def test_faults_of_somebody_who_may_be_there_are_no_mistake() -> None:
    """Nor are those of nobody beside others, or none at all."""
    none: list[str] = []
    for options in ({"faults": none}, {"faults": ["consumer_crash", "crash"]}, {"settings": None}):
        simulate(relay_handler, seeds=[1], **options).check()
    for kind, more in (("recovery_crash", {"operator": True}), ("consumer_crash", {"consumer": consumer_handler})):
        simulate(relay_handler, seeds=[1], faults=[kind], **more).check()
