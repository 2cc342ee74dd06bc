"""The rules of CONTRIBUTING.md that a parser can check: names, constants and class names."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("archiver", "benchmarks", "moirae", "recall", "sql")
MAX_PARAMETERS = 7  # without self and cls
# Decorators of kernels that numba compiles: they take arrays only.
COMPILED = ("compiled", "numba.njit")
# Participles, pronouns and words of place: they say that there is a value, not which one.
VAGUE_NAMES = frozenset(
    """around asked beside found held here it kept known left made mine more one others place
    places some that there those told wanted whole""".split()
)


@cache
def parse_packages() -> dict[str, ast.Module]:
    """Each module's syntax tree by its path below the root."""
    trees = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            trees[str(path.relative_to(ROOT))] = ast.parse(path.read_text())
    return trees


def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each variable and parameter.

    Fields of classes are left out: they are named by what is stored, columns and keys of JSON.
    """
    fields = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    fields.add(statement.target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield node.lineno, node.asname
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name


def find_vague_names(module: str, tree: ast.Module) -> list[str]:
    """`file:line: name` of each variable or parameter whose name does not tell its value.

    `left` is fine on a line that binds `right` too: the operands of an operator.
    """
    names = sorted(bound_names(tree))
    findings = []
    for line, name in names:
        is_operand = name == "left" and (line, "right") in names
        if name.strip("_") in VAGUE_NAMES and not is_operand:
            findings.append(f"{module}:{line}: {name}")
    return findings


def find_long_signatures(module: str, tree: ast.Module) -> list[str]:
    """`file:line: name` of each function outside compiled kernels with too many parameters."""
    findings = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(ast.unparse(decorator).startswith(COMPILED) for decorator in node.decorator_list):
            continue
        arguments = node.args
        names = [arg.arg for arg in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
        names += [arg.arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
        if len([name for name in names if name not in ("self", "cls")]) > MAX_PARAMETERS:
            findings.append(f"{module}:{node.lineno}: {node.name}")
    return findings


def find_packed_constants(module: str, tree: ast.Module) -> list[str]:
    """`file:line: names` of each statement that gives several constants their values."""
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    statements = [statement for scope in scopes for statement in scope.body]
    findings = []
    for statement in statements:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Tuple):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Tuple):
                findings.append(f"{module}:{statement.lineno}: {ast.unparse(target)}")
    return findings


def find_repeated_classes(trees: dict[str, ast.Module]) -> list[str]:
    """`class: files` of each public class name that several modules define."""
    modules_by_class: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_by_class[node.name].append(module)
    return [
        f"{name}: {', '.join(modules)}"
        for name, modules in sorted(modules_by_class.items())
        if len(modules) > 1
    ]


def test_names_say_what_they_hold() -> None:
    findings = []
    for module, tree in parse_packages().items():
        findings += find_vague_names(module, tree)
    assert not findings, "name these after what they hold:\n" + "\n".join(findings)


def test_functions_have_few_parameters() -> None:
    findings = []
    for module, tree in parse_packages().items():
        findings += find_long_signatures(module, tree)
    assert not findings, "group the parameters of these:\n" + "\n".join(findings)


def test_each_constant_has_a_line_of_its_own() -> None:
    findings = []
    for module, tree in parse_packages().items():
        findings += find_packed_constants(module, tree)
    assert not findings, "write one constant per line:\n" + "\n".join(findings)


def test_a_public_class_name_means_one_class() -> None:
    findings = find_repeated_classes(parse_packages())
    assert not findings, "rename one of each:\n" + "\n".join(findings)


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("found = 1", ["m.py:1: found"]),
        ("_kept = 1", ["m.py:1: _kept"]),
        ("def f(one, row): pass", ["m.py:1: one"]),
        ("for place, row in rows:\n    left: int = row", ["m.py:1: place", "m.py:2: left"]),
        ("rows = [some for some in rows]", ["m.py:1: some"]),
        ("try:\n    pass\nexcept ValueError as told:\n    pass", ["m.py:3: told"]),
        ("placement = rows.found", []),
        ("def compare(left, right): pass", []),
        ("left = 1\nright = 2", ["m.py:1: left"]),
        ("class Progress:\n    left: int", []),
    ],
)
def test_vague_names_are_found(source: str, findings: list[str]) -> None:
    assert find_vague_names("m.py", ast.parse(source)) == findings


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("A, B = 1, 2", ["m.py:1: (A, B)"]),
        ("class C:\n    A, B = 1, 2", ["m.py:2: (A, B)"]),
        ("A, B = read_pair()", []),
        ("PAIR = 1, 2", []),
        ("def f():\n    a, b = b, a", []),
    ],
)
def test_packed_constants_are_found(source: str, findings: list[str]) -> None:
    assert find_packed_constants("m.py", ast.parse(source)) == findings


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("def f(a, b, c, d, e, f, g): pass", []),
        ("def f(a, b, c, d, *, e, f, g, h): pass", ["m.py:1: f"]),
        ("async def f(a, /, b, c, d, e, f, *g, **h): pass", ["m.py:1: f"]),
        ("class C:\n    def f(self, a, b, c, d, e, f, g): pass", []),
        ("@compiled\ndef f(a, b, c, d, e, f, g, h): pass", []),
        ("@numba.njit(cache=True)\ndef f(a, b, c, d, e, f, g, h): pass", []),
    ],
)
def test_long_signatures_are_found(source: str, findings: list[str]) -> None:
    assert find_long_signatures("m.py", ast.parse(source)) == findings


def test_repeated_classes_are_found() -> None:
    trees = {
        "a.py": ast.parse("class Row: pass\nclass _State: pass"),
        "b.py": ast.parse("class Row: pass\nclass _State: pass"),
    }
    assert find_repeated_classes(trees) == ["Row: a.py, b.py"]
