"""Base models of the arguments of operations, and pages of lists."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, LiteralString, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from archiver.clock import utc_now
from moirae.config import DURATION_SCHEMA, parse_duration
from moirae.errors import UsageError

Item = TypeVar("Item")

MAX_PAGE_ROWS = 1_000
DEFAULT_PAGE_ROWS = 100
_CURSOR_SEPARATOR = "|"
_NUL = "\x00"


def _parse_duration_before_now(value: Any) -> Any:
    """`7d` -> the time of seven days ago. Others are returned as they are."""
    try:
        return utc_now() - parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _parse_seconds(value: Any) -> Any:
    """`1h` -> 3600.0; numbers are returned as they are."""
    if not isinstance(value, str):
        return value
    for parse in (float, lambda text: parse_duration(text).total_seconds()):
        with suppress(ValueError):
            return parse(value)
    raise PydanticCustomError(
        "duration", "is not a duration such as 1h30m, nor a number of seconds"
    )


def _to_utc(moment: datetime) -> datetime:
    """PostgreSQL has no times before 4714 BC or after 294276; Python's UTC has years 1 to 9999."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError("time", "is out of range") from error


class _OrDuration:
    """Adds the text of a duration to the JSON schema of a number."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), DURATION_SCHEMA]}


_NOT_IN_IDS = str.maketrans("", "", "%_\\")
SearchText = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
NoteText = Annotated[str, Field(max_length=10_000)]
IdPrefix = Annotated[str, Field(min_length=1, max_length=100)]
"""An ID, or a unique prefix of it; see `to_id_pattern`."""
Time = Annotated[
    datetime,
    BeforeValidator(_parse_duration_before_now),
    AfterValidator(_to_utc),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, DURATION_SCHEMA]}),
]
"""A time, in UTC if it has no time zone; or a duration before now, such as `7d`."""
Seconds = Annotated[float, BeforeValidator(_parse_seconds), _OrDuration()]
"""A duration in seconds, or as text such as `1h30m`."""


def shaped_text(
    pattern: str, expected: str, max_length: int
) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of a text whose values match `pattern`; `expected` tells what it must be."""
    shape = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if len(value) > max_length or shape.fullmatch(value) is None:
            raise PydanticCustomError("shape", f"must be {expected}")
        return value

    schema = {"type": "string", "pattern": f"^{pattern}$", "maxLength": max_length}
    return AfterValidator(check), WithJsonSchema(schema)


def find_text_problem(text: str) -> LiteralString | None:
    """Why PostgreSQL cannot store a text; None if it can."""
    if _NUL in text:
        return "must not contain the NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        return "must be UTF-8 text"
    return None


class Arguments(BaseModel):
    """The query string or the body of an operation. Unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _reject_invalid_text(cls, value: Any) -> Any:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (problem := find_text_problem(text)):
                raise PydanticCustomError("text", problem)
        return value


class PageQuery(Arguments):
    """Which part of a list."""

    limit: int = Field(
        DEFAULT_PAGE_ROWS, ge=1, le=MAX_PAGE_ROWS, description="Maximum number of rows."
    )
    cursor: str | None = Field(
        None, max_length=300, description="`next` of the previous page; absent: the first page."
    )
    count: bool = Field(False, description="Whether to count the rows of all pages (`total`).")


def encode_cursor(*parts: Any) -> str:
    """A position in a list as opaque text."""
    text = _CURSOR_SEPARATOR.join(
        part.isoformat() if isinstance(part, datetime) else str(part) for part in parts
    )
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *types: Callable[[str], Any]) -> tuple[Any, ...] | None:
    """The parts of a cursor; None without one. Raises `UsageError`."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(
            cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        ).decode()
        parts = text.split(_CURSOR_SEPARATOR)
        values = tuple(parse(part) for parse, part in zip(types, parts, strict=True))
    except (binascii.Error, ValueError, OverflowError) as error:
        raise UsageError("invalid cursor: use `next` of the previous page") from error
    if any(isinstance(value, datetime) and value.tzinfo is None for value in values):
        raise UsageError("invalid cursor: use `next` of the previous page")
    return values


def next_cursor(
    rows: Sequence[Item], limit: int, position: Callable[[Item], tuple[Any, ...]]
) -> str | None:
    """The cursor after a page; None for the last one, which has fewer rows than the limit."""
    if len(rows) < limit:
        return None
    return encode_cursor(*position(rows[-1]))


def to_id_pattern(prefix: str) -> str:
    """How the IDs begin that a prefix stands for, without what LIKE reads as a wildcard or an escape:
    none is part of an ID. Empty: it stands for none.
    """
    return prefix.lower().translate(_NOT_IN_IDS)


def parse_number(text: str) -> int:
    """A number of a cursor that PostgreSQL can hold. Raises `ValueError`."""
    number = int(text)
    if not 0 <= number < 1 << 63:
        raise ValueError(text)
    return number
