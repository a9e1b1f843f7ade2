"""What is done with each batch that was given up: its records are fetched, judged, and published where they wait.

Records of a key are published in the order of the stream; one that is left keeps those of its key that follow where
they are, in this batch and in later ones. A batch is accounted for when none is left, and none is lost.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.eventsource.failures import failed_batch
from dynamodb_outbox.core.record.decode import ordering_key
from dynamodb_outbox.core.record.place import is_record, is_wanted
from dynamodb_outbox.core.record.waiting import is_region
from dynamodb_outbox.core.relay.select import select
from dynamodb_outbox.core.relay.select import table_of as streamed_table
from dynamodb_outbox.errors import (
    ConfigurationError,
    ImageMissing,
    InvalidMessage,
    InvalidRecord,
    StreamRefused,
    StreamUnavailable,
)
from dynamodb_outbox.recover.publishing import ROUND, deadlines_of_round
from dynamodb_outbox.recover.reports import FailureReport, Kept
from dynamodb_outbox.relay.misfits import Judged, judged
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.eventsource.failures import FailedBatch
    from dynamodb_outbox.core.relay.select import Selected, Selection
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.recover.failed_reading import Fetching
    from dynamodb_outbox.recover.parked_reading import Reading
    from dynamodb_outbox.recover.publishing import Publishing
    from dynamodb_outbox.relay.invocation import Tools

__all__ = ["Home", "Work"]

_ARN = re.compile(r"arn:[^:]*:dynamodb:([^:]*):([^:]*):table/.+", re.DOTALL)
"""Of a table, or of its stream: the Region and the account."""
_GIVE = "give the writer's layout"


@dataclass(frozen=True)
class Home:
    """The table that batches are to be of; `region` and `account` are None where they are not known."""

    table: str
    region: str | None = None
    account: str | None = None

    @staticmethod
    def of(given: str, table: str, region: str | None) -> Home:
        """Return that of a table as it was `given`, by name or by ARN, and of the Region in which it is asked for."""
        found = _ARN.fullmatch(given)
        return Home(table, region, None if found is None else found[2])

    def foreign(self, stream_arn: str) -> str | None:
        """Return in words of which other table a stream is; None where it is this one's, as far as that is known."""
        found = _ARN.fullmatch(stream_arn)
        if found is None:
            return f"its streamArn is none of a table's stream: {shown(stream_arn)}"
        if (table := streamed_table(stream_arn)) != self.table:
            return f"it is of the table {table!r}, and not of {self.table!r}"
        region, account = found[1], found[2]
        # Engines on one's own machine name their ARNs as they like: only what is a Region tells one from another.
        if self.region not in (None, region) and is_region(region) and is_region(str(self.region)):
            return f"it is of the Region {region!r}, and not of {self.region!r}"
        if self.account not in (None, account):
            return f"it is of the account {account!r}, and not of {self.account!r}"
        return None


