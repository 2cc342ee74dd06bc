"""Java's regular expressions as a tree that keeps the places of its parts. No I/O.

It is coarse: of characters beyond Latin-1 it knows only that there are some, and of classes with
unions or intersections that they may match anything. Invalid patterns raise `ValueError`; Spark
reports them.
"""

import re
from dataclasses import dataclass

_LATIN = frozenset(range(256))
ANY = _LATIN | {256}  # 256: all characters beyond Latin-1
_DIGITS = frozenset(range(48, 58))
_WORD = _DIGITS | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}
_LETTERS = _WORD - _DIGITS - {95}
_SPACE = frozenset(range(9, 14)) | {32}
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE, "h": frozenset({9, 32, 160})}
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_GROUP_START = re.compile(r"\?(?::|>|=|!|<=|<!|<[A-Za-z]\w*>|[a-zA-Z-]*[:)])")
_BOUNDS = re.compile(r"\{(\d+)(,(\d*))?\}")
_BOUNDARIES = "bBAGZz"


@dataclass(frozen=True)
class PatternPart:
    """A part of a pattern, at [start, end).

    `kind`: `characters` (one of `characters`), `sequence`, `choice`, `repetition`, or `assertion`,
    which matches between characters. `most`: of a repetition; None: without limit.
    `backtracks`: False for possessive repetitions and atomic groups. `is_linear`: False if engines
    whose time is linear lack it, such as a look-ahead or a back-reference.
    """

    kind: str
    start: int
    end: int
    parts: tuple["PatternPart", ...] = ()
    characters: frozenset[int] = frozenset()
    least: int = 1
    most: int | None = 1
    backtracks: bool = True
    is_linear: bool = True


def parse_parts(pattern: str) -> PatternPart:
    """The tree of a pattern. Raises `ValueError`."""
    parser = _PartParser(pattern)
    part = parser.parse_choice()
    if parser.position < len(pattern):
        raise ValueError("unopened parenthesis")
    return part


