"""YAML is the same tree whichever parser reads it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.documents import yaml_nodes
from moirae.documents.yaml_nodes import YamlNode, YamlTree, parse_tree
from tests.examples import examples

_EXAMPLES = sorted(Path(yaml_nodes.__file__).parents[1].glob("examples/**/*.yaml"))
_PIECES = [
    "a: 1\n",
    "b: text of several words\n",
    "c: [1, -2.5, true, null, ~]\n",
    "d: {e: \"x\\u00e9\\n\", f: 'it''s'}\n",
    "g: |\n  SELECT host\n  FROM cpu -- é\n",
    "h: >-\n  folded\n  text\n\n",
    "i:\n- j: 1\n  k:\n-\n- [l, {m: n}]\n",
    "# a comment: é\n",
    "o:\n",
    "a: 2\n",
    "p: .inf\n",
    "q: &r [s]\n",
    "t: *r\n",
    "u: !v w\n",
    "x: [y\n",
    "---\n",
    '"z": 0x1F\n',
]


def describe(node: YamlNode | None) -> Any:
    """Where and what a node is. Spans are for the text of a value, and null has none."""
    if node is None:
        return None
    children = [(key, describe(child)) for key, child in node.children.items()]
    span = node.span if node.value is not None else None
    return node.position, node.kind, repr(node.value), span, node.keys, children


def describe_tree(tree: YamlTree) -> Any:
    return describe(tree.root), tree.problems, tree.is_complete


def parse_in_python(monkeypatch: pytest.MonkeyPatch, text: str) -> YamlTree:
    with monkeypatch.context() as context:
        context.setattr(yaml_nodes.yaml, "__with_libyaml__", False)
        return parse_tree(text)


@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: "-".join(file.parts[-2:]))
def test_examples_are_read_alike(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    text = file.read_text()
    assert describe_tree(parse_tree(text)) == describe_tree(parse_in_python(monkeypatch, text))


@examples(50)
@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=6).map("".join))
def test_any_text_is_read_alike(text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = describe_tree(parse_in_python(monkeypatch, text))
    assert describe_tree(parse_tree(text)) == expected


def test_tab_is_refused_as_separator() -> None:
    tree = parse_tree("a:\tb\nc\td: 1\n")
    assert not tree.is_complete
