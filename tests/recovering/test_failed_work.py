"""Batches one after the other, over a table, a stream and a bus that are scripts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from parked_shell import ours

from dynamodb_outbox.core.eventsource.failures import FailedBatch
from dynamodb_outbox.core.record.waiting import Found
from dynamodb_outbox.core.sweeping.commands import Published
from dynamodb_outbox.errors import StreamUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.failed_reading import Fetched
from dynamodb_outbox.recover.failed_work import Home, Work
from source_steps import SteadyClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.relay.select import Selected
    from dynamodb_outbox.core.values import WireItem

LAYOUT = Layout()
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/1"


def inserted(number: int, key: str, **more: Any) -> dict[str, Any]:
    """Return a stream record of an outbox record."""
    image = ours(LAYOUT, number, key={"S": key}, **more)
    keys = {name: image[name] for name in ("pk", "sk")}
    change = {"Keys": keys, "NewImage": image, "SequenceNumber": str(number + 1)}
    return {
        "eventName": "INSERT", "eventSource": "aws:dynamodb", "awsRegion": "eu-west-1", "eventSourceARN": ARN,
        "dynamodb": change,
    }  # fmt: skip


def batch(*records: dict[str, Any]) -> FailedBatch:
    """Return a batch that carries its records."""
    return FailedBatch("m", ARN, "s", "1", "9", len(records), "", ("", ""), records)


class Fetching:
    """What is fetched is what the batch has, or what the `stream` has between its ends; and waits."""

    def __init__(
        self,
        error: Exception | None = None,
        lost: str | None = None,
        judgement: str = "waits",
        stream: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.stream = stream
        self.error = error
        self.lost = lost
        self.judgement = judgement

    def fetch(self, one: FailedBatch) -> Fetched:
        """Return the records."""
        if self.error is not None:
            raise self.error
        return Fetched(tuple(self.stream) if one.records is None else one.records, self.lost)

    def judge(self, records: Sequence[Selected], _: Layout) -> list[str]:
        """Say the same of all of it."""
        return [self.judgement] * len(records)


class Bus:
    """Publishing by a script; `rounds` are the keys that came at once."""

    def __init__(self, script: Callable[[int], Published]) -> None:
        self.script = script
        self.rounds: list[list[str]] = []

    def publish(self, images: Sequence[WireItem], _: object) -> Published:
        """Do as the script says."""
        self.rounds.append([str(image["key"]["S"]) for image in images])
        return self.script(len(images))


def everything(count: int) -> Published:
    """Accept all."""
    return Published(frozenset(range(count)), accepted=count)


def work(
    script: Callable[[int], Published],
    *,
    late: bool = False,
    layout: Layout = LAYOUT,
    gone: bool = False,
    keeps_gone: bool = True,
    **fetching: Any,
) -> tuple[Work, Bus]:
    """Return what works, and the bus."""
    bus = Bus(script)
    reading = SimpleNamespace(table="shop", layout=layout, is_overtaken=lambda _: late)
    states = SimpleNamespace(find=lambda _, image: Found({} if gone else image))
    tools = SimpleNamespace(clock=SteadyClock(), states=states)
    made = Work(
        Home("shop"),
        cast("Any", reading),
        cast("Any", Fetching(**fetching)),
        cast("Any", bus),
        cast("Any", tools),
        publish_gone=False,
        keeps_gone=keeps_gone,
        dry_run=False,
    )
    return made, bus


def test_a_hundred_records_are_published_at_once() -> None:
    """In the order of the stream."""
    made, bus = work(everything, late=True)
    assert made.redrive(batch(*(inserted(n, f"K{n}") for n in reversed(range(250))))) is None
    assert [len(each) for each in bus.rounds] == [100, 100, 50]
    assert [key for each in bus.rounds for key in each] == [f"K{n}" for n in range(250)]
    assert (made.report.done, made.report.published, made.report.overtaken) == (1, 250, 250)


def test_a_record_that_is_left_holds_its_key_in_later_batches_too() -> None:
    """Their other keys go on; none of these batches is done."""
    made, bus = work(lambda count: Published(frozenset(range(1, count))))
    assert made.redrive(batch(inserted(1, "A"), inserted(2, "B"))) is not None
    bus.script = everything
    kept = made.redrive(batch(inserted(3, "A"), inserted(4, "C")))
    assert kept is not None
    assert "not all of it was accepted" in kept.why
    assert made.redrive(batch(inserted(5, "B"))) is None
    assert bus.rounds == [["A", "B"], ["C"], ["B"]]
    assert (made.report.done, made.report.published) == (1, 3)


def test_what_was_not_tried_goes_first_in_the_next_round() -> None:
    """A record that cannot be read here ends a round; the batch is not done."""
    answers = [Published(frozenset({0}), untried=frozenset({2})), everything(1)]
    made, bus = work(lambda _: answers.pop(0))
    assert made.redrive(batch(inserted(1, "A"), inserted(2, "B"), inserted(3, "C"))) is not None
    assert bus.rounds == [["A", "B", "C"], ["C"]]


def test_nothing_more_is_sent_when_no_destination_takes_anything() -> None:
    """This batch and all after it are kept, for that reason."""
    made, bus = work(lambda _: Published(frozenset(), stop="the bus is gone"))
    for _ in range(2):
        kept = made.redrive(batch(inserted(1, "A")))
        assert kept is not None
        assert (kept.why, kept.lost) == ("the bus is gone", False)
    assert len(bus.rounds) == 1


def test_a_bus_that_goes_with_the_last_record_leaves_the_batch_done() -> None:
    """All of it was accepted before."""
    made, _ = work(lambda _: Published(frozenset({0}), stop="the bus is gone"))
    assert made.redrive(batch(inserted(1, "A"))) is None


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"eventSource": "aws:sqs"}, "comes from aws:sqs"),
        ({**inserted(1, "A"), "dynamodb": {"Keys": {"x": {"S": "y"}}, "SequenceNumber": "1"}}, "key attributes"),
    ],
)
def test_records_that_are_none_of_this_table_keep_the_batch(record: dict[str, Any], says: str) -> None:
    """With what is wrong."""
    made, bus = work(everything)
    kept = made.redrive(batch(record))
    assert kept is not None
    assert says in kept.why
    assert bus.rounds == []


def test_a_record_of_another_layout_that_still_waits_keeps_the_batch() -> None:
    """What comes before it is published."""
    other = inserted(2, "B", ob_columns={"S": "0000000000000000"})
    made, bus = work(everything)
    kept = made.redrive(batch(inserted(1, "A"), other, inserted(3, "C")))
    assert kept is not None
    assert "other column names" in kept.why
    assert bus.rounds == [["A"]]


@pytest.mark.parametrize(
    ("table", "stream", "says"),
    [
        ("shop", ARN, None),
        ("shop", ARN.replace("123456789012", "999999999999"), None),  # which account it is nobody has said
        ("shop", ARN.replace("eu-west-1", "eu-north-1"), "Region 'eu-north-1', and not of 'eu-west-1'"),
        ("shop", ARN.replace("eu-west-1", "ddblocal"), None),
        ("shop", ARN.replace("table/shop", "table/other"), "table 'other'"),
        ("shop", "shop:table/shop", "none of a table's stream"),
        (ARN.partition("/stream")[0], ARN, None),
        (ARN.partition("/stream")[0], ARN.replace("123456789012", "999999999999"), "account '999999999999'"),
    ],
)
def test_a_batch_of_another_account_or_region_is_told(table: str, stream: str, says: str | None) -> None:
    """By the ARN of its stream, as far as it is known where the table is."""
    found = Home.of(table, "shop", "eu-west-1").foreign(stream)
    assert (found is None) if says is None else (says in str(found))
    assert Home.of("shop", "shop", None).foreign(ARN) is None


def test_a_batch_of_records_that_are_lost_and_of_some_that_are_gone_says_both() -> None:
    """Whoever forgets what is lost has to be asked about the others, too."""
    made, _ = work(everything, lost="trimmed", judgement="gone")
    kept = made.redrive(batch(inserted(1, "A"), inserted(2, "B")))
    assert kept is not None
    assert (kept.lost, kept.gone) == (True, 2)
    assert ("trimmed" in kept.why, "2 records of it left the table" in kept.why) == (True, True)


def test_a_stream_that_gives_no_answer_keeps_the_batch() -> None:
    """It is no loss."""
    made, _ = work(everything, error=StreamUnavailable("slow down"))
    kept = made.redrive(batch())
    assert kept is not None
    assert ("slow down" in kept.why, kept.lost) == (True, False)


def row(number: int, **more: Any) -> dict[str, Any]:
    """Return a stream record of a hand-written row of another prefix, or of what else there is in a table."""
    record = inserted(number, f"K{number}")
    keys = {"pk": {"S": f"ORDER#{number}"}, "sk": {"S": f"EVT#{number}"}} | more.pop("keys", {})
    image = {**keys, "type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1769860800"}, **more}
    return record | {"dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": str(number + 1)}}


def modified(record: dict[str, Any]) -> dict[str, Any]:
    """Return what the stream tells when it is changed."""
    return record | {"eventName": "MODIFY"}


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """Return it without the item."""
    return record | {"dynamodb": {name: value for name, value in record["dynamodb"].items() if name != "NewImage"}}


def between(first: int, last: int, size: int) -> FailedBatch:
    """Return a batch that says where its records are."""
    return FailedBatch("m", ARN, "s", str(first + 1), str(last + 1), size, "", ("", ""))


@pytest.mark.parametrize(
    ("stream", "size", "said"),
    [
        ([row(1), inserted(2, "K2"), row(3)], 2, "its first record is none"),
        ([inserted(2, "K2"), row(3), row(4)], 1, "its last record is none"),
        ([inserted(1, "K2"), row(2), inserted(3, "K2")], 2, None),  # the other's is between them, for its own relay
        ([row(1), inserted(2, "K2"), row(3)], 3, None),  # a mapping without a filter reads all there is
        ([row(1), inserted(2, "K2")], 0, None),  # a document that does not say how many
        ([row(1), inserted(2, "K2"), modified(row(3))], 2, "its first record is none"),  # reads changes, too
        ([bare(row(1)), inserted(2, "K2"), bare(row(3))], 2, "its first record is none"),  # a stream of keys alone
    ],
)
def test_a_range_whose_ends_are_of_another_outbox_is_not_done(
    stream: list[dict[str, Any]], size: int, said: str | None
) -> None:
    """Two share a table, and this is the other's message: what is known of it is published, and it stays."""
    made, bus = work(everything, stream=stream)
    numbers = [int(each["dynamodb"]["SequenceNumber"]) - 1 for each in stream]
    kept = made.redrive(between(min(numbers), max(numbers), size))
    assert {key for each in bus.rounds for key in each} == {"K2"}
    assert made.has_lost is False
    if said is None:
        assert kept is None
    else:
        assert kept is not None
        assert kept.lost
        assert said in kept.why
        assert "give the writer's layout" in kept.why


