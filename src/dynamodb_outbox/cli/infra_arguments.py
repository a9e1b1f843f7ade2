"""The arguments of `outbox infra`: those of `infra.deployment.Deployment`, by the same names."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["ARGUMENTS", "RENDERINGS", "add_to", "pair"]

RENDERINGS = ("cloudformation", "sam", "terraform")

_SAYS = """\
Prints what deploys a relay and a sweeper on a table, with alarms that notify: one description, in the language chosen.
Nothing is asked of an account. docs/infrastructure.md tells what is in it.
"""
_EPILOG = "exit status: 0 it was printed, 2 arguments that cannot work, alone or together"
_KINDS = "an ARN, or bus:NAME, topic:NAME, queue:NAME of the same account and Region"


def pair(text: str) -> tuple[str, str]:
    """Return a name and its value, of NAME=VALUE."""
    name, found, value = text.partition("=")
    if not found or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


ARGUMENTS: dict[str, dict[str, Any]] = {
    "table": {"required": True, "help": "the records' table; made, unless --existing-table"},
    "sink": {"metavar": "SINK", "help": f"where events go: {_KINDS}"},
    "route": {
        "action": "append", "type": pair, "metavar": "TYPE=SINK",
        "help": "in place of --sink, once for each: where events of a type go (a trailing * is any rest)",
    },
    "notify": {"required": True, "help": "who the alarms tell: an e-mail address, or the ARN of an SNS topic"},
    "name": {"help": "what names begin with (default: <table>-outbox)"},
    "existing-table": {"action": "store_true", "help": "the table is there, and has a stream; it is not changed"},
    "new-bus": {"action": "store_true", "help": "make the bus, with an archive"},
    "layout": {"metavar": "JSON", "help": "the writer's Layout, in place of that in OUTBOX_LAYOUT"},
    "settle": {"help": "the layout's settle alone: expire, mark, delete or none"},
    "ordering": {"help": "key (default) or none"},
    "on-poison": {"help": "park (default), park_key or block"},
    "parallelization": {"type": int, "help": "batches of a shard at once (default: 1); more needs --ordering none"},
    "reserved-concurrency": {"type": int, "help": "of the relay (default: 10 for each of --parallelization; 0: none)"},
    "batch-size": {"type": int, "help": "records of an invocation, at most (default: 1000)"},
    "env": {
        "action": "append", "type": pair, "metavar": "NAME=VALUE",
        "help": "a further variable of the functions, as OUTBOX_RATE_LIMIT=100; once for each",
    },
    "on-failure": {"metavar": "ARN", "help": "a bucket, queue or topic for what is given up (default: a new bucket)"},
    "archive-days": {"type": int, "help": "archive the bus's events for so many days (default: 90 with --new-bus)"},
    "kms-key": {"metavar": "ARN", "help": "the KMS key of the table, and of the bucket that is made"},
    "sink-kms-key": {"metavar": "ARN", "help": "the KMS key of the topic or queue, where it has one"},
    "on-failure-kms-key": {"metavar": "ARN", "help": "that of --on-failure, where it has one of its own"},
    "memory-mb": {"type": int, "help": "of the functions (default: 512)"},
    "timeout-s": {"type": int, "help": "of the relay (default: 30)"},
    "sweep-minutes": {"type": int, "help": "how often the sweeper runs (default: 1)"},
    "lag-minutes": {"type": int, "help": "how late events may be before an alarm tells (default: 5)"},
    "log-days": {"type": int, "help": "for how long logs are kept (default: 30)"},
    "runtime": {"help": "of the functions (default: python3.13)"},
    "architecture": {"help": "arm64 (default) or x86_64"},
}  # fmt: skip
"""By name: what argparse is told of each."""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "infra",
        help="what deploys a relay and a sweeper: CloudFormation, SAM or Terraform",
        description=_SAYS,
        epilog=_EPILOG,
    )
    parser.set_defaults(draws=False, when_ended="ended early")
    parser.add_argument("rendering", choices=RENDERINGS, help="the language")
    for name, settings in ARGUMENTS.items():
        if "action" not in settings and "metavar" not in settings:
            settings = {**settings, "metavar": name.rpartition("-")[2].upper()}  # noqa: PLW2901 -- the same, with a word
        parser.add_argument(f"--{name}", **settings)
    parser.add_argument("--code", default="outbox.zip", metavar="FILE", help="the package (sam, terraform)")
    parser.add_argument("--json", action="store_true", help="JSON in place of YAML (cloudformation, sam)")
