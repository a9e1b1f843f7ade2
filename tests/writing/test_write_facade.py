"""What the package offers at its top."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import dynamodb_outbox


@pytest.mark.parametrize("name", dynamodb_outbox.__all__)
def test_every_name_that_is_promised_is_there(name: str) -> None:
    """`__all__` is the contract: each name loads, is listed by dir(), and has a docstring."""
    assert getattr(dynamodb_outbox, name)
    assert name in dir(dynamodb_outbox)


def test_the_contract_is_small() -> None:
    """At most 20 names."""
    assert len(dynamodb_outbox.__all__) <= 20


def test_a_name_that_is_not_there() -> None:
    """A misspelt name is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="Outbocks"):
        _ = dynamodb_outbox.Outbocks  # type: ignore[attr-defined] # the case itself


def test_the_version_is_the_distributions() -> None:
    """The version is stated once."""
    assert dynamodb_outbox.__version__ == importlib.metadata.version("dynamodb-outbox")


def test_importing_the_package_loads_next_to_nothing() -> None:
    """No boto3 before a name that needs it is used."""
    code = (
        "import sys, dynamodb_outbox; assert 'boto3' not in sys.modules; dynamodb_outbox.Layout, dynamodb_outbox.Event;"
        "assert 'boto3' not in sys.modules; dynamodb_outbox.Outbox; assert 'boto3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
