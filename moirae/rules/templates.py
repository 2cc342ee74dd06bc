"""Annotation templates: a subset of Jinja.

A template must not run code or exhaust the process: there are no calls and no assignments, only
the filters listed here are allowed, `*` and `%` take numbers only, the output and what `join` makes
is truncated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import (
    Environment,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    nodes,
    pass_environment,
)
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment

from moirae.errors import TemplateFault

MAX_OUTPUT = 65_536  # characters
_MAX_NODES = 2_000  # of the syntax tree: each may copy the texts within it

_FILTERS = (
    "abs capitalize count d default first float int join last length lower map max min reject "
    "reverse select sort string sum title trim truncate unique upper urlencode"
).split()
# Filters and tests that handle a missing attribute.
_ABSENCE_HANDLERS = frozenset({"default", "d", "defined", "undefined"})
_NODES: tuple[type[nodes.Node], ...] = (
    nodes.BinExpr,
    nodes.Compare,
    nodes.Concat,
    nodes.CondExpr,
    nodes.Const,
    nodes.Filter,
    nodes.For,
    nodes.Getattr,
    nodes.Getitem,
    nodes.If,
    nodes.Keyword,
    nodes.List,
    nodes.Name,
    nodes.Operand,
    nodes.Output,
    nodes.Slice,
    nodes.Template,
    nodes.TemplateData,
    nodes.Test,
    nodes.Tuple,
    nodes.UnaryExpr,
)


def find_variables(text: str) -> frozenset[str]:
    """The variables that a template reads.

    Raises `TemplateFault` for invalid syntax and for anything that templates may not do.
    """
    try:
        tree = _ENVIRONMENT.parse(text)
    except TemplateSyntaxError as error:
        raise TemplateFault(error.message or "invalid template", error.lineno) from error
    except (RecursionError, ValueError) as error:  # thousands of brackets or digits
        raise TemplateFault("template nested too deep or number too long") from error
    try:
        if _check_node(tree, in_loop=False) > _MAX_NODES:
            raise TemplateFault(f"more than {_MAX_NODES:,} values and operators in a template")
    except RecursionError as error:
        raise TemplateFault("template nested too deep") from error
    names = list(tree.find_all(nodes.Name))
    variables = frozenset(name.name for name in names if name.ctx == "load")
    loop_variables = {name.name for name in names if name.ctx == "store"}
    return variables - loop_variables - {"loop"}


def find_attributes(text: str, variable: str) -> dict[str, int]:
    """The attributes of a variable that a template requires, each with its first line (from 1).

    Attributes with a default or a test for existence are not required. Raises `TemplateFault`.
    """
    find_variables(text)
    lines: dict[str, int] = {}
    _collect_attributes(_ENVIRONMENT.parse(text), variable, lines)
    return lines


def _collect_attributes(node: nodes.Node, variable: str, lines: dict[str, int]) -> None:
    if isinstance(node, nodes.Filter | nodes.Test) and node.name in _ABSENCE_HANDLERS:
        return
    if isinstance(node, nodes.Getattr | nodes.Getitem) and isinstance(node.node, nodes.Name):
        name = node.attr if isinstance(node, nodes.Getattr) else node.arg
        name = name.value if isinstance(name, nodes.Const) else name
        if node.node.name == variable and isinstance(name, str):
            lines.setdefault(name, node.lineno)
    for child in node.iter_child_nodes():
        _collect_attributes(child, variable, lines)


def render(text: str, variables: Mapping[str, Any]) -> str:
    """Render a template, truncated to `MAX_OUTPUT`.

    Raises `TemplateFault`, also for a missing variable or attribute.
    """
    parts: list[str] = []
    length = 0
    try:
        for part in _compile_template(text).generate(**variables):
            parts.append(part)
            length += len(part)
            if length > MAX_OUTPUT:
                break
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise TemplateFault(str(error)) from error
    return "".join(parts)[:MAX_OUTPUT]


@lru_cache(maxsize=1024)
def _compile_template(text: str) -> Template:
    find_variables(text)
    return _ENVIRONMENT.from_string(text)


def _check_node(node: nodes.Node, in_loop: bool) -> int:
    """The number of nodes. Raises `TemplateFault` for what templates may not do."""
    if not isinstance(node, _NODES) or isinstance(node, nodes.Pow):
        raise TemplateFault(f"{_describe_node(node)} not allowed in a template", node.lineno)
    if isinstance(node, nodes.Filter) and node.name not in _ENVIRONMENT.filters:
        raise TemplateFault(f"unknown filter {node.name[:60]!r}", node.lineno)
    is_loop = isinstance(node, nodes.For)
    if is_loop and in_loop:  # the cost of nested loops multiplies
        raise TemplateFault("nested loops are not allowed in a template", node.lineno)
    children = node.iter_child_nodes()
    return 1 + sum(_check_node(child, in_loop or is_loop) for child in children)


def _describe_node(node: nodes.Node) -> str:
    descriptions = {nodes.Call: "calls are", nodes.Pow: "** is", nodes.Assign: "assignments are"}
    return descriptions.get(type(node), f"{type(node).__name__.lower()} is")


def _round_limited(value: float, precision: int = 0) -> float:
    """Jinja's `round` with the precision limited: its own accepts billions of digits."""
    return round(value, max(-15, min(15, precision)))


@pass_environment
def _join_truncated(
    environment: Environment,
    values: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    """Jinja's `join`, truncated as all output is: joins within joins grow by powers."""
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    separator = str(d)
    parts: list[str] = []
    length = 0
    for value in values:
        parts.append(str(value))
        length += len(parts[-1]) + len(separator)
        if length > MAX_OUTPUT + len(separator):
            break
    return separator.join(parts)[:MAX_OUTPUT]


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up items only in mappings: `event.values` is an attribute, not a method of dict."""
        if not isinstance(obj, Mapping):
            return super().getattr(obj, attribute)
        if attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple):
            raise TypeError(f"{operator} requires numbers")
        return super().call_binop(context, operator, left, right)


def _create_environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined, cache_size=0)
    environment.globals.clear()
    filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters = {**filters, "round": _round_limited, "join": _join_truncated}
    return environment


_ENVIRONMENT = _create_environment()
