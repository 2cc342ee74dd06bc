"""Base model and field types of all configuration files.

Unknown keys are rejected, models are frozen, and no value is converted to another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Strict,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

MAX_SQL_LENGTH = 20_000  # characters of one query
MAX_SQL_NESTING = 32  # levels of brackets in one query

KeyPath = tuple[str | int, ...]
"""Path to a value of a file: keys of mappings and indexes of lists."""


class ConfigModel(BaseModel):
    """One mapping of a configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ValueProblem(NamedTuple):
    """A problem inside a value.

    `path`: below that value; a path of a single key means the key, not its value. `line`: in a
    text of several lines; None: not inside a text.
    """

    path: KeyPath
    message: str
    line: int | None = None


def raise_problems(problems: Iterable[ValueProblem]) -> None:
    """Reject a value if there are problems: for validators that find several, or one inside it.

    `moirae.documents.validation` reports each on its own.
    """
    reported = tuple(problems)
    if reported:
        raise PydanticCustomError("refusal", "rejected", {"problems": reported})


def name_pattern(pattern: str, description: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of a text type whose values match `pattern`, which `description` explains."""
    shape = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if shape.fullmatch(value) is None:
            raise ValueError(f"{value[:80]!r} is not a valid name; a name is {description}")
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def discriminate_by_key(error: str, **models: type[ConfigModel]) -> Discriminator:
    """Selects a model of a union by the key that a mapping has, as `Tag("<key>")`.

    `error` is the message for a mapping with none of the keys, or several. The angle brackets
    distinguish tags from keys of the file.
    """

    def kind(value: Any) -> str | None:
        keys: list[str] = []
        for key, model in models.items():
            if isinstance(value, model) or (isinstance(value, Mapping) and key in value):
                keys.append(key)
        if len(keys) != 1:
            return None
        return f"<{keys[0]}>"

    return Discriminator(kind, custom_error_type="choice", custom_error_message=error)


def _require_nonblank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _keep_source_text(value: Any) -> Any:
    """Accept a number as text, spelled as in the file: the label 1.10 stays "1.10"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return getattr(value, "source_text", str(value))


def _keep_bool_source_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return _keep_source_text(value)


def _require_constant(value: Any) -> int | float | str | bool:
    """The value without its spelling in the file."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise ValueError("must be a number, a text, true or false")


def _check_sql_size(value: str) -> str:
    if len(value) > MAX_SQL_LENGTH:
        raise ValueError(f"longer than {MAX_SQL_LENGTH} characters")
    depth = deepest = 0
    for character in value:
        depth += (character in "([") - (character in ")]")
        deepest = max(deepest, depth)
    if deepest > MAX_SQL_NESTING:
        raise ValueError(f"brackets are nested deeper than {MAX_SQL_NESTING} levels")
    return value


_TITLE_DESCRIPTION = "a letter, then up to 62 letters, digits, _ or -"
_TABLE_NAME_DESCRIPTION = "a lower-case letter, then up to 62 lower-case letters, digits or _"
_LABEL_NAME_DESCRIPTION = "a letter or _, then up to 62 letters, digits or _"


def _require_true(value: Any) -> Any:
    if value is not True:
        raise ValueError("must be true")
    return value


Flag = Annotated[bool, Strict()]
OnlyTrue = Annotated[Literal[True], BeforeValidator(_require_true)]
"""A key whose presence says all; its value is `true`."""
PositiveInt = Annotated[int, Strict(), Field(ge=1)]
NonNegativeInt = Annotated[int, Strict(), Field(ge=0)]
Number = Annotated[float, Strict()]

Text = Annotated[str, Field(max_length=65_536), AfterValidator(_require_nonblank)]
Sql = Annotated[Text, AfterValidator(_check_sql_size)]
"""A query or condition. The rule gate validates its content."""
Title = Annotated[str, *name_pattern(r"[A-Za-z][A-Za-z0-9_-]{0,62}", _TITLE_DESCRIPTION)]
"""Name of a group or an alert."""
TableName = Annotated[str, *name_pattern(r"[a-z][a-z0-9_]{0,62}", _TABLE_NAME_DESCRIPTION)]
"""Name that SQL may use as a table."""
LabelName = Annotated[str, *name_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,62}", _LABEL_NAME_DESCRIPTION)]

TextOrNumber = Annotated[
    Text, BeforeValidator(_keep_source_text, json_schema_input_type=str | int | float)
]
"""Text; a number is accepted in the spelling of the file."""
TextNumberOrFlag = Annotated[
    Text, BeforeValidator(_keep_bool_source_text, json_schema_input_type=str | int | float | bool)
]
"""Text; a number is accepted in the spelling of the file, a boolean in lower case."""
Parameter = Annotated[
    int | float | str | bool,
    PlainValidator(_require_constant),
    WithJsonSchema({"anyOf": [{"type": kind} for kind in ("number", "string", "boolean")]}),
]
"""A constant of SQL."""
