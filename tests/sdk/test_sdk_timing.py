"""How long a call of a client may take: what the settings say, held against what a real client does."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.timing import UNBOUNDED_MS, attempts_of, call_ms, full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Body:
    """The body of a canned HTTP response."""

    def stream(self) -> Iterator[bytes]:
        """Yield it at once."""
        yield b'{"__type":"InternalServerError","message":"down"}'


def make(service: str, config: Config | None) -> Any:
    """Return a client as a user would make it."""
    return boto3.session.Session().client(
        service, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x", config=config
    )


CALLS: dict[str, Callable[[Any], Any]] = {
    "dynamodb": lambda client: client.get_item(TableName="shop", Key={"pk": {"S": "A"}}),
    "events": lambda client: client.put_events(Entries=[{"Source": "s", "DetailType": "t", "Detail": "{}"}]),
}


def attempts_made(client: Any, service: str) -> int:
    """Count the requests of one call to a service that answers 500 each time; nothing leaves the process."""
    sent: list[str] = []

    def down(request: Any, **_: Any) -> AWSResponse:
        sent.append(request.url)
        return AWSResponse(request.url, 500, {}, Body())

    client.meta.events.register("before-send", down)
    with pytest.raises(ClientError):
        CALLS[service](client)
    return len(sent)


@pytest.fixture(autouse=True)
def _nothing_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own settings for retries out, and botocore's pauses too."""
    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", "AWS_PROFILE", "AWS_NEW_RETRIES_2026"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.parametrize(
    ("service", "config", "attempts"),
    [
        ("dynamodb", None, 10),
        ("events", None, 5),
        ("dynamodb", Config(retries={"mode": "standard"}), 3),
        ("events", Config(retries={"mode": "standard"}), 3),
        ("dynamodb", Config(retries={"mode": "adaptive"}), 3),
        ("events", Config(retries={"mode": "adaptive"}), 3),
        ("dynamodb", Config(retries={"total_max_attempts": 2}), 2),
        ("events", Config(retries={"total_max_attempts": 1, "mode": "standard"}), 1),
        ("dynamodb", Config(retries={"max_attempts": 1}), 2),
        ("events", Config(retries={"max_attempts": 0}), 1),
    ],
)
def test_attempts_are_those_that_a_real_client_makes(service: str, config: Config | None, attempts: int) -> None:
    """Counted under a client whose service is down, for each mode and way to set them."""
    client = make(service, config)
    assert attempts_of(client.meta.config, service) == attempts
    assert attempts_made(client, service) == attempts


@pytest.mark.parametrize("service", ["dynamodb", "events"])
def test_attempts_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    """The client's settings have them in the end."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    client = make(service, None)
    assert attempts_of(client.meta.config, service) == 4
    assert attempts_made(client, service) == 4


@pytest.mark.parametrize(
    ("service", "config", "longest_ms"),
    [
        ("dynamodb", None, 10 * 120_000),
        ("events", None, 5 * 120_000),
        ("events", Config(connect_timeout=1, read_timeout=2.5, retries={"mode": "standard"}), 3 * 3_500),
        ("dynamodb", Config(connect_timeout=1, read_timeout=2), 10 * 3_000),
        ("dynamodb", Config(connect_timeout=None, retries={"total_max_attempts": 1}), UNBOUNDED_MS),
        ("events", Config(read_timeout=None, retries={"total_max_attempts": 1}), UNBOUNDED_MS),
        ("events", Config(read_timeout=10_000_000), UNBOUNDED_MS),
    ],
)
def test_the_longest_call(service: str, config: Config | None, longest_ms: int) -> None:
    """All attempts, each with both time-outs; a time-out of None has no end."""
    assert call_ms(make(service, config).meta.config, service) == longest_ms


def test_settings_that_say_nothing_are_the_sdks_own() -> None:
    """As of a client that wraps another one and hides its settings."""
    assert call_ms(SimpleNamespace(), "events") == 5 * 120_000
    assert call_ms(SimpleNamespace(retries=None, connect_timeout=1, read_timeout=1), "dynamodb") == 20_000


@given(st.integers(1, 1000), st.integers(1, 100_000), st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_pause_stays_under_its_ceiling(base: int, cap: int, attempt: int, u: float) -> None:
    """The ceiling doubles with each attempt and ends at the cap; nothing is the least."""
    assert 0 <= full_jitter_ms(base, cap, attempt, u) <= min(cap, base * 2 ** min(attempt, 40))


@pytest.mark.parametrize(("attempt", "pause"), [(0, 25), (1, 50), (3, 200), (5, 500), (1000, 500)])
def test_a_pause_grows(attempt: int, pause: int) -> None:
    """Half of 50, 100, 400, and of the cap."""
    assert full_jitter_ms(50, 1000, attempt, 0.5) == pause
