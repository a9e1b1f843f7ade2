"""The Terraform rendering: HCL that parses, arguments that the provider has, and what the description says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_back import canonical, outputs
from read_terraform import BLOCK, Configuration, parsed

from deployments import DEPLOYMENTS
from dynamodb_outbox.infra.hcl import Block, Call, Expression, Template, hcl_text
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.terraform import terraform

if TYPE_CHECKING:
    from dynamodb_outbox.infra.deployment import Deployment

KNOWN = json.loads((Path(__file__).parent / "terraform_arguments.json").read_text(encoding="utf-8"))
"""Arguments and blocks of the provider for AWS (6.25), of the types that are used; of blocks that are used, theirs."""

EVERYWHERE = {"depends_on", "lifecycle"}

every = pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)


@every
def test_terraform_says_what_is_described(deployment: Deployment) -> None:
    """Read back, argument by argument, it is the description; and so are its outputs."""
    resources = resources_of(deployment)
    configuration = Configuration(terraform(deployment, "outbox.zip"))
    assert {id_: canonical(each, resources[0]) for id_, each in configuration.read().items()} == {
        each.id: canonical(each, resources[0]) for each in resources
    }
    assert configuration.outputs == outputs(resources)


def unknown(body: dict[str, Any], known: dict[str, Any], path: str) -> list[str]:
    """Return the arguments and blocks of a body that the provider does not have."""
    found = []
    for name, value in body.items():
        blocks = (
            value if isinstance(value, list) and any(isinstance(one, dict) and BLOCK in one for one in value) else []
        )
        if name in EVERYWHERE or name == BLOCK:
            continue
        if name not in known or bool(blocks) is (known[name] is None):
            found.append(f"{path}.{name}")
        for each in blocks if isinstance(known.get(name), dict) else ():
            found += unknown(each, known[name], f"{path}.{name}")
    return found


@every
def test_the_provider_has_every_argument(deployment: Deployment) -> None:
    """A misspelt one would be told by `terraform validate`, which cannot run here; a block is no argument."""
    document = parsed(terraform(deployment, "outbox.zip"))
    found = []
    for kind, where in (("data", "data."), ("resource", "")):
        for each in document.get(kind, ()):
            ((type_, inner),) = each.items()
            for body in inner.values():
                found += unknown(body, KNOWN[where + type_.strip('"')], type_)
    assert found == []


def test_an_argument_that_there_is_not_is_found() -> None:
    """And a block in the place of an argument, and the reverse."""
    table = KNOWN["aws_dynamodb_table"]
    assert unknown({"namme": 1, "name": [{BLOCK: True}], "ttl": 5}, table, "t") == ["t.namme", "t.name", "t.ttl"]
    assert unknown({"ttl": [{BLOCK: True, "enable": True}]}, table, "t") == ["t.ttl.enable"]


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters='\n\t$%{}"\\'))
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.integers(-(10**9), 10**9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.from_regex(r"[a-z:]{1,5}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES)
def test_any_value_is_read_as_what_it_was(value: Any) -> None:
    """As an argument, and inside of a call; by another implementation of HCL."""
    text = hcl_text([Block("locals", (), {"plain": value, "encoded": Call("jsonencode", [value])})])
    (found,) = parsed(text)["locals"]
    reader = Configuration("")
    assert reader.plain(found["plain"]) == value
    assert reader.plain(found["encoded"]) == [value]


def test_a_file_looks_as_terraform_fmt_leaves_it() -> None:
    """Signs in a column where neighbours have one line; blocks apart; here-documents at the margin."""
    lines = Template(("{\n", Expression("a.b"), "\n}"))
    inner = Block("in", (), {"x": 1}, (Block("empty"),))
    text = hcl_text(
        [Block("out", ("a", "b"), {"one": 1, "three": [True], "m": {"k": "v"}, "h": lines, "z": "$x"}, (inner,))]
    )
    assert text == (
        'out "a" "b" {\n'
        "  one   = 1\n"
        "  three = [true]\n"
        "  m = {\n"
        '    k = "v"\n'
        "  }\n"
        "  h = <<EOT\n"
        "{\n${a.b}\n}\n"
        "EOT\n"
        '  z = "$x"\n'
        "\n"
        "  in {\n"
        "    x = 1\n"
        "\n"
        "    empty {}\n"
        "  }\n"
        "}\n"
    )
