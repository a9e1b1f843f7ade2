"""What came of parked records that somebody decided about, and of batches that an event source mapping had given up."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.record.parked import ParkedRecord
    from dynamodb_outbox.core.sweeping.commands import SweepReport

__all__ = ["Became", "FailureReport", "Kept", "ParkedReport", "Treated"]

Became = Literal["published", "crossed", "refused", "left", "gone", "discarded"]


@dataclass(frozen=True)
class Treated:
    """What one parked record `became`; `why` has words for what is neither published nor discarded.

    published    all of its events were accepted. Of a dry run: they would be sent; nobody is asked whether they can be
    crossed      all of its events were accepted, and meanwhile somebody has discarded it: it stays discarded
    discarded    it is kept as discarded. Of a dry run: it would be
    refused      its sink can never accept one of its events: it stays parked, with the new reason
    left         it stays parked, for another reason: the log may say more
    gone         it is parked no more, or (where it was parked apart) has been deleted: there is nothing to do

    `overtaken`: a later event of its key had been published before it was, as far as the table shows.
    """

    record: ParkedRecord
    became: Became
    why: str = ""
    overtaken: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return {**asdict(self), "record": self.record.to_json()}


@dataclass(frozen=True)
class ParkedReport:
    """What a redrive, or a discard, of parked records came to.

    records        each of those that were chosen, in the order in which they were taken
    missing        ids that were asked for and of which nothing is parked
    unsettled      published records that could not be marked as published, and are parked still
    released       ordering keys that on_poison="park_key" had parked and that go on now, as nothing of them is parked
    unreleased     such keys that could not be let go -> why
    stopped        why it ended early; None: it did not
    dry_run        whether it was one: then nothing was written or published
    """

    records: tuple[Treated, ...] = ()
    missing: tuple[str, ...] = ()
    unsettled: int = 0
    released: tuple[str, ...] = ()
    unreleased: Mapping[str, str] = field(default_factory=dict, hash=False)
    stopped: str | None = None
    dry_run: bool = False

    def count(self, became: Became) -> int:
        """Return how many records became that."""
        return Counter(one.became for one in self.records)[became]

    @property
    def is_complete(self) -> bool:
        """Whether what was asked for has been done, to all that was chosen."""
        undone = self.count("refused") + self.count("left") + self.unsettled
        return not undone and not self.missing and not self.unreleased and self.stopped is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return {
            **asdict(self),
            "records": [one.to_json() for one in self.records],
            "unreleased": dict(self.unreleased),
        }


@dataclass(frozen=True)
class Kept:
    """A message or object, by `where` it is, of which not all is accounted for, and `why`.

    `lost`: records of it are neither in the stream any more nor in the document, or nothing of it is a record. `gone`:
    so many of its records are not in the table any more; they count as published, or are another layout's, and nothing
    but this message tells where they are.
    """

    where: str
    why: str
    lost: bool = False
    gone: int = 0


@dataclass(frozen=True)
class FailureReport:
    """What a redrive of batches came to that an event source mapping had given up.

    batches       documents that were read; of these `done` are accounted for, to the last record
    records       outbox records that were found in them
    published     of these: all events accepted or parked now; of a dry run, those that would be sent. `parked` counts
                  events
    settled       records that had been published, parked or discarded since they were given up
    gone          records that are not in the table any more, and that were published before they went, as far as the
                  records say: `--gone` publishes them all the same; and those of another layout, which it does not.
                  Their messages stay until `--forget-gone`
    overtaken     of the published ones, those of keys of which a later event had been published before
    kept          documents that are not done, and why
    undeleted     messages that are done, and could not be deleted: they come again
    swept         what a sweep came to that followed, because records were lost; None: none was needed
    stopped       why it ended early; None: it did not
    dry_run       whether it was one: then nothing was written, published or deleted
    """

    batches: int = 0
    done: int = 0
    records: int = 0
    published: int = 0
    parked: int = 0
    settled: int = 0
    gone: int = 0
    overtaken: int = 0
    kept: tuple[Kept, ...] = ()
    undeleted: int = 0
    swept: SweepReport | None = None
    stopped: str | None = None
    dry_run: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all documents are accounted for."""
        return not self.kept and not self.undeleted and self.stopped is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return asdict(self)
