"""The scalars of a YAML file: what they mean, and where each of their characters stands in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

# The core schema of YAML 1.2, and _ between digits.
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
# Longer digits are text: Python refuses to read thousands of them, and nothing counts so far.
_MAX_DIGITS = 40

_VISIBLE = re.compile(r"\S")
_SINGLE_QUOTED = re.compile(r"''|\S")
_DOUBLE_QUOTED = re.compile(r"\\(?:x..|u.{4}|U.{8}|\n|.)|\S", re.DOTALL)
_BLANK_ESCAPES = frozenset("\\" + letter for letter in "\n \ttnvfrNLP_")


class Position(NamedTuple):
    """A place in a file; both count from 1."""

    line: int
    column: int


class YamlInt(int):
    """An integer that remembers its spelling, for where text is wanted after all."""

    source_text: str


class YamlFloat(float):
    """A float that remembers its spelling, for where text is wanted after all."""

    source_text: str


class ScalarSpan(NamedTuple):
    """Where a scalar stands in the source, by indexes; quotes and a block's header are part of it."""

    start: int
    end: int
    style: str  # "", "'", '"', "|" or ">"


def plain_value(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means."""
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


def _make_int(value: int, written: str) -> YamlInt:
    number = YamlInt(value)
    number.source_text = written
    return number


def _make_float(value: float, written: str) -> YamlFloat:
    number = YamlFloat(value)
    number.source_text = written
    return number


def format_value(value: object) -> str:
    """A value in a message: escaped, and cut when long."""
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return str(getattr(value, "source_text", value))
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "…")
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def position_at(text: str, index: int) -> Position:
    """The line and column of an index."""
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def content_position(text: str, scalar: ScalarSpan, start: Position) -> Position:
    """Where the content of a scalar that starts at `start` begins: of a block, below its header."""
    first = next(_visible_indexes(text, scalar), None) if scalar.style in ("|", ">") else None
    if first is None:
        return start
    lines = text.count("\n", scalar.start, first)
    return Position(start.line + lines, first - text.rfind("\n", 0, first))


def source_position(text: str, scalar: ScalarSpan, value: str, line: int, column: int) -> Position:
    """Where the character at `line` and `column` (from 1) of a scalar's value stands in the file.

    Folding and indentation change only white space, so the n-th visible character of the value is the n-th of
    the source. White space gives the visible character behind it, what lies past the end the last place.
    """
    lines = value.split("\n")
    before = "".join(lines[: line - 1]) + "".join(lines[line - 1 : line])[: max(column - 1, 0)]
    count = sum(1 for _ in _VISIBLE.finditer(before))
    found = list(islice(_visible_indexes(text, scalar), max(count - 1, 0), count + 1))
    if not found:
        return position_at(text, scalar.start)
    is_past_end = count > 0 and len(found) == 1
    return position_at(text, found[-1] + is_past_end)


def _visible_indexes(text: str, scalar: ScalarSpan) -> Iterator[int]:
    """The indexes of a scalar's visible characters; an escape counts where it begins."""
    start, end = scalar.start, scalar.end
    if scalar.style in ("|", ">"):
        header_end = text.find("\n", start, end)
        start = end if header_end < 0 else header_end
        shape = _VISIBLE
    elif scalar.style:
        start, end = start + 1, end - 1
        shape = _SINGLE_QUOTED if scalar.style == "'" else _DOUBLE_QUOTED
    else:
        shape = _VISIBLE
    return (m.start() for m in shape.finditer(text, start, end) if not _is_blank_escape(m[0]))


def _is_blank_escape(source: str) -> bool:
    if source[0] != "\\" or len(source) == 1:
        return False
    if source[1] in "xuU":
        return chr(int(source[2:], 16)).isspace()
    return source in _BLANK_ESCAPES
