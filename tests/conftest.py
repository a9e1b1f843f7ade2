"""What all tests share: the engine, started once, and a world of its own for each test."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.local.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.fixture(scope="session")
def running_engine() -> Iterator[Engine]:
    """One engine for the whole run."""
    with Engine() as engine:
        yield engine


@pytest.fixture
def engine(running_engine: Engine) -> Account:
    """Return the engine under an account number that no other test has (`.url`, `.account`, `.client(service)`)."""
    running_engine.check()
    # Not from `random`: its seed is the same for every test.
    return Account(running_engine, f"{secrets.randbelow(10**12):012d}")
