"""The database's words: one schema, and queries by name.

A file in `queries/` belongs to one gateway. Each query in it starts with a line `-- name --`, then a line that
states its purpose, then the statement. `load("catalog")` returns them as a mapping from name to SQL text.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from psycopg import sql

_NAME_LINE = re.compile(r"^-- ([a-z_]+) --$", re.MULTILINE)


def schema() -> sql.SQL:
    """The whole schema, written so that applying it to a database of this or an older one brings that up to date."""
    return sql.SQL(_read("schema.sql"))


@cache
def load(gateway: str) -> dict[str, sql.SQL]:
    """The queries of one gateway, by name. Raises `FileNotFoundError` for an unknown gateway."""
    parts = _NAME_LINE.split(_read("queries", f"{gateway}.sql"))
    return {
        name: sql.SQL(text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _read(*path: str) -> str:
    return files(__name__).joinpath(*path).read_text(encoding="utf-8")


def replace_nul(value: Any) -> Any:
    """A value for a jsonb column: PostgreSQL keeps no NUL in text, it is shown as ␀ (U+2400)."""
    if isinstance(value, str):
        return value.replace("\x00", "\u2400")
    if isinstance(value, list | tuple):
        return [replace_nul(item) for item in value]
    if isinstance(value, Mapping):
        return {replace_nul(name): replace_nul(item) for name, item in value.items()}
    return value
