"""Values for jsonb and text columns."""

from collections.abc import Mapping
from typing import Any


def replace_nul(value: Any) -> Any:
    """Replace NUL by ␀ (U+2400) in all texts of a jsonb value: PostgreSQL cannot store NUL."""
    if isinstance(value, str):
        return value.replace("\x00", "\u2400")
    if isinstance(value, list | tuple):
        return [replace_nul(item) for item in value]
    if isinstance(value, Mapping):
        return {replace_nul(name): replace_nul(item) for name, item in value.items()}
    return value
