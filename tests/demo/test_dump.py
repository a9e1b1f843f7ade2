"""The dump: what goes in comes out, the recount gives the same figures, and a directory that is no dump is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from demo_evidence import perfect

from dynamodb_outbox.local.demo.dump import DumpUnreadable, DumpUnwritable, check_writable, read_dump, write_dump
from dynamodb_outbox.local.demo.report import report_of
from dynamodb_outbox.local.demo.schedule import plan

if TYPE_CHECKING:
    from pathlib import Path

EVIDENCE = perfect(plan(30, 4)).evidence()


def test_a_dump_reads_back_as_the_same_evidence(tmp_path: Path) -> None:
    """Evidence that was written and read again is equal, and so are its figures."""
    write_dump(tmp_path / "new", EVIDENCE)
    again = read_dump(tmp_path / "new")
    assert again == EVIDENCE
    assert report_of(again).to_json() == report_of(EVIDENCE).to_json()


def test_a_dump_has_the_documented_files(tmp_path: Path) -> None:
    """The outbox's evidence lies in the directory itself, that of each other lane in a directory of its name."""
    write_dump(tmp_path, EVIDENCE)
    names = {path.name for path in tmp_path.iterdir()}
    lane = {"acceptances.jsonl", "faults.jsonl", "orders.json"}
    run = {"schedule.json", "deliveries.jsonl", "kills.jsonl", "verdicts.jsonl", "consumer.json", "run.json"}
    assert names == lane | run | {"write_then_publish", "publish_then_write", "invoices"}
    second = {path.name for path in (tmp_path / "invoices").iterdir()}
    assert second == {"acceptances.jsonl", "faults.jsonl", "deliveries.jsonl", "ledger.json"}
    assert {path.name for path in (tmp_path / "publish_then_write").iterdir()} == lane


def test_text_with_unusual_line_ends_survives(tmp_path: Path) -> None:
    """A line of the evidence ends at a line feed alone, whatever other separators its text contains."""
    made = perfect(plan(30, 4))
    made.acceptances[0]["detail"] = "a\u2028b\x85c\x0bd"
    (tmp_path / "lines").mkdir()
    write_dump(tmp_path / "dump", made.evidence())
    assert read_dump(tmp_path / "dump").lanes["outbox"].acceptances[0]["detail"] == "a\u2028b\x85c\x0bd"


def test_a_directory_that_is_missing_is_no_dump(tmp_path: Path) -> None:
    """The error names the directory."""
    with pytest.raises(DumpUnreadable, match="no such directory") as caught:
        read_dump(tmp_path / "nothing")
    assert caught.value.path == tmp_path / "nothing"


def test_a_dump_with_a_file_missing_is_unreadable(tmp_path: Path) -> None:
    """The error names the file."""
    write_dump(tmp_path, EVIDENCE)
    (tmp_path / "kills.jsonl").unlink()
    with pytest.raises(DumpUnreadable) as caught:
        read_dump(tmp_path)
    assert caught.value.path == tmp_path / "kills.jsonl"


@pytest.mark.parametrize(("name", "text"), [("faults.jsonl", "{"), ("orders.json", "no"), ("schedule.json", "{}")])
def test_a_dump_that_was_damaged_is_unreadable(tmp_path: Path, name: str, text: str) -> None:
    """The error names the damaged file, not a line of code."""
    write_dump(tmp_path, EVIDENCE)
    (tmp_path / name).write_text(text)
    with pytest.raises(DumpUnreadable) as caught:
        read_dump(tmp_path)
    assert caught.value.path.name == name


def test_a_dump_goes_to_a_new_or_an_empty_directory(tmp_path: Path) -> None:
    """The directory is made, parents included; it is left empty by the check."""
    check_writable(tmp_path / "a" / "b")
    check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_dump_never_mixes_with_other_files(tmp_path: Path) -> None:
    """A directory with anything in it, and a file, are refused."""
    (tmp_path / "file").touch()
    with pytest.raises(DumpUnwritable, match="not empty"):
        check_writable(tmp_path)
    with pytest.raises(DumpUnwritable, match="not a directory"):
        check_writable(tmp_path / "file")
    with pytest.raises(DumpUnwritable, match="Not a directory"):
        check_writable(tmp_path / "file" / "below")


def test_a_dump_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A directory that went away, or became a file, between check and dump is a typed error."""
    (tmp_path / "file").touch()
    with pytest.raises(DumpUnwritable):
        write_dump(tmp_path / "file", EVIDENCE)
