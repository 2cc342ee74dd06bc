"""Values for jsonb and text columns."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_NUL = "\x00"
_NUL_IN_JSON = b"\\u0000"


def replace_nul(value: Any) -> Any:
    """Replace NUL by ␀ (U+2400) in all texts of a jsonb value: PostgreSQL cannot store NUL.

    A value without NUL may be returned as it is.
    """
    if isinstance(value, str):
        return value.replace(_NUL, "\u2400")
    if isinstance(value, list | tuple | Mapping) and not _may_contain_nul(value):
        return value
    return _replace_in_all(value)


def _may_contain_nul(value: Any) -> bool:
    """Whether a value contains NUL; True also where that is costly to tell."""
    try:
        return _NUL_IN_JSON in orjson.dumps(value)
    except TypeError:  # not of the types of orjson
        return True


def _replace_in_all(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_NUL, "\u2400")
    if isinstance(value, list | tuple):
        return list(map(_replace_in_all, value))
    if isinstance(value, Mapping):
        return {_replace_in_all(name): _replace_in_all(item) for name, item in value.items()}
    return value


def to_json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a JSON array, for `json_to_recordset`; NUL is replaced as by `replace_nul`."""
    try:
        content = orjson.dumps(rows)
        if _NUL_IN_JSON in content:
            content = orjson.dumps(replace_nul(rows))
    except TypeError:  # integers of more than 64 bits, for example
        return json.dumps(replace_nul(rows), default=str)
    return content.decode()
