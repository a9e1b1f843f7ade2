"""An interpreter as Lambda's: the standard library, boto3 with what it needs, and a package; nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

if TYPE_CHECKING:
    from collections.abc import Mapping

BOTO3 = ("boto3", "botocore", "jmespath", "s3transfer", "dateutil", "six.py", "urllib3")
ALONE = """
import sys
sys.path[:] = [each for each in sys.path if "site-packages" not in each]
sys.path += {paths}
"""


def run_bare(
    folder: Path, package: bytes, code: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> str:
    """Run code there, and return what it printed; files that it takes are made in `folder`."""
    (folder / "outbox.zip").write_bytes(package)
    only = folder / "runtime"
    only.mkdir()
    for name in BOTO3:
        (only / name).symlink_to(Path(boto3.__file__).parent.parent / name)
    alone = ALONE.format(paths=[str(folder / "outbox.zip"), str(only)])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", alone + code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
