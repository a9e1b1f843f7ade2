"""An action that cannot work is told by its name, with the argument at fault and a way out, to the letter."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.core.commit.conditions import Requirement, next_version, requirement_of, whole_version
from dynamodb_outbox.core.commit.expressions import (
    Expression,
    Placeholders,
    all_of,
    check_parentheses,
    check_placeholders,
    part,
    placeholders_of,
)
from dynamodb_outbox.core.commit.numbering import Ties, sequence_text
from dynamodb_outbox.core.commit.steady import SteadyTime
from dynamodb_outbox.core.commit.updates import Changes, changes_of, update_of, with_version
from dynamodb_outbox.errors import InvalidAction, InvalidValue
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

ACTION = "update shop {'pk': 'ORDER#1'}"
VERSIONED = Layout(version="version")
NOTHING: dict[str, object] = {"set": {}, "add": {}, "delete": {}}


def updated(**given: Any) -> Expression | None:
    """Return the update expression of these arguments."""
    return update_of(Changes(**given), ("pk", "sk", "version"), ACTION)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        # names= and values=
        (lambda: placeholders_of(5, None, ACTION), "names= is 5; a dict is needed."),
        (lambda: placeholders_of(None, [1], ACTION), "values= is [1]; a dict is needed."),
        (
            lambda: placeholders_of({"status": "status"}, None, ACTION),
            "names= has 'status'; a placeholder looks like #status.",
        ),
        (
            lambda: placeholders_of({":status": "status"}, None, ACTION),
            "names= has ':status'; a placeholder looks like #status.",
        ),
        (lambda: placeholders_of(None, {"#s": 1}, ACTION), "values= has '#s'; a placeholder looks like :status."),
        (lambda: placeholders_of(None, {5: 1}, ACTION), "values= has 5; a placeholder looks like :status."),
        (lambda: placeholders_of(None, {":a-b": 1}, ACTION), "values= has ':a-b'; a placeholder looks like :status."),
        (
            lambda: placeholders_of({"#ob_x": "x"}, None, ACTION),
            "'#ob_x': placeholders that start with '#ob_' are the library's own.",
        ),
        (
            lambda: placeholders_of({"#s": ""}, None, ACTION),
            "names['#s'], the name of an attribute, is ''; text that is not empty is needed.",
        ),
        (
            lambda: check_placeholders(["#b = :b AND #a = :a"], Placeholders(), ACTION),
            "#a, #b, :a, :b is used and not given; pass it in names= or values=.",
        ),
        (
            lambda: check_placeholders(["a = b"], Placeholders({"#b": "b"}, {":a": {"N": "1"}}), ACTION),
            "#b, :a is given and not used; DynamoDB refuses that.",
        ),
        # a caller's text
        (lambda: part(5, Placeholders(), "condition", ACTION), "condition= is 5; text that is not empty is needed."),
        (
            lambda: part("  ", Placeholders(), "condition", ACTION),
            "condition= is blank text; leave it out if nothing is meant.",
        ),
        (
            lambda: part("a) OR (b", Placeholders(), "condition", ACTION),
            "condition= is 'a) OR (b'; its parentheses do not match.",
        ),
        (lambda: check_parentheses("(a", "expression", ACTION), "expression= is '(a'; its parentheses do not match."),
        # what is required
        (lambda: requirement_of(ACTION, 1, False, None, None), "if_absent= is 1; True or False is needed."),
        (lambda: requirement_of(ACTION, False, 1, None, None), "if_exists= is 1; True or False is needed."),
        (
            lambda: requirement_of(ACTION, False, False, -1, None),
            "if_version= is -1; a whole number from 0 to 9,223,372,036,854,775,806 is needed.",
        ),
        # changes
        (lambda: changes_of(NOTHING, "a", ACTION), "remove= is 'a'; a list of names and paths is needed."),
        (lambda: changes_of(NOTHING, ("a",), ACTION), "remove= is ('a',); a list of names and paths is needed."),
        (lambda: changes_of(NOTHING | {"set": 5}, (), ACTION), "set= is 5; a dict is needed."),
        (lambda: changes_of(NOTHING | {"delete": ["a"]}, (), ACTION), "delete= is ['a']; a dict is needed."),
        (lambda: updated(set={(): 1}), "set= has (); a path starts with an attribute's name."),
        (lambda: updated(remove=[(0, "a")]), "remove= has (0, 'a'); a path starts with an attribute's name."),
        (lambda: updated(add={("a", -1): 1}), "add= has ('a', -1); a path holds names and list positions."),
        (lambda: updated(delete={("a", True): {1}}), "delete= has ('a', True); a path holds names and list positions."),
        (lambda: updated(set={"": 1}), "set= has ''; a path holds names and list positions."),
        (
            lambda: updated(set={"a" * 65_536: 1}),
            f"set= has '{'a' * 199}..., of which a name has 65,536 bytes of UTF-8; 65,535 are the most.",
        ),
        (
            lambda: updated(remove=[("a", "é" * 32_768)]),
            f"remove= has ('a', '{'é' * 193}..., of which a name has 65,536 bytes of UTF-8; 65,535 are the most.",
        ),
        (
            lambda: placeholders_of({"#a": "é" * 32_768}, None, ACTION),
            "names['#a'], the name of an attribute, has 65,536 bytes of UTF-8; 65,535 are the most.",
        ),
        (
            lambda: updated(set={"a": 1}, delete={("a", "b"): {1}}),
            "delete= has ('a', 'b'), which overlaps another change.",
        ),
        (lambda: updated(set={("a", "b"): 1}, add={"a": 1}), "add= has 'a', which overlaps another change."),
        (lambda: updated(add={("a", 0, "b"): "x"}), "add.a[0].b: a number or a set is needed, not str."),
        (lambda: updated(delete={"a": 5}), "delete.a: a set is needed, not int."),
        (lambda: updated(set={"sk": 1}), "'sk' cannot be changed: it is part of the key, or counted by if_version=."),
        (
            lambda: updated(remove=[("version", "x")]),
            "'version' cannot be changed: it is part of the key, or counted by if_version=.",
        ),
    ],
)
def test_what_cannot_work_is_told_by_action_and_argument(call: Callable[[], object], reason: str) -> None:
    """A transaction has up to a hundred actions: the error says which, and what is wrong with it."""
    with pytest.raises(InvalidAction) as caught:
        call()
    assert (caught.value.action, caught.value.reason) == (ACTION, reason)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda: placeholders_of(None, {":a": {"b": 1.5}}, ACTION), "values[':a'].b"),
        (lambda: updated(set={("a", 0, "b"): [1.5]}), "set.a[0].b[0]"),
        (lambda: updated(add={"price": float("nan")}), "add.price"),
        (lambda: updated(delete={"n": set()}), "delete.n"),
    ],
)
def test_a_value_that_cannot_be_stored_is_told_by_its_path(call: Callable[[], object], path: str) -> None:
    """By the argument, the placeholder or the attribute, and the place inside."""
    with pytest.raises(InvalidValue) as caught:
        call()
    assert caught.value.path == path


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Decimal("1E+38"), Decimal("1E+37"), Decimal("1.5"), Decimal("NaN"), True, "1"])
def test_what_is_no_version(value: object) -> None:
    """Beyond int64, with a fraction, or no number; the error is the argument's."""
    with pytest.raises(InvalidAction, match=r"if_version= is") as caught:
        whole_version(value, ACTION)
    assert caught.value.action == ACTION


