"""The journal: what is left to recount from."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.process.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path


def entries(path: Path) -> list[object]:
    """Read the file as a plain reader would: each line for itself."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_journal_appends_whole_lines(tmp_path: Path) -> None:
    """Entries of two journals on one file stand one after the other, as they were written."""
    path = tmp_path / "log"
    with Journal(path) as one, Journal(path) as two:
        one.write(event="a", text="\u00e4\n")
        two.write_all([{"event": "b"}, {"event": "c"}])
        two.write_all([])
        one.write(event="d")
    one.close()
    assert entries(path) == [{"event": "a", "text": "\u00e4\n"}, {"event": "b"}, {"event": "c"}, {"event": "d"}]


@pytest.mark.parametrize("text", ["\ud800", "\u2028", "\x85", "\U0001f600"])
def test_any_text_is_read_again_by_any_reader(tmp_path: Path, text: str) -> None:
    """A lone surrogate is no reason to stop, and what ends a line elsewhere does not end one here."""
    with Journal(tmp_path / "log") as journal:
        journal.write(text=text)
    assert entries(tmp_path / "log") == [{"text": text}]


def test_a_journal_to_nowhere_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path entries are dropped on purpose; and so are those that come after the end."""
    monkeypatch.chdir(tmp_path)
    with Journal(None) as journal:
        journal.write(event="a")
    assert list(tmp_path.iterdir()) == []
    with Journal("log") as journal:
        journal.write(event="a")
    journal.write(event="late")
    assert entries(tmp_path / "log") == [{"event": "a"}]


def test_a_new_journal_leaves_another_ones_entries_alone(tmp_path: Path) -> None:
    """What must be new is refused where something is, and nothing of it is touched."""
    path = tmp_path / "log"
    with Journal(path, new=True) as journal:
        journal.write(event="a")
    with pytest.raises(FileExistsError):
        Journal(path, new=True)
    assert entries(path) == [{"event": "a"}]


def test_an_entry_that_was_not_written_whole_is_an_error_and_stays_alone(tmp_path: Path) -> None:
    """A full disk is known at once, by the count; the entries before and after the torn line can be read."""
    # The system's own limit on the size of a file stops a write in the middle, as a full disk does.
    program = """
        import resource, signal, sys
        from dynamodb_outbox.process.journal import Journal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        journal = Journal(sys.argv[1])
        journal.write(event="first")
        resource.setrlimit(resource.RLIMIT_FSIZE, (30, resource.RLIM_INFINITY))
        for _ in range(2):
            try:
                journal.write(event="second")
            except OSError as error:
                print(error.filename, error.strerror)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        journal.write(event="third")
    """
    path = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    torn, refused = done.stdout.splitlines()
    assert torn == f"{path} 12 of 19 bytes could be written: is the disk full?"
    assert refused == f"{path} {os.strerror(errno.EFBIG)}"
    assert path.read_text() == '{"event":"first"}\n{"event":"se\n{"event":"third"}\n'


def test_a_journal_that_goes_on_does_not_append_to_a_torn_line(tmp_path: Path) -> None:
    """What a killed process left half-written stays a line of its own; a whole last line gets no empty one after it."""
    path = tmp_path / "log"
    path.write_text('{"event":"to')
    for event in "ab":
        with Journal(path) as journal:
            journal.write(event=event)
    assert path.read_text() == '{"event":"to\n{"event":"a"}\n{"event":"b"}\n'


def test_a_journal_may_be_a_pipe(tmp_path: Path) -> None:
    """`--log /dev/stdout` works: what has no end to look at is not looked at."""
    reader, writer = os.pipe()
    try:
        with Journal(f"/dev/fd/{writer}") as journal:
            journal.write(event="a")
        assert os.read(reader, 100) == b'{"event":"a"}\n'
    finally:
        os.close(reader)
        os.close(writer)
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "nowhere" / "log")