class _PartParser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0
        self._ignores_case = False

    def _peek(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise ValueError("unexpected end")
        self.position += 1
        return character

    def parse_choice(self) -> PatternPart:
        start = self.position
        parts = [self._parse_sequence()]
        while self._peek() == "|":
            self.position += 1
            parts.append(self._parse_sequence())
        if len(parts) == 1:
            return parts[0]
        return PatternPart("choice", start, self.position, tuple(parts))

    def _parse_sequence(self) -> PatternPart:
        start = self.position
        parts: list[PatternPart] = []
        while self._peek() not in ("", "|", ")"):
            if self._pattern.startswith("\\Q", self.position):
                parts += self._parse_quoted()
                continue
            atom = self._parse_atom()
            if atom is not None:
                parts.append(self._parse_repetition(atom))
        return PatternPart("sequence", start, self.position, tuple(parts))

    def _parse_quoted(self) -> list[PatternPart]:
        end = self._pattern.find("\\E", self.position)
        end = len(self._pattern) if end < 0 else end
        parts = [
            self._literal(self._pattern[position], position)
            for position in range(self.position + 2, end)
        ]
        self.position = min(end + 2, len(self._pattern))
        return parts

    def _literal(self, character: str, start: int) -> PatternPart:
        texts = {character}
        if self._ignores_case:
            texts |= {character.lower(), character.upper()}
        codes = frozenset(min(ord(text), 256) for text in texts if len(text) == 1)
        return PatternPart("characters", start, start + 1, characters=codes)

    def _set(self, characters: frozenset[int], start: int) -> PatternPart:
        return PatternPart("characters", start, self.position, characters=characters)

    def _parse_atom(self) -> PatternPart | None:
        """None for flags, which match nothing."""
        start = self.position
        character = self._take()
        if character == "(":
            return self._parse_group(start)
        if character == "[":
            return self._set(self._parse_class(), start)
        if character == ".":
            return self._set(ANY, start)
        if character in "^$":
            return PatternPart("assertion", start, self.position)
        if character == "\\":
            return self._parse_escape(start)
        return self._literal(character, start)

    def _parse_escape(self, start: int) -> PatternPart:
        character = self._take()
        if character in _BOUNDARIES:
            return PatternPart("assertion", start, self.position)
        if character.isdigit() or character == "k":
            return PatternPart("repetition", start, self.position, (), ANY, 0, 1, is_linear=False)
        return self._set(self._escaped_characters(character), start)

    def _escaped_characters(self, character: str) -> frozenset[int]:
        """Of the escape whose letter was taken."""
        lower = character.lower()
        if lower in _CLASSES and character != "H":
            members = _CLASSES[lower]
            return ANY - members if character.isupper() else members
        if lower in "pvrxH".lower() or character in "Nuc":
            self._skip_escape(character)
            return ANY
        code = _CONTROLS.get(character, min(ord(character), 256))
        if not self._ignores_case:
            return frozenset({code})
        return frozenset({min(ord(text), 256) for text in (character.lower(), character.upper())})

    def _skip_escape(self, character: str) -> None:
        if self._peek() == "{":
            self.position = self._pattern.find("}", self.position) + 1 or len(self._pattern)
        else:
            lengths = {"p": 1, "P": 1, "x": 2, "u": 4, "c": 1}
            self.position += lengths.get(character, 0)

    def _parse_class(self) -> frozenset[int]:
        is_negated = self._peek() == "^"
        self.position += is_negated
        members: frozenset[int] = frozenset()
        is_first, is_simple = True, True
        while is_first or self._peek() != "]":
            is_first = False
            character = self._take()
            if character == "[" or self._pattern.startswith("&&", self.position - 1):
                is_simple = False
                if character == "[":
                    self._parse_class()
                continue
            if character == "\\":
                codes = self._escaped_characters(self._take())
            else:
                codes = frozenset({min(ord(character), 256)})
            is_range = self._peek() == "-" and self._pattern[self.position + 1 :][:1] not in (
                "]",
                "",
            )
            if is_range and len(codes) >= 1:
                self.position += 1
                end = self._take()
                last = (
                    self._escaped_characters(self._take()) if end == "\\" else {min(ord(end), 256)}
                )
                codes = frozenset(range(min(codes), max(last) + 1))
            if self._ignores_case:
                codes |= {code ^ 32 for code in codes & _LETTERS}
            members |= codes
        self.position += 1
        if not is_simple:
            return ANY
        return ANY - members if is_negated else members

    def _parse_group(self, start: int) -> PatternPart | None:
        match = _GROUP_START.match(self._pattern, self.position)
        if match is None:
            return self._close(start, self.parse_choice())
        opening = match.group()
        self.position = match.end()
        flags = opening[1:-1]
        if opening[-1] == ")":
            self._ignores_case = "i" in flags.partition("-")[0]
            return None
        earlier = self._ignores_case
        if opening[-1] == ":" and flags:
            self._ignores_case = "i" in flags.partition("-")[0]
        inner = self._close(start, self.parse_choice())
        self._ignores_case = earlier
        if opening in ("?=", "?!", "?<=", "?<!"):
            return PatternPart("assertion", start, self.position, (inner,), is_linear=False)
        if opening == "?>":
            return PatternPart(
                "repetition", start, self.position, (inner,), backtracks=False, is_linear=False
            )
        return inner

    def _close(self, start: int, part: PatternPart) -> PatternPart:
        if self._take() != ")":
            raise ValueError("unclosed parenthesis")
        return PatternPart("sequence", start, self.position, (part,))

    def _parse_repetition(self, atom: PatternPart) -> PatternPart:
        part = atom
        while self._peek() and self._peek() in "*+?{":
            bounds = _BOUNDS.match(self._pattern, self.position)
            character = self._take()
            least, most = int(character == "+"), 1 if character == "?" else None
            if character == "{":
                if bounds is None:
                    raise ValueError("{ without numbers")
                self.position = bounds.end()
                least = int(bounds[1])
                most = least if bounds[2] is None else int(bounds[3]) if bounds[3] else None
            is_possessive = self._peek() == "+"
            if is_possessive or self._peek() == "?":
                self.position += 1
            part = PatternPart(
                "repetition",
                atom.start,
                self.position,
                (part,),
                least=least,
                most=most,
                backtracks=not is_possessive,
                is_linear=not is_possessive,
            )
        return part
