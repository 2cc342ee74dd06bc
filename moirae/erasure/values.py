"""What an erased value looks like in other records, and records without it. No I/O."""

import json
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson
from ahocorasick_rs import AhoCorasick

MASK = "[erased]"
"""What stands in place of an erased value in records that stay."""

# Shorter texts are in too much else; texts up to so many characters are found as whole words only.
MIN_LENGTH = 3
_WORD_LENGTH = 7
# Numbers with fewer digits are in too much else.
MIN_DIGITS = 6
_PATTERN_VALUES = 200  # alternatives of one regular expression
_WORD = "[A-Za-z0-9_]"
_WORD_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_")


def is_searchable(text: str) -> bool:
    """Whether a value can be told from other text."""
    text = text.strip()
    if text.lstrip("-").isdigit():
        return len(text.lstrip("-")) >= MIN_DIGITS
    return len(text) >= MIN_LENGTH


class ErasedValues:
    """Values to be removed from texts and JSON documents."""

    def __init__(self, values: Collection[str]) -> None:
        self._values = sorted(set(values))
        self._whole = set(self._values)
        self._forms: list[str] = []
        self._value_of_form: list[str] = []
        for value in self._values:
            forms = _forms(value)
            self._forms += forms
            self._value_of_form += [value] * len(forms)

    def __len__(self) -> int:
        return len(self._values)

    @cached_property
    def patterns(self) -> Sequence[str]:
        """Regular expressions of PostgreSQL that match each of them."""
        alternatives = [
            _alternative(form, len(value) <= _WORD_LENGTH)
            for form, value in zip(self._forms, self._value_of_form, strict=True)
        ]
        return [
            "|".join(alternatives[start : start + _PATTERN_VALUES])
            for start in range(0, len(alternatives), _PATTERN_VALUES)
        ]

    @cached_property
    def _automaton(self) -> AhoCorasick:
        """Finds all of them in one pass, however many they are."""
        return AhoCorasick(self._forms)

    def _find(self, text: str) -> Iterator[tuple[str, int, int]]:
        """The values that a text has, each with start and end of a place; places may overlap."""
        if not self._forms:
            return
        for form, start, end in self._automaton.find_matches_as_indexes(text, overlapping=True):
            value = self._value_of_form[form]
            if len(value) > _WORD_LENGTH or _is_whole_word(text, start, end):
                yield value, start, end

    def search(self, text: str) -> bool:
        """Whether a text has one of them."""
        return any(True for _ in self._find(text))

    def search_bytes(self, content: bytes) -> bool:
        """Whether bytes have one of them."""
        return self.search(content.decode("utf-8", "replace"))

    def find_in(self, texts: Iterable[str]) -> set[str]:
        """Those that are in any of some texts."""
        return {value for text in texts for value, _, _ in self._find(text)}

    def mask(self, value: Any) -> Any:
        """A text or a JSON value without them. Numbers that are one of them become null."""
        if isinstance(value, str):
            return self._mask_text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return None if str(value) in self._whole else value
        if isinstance(value, Mapping):
            return {self._mask_text(name): self.mask(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask(item) for item in value]
        return value

    def _mask_text(self, text: str) -> str:
        spans = sorted((start, end) for _, start, end in self._find(text))
        if not spans:
            return text
        parts: list[str] = []
        done = 0  # everything before it is in parts, or masked
        for start, end in spans:
            if start >= done:
                parts += [text[done:start], MASK]
            done = max(done, end)
        return "".join([*parts, text[done:]])

    def mask_json(self, text: str) -> str:
        """A JSON document without them; the same text if it has none."""
        if not self.search(text):
            return text
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            return self._mask_text(text)
        return orjson.dumps(self.mask(document), option=orjson.OPT_SORT_KEYS).decode()


def _forms(value: str) -> Collection[str]:
    """The value as a text has it, as JSON has it, and as JSON in JSON has it.

    JSON may be UTF-8, or ASCII with escapes in lower case, as Python writes it.
    """
    forms = [value]
    for is_ascii in (False, True):
        form = value
        for _ in range(2):
            form = json.dumps(form, ensure_ascii=is_ascii)[1:-1]
            forms.append(form)
    return dict.fromkeys(forms).keys()


def _is_whole_word(text: str, start: int, end: int) -> bool:
    """Whether a place of a text has no letter, digit or underscore beside it."""
    character_before = text[start - 1 : start] if start else ""
    return not _WORD_CHARACTERS.intersection(character_before + text[end : end + 1])


def _alternative(form: str, is_word: bool) -> str:
    escaped = "".join(
        character
        if character.isalnum() or ord(character) > 127 or character in "_ "
        else f"\\{character}"
        if character.isprintable()
        else f"\\u{ord(character):04x}"
        for character in form
    )
    if not is_word:
        return escaped
    return f"(?<!{_WORD}){escaped}(?!{_WORD})"


def json_leaves(document: Any) -> Iterator[str]:
    """The texts and whole numbers of a JSON value, as texts."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, bool):
        return
    elif isinstance(document, int):
        yield str(document)
    elif isinstance(document, Mapping):
        for item in document.values():
            yield from json_leaves(item)
    elif isinstance(document, list):
        for item in document:
            yield from json_leaves(item)
