"""What the models of all files share: unknown keys refused, values frozen, no type bent to fit another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

# Of one query: characters, and brackets inside brackets.
MAX_SQL_LENGTH = 20_000
MAX_SQL_NESTING = 32

KeyPath = tuple[str | int, ...]
"""The way from one value of a file to another: keys of mappings and indexes of lists."""


class ConfigModel(BaseModel):
    """One mapping of a file that users write."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def raise_problems(problems: Iterable[tuple[KeyPath, str] | tuple[KeyPath, str, int]]) -> None:
    """Refuse a value for its faults, if there are any: for validators that find several, or one deeper inside.

    Each fault comes with its path below that value and, of a text, the line; a path of a single key stands
    for the key, not for its value. `moirae.documents.validation` makes each a problem of its own.
    """
    found = tuple(problems)
    if found:
        raise PydanticCustomError("refusal", "refused", {"problems": found})


def name_pattern(pattern: str, description: str) -> tuple[AfterValidator, WithJsonSchema]:
    """The parts of a text type whose values match `pattern` in full; `words` describe the pattern."""
    shape = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if shape.fullmatch(value) is None:
            raise ValueError(f"{value[:80]!r} is not a valid name; a name is {description}")
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def discriminate_by_key(error: str, **models: type[ConfigModel]) -> Discriminator:
    """Which of some models a mapping is, by the key that it has: `Tag("<key>")` of a union. `error`: where it has none
    of the keys, or several. The angle brackets keep tags apart from keys of the file."""

    def kind(value: Any) -> str | None:
        if isinstance(value, ConfigModel):
            found = [key for key, model in models.items() if isinstance(value, model)]
        else:
            found = [key for key in models if isinstance(value, Mapping) and key in value]
        return f"<{found[0]}>" if len(found) == 1 else None

    return Discriminator(kind, custom_error_type="choice", custom_error_message=error)


def _require_nonblank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _keep_source_text(value: Any) -> Any:
    """Take a number where text is wanted, in the spelling of the file: a label 1.10 stays "1.10"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return getattr(value, "source_text", str(value))


def _keep_bool_source_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else _keep_source_text(value)


def _check_sql_size(value: str) -> str:
    if len(value) > MAX_SQL_LENGTH:
        raise ValueError(f"longer than {MAX_SQL_LENGTH} characters")
    depth = deepest = 0
    for sign in value:
        depth += (sign in "([") - (sign in ")]")
        deepest = max(deepest, depth)
    if deepest > MAX_SQL_NESTING:
        raise ValueError(f"brackets are nested deeper than {MAX_SQL_NESTING} levels")
    return value


_TITLE_DESCRIPTION = "a letter, then up to 62 letters, digits, _ or -"
_TABLE_NAME_DESCRIPTION = "a lower-case letter, then up to 62 lower-case letters, digits or _"
_LABEL_NAME_DESCRIPTION = "a letter or _, then up to 62 letters, digits or _"

Flag = Annotated[bool, Strict()]
PositiveInt = Annotated[int, Strict(), Field(ge=1)]
NonNegativeInt = Annotated[int, Strict(), Field(ge=0)]
Number = Annotated[float, Strict()]

Text = Annotated[str, Field(max_length=65_536), AfterValidator(_require_nonblank)]
Sql = Annotated[Text, AfterValidator(_check_sql_size)]
"""A query or condition; what it may say is the rule gate's matter."""
Title = Annotated[str, *name_pattern(r"[A-Za-z][A-Za-z0-9_-]{0,62}", _TITLE_DESCRIPTION)]
"""The name of a group or an alert."""
TableName = Annotated[str, *name_pattern(r"[a-z][a-z0-9_]{0,62}", _TABLE_NAME_DESCRIPTION)]
"""A name that SQL may use as a table."""
LabelName = Annotated[str, *name_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,62}", _LABEL_NAME_DESCRIPTION)]

TextOrNumber = Annotated[
    Text, BeforeValidator(_keep_source_text, json_schema_input_type=str | int | float)
]
"""Text; a number is taken as it was written."""
TextNumberOrFlag = Annotated[
    Text, BeforeValidator(_keep_bool_source_text, json_schema_input_type=str | int | float | bool)
]
"""Text; a number is taken as it was written, true and false in lower case."""
