"""What the functions of a template come to: `Ref`, `Fn::GetAtt`, `Fn::Sub` and the others, as far as it says itself.

The account and the Region are those of `inventory`'s words. A parameter is what the user gave, or its default. What is
known only when it is deployed is `Unseen`, and so is whatever is made of it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Unseen

__all__ = ["NOTHING", "Values", "is_reference"]

NOTHING: Any = object()
"""What `AWS::NoValue` comes to: the property is not there."""

_PSEUDO = {
    "AWS::Region": ANY_REGION,
    "AWS::AccountId": ANY_ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::StackId": "stack",
    "AWS::NoValue": NOTHING,
}
_INSIDE = re.compile(r"\$\{(!?)([^}]*)\}")
_RESOLVED = "{{resolve:"


class Values:
    """Works out values of a template. `refer` says what `Ref` and `GetAtt` of a resource are."""

    def __init__(
        self, template: Mapping[str, Any], given: Mapping[str, str], refer: Callable[[str, str | None], Any]
    ) -> None:
        self._parameters: Mapping[str, Any] = template.get("Parameters") or {}
        self._mappings: Mapping[str, Any] = template.get("Mappings") or {}
        self._conditions: Mapping[str, Any] = template.get("Conditions") or {}
        self._given = given
        self._refer = refer
        self._asked: list[str] = []

    def of(self, said: Any) -> Any:
        """Return what a value comes to; NOTHING for one that is to be left out."""
        if isinstance(said, Mapping):
            if len(said) == 1:
                ((word, content),) = said.items()
                if word in self._WORDS or str(word).startswith("Fn::"):
                    worked = self._WORDS.get(word)
                    return worked(self, content) if worked else Unseen(f"{word} is not worked out")
            return self._mapping(said)
        if isinstance(said, list):
            return [found for found in map(self.of, said) if found is not NOTHING]
        if isinstance(said, str) and _RESOLVED in said:
            return Unseen(f"{said} is known only when it is deployed")
        return said

    def branch(self, said: Any) -> Any:
        """Return the branch of an `Fn::If` that counts, as it stands; any other value as it is. May be NOTHING."""
        while isinstance(said, Mapping) and set(said) == {"Fn::If"}:
            content = said["Fn::If"]
            truth = self.holds(str(content[0]))
            if isinstance(truth, Unseen) and content[1] != content[2]:
                return truth
            said = content[1] if truth else content[2]
        return NOTHING if said == {"Ref": "AWS::NoValue"} else said

    def part(self, said: Any) -> Mapping[str, Any] | Unseen:
        """Return a mapping whose values are as they stand, an empty one for nothing.

        Raises TypeError for what is no mapping.
        """
        found = self.branch(said)
        if found is None or found is NOTHING:
            return {}
        if isinstance(found, Mapping):
            word = _word_in(found)
            return found if word is None else Unseen(f"{word} is not worked out")
        if isinstance(found, Unseen):
            return found
        raise TypeError(f"{found!r} is no mapping")

    def holds(self, name: str) -> bool | Unseen:
        """Return whether a condition holds, by its name."""
        if name in self._asked or name not in self._conditions:
            return Unseen(f"the condition {name}")
        self._asked.append(name)
        try:
            return self._truth(self._conditions[name])
        finally:
            self._asked.pop()

    def _mapping(self, said: Mapping[str, Any]) -> dict[str, Any] | Unseen:
        word = _word_in(said)
        if word is not None:
            return Unseen(f"{word} is not worked out")
        found = {}
        for name, inner in said.items():
            value = self.of(inner)
            if value is not NOTHING:
                found[str(name)] = value
        return found

    def _ref(self, name: Any) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if str(name).startswith("AWS::"):
            return Unseen(f"{name} is known only when it is deployed")
        if name in self._parameters:
            return self._parameter(str(name))
        return self._refer(str(name), None)

    def _parameter(self, name: str) -> Any:
        told = self._parameters[name]
        kind, default = str(told.get("Type", "String")), told.get("Default")
        value = self._given.get(name, default)
        if value is None or kind.startswith("AWS::SSM::"):
            return Unseen(f"the parameter {name} (--parameter {name}=...)")
        if kind == "CommaDelimitedList" or kind.startswith("List<"):
            return [each.strip() for each in str(value).split(",")]
        return value

    def _get_att(self, said: Any) -> Any:
        parts = said.split(".", 1) if isinstance(said, str) else list(said)
        if len(parts) != 2 or not all(isinstance(each, str) for each in parts):  # noqa: PLR2004 -- a resource, its part
            return Unseen(f"Fn::GetAtt {said}")
        return self._refer(parts[0], parts[1])

    def _sub(self, said: Any) -> Any:
        text, own = (said, {}) if isinstance(said, str) else (said[0], said[1])
        hidden: list[Unseen] = []

        def inside(found: re.Match[str]) -> str:
            if found[1]:
                return "${" + found[2] + "}"
            name = found[2].strip()
            value = self.of(own[name]) if name in own else self._named(name)
            if isinstance(value, Unseen):
                hidden.append(value)
            return str(value)

        filled = _INSIDE.sub(inside, text)
        return hidden[0] if hidden else self.of(filled)

    def _named(self, name: str) -> Any:
        return self._get_att(name) if "." in name else self._ref(name)

    def _join(self, said: Any) -> Any:
        between, parts = said[0], self.of(said[1])
        hidden = _hidden(parts)
        return hidden if hidden is not None else str(between).join(map(str, parts))

    def _select(self, said: Any) -> Any:
        place, values = self.of(said[0]), self.of(said[1])
        hidden = _hidden([place]) or (values if isinstance(values, Unseen) else None)
        if hidden is not None:
            return hidden
        return values[int(place)] if int(place) < len(values) else Unseen("Fn::Select of a list that is shorter")

    def _split(self, said: Any) -> Any:
        text = self.of(said[1])
        return text if isinstance(text, Unseen) else str(text).split(said[0])

    def _find(self, said: Any) -> Any:
        names = self.of(list(said[:3]))
        hidden = _hidden(names)
        if hidden is not None:
            return hidden
        found: Any = self._mappings
        for name in names:
            found = found.get(str(name)) if isinstance(found, Mapping) else None
        return self.of(found) if found is not None else Unseen(f"Fn::FindInMap {'/'.join(map(str, names))}")

    def _if(self, said: Any) -> Any:
        truth = self.holds(str(said[0]))
        if isinstance(truth, Unseen):
            yes, no = self.of(said[1]), self.of(said[2])
            return yes if yes is no or yes == no else truth
        return self.of(said[1] if truth else said[2])

    def _imported(self, said: Any) -> Any:
        name = self.of(said)
        return name if isinstance(name, Unseen) else Unseen(f"{name}, which another stack exports")

    def _base64(self, said: Any) -> Any:
        text = self.of(said)
        return text if isinstance(text, Unseen) else base64.b64encode(str(text).encode()).decode("ascii")

    def _json(self, said: Any) -> Any:
        value = self.of(said)
        hidden = _hidden(value)
        return hidden if hidden is not None else json.dumps(value)

    def _truth(self, said: Any) -> bool | Unseen:
        if not isinstance(said, Mapping) or len(said) != 1:
            return Unseen("a condition")
        ((word, content),) = said.items()
        if word == "Condition":
            return self.holds(str(content))
        if word == "Fn::Equals":
            return self._equals(content)
        parts = [self._truth(each) for each in content]
        hidden = next((each for each in parts if isinstance(each, Unseen)), None)
        if word == "Fn::And":
            return False if False in parts else hidden or True
        if word == "Fn::Or":
            return True if True in parts else hidden or False
        return hidden or not parts[0]

    def _equals(self, said: Any) -> bool | Unseen:
        values = [self.of(each) for each in said]
        unknown = next((each for each in values if _varies(each)), None)
        if unknown is not None:
            return unknown if isinstance(unknown, Unseen) else Unseen("the account and the Region")
        return str(values[0]) == str(values[1])

    _WORDS: ClassVar[Mapping[Any, Callable[[Values, Any], Any]]] = {
        "Ref": _ref,
        "Fn::GetAtt": _get_att,
        "Fn::Sub": _sub,
        "Fn::Join": _join,
        "Fn::ImportValue": _imported,
        "Fn::Select": _select,
        "Fn::Split": _split,
        "Fn::FindInMap": _find,
        "Fn::If": _if,
        "Fn::Base64": _base64,
        "Fn::ToJsonString": _json,
    }
    """The functions that are worked out, by their names."""


def is_reference(said: Mapping[Any, Any]) -> bool:
    """Whether a mapping stands for another value."""
    return len(said) == 1 and _word_in(said) is not None


def _word_in(said: Mapping[Any, Any]) -> str | None:
    """Return the function of the template language that is in a mapping, by itself or among other names."""
    names = map(str, said)
    return next((each for each in names if each.startswith("Fn::") or (each == "Ref" and len(said) == 1)), None)


def _varies(value: Any) -> bool:
    return isinstance(value, Unseen) or ANY_REGION in str(value) or ANY_ACCOUNT in str(value)


def _hidden(value: Any) -> Unseen | None:
    """Return what was not seen of a value, at any depth."""
    if isinstance(value, Unseen):
        return value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next((found for found in map(_hidden, inner) if found is not None), None)
