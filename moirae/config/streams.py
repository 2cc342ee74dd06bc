"""What a workspace declares about its data: streams and relations, their columns and their sources."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, Tag, ValidationInfo, field_validator

from moirae.config.durations import Duration, PositiveDuration
from moirae.config.paths import InterpolatedText, LocalPath, SecretText
from moirae.documents import (
    ConfigModel,
    KeyPath,
    Text,
    discriminate_by_key,
    name_pattern,
    raise_problems,
)

ColumnType = Literal["boolean", "int", "bigint", "float", "double", "string", "date", "timestamp"]
FileFormat = Literal["jsonl", "csv", "parquet"]
MessageFormat = Literal["jsonl", "csv"]

_TYPE_ALIASES = {"integer": "int", "long": "bigint"}
_COLUMN_TYPES: tuple[str, ...] = get_args(ColumnType)
_FORMATS_BY_SUFFIX: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_RESERVED_COLUMNS = frozenset({"chunk"})


def _validate_column_type(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a column type is one of {', '.join(_COLUMN_TYPES)}")
    name = _TYPE_ALIASES.get(value.lower(), value.lower())
    if name in _COLUMN_TYPES:
        return name
    near = difflib.get_close_matches(name[:64], [*_COLUMN_TYPES, *_TYPE_ALIASES], n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(_COLUMN_TYPES)}"
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
DeclaredColumns = Annotated[Mapping[_ColumnName, _ColumnType], Field(min_length=1, max_length=1024)]
"""Column name -> Spark SQL type, in the order of the file."""


def infer_format(name: str) -> FileFormat:
    """The format that a file's suffix tells, compressed or not."""
    suffix = re.search(r"\.[^./*?]+$", name.removesuffix(".gz"))
    if suffix is None or suffix[0].lower() not in _FORMATS_BY_SUFFIX:
        raise ValueError(
            "the file's suffix does not tell its format; add `format: jsonl`, `csv` or `parquet`"
        )
    return _FORMATS_BY_SUFFIX[suffix[0].lower()]


def _infer_missing_format(value: Any, info: ValidationInfo) -> Any:
    name = info.data.get("files") or info.data.get("file")
    return infer_format(name) if value is None and name else value


_InferredFileFormat = Annotated[
    FileFormat,
    BeforeValidator(_infer_missing_format, json_schema_input_type=FileFormat | None),
    Field(
        default=None,
        validate_default=True,
        description="jsonl, csv (with a header line) or parquet; absent: as the suffix tells.",
    ),
]


_InferredTextFormat = Annotated[
    MessageFormat,
    BeforeValidator(_infer_missing_format, json_schema_input_type=MessageFormat | None),
    Field(
        default=None,
        validate_default=True,
        description="jsonl or csv (with a header line); absent: as the suffix tells.",
    ),
]


class FileSource(ConfigModel):
    """Files that are complete when they appear, in order of modification time, then name."""

    files: LocalPath = Field(
        description="Glob of the files, relative to the workspace file; .gz is unpacked.",
        examples=["landing/cpu/*.jsonl"],
    )
    format: _InferredFileFormat


class HttpSource(ConfigModel):
    """Rows that are posted to the server."""

    http: Literal[True] = Field(description="true: rows are posted to /api/v1/ingest/<stream>.")

    @field_validator("http", mode="before")
    @classmethod
    def _validate_http(cls, value: Any) -> Any:
        if value is not True:
            raise ValueError("must be true; leave the source out to switch it off")
        return value


class Kafka(ConfigModel):
    """One Kafka topic."""

    servers: InterpolatedText = Field(
        description="Bootstrap servers, host:port with commas; ${VAR} is replaced."
    )
    topic: Text = Field(description="The topic's name.")


class KafkaSource(ConfigModel):
    """Messages of a Kafka topic; lateness is judged within each partition."""

    kafka: Kafka = Field(description="Where the messages come from.")
    format: MessageFormat = Field(
        default="jsonl",
        description="How a message's value is written; csv: the columns in the order declared here.",
    )


StreamSource = Annotated[
    Annotated[FileSource, Tag("<files>")]
    | Annotated[HttpSource, Tag("<http>")]
    | Annotated[KafkaSource, Tag("<kafka>")],
    discriminate_by_key(
        "a source is exactly one of {files: GLOB}, {http: true} and {kafka: {servers: …, topic: …}}",
        files=FileSource,
        http=HttpSource,
        kafka=KafkaSource,
    ),
]


def _check_columns(columns: Mapping[str, str], reserved: frozenset[str]) -> Mapping[str, str]:
    problems: list[tuple[KeyPath, str]] = []
    seen: dict[str, str] = {}  # in lower case -> as written
    for name in columns:
        if name.lower() in reserved:
            problems.append(((name,), f"column name {name!r} is reserved"))
        if name.lower() in seen:  # SQL does not tell them apart
            problems.append(
                ((name,), f"column {name!r} differs from {seen[name.lower()]!r} only in case")
            )
        seen.setdefault(name.lower(), name)
    raise_problems(problems)
    return columns


