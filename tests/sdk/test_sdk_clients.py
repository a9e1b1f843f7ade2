"""Clients of our own: made once, late, and from a session of their own."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import CredentialRetrievalError

from dynamodb_outbox.errors import ConfigurationError, NoClient
from dynamodb_outbox.sdk.clients import OwnClient, table_config
from dynamodb_outbox.sinks.options import own_config

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


@pytest.mark.parametrize(("application", "named"), [("", ""), ("my\napp é", " app/my-app--")])
def test_its_requests_name_the_library_and_the_application(
    application: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the header that logs of AWS have; what no header may hold is a dash there."""
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", application)
    said: list[str] = []

    def answered(request: Any, **_: Any) -> AWSResponse:
        said.append(request.headers["User-Agent"].decode())
        return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda *_, **__: iter([b"{}"])))

    client = OwnClient("events", ONCE).get()
    client.meta.events.register("before-send.events.DescribeEventBus", answered)
    client.describe_event_bus(Name="orders")
    (agent,) = said
    ours, botocore, _ = agent.partition(" Botocore/")  # behind it, tools that are imported may name themselves
    assert re.fullmatch(rf"dynamodb-outbox/[0-9]\S* Boto3/{re.escape(boto3.__version__)}{re.escape(named)}", ours)
    assert botocore


@pytest.mark.parametrize("config", [table_config(1.0), own_config("Sns", 2.5)])
def test_what_the_relay_made_is_not_validated_again(config: Config) -> None:
    """Its entries and its moves are of the right types as they are made; to look again takes a sixth of the time."""
    assert config.parameter_validation is False


def test_a_client_that_is_passed_in_is_used_as_it_is() -> None:
    """With its own settings."""
    given = boto3.session.Session().client("events", config=Config(connect_timeout=5, read_timeout=5))
    own = OwnClient("events", ONCE, given)
    assert own.get() is given
    assert (own.attempts, own.call_ms) == (5, 50_000)


def test_no_region_is_a_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to set; once exactly that is set the same object works."""
    own = OwnClient("events", ONCE)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(NoClient) as caught:
        own.get()
    advised = re.search(r"set (\w+) \(in code", str(caught.value))
    assert advised
    monkeypatch.setenv(advised[1], "eu-west-1")
    assert own.get().meta.region_name == "eu-west-1"


def test_aws_region_counts_where_boto3_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What boto3 finds by itself comes first; an endpoint that is set makes no difference."""
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert OwnClient("events", ONCE).get().meta.region_name == "eu-central-1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    own = OwnClient("dynamodb", ONCE)
    assert own.get().meta.region_name == "us-east-2"
    assert own.place == "Region 'us-east-2', endpoint http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_PROFILE", "nobody"), ("AWS_DEFAULT_REGION", "eu west"), ("AWS_ENDPOINT_URL", "bus")]
)
def test_settings_of_which_no_client_can_be_made_are_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a matter of configuration: nothing was sent, and nothing will be until they are right."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"no client of 'dynamodb' can be made: .*{value}") as caught:
        OwnClient("dynamodb", ONCE).get()
    assert ("http:// is missing" in str(caught.value)) == (name == "AWS_ENDPOINT_URL")


def test_credentials_that_are_not_handed_out_are_no_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does may be back at the next call, which makes the client then."""
    really, lost = boto3.session.Session.client, [CredentialRetrievalError(provider="x", error_msg="down")]

    def client(self: Any, *arguments: Any, **options: Any) -> Any:
        if lost:
            raise lost.pop()
        return really(self, *arguments, **options)

    monkeypatch.setattr(boto3.session.Session, "client", client)
    own = OwnClient("dynamodb", ONCE)
    with pytest.raises(CredentialRetrievalError):
        own.get()
    assert own.get().meta.region_name == "eu-central-1"


def test_a_resource_is_refused_with_the_call_to_write() -> None:
    """It has a client, and is none; so has each of its tables."""
    resource = boto3.session.Session().resource("dynamodb")
    for given in (resource, resource.Table("shop")):
        with pytest.raises(ConfigurationError, match=r"takes boto3\.client\('dynamodb'\), not a boto3 resource"):
            OwnClient("dynamodb", ONCE, given)


def test_a_client_of_another_service_is_refused() -> None:
    """With the names of both."""
    with pytest.raises(ConfigurationError, match=r"'events'.*'dynamodb'"):
        OwnClient("dynamodb", ONCE, boto3.session.Session().client("events"))


@pytest.mark.parametrize("given", ["dynamodb", boto3.client, OwnClient, 5])
def test_what_is_no_client_is_refused(given: Any) -> None:
    """With what is needed."""
    with pytest.raises(ConfigurationError, match=r"boto3\.client\('events'\) is needed"):
        OwnClient("events", ONCE, given)


def test_a_stand_in_that_does_not_tell_its_service_is_taken() -> None:
    """A tracer's or a test's: only what is known can be wrong."""
    stand_in = SimpleNamespace(meta=SimpleNamespace(config=ONCE))
    assert OwnClient("dynamodb", ONCE, stand_in).get() is stand_in
