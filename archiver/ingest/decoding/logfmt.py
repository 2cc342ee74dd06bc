"""Records of logfmt: `key=value` pairs, values with blanks in quotes. No I/O."""

import re
from typing import Any

from archiver.errors import InvalidValue

_PAIR = re.compile(r'([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?=\s|$)', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_logfmt(text: str) -> dict[str, Any]:
    """The fields of a line. A key without a value is `true`. Raises `InvalidValue`."""
    fields: dict[str, Any] = {}
    position = 0
    text = text.strip()
    has_value = False
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise InvalidValue(f"not logfmt in column {position + 1}: key=value expected")
        key, value = match[1], match[2]
        has_value = has_value or value is not None
        fields[key] = "true" if value is None else _unquote(value)
        position = match.end()
        while position < len(text) and text[position].isspace():
            position += 1
    if not has_value:
        raise InvalidValue("not logfmt: the line has no key=value")
    return fields


def _unquote(value: str) -> str | None:
    if not value.startswith('"'):
        return value or None
    text = _ESCAPE.sub(_unescape, value[1:-1])
    if _SURROGATE.search(text) is None:
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise InvalidValue("an escape is half a character") from error


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return _ESCAPED.get(match[3], match[3]) if code is None else chr(int(code, 16))
