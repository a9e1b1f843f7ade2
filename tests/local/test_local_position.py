"""How far a local event source is: its checkpoint, held against the stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.position import ShardPosition, positions_of
from fake_streams import ARN, WHEN, FakeStreams, page, refusal, shards

if TYPE_CHECKING:
    from pathlib import Path

WHEN_MS = int(WHEN.timestamp() * 1000)


def asked(directory: Path, streams: FakeStreams, kept: dict[str, Position] | None, stream: str = ARN) -> Any:
    """Ask for the positions of a source with that checkpoint; None: it has none."""
    path = directory / "checkpoint"
    if kept is not None:
        CheckpointFile(path, stream).begin(kept)
    table = {"Table": {"LatestStreamArn": ARN, "StreamSpecification": {"StreamEnabled": True}}}
    return positions_of(path, "shop", tables=SimpleNamespace(describe_table=lambda **_: table), streams=streams)


def test_the_first_unread_record_of_each_shard_tells_how_far_a_source_is(tmp_path: Path) -> None:
    """All is read, or not, or it has not begun; shards that are done are left out."""
    listed = shards(("done", None), ("read", "done"), ("behind", None), ("new", None))
    streams = FakeStreams(listed, page(), page(51), page(7))
    kept = {"done": Position("9", finished=True), "read": Position("40"), "behind": Position("50")}
    assert asked(tmp_path, streams, kept) == (
        ShardPosition("read", "40", None, lost=False),
        ShardPosition("behind", "50", WHEN_MS, lost=False),
        ShardPosition("new", None, WHEN_MS, lost=False),
    )
    assert streams.sought == ["40", "50", "TRIM_HORIZON"]
    before = (tmp_path / "checkpoint").read_text()
    assert "new" not in before


def test_records_that_the_stream_has_forgotten_unread_are_told(tmp_path: Path) -> None:
    """They are the sweeper's, or nobody's."""
    streams = FakeStreams(shards(("s", None)), (refusal("TrimmedDataAccessException"),), page(70))
    assert asked(tmp_path, streams, {"s": Position("50")}) == (ShardPosition("s", "50", WHEN_MS, lost=True),)


def test_a_source_at_the_end_of_the_stream_is_not_behind(tmp_path: Path) -> None:
    """It began at LATEST, and has seen nothing, or its first record."""
    streams = FakeStreams(shards(("s", None), ("t", None)), page(), page(8))
    told = asked(tmp_path, streams, {"s": Position(latest=True), "t": Position(first="8")})
    assert [(each.unread_since_ms, each.lost) for each in told] == [(None, False), (WHEN_MS, False)]
    assert streams.sought_how == ["LATEST", "AT_SEQUENCE_NUMBER"]


@pytest.mark.parametrize(
    ("kept", "stream", "said"), [(None, ARN, "is no file"), ({}, f"{ARN}0", "is of another stream")]
)
def test_without_a_checkpoint_of_this_stream_nothing_is_known(
    tmp_path: Path, kept: dict[str, Position] | None, stream: str, said: str
) -> None:
    """Which is said, instead of a position that means nothing."""
    with pytest.raises(ConfigurationError, match=said):
        asked(tmp_path, FakeStreams(), kept, stream)