def _check_column_names(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    columns = info.data.get("columns")
    problems: list[tuple[KeyPath, str]] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        if columns is not None and name not in columns:
            problems.append(((place,), _unknown_column_message(name, columns)))
        if name in seen:
            problems.append(((place,), f"column {name!r} is named twice"))
        seen.add(name)
    raise_problems(problems)
    return names


def _check_time_column(name: str, info: ValidationInfo) -> str:
    columns = info.data.get("columns")
    if columns is not None and name not in columns:
        raise ValueError(_unknown_column_message(name, columns))
    if columns is not None and columns[name] != "timestamp":
        raise ValueError(f"column {name!r} must be a timestamp, not {columns[name]}")
    return name


def _unknown_column_message(name: str, columns: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name[:64], columns, n=1)
    return f"unknown column {name[:80]!r}" + (f", did you mean {near[0]!r}?" if near else "")


class Stream(ConfigModel):
    """A declared input: timestamped rows, archived once, then queried live and as history."""

    columns: DeclaredColumns = Field(description="Column names and Spark SQL types.")
    time: str = Field(description="The timestamp column that holds the event time, in UTC.")
    id: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Columns that, with the event time, identify a row; absent: a hash of the whole row.",
    )
    key: tuple[str, ...] = Field(
        default=(), max_length=64, description="Columns by which rows are clustered inside chunks."
    )
    lateness: Duration = Field(
        default=timedelta(minutes=1),
        description="How far, in event time, a row may lie behind the newest row of earlier files or batches "
        "before it counts as late.",
    )
    future: Duration = Field(
        default=timedelta(minutes=5),
        description="How far a row may lie ahead of the clock; rows further ahead are quarantined.",
    )
    idle: PositiveDuration = Field(
        default=timedelta(seconds=10),
        description="Silence, by the clock, after which the stream no longer holds back the others: it is taken to be "
        "as far as the furthest of them, and what it then brings of an earlier time is late.",
    )
    source: StreamSource = Field(description="Where rows come from: files, http or kafka.")

    @field_validator("columns")
    @classmethod
    def _validate_columns(cls, columns: Mapping[str, str]) -> Mapping[str, str]:
        return _check_columns(columns, _RESERVED_COLUMNS)

    _validate_time = field_validator("time")(_check_time_column)
    _validate_id_and_key = field_validator("id", "key")(
        lambda names, info: names if names is None else _check_column_names(names, info)
    )


class RelationFile(ConfigModel):
    """The file that holds a relation's rows; a changed file is a new version."""

    file: LocalPath = Field(
        description="Path relative to the workspace file.", examples=["hosts.csv"]
    )
    format: _InferredTextFormat


class TableSource(ConfigModel):
    """The PostgreSQL table or view that holds a relation's rows; what differs at a look is a new version."""

    table: Annotated[
        str,
        *name_pattern(
            r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?", "NAME or SCHEMA.NAME"
        ),
    ] = Field(description="Its name, with or without its schema.", examples=["inventory.hosts"])
    database: SecretText = Field(description="PostgreSQL DSN, or ${VAR} that holds it.")
    every: PositiveDuration = Field(
        default=timedelta(minutes=1), description="Time, by the clock, between two looks."
    )


RelationSource = Annotated[
    Annotated[RelationFile, Tag("<file>")] | Annotated[TableSource, Tag("<table>")],
    discriminate_by_key(
        "a relation's source is exactly one of {file: PATH} and {table: NAME, database: DSN}",
        file=RelationFile,
        table=TableSource,
    ),
]


class Relation(ConfigModel):
    """A small, slowly changing table, kept with the time from which each version holds."""

    columns: DeclaredColumns = Field(description="Column names and Spark SQL types.")
    key: tuple[str, ...] = Field(
        min_length=1, max_length=64, description="Columns that identify a row among its versions."
    )
    source: RelationSource = Field(description="Where the rows come from.")
    valid_from: str | None = Field(
        default=None,
        description="Timestamp column from which a row holds; absent: the first version holds from the "
        "beginning of time, later ones from when the file changed.",
    )

    @field_validator("columns")
    @classmethod
    def _validate_columns(cls, columns: Mapping[str, str]) -> Mapping[str, str]:
        return _check_columns(columns, _RESERVED_COLUMNS | {"valid_to"})

    _validate_key = field_validator("key")(_check_column_names)

    @field_validator("valid_from")
    @classmethod
    def _validate_valid_from(cls, name: str | None, info: ValidationInfo) -> str | None:
        return None if name is None else _check_time_column(name, info)
