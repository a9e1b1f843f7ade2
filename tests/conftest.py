"""What all tests share: the engine, started once, and a world of its own for each test.

Where the packages of the extra `[local]` are missing, tests that need the engine are skipped, saying so; in CI (the
variable CI is set) they fail: a check that was left out there would look like one that passed.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.local.engine import Engine, EngineMissing, check_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Account:
    """The engine as one account sees it: nothing that another test made is here."""

    engine: Engine
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
        if environment.get("CI", "").lower() in ("", "0", "false"):
            pytest.skip(str(missing))
        pytest.fail(f"in CI no test may be left out: {missing}", pytrace=False)


@pytest.fixture(scope="session")
def engine_extra() -> None:
    """For tests that start an engine of their own."""
    require_engine_extra(os.environ)


@pytest.fixture(scope="session")
def running_engine(engine_extra: None) -> Iterator[Engine]:  # noqa: ARG001 -- it runs first
    """One engine for the whole run."""
    with Engine() as engine:
        yield engine


@pytest.fixture
def engine(running_engine: Engine) -> Account:
    """Return the engine under an account number that no other test has (`.url`, `.account`, `.client(service)`)."""
    running_engine.check()
    # Not from `random`: its seed is the same for every test.
    return Account(running_engine, f"{secrets.randbelow(10**12):012d}")
