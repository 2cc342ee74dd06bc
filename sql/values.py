"""Values for jsonb and text columns."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_NUL = b"\\u0000"


def replace_nul(value: Any) -> Any:
    """Replace NUL by ␀ (U+2400) in all texts of a jsonb value: PostgreSQL cannot store NUL."""
    if isinstance(value, str):
        return value.replace("\x00", "\u2400")
    if isinstance(value, list | tuple):
        return [replace_nul(item) for item in value]
    if isinstance(value, Mapping):
        return {replace_nul(name): replace_nul(item) for name, item in value.items()}
    return value


def to_json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a JSON array, for `json_to_recordset`; NUL is replaced as by `replace_nul`."""
    try:
        content = orjson.dumps(rows)
        if _NUL in content:
            content = orjson.dumps(replace_nul(rows))
    except TypeError:  # integers of more than 64 bits, for example
        return json.dumps(replace_nul(rows), default=str)
    return content.decode()
