"""Events that were not made by this project: the user says where each of them has its id, as JMESPath.

There is no id but the one that the rule finds. A message in which it finds nothing is refused: an id made up here would
differ at each delivery, and one that messages share would let the first of them hide all others.

An id is text that is not empty, or a whole number, which stands for its digits: 5 and "5" are one id. A rule may give a
list of such values: it stands for the id as JSON text, in which no two lists are alike.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath.exceptions import JMESPathError

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.codec.envelope import moment_of
from dynamodb_outbox.core.codec.payload import rewrite_json
from dynamodb_outbox.errors import ConfigurationError, InvalidMessage
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["ForeignEvents"]

_NO_TIME = (
    "nothing says when it happened or arrived. Give ForeignEvents(time=...) a place where it stands; a pipe's input "
    "template can hold <aws.pipes.event.ingestion-time>."
)


@dataclass(frozen=True)
class ForeignEvents:
    """Where events of other makers have their id, type, source and time: JMESPath expressions.

    They look at what is left when queue, topic and stream have been taken away: the event of EventBridge, with its
    `detail`, or the JSON that the message holds.

    id      the event's id: `detail.order.id`, or several values, `[detail.order.id, detail.version]`. Duplicates are
            events with the same source and id; the number 5 and the text "5" are the same
    type    the event's type; None: `detail-type` of an event of EventBridge, and a refusal for anything else
    source  the event's source; None: `source` of an event of EventBridge, else the ARN of queue, topic or stream
    time    when it happened, RFC 3339 text; None, and where there is none: `time` of an event of EventBridge, else when
            queue, topic or stream took it. Of what a pipe's input template has made nothing else says it

    A fixed text is written in single quotes inside of the expression: `type="'order.placed'"`. Raises
    ConfigurationError for what is no JMESPath.
    """

    id: str
    type: str | None = None
    source: str | None = None
    time: str | None = None
    _compiled: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        compiled = {name: _compiled(name, path) for name, path in said.items() if name == "id" or path is not None}
        object.__setattr__(self, "_compiled", compiled)

    def event(self, message: Mapping[str, Any], where: str, *, origin: str, arrived: datetime | None) -> Event:
        """Return the event that a message is; `origin` and `arrived` stand in for a source and a time it does not say.

        Raises InvalidMessage where it has no id, type, source or time, or a time that cannot be read.
        """
        bridged = "detail-type" in message
        found = {
            "id": self._found("id", message),
            "type": self._found("type", message) or (_text(message["detail-type"]) if bridged else ""),
            "source": self._found("source", message) or (_text(message.get("source")) if bridged else origin),
        }
        for name, value in found.items():
            if not value:
                raise InvalidMessage(where, f"it has no {name} by the rule of ForeignEvents: {self._rule(name)}.")
        bridge = moment_of(message.get("time")) if bridged else None
        if (time := self._time(message, where) or bridge or arrived) is None:
            raise InvalidMessage(where, _NO_TIME)
        payload = rewrite_json(message["detail"] if bridged and "detail" in message else message)
        return Event(id=found["id"], type=found["type"], source=found["source"], payload=payload, time=time)

    def _found(self, name: str, message: Mapping[str, Any]) -> str:
        try:
            return _text(self._searched(name, message))
        except JMESPathError:  # a function that was given a value of another type
            return ""

    def _time(self, message: Mapping[str, Any], where: str) -> datetime | None:
        try:
            said = self._searched("time", message)
            moment = moment_of(said)
        except JMESPathError as error:
            said, moment = error, None
        if moment is None and said is not None:  # taking another in its place would change what the function is told
            raise InvalidMessage(where, f"its time by the rule of ForeignEvents, {self.time}, is no RFC 3339 text.")
        return moment

    def _searched(self, name: str, message: Mapping[str, Any]) -> Any:
        expression = self._compiled.get(name)
        return None if expression is None else expression.search(message)

    def _rule(self, name: str) -> str:
        path = getattr(self, name)
        return f"{name}= is not given" if path is None else f"{path} finds neither text nor a whole number"


def _compiled(name: str, path: object) -> Any:
    if not isinstance(path, str) or not path.strip():
        raise ConfigurationError(f"ForeignEvents: {name} is {shown(path)}; a JMESPath expression is needed.")
    try:
        return jmespath.compile(path)
    except JMESPathError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"ForeignEvents: {name} is {shown(path)}, which is no JMESPath: {reason}") from None


def _text(value: Any) -> str:
    """Return what a rule found as text, empty where it is nothing that an id could be."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and value and all(_text(each) for each in value if not isinstance(each, list)):
        nested = any(isinstance(each, list) for each in value)
        return "" if nested else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ""
