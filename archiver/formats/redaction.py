"""Secrets in texts, replaced before anything is written. No I/O.

Functions for tables load Arrow when they are called: the command line reads settings without it.
Patterns have RE2's syntax, so that time is linear in the length of the text.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import re2

if TYPE_CHECKING:
    import pyarrow as pa

_EXTRA = "_extra"


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


def redact_value(value: Any, redactions: Redactions) -> Any:
    """A value of JSON with its texts redacted."""
    if isinstance(value, str):
        return redact_text(value, redactions)
    if isinstance(value, dict):
        return {name: redact_value(inner, redactions) for name, inner in value.items()}
    if isinstance(value, list):
        return [redact_value(inner, redactions) for inner in value]
    return value


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
