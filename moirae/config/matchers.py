"""Matchers of labels in Alertmanager's syntax, such as `severity=~"page|ticket"`. No I/O.

A label that is missing has the empty value. Regular expressions are RE2, and match whole values.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import re2
from pydantic import BeforeValidator, Field, PlainSerializer

_OPERATORS = ("=~", "!~", "!=", "=")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}
_GO_ESCAPES = {**_ESCAPES, **dict(zip("abfrtv", "\a\b\f\r\t\v", strict=True))}
_GO_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.?)", re.DOTALL)
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:")
_NAME = _NAME_START | frozenset("0123456789")
_RESERVED = frozenset("{}!=~,\\\"'`")  # characters that names have in quotes only
_MAX_LENGTH = 10_000  # characters of matchers in one text
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.dot_nl = False


@dataclass(frozen=True)
class Matcher:
    """A condition on one label. `operator`: `=`, `!=`, `=~` or `!~`.

    Raises `ValueError` for an invalid regular expression.
    """

    name: str
    operator: str
    value: str

    def __post_init__(self) -> None:
        if self.operator in ("=~", "!~"):
            self._pattern  # noqa: B018  an invalid one is reported when it is read

    @cached_property
    def _pattern(self) -> Any:
        try:
            return re2.compile(self.value, options=_OPTIONS)
        except re2.error as error:
            reason = error.args[0]
            if isinstance(reason, bytes):
                reason = reason.decode("utf-8", "replace")
            raise ValueError(
                f"{self.name}: invalid regular expression {self.value[:80]!r}: {reason}"
            ) from None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy the condition."""
        value = labels.get(self.name, "")
        match self.operator:
            case "=":
                return value == self.value
            case "!=":
                return value != self.value
            case "=~":
                return self._pattern.fullmatch(value) is not None
        return self._pattern.fullmatch(value) is None

    def __str__(self) -> str:
        """As Alertmanager writes it."""
        name = self.name
        if not name or any(c in _RESERVED or c.isspace() for c in name):
            name = f'"{_escape(name)}"'
        return f'{name}{self.operator}"{_escape(self.value)}"'


def match_all(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all conditions."""
    return all(matcher.matches(labels) for matcher in matchers)


def sort_matchers(matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    """Matchers in the order in which Alertmanager names a route by them."""
    return tuple(
        sorted(matchers, key=lambda m: (m.name, m.value, ("=", "!=", "=~", "!~").index(m.operator)))
    )


def format_matchers(matchers: Iterable[Matcher]) -> str:
    """Matchers in braces, separated by commas."""
    return "{" + ",".join(map(str, matchers)) + "}"


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """The matchers of a text, separated by commas, with or without braces.

    Raises `ValueError`.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"matchers longer than {_MAX_LENGTH} characters")
    content = text.strip()
    if content.startswith("{") != content.endswith("}"):
        raise ValueError(f"{text[:80]!r}: a brace is not closed")
    content = content.removeprefix("{").removesuffix("}")
    matchers = []
    for part in _split(content):
        if part.strip():
            matchers.append(_parse_matcher(part.strip()))
    return tuple(matchers)


def _split(text: str) -> list[str]:
    """The parts between commas outside of quotes."""
    parts = [""]
    in_quotes = is_escaped = False
    for character in text:
        if character == "," and not in_quotes:
            parts.append("")
            continue
        if character == '"' and not is_escaped:
            in_quotes = not in_quotes
        is_escaped = character == "\\" and not is_escaped
        parts[-1] += character
    return parts


def _parse_matcher(text: str) -> Matcher:
    if text.startswith('"'):
        name, rest = _read_quoted(text, _unescape_go)
    else:
        length = 0
        while length < len(text) and text[length] not in _RESERVED and text[length].isprintable():
            length += 1
        name, rest = text[:length].rstrip(), text[length:]
        if not name or " " in name:
            raise ValueError(
                f'{text[:80]!r} is no matcher such as severity="page"; '
                "names with other characters are quoted"
            )
    rest = rest.strip()
    for operator in _OPERATORS:
        if rest.startswith(operator):
            value = rest[len(operator) :].strip()
            is_plain = text[0] in _NAME_START and _NAME.issuperset(name)
            unescape = _unescape if is_plain else _unescape_go
            return Matcher(name, operator, _read_value(value, text, unescape))
    raise ValueError(f"{text[:80]!r}: a matcher has one of the operators = != =~ !~")


