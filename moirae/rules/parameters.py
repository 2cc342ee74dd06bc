"""Constants of a rule: in its SQL, `:threshold` stands for the value of `threshold`. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from sqlglot import TokenError, TokenType, exp
from sqlglot.dialects import Spark

from moirae.documents import KeyPath
from moirae.rules.model import AlertSpec
from moirae.rules.templates import find_attributes

ParameterValue = int | float | str | bool

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TABLE_KEYS = ("context", "surroundings", "recall")


class _Reference(NamedTuple):
    """`:name` in a text, from `start` to before `end`."""

    name: str
    start: int
    end: int


def fill_rule(spec: AlertSpec, values: Mapping[str, ParameterValue]) -> AlertSpec:
    """A rule with the values in its SQL. They are those of its parameters from then on."""
    fill = partial(fill_parameters, values=values)
    return _map_sql(spec, fill).model_copy(update={"parameters": dict(values)})


def find_used_parameters(spec: AlertSpec) -> set[str]:
    """The parameters that SQL and annotations of a rule name."""
    names: set[str] = set()
    for template in spec.annotations.values():
        names.update(find_attributes(template, "parameters"))

    def collect(text: str) -> str:
        names.update(reference.name for reference in _find_references(text, spec.parameters))
        return text

    _map_sql(spec, collect)
    return names


def fill_parameters(text: str, values: Mapping[str, ParameterValue]) -> str:
    """SQL with literals in place of `:name`. Strings, comments and other names stay."""
    parts: list[str] = []
    end = 0
    for reference, literal in _find_literals(text, values):
        parts += [text[end : reference.start], literal]
        end = reference.end
    return "".join([*parts, text[end:]])


def find_source_column(
    text: str, values: Mapping[str, ParameterValue], line: int, column: int
) -> int:
    """The column in SQL as written, of a column (from 1) of the same line after it was filled in."""
    line_start = 0
    for _ in range(line - 1):
        line_start = text.find("\n", line_start) + 1
    shift = 0
    for reference, literal in _find_literals(text, values):
        if reference.start < line_start:
            continue
        first = reference.start - line_start + shift + 1
        if "\n" in text[line_start : reference.start] or column < first:
            break
        if column < first + len(literal):
            return first - shift
        shift += len(literal) - (reference.end - reference.start)
    return column - shift


def get_sql(spec: AlertSpec, path: KeyPath) -> str | None:
    """The text at a path of a rule, such as `context`, `own`, `sql`; None: it has none."""
    value: Any = spec
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, tuple) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            value = getattr(value, str(key), None)
    return value if isinstance(value, str) else None


def _map_sql(spec: AlertSpec, change: Callable[[str], str]) -> AlertSpec:
    """A copy of a rule with changed SQL."""
    update: dict[str, Any] = {}
    for key in ("expr", "where"):
        text = getattr(spec, key)
        update[key] = None if text is None else change(text)
    for key in _TABLE_KEYS:
        update[key] = {name: _change(query, change) for name, query in getattr(spec, key).items()}
    update["then"] = tuple(_change(stage, change) for stage in spec.then)
    return spec.model_copy(update=update)


def _change(query: Any, change: Callable[[str], str]) -> Any:
    """A query with changed SQL; similarity recalls have none."""
    if not hasattr(query, "sql"):
        return query
    return query.model_copy(update={"sql": change(query.sql)})


def _find_literals(
    text: str, values: Mapping[str, ParameterValue]
) -> Iterator[tuple[_Reference, str]]:
    for reference in _find_references(text, values):
        literal = _format_literal(values[reference.name])
        if literal.startswith("-") and text[: reference.start].endswith("-"):
            literal = f" {literal}"  # two would begin a comment
        yield reference, literal


def _find_references(text: str, names: Mapping[str, Any]) -> Iterator[_Reference]:
    if not names or ":" not in text:
        return
    try:
        tokens = Spark().tokenize(text)
    except TokenError:  # the check of the query reports it
        return
    for token in tokens:
        if token.token_type != TokenType.COLON:
            continue
        name = _NAME.match(text, token.end + 1)
        if name is not None and name[0] in names:
            yield _Reference(name[0], token.start, name.end())


def _format_literal(value: ParameterValue) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return exp.Literal.string(value).sql(dialect="spark")
    return repr(value)
