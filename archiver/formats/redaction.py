"""Secrets in texts, replaced before anything is written. No I/O.

Functions for tables load Arrow when they are called: the command line reads settings without it.
Patterns have RE2's syntax, so that time is linear in the length of the text.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import re2

if TYPE_CHECKING:
    import pyarrow as pa

_EXTRA = "_extra"
_NO_SECRET = "x0"


class Redaction(NamedTuple):
    """What is replaced in the texts of a column: each match of a pattern.

    `replacement` may name groups of the pattern: `\\1`.
    """

    column: str
    pattern: str
    replacement: str


Redactions = Sequence[Redaction]


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any:
    return re2.compile(pattern)


def redact_text(text: str, redactions: Redactions) -> str:
    """A text after some redactions, one after the other."""
    for redaction in redactions:
        if _compile(redaction.pattern).search(text) is not None:
            text = _compile(redaction.pattern).sub(redaction.replacement, text)
    return text


def redact_number(value: float, redactions: Redactions) -> Any:
    """A number as it is, or as redacted text."""
    text = redact_text(str(value), redactions)
    return value if text == str(value) else text


def redact_value(value: Any, redactions: Redactions, plain_names: Collection[str] = ()) -> Any:
    """A value of JSON with its texts redacted.

    Numbers, and names of fields other than `plain_names`, are redacted by patterns that tell what a
    secret looks like: one that matches any character replaces the whole of a column.
    """
    specific = [r for r in redactions if _compile(r.pattern).search(_NO_SECRET) is None]
    return _redact_value(value, redactions, specific, plain_names)


def _redact_value(
    value: Any, redactions: Redactions, specific: Redactions, plain_names: Collection[str]
) -> Any:
    if isinstance(value, str):
        return redact_text(value, redactions)
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, inner in value.items():
            redacted = name if name in plain_names else redact_text(name, specific)
            unique = _make_unique(redacted, fields)
            fields[unique] = _redact_value(inner, redactions, specific, plain_names)
        return fields
    if isinstance(value, list):
        return [_redact_value(inner, redactions, specific, plain_names) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return redact_number(value, specific)
    return value


def _make_unique(name: str, fields: Mapping[str, Any]) -> str:
    """A name that no other field has: several may be redacted to the same one."""
    unique, count = name, 2
    while unique in fields:
        unique, count = f"{name} {count}", count + 1
    return unique


def redact_table(table: "pa.Table", redactions: Redactions) -> "pa.Table":
    """Decoded rows with their columns redacted, and `_extra` by the redactions of all columns."""
    import pyarrow as pa

    for name in dict.fromkeys(redaction.column for redaction in redactions):
        if name != _EXTRA and name in table.column_names:
            own = [redaction for redaction in redactions if redaction.column == name]
            table = _replace_column(table, name, _redact_column(table[name], own))
    if redactions and table[_EXTRA].null_count < len(table):
        texts = [_redact_object(text, redactions) for text in table[_EXTRA].to_pylist()]
        table = _replace_column(table, _EXTRA, pa.chunked_array([pa.array(texts, pa.string())]))
    return table


def _redact_column(column: "pa.ChunkedArray", redactions: Redactions) -> "pa.ChunkedArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    for redaction in redactions:
        matches = pc.match_substring_regex(column, redaction.pattern).fill_null(False)
        if not pc.any(matches).as_py():
            continue
        texts = column.to_pylist()
        for position in pc.indices_nonzero(matches).to_pylist():
            texts[position] = redact_text(texts[position], [redaction])
        column = pa.chunked_array([pa.array(texts, pa.string())])
    return column


def _redact_object(text: str | None, redactions: Redactions) -> str | None:
    if text is None:
        return None
    fields = orjson.loads(text)
    redacted = redact_value(fields, redactions)
    if redacted == fields:
        return text
    return orjson.dumps(redacted, option=orjson.OPT_SORT_KEYS).decode()


def _replace_column(table: "pa.Table", name: str, column: "pa.ChunkedArray") -> "pa.Table":
    return table.set_column(table.column_names.index(name), name, column)
