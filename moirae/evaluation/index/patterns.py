"""Regular expressions over a text, with the result of Spark's RLIKE and regexp_extract. No I/O.

Patterns that are lists of literals are tested by searching for these. Others are run by RE2, whose
time is linear in the length of the text. Where RE2 and Java disagree about a value, the test raises
`Undecided`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

import re2

from moirae.errors import Undecided
from moirae.evaluation.index.anchors import Necessary, all_of, any_of
from moirae.evaluation.index.case_mappings import pattern_mapping
from moirae.evaluation.index.regex import (
    Alternatives,
    Capture,
    CharacterClass,
    Concatenation,
    Mark,
    Node,
    Ranges,
    Regex,
    Repetition,
    Text,
    complement,
    concatenate,
    parse_regex,
    walk,
)
from moirae.evaluation.index.text_columns import Case, map_text
from recall.errors import SparkRequired

_MAX_LITERALS = 1_000  # of a pattern that is a list of literals
_MAX_NECESSARY_TEXTS = 64  # alternatives of a part of a pattern that are anchors
_MAX_CLASS_TEXTS = 8  # characters of a class that are alternatives of a literal
_MAX_PATTERNS = 16_384  # compiled patterns that are cached: rules share many
_LAST_ASCII = 127
_LINE_ENDS = "\n\r\u0085\u2028\u2029"
_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
# Characters that Java compares with ASCII letters in other ways in a class than in a literal.
_CASE_EXCEPTIONS = ("\u0130", "\u0131", "\u017f", "\u212a")
# Java compares ß by itself with ß alone; as one of several characters of a literal with ẞ, too.
_SHARP_S = "\u00df"
_CAPITAL_SHARP_S = "\u1e9e"
_MARKS = {"start": r"\A", "end": r"\z", "last": r"\z", "border": r"\b", "no border": r"\B"}


class TextTest(NamedTuple):
    """A test of texts in a case. `holds` gets the value in that case, then as it is.

    `necessary`: makes the necessary condition from what makes that of containing a text.
    """

    case: Case
    holds: Callable[[str, str], bool]
    necessary: Callable[[Callable[[str], Necessary]], Necessary]


@lru_cache(_MAX_PATTERNS)
def compile_regex(pattern: str) -> TextTest:
    """The test of RLIKE. Raises `SparkRequired`."""
    regex = parse_regex(pattern)
    case = _case_of(regex)
    holds = _compile_literals(regex, case)
    if holds is None:
        search = _compile_re2(regex, case)

        def holds(value: str, raw: str) -> bool:
            return search(value, raw) is not None

    def necessary(contains: Callable[[str], Necessary]) -> Necessary:
        return _necessary_of(regex.node, contains)

    return TextTest(case, holds, necessary)


@lru_cache(_MAX_PATTERNS)
def compile_extraction(pattern: str, number: int) -> Callable[[str], str]:
    """What `regexp_extract` returns of a text: the group with a number; 0: the whole match.

    Raises `SparkRequired`; the function raises `Undecided`.
    """
    regex = parse_regex(pattern, has_groups=True)
    groups: list[Node] = []
    walk(regex.node, lambda node: groups.append(node) if isinstance(node, Capture) else None)
    if not 0 <= number <= len(groups):
        raise SparkRequired("regexp_extract of a group that the pattern lacks")
    walk(regex.node, _check_repetition)
    case = _case_of(regex)
    search = _compile_re2(regex, case)

    def extract(raw: str) -> str:
        value = map_text(raw, case)
        if len(value) != len(raw):
            raise Undecided
        match = search(value, raw)
        if match is None:
            return ""
        start, end = match.span(number)
        return raw[start:end] if start >= 0 else ""

    return extract


def _check_repetition(node: Node) -> None:
    """Raises `SparkRequired` if engines disagree about the text that a repetition matches."""
    if isinstance(node, Repetition) and node.most != 1:
        if "Capture" in _kinds_in(node.part):
            raise SparkRequired("regexp_extract with a group that is repeated")
        if _may_be_empty(node.part):
            raise SparkRequired("regexp_extract with a repetition of what may be empty")


def _may_be_empty(node: Node) -> bool:
    match node:
        case Text(text):
            return not text
        case CharacterClass() | Mark("any"):
            return False
        case Concatenation(parts):
            return all(map(_may_be_empty, parts))
        case Alternatives(parts):
            return any(map(_may_be_empty, parts))
        case Repetition(part, least):
            return not least or _may_be_empty(part)
        case Capture(part):
            return _may_be_empty(part)
    return True


def _case_of(regex: Regex) -> Case:
    if not regex.ignores_case:
        return "raw"
    return "pattern" if regex.is_unicode else "ascii"


# Lists of literals


def _compile_literals(regex: Regex, case: Case) -> Callable[[str, str], bool] | None:
    """The test of a pattern that is a list of literals; None for others."""
    if case == "pattern" and (
        "CharacterClass" in _kinds_in(regex.node) or _has_sharp_s(regex.node)
    ):
        return None  # to Java, a letter in a class, or by itself, is not always what it is
    parts = list(_parts_of(regex.node))
    dots = Repetition(Mark("any"), 0, None)
    starts = parts[:1] == [Mark("start")]
    if starts:
        del parts[0]
    end: Mark | None = None
    if parts and parts[-1] in (Mark("end"), Mark("last")):
        end = Mark("last") if parts.pop() == Mark("last") else Mark("end")
    # Without line ends in the way, `.*` at either end of the pattern says nothing.
    while parts and parts[0] == dots and (not starts or regex.dot_is_all):
        starts = False
        del parts[0]
    while parts and parts[-1] == dots and (end is None or regex.dot_is_all):
        end = None
        del parts[-1]
    texts = texts_of(concatenate(parts), _MAX_LITERALS)
    if texts is None:
        return None
    literals = tuple(dict.fromkeys(map_text(text, case) for text in texts))
    return _literal_test(literals, starts, end)


def _literal_test(
    literals: tuple[str, ...], starts: bool, end: Mark | None
) -> Callable[[str, str], bool]:
    if end == Mark("last"):
        if starts:
            return lambda value, _: value in literals
        return lambda value, _: value.endswith(literals)
    ends = end is not None
    if starts and ends:
        return lambda value, _: any(value[:end] in literals for end in _ends_of(value))
    if starts:
        return lambda value, _: value.startswith(literals)
    if ends:
        return lambda value, _: (
            value.endswith(literals)
            or (
                value.endswith(tuple(_LINE_ENDS))
                and any(value.endswith(literals, 0, end) for end in _ends_of(value))
            )
        )
    if len(literals) == 1:
        (literal,) = literals
        return lambda value, _: literal in value

    def contains_any(value: str, _raw: str) -> bool:
        for literal in literals:
            if literal in value:
                return True
        return False

    return contains_any


def _ends_of(value: str) -> tuple[int, ...]:
    """Where `$` matches: at the end, and before a line end that is there."""
    length = len(value)
    if value.endswith("\r\n"):
        return length, length - 2
    if value.endswith(tuple(_LINE_ENDS)):
        return length, length - 1
    return (length,)


def _parts_of(node: Node) -> Sequence[Node]:
    return node.parts if isinstance(node, Concatenation) else (node,)


def texts_of(node: Node, limit: int) -> list[str] | None:
    """All texts that a node matches; None: other than so many texts."""
    texts: list[str] = []
    match node:
        case Text(text):
            return [text]
        case CharacterClass(ranges, False):
            codes = [code for start, end in ranges for code in range(start, end + 1)[: limit + 1]]
            texts = list(map(chr, codes))
        case Alternatives(parts):
            for part in parts:
                part_texts = texts_of(part, limit)
                if part_texts is None:
                    return None
                texts += part_texts
        case Concatenation(parts):
            texts = [""]
            for part in parts:
                part_texts = texts_of(part, limit)
                if part_texts is None or len(texts) * len(part_texts) > limit:
                    return None
                texts = list(map("".join, product(texts, part_texts)))
        case Repetition(part, least, most) if most is not None and most <= _MAX_CLASS_TEXTS:
            for count in range(least, most + 1):
                repeated = texts_of(Concatenation((part,) * count), limit)
                if repeated is None:
                    return None
                texts += repeated
        case _:
            return None
    return texts if 0 < len(texts) <= limit else None


# What a match contains


def _necessary_of(node: Node, contains: Callable[[str], Necessary]) -> Necessary:
    if isinstance(node, Alternatives):
        return any_of([_necessary_of(part, contains) for part in node.parts])
    if isinstance(node, Repetition):
        return _necessary_of(node.part, contains) if node.least else None
    if not isinstance(node, Concatenation | Text | CharacterClass):
        return None
    necessary: list[Necessary] = []
    for run in _runs_of(_parts_of(node)):
        if isinstance(run, list):
            necessary.append(any_of([contains(text) for text in run]))
        elif not isinstance(run, Concatenation | Text | CharacterClass):
            necessary.append(_necessary_of(run, contains))
    return all_of(necessary)


def _runs_of(parts: Sequence[Node]) -> Iterator[list[str] | Node]:
    """The alternatives of what adjacent parts match together; parts that match more."""
    run = [""]
    for part in parts:
        texts = texts_of(part, _MAX_NECESSARY_TEXTS)
        if isinstance(part, CharacterClass) and texts and len(texts) > _MAX_CLASS_TEXTS:
            texts = None
        if texts is not None and len(run) * len(texts) <= _MAX_NECESSARY_TEXTS:
            folded = (map_text(a + b, "folded") for a, b in product(run, texts))
            run = list(dict.fromkeys(folded))
            continue
        yield run
        run = [""]
        if texts is not None:
            run = texts
        elif not isinstance(part, Mark) or part.kind == "any":
            yield part
    yield run


# RE2


def _compile_re2(regex: Regex, case: Case) -> Callable[[str, str], Any]:
    """Finds a match in a value in a case; its second argument is the value as it is."""
    kinds = _kinds_in(regex.node)
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(_to_re2(regex.node, regex, case), options).search
    except re2.error as error:
        raise SparkRequired(f"regular expression that RE2 refuses: {error}") from error
    has_end = "end" in kinds
    has_border = not kinds.isdisjoint(("border", "no border"))
    has_case_exceptions = case == "pattern" and (has_border or "CharacterClass" in kinds)
    has_sharp_s = case == "pattern" and _has_sharp_s(regex.node)

    def search_decided(value: str, raw: str) -> Any:
        if has_end and value.endswith(tuple(_LINE_ENDS)):
            raise Undecided
        if not raw.isascii():
            if has_border:
                raise Undecided
            if has_case_exceptions and any(letter in raw for letter in _CASE_EXCEPTIONS):
                raise Undecided
            if has_sharp_s and _CAPITAL_SHARP_S in raw:
                raise Undecided
        return search(value)

    return search_decided


def _has_sharp_s(node: Node) -> bool:
    texts: list[str] = []
    walk(node, lambda part: texts.append(part.text) if isinstance(part, Text) else None)
    return _SHARP_S in "".join(texts)


def _kinds_in(node: Node) -> set[str]:
    """The kinds of marks and the types of other nodes in a pattern."""
    kinds: set[str] = set()

    def note(part: Node) -> None:
        kinds.add(part.kind if isinstance(part, Mark) else type(part).__name__)

    walk(node, note)
    return kinds


def _to_re2(node: Node, regex: Regex, case: Case) -> str:
    match node:
        case Text(text):
            return "".join(map(_escape, map_text(text, case)))
        case CharacterClass(ranges, is_negated):
            return _class_to_re2(ranges, is_negated, case)
        case Mark("any"):
            return "(?s:.)" if regex.dot_is_all else _DOT
        case Mark(kind):
            return _MARKS[kind]
        case Concatenation(parts):
            return "".join(f"(?:{_to_re2(part, regex, case)})" for part in parts)
        case Alternatives(parts):
            return "(?:" + "|".join(_to_re2(part, regex, case) for part in parts) + ")"
        case Capture(part):
            return f"({_to_re2(part, regex, case)})"
        case Repetition(part, least, most, is_lazy):
            bounds = f"{{{least},{'' if most is None else most}}}{'?' if is_lazy else ''}"
            return f"(?:{_to_re2(part, regex, case)}){bounds}"
    raise AssertionError(node)


def _escape(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"


def _class_to_re2(ranges: Ranges, is_negated: bool, case: Case) -> str:
    closed = list(ranges)
    for start, end in ranges:
        if case != "raw":
            # Texts are in lower case: a range of capitals matches the letters of theirs.
            first, last = max(start, ord("A")), min(end, ord("Z"))
            if first <= last:
                closed.append((first + 32, last + 32))
        if case == "pattern" and end > _LAST_ASCII and not _is_caseless(start, end):
            raise SparkRequired("regular expression with letters beyond ASCII in a class")
    if is_negated:
        closed = list(complement(tuple(closed)))
    return "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in closed) + "]"


def _is_caseless(start: int, end: int) -> bool:
    """Whether no character of a range is compared with another one; False for a wide range."""
    if end - start > _LAST_ASCII:
        return False
    images = _pattern_images()
    codes = range(start, end + 1)
    return not any(code in pattern_mapping() or chr(code) in images for code in codes)


@cache
def _pattern_images() -> frozenset[str]:
    return frozenset(pattern_mapping().values())
