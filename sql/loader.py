"""Named statements of a gateway, from the files in `queries/`.

Each statement in a file starts with a line `-- name --`, then a line that states its purpose.
"""

import re
from functools import cache
from importlib.resources import files

from psycopg.sql import SQL

_NAME_LINE = re.compile(r"^-- ([a-z_]+) --$", re.MULTILINE)


@cache
def load(gateway: str) -> dict[str, SQL]:
    """The statements of a gateway by name. Raises `FileNotFoundError` if it is unknown."""
    _, *parts = _NAME_LINE.split(read_text("queries", f"{gateway}.sql"))
    statements = [SQL(text.strip()) for text in parts[1::2]]
    return dict(zip(parts[0::2], statements, strict=True))


def read_text(*path: str) -> str:
    """A file of this package."""
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")
