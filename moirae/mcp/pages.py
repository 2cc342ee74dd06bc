"""Answers that fit into an agent's context: as many parts as a limit of bytes allows. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from moirae.errors import UsageError
from moirae.services import to_json

MAX_BYTES = 6_000  # of UTF-8, of one answer
_MAX_TEXT = 600  # characters of one value
_MAX_ROWS = 20  # of one list in a part
# A part that is too large even so is shortened further, each time by half.
_MIN_TEXT = 30


class Part(NamedTuple):
    """One item of a list of the answer, in the order of importance."""

    section: str
    value: Any


def make_page(
    head: Mapping[str, Any],
    parts: Sequence[Part],
    cursor: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """The head, and parts from `cursor` on, by section.

    `next` is the cursor of the following page; None: that was all. Long texts and lists in a part
    are cut, and end with what was left out. Raises `UsageError` for an invalid cursor.
    """
    start = _parse_cursor(cursor, len(parts))
    page: dict[str, Any] = _shorten(_plain(head), _MAX_TEXT, _MAX_ROWS)
    page["next"] = None
    for number in range(start, len(parts)):
        part = Part(parts[number].section, _shorten(_plain(parts[number].value)))
        if _size(_with_part(page, part)) > max_bytes and number > start:
            page["next"] = str(number)
            break
        text_limit = _MAX_TEXT
        while _size(_with_part(page, part)) > max_bytes and text_limit > _MIN_TEXT:
            text_limit //= 2
            rows = max(1, _MAX_ROWS * text_limit // _MAX_TEXT)
            part = Part(part.section, _shorten(part.value, text_limit, rows))
        page = _with_part(page, part)
    return page


def _with_part(page: Mapping[str, Any], part: Part) -> dict[str, Any]:
    return {**page, part.section: [*page.get(part.section, []), part.value]}


def _parse_cursor(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10 and int(cursor) <= count):
        raise UsageError("cursor: write `next` of the previous answer")
    return int(cursor)


def _plain(value: Any) -> Any:
    return orjson.loads(to_json(value))


def _size(value: Any) -> int:
    return len(orjson.dumps(value))


def _shorten(value: Any, text_limit: int = _MAX_TEXT, rows: int = _MAX_ROWS) -> Any:
    """A value with texts and lists up to a length."""
    if isinstance(value, str):
        if len(value) <= text_limit:
            return value
        return f"{value[:text_limit]} … ({len(value):,} characters)"
    if isinstance(value, dict):
        return {
            _shorten(name, text_limit): _shorten(item, text_limit, rows)
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = [_shorten(item, text_limit, rows) for item in value[:rows]]
        if len(value) > rows:
            items.append(f"… ({len(value):,} items)")
        return items
    return value
