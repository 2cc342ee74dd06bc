"""Annotation templates: a subset of Jinja.

A template must not run code or exhaust the process: there are no calls and no assignments, only
the filters listed here are allowed, `*` and `%` take numbers only, the output and what `join` and
`~` make is truncated, and whatever runs for long looks at the deadline: loops, filters, look-ups.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
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
from jinja2.visitor import NodeTransformer

from moirae.errors import TemplateFault

MAX_OUTPUT = 65_536  # characters
MAX_TIME = 1.0  # seconds of the processor that a template may compute
_MAX_NODES = 2_000  # of the syntax tree: each may copy the texts within it

_MAX_DEPTH = 60  # of the syntax tree: Python takes 200 brackets in one another
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)
_LOOP_FILTER = "each item"  # no template can name it

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
        count = _check_node(tree, in_loop=False, depth=1)
    except RecursionError as error:
        raise TemplateFault("template nested too deep") from error
    if count > _MAX_NODES:
        raise TemplateFault(f"more than {_MAX_NODES:,} values and operators in a template")
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
    template = _compile_template(text)
    previous = _DEADLINE.set(time.thread_time() + MAX_TIME)
    try:
        for part in template.generate(**variables):
            parts.append(part)
            length += len(part)
            if length > MAX_OUTPUT:
                break
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise TemplateFault(str(error)) from error
    finally:
        _DEADLINE.reset(previous)
    return "".join(parts)[:MAX_OUTPUT]


@lru_cache(maxsize=1024)
def _compile_template(text: str) -> Template:
    find_variables(text)
    return _ENVIRONMENT.from_string(_limit(_ENVIRONMENT.parse(text)))


def _limit(tree: nodes.Template) -> nodes.Template:
    """The template with loops that look at the deadline and `~` that is truncated."""
    _Limits().visit(tree)
    return tree


class _Limits(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        node.iter = self._apply_filter(_LOOP_FILTER, node.iter)
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        values = nodes.List(node.nodes, lineno=node.lineno)
        return self.generic_visit(self._apply_filter("join", values))

    def _apply_filter(self, name: str, value: nodes.Node) -> nodes.Filter:
        return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


def _check_deadline() -> None:
    if time.thread_time() > _DEADLINE.get():
        raise TemplateFault(f"template computes longer than {MAX_TIME:g} s")


def _check_each(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _check_deadline()
        yield value


def _limit_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that looks at the deadline, also for each item that it yields."""

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        _check_deadline()
        result = function(*args, **kwargs)
        return _check_each(result) if isinstance(result, Iterator) else result

    return limited


def _check_node(node: nodes.Node, in_loop: bool, depth: int) -> int:
    """The number of nodes. Raises `TemplateFault` for what templates may not do."""
    if depth > _MAX_DEPTH:
        message = f"template nested too deep: more than {_MAX_DEPTH} operators, filters or blocks in one another"
        raise TemplateFault(message, node.lineno)
    if not isinstance(node, _NODES) or isinstance(node, nodes.Pow):
        raise TemplateFault(f"{_describe_node(node)} not allowed in a template", node.lineno)
    if isinstance(node, nodes.Filter) and node.name not in _ENVIRONMENT.filters:
        raise TemplateFault(f"unknown filter {node.name[:60]!r}", node.lineno)
    is_loop = isinstance(node, nodes.For)
    if is_loop and in_loop:  # the cost of nested loops multiplies
        raise TemplateFault("nested loops are not allowed in a template", node.lineno)
    children = node.iter_child_nodes()
    return 1 + sum(_check_node(child, in_loop or is_loop, depth + 1) for child in children)


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
        _check_deadline()
        if not isinstance(obj, Mapping):
            return super().getattr(obj, attribute)
        if attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _check_deadline()
        if isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple):
            raise TypeError(f"{operator} requires numbers")
        return super().call_binop(context, operator, left, right)


def _create_environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined, cache_size=0)
    environment.globals.clear()
    filters = {name: environment.filters[name] for name in _FILTERS}
    filters |= {"round": _round_limited, "join": _join_truncated}
    environment.filters = {name: _limit_time(function) for name, function in filters.items()}
    environment.filters[_LOOP_FILTER] = _check_each
    return environment


_ENVIRONMENT = _create_environment()
