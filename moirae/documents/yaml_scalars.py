"""Scalars of YAML files: their values, and the position of each character in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

# The core schema of YAML 1.2, with _ allowed between digits.
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_DECIMAL = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*", re.ASCII)
_OTHER_BASE = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
# Longer numbers are text: Python limits the conversion of thousands of digits.
_MAX_DIGITS = 40

_MAX_SHOWN = 60  # characters of a value in a message

_VISIBLE = re.compile(r"\S")
_SINGLE_QUOTED = re.compile(r"''|\S")
_DOUBLE_QUOTED = re.compile(r"\\(?:x..|u.{4}|U.{8}|\n|.)|\S", re.DOTALL)
_CHARACTER_PATTERNS = {"'": _SINGLE_QUOTED, '"': _DOUBLE_QUOTED}
_BLANK_ESCAPES = frozenset("\\" + letter for letter in "\n \ttnvfrNLP_")


class Position(NamedTuple):
    """A line and a column of a file, from 1."""

    line: int
    column: int


class YamlInt(int):
    """An integer with its spelling in the file, for keys that take text."""

    source_text: str


class YamlFloat(float):
    """A float with its spelling in the file, for keys that take text."""

    source_text: str


class ScalarSpan(NamedTuple):
    """Start and end index of a scalar in the source, including quotes and the header of a block."""

    start: int
    end: int
    style: str  # "", "'", '"', "|" or ">"


def plain_value(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _DECIMAL.fullmatch(text):
        return _make_int(int(text), text)
    if _OTHER_BASE.fullmatch(text):
        return _make_int(int(text, 0), text)
    if _FLOAT.fullmatch(text):
        return _make_float(float(text), text)
    if _NOT_FINITE.fullmatch(text):
        return _make_float(float(text.replace(".", "")), text)
    return text


def _make_int(value: int, source_text: str) -> YamlInt:
    number = YamlInt(value)
    number.source_text = source_text
    return number


def _make_float(value: float, source_text: str) -> YamlFloat:
    number = YamlFloat(value)
    number.source_text = source_text
    return number


def format_value(value: object) -> str:
    """A value as shown in messages: escaped, and cut after 60 characters."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(getattr(value, "source_text", value))
    if isinstance(value, str):
        if len(value) > _MAX_SHOWN:
            value = value[:_MAX_SHOWN] + "…"
        return repr(value)
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping"


def position_at(text: str, index: int) -> Position:
    """The position of an index."""
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def content_position(text: str, scalar: ScalarSpan, start: Position) -> Position:
    """The position of the content of a scalar at `start`: of a block, below its header."""
    if scalar.style not in ("|", ">"):
        return start
    first = next(_visible_indexes(text, scalar), None)
    if first is None:
        return start
    lines = text.count("\n", scalar.start, first)
    return Position(start.line + lines, first - text.rfind("\n", 0, first))


def source_position(text: str, scalar: ScalarSpan, value: str, line: int, column: int) -> Position:
    """The position in the file of `line` and `column` (from 1) of a scalar's value.

    Folding and indentation change white space only, so the n-th visible character of the value is
    the n-th of the source. For white space, it is the next visible character; past the end, the
    position after the last one.
    """
    lines = value.split("\n")
    before = "".join(lines[: line - 1]) + "".join(lines[line - 1 : line])[: max(column - 1, 0)]
    count = sum(1 for _ in _VISIBLE.finditer(before))
    indexes = list(islice(_visible_indexes(text, scalar), max(count - 1, 0), count + 1))
    if not indexes:
        return position_at(text, scalar.start)
    is_past_end = count > 0 and len(indexes) == 1
    return position_at(text, indexes[-1] + is_past_end)


def _visible_indexes(text: str, scalar: ScalarSpan) -> Iterator[int]:
    """The indexes of the visible characters of a scalar; an escape counts as one, at its start."""
    start, end = scalar.start, scalar.end
    if scalar.style in ("|", ">"):
        header_end = text.find("\n", start, end)
        if header_end < 0:
            header_end = end
        start = header_end
    elif scalar.style:
        start, end = start + 1, end - 1
    pattern = _CHARACTER_PATTERNS.get(scalar.style, _VISIBLE)
    for match in pattern.finditer(text, start, end):
        if not _is_blank_escape(match[0]):
            yield match.start()


def _is_blank_escape(source: str) -> bool:
    if source[0] != "\\" or len(source) == 1:
        return False
    if source[1] in "xuU":
        return chr(int(source[2:], 16)).isspace()
    return source in _BLANK_ESCAPES
