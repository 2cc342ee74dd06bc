"""Regular expressions of Sigma rules (PCRE) in the syntax of Java, which RLIKE has. No I/O."""

import re

from moirae.errors import NotImported

_REPETITION = re.compile(r"\{\d+(,\d*)?\}")
# Escapes with an argument, such as \p{L} and \x{41}.
_LONG_ESCAPE = re.compile(r"\\[pPxk]\{[^{}]*\}")
_INLINE_FLAGS = re.compile(r"\(\?([ims]+)\)")
_POSIX_CLASSES = {
    "alnum": "Alnum",
    "alpha": "Alpha",
    "ascii": "ASCII",
    "blank": "Blank",
    "cntrl": "Cntrl",
    "digit": "Digit",
    "graph": "Graph",
    "lower": "Lower",
    "print": "Print",
    "punct": "Punct",
    "space": "Space",
    "upper": "Upper",
    "xdigit": "XDigit",
}
# What PCRE has and Java has not.
_FOREIGN_GROUPS = {
    "(?P": "a named group in the syntax of Python",
    "(?R": "recursion",
    "(?|": "a branch reset",
    "(?(": "a conditional group",
    "(?#": "a comment",
    "(?&": "recursion",
    "(*": "a control verb",
}
_FOREIGN_ESCAPES = frozenset("KCgo")


def to_java_regex(pattern: str, flags: str) -> str:
    """The pattern with its flags (of `i`, `m`, `s`) in front. Raises `NotImported`.

    Letters are compared without case as `lower` compares them, beyond ASCII too.
    """
    inline = _INLINE_FLAGS.match(pattern)
    if inline is not None:
        flags += inline[1]
        pattern = pattern[inline.end() :]
    body = "".join(_translate(pattern))
    letters = "".join(flag for flag in "ims" if flag in flags)
    if "i" in letters:
        letters += "u"
    return f"(?{letters}){body}" if letters else body


def _translate(pattern: str) -> list[str]:
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            parts.append(_escape_at(pattern, position))
            position += len(parts[-1])
        elif character == "[":
            class_text, position = _translate_class(pattern, position)
            parts.append(class_text)
        else:
            _check_group(pattern, position)
            is_text = character == "{" and not _REPETITION.match(pattern, position)
            parts.append("\\{" if is_text else character)
            position += 1
    return parts


def _escape_at(pattern: str, position: int) -> str:
    long_escape = _LONG_ESCAPE.match(pattern, position)
    if long_escape is not None:
        return long_escape.group()
    escape = pattern[position : position + 2]
    if len(escape) < 2:
        raise NotImported("regular expression", "a backslash at the end of a regular expression")
    if escape[1] in _FOREIGN_ESCAPES:
        raise NotImported("regular expression", f"{escape} in a regular expression")
    return escape


def _check_group(pattern: str, position: int) -> None:
    for start, description in _FOREIGN_GROUPS.items():
        if pattern.startswith(start, position):
            raise NotImported("regular expression", f"{description} in a regular expression")


def _translate_class(pattern: str, start: int) -> tuple[str, int]:
    """A class from its bracket on, and where it ends. Java reads `[` and `&&` in it as operators."""
    position = start + 1
    text = "["
    if pattern.startswith("^", position):
        text += "^"
        position += 1
    if pattern.startswith("]", position):
        text += "\\]"
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        posix = re.compile(r"\[:(\^?)([a-z]+):\]").match(pattern, position)
        if posix is not None and posix[2] in _POSIX_CLASSES:
            text += f"\\{'P' if posix[1] else 'p'}{{{_POSIX_CLASSES[posix[2]]}}}"
            position = posix.end()
        elif pattern[position] == "\\":
            escape = _escape_at(pattern, position)
            text += escape
            position += len(escape)
        else:
            character = pattern[position]
            text += "\\" + character if character in "[&^" else character
            position += 1
    if position >= len(pattern):
        raise NotImported("regular expression", "an unclosed class in a regular expression")
    return text + "]", position + 1
