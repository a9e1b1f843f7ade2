"""A template's text as mappings and lists: JSON, or YAML with CloudFormation's short forms.

YAML is read by PyYAML, of the extra [cli], without its dates: a policy's version is text. JSON needs nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.words import extra

__all__ = ["parsed"]

_LONG = {"Ref": "Ref", "Condition": "Condition"}
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MOST_VALUES = 500_000


def parsed(text: str) -> dict[str, Any]:
    """Return a template. Raises ConfigurationError for text that is none."""
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
        size = _size(found, {})
    except RecursionError:
        raise ConfigurationError("it is nested too deeply.") from None
    except ValueError as error:
        raise ConfigurationError(f"it is neither JSON nor YAML: {error}") from None
    if size > _MOST_VALUES:
        raise ConfigurationError(
            f"it comes to more than {_MOST_VALUES:,} values, by anchors that repeat one another; a template of "
            "CloudFormation has 1 MB at most."
        )
    if not isinstance(found, dict) or not isinstance(found.get("Resources"), Mapping):
        raise ConfigurationError(
            "it has no Resources, as a template of CloudFormation or SAM has. Of the CDK, `cdk synth` writes one; of "
            "the Serverless framework, `serverless package`, into .serverless/."
        )
    return found


def _size(said: Any, known: dict[int, int]) -> int:
    """Count the values in a value as if each anchor were written out. None holds itself: PyYAML refuses that."""
    if not isinstance(said, (dict, list)):
        return 1
    if id(said) not in known:
        inner = said.values() if isinstance(said, dict) else said
        known[id(said)] = 1 + sum(_size(each, known) for each in inner)
    return known[id(said)]


def _yaml(text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 -- of an extra, which JSON does without
    except ImportError:
        raise ConfigurationError(
            f"YAML cannot be read without the package PyYAML. Install the extra [cli]: {extra('cli')}; or give the "
            "template as JSON."
        ) from None
    loader = _loader(yaml)
    try:
        return yaml.load(text, loader)  # noqa: S506 -- a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """YAML as CloudFormation has it."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, expression) for tag, expression in known if tag != _TIMESTAMP]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def short(loader: Any, tag: str, node: Any) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            content: Any = loader.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            content = loader.construct_sequence(node, deep=True)
        else:
            content = loader.construct_mapping(node, deep=True)
        if tag == "GetAtt" and isinstance(content, str):
            content = content.split(".", 1)
        return {_LONG.get(tag, f"Fn::{tag}"): content}

    def once(loader: Any, node: Any) -> dict[Any, Any]:
        own = [loader.construct_object(key, deep=True) for key, _ in node.value if key.tag != _MERGE]
        counts = Counter(map(repr, own))
        twice = next((each for each in own if counts[repr(each)] > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} stands twice", node.start_mark)
        loader.flatten_mapping(node)
        pairs = ((loader.construct_object(key, deep=True), value) for key, value in node.value)
        return {key: loader.construct_object(value, deep=True) for key, value in pairs}

    Loader.add_multi_constructor("!", short)
    Loader.add_constructor("tag:yaml.org,2002:map", once)
    return Loader
