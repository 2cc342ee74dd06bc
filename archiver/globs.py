"""Globs of files: `*`, `?`, `[…]` with `!` or `^`, `{a,b}`; a backslash takes away the meaning.

`*` matches no slash. Names that begin with a dot are hidden from wildcards. No I/O.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

_MAGIC = re.compile(r"[*?\[{\\]")


@dataclass(frozen=True)
class PathGlob:
    """A glob without `{a,b}`.

    `folder`: the folder above the first wildcard. `parts`: what follows it, a name or a pattern
    each.
    """

    folder: str
    parts: tuple[str | re.Pattern[str], ...]


def escape_glob(path: str) -> str:
    """A glob that matches a path only."""
    return _MAGIC.sub(lambda match: f"[{match[0]}]", path)


def parse_glob(pattern: str) -> list[PathGlob]:
    """The globs of which at least one matches a path if `pattern` does."""
    globs: dict[PathGlob, None] = {}
    for alternative in _expand_braces(pattern):
        parts = list(map(_translate, os.path.normpath(alternative).split("/")))
        fixed = list(takewhile(lambda part: isinstance(part, str), parts[:-1]))
        globs[PathGlob("/".join(map(str, fixed)) or "/", tuple(parts[len(fixed) :]))] = None
    return list(globs)


def matches_part(part: str | re.Pattern[str], name: str) -> bool:
    """Whether a name matches a part of a glob."""
    return name == part if isinstance(part, str) else part.fullmatch(name) is not None


def _expand_braces(pattern: str) -> Iterator[str]:
    """The patterns that `{a,b}` stands for; braces without an end are characters."""
    bounds = _first_braces(pattern)
    if bounds is None:
        yield pattern
        return
    start, *commas, end = bounds
    for first, last in zip([start, *commas], [*commas, end], strict=True):
        yield from _expand_braces(pattern[:start] + pattern[first + 1 : last] + pattern[end + 1 :])


def _first_braces(pattern: str) -> list[int] | None:
    """The positions of the first opening brace, its commas and its closing brace."""
    positions: list[int] = []
    depth = 0
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = max(index, _class_end(pattern, index))
        elif char == "{":
            depth += 1
            if depth == 1:
                positions = [index]
        elif char in ",}" and depth:
            depth -= char == "}"
            if depth == (char == ","):
                positions.append(index)
            if not depth:
                return positions
        index += 1
    return None


def _class_end(pattern: str, start: int) -> int:
    """The position of the bracket that closes the one at `start`; -1: it is a character."""
    first = start + 1 + (pattern[start + 1 : start + 2] in ("!", "^"))
    return pattern.find("]", first + 1)


def _translate(part: str) -> str | re.Pattern[str]:
    """A part of a glob as a regular expression; as a name if it has no wildcard."""
    name: list[str] = []
    expression: list[str] = []
    is_pattern = False
    index = 0
    while index < len(part):
        char = part[index]
        class_end = _class_end(part, index) if char == "[" else -1
        if char in "*?":
            is_pattern = True
            expression.append(".*" if char == "*" else ".")
        elif class_end >= 0:
            content = part[index + 1 : class_end]
            if len(content) == 1:
                name.append(content)
                expression.append(re.escape(content))
            else:
                is_pattern = True
                expression.append(_translate_class(content))
            index = class_end
        else:
            if char == "\\" and index + 1 < len(part):
                index += 1
            name.append(part[index])
            expression.append(re.escape(part[index]))
        index += 1
    if not is_pattern:
        return "".join(name)
    hidden = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(hidden + "".join(expression), re.DOTALL)


def _translate_class(content: str) -> str:
    """A class of characters; one that is no valid range matches nothing."""
    negation = "^" if content[0] in "!^" else ""
    members = content[len(negation) :].replace("\\", r"\\").replace("[", r"\[")
    members = members.replace("&", r"\&").replace("~", r"\~").replace("|", r"\|")
    if members.startswith("^"):
        members = "\\" + members
    expression = f"[{negation}{members}]"
    try:
        re.compile(expression)
    except re.error:
        return "(?!)"
    return expression
