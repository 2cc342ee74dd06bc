"""Values for jsonb and text columns."""

from collections.abc import Mapping
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
