"""`outbox doctor`: what is wrong with an outbox, in an account or a template."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.cli.told import plain
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.doctor.choosing import Asked, system_of
from dynamodb_outbox.doctor.functions import Assumed
from dynamodb_outbox.doctor.report import report_on
from dynamodb_outbox.environment.settings import layout_from
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from dynamodb_outbox.doctor.checks import Finding, Unjudged
    from dynamodb_outbox.doctor.inventory import Inventory
    from dynamodb_outbox.doctor.promised import Promised
    from dynamodb_outbox.doctor.report import Report

__all__ = ["run"]

_NOT_WELL = 1
_TERRAFORM = (".tf", ".tf.json", ".tfplan", ".tfstate", ".hcl")
_WIDTH = 100
_INDENT = " " * 8


def run(options: argparse.Namespace) -> int:
    """Print the report; return 0 when nothing but notes was found, else 1.

    Raises Unusable and ConfigurationError for what options, variables or the template say, NotAnswered when the account
    cannot be looked at.
    """
    asked = _asked(options, environment_of(options))
    try:
        report = report_on(system_of(_inventory(options, asked), asked))
    except ConfigurationError as error:
        if not options.template:
            raise
        raise Unusable(f"{options.template}: {error}") from None
    text = json.dumps(report.to_json()) + "\n" if options.json else "".join(f"{line}\n" for line in _lines(report))
    sys.stdout.write(text)
    return 0 if report.is_well else _NOT_WELL


def _asked(options: argparse.Namespace, environment: Mapping[str, str]) -> Asked:
    bucket, _, prefix = (options.claim_check or "").partition("/")
    table = options.table if options.template else environment.get("OUTBOX_TABLE", "").strip() or None
    named = {"prefix": prefix} if prefix else {}
    return Asked(
        table=table,
        relays=tuple(options.relay),
        sweepers=tuple(options.sweeper),
        assumed=Assumed(layout=layout_from(environment), ordering=options.ordering, told=_tells_layout(environment)),
        payloads=bucket or None,
        **named,
    )


def _tells_layout(environment: Mapping[str, str]) -> bool:
    return any(environment.get(each, "").strip() for each in ("OUTBOX_LAYOUT", "OUTBOX_SETTLE"))


def _inventory(options: argparse.Namespace, asked: Asked) -> Inventory:
    if options.template:
        from dynamodb_outbox.doctor.template.resources import inventory_of as of_template  # noqa: PLC0415 -- either

        return of_template(_text(options.template), dict(options.parameter))
    from dynamodb_outbox.doctor.account.collecting import inventory_of as of_account  # noqa: PLC0415 -- as above

    return of_account(asked, read_items=options.read_items)


def _text(path: str) -> str:
    if path.endswith(_TERRAFORM):
        raise ConfigurationError("Terraform is not read. Look at what it has deployed: outbox doctor --table NAME")
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError("it cannot be read: it is no text in UTF-8.") from None
    except OSError as error:
        raise ConfigurationError(f"it cannot be read: {(error.strerror or str(error)).lower()}.") from None


def _lines(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield from _finding(finding)
    yield from _not_seen(report.unjudged)
    if report.promises:
        yield "promises: " + ", ".join(f"{each.promise} {each.standing.value}" for each in report.promises)
        yield from _reasons(report.promises)
    yield _summary(report)


def _finding(finding: Finding) -> Iterator[str]:
    yield plain(f"{finding.severity.value:<7} {finding.id}: {finding.subject}: {finding.evidence}")
    yield textwrap.fill(finding.consequence, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    yield plain(f"{_INDENT}fix: {finding.fix}")


def _not_seen(unjudged: Sequence[Unjudged]) -> Iterator[str]:
    """Yield one line for each thing and reason, with the checks that could not be made for it."""
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in unjudged:
        together[each.subject, each.why].append(each.id)
    for (subject, why), ids in together.items():
        yield plain(f"not seen: {subject}: {why}: {', '.join(ids)}")


def _reasons(promises: Sequence[Promised]) -> Iterator[str]:
    """Yield one line for each promise that findings take from, and for promises that the same unseen checks may."""
    for each in promises:
        if each.because:
            yield f"{_INDENT}{each.promise}: {', '.join(each.because)}"
    of_check: dict[str, list[str]] = defaultdict(list)
    for each in promises:
        for id_ in each.unseen:
            of_check[id_].append(each.promise)
    together: dict[str, list[str]] = defaultdict(list)
    for id_, names in of_check.items():
        together[", ".join(names)].append(id_)
    for promised, ids in together.items():
        yield f"{_INDENT}not seen, and may take from {promised}: {', '.join(ids)}"


def _summary(report: Report) -> str:
    severities = [each.severity.value for each in report.findings]
    told = [counted(severities.count(each), each) for each in ("error", "warning", "note")]
    return f"{', '.join(told)}; {counted(len(report.unjudged), 'check')} could not be made"
