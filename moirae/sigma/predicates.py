"""SQL predicates over one field, with the meaning that Sigma gives to values. No I/O.

Text is compared in lower case, unless a value is cased. A field that is NULL matches nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sigma.types import SigmaString, SpecialChars

from moirae.errors import NotImported
from moirae.sigma.fields import NUMBERS, MappedField
from moirae.sigma.sql_text import escape_like, escape_regex, fold_text, has_letters, quote_text

MatchKind = Literal["equals", "contains", "startswith", "endswith", "like", "any"]

_MAX_FUNCTIONS = 40  # alternatives that are written as calls; more of them become one pattern
_CHAIN = 50  # operands of a chain; longer ones are grouped, as deep nesting is refused
# Patterns of many texts, by how they are compared.
_PATTERNS = {"contains": "({})", "startswith": "^({})", "endswith": r"({})\z"}
_WILDCARDS = {SpecialChars.WILDCARD_MULTI: "%", SpecialChars.WILDCARD_SINGLE: "_"}


@dataclass(frozen=True)
class TextMatch:
    """How a text is compared: a value of a rule without its outer wildcards.

    `text`: of the kind `like` the pattern.
    """

    kind: MatchKind
    text: str
    is_cased: bool

    @property
    def ignores_case(self) -> bool:
        """Whether letters are compared in lower case."""
        return not self.is_cased and has_letters(self.text)


def parse_text(value: SigmaString, is_cased: bool = False) -> TextMatch:
    """The comparison with a value with wildcards. Raises `NotImported`."""
    parts: list[str | SpecialChars] = []
    for part in value.s:
        if not isinstance(part, str | SpecialChars):
            raise NotImported(
                "placeholder", f"the placeholder %{part.name}% has no values in the map"
            )
        is_repeated = part is SpecialChars.WILDCARD_MULTI and parts[-1:] == [part]
        if not is_repeated and part != "":
            parts.append(part)
    _check_characters(parts)
    if parts == [SpecialChars.WILDCARD_MULTI]:
        return TextMatch("any", "", True)
    starts_open = parts[:1] == [SpecialChars.WILDCARD_MULTI]
    ends_open = parts[-1:] == [SpecialChars.WILDCARD_MULTI]
    inner = parts[int(starts_open) : len(parts) - int(ends_open)]
    texts = [part for part in inner if isinstance(part, str)]
    if len(texts) < len(inner):
        return TextMatch("like", "".join(map(_like_part, parts)), is_cased)
    kind: MatchKind = "equals"
    if starts_open and ends_open:
        kind = "contains"
    elif starts_open:
        kind = "endswith"
    elif ends_open:
        kind = "startswith"
    return TextMatch(kind, "".join(texts), is_cased)


def match_text(field: MappedField, match: TextMatch) -> str:
    """The predicate of one comparison. Raises `NotImported`."""
    if match.kind == "any":
        return f"{field.sql} IS NOT NULL"
    if match.kind == "equals" and field.type in NUMBERS and _is_integer(match.text):
        return f"{field.sql} = {match.text}"
    if (
        field.type == "boolean"
        and match.kind == "equals"
        and match.text.lower() in ("true", "false")
    ):
        return f"{field.sql} = {match.text.lower()}"
    operand, constant = _operands(field, match)
    if match.kind == "equals":
        return f"{operand} = {constant}"
    if match.kind == "like":
        return f"{operand} LIKE {constant}"
    return f"{match.kind}({operand}, {constant})"


def match_any_text(field: MappedField, matches: Sequence[TextMatch]) -> list[str]:
    """Predicates of which one has to hold, for comparisons of one kind and case.

    Equalities become one list, and long lists of texts one pattern.
    """
    first = matches[0]
    if len(matches) > 1 and first.kind == "equals" and field.type == "string":
        operand, _ = _operands(field, first)
        constants = [_operands(field, match)[1] for match in matches]
        return [f"{operand} IN ({', '.join(dict.fromkeys(constants))})"]
    is_pattern = first.kind in _PATTERNS and len(matches) > _MAX_FUNCTIONS
    is_exact = all(match.text.isascii() or not match.ignores_case for match in matches)
    if is_pattern and is_exact:
        operand, _ = _operands(field, first)
        texts = [match.text.lower() if first.ignores_case else match.text for match in matches]
        alternatives = "|".join(map(escape_regex, dict.fromkeys(texts)))
        return [f"{operand} RLIKE {quote_text(_PATTERNS[first.kind].format(alternatives))}"]
    return list(dict.fromkeys(match_text(field, match) for match in matches))


def join_chain(operands: Sequence[str], operator: Literal["AND", "OR"]) -> str:
    """Operands joined by an operator; many of them in groups."""
    parts = list(operands)
    while len(parts) > _CHAIN:
        groups = [parts[start : start + _CHAIN] for start in range(0, len(parts), _CHAIN)]
        parts = [f"({f' {operator} '.join(group)})" for group in groups]
    return f" {operator} ".join(parts)


def _operands(field: MappedField, match: TextMatch) -> tuple[str, str]:
    if match.ignores_case:
        return f"lower({field.text_sql})", fold_text(match.text)
    return field.text_sql, quote_text(match.text)


def _like_part(part: str | SpecialChars) -> str:
    return escape_like(part) if isinstance(part, str) else _WILDCARDS[part]


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and str(int(text)) == text


def _check_characters(parts: Sequence[str | SpecialChars]) -> None:
    for part in parts:
        if isinstance(part, str) and not all(map(_is_allowed, part)):
            raise NotImported("value", "a value has control characters, which rule files exclude")


def _is_allowed(character: str) -> bool:
    return character.isprintable() or character in "\n\r\t" or ord(character) > 0x9F
