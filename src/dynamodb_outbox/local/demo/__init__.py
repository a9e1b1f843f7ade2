"""The whole flow under faults, beside the same orders written as dual writes.

    evidence = run(Settings(orders=200, seed=7), lambda progress: None)
    report = report_of(evidence)
    report.kept, report.to_json()

`run` carries a schedule out and returns the evidence; `report_of` draws up the account from the evidence alone, fresh
or read back from the files of a dump. The command `outbox demo` is a thin shell around them.
"""

from __future__ import annotations

from dynamodb_outbox.local.demo.dump import check_writable, read_dump, write_dump
from dynamodb_outbox.local.demo.evidence import Evidence
from dynamodb_outbox.local.demo.functions import FunctionUnusable
from dynamodb_outbox.local.demo.progress import Observer, Progress
from dynamodb_outbox.local.demo.report import Report, report_of
from dynamodb_outbox.local.demo.run import run
from dynamodb_outbox.local.demo.schedule import Schedule, plan
from dynamodb_outbox.local.demo.settings import Settings

__all__ = [
    "Evidence",
    "FunctionUnusable",
    "Observer",
    "Progress",
    "Report",
    "Schedule",
    "Settings",
    "check_writable",
    "plan",
    "read_dump",
    "report_of",
    "run",
    "write_dump",
]