def test_a_version_may_be_a_decimal() -> None:
    """As boto3 reads it, whatever its exponent; the last that has a next one is the largest."""
    assert whole_version(Decimal("1E+3"), ACTION) == 1000
    assert whole_version(Decimal("7.00"), ACTION) == 7
    assert type(whole_version(Decimal(7), ACTION)) is int
    assert whole_version(2**63 - 2, ACTION) == 2**63 - 2
    assert whole_version(None, ACTION) is None


def test_the_next_version() -> None:
    """One more than was required; the first for an item that must be absent; none where nothing counts."""
    assert next_version(Requirement(if_version=0), VERSIONED, 9) == 1
    assert next_version(Requirement(if_absent=True), VERSIONED, 9) == 9
    assert next_version(Requirement(if_absent=True), Layout(), 9) is None
    assert next_version(Requirement(if_exists=True), VERSIONED, 9) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("REMOVE a", "REMOVE a SET #ob_version = :ob_next"),
        ("set a = :a", "set #ob_version = :ob_next, a = :a"),
        ("REMOVE #SET SET a = :SET", "REMOVE #SET SET #ob_version = :ob_next, a = :SET"),
        ("ADD b.SET :n", "ADD b.SET :n SET #ob_version = :ob_next"),
        ("SET a = :a SET b = :b", "SET #ob_version = :ob_next, a = :a SET b = :b"),
    ],
)
def test_the_versions_clause_joins_the_first_section_of_its_kind(text: str, expected: str) -> None:
    """Once, whatever the caller's text is like: what is wrong with it is left for DynamoDB to say."""
    made = with_version(Expression(text, {"#a": "a"}, {":a": {"N": "1"}}), "version", 7)
    assert made.text == expected
    assert made.names == {"#a": "a", "#ob_version": "version"}
    assert made.values == {":a": {"N": "1"}, ":ob_next": {"N": "7"}}
    assert with_version(None, "version", 7) == Expression(
        "SET #ob_version = :ob_next", {"#ob_version": "version"}, {":ob_next": {"N": "7"}}
    )


