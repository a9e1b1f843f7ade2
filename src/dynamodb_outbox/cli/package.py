"""`outbox package`: the code of the ready-made functions, as a zip."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import ConfigurationError, OutboxError
from dynamodb_outbox.infra.package import package

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Write the package and say how large it is. Raises OSError and OutboxError when that cannot be done."""
    try:
        made = package()
    except ConfigurationError as error:
        raise OutboxError(str(error)) from None  # no argument is to blame
    options.output.write_bytes(made.content)
    said = {"file": str(options.output), "bytes": len(made.content), "sha256": made.sha256}
    if options.json:
        sys.stdout.write(json.dumps(said) + "\n")
    else:
        sys.stdout.write(f"{said['file']}: {said['bytes']:,} bytes, sha256 {said['sha256']}\n")
    return 0
