"""The checkpoint file: how far an event source got, whatever happens to it."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from dynamodb_outbox.core.eventsource.commands import Tried
from dynamodb_outbox.local.checkpoint import CheckpointCorrupt, CheckpointFile, Position

STREAM = "arn:aws:dynamodb:us-east-1:000000000001:table/shop/stream/1"


def test_without_a_file_every_shard_starts_at_the_beginning(tmp_path: Path) -> None:
    """Nothing was done yet; nothing is written by looking."""
    checkpoint = CheckpointFile(tmp_path / "cp", STREAM)
    assert checkpoint.position("s1") == Position(None, finished=False)
    assert checkpoint.finished() == frozenset()
    assert not list(tmp_path.iterdir())


def test_positions_survive_the_process(tmp_path: Path) -> None:
    """What was kept is read again, shard by shard, and no temporary file is left."""
    first = CheckpointFile(tmp_path / "cp", STREAM)
    first.keep("s1", Position("9"))
    first.keep("s1", Position("10", finished=True))
    first.keep("s2", Position(None))
    again = CheckpointFile(tmp_path / "cp", STREAM)
    assert again.position("s1") == Position("10", finished=True)
    assert again.position("s2") == Position()
    assert again.finished() == {"s1"}
    assert [path.name for path in tmp_path.iterdir()] == ["cp"]


def test_a_file_from_before_the_number_of_lanes_was_kept_is_read(tmp_path: Path) -> None:
    """What it says of a single lane holds."""
    tried = {"start": "8", "end": "9", "invocations": 3, "retries": 2, "lane": 0}
    position = {"after": "7", "finished": False, "tried": [tried]}
    (tmp_path / "cp").write_text(json.dumps({"format": 1, "stream": STREAM, "shards": {"s": position}}))
    assert CheckpointFile(tmp_path / "cp", STREAM).position("s") == Position("7", tried=(Tried("8", "9", 3, 2),))


def test_what_was_tried_and_where_latest_began_survive_too(tmp_path: Path) -> None:
    """Every part of a position comes back; a file without them, as it was written before, is read as well."""
    tried = (Tried("10", "12", 3, 2), Tried("11", "13", 1, 1, 1))
    positions = {
        "s1": Position("9", tried=tried),
        "s2": Position(latest=True),
        "s3": Position(first="7", tried=tried[:1]),
        "s4": Position("5", finished=True),
    }
    checkpoint = CheckpointFile(tmp_path / "cp", STREAM)
    assert checkpoint.fresh
    checkpoint.begin(positions)
    assert not checkpoint.fresh
    again = CheckpointFile(tmp_path / "cp", STREAM)
    assert {shard: again.position(shard) for shard in positions} == positions
    assert again.unseen() == {"s2"}
    assert json.loads((tmp_path / "cp").read_text())["shards"]["s4"] == {"after": "5", "finished": True}


def test_a_start_without_shards_is_a_start(tmp_path: Path) -> None:
    """What is settled once is not settled again: the next run does not begin anew."""
    CheckpointFile(tmp_path / "cp", STREAM).begin({})
    assert not CheckpointFile(tmp_path / "cp", STREAM).fresh


def test_a_crash_while_writing_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced as a whole: half a write never becomes the checkpoint."""
    checkpoint = CheckpointFile(tmp_path / "cp", STREAM)
    checkpoint.keep("s1", Position("9"))

    def full(_fd: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.keep("s1", Position("10"))
    assert CheckpointFile(tmp_path / "cp", STREAM).position("s1") == Position("9")


def test_a_link_to_a_checkpoint_is_that_checkpoint(tmp_path: Path) -> None:
    """The file is replaced where it is, and the link stays."""
    (tmp_path / "there").mkdir()
    (tmp_path / "cp").symlink_to(tmp_path / "there" / "cp")
    CheckpointFile(tmp_path / "cp", STREAM).keep("s1", Position("9"))
    assert (tmp_path / "cp").is_symlink()
    again = CheckpointFile(tmp_path / "there" / "cp", STREAM)
    assert (again.position("s1"), set(again.known())) == (Position("9"), {"s1"})


def test_a_file_of_another_stream_counts_as_empty(tmp_path: Path) -> None:
    """After the table was made again its numbers mean nothing: start over, and say so."""
    CheckpointFile(tmp_path / "cp", STREAM).keep("s1", Position("9"))
    other = CheckpointFile(tmp_path / "cp", STREAM + "2")
    assert other.discarded
    assert other.position("s1") == Position()


def test_shards_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    """The file does not grow with every shard there ever was."""
    checkpoint = CheckpointFile(tmp_path / "cp", STREAM)
    checkpoint.keep("old", Position("9", finished=True))
    checkpoint.forget_all_but({"new"})
    checkpoint.keep("new", Position("1"))
    assert set(json.loads((tmp_path / "cp").read_text())["shards"]) == {"new"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 2}',
        "handler = Relay(sink).lambda_handler",
        json.dumps({"format": 0, "stream": STREAM, "shards": {}}),
        json.dumps({"format": 1, "stream": STREAM}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": 5}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "x", "finished": False}}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "1"}}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "\u0665", "finished": False}}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "", "finished": False}}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "7\n", "finished": False}}}),
        json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "7" * 5_000, "finished": False}}}),
        *(
            json.dumps({"format": 1, "stream": STREAM, "shards": {"s": {"after": "1", "finished": False, **more}}})
            for more in (
                {"latest": 1},
                {"first": 7},
                {"tried": None},
                {"tried": [1]},
                {"tried": [{"start": "1", "end": "2", "invocations": 1}]},
                {"tried": [{"start": "1", "end": "2", "invocations": True, "retries": 0, "lane": 0}]},
                {"tried": [{"start": "1", "end": "x", "invocations": 1, "retries": 0, "lane": 0}]},
            )
        ),
        "[" * 100_000,
    ],
)
def test_a_corrupted_file_is_an_error_that_says_what_to_do(tmp_path: Path, content: str) -> None:
    """It is never taken for an empty one, nor overwritten: the error names it and the way out.

    Nobody is told to remove a file that may be something else.
    """
    path = tmp_path / "cp"
    path.write_text(content)
    way_out = "Remove it to start again" if STREAM in content else "give the checkpoint another name"
    with pytest.raises(CheckpointCorrupt, match=way_out) as caught:
        CheckpointFile(path, STREAM)
    assert caught.value.path == path
    assert str(path) in str(caught.value)
    assert path.read_text() == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    """The error is the system's; the file can be read as it was."""
    checkpoint = CheckpointFile(tmp_path / "cp", STREAM)
    checkpoint.keep("s1", Position("9"))
    (tmp_path / "cp.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        checkpoint.keep("s1", Position("10"))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "cp"))
    assert [path.name for path in tmp_path.iterdir()] == ["cp"]
    assert CheckpointFile(tmp_path / "cp", STREAM).position("s1") == Position("9")
