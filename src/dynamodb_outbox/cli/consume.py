"""`outbox consume`: a consumer over an SQS queue, until it is asked to stop."""

from __future__ import annotations

import importlib
import logging
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.queues import SqsMessages
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.consume.worker import QueueWorker
from dynamodb_outbox.process.handlers import handler_fault
from dynamodb_outbox.process.importing import is_missing
from dynamodb_outbox.process.stop import stop_on_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Consume until SIGTERM or Ctrl-C; return 0. Raises Unusable for what is no consumer, QueueRefused."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("dynamodb_outbox").setLevel(logging.INFO)
    handler = _handler(options.inbox)
    queue = SqsMessages(options.queue)
    with stop_on_signals(signal.SIGTERM, signal.SIGINT, once=True) as stop:
        logging.getLogger(__name__).info("consuming %s with %s", options.queue, options.inbox)
        QueueWorker(queue, handler, stop, concurrency=options.concurrency, hold_s=options.hold).run()
    return 0


def _handler(named: str) -> Callable[[Any, object], Any]:
    """Return what Lambda would call. Raises Unusable."""
    module, _, attribute = named.partition(":")
    if not module or not attribute:
        raise Unusable(f"{named!r} is not of the form module:attribute, like billing:inbox")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise Unusable(f"{named}: {error}") from None
    except SystemExit as error:  # to end with its status would look as if a stop had been asked for
        raise Unusable(f"{named} ends the process when it is imported (SystemExit: {error})") from None
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        missing = is_missing(error, module)
        if not missing:
            traceback.print_exc()
        where = f" (looked for in {Path.cwd()})" if missing else ""
        raise Unusable(f"{named} cannot be imported: {type(error).__name__}: {error}{where}") from None
    handler: Callable[[Any, object], Any] = getattr(found, "lambda_handler", found)
    if (fault := handler_fault(handler)) is not None:
        raise Unusable(f"{named} is neither an Inbox nor a handler: it {fault}")
    return handler
