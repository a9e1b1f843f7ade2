"""The embedded engine: started, used, stopped, and never left behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config

from conftest import require_engine_extra
from dynamodb_outbox.errors import ConfigurationError, OutboxError, PortTaken
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.engine import Engine, EngineDied, EngineError, EngineMissing, EngineNotReady, EngineRunning
from processes import gone

if TYPE_CHECKING:
    from conftest import Account


def engine_directory(pid: int) -> Path:
    """Return the private directory of an engine, from its command line."""
    arguments = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True)
    words = arguments.stdout.split()
    return Path(words[words.index("--remove") + 1])


@pytest.mark.usefixtures("engine_extra")
def test_it_starts_answers_and_leaves_nothing_behind() -> None:
    """Inside the block it answers on the port it names; afterwards process, port and directory are gone."""
    descriptors = len(list(Path("/dev/fd").iterdir()))
    with Engine() as engine:
        assert engine.alive()
        assert engine.pid is not None
        pid, directory = engine.pid, engine_directory(engine.pid)
        assert directory.is_dir()
        assert engine.url == f"http://127.0.0.1:{engine.port}"
        with contextlib.closing(engine.client("sqs")) as client:
            queue = client.create_queue(QueueName="q")["QueueUrl"]
        assert queue.startswith(engine.url)
    assert not engine.alive()
    assert engine.pid is None
    assert gone(pid)
    assert not directory.exists()
    engine.stop()
    assert len(list(Path("/dev/fd").iterdir())) <= descriptors
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", engine.port)) != 0


@pytest.mark.usefixtures("engine_extra")
def test_a_taken_port_is_known_at_once() -> None:
    """The error names the port, and nothing is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        engine = Engine(port)
        with pytest.raises(PortTaken, match=f"port {port}") as caught:
            engine.start()
    assert caught.value.port == port
    assert caught.value.reason == "Address already in use"
    assert engine.pid is None
    with pytest.raises(PortTaken):
        Engine(70_000).start()


@pytest.mark.usefixtures("engine_extra")
def test_a_wanted_port_is_used_and_may_be_used_again() -> None:
    """A fixed port serves one run after the other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(2):
        with Engine(port) as engine:
            assert engine.port == port


@pytest.mark.parametrize("package", ["ministack", "hypercorn"])
def test_a_missing_extra_names_the_command_that_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of [local] the error says which and how to get them."""
    find = importlib.util.find_spec

    def without(name: str) -> Any:
        return None if name == package else find(name)

    monkeypatch.setattr("importlib.util.find_spec", without)
    with pytest.raises(EngineMissing, match=r"pip install 'dynamodb-outbox\[local\]'") as caught:
        Engine().start()
    assert caught.value.package == package


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_cannot_start_says_what_it_wrote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error has the exit status and the end of the log; the directory is gone."""
    monkeypatch.setattr("dynamodb_outbox.local.engine._APPLICATION", "no_such_module:app")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EngineDied, match="ended with status") as caught:
        Engine().start()
    assert caught.value.exit_code > 0
    assert "no_such_module" in caught.value.tail
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_does_not_answer_in_time_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how long was waited, the process is gone, and trying again may help."""
    monkeypatch.setattr("dynamodb_outbox.local.engine._answers", lambda _probe: False)
    engine = Engine(ready_within_s=0.2)
    with pytest.raises(EngineNotReady, match=r"within 0\.2 s") as caught:
        engine.start()
    assert caught.value.retryable
    assert engine.pid is None


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_is_killed_is_noticed() -> None:
    """`check` tells by which signal it went."""
    with Engine() as engine:
        engine.check()
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while engine.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not engine.alive()
        with pytest.raises(EngineDied, match="signal 9") as caught:
            engine.check()
        assert caught.value.exit_code == -9
        assert isinstance(caught.value, EngineError)
        assert isinstance(caught.value, OutboxError)


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_runs_is_not_started_again() -> None:
    """The error says where it is; the engine runs on, and nothing is left behind at the end."""
    with Engine() as engine:
        pid, url = engine.pid, engine.url
        with pytest.raises(EngineRunning, match="runs already") as caught:
            engine.start()
        assert (caught.value.pid, caught.value.url) == (pid, url)
        assert (engine.pid, engine.url) == (pid, url)
        with contextlib.closing(engine.client("sqs")) as client:
            assert "QueueUrl" in client.create_queue(QueueName="q")
    assert pid is not None
    assert gone(pid)


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_died_can_be_started_again() -> None:
    """What the dead process left is removed first."""
    with Engine() as engine:
        assert engine.pid is not None
        pid, directory = engine.pid, engine_directory(engine.pid)
        os.kill(pid, signal.SIGKILL)
        while engine.alive():
            time.sleep(0.01)
        engine.start()
        assert engine.alive()
        assert engine.pid != pid
        assert not directory.exists()


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_ignores_sigterm_is_killed() -> None:
    """`stop` does not wait for ever."""
    engine = Engine()
    engine.start()
    assert engine.pid is not None
    pid = engine.pid
    os.kill(pid, signal.SIGSTOP)
    engine.stop(grace_s=0.2)
    assert gone(pid)


