r"""A stack of `outbox infra cloudformation` on the local engine, with its mapping running, until it is stopped.

    outbox package
    outbox infra cloudformation --table shop --sink bus:orders --notify ops@example.com > template.yaml
    python -m dynamodb_outbox.local.deployed --endpoint http://127.0.0.1:4566 --account 000000000000 \
        --template template.yaml --package outbox.zip --checkpoint relay.json

The functions are those of the package, run by the engine with the variables, the time-out and (the sweeper) the
schedule of the template. `local.stack` says what is different from AWS, `local.mapping` how the mapping is run. Without
`--template` the stack is there already, made by an earlier run of this on the same engine.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.lineage import StartingPosition
from dynamodb_outbox.errors import ConfigurationError, OutboxError
from dynamodb_outbox.local.alone import alone_with
from dynamodb_outbox.local.checkpoint import CheckpointFile
from dynamodb_outbox.local.client import REGION, local_client
from dynamodb_outbox.local.command_line import run_until_stopped, setting
from dynamodb_outbox.local.mapping import DeployedFunction, config_of, failure_bucket, patience_with
from dynamodb_outbox.local.source import PATIENCE, EventSource
from dynamodb_outbox.local.stack import deploy, physical_ids
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.template_text import parsed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.process.stop import StopFlag

__all__ = ["NotDone", "event_source", "main"]

_MAPPING = "AWS::Lambda::EventSourceMapping"


class NotDone(OutboxError):
    """The engine refused a request, or could not be asked; `reason` is what boto3 said."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def event_source(
    client: Callable[..., Any], stack: str, checkpoint: Path, stop: StopFlag, journal: Journal
) -> EventSource:
    """Return what does the work of the mapping in `stack`, as it is deployed.

    `client` returns the engine's boto3 client of a service, and takes a botocore `config`. Raises ConfigurationError
    for a stack without a mapping, or with several; botocore's errors for one that is not there.
    """
    mappings = physical_ids(client("cloudformation"), stack, _MAPPING)
    if len(mappings) != 1:
        raise ConfigurationError(f"stack {stack} has {len(mappings)} event source mappings: one is run here.")
    functions = client("lambda")
    mapping = functions.get_event_source_mapping(UUID=next(iter(mappings.values())))
    function = functions.get_function_configuration(FunctionName=mapping["FunctionArn"])
    return EventSource(
        stream=DynamoDbStream(client("dynamodbstreams", config=PATIENCE), mapping["EventSourceArn"]),
        function=DeployedFunction(client("lambda", config=patience_with(function["Timeout"])), mapping["FunctionArn"]),
        checkpoint=CheckpointFile(checkpoint, mapping["EventSourceArn"]),
        stop=stop,
        config=config_of(mapping),
        start=StartingPosition(mapping["StartingPosition"]),
        on_failure=failure_bucket(client("s3"), mapping),
        journal=journal,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a program; return its exit status: 0 when it was asked to stop."""
    options = _parser().parse_args(argv)
    return run_until_stopped(options, partial(_run, options))


def _run(options: argparse.Namespace, stop: StopFlag) -> None:
    client = partial(local_client, endpoint=options.endpoint, account=options.account, region=options.region)
    with alone_with(options.checkpoint), Journal(options.log) as journal:
        try:
            if options.template is not None:
                _deploy(client, options)
            source = event_source(client, options.stack, options.checkpoint, stop, journal)
        except (BotoCoreError, ClientError) as error:
            raise NotDone(str(error)) from None
        _tell(f"the mapping of stack {options.stack} is running until stopped; --log FILE tells what happens")
        source.run()


def _deploy(client: Callable[[str], Any], options: argparse.Namespace) -> None:
    if options.package is None:
        raise ConfigurationError("--template needs --package: what `outbox package` writes.")
    template = _template_in(options.template)
    package = options.package.read_bytes()
    left_out = deploy(client, template, package, name=options.stack, parameters=dict(options.parameter))
    _tell(f"stack {options.stack} is deployed, without {', '.join(left_out) or 'nothing'}")


def _template_in(file: Path) -> dict[str, Any]:
    """Return the template in a file. Raises ConfigurationError for what is none: then nothing is made."""
    try:
        found = parsed(file.read_text(encoding="utf-8"))
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: no template: {error}") from None
    parts = list(found["Resources"].values())
    others = [found.get(section, {}) for section in ("Parameters", "Outputs")]
    if not parts or not all(map(_is_resource, parts)) or not all(map(_is_section, others)):
        raise ConfigurationError(f"{file}: no template: `Resources`, each of a `Type`, are needed.")
    if found.get("Transform") or any(part["Type"].startswith("AWS::Serverless::") for part in parts):
        raise ConfigurationError(
            f"{file}: a template of SAM, or of another macro, which the engine cannot expand. `outbox infra "
            "cloudformation`, with the arguments of `outbox infra sam`, makes the one that is deployed here."
        )
    return found


def _is_section(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(each, dict) for each in part.values())


def _is_resource(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("Type"), str) and isinstance(part.get("Properties", {}), dict)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 -- a program's word


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python -m dynamodb_outbox.local.deployed",
        description="Deploy a template of `outbox infra cloudformation` on the local engine, and run its mapping.",
    )
    add = parser.add_argument
    add("--endpoint", required=True, metavar="URL", help="the engine")
    add("--account", required=True, metavar="DIGITS", help="12 digits, used as the access key")
    add("--region", default=REGION)
    add("--template", type=Path, metavar="FILE", help="CloudFormation; without it the stack is there already")
    add("--package", type=Path, metavar="FILE", help="the functions' code, as `outbox package` writes it")
    add("--stack", default="outbox", metavar="NAME", help="the stack's name (%(default)s)")
    add(
        "--parameter",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="of the template, beside the two of its code; repeatable",
    )
    add("--checkpoint", required=True, type=Path, metavar="FILE", help="how far the mapping got")
    add("--log", type=Path, metavar="FILE", help="append a JSON line for everything that happens")
    add("--exit-with-parent", action="store_true", help="end at once when standard input ends")
    parser.set_defaults(program=parser.prog)
    return parser


if __name__ == "__main__":
    sys.exit(main())