class Work:
    """One redrive, batch by batch; `report` is what it has come to, `has_lost` whether records cannot be had any more.

    With `publish_gone` records are published that are gone, too. With `keeps_gone` a batch with such records, not
    published, is not done: its document is all that there is of them.
    """

    def __init__(
        self,
        home: Home,
        reading: Reading,
        fetching: Fetching,
        publishing: Publishing,
        tools: Tools,
        *,
        publish_gone: bool,
        keeps_gone: bool,
        dry_run: bool,
    ) -> None:
        self.report = FailureReport(dry_run=dry_run)
        self.has_lost = False
        self._home = home
        self._reading = reading
        self._fetching = fetching
        self._publishing = publishing
        self._tools = tools
        self._stuck: set[str] = set()
        self._publish_gone = publish_gone
        self._keeps_gone = keeps_gone

    def count(self, **more: int) -> None:
        """Add to figures of the report."""
        self.report = replace(self.report, **{name: getattr(self.report, name) + more[name] for name in more})

    def read(self, document: str, where: str) -> FailedBatch | None:
        """Return what a document says; None for one that is no batch of this table's, which is noted."""
        self.count(batches=1)
        try:
            batch = failed_batch(document, where)
        except InvalidMessage as error:
            self.keep(Kept(where, error.reason))
            return None
        if (foreign := self._home.foreign(batch.stream_arn)) is not None:
            self.keep(Kept(where, foreign))
            return None
        return batch

    def redrive(self, batch: FailedBatch) -> Kept | None:
        """Publish what waits of a batch; return why not all of it is accounted for, None when it is."""
        if self.report.stopped is not None:
            return self.keep(Kept(batch.where, self.report.stopped))
        try:
            fetched = self._fetching.fetch(batch)
            selection = select(fetched.records, self._reading.layout)
        except (ConfigurationError, ImageMissing, InvalidRecord, StreamRefused, StreamUnavailable) as error:
            return self.keep(Kept(batch.where, str(error)))
        known = _known(fetched.records, self._reading.layout)
        found = Judged(selection.records) if _is_all_known(batch, known) else self._judged(selection)
        self.count(records=len(found.records))
        gone_before = self.report.gone
        left = self._publish(self._waiting(found.records))
        why = str(found.held.error) if found.held is not None else left
        if why is not None:
            return self.keep(Kept(batch.where, why))
        gone = self.report.gone - gone_before
        self.count(gone=found.gone)
        self.has_lost = self.has_lost or fetched.lost is not None
        strange = _of_another_layout(fetched.records, batch, known)
        lost = [why for why in (fetched.lost, strange) if why is not None]
        whys = [f"{'; '.join(lost)} ({_told(batch)})"] if lost else []
        if self._keeps_gone and gone:
            whys.append(f"{counted(gone, 'record')} of it left the table, published as far as that tells")
        if self._keeps_gone and found.gone:
            whys.append(f"{counted(found.gone, 'record')} of another layout left the table: {_GIVE}")
        if whys:
            left_table = gone + found.gone if self._keeps_gone else 0
            return self.keep(Kept(batch.where, "; ".join(whys), lost=bool(lost), gone=left_table))
        self.count(done=1)
        return None

    def _judged(self, selection: Selection) -> Judged:
        """Return what may be published of a batch that may have records of other layouts."""
        clock = self._tools.clock
        return judged(selection, self._tools.states, self._reading.table, clock, deadlines_of_round(clock).publish_ms)

    def keep(self, kept: Kept) -> Kept:
        """Note a document that is not done."""
        self.report = replace(self.report, kept=(*self.report.kept, kept))
        return kept

    def _waiting(self, records: Sequence[Selected]) -> list[Selected]:
        """Return the records that are to be published."""
        waiting = []
        for one, judgement in zip(records, self._fetching.judge(records, self._reading.layout), strict=True):
            if judgement == "settled":
                self.count(settled=1)
            elif judgement == "gone" and not self._publish_gone:
                self.count(gone=1)
            else:
                waiting.append(one)
        return waiting

    def _publish(self, records: Sequence[Selected]) -> str | None:
        """Publish records, in order; return why some are left, None when none is."""
        if self.report.dry_run:
            self.count(published=len(records))
            return None
        layout, are_left = self._reading.layout, False
        overtaken: dict[str, bool] = {}
        waiting = deque(records)
        while waiting and self.report.stopped is None:
            next_ones = [waiting.popleft() for _ in range(min(ROUND, len(waiting)))]
            taken = [one for one in next_ones if ordering_key(one.image, layout) not in self._stuck]
            keys = [ordering_key(one.image, layout) for one in taken]
            for one, key in zip(taken, keys, strict=True):
                if key not in overtaken:
                    overtaken[key] = self._reading.is_overtaken(one.image)
            published = self._publishing.publish([one.image for one in taken], deadlines_of_round(self._tools.clock))
            later = sum(overtaken[keys[number]] for number in published.done)
            self.count(published=len(published.done), parked=published.parked, overtaken=later)
            left = set(range(len(taken))) - published.done - published.untried
            self._stuck |= {keys[number] for number in left}
            are_left = are_left or bool(left) or len(taken) < len(next_ones)
            self.report = replace(self.report, stopped=published.stop)
            waiting.extendleft(taken[number] for number in sorted(published.untried, reverse=True))
        if self.report.stopped is not None and (waiting or are_left):
            return self.report.stopped
        return "not all of it was accepted; the log has the reason" if are_left else None


def _known(records: Sequence[Mapping[str, Any]], layout: Layout) -> set[int]:
    """Return the sequence numbers of what was inserted and a mapping of the layout reads, by its filter.

    What has no image here is none: a record that a stream of keys alone told of has been given its item.
    """
    changes = (record["dynamodb"] for record in records if _is_insert(record))
    return {int(change["SequenceNumber"]) for change in changes if _passes(change.get("NewImage") or {}, layout)}


def _is_all_known(batch: FailedBatch, known: set[int]) -> bool:
    """Whether a batch without its records had just those of the range that the layout knows: the ends are its own."""
    return batch.records is None and batch.size == len(known) and {int(batch.start), int(batch.end)} <= known


def _of_another_layout(records: Sequence[Mapping[str, Any]], batch: FailedBatch, known: set[int]) -> str | None:
    """Return why a batch is one of another layout's records, as far as it shows; None where it does not.

    What a mapping reads are records, by its filter: where none of what was inserted is one, it is for another layout.
    Where the stream has more between its ends than the batch had, there is a filter (or another lane), and the ends
    are the batch's own.
    """
    inserted = {int(record["dynamodb"]["SequenceNumber"]) for record in records if _is_insert(record)}
    if inserted and not known:
        return f"by the layout, none of {counted(len(inserted), 'inserted item')} in it is a record: {_GIVE}"
    if batch.records is None and batch.size not in (0, len(records)):
        for which, end in (("first", int(batch.start)), ("last", int(batch.end))):
            if end in inserted - known:
                return f"by the layout, its {which} record is none: {_GIVE}"
    return None


def _is_insert(record: Mapping[str, Any]) -> bool:
    return bool(record.get("eventName") == "INSERT")


def _passes(image: WireItem, layout: Layout) -> bool:
    """Whether a mapping of the layout reads an inserted item: a record, or what its filter cannot tell from one."""
    if layout.select is None:
        return is_record(image, layout)
    return all(is_wanted(image.get(name), wanted) for name, wanted in layout.select.items())


def _told(batch: FailedBatch) -> str:
    """Return what a document says of records that cannot be had."""
    first, last = batch.arrived
    which = f"{batch.size} records of shard {batch.shard_id} from {batch.start} to {batch.end}"
    return f"{which}, written from {first} to {last}"
