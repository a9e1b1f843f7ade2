"""Timelines: a run in words, with short names, marks, and without what is about something else."""

from __future__ import annotations

import pytest
from simulation_ledger import accepted, committed, good_run, invoked, record, written

from dynamodb_outbox.testing.simulation import facts as all_facts
from dynamodb_outbox.testing.simulation.consuming import facts as of_consumers
from dynamodb_outbox.testing.simulation.facts import (
    Answered,
    Checkpointed,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Gap,
    Heard,
    Intended,
    Moved,
    Raised,
    Rejected,
    Said,
    Sent,
    Started,
    Swallowed,
    Told,
    Trimmed,
)
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.timeline import WORDS, timeline

TERMS = Terms()


def test_a_run_reads_as_a_story() -> None:
    """One line a fact: seconds, who, what; events by key and place."""
    lines = timeline(good_run(), TERMS).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "0.000 s writer w a1 is committed: record A.1",
        "0.001 s writer w is told 'committed' about a1",
        "0.002 s stream shard-1 no. 9: INSERT of record A.1, by w",
        "0.005 s writer w a2 is committed: record A.2",
        "0.006 s writer w is told 'committed' about a2",
        "0.007 s stream shard-1 no. 10: INSERT of record A.2, by w",
        "0.010 s orders invocation 1 begins on i-1 with no. 9 to 10 (2 records) of shard-1: record A.1; record A.2",
        "0.020 s bus orders accepts A.1 from invocation 1",
        "0.030 s bus orders accepts A.2 from invocation 1",
        "0.040 s table record A.1 becomes published, by invocation 1",
        "0.040 s table record A.2 becomes published, by invocation 1",
        '0.050 s orders invocation 1 answers {"batchItemFailures": []}',
        "0.051 s source of orders shard-1 is done up to no. 10",
    ]


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Told(9, "w", "a9", "died"), "writer w does not live to hear of a9"),
        (Trimmed(9, "shard-1", ("1",)), "stream shard-1 trims no. 1"),
        (Gap(9, "orders", "s", None), "source of orders s has a gap after its start"),
        (Gap(9, "orders", "s", "9"), "source of orders s has a gap after no. 9: what was trimmed was not read"),
        (Started(9, "orders", (("s", "9"), ("t", "7"))), "begins at LATEST, passing over s up to no. 9, t up to no. 7"),
        (Started(9, "orders", ()), "source of orders begins at LATEST, passing over nothing"),
        (
            Intended(9, "w", "c", 1, ("A", "B"), frozenset({("A", "META")})),
            "writer w means to commit c: events of A, B; a change of A/META",
        ),
        (Intended(9, "w", "c", 1, (), frozenset()), "means to commit c: no events; a change of nothing"),
        (
            Rejected(9, "orders", 1, "a1", "MalformedDetail"),
            "orders refuses A.1 from invocation 1: MalformedDetail",
        ),
        (
            Swallowed(9, "orders", 1, "a1", "my-bus"),
            "bus my-bus does not exist: answers 200 to invocation 1, and A.1 is gone",
        ),
        (Said(9, "p", "orders", 1, "prints", "'hello'"), "orders invocation 1 prints 'hello'"),
        (Said(9, "p", "w", 0, "logs", "WARNING x: y"), "writer w logs WARNING x: y"),
        (Moved(9, record("a1"), "parked", 0, frozenset("10")), "becomes parked (events 0, 1 of it)"),
        (Moved(9, ("A", "META"), "published", 0), "item A/META becomes published"),
        (Answered(9, 1, "…", ("9", "10")), "orders invocation 1 answers: failed from no. 9 to 10 (2 records)"),
        (Raised(9, 1, "x" * 400), f"orders invocation 1 raises {'x' * 150}…"),
        (Ended(9, 1, "crash"), "orders invocation 1 its process dies"),
        (Ended(9, 77, "timeout"), "invocation 77 is ended at its time-out"),
        (Discarded(9, "orders", "s", ("9",), "RetryAttemptsExhausted"), "gives up no. 9 of s: RetryAttemptsExhausted"),
        (Faulted(9, "crash", "orders", 1), "FAULT crash at orders, met by invocation 1"),
        (Faulted(9, "trim", "stream"), "FAULT trim at stream"),
        (Heard(9, "orders", "PutEvents", 1, 1, "ReadTimeoutError"), "orders invocation 1 meets ReadTimeoutError"),
        (
            Heard(9, "table", "Commit", 0, 1, "ReadTimeoutError"),
            "a writer meets ReadTimeoutError in its Commit",
        ),
        (Heard(9, "table", "Commit", 0, 1, ""), "a writer gets the answer to its Commit to table"),
        (Checkpointed(9, "orders", "s", "9"), "source of orders s is done up to no. 9"),
    ],
)
def test_every_fact_has_words(fact: Fact, words: str) -> None:
    """What is rare is said as plainly as the rest."""
    assert words in " ".join(timeline([*good_run(), fact], TERMS, marked=[fact]).split())


