"""Parents that are listed late: waited for while they can still come, and never for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.eventsource.lineage import LATE_PARENT_MS, LateParents, readable

Parents = dict[str, "str | None"]
BEGINNING: Parents = {"a": None}
EARLY: Parents = {"a": None, "c": "b"}
WHOLE: Parents = {"a": None, "b": "a", "c": "b"}


def test_a_parent_that_comes_late_is_waited_for() -> None:
    """From the list in which its child is new to the list that has it."""
    late = LateParents()
    looked = [(late.look(listed, at_ms), late.awaited) for at_ms, listed in enumerate((BEGINNING, EARLY, EARLY, WHOLE))]
    assert looked == [([], frozenset()), ([], {"b"}), ([], {"b"}), ([], frozenset())]
    assert readable(EARLY, {"a"}, {"b"}) == []
    assert readable(WHOLE, {"a"}) == ["b"]


def test_a_parent_that_never_comes_is_given_up_once() -> None:
    """After a while, and not a moment sooner; its child is no news then."""
    late = LateParents({"a"})
    assert late.look(EARLY, 7) == []
    assert late.look(EARLY, 7 + LATE_PARENT_MS - 1) == []
    assert late.awaited == {"b"}
    assert late.look(EARLY, 7 + LATE_PARENT_MS) == ["b"]
    assert late.awaited == frozenset()
    assert late.look(EARLY, 7 + 9 * LATE_PARENT_MS) == []


def test_a_beginning_has_no_parent_to_wait_for() -> None:
    """In the first list of all, or when the parent was listed once and is trimmed now."""
    late = LateParents()
    assert late.look(EARLY, 0) == []
    assert late.awaited == frozenset()
    trimmed = LateParents()
    trimmed.look({"a": None}, 0)
    trimmed.look({"b": "a"}, 1)
    assert trimmed.awaited == frozenset()


def test_what_the_checkpoint_knows_counts_as_listed() -> None:
    """A process that starts while a parent is late waits for it as the one before did."""
    late = LateParents({"a"})
    late.look(EARLY, 0)
    assert late.awaited == {"b"}


def test_a_child_that_is_gone_again_waits_for_nothing() -> None:
    """Its parent holds nobody back."""
    late = LateParents({"a"})
    late.look(EARLY, 0)
    late.look(BEGINNING, 1)
    assert late.awaited == frozenset()


NAMES = st.sampled_from("abcdefgh")


@given(st.lists(st.dictionaries(NAMES, st.none() | NAMES, max_size=6), min_size=1, max_size=6), st.sets(NAMES))
def test_no_shard_waits_for_ever(lists: list[dict[str, str | None]], known: set[str]) -> None:
    """Whatever lists there were: the last one, looked at long enough, has nothing that is waited for."""
    late = LateParents(known)
    for at_ms, listed in enumerate(lists):
        late.look(listed, at_ms)
        assert not late.awaited & listed.keys()
    given_up = late.look(lists[-1], len(lists) + LATE_PARENT_MS)
    assert late.awaited == frozenset()
    assert late.look(lists[-1], len(lists) + 9 * LATE_PARENT_MS) == []
    assert set(given_up).isdisjoint(lists[-1])
