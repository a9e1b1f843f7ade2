"""Clients of our own: made once, late, and from a session of their own."""

from __future__ import annotations

import threading
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient

ONCE = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2})


@pytest.fixture(autouse=True)
def _a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a Region, and credentials of no account."""
    for name in ("AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def test_it_is_made_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """On first use, and never from boto3's default session, which threads may not share."""
    made: list[Any] = []
    really = boto3.session.Session.client

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        made.append(self)
        return really(self, *arguments, **options)

    monkeypatch.setattr(boto3.session.Session, "client", counted)
    own = OwnClient("events", ONCE)
    assert made == []
    together = threading.Barrier(4)
    got: list[Any] = []

    def use() -> None:
        together.wait()
        got.append(own.get())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert made[0] is not boto3.DEFAULT_SESSION
    assert len({id(client) for client in got}) == 1
    assert got[0].meta.region_name == "eu-central-1"


def test_its_settings_are_known_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are the same afterwards: the environment does not change what we ask for."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    own = OwnClient("dynamodb", ONCE)
    assert (own.attempts, own.call_ms) == (2, 6000)
    assert OwnClient("dynamodb", ONCE, own.get()).call_ms == 6000


def test_a_client_that_is_passed_in_is_used_as_it_is() -> None:
    """With its own settings."""
    given = boto3.session.Session().client("events", config=Config(connect_timeout=5, read_timeout=5))
    own = OwnClient("events", ONCE, given)
    assert own.get() is given
    assert (own.attempts, own.call_ms) == (5, 50_000)


def test_no_region_is_a_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to set; once it is set the same object works."""
    own = OwnClient("events", ONCE)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        own.get()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert own.get().meta.region_name == "eu-west-1"
