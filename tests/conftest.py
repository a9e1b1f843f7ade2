"""What all tests share: the engine, started once, and a world of its own for each test.

Where the packages of the extra `[local]` are missing, tests that need the engine are skipped, saying so; in CI (the
variable CI is set) they fail: a check that was left out there would look like one that passed.
"""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import coverage
import pytest
from hypothesis import Phase, settings

from dynamodb_outbox.local.engine import Engine, EngineMissing, check_installed
from moto_engine import NOT_ON_MOTO, MotoEngine, moto_engine, moto_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

settings.register_profile("default", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("default")
# For `make mutate`, where each test runs a thousand times: fewer examples, and none is made smaller.
settings.register_profile(
    "mutation", max_examples=30, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)


@dataclass(frozen=True)
class Account:
    """The engine as one account sees it: nothing that another test made is here."""

    engine: Engine | MotoEngine
    account: str

    @property
    def url(self) -> str:
        """The engine's endpoint."""
        return self.engine.url

    def client(self, service: str, **options: Any) -> Any:
        """Return a boto3 client of `service` for this account."""
        return self.engine.client(service, account=self.account, **options)


def require_engine_extra(environment: Mapping[str, str]) -> None:
    """Skip the test when the engine is not installed, or fail it when `environment` is that of a CI run."""
    try:
        check_installed()
    except EngineMissing as missing:
        _leave_out(str(missing), environment)


def _leave_out(why: str, environment: Mapping[str, str]) -> None:
    if environment.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(why)
    pytest.fail(f"in CI no test may be left out: {why}", pytrace=False)


_LONGEST = "test_thousands_of_bad_days"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs an engine, so that `-m "not engine"` leaves it out; let quick tests notice a mutant first.

    The longest test begins first: at the end the others would have nothing to do beside it.
    """
    for item in items:
        if not {"engine", "engine_extra"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("engine")
    if config.getoption("--hypothesis-profile") == "mutation":
        items.sort(key=lambda item: hasattr(getattr(item, "obj", None), "hypothesis"))
    else:
        items.sort(key=lambda item: item.name != _LONGEST)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the writing side's tests on both engines, on the second one by hand: `make slow`."""
    if "engine" in metafunc.fixturenames and metafunc.definition.path.parent.name == "writing":
        metafunc.parametrize("engine", ["ministack", pytest.param("moto", marks=pytest.mark.slow)], indirect=True)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Put back how this library logs: handlers and the shell set its level, and other tests see what is logged."""
    library = logging.getLogger("dynamodb_outbox")
    level, handlers = library.level, list(library.handlers)
    yield
    library.setLevel(level)
    library.handlers[:] = handlers


@pytest.fixture
def uncovered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave a long test out of what coverage measures, its processes too: it takes half of the time then.

    For tests that go through the same code again and again, which shorter ones cover.
    """
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.stop()
    yield
    if measuring is not None:
        measuring.start()


@pytest.fixture(scope="session")
def engine_extra() -> None:
    """For tests that start an engine of their own."""
    require_engine_extra(os.environ)


@pytest.fixture(scope="session")
def running_engine(engine_extra: None) -> Iterator[Engine]:  # noqa: ARG001 -- it runs first
    """One engine for the whole run."""
    with Engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def running_moto() -> Iterator[MotoEngine]:
    """One server of the second engine for the whole run."""
    if not moto_installed():
        _leave_out("moto[server] is not installed: pip install -e '.[dev]'", os.environ)
    with moto_engine() as engine:
        yield engine


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Account:
    """Return an engine under an account number that no other test has (`.url`, `.account`, `.client(service)`)."""
    # Not from `random`: its seed is the same for every test.
    account = f"{secrets.randbelow(10**12):012d}"
    if getattr(request, "param", "ministack") == "ministack":
        running: Engine = request.getfixturevalue("running_engine")
        running.check()
        return Account(running, account)
    reason = NOT_ON_MOTO.get(request.function.__name__) or NOT_ON_MOTO.get(request.node.name)
    if reason is not None:
        pytest.skip(f"not on moto: {reason}")
    moto: MotoEngine = request.getfixturevalue("running_moto")
    moto.check()
    moto.reset()  # it knows one account only
    return Account(moto, account)
