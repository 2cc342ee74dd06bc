"""Matchers of labels in Alertmanager's syntax, such as `severity=~"page|ticket"`. No I/O.

A label that is missing has the empty value. Regular expressions are RE2, and match whole values.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import re2
from pydantic import BeforeValidator, Field, PlainSerializer

_OPERATORS = ("=~", "!~", "!=", "=")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}
_GO_ESCAPES = {**_ESCAPES, **dict(zip("abfrtv", "\a\b\f\r\t\v", strict=True))}
_GO_ESCAPE = re.compile(
    rb"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|.?)", re.DOTALL
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_CLASSIC = re.compile(
    rf"[\t\n\f\r ]*({_NAME.pattern})[\t\n\f\r ]*(=~|=|!=|!~)[\t\n\f\r ]*(.*?)[\t\n\f\r ]*",
    re.DOTALL,
)
_CLASSIC_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = re.compile(r'(?:[^"\\]|\\.|\\$)*', re.DOTALL)  # up to a quote
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)  # as Go has it
_RESERVED = "{}!=~,\\\\\"'`"  # characters that names have in quotes only
_TOKEN = re.compile(
    rf'[{_SPACE}]*([{{}},]|=~|!~|!=|=|"(?:[^"\\]|\\.)*"|[^{_RESERVED}{_SPACE}]+|$)', re.DOTALL
)
_PLAIN = re.compile(f"[^{_RESERVED}{_SPACE}]+")
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
        if not _PLAIN.fullmatch(name):
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

    As Alertmanager reads them: by its syntax from before quoted names, and what that refuses by the
    present one. Raises `ValueError`.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"matchers longer than {_MAX_LENGTH} characters")
    try:
        return _parse_classic(text)
    except ValueError as error:
        try:
            return _parse_quoted_names(text)
        except ValueError:
            raise error from None


def _parse_classic(text: str) -> tuple[Matcher, ...]:
    """Names of ASCII letters, digits, `_` and `:`; values in quotes, or up to the next comma."""
    parts = _split(text.removeprefix("{").removesuffix("}"))
    parts[-1] = parts[-1].strip(_SPACE)
    if not parts[-1]:
        parts.pop()
    return tuple(map(_parse_classic_matcher, parts))


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


def _parse_classic_matcher(text: str) -> Matcher:
    match = _CLASSIC.fullmatch(text)
    if match is None:
        raise ValueError(
            f'{text.strip()[:80]!r} is no matcher such as severity="page"; '
            "its operator is one of = != =~ !~, and names with other characters are quoted"
        )
    name, operator, value = match.groups()
    is_quoted = value.startswith('"')
    content = value[1:] if is_quoted else value
    end = _UNESCAPED.match(content)
    assert end is not None
    length = end.end()
    if is_quoted and length == len(content):
        raise ValueError(f"{text[:80]!r}: a quote is not closed")
    if is_quoted and length < len(content) - 1:
        raise ValueError(f"{text[:80]!r}: characters after the closing quote")
    if not is_quoted and length < len(content):
        raise ValueError(f'{text[:80]!r}: a quote inside of a value is written \\"')
    return Matcher(name, operator, _CLASSIC_ESCAPE.sub(_unescape_classic, content[:length]))


def _unescape_classic(match: re.Match[str]) -> str:
    r"""Of `\n`, `\"` and `\\`; other characters after a backslash stay, with it."""
    return _ESCAPES.get(match[1], match[0])


def _parse_quoted_names(text: str) -> tuple[Matcher, ...]:
    """Names and values are quoted as in Go, or have no reserved character and no white space."""
    tokens = _list_tokens(text)
    if tokens and tokens[0] == "{":
        if tokens[-1] != "}" or len(tokens) == 1:
            raise ValueError(f"{text[:80]!r}: a brace is not closed")
        tokens = tokens[1:-1]
    matchers: list[Matcher] = []
    for start in range(0, len(tokens), 4):
        name, operator, value, *comma = tokens[start : start + 4] + [""] * (3 - len(tokens) + start)
        if operator not in _OPERATORS or comma not in ([], [","]):
            raise ValueError(f"{text[:80]!r}: matchers are separated by commas")
        matchers.append(Matcher(_read_token(name), operator, _read_token(value)))
    return tuple(matchers)


def _list_tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{text[:80]!r}: unexpected character at position {position}")
        position = match.end()
        if match[1]:
            tokens.append(match[1])
    return tokens


def _read_token(token: str) -> str:
    """The text of a name or a value."""
    if not token or token in (*_OPERATORS, *"{},"):
        raise ValueError("a name or a value is missing")
    return _unescape_go(token[1:-1]) if token.startswith('"') else token


def _unescape_go(text: str) -> str:
    """As Go reads a quoted text."""
    if "\n" in text:
        raise ValueError("a line break in quotes is written \\n")

    def replace(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode()
        if escape in _GO_ESCAPES:
            return _GO_ESCAPES[escape].encode()
        if escape[:1] in ("u", "U"):
            return chr(int(escape[1:], 16)).encode()
        if escape[:1] == "x":
            return bytes([int(escape[1:], 16)])
        if len(escape) == 3:
            return bytes([int(escape, 8)])
        raise ValueError(f"{text[:80]!r}: unknown escape \\{escape}")

    try:
        return _GO_ESCAPE.sub(replace, text.encode()).decode()
    except (UnicodeError, OverflowError) as error:
        raise ValueError(f"{text[:80]!r}: {error}") from None


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
    if _NAME.fullmatch(name):
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
