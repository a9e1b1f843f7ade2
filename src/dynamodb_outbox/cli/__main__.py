"""`python -m dynamodb_outbox.cli` is the command `outbox`."""

from __future__ import annotations

import sys

from dynamodb_outbox.cli import main

if __name__ == "__main__":
    sys.exit(main())