OWN = {"ob_v": {"N": "1"}}
GUARD = row(3, keys={"pk": {"S": "IDEMP#c"}, "sk": {"S": "IDEMP"}}, ob_guard={"S": "c"}, **OWN)


def test_a_guard_among_rows_that_are_no_records_tells_nothing() -> None:
    """A filter by the prefix lets none through: it was written beside what the batch had."""
    made, _ = work(everything)
    kept = made.redrive(batch(row(1), GUARD))
    assert kept is not None
    assert "none of 2 inserted items in it is a record" in kept.why


def test_what_a_filter_cannot_tell_from_a_record_is_done() -> None:
    """With such a `select` guards pass it, and the markers of parked keys: there is nothing to publish in them."""
    made, bus = work(everything, layout=Layout(placement="table", select={}))
    marker = row(4, keys={"pk": {"S": "IDEMP#PARKED#K1"}, "sk": {"S": "IDEMP"}}, ob_parked={"M": {}}, **OWN)
    assert made.redrive(batch(GUARD, marker)) is None
    assert bus.rounds == []


def test_rows_that_a_select_does_not_choose_are_another_outbox_s() -> None:
    """Though their keys begin as records of some layout do: its mapping cannot have read them."""
    made, _ = work(everything, layout=Layout(select={"kind": "event"}))
    rows = [row(number, keys={"sk": {"S": f"OUTBOX#{number}"}}) for number in (1, 2)]
    kept = made.redrive(batch(*rows))
    assert kept is not None
    assert "none of 2 inserted items in it is a record" in kept.why


