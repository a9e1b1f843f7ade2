"""boto3 clients for a local engine, cut off from the machine's own AWS set-up.

A profile, an endpoint or a retry mode that somebody configured for real work must not reach a local run, and a local
run must never reach AWS by accident. So the session behind these clients reads no environment variable and no
configuration file; the endpoint, the credentials and the region are always given. The access key is a 12-digit
account number: the engine keeps the accounts apart, which makes a fresh number a fresh world.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.session import Session

from dynamodb_outbox.errors import ConfigurationError

__all__ = ["DEFAULT_ACCOUNT", "REGION", "local_client"]

REGION = "us-east-1"
DEFAULT_ACCOUNT = "000000000000"

_ACCOUNT = re.compile(r"[0-9]{12}")
_lock = threading.Lock()
_session: boto3.Session | None = None


def local_client(
    service: str,
    endpoint: str,
    *,
    account: str = DEFAULT_ACCOUNT,
    region: str = REGION,
    config: Config | None = None,
) -> Any:
    """Return a boto3 client of `service` at `endpoint`, as the account `account` (12 digits).

    Connecting may take 2 s and an answer 10 s; a call is made at most twice. `config` overrides any of that. Safe to
    call from several threads (boto3's own sessions are not).

    Raises ConfigurationError for an account that is not 12 digits, and an endpoint without http://.
    """
    if not _ACCOUNT.fullmatch(account):
        raise ConfigurationError(f"account {account!r}: 12 digits are wanted, like 000000000001")
    if "://" not in endpoint:
        raise ConfigurationError(f"endpoint {endpoint!r}: http:// is missing")
    settings = Config(
        connect_timeout=2,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=32,
        proxies={},
        s3={"addressing_style": "path"},
    )
    with _lock:
        return _isolated_session().client(
            service,
            region_name=region,
            endpoint_url=endpoint,
            aws_access_key_id=account,
            aws_secret_access_key="local",  # noqa: S106 -- the engine checks no signature; it only wants one
            config=settings if config is None else settings.merge(config),
        )


def _isolated_session() -> boto3.Session:
    """One session for the process: it caches the service models, which are slow to load. Call with the lock held."""
    global _session  # noqa: PLW0603 -- a cache, filled on first use
    if _session is None:
        deaf = {
            name: (None, None, default, convert) for name, (_, _, default, convert) in Session.SESSION_VARIABLES.items()
        }
        deaf["config_file"] = (None, None, os.devnull, None)
        deaf["credentials_file"] = (None, None, os.devnull, None)
        _session = boto3.Session(botocore_session=Session(session_vars=deaf))
    return _session
