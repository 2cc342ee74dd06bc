"""No class holds more than a reader can keep in mind."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from moirae.live.loop import LiveProcess

ROOT = Path(__file__).parents[2]
PACKAGES = ("archiver", "moirae", "recall", "sql")
MAX_ATTRIBUTES = 15


def attributes_set(initializer: ast.FunctionDef) -> set[str]:
    """The attributes of `self` that an `__init__` assigns."""
    names = set()
    for node in ast.walk(initializer):
        is_stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_stored and isinstance(node.value, ast.Name) and node.value.id == "self":
            names.add(node.attr)
    return names


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """All classes with their full names."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    yield f"{path.relative_to(ROOT)}: {node.name}", node


def test_no_class_sets_more_than_fifteen_attributes() -> None:
    too_large = {}
    for name, node in classes():
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                count = len(attributes_set(member))
                if count > MAX_ATTRIBUTES:
                    too_large[name] = count
    assert not too_large


def test_live_process_has_at_most_fifteen_parts() -> None:
    assert len(fields(LiveProcess)) <= MAX_ATTRIBUTES
