"""Names of files as text: a file system allows any bytes, a database and a terminal do not.

Bytes that are not UTF-8, control characters, and characters that change the direction of a text are
written as `\\xNN`, byte by byte. Other names are unchanged: a backslash is escaped only where it
would read as an escape. No I/O.
"""

import os
import re

_LOOKS_ESCAPED = re.compile(r"\\(?=x[0-9a-f]{2})")
# Control characters, line and paragraph separators, marks of direction, and bytes that
# `surrogateescape` has kept.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_name(name: str | os.PathLike[str]) -> str:
    """The name of a file as printable text; no other name has the same text."""
    text = os.fsencode(name).decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _HIDDEN.sub(_escape_character, _LOOKS_ESCAPED.sub(r"\\x5c", text))


def unescape_name(text: str) -> str:
    """The name that has this text; the inverse of `escape_name`."""
    content = re.sub(
        rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), text.encode()
    )
    return os.fsdecode(content)


def _escape_character(match: re.Match[str]) -> str:
    content = match[0].encode("utf-8", "surrogateescape")
    return "".join(map("\\x{:02x}".format, content))