def test_no_fact_is_without_words() -> None:
    """A new kind of fact cannot be forgotten here."""
    known = [*vars(all_facts).values(), *vars(of_consumers).values()]
    kinds = [one for one in known if isinstance(one, type) and issubclass(one, Fact)]
    assert set(kinds) - {Fact, of_consumers.Carrying} == set(WORDS)


def test_requests_are_left_out_unless_marked() -> None:
    """Each acceptance says already that there was one; what shows a violation is always there."""
    sent, heard = Sent(11, "orders", "PutEvents", 1, 1, "p"), Heard(12, "orders", "PutEvents", 1, 1, "")
    facts = [*good_run(), sent, heard]
    assert "PutEvents" not in timeline(facts, TERMS)
    assert "means to commit" not in timeline(facts, TERMS)
    assert "sends PutEvents to orders" in timeline(facts, TERMS, marked=[sent])


def test_marks_end_the_story() -> None:
    """Marked facts begin with >, and what comes after the last of them is counted and not shown."""
    facts = good_run()
    text = timeline(facts, TERMS, marked=[facts[7]])
    assert text.splitlines()[-2].startswith("> ")
    assert text.splitlines()[-1] == "  (5 more facts are not shown)"


def test_writers_are_called_by_their_names() -> None:
    """Also by what their calls met, of which only the process is noted."""
    sent, heard = (
        Sent(11, "table", "Commit", 0, 7, "writer-2.3"),
        Heard(12, "table", "Commit", 0, 7, "ReadTimeoutError"),
    )
    assert "writer writer-2 meets ReadTimeoutError" in " ".join(timeline([*good_run(), sent, heard], TERMS).split())


def stuck(times: int) -> list[Fact]:
    """Return a run in which one record is handed over again and again; another fault strikes the third time."""
    facts = [*committed("a1"), written("a1", "9")]
    for n in range(1, times + 1):
        at_ms = 100 * n
        facts.append(invoked(n, {"9": "a1"}, at_ms=at_ms))
        if n == 3:
            facts.append(Faulted(at_ms, "slow", "orders", n))
        facts.append(Said(at_ms + 1, "i-1", "orders", n, "prints", f"'the {n}th time'"))
        facts.append(Rejected(at_ms + 1, "orders", n, "a1", "MalformedDetail"))
        facts.append(Raised(at_ms + 2, n, "KeyError: 'type' (relay.py:25)"))
    return facts


def test_invocations_that_come_to_the_same_are_told_once() -> None:
    """The first and the last of them are there, between them stands how many more there were; what differs is told."""
    facts = stuck(40)
    text = timeline(facts, TERMS, marked=[facts[-1]])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "... orders 35 more invocations (5 to 39) ended the same way" in lines
    begun = [line for line in lines if "begins on" in line]
    assert [line.split("invocation ")[1].split()[0] for line in begun] == ["1", "2", "3", "4", "40"]
    assert "not shown" not in text
    assert "more invocations" not in timeline(stuck(5), TERMS)


def test_an_invocation_that_is_marked_is_told() -> None:
    """However much it is like the others."""
    facts = stuck(40)
    mark = next(fact for fact in facts if isinstance(fact, Raised) and fact.invocation == 20)
    text = timeline(facts, TERMS, marked=[mark, facts[-1]])
    assert "34 more invocations (5 to 39)" in text
    assert text.count("begins on") == 6


def test_what_is_left_out_is_counted_in_good_english() -> None:
    """One fact is one fact."""
    facts = good_run()
    told = [fact for fact in facts if not isinstance(fact, Intended)]
    assert timeline(facts, TERMS, marked=[told[-2]]).endswith("(1 more fact is not shown)")


def test_a_long_run_is_about_the_marked_events() -> None:
    """Other events and invocations are left out when there is too much to read, and so is what is too long ago."""
    facts = good_run()
    for n in range(40):
        facts += [*committed(f"b{n}", at_ms=100, key="B"), written(f"b{n}", f"{100 + n}", key="B")]
    facts += [invoked(2, {"9": "a1"}, at_ms=200), accepted("a1", 2, at_ms=210), Ended(220, 2, "crash")]
    facts.append(Faulted(205, "slow", "orders", 2))
    facts[-3:-3] = [Gap(190, "orders", "shard-2", None), Gap(190, "orders", "shard-1", "10")]
    text = timeline(facts, TERMS, marked=[facts[-3]], most=60)
    assert "B." not in text
    assert "A.1" in text
    assert "accepts A.2" not in text
    assert "shard-1 has a gap" in text
    assert "shard-2 has a gap" not in text
    short = timeline(facts, TERMS, marked=[facts[-3]], most=3)
    assert len(short.splitlines()) == 4
