"""No class holds more than a reader can keep in mind."""

import ast
from collections.abc import Iterator
from pathlib import Path

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


def is_mutable_dataclass(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass that is not frozen; a frozen one is a record."""
    for decorator in node.decorator_list:
        options: list[ast.keyword] = []
        if isinstance(decorator, ast.Call):
            decorator, options = decorator.func, decorator.keywords
        if isinstance(decorator, ast.Name) and decorator.id == "dataclass":
            return all(option.arg != "frozen" for option in options)
    return False


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that `__init__` sets, and the fields of a dataclass."""
    names: set[str] = set()
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            names |= attributes_set(member)
        elif isinstance(member, ast.AnnAssign) and is_mutable_dataclass(node):
            names.add(ast.unparse(member.target))
    return names


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """All classes with their full names."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    yield f"{path.relative_to(ROOT)}: {node.name}", node


def test_no_class_sets_more_than_fifteen_attributes() -> None:
    counts = {name: len(attributes(node)) for name, node in classes()}
    assert counts["moirae/live/loop.py: LiveProcess"] > 10, "fields of dataclasses count"
    assert {name: count for name, count in counts.items() if count > MAX_ATTRIBUTES} == {}
