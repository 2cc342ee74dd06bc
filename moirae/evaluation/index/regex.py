"""A part of Java's regular expressions as a tree. No I/O.

Characters, classes, groups, alternatives, repetitions, `.`, `^`, `$`, `\\A`, `\\Z`, `\\z`, `\\b`,
quotations and the flags `i`, `u` and `s` at the start. Other patterns raise `SparkRequired`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from recall.errors import SparkRequired

_FLAGS = frozenset("ius")
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
# Characters that mean themselves, without one that is repeated.
_PLAIN_TEXT = re.compile(r"(?:(?:[^\\.()\[\]|*+?{}^$]|\\[^a-zA-Z0-9])(?![*+?{]))+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MAX_REPEATS = 1000  # RE2's limit

MarkKind = Literal["any", "start", "end", "last", "border", "no border"]
Ranges = tuple[tuple[int, int], ...]  # of code points, both ends included

_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_LAST = 0x10FFFF
_CLASS_ESCAPES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_MARK_ESCAPES: Mapping[str, MarkKind] = {"A": "start", "Z": "end", "z": "last", "B": "no border"}
_QUOTATION = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_SIGN = re.compile(r"[\x00-/:-@\[-`{-\x7f]")
# The digits of a character's number after `\x`, `\u` and `\0`, and their base.
_HEXADECIMAL = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]{1,8})\}")
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_CONTROL_BIT = 0x40  # of the letter in `\cX`, which is without it the control character


@dataclass(frozen=True)
class Text:
    """Characters one after the other."""

    text: str


@dataclass(frozen=True)
class CharacterClass:
    """One character in some ranges. Those of a negated class are complements already."""

    ranges: Ranges
    is_negated: bool = False


@dataclass(frozen=True)
class Mark:
    """`any`: the `.`; others match between characters: start, end, or a border of a word.

    `end`: also before a last line end; `last`: only after all characters.
    """

    kind: MarkKind


@dataclass(frozen=True)
class Concatenation:
    """Parts one after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Alternatives:
    """One of the parts."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Repetition:
    """`least` times or more, up to `most`; None: without limit. `is_lazy`: as few as possible."""

    part: "Node"
    least: int
    most: int | None
    is_lazy: bool = False


@dataclass(frozen=True)
class Capture:
    """What a match has of a part is asked for by the number of its parenthesis."""

    part: "Node"


Node = Text | CharacterClass | Mark | Concatenation | Alternatives | Repetition | Capture


@dataclass(frozen=True)
class Regex:
    """A pattern with its flags."""

    node: Node
    ignores_case: bool
    is_unicode: bool
    dot_is_all: bool


def parse_regex(pattern: str, *, has_groups: bool = False) -> Regex:
    """`has_groups`: with what decides about the text of a match; else of its truth alone.

    Raises `SparkRequired`.
    """
    flags = ""
    body = pattern
    if pattern.startswith("(?") and ")" in pattern:
        candidate, _, rest = pattern[2:].partition(")")
        if candidate and _FLAGS.issuperset(candidate):
            flags, body = candidate, rest
    node = _Parser(_QUOTATION.sub(_unquote, body), has_groups).parse()
    return Regex(node, "i" in flags, "u" in flags, "s" in flags)


def _unquote(match: re.Match[str]) -> str:
    """What is between `\\Q` and `\\E`, with each sign escaped; other escapes as they are."""
    text = match[1]
    return match.group() if text is None else _SIGN.sub(r"\\\g<0>", text)


def concatenate(parts: list[Node]) -> Node:
    """Parts one after the other, adjacent texts as one."""
    merged: list[Node] = []
    for part in parts:
        flat = part.parts if isinstance(part, Concatenation) else (part,)
        for node in flat:
            previous = merged[-1] if merged else None
            if isinstance(node, Text) and isinstance(previous, Text):
                merged[-1] = Text(previous.text + node.text)
            elif node != Text(""):
                merged.append(node)
    if len(merged) == 1:
        return merged[0]
    return Concatenation(tuple(merged)) if merged else Text("")


def _unsupported(what: str) -> SparkRequired:
    return SparkRequired(f"regular expression with {what}")


class _Parser:
    def __init__(self, pattern: str, has_groups: bool) -> None:
        self._pattern = pattern
        self._has_groups = has_groups
        self._next = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._alternatives()
        if self._next < len(self._pattern):
            raise _unsupported("an unopened parenthesis")
        return node

    def _peek(self) -> str:
        """The next character; empty at the end."""
        return self._pattern[self._next : self._next + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise _unsupported("an end that is not expected")
        self._next += 1
        return character

    def _skip(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._next):
            return False
        self._next += len(text)
        return True

    def _alternatives(self) -> Node:
        parts = [self._concatenation()]
        while self._skip("|"):
            parts.append(self._concatenation())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _concatenation(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            self._skip_text(parts)
            if self._peek() not in ("", "|", ")"):
                parts.append(self._repetition(self._atom()))
        return concatenate(parts)

    def _skip_text(self, parts: list[Node]) -> None:
        """Add the characters up to one that means more, or that is repeated."""
        match = _PLAIN_TEXT.match(self._pattern, self._next)
        if match is not None:
            self._next = match.end()
            parts.append(Text(_ESCAPED.sub(r"\1", match.group())))

    def _atom(self) -> Node:
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._character_class()
            case ".":
                return Mark("any")
            case "^":
                return Mark("start")
            case "$":
                return Mark("end")
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise _unsupported(f"{character} where it repeats nothing")
        return Text(character)

    def _group(self) -> Node:
        is_numbered = not self._skip("?:")
        if is_numbered and self._peek() == "?":
            raise _unsupported("a special group (?…)")
        self._depth += 1
        if self._depth > 50:
            raise _unsupported("more than 50 groups inside each other")
        node = self._alternatives()
        self._depth -= 1
        if not self._skip(")"):
            raise _unsupported("an unclosed parenthesis")
        return Capture(node) if is_numbered and self._has_groups else node

    def _escape(self) -> Node:
        character = self._take()
        if character.lower() in _CLASS_ESCAPES:
            return _class_escape(character)
        if character == "b" and self._peek() != "{":
            return Mark("border")
        if character in _MARK_ESCAPES:
            return Mark(_MARK_ESCAPES[character])
        return Text(self._escaped_character(character))

    def _escaped_character(self, character: str) -> str:
        if character in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[character]
        if character == "c" and self._peek().isascii():
            return chr(ord(self._take()) ^ _CONTROL_BIT)
        for pattern, base in ((_HEXADECIMAL, 16), (_OCTAL, 8)):
            match = pattern.match(self._pattern, self._next - 1)
            if match is not None:
                self._next = match.end()
                return _character_of(int(match[match.lastindex or 0], base))
        if character.isalnum() or not character.isascii():
            raise _unsupported(f"\\{character}")
        return character

    def _repetition(self, node: Node) -> Node:
        bounds = self._repetition_bounds()
        if bounds is None:
            return node
        if isinstance(node, Mark) and node.kind != "any":
            raise _unsupported("a repetition of ^, $ or \\b")
        if self._peek() == "+":
            raise _unsupported("a possessive repetition")
        is_lazy = self._skip("?") and self._has_groups  # the truth is the same
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise _unsupported("a repetition of a repetition")
        return Repetition(node, *bounds, is_lazy)

    def _repetition_bounds(self) -> tuple[int, int | None] | None:
        character = self._peek()
        if not character or character not in "*+?{":
            return None
        self._next += 1
        if character != "{":
            return (1 if character == "+" else 0), (1 if character == "?" else None)
        text, closed, _ = self._pattern[self._next :].partition("}")
        least, comma, most = text.partition(",")
        is_number = least.isdecimal() and least.isascii()
        if not closed or not is_number or (most and not (most.isdecimal() and most.isascii())):
            raise _unsupported("{ without numbers")
        self._next += len(text) + 1
        upper = int(most) if most else (None if comma else int(least))
        if max(int(least), upper or 0) > _MAX_REPEATS or (upper is not None and upper < int(least)):
            raise _unsupported(f"more than {_MAX_REPEATS} repetitions")
        return int(least), upper

    def _character_class(self) -> Node:
        is_negated = self._skip("^")
        ranges: list[tuple[int, int]] = []
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            start = self._class_member()
            if not isinstance(start, str):
                ranges += start
                continue
            end = start
            if self._peek() == "-" and self._pattern[self._next + 1 : self._next + 2] != "]":
                self._next += 1
                limit = self._class_member()
                if not isinstance(limit, str) or limit < start:
                    raise _unsupported("a class with an invalid range")
                end = limit
            ranges.append((ord(start), ord(end)))
        self._next += 1
        return CharacterClass(tuple(ranges), is_negated)

    def _class_member(self) -> str | Ranges:
        character = self._take()
        if character in "[&]^" or (character == "-" and self._peek() == "-"):
            # Unions and intersections of classes, and what only looks like them.
            raise _unsupported("a class in a class")
        if character != "\\":
            return character
        character = self._take()
        if character.lower() in _CLASS_ESCAPES:
            escape = _class_escape(character)
            return complement(escape.ranges) if escape.is_negated else escape.ranges
        if character in "bB":
            raise _unsupported("\\b in a class")
        return self._escaped_character(character)


def _character_of(code: int) -> str:
    if code > _LAST or 0xD800 <= code < 0xE000:
        raise _unsupported(f"the character {code:#x}")
    return chr(code)


def _class_escape(character: str) -> CharacterClass:
    return CharacterClass(_CLASS_ESCAPES[character.lower()], character.isupper())


def complement(ranges: Ranges) -> Ranges:
    """All other code points."""
    gaps: list[tuple[int, int]] = []
    following = 0
    for start, end in sorted(ranges):
        if following < start:
            gaps.append((following, start - 1))
        following = max(following, end + 1)
    if following <= _LAST:
        gaps.append((following, _LAST))
    return tuple(gaps)


def walk(node: Node, visit: Callable[[Node], None]) -> None:
    """Visit a node and all nodes inside it."""
    visit(node)
    if isinstance(node, Concatenation | Alternatives):
        for part in node.parts:
            walk(part, visit)
    elif isinstance(node, Repetition | Capture):
        walk(node.part, visit)
