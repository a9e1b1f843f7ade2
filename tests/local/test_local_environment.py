"""What reaches a child process of this machine's environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dynamodb_outbox.local.command_line import common_arguments, function_process
from dynamodb_outbox.local.environment import child_environment, function_environment

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_child_gets_what_python_needs_and_nothing_of_aws(tmp_path: Path) -> None:
    """Relative import paths are made absolute; credentials, endpoints and proxies stay behind."""
    given = {
        "PATH": "/bin",
        "AWS_PROFILE": "production",
        "HTTP_PROXY": "http://192.0.2.1",
        "SHOP": "x",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}relative{os.pathsep}",
    }
    made = child_environment(given, keep=["SHOP"])
    assert made == {
        "PATH": "/bin",
        "SHOP": "x",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.path.abspath('relative')}",  # noqa: PTH100 -- says the same thing
    }


def test_the_environment_points_at_the_engine_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No AWS setting and no proxy of this machine reaches the function; the rest does, and extras come last."""
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://192.0.2.1")
    monkeypatch.setenv("SHOP_MODE", "test")
    made = function_environment("http://127.0.0.1:1", "000000000001", extra={"AWS_REGION": "eu-west-1", "X": "y"})
    assert made["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert made["AWS_ACCESS_KEY_ID"] == "000000000001"
    assert made["AWS_REGION"] == "eu-west-1"
    assert made["AWS_CONFIG_FILE"] == os.devnull
    assert (made["SHOP_MODE"], made["X"]) == ("test", "y")
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTPS_PROXY"} & made.keys()


def test_an_exported_endpoint_that_stays_behind_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By name and with the way to give one; not where `--env` gives it, and not its value."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", "http://192.0.2.2")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1/")  # the very one
    asked = ["--endpoint", "http://127.0.0.1:1", "--account", "000000000001", "--handler", "shop_relay:handler"]
    parser = common_arguments("source", "")
    made = function_process(parser.parse_args([*asked, "--env", "AWS_ENDPOINT_URL=http://127.0.0.1:2"]))
    made.close()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith(
        "AWS_ENDPOINT_URL_SNS is exported, and the function does not get it: its endpoint is http://1"
    )
    assert said.endswith("--env AWS_ENDPOINT_URL_SNS=URL gives another one")
    assert "192.0.2" not in caplog.text
