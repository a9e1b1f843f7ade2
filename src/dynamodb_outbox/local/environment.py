"""The environment of child processes: two policies, because two kinds of program ask for opposite things.

A program that is told everything by its arguments (the engine, an event source, a bus) gets the few variables that
Python needs, and no others. The engine above all: it is somebody else's program, it is set up by variables of ordinary
names (LOG_LEVEL, S3_DATA_DIR and many more), and no list of what must not reach it would ever be complete.

A function is the user's own program. What it reads from the environment cannot be known here, and it is expected to
find what the user's shell has (SHOP_MODE=test). So it gets everything but what could lead it past the local engine:
every AWS variable and every proxy. That list is complete: nothing else tells botocore where to go, or as whom.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.local.client import REGION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["child_environment", "function_environment", "withheld_endpoints"]

_NEEDED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def child_environment(environment: Mapping[str, str], *, keep: Sequence[str] = ()) -> dict[str, str]:
    """Return the few variables a Python child needs, and those named in `keep`; nothing of AWS and no proxy.

    PYTHONPATH is made absolute, since the child may run in another directory.
    """
    chosen = {name: environment[name] for name in (*_NEEDED, *keep) if name in environment}
    if path := environment.get("PYTHONPATH"):
        chosen["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep) if part)
    return chosen


def withheld_endpoints(environment: Mapping[str, str], given: Collection[str], endpoint: str) -> list[str]:
    """Return the endpoints that somebody exported and `function_environment` leaves out, but for those in `given`.

    One that is `endpoint` itself is what the function gets.
    """
    return sorted(
        name
        for name, value in environment.items()
        if name.startswith("AWS_ENDPOINT_URL") and name not in given and value.rstrip("/") != endpoint.rstrip("/")
    )


def function_environment(
    endpoint: str, account: str, *, region: str = REGION, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return this process's environment with AWS pointing at a local engine, and nowhere else.

    Every AWS variable and every proxy setting of this process is left out; the configuration files are not read either.
    `extra` is added last.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and not name.lower().endswith("_proxy")
    }
    return {
        **kept,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        **(extra or {}),
    }
