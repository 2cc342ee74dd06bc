"""Columns as declared in the workspace file: their types, and where their values come from."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from moirae.documents.types import ConfigModel, Text, ValueProblem, name_pattern, raise_problems

ColumnType = Literal["boolean", "int", "bigint", "float", "double", "string", "date", "timestamp"]

_TYPE_ALIASES = {"integer": "int", "long": "bigint"}
_COLUMN_TYPES: tuple[str, ...] = get_args(ColumnType)


def _validate_column_type(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be one of {', '.join(_COLUMN_TYPES)}")
    name = _TYPE_ALIASES.get(value.lower(), value.lower())
    if name in _COLUMN_TYPES:
        return name
    names = [*_COLUMN_TYPES, *_TYPE_ALIASES]
    similar_names = difflib.get_close_matches(name[:64], names, n=1, cutoff=0.5)
    advice = f"use one of {', '.join(_COLUMN_TYPES)}"
    if similar_names:
        advice = f"did you mean {similar_names[0]!r}?"
    raise ValueError(f"unknown column type {value[:80]!r}, {advice}")


_ColumnType = Annotated[
    ColumnType,
    BeforeValidator(
        _validate_column_type, json_schema_input_type=Literal[(*_COLUMN_TYPES, *_TYPE_ALIASES)]
    ),
]
_ColumnName = Annotated[
    str,
    *name_pattern(r"[A-Za-z][A-Za-z0-9_]{0,62}", "a letter, then up to 62 letters, digits or _"),
]


class Column(ConfigModel):
    """A column with more than its type."""

    type: _ColumnType = Field(description="Spark SQL type.")
    from_: Text | Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        alias="from",
        description="Name or path of the field that the column is read from, such as `host.name` "
        "or `items[0].id`; of several, the first that a record has. Default: the name of the "
        "column and, in records without it, the name that `was` says.",
    )
    was: _ColumnName | None = Field(
        default=None,
        description="Name of the column before it was renamed. Archived rows are rewritten.",
    )


_Column = Annotated[
    Annotated[_ColumnType, Tag("<type>")] | Annotated[Column, Tag("<column>")],
    Discriminator(
        lambda value: "<column>" if isinstance(value, Column | Mapping) else "<type>",
    ),
]
DeclaredColumns = Annotated[Mapping[_ColumnName, _Column], Field(min_length=1, max_length=1024)]
"""Column name -> Spark SQL type, or a mapping with it, in the order of the file."""


class ColumnsModel(ConfigModel):
    """What has columns: a stream or a relation."""

    reserved_columns: ClassVar[frozenset[str]] = frozenset({"chunk"})

    declared_columns: DeclaredColumns = Field(
        alias="columns", description="Column names and Spark SQL types."
    )

    @cached_property
    def columns(self) -> dict[str, str]:
        """Type names by column, in the order of the file."""
        return column_types(self.declared_columns)

    @cached_property
    def renamed(self) -> dict[str, str]:
        """By renamed column, its name before."""
        return {name: column.was for name, column in self._long_forms() if column.was is not None}

    @cached_property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """By column, the fields that it is read from: the first that a record has.

        Columns that are not named are read from the field of their name.
        """
        fields: dict[str, tuple[str, ...]] = {}
        for name, column in self._long_forms():
            declared = (column.from_,) if isinstance(column.from_, str) else column.from_
            if declared is not None and declared != (name,):
                fields[name] = declared
            elif column.from_ is None and column.was is not None:
                fields[name] = (name, column.was)
        return fields

    @property
    def field_names(self) -> list[str]:
        """The fields of a record without names, in the order of the columns."""
        return [self.fields.get(name, (name,))[0] for name in self.columns]

    def _long_forms(self) -> list[tuple[str, Column]]:
        declared = self.declared_columns.items()
        return [(name, column) for name, column in declared if isinstance(column, Column)]

    @field_validator("declared_columns")
    @classmethod
    def _validate_columns(cls, columns: DeclaredColumns) -> DeclaredColumns:
        raise_problems(
            [*_find_name_problems(columns, cls.reserved_columns), *_find_renames(columns)]
        )
        return columns


def column_types(columns: Mapping[str, str | Column]) -> dict[str, str]:
    """Type names by column."""
    types: dict[str, str] = {}
    for name, column in columns.items():
        types[name] = column.type if isinstance(column, Column) else column
    return types


def _find_name_problems(
    columns: Mapping[str, str | Column], reserved: frozenset[str]
) -> list[ValueProblem]:
    problems: list[ValueProblem] = []
    names_by_lower: dict[str, str] = {}  # SQL names are case-insensitive
    for name in columns:
        if name.lower() in reserved:
            problems.append(ValueProblem((name,), f"column name {name!r} is reserved"))
        first_name = names_by_lower.setdefault(name.lower(), name)
        if first_name != name:
            problems.append(
                ValueProblem((name,), f"column {name!r} differs from {first_name!r} only in case")
            )
    return problems


def _find_renames(columns: Mapping[str, str | Column]) -> list[ValueProblem]:
    """Problems of the names that columns had before."""
    problems: list[ValueProblem] = []
    columns_by_old_name: dict[str, str] = {}
    for name, column in columns.items():
        if not isinstance(column, Column) or column.was is None:
            continue
        message = None
        if column.was in columns:
            message = f"column {column.was!r} is still declared: remove it, or `was`"
        elif column.was in columns_by_old_name:
            first = columns_by_old_name[column.was]
            message = f"column {first!r} was {column.was!r}, too: only one of them can continue it"
        columns_by_old_name.setdefault(column.was, name)
        if message is not None:
            problems.append(ValueProblem((name, "was"), message))
    return problems


def check_column_names(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Reject a list with unknown names, or with one twice."""
    columns = info.data.get("declared_columns")
    problems: list[ValueProblem] = []
    for index, name in enumerate(names):
        if columns is not None and name not in columns:
            problems.append(ValueProblem((index,), _unknown_column_message(name, columns)))
        if name in names[:index]:
            problems.append(ValueProblem((index,), f"column {name!r} is listed twice"))
    raise_problems(problems)
    return names


def check_time_column(name: str, info: ValidationInfo) -> str:
    """Reject a name that is no timestamp column."""
    declared = info.data.get("declared_columns")
    if declared is None:
        return name
    columns = column_types(declared)
    if name not in columns:
        raise ValueError(_unknown_column_message(name, columns))
    if columns[name] != "timestamp":
        raise ValueError(f"column {name!r} must be a timestamp, not {columns[name]}")
    return name


def _unknown_column_message(name: str, columns: Mapping[str, Any]) -> str:
    message = f"unknown column {name[:80]!r}"
    similar_names = difflib.get_close_matches(name[:64], columns, n=1)
    if similar_names:
        message += f", did you mean {similar_names[0]!r}?"
    return message
