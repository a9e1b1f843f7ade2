"""Arguments that cannot work, on the way from Outbox to a request: each a typed error that names them, at once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from boto3.dynamodb.conditions import Attr
from hypothesis import given
from hypothesis import strategies as st
from write_scripted import ITEM, KEY, World

from dynamodb_outbox import Event, Layout, Outbox
from dynamodb_outbox.arguments import duration, text, whole
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.commit.expressions import check_parentheses
from dynamodb_outbox.errors import ConfigurationError, InvalidAction, InvalidEvent, OutboxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox import Transaction

VERSIONED = Layout(version="version")
ESCAPING = "attribute_exists(a)) OR (attribute_not_exists(a)"
"""Put into parentheses beside another requirement, it would undo that requirement."""


class Word(str, Enum):
    """Text as an application may keep it."""

    TABLE = "orders"
    TYPE = "order.placed"
    KEY = "ORDER#1"
    NAME = "status"


# --- conditions that reach out of their parentheses -------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition", [ESCAPING, "(a = b", "a = b)", ")a = b(", "(a = b) OR c = d)", "((a = b) OR (c = d)", ")", "()("]
)
@pytest.mark.parametrize("beside", [{}, {"if_exists": True}, {"if_version": 3}])
def test_a_condition_cannot_undo_another(condition: str, beside: dict[str, Any]) -> None:
    """Text whose parentheses do not match is refused for every action, beside another requirement and alone."""
    world = World(layout=VERSIONED)
    tx = world.outbox.transaction()
    actions: list[Callable[[], None]] = [
        lambda: tx.put(ITEM, condition=condition, **beside),
        lambda: tx.update(KEY, set={"a": 1}, condition=condition, **beside),
        lambda: tx.delete(KEY, condition=condition, **beside),
        lambda: tx.check(KEY, condition=condition, **beside),
    ]
    for action in actions:
        with pytest.raises(InvalidAction, match="parentheses"):
            action()


def test_an_update_expression_closes_its_parentheses() -> None:
    """The same holds for the text of an update."""
    tx = World().outbox.transaction()
    with pytest.raises(InvalidAction, match=r"expression= .* parentheses"):
        tx.update(KEY, expression="SET a = if_not_exists(a, b")


@given(st.text("()ab ", max_size=12))
def test_what_passes_stays_inside(condition: str) -> None:
    """Wrapped in a pair of parentheses, what passes is closed by the last character, and by no earlier one."""
    try:
        check_parentheses(condition, "condition", "put")
    except InvalidAction:
        return
    depths = [0]
    for mark in f"({condition})":
        depths.append(depths[-1] + (mark == "(") - (mark == ")"))
    assert depths[-1] == 0
    assert all(depth > 0 for depth in depths[1:-1])


# --- every argument ---------------------------------------------------------------------------------------------------


NO_OUTBOX: dict[str, tuple[object, ...]] = {
    "table": (5, None, "", b"shop", "\ud800", True),
    "source": (5, None, "", b"shop", "\ud800", "aws.x"),
    "max_event_bytes": ("9", None, 9.5, True, -1),
    "commit_within": (5, None, "5", timedelta(seconds=-1), timedelta(microseconds=999)),
    "layout": (5, "", {}, Layout),
}


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [(argument, wrong) for argument, every in NO_OUTBOX.items() for wrong in every],
)
def test_an_outbox_names_the_argument(argument: str, wrong: object) -> None:
    """A wrong argument of the constructor is a ConfigurationError with the argument's name."""
    arguments: dict[str, Any] = {"table": "shop", "source": "shop.orders", argument: wrong}
    with pytest.raises(ConfigurationError, match=argument):
        Outbox(**arguments)


@pytest.mark.parametrize("wrong", [5, "", b"k", "\ud800", True])
@pytest.mark.parametrize("argument", ["idempotency_key", "fingerprint"])
def test_a_command_names_the_argument(argument: str, wrong: object) -> None:
    """A wrong key or fingerprint is refused when the transaction is opened."""
    arguments: dict[str, Any] = {"idempotency_key": "k", argument: wrong}
    with pytest.raises(InvalidAction, match=argument):
        World().outbox.transaction(**arguments)


def test_an_inbox_record_has_a_form_in_utf_8() -> None:
    """An event's id comes from outside; one that cannot be a key is a typed error."""
    with pytest.raises(InvalidAction, match="guard"):
        World().outbox._transaction_under("INBOX#\ud800", fingerprint="1", keep=timedelta(days=1))


