"""Rounds of a redrive, over a table and a bus that are scripts: order, what is stuck, what stops it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from parked_shell import PARKING, ours

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.moves import Parked
from dynamodb_outbox.core.record.parked import Held, held
from dynamodb_outbox.core.record.parked_keys import KeysFound, Released
from dynamodb_outbox.core.sweeping.commands import Published
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.parked_reading import Choice, Reading
from dynamodb_outbox.recover.parked_states import ParkedStates, PassedKeys
from dynamodb_outbox.recover.redriving import Keys, Redriving, Sending
from source_steps import SteadyClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.core.values import WireItem

LAYOUT = Layout()


class Table:
    """A reading of records that are there."""

    table, layout = "shop", LAYOUT

    def __init__(self, records: list[Held]) -> None:
        self.records = records

    def chosen(self, choice: Choice) -> Iterator[Held]:
        """Yield those that are meant."""
        yield from filter(choice.fits, self.records)

    def of_key(self, key: str) -> list[Held]:
        """Return those of a key."""
        return [one for one in self.records if one.record.key == key]

    def is_overtaken(self, image: WireItem) -> bool:  # noqa: ARG002 -- as it has it
        """Say no."""
        return False

    def again(self, records: Sequence[Held]) -> list[Held | None]:
        """Say that all are as they were."""
        return list(records)

    def states(self, records: Sequence[Held]) -> list[str | None]:
        """Say that all are published."""
        return ["published"] * len(records)


class Marks:
    """Markers of keys."""

    def __init__(self, *parked: str, failure: str | None = None) -> None:
        self.parked = set(parked)
        self.failure = failure
        self.released: list[str] = []

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:  # noqa: ARG002 -- as the port has it
        """Say which are parked."""
        unread = frozenset(keys) if self.failure else frozenset()
        return KeysFound(frozenset(self.parked & set(keys)), unread, self.failure)

    def release(self, table: str, key: str) -> Released:  # noqa: ARG002 -- as the port has it
        """Let one go."""
        self.released.append(key)
        return Released(was_parked=True)


@dataclass
class Bus:
    """Publishing by a script; `rounds` are the ids that came at once."""

    script: Any
    rounds: list[list[str]] = field(default_factory=list)

    def publish(self, images: Sequence[WireItem], _: object) -> Published:
        """Do as the script says."""
        self.rounds.append([str(image["id"]["S"])[-3:] for image in images])
        return cast("Published", self.script(images))


def records(*keys: str) -> list[Held]:
    """Return parked records of these keys, in their order."""
    made = []
    for number, key in enumerate(keys):
        item = moves.park("shop", ours(LAYOUT, number, key={"S": key}), LAYOUT, PARKING)["Item"]
        made.append(held(item, None, {}, LAYOUT, source="shop"))
    return made


def redriven(made: list[Held], script: Any, marks: Marks | None = None, **choice: Any) -> tuple[Any, Bus]:
    """Return the report of a redrive, and what was published."""
    states = ParkedStates(cast("Any", None), cast("Any", None))
    bus, reading = Bus(script), cast("Reading", Table(made))
    passed = PassedKeys(states, cast("Any", marks or Marks()))
    sending = Sending(cast("Any", bus), cast("Any", bus), states, passed, "eu-west-1", SteadyClock())
    keys = Keys(cast("Any", marks or Marks()), reading)
    return Redriving(Choice(**choice), reading, keys, sending).run(dry_run=False), bus


def accepted(images: Sequence[WireItem]) -> Published:
    """Accept all."""
    return Published(frozenset(range(len(images))), accepted=len(images))


def test_a_hundred_records_are_published_at_once() -> None:
    """In order, over all rounds."""
    report, bus = redriven(records(*["A"] * 250), accepted)
    assert [len(each) for each in bus.rounds] == [100, 100, 50]
    assert [name for each in bus.rounds for name in each] == [f"{n:03d}" for n in range(250)]
    assert report.count("published") == 250


def test_what_is_behind_one_that_is_left_waits_for_another_redrive() -> None:
    """Over rounds; other keys go on."""
    report, bus = redriven(records(*["A"] * 150, "B"), lambda images: Published(frozenset(range(min(len(images), 50)))))
    assert [len(each) for each in bus.rounds] == [100, 1]
    assert [one.became for one in report.records] == [*["published"] * 50, *["left"] * 100, "published"]
    assert "behind one of its key" in report.records[120].why


def test_what_was_not_tried_goes_first_in_the_next_round() -> None:
    """A record that cannot be read here ends a round; what is behind it was not sent."""
    answers = [Published(frozenset({0}), untried=frozenset({2})), Published(frozenset({0}))]
    report, bus = redriven(records("A", "B", "C"), lambda _: answers.pop(0))
    assert bus.rounds == [["000", "001", "002"], ["002"]]
    assert [(one.record.key, one.became) for one in report.records] == [
        ("A", "published"), ("B", "left"), ("C", "published"),
    ]  # fmt: skip


def test_nothing_more_is_sent_when_no_destination_takes_anything() -> None:
    """The rest is told as left, for that reason."""
    report, bus = redriven(records(*"ABCDE" * 30), lambda _: Published(frozenset(), stop="the bus is gone"))
    assert len(bus.rounds) == 1
    assert {one.why for one in report.records} == {"the bus is gone"}
    assert (report.stopped, report.count("left")) == ("the bus is gone", 150)


def test_a_stop_among_parked_keys_stops_the_others_of_the_round_too() -> None:
    """They would go in a request of their own, and are told as left for the same reason."""
    answers = [Published(frozenset(), stop="the bus is gone"), Published(frozenset({0}))]
    report, bus = redriven(records("A", "B"), lambda _: answers.pop(0), Marks("A"))
    assert bus.rounds == [["000"]]
    assert [(one.became, one.why) for one in report.records] == [("left", "the bus is gone")] * 2
    assert report.stopped == "the bus is gone"


def test_a_refusal_holds_a_parked_key_alone() -> None:
    """Of others what follows goes on in the next rounds; the parked key is not let go."""
    made = records(*["A", "B"] * 110)

    def refuse(images: Sequence[WireItem]) -> Published:
        done = range(len(images))
        for image in images:
            if image["id"]["S"].endswith(("000", "001")):
                assert states.park("shop", image, PARKING) == Parked()
        return Published(frozenset(done))

    class Store:
        def refuse_again(self, *_: object) -> None:
            """Note nothing."""

    marks = Marks("A")
    states = ParkedStates(cast("Any", None), cast("Any", Store()))
    bus, reading = Bus(refuse), cast("Reading", Table(made))
    sending = Sending(
        cast("Any", bus), cast("Any", bus), states, PassedKeys(states, cast("Any", marks)), None, SteadyClock()
    )
    report = Redriving(Choice(), reading, Keys(cast("Any", marks), reading), sending).run(dry_run=False)
    later = [(one.record.key, one.became) for one in report.records[100:]]
    assert later == [*[("A", "left")] * 10, *[("B", "refused")], *[("B", "published")] * 109]
    assert marks.released == []


def test_a_parked_key_is_let_go_after_a_look_at_what_is_left() -> None:
    """Not while something of it is there."""
    marks, made = Marks("A"), records("A", "A", "B")

    def take(images: Sequence[WireItem]) -> Published:
        made.clear()
        return accepted(images)

    report, _ = redriven(made, take, marks)
    assert (report.released, marks.released) == (("A",), ["A"])
    marks = Marks("A")
    assert redriven(records("A"), accepted, marks)[0].released == ()
