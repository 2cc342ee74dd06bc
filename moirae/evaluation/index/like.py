"""Patterns of LIKE. No I/O."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from recall.errors import SparkRequired

_WILDCARDS = {"%": ".*", "_": "."}
_PARTS = re.compile(r"(?P<wildcard>%+|_)|(?P<text>(?:\\[\\%_]|[^%_\\])+)|(?P<rest>.)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class LikePart(NamedTuple):
    """A part of a pattern: a wildcard, % or _, or text."""

    text: str
    is_wildcard: bool


ANY_TEXT = LikePart("%", True)


def split_like(pattern: str) -> list[LikePart]:
    """The parts of a pattern. Raises `SparkRequired`."""
    parts: list[LikePart] = []
    for match in _PARTS.finditer(pattern):
        if match["rest"]:
            raise SparkRequired("LIKE with an escape of a character that needs none")
        if match["wildcard"]:
            parts.append(LikePart(match["wildcard"][0], True))
        else:
            parts.append(LikePart(_ESCAPE.sub(r"\1", match["text"]), False))
    return parts


def to_regex(parts: Sequence[LikePart]) -> str:
    """The parts as a regular expression."""
    regex = ""
    for part in parts:
        regex += _WILDCARDS[part.text] if part.is_wildcard else _quote(part.text)
    return regex


def _quote(text: str) -> str:
    """A text whose characters mean themselves in a regular expression."""
    return re.sub(r"[^\w\s]", lambda match: "\\" + match.group(), text, flags=re.ASCII)