@pytest.mark.usefixtures("engine_extra")
def test_it_does_not_outlive_a_process_that_was_killed(tmp_path: Path) -> None:
    """After SIGKILL of the program that started it, the engine ends by itself; its directory and the orphans go."""
    orphan = tmp_path / "orphan of a program"
    (orphan / "inside").mkdir(parents=True)
    program = f"""
        import pathlib, time
        from dynamodb_outbox.local.engine import Engine
        engine = Engine(orphans=[pathlib.Path({str(orphan)!r})])
        engine.start()
        print(engine.pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        directory = engine_directory(pid)
        assert directory.is_dir()
        assert orphan.is_dir()
        parent.kill()
        parent.wait()
        assert gone(pid)
    assert not directory.exists()
    assert not orphan.exists()


@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_is_stopped_leaves_the_orphans_alone(tmp_path: Path) -> None:
    """They are the caller's as long as the caller lives."""
    with Engine(orphans=[tmp_path]) as engine:
        assert engine.alive()
    assert tmp_path.is_dir()


def test_accounts_do_not_see_each_other(engine: Account) -> None:
    """An access key of 12 digits is a world of its own."""
    mine = engine.client("sqs")
    other = engine.engine.client("sqs", account=f"{(int(engine.account) + 1) % 10**12:012d}")
    mine.create_queue(QueueName="q")
    assert not other.list_queues().get("QueueUrls")
    assert mine.list_queues()["QueueUrls"]


@pytest.mark.parametrize("account", ["", "1", "12345678901x", "1234567890123", "١٢٣٤٥٦٧٨٩٠١٢"])
def test_an_account_is_twelve_digits(account: str) -> None:
    """Anything else would silently land in the engine's default account."""
    with pytest.raises(ConfigurationError, match="12 digits"):
        local_client("sqs", "http://127.0.0.1:1", account=account)


def test_clients_ignore_the_machines_own_aws_set_up(
    engine: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a profile, nor an endpoint, nor a proxy, nor a broken configuration file reaches a local client."""
    broken = tmp_path / "config"
    broken.write_text("this is [no configuration\n")
    monkeypatch.setattr("dynamodb_outbox.local.client._session", None)
    for name, value in {
        "AWS_PROFILE": "no-such-profile",
        "AWS_CONFIG_FILE": str(broken),
        "AWS_SHARED_CREDENTIALS_FILE": str(broken),
        "AWS_ENDPOINT_URL": "http://192.0.2.1",
        "AWS_ENDPOINT_URL_SQS": "http://192.0.2.1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_RETRY_MODE": "nonsense",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_CA_BUNDLE": str(broken),
        "HTTP_PROXY": "http://192.0.2.1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    client = engine.client("sqs")
    client.create_queue(QueueName="q")
    assert client.meta.region_name == "us-east-1"
    assert client.meta.endpoint_url == engine.url


def test_settings_of_a_client_can_be_overridden(engine: Account) -> None:
    """A test of time-outs brings its own configuration; what it leaves out stays."""
    client = engine.client("sqs", config=Config(read_timeout=3))
    assert client.meta.config.read_timeout == 3
    assert client.meta.config.connect_timeout == 2


@pytest.mark.parametrize(
    ("environment", "outcome"),
    [
        ({}, pytest.skip.Exception),
        ({"CI": ""}, pytest.skip.Exception),
        ({"CI": "false"}, pytest.skip.Exception),
        ({"CI": "true"}, pytest.fail.Exception),
        ({"CI": "1"}, pytest.fail.Exception),
    ],
)
def test_without_the_extra_tests_are_skipped_on_a_laptop_and_failed_in_ci(
    environment: dict[str, str], outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not tested is said with the reason, and where it must be tested it is a failure."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(outcome, match="pip install"):
        require_engine_extra(environment)