def _read_value(text: str, matcher: str, unescape: Callable[[str], str]) -> str:
    if text.startswith('"'):
        value, rest = _read_quoted(text, unescape)
        if rest:
            raise ValueError(f"{matcher[:80]!r}: characters after the closing quote")
        return value
    if '"' in text.replace('\\"', ""):
        raise ValueError(f'{matcher[:80]!r}: a quote inside of a value is written \\"')
    return _unescape(text)


def _read_quoted(text: str, unescape: Callable[[str], str]) -> tuple[str, str]:
    """The value of a quoted text at the start of a text, and what follows."""
    position = 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    if position >= len(text):
        raise ValueError(f"{text[:80]!r}: a quote is not closed")
    return unescape(text[1:position]), text[position + 1 :]


def _unescape(text: str) -> str:
    r"""Replace \n, \" and \\; other characters after a backslash stay, with it."""
    if "\\" not in text:
        return text
    result = ""
    position = 0
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "\\" and following in _ESCAPES:
            result += _ESCAPES[following]
            position += 2
        else:
            result += character
            position += 1
    return result


def _unescape_go(text: str) -> str:
    """As Go reads a quoted text: Alertmanager does so where a name is quoted, or is of UTF-8."""

    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code in _GO_ESCAPES:
            return _GO_ESCAPES[code]
        number = int(code[1:], 16) if len(code) > 1 else sys.maxunicode + 1
        if number > sys.maxunicode or 0xD800 <= number < 0xE000:
            raise ValueError(f"{text[:80]!r}: unknown escape {match[0]!r}")
        return chr(number)

    return _GO_ESCAPE.sub(replace, text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _read_matchers(value: Any) -> Any:
    """A text, or a list of texts, as matchers."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        raise ValueError('must be a list of matchers such as severity="page"')
    matchers: list[Matcher] = []
    for part in value:
        if isinstance(part, Matcher):
            matchers.append(part)
        elif isinstance(part, str):
            matchers += parse_matchers(part)
        else:
            raise ValueError('must be a list of matchers such as severity="page"')
    return tuple(matchers)


def _read_selectors(value: Any) -> Any:
    """A selector as PromQL writes it, or a list of them."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ValueError('must be a selector such as node_load1 or {job="node"}, or a list')
    return tuple(map(_read_selector, value))


def _read_selector(value: Any) -> Any:
    if isinstance(value, list | tuple):  # as stored
        return _read_matchers(list(value))
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:80]!r} is no selector such as node_load1")
    name, brace, rest = value.strip().partition("{")
    matchers = parse_matchers(brace + rest)
    if name and _NAME.issuperset(name) and name[0] in _NAME_START:
        return (Matcher("__name__", "=", name), *matchers)
    if name:
        raise ValueError(f"{value[:80]!r} is no selector such as node_load1")
    if not matchers:
        raise ValueError(f"{value[:80]!r} selects everything: leave match out")
    return matchers


Selectors = Annotated[
    tuple[tuple[Matcher, ...], ...],
    BeforeValidator(_read_selectors, json_schema_input_type=list[str] | str),
    PlainSerializer(
        lambda selectors: [list(map(str, matchers)) for matchers in selectors],
        return_type=list[list[str]],
    ),
]
"""Selectors of series in PromQL's syntax, of which one suffices."""

Matchers = Annotated[
    tuple[Matcher, ...],
    BeforeValidator(_read_matchers, json_schema_input_type=list[str] | str),
    PlainSerializer(lambda matchers: [str(matcher) for matcher in matchers], return_type=list[str]),
    Field(json_schema_extra=None),
]
"""Matchers of the workspace file: texts in Alertmanager's syntax."""
