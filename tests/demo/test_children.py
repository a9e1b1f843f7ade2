"""The demo's processes: started, read from, ended as a group, and named when they end by themselves."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.local.demo.children import Child, ChildDied, first_line

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {
    "speaks": 'print(\'{"url": "x"}\', flush=True)\nimport sys\nsys.stdin.read()',
    "forks": (
        "import subprocess, sys\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(other.pid, flush=True)\n"
        "other.wait()"
    ),
    "dies": "import sys\nsys.exit('cannot go on')",
    "silent": "import sys\nsys.stdin.read()",
    "mute": "import sys\nsys.stdin.read()\n",
}


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make modules that children can run, and a directory for their logs."""
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}_script.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_is_started_read_and_ended(scripts: Path) -> None:
    """Its first line is JSON; after `end` it is gone, and it may be ended again and started again."""
    child = Child("speaker", ("speaks_script",), logs=scripts, speaks=True)
    assert child.pid is None
    for _ in range(2):
        child.start()
        assert first_line(child, within_s=20) == {"url": "x"}
        pid = child.pid
        child.check()
        child.end()
        child.end()
        assert pid is not None
        assert not alive(pid)
    child.check()


def test_the_whole_group_ends(scripts: Path) -> None:
    """A process that the child started in its group ends with it, as a function does with its event source."""
    child = Child("parent", ("forks_script",), logs=scripts, speaks=True)
    child.start()
    grandchild = first_line(child, within_s=20)
    assert alive(grandchild)
    child.end()
    deadline = time.monotonic() + 5
    while alive(grandchild):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_that_ends_by_itself_is_named_with_its_last_words(scripts: Path) -> None:
    """`first_line` and `check` both say which process it was, how it ended and what it wrote."""
    child = Child("short one", ("dies_script",), logs=scripts, speaks=True)
    child.start()
    with pytest.raises(ChildDied, match=r"the short one ended with status 1\. It wrote: cannot go on") as caught:
        first_line(child, within_s=20)
    assert (caught.value.name, caught.value.exit_code) == ("short one", 1)
    child.end()


def test_a_child_that_was_killed_is_named_with_the_signal(scripts: Path) -> None:
    """A silent death by a signal is told apart from an exit."""
    child = Child("victim", ("silent_script",), logs=scripts)
    child.start()
    assert child.pid is not None
    os.kill(child.pid, 9)
    while alive(child.pid):
        time.sleep(0.01)
    with pytest.raises(ChildDied, match="the victim was ended by signal 9 and wrote nothing"):
        child.check()
    child.end()


def test_a_child_that_says_nothing_is_not_waited_for_for_ever(scripts: Path) -> None:
    """The wait for the first line has an end."""
    child = Child("mute one", ("mute_script",), logs=scripts, speaks=True)
    child.start()
    with pytest.raises(TimeoutError, match=r"the mute one did not start within 0\.2 s"):
        first_line(child, within_s=0.2)
    child.end()


def test_the_log_of_a_child_that_never_started_is_empty(tmp_path: Path) -> None:
    """Nothing was printed."""
    assert Child("none", ("x",), logs=tmp_path).log() == ""