# --- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ("a = b", "(a = b)"),
        (" (a = b) ", "(a = b)"),
        ("(a) OR (b)", "((a) OR (b))"),
        ("((a) OR (b))", "((a) OR (b))"),
        ("(a) AND b", "((a) AND b)"),
        ("a AND (b)", "(a AND (b))"),
    ],
)
def test_a_callers_condition_is_enclosed_once(text: str, beside: str) -> None:
    """Beside one of ours; alone it stays as it is, but for the space around it."""
    ours = Expression("x", {"#x": "x"}, {":x": {"N": "1"}})
    callers = Expression(text, {"#y": "y"}, {":y": {"N": "2"}})
    expected = Expression(f"x AND {beside}", {"#x": "x", "#y": "y"}, {":x": {"N": "1"}, ":y": {"N": "2"}})
    assert all_of([ours], callers) == expected
    assert all_of([], callers) == Expression(text.strip(), callers.names, callers.values)
    assert all_of([ours], None) == ours
    assert all_of([], None) is None


def test_a_part_takes_the_placeholders_that_it_uses() -> None:
    """The others belong to the other text of the same call."""
    given = placeholders_of({"#a": "a", "#ab": "ab"}, {":a": 1, ":b": 2}, ACTION)
    assert part("#ab = :a", given, "condition", ACTION) == Expression("#ab = :a", {"#ab": "ab"}, {":a": {"N": "1"}})


def test_an_update_gives_each_name_one_placeholder() -> None:
    """In the order of use, over all sections; list positions have none."""
    made = updated(set={("a", "b", 0): 1, ("c", "a"): "x"}, remove=("d",), add={"e": 2}, delete={"f": {"y"}})
    assert made == Expression(
        "SET #ob_n0.#ob_n1[0] = :ob_v0, #ob_n2.#ob_n0 = :ob_v1 REMOVE #ob_n3 ADD #ob_n4 :ob_v2 DELETE #ob_n5 :ob_v3",
        {f"#ob_n{i}": name for i, name in enumerate("abcdef")},
        {":ob_v0": {"N": "1"}, ":ob_v1": {"S": "x"}, ":ob_v2": {"N": "2"}, ":ob_v3": {"SS": ["y"]}},
    )
    assert updated() is None
    assert changes_of(NOTHING, ["a"], ACTION) == Changes(remove=("a",))
    assert changes_of({"set": None, "add": {"n": 1}, "delete": None}, (), ACTION) == Changes(add={"n": 1})


# --- small parts ------------------------------------------------------------------------------------------------------


def test_steady_time_believes_the_clock_that_went_further() -> None:
    """It starts where the wall clock stood, and takes nothing back."""
    time = SteadyTime(1_000, 50)
    assert time.now_ms(1_000, 50) == 1_000
    assert time.now_ms(1_007, 52) == 1_007
    assert time.now_ms(900, 60) == 1_010
    assert time.now_ms(900, 40) == 1_010
    assert time.now_ms(1_011, 40) == 1_011


def test_a_sequence_is_padded() -> None:
    """To 19 digits and 4."""
    assert sequence_text(42, 1) == "0000000000000000042.0001"
    assert sequence_text(2**63 - 1, 9_999) == "9223372036854775807.9999"
    assert Ties((), "shop").next("K") is None
    assert not Ties((), "shop").has_event("K")
