r"""A writer of chaos, as a program: commits its commands one after the other, through every death of its own.

    python -m chaos_writer --endpoint URL --account DIGITS --layout JSON --writer 0 --seed 1 --events 100 \
        --journal FILE --allowed FILE --pause-ms 20

It commits as many as a file allows, and waits for that to be more. Its journal says what it is about to commit, and
what it was told. After a death the last command that it was about to commit comes again, under the same idempotency
key.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from chaos_orders import META, POISON, Command, commands, line
from days import TABLE

from dynamodb_outbox import Outbox
from dynamodb_outbox.aws_lambda import layout_from
from dynamodb_outbox.errors import ConditionFailed, OutboxError
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.process.journal import Journal

__all__ = ["SOURCE", "entries", "main"]

SOURCE = "shop.orders"

_PATIENCE = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
_AGAIN_S = 0.05


def main() -> None:
    """Commit what is left to commit."""
    given = _parser().parse_args()
    client = local_client("dynamodb", given.endpoint, account=given.account, config=_PATIENCE)
    outbox = Outbox(TABLE, source=SOURCE, layout=layout_from({"OUTBOX_LAYOUT": given.layout}), client=client)
    done = {entry["committed"] for entry in entries(given.journal) if "committed" in entry}
    with Journal(given.journal) as journal:
        for number, command in enumerate(commands(given.seed, given.writer, given.events)):
            if number < len(done):
                continue
            while number >= int(given.allowed.read_text()):
                time.sleep(_AGAIN_S)
            journal.write(begun=command.name)
            receipt = _commit(outbox, client, command)
            journal.write(
                committed=command.name,
                events=receipt.event_ids,
                resolved_by=receipt.resolved_by,
                replayed=receipt.replayed,
            )
            time.sleep(given.pause_ms / 1000)


def entries(journal: Path) -> list[dict[str, Any]]:
    """Return what a journal says; a line that a death has cut off says nothing."""
    found = []
    for text in journal.read_text().split("\n") if journal.exists() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(text))
    return found


def _commit(outbox: Outbox, client: Any, command: Command) -> Any:
    """Commit a command, whatever is in the way, until it is known to be committed; return the receipt."""
    while (receipt := _tried(outbox, client, command)) is None:
        time.sleep(_AGAIN_S)
    return receipt


def _tried(outbox: Outbox, client: Any, command: Command) -> Any:
    """Try to commit a command; return None when that is to be tried again."""
    try:
        return _try(outbox, client, command)
    except ConditionFailed:
        if not command.shared:
            raise
    except (BotoCoreError, ClientError):  # the version could not be read
        pass
    except OutboxError as error:
        if not error.retryable:
            raise
    return None


def _try(outbox: Outbox, client: Any, command: Command) -> Any:
    version = _version(client, command.key) if command.shared else None
    with outbox.transaction(idempotency_key=command.name, fingerprint=command.name) as tx:
        events = [
            tx.emit("order.changed", {"command": command.name, "n": n, "text": POISON if command.poison > n else ""})
            for n in range(command.events)
        ]
        meta = {"pk": command.key, "sk": META, "last": command.name}
        if not command.shared:
            tx.put(meta, overwrite=True)
        elif version is None:
            tx.put(meta, if_absent=True)
        else:
            tx.put(meta, if_version=version)
        tx.put(
            {
                "pk": command.key,
                "sk": line(command.name),
                "command": command.name,
                "after": version or 0,
                "events": [event.id for event in events],
            },
            condition="attribute_not_exists(pk)",
        )
    return tx.receipt


def _version(client: Any, key: str) -> int | None:
    """Return the version of a shared order, None before it is there."""
    place = {"pk": {"S": key}, "sk": {"S": META}}
    item = client.get_item(TableName=TABLE, Key=place, ConsistentRead=True).get("Item")
    return None if item is None else int(item["version"]["N"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("endpoint", "account", "layout"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("writer", "seed", "events", "pause-ms"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("journal", "allowed"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