WRONG: list[tuple[str, Callable[[Any], None]]] = [
    *(
        (f"table= is {wrong!r}", lambda tx, wrong=wrong: tx.put(ITEM, if_absent=True, table=wrong))
        for wrong in (5, "", b"shop", "\ud800", False)
    ),
    *(
        (f"{flag}= is {wrong!r}", lambda tx, flag=flag, wrong=wrong: tx.put(ITEM, **{flag: wrong}))
        for flag in ("if_absent", "if_exists", "overwrite")
        for wrong in ("false", 1, None)
    ),
    *(
        (f"{section}= is {wrong!r}", lambda tx, section=section, wrong=wrong: tx.update(KEY, **{section: wrong}))
        for section in ("set", "add", "delete")
        for wrong in (["a"], [], "a", 5)
    ),
    *(
        ("expression= is", lambda tx, wrong=wrong: tx.update(KEY, expression=wrong))
        for wrong in (5, "", "  ", b"SET a = b", "\ud800")
    ),
    *(("condition= is", lambda tx, wrong=wrong: tx.delete(KEY, condition=wrong)) for wrong in (5, "", " ", "\ud800")),
    ("names= is", lambda tx: tx.delete(KEY, condition="#a = #a", names=["#a"])),
    ("values= is", lambda tx: tx.delete(KEY, condition="a = :a", values=[(":a", 1)])),
    ("remove= is", lambda tx: tx.update(KEY, remove={"a"})),
    ("if_version= is True", lambda tx: tx.update(KEY, set={"a": 1}, if_version=True)),
    ("condition= has", lambda tx: tx.check(KEY, condition=Attr("a").is_in([]))),
]


@pytest.mark.parametrize(("said", "action"), WRONG)
def test_an_action_names_the_argument(said: str, action: Callable[[Transaction], None]) -> None:
    """A wrong argument of an action is an InvalidAction that says which; nothing of the action is kept."""
    world = World(layout=VERSIONED)
    with world.outbox.transaction() as tx:
        with pytest.raises(InvalidAction) as caught:
            action(tx)
        tx.put(ITEM, if_absent=True)
    assert said in caught.value.reason
    assert len(world.sent()) == 1


def test_a_wrong_event_is_refused_by_emit() -> None:
    """A list of pairs is no mapping, and a moment beyond the last year is none in UTC."""
    tx = World().outbox.transaction()
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("attributes", {"attributes": [("a", "b")]}),
        ("time", {"time": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}),
    ]
    for field, arguments in wrong:
        with pytest.raises(InvalidEvent) as caught:
            tx.emit("t", {}, **arguments)
        assert caught.value.field == field


# --- subclasses -------------------------------------------------------------------------------------------------------


def test_text_of_a_subclass_counts_as_its_value() -> None:
    """Members of an Enum that is a str give the very request that plain text gives."""

    def request(table: str, kind: str, key: str, name: str) -> dict[str, Any]:
        tx = World().outbox.transaction(idempotency_key=key)
        tx.put({"pk": key, "sk": "META"}, if_absent=True, table=table)
        tx.update({"pk": key, "sk": "B"}, set={name: 1}, condition="#a = :a", names={"#a": name}, values={":a": name})
        tx.emit(kind, {}, subject=name, attributes={"a": name})
        tx.emit(kind, {}, key=key)
        return tx.request()

    plain = request("orders", "order.placed", "ORDER#1", "status")
    assert repr(request(Word.TABLE, Word.TYPE, Word.KEY, Word.NAME)) == repr(plain)


def test_a_time_of_a_subclass_is_written_as_any_other() -> None:
    """A datetime that writes itself in another way does not reach the record."""

    class Precise(datetime):
        def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:  # noqa: ARG002 -- datetime's signature
            return "not RFC 3339"

    event = World().outbox.transaction().emit("t", {}, key="K", time=Precise(2026, 1, 2, tzinfo=timezone.utc))
    assert type(event.time) is datetime
    assert '"time":"2026-01-02T00:00:00Z"' in cloudevent(event)


def test_an_emitted_event_is_a_value() -> None:
    """It can be put into a set."""
    event = World().outbox.transaction().emit("t", {}, key="K", attributes={"a": "b"})
    assert {event, event} == {event}
    assert isinstance(event, Event)


# --- the checks themselves --------------------------------------------------------------------------------------------


def test_an_error_shows_only_the_start_of_a_large_value() -> None:
    """An error is not as long as the value that caused it, and an int too long for text is named by its type."""

    def refuse(reason: str) -> OutboxError:
        return ConfigurationError(reason)

    with pytest.raises(ConfigurationError) as caught:
        text(b"x" * 1_000_000, refuse)
    assert len(str(caught.value)) < 300
    with pytest.raises(ConfigurationError):
        whole(10**5_000, refuse, least=0, most=1)
    with pytest.raises(ConfigurationError, match="the least is 1 s"):
        duration(timedelta(0), refuse, least=timedelta(seconds=1))
    assert text("é" * 5, refuse, most_bytes=10) == "é" * 5
    with pytest.raises(ConfigurationError, match="12 bytes"):
        text("é" * 6, refuse, most_bytes=10)
