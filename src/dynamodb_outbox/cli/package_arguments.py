"""The arguments of `outbox package`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["add_to"]

_SAYS = """\
Writes the code of the ready-made functions (dynamodb_outbox.aws_lambda) as a zip for Lambda. The same version of this
library gives the same bytes. boto3 is not in it: Lambda's runtimes have it.
"""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser("package", help="the code of the ready-made functions, as a zip", description=_SAYS)
    parser.set_defaults(draws=False, when_ended="ended early")
    add = parser.add_argument
    add("--output", type=Path, default=Path("outbox.zip"), metavar="FILE", help="what to write (default: outbox.zip)")
    add("--json", action="store_true", help="print one JSON object: file, bytes, sha256")
