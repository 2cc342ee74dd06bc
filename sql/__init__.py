"""The SQL of the control plane: one schema, and named queries.

A file in `queries/` belongs to one gateway. Each query in it starts with a line `-- name --`, then
a line that states its purpose, then the statement. `load("catalog")` returns them by name.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from psycopg import sql

_NAME_LINE = re.compile(r"^-- ([a-z_]+) --$", re.MULTILINE)


def schema() -> sql.SQL:
    """Return the schema as an idempotent script, which also upgrades an older database."""
    return sql.SQL(_read("schema.sql"))


@cache
def load(gateway: str) -> dict[str, sql.SQL]:
    """Return the queries of a gateway by name. Raises `FileNotFoundError` if it is unknown."""
    _, *parts = _NAME_LINE.split(_read("queries", f"{gateway}.sql"))
    statements = [sql.SQL(text.strip()) for text in parts[1::2]]
    return dict(zip(parts[0::2], statements, strict=True))


def _read(*path: str) -> str:
    return files(__name__).joinpath(*path).read_text(encoding="utf-8")


def replace_nul(value: Any) -> Any:
    """Replace NUL by ␀ (U+2400) in all texts of a jsonb value: PostgreSQL cannot store NUL."""
    if isinstance(value, str):
        return value.replace("\x00", "\u2400")
    if isinstance(value, list | tuple):
        return [replace_nul(item) for item in value]
    if isinstance(value, Mapping):
        return {replace_nul(name): replace_nul(item) for name, item in value.items()}
    return value