OTHERS = {"ob_columns": {"S": "others"}}


def test_a_record_of_another_layout_that_is_gone_keeps_its_message_and_nothing_else() -> None:
    """The message is all that there is of it; records behind it are published, and it may be said to be forgotten."""
    records = (inserted(1, "K1", **OTHERS), inserted(2, "K2"))
    made, bus = work(everything, gone=True)
    kept = made.redrive(batch(*records))
    assert bus.rounds == [["K2"]]
    assert kept is not None
    assert (kept.gone, kept.lost, made.report.gone) == (1, False, 1)
    assert kept.why == "1 record of another layout left the table: give the writer's layout"
    made, _ = work(everything, gone=True, keeps_gone=False)
    assert made.redrive(batch(*records)) is None
    assert made.report.gone == 1


def of_another(number: int) -> dict[str, Any]:
    """Return a record of an outbox with another prefix."""
    record = inserted(number, "K1")
    keys = {**record["dynamodb"]["Keys"], "sk": {"S": f"EVT#{number}"}}
    return record | {
        "dynamodb": {**record["dynamodb"], "Keys": keys, "NewImage": record["dynamodb"]["NewImage"] | keys}
    }


@pytest.mark.parametrize("gone", [True, False])
def test_what_the_filter_kept_out_of_a_batch_keeps_no_message(gone: bool) -> None:
    """Its ends are records by the layout, and as many as it had: what lies between them is for another relay."""
    stream = [inserted(1, "K1"), of_another(2), inserted(3, "K3")]
    made, bus = work(everything, gone=gone, stream=stream)
    assert made.redrive(between(1, 3, 2)) is None
    assert bus.rounds == [["K1", "K3"]]
    assert made.redrive(between(1, 3, 3)) is not None  # of a mapping without a filter it is one of the batch


def test_as_many_records_as_a_batch_had_are_not_its_own_between_ends_of_another() -> None:
    """The numbers agree by chance: the other's record waits, and is held at as a relay does."""
    made, bus = work(everything, stream=[of_another(1), inserted(2, "K2"), inserted(3, "K3"), of_another(4)])
    kept = made.redrive(between(1, 4, 2))
    assert kept is not None
    assert "is none by this relay's Layout" in kept.why
    assert bus.rounds == []
