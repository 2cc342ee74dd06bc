"""Formats of records and times as declared in the workspace file."""

from __future__ import annotations

import codecs
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import re2
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from archiver.formats import (
    PLAIN_CSV,
    CsvDialect,
    FileFormatName,
    Format,
    FormatName,
    TimeReading,
    TimeUnit,
    expand_time_format,
    infer_format_name,
)
from archiver.times import check_zone
from moirae.documents.types import ConfigModel, Flag, Text, ValueProblem, raise_problems

PostedFormat = Literal[
    "jsonl",
    "json",
    "csv",
    "text",
    "combined",
    "common",
    "syslog",
    "logfmt",
    "klog",
    "cri",
    "docker",
]
MessageFormat = Literal[
    "jsonl", "csv", "text", "combined", "common", "syslog", "logfmt", "klog", "cri", "docker"
]
RelationFormat = Literal["jsonl", "csv"]

Character = Annotated[str, Field(min_length=1, max_length=1)]


def infer_missing_format(value: Any, info: ValidationInfo) -> Any:
    """The format that the suffix of `files` or `file` tells, unless one is declared."""
    name = info.data.get("files") or info.data.get("file")
    if value is None and name:
        return infer_format_name(name)
    return value


InferredFileFormat = Annotated[
    FileFormatName,
    BeforeValidator(infer_missing_format, json_schema_input_type=FileFormatName | None),
    Field(
        default=None,
        validate_default=True,
        description="jsonl, json, csv, parquet, or a format of log lines; default: by the suffix "
        "of the file.",
    ),
]


class CsvOptions(ConfigModel):
    """How CSV is written."""

    delimiter: Character = Field(default=",", description="Character between fields.")
    quote: Character | None = Field(
        default='"', description="Character around fields that contain others; null: none."
    )
    escape: Character | None = Field(
        default=None,
        description="Character before a quote inside a field; default: the quote is doubled.",
    )
    comment: Text | None = Field(
        default=None, description="Lines that begin with this text are skipped."
    )
    header: Flag = Field(default=True, description="Whether the first record names the fields.")
    names: tuple[Text, ...] = Field(
        default=(), description="Names of the fields, instead of those of the header."
    )
    decimal: Literal[".", ","] = Field(
        default=".", description="Decimal sign of float and double columns."
    )
    null_values: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="Texts that are no values, besides the empty one.",
        examples=[["-", "NULL"]],
    )

    @model_validator(mode="after")
    def _validate_characters(self) -> CsvOptions:
        characters = [self.delimiter, self.quote, self.escape]
        used = [character for character in characters if character is not None]
        if len(set(used)) < len(used):
            raise ValueError("delimiter, quote and escape must differ")
        if set(used) & {"\n", "\r"}:
            raise ValueError("delimiter, quote and escape cannot be line ends")
        return self

    @property
    def dialect(self) -> CsvDialect:
        return CsvDialect(**dict(self))


class RecordFormatModel(ConfigModel):
    """Options of the format of a source's records. A subclass has `format`."""

    formats_of_files: ClassVar[bool] = False

    records: Text | None = Field(
        default=None,
        description="Of json: path to the rows inside a document, such as `items`; default: a "
        "document, or each element of an array.",
    )
    outer: tuple[Text, ...] = Field(
        default=(),
        description="With `records`: paths to fields of the document, such as `logGroup`, that each "
        "row gets, unless it has a field of that name.",
        examples=[["logGroup", "logStream"]],
    )
    pattern: Text | None = Field(
        default=None,
        description="Of text: regular expression (RE2) of a whole record, whose named groups are "
        "its fields.",
        examples=[r"(?P<ts>\S+ \S+) (?P<level>\w+) (?P<message>.*)"],
    )
    starts_with: Text | None = Field(
        default=None,
        description="Regular expression (RE2) of the beginning of a record's first line; other "
        "lines belong to the record before.",
    )
    csv: CsvOptions | None = Field(default=None, description="Of csv: how it is written.")
    encoding: Text | None = Field(
        default=None, description="Encoding by its name in Python; default: UTF-8, or by its mark."
    )

    @field_validator("pattern", "starts_with")
    @classmethod
    def _validate_pattern(cls, pattern: str | None, info: ValidationInfo) -> str | None:
        if pattern is None:
            return None
        try:
            compiled = re2.compile(pattern)
        except re2.error as error:
            raise ValueError(f"is not a regular expression of RE2: {_describe(error)}") from None
        if info.field_name == "pattern":
            if not compiled.groupindex:
                raise ValueError("has no named group: write a field as (?P<name>…)")
            if compiled.groups > len(compiled.groupindex):
                raise ValueError("has a group without a name: write (?:…), or (?P<name>…)")
        return pattern

    @field_validator("encoding")
    @classmethod
    def _validate_encoding(cls, encoding: str | None) -> str | None:
        if encoding is None:
            return None
        try:
            name = codecs.lookup(encoding).name
            codecs.getincrementaldecoder(name)
            "\n".encode(name)
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"unknown encoding {encoding[:80]!r}") from None
        return None if name == "utf-8" else name

    @model_validator(mode="after")
    def _validate_options(self) -> RecordFormatModel:
        name = getattr(self, "format", None)
        if name is None:
            return self  # its own problem
        problems: list[ValueProblem] = []
        allowed: dict[str, tuple[str, ...]] = {
            "records": ("json",),
            "pattern": ("text",),
            "csv": ("csv",),
        }
        allowed["starts_with"] = ("text", "syslog", "klog", "combined", "common")
        for option, formats in allowed.items():
            if getattr(self, option) is not None and name not in formats:
                listed = " or ".join(formats)
                message = f"`{option}` is an option of format {listed}, not of {name}"
                problems.append(ValueProblem((option,), message))
        if self.outer and self.records is None:
            problems.append(ValueProblem(("outer",), "`outer` needs `records`"))
        if name == "parquet" and self.encoding is not None:
            problems.append(ValueProblem(("encoding",), "format parquet has no encoding"))
        raise_problems(problems)
        return self

    @cached_property
    def record_format(self) -> Format:
        """The format with its options."""
        name: FormatName = self.format  # type: ignore[attr-defined]
        return Format(
            name,
            records=self.records,
            outer=self.outer,
            csv=PLAIN_CSV if self.csv is None else self.csv.dialect,
            pattern=self.pattern,
            starts_with=self.starts_with,
            encoding=self.encoding,
        )


def _describe(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)


class TimeOptions(ConfigModel):
    """The event time, and how it is read. A time without an offset is of `zone`."""

    column: str = Field(description="Timestamp column with the event time.")
    unit: TimeUnit | None = Field(
        default=None, description="Unit of numbers since 1970: s (default), ms, us or ns."
    )
    format: Text | tuple[Text, ...] = Field(
        default=(),
        description="Formats of texts, as strptime writes them, or iso, rfc2822, apache or "
        "syslog; the first that fits counts. Default: iso.",
        examples=["%d.%m.%Y %H:%M:%S"],
    )
    zone: str = Field(
        default="UTC", description="Time zone of times without an offset.", examples=["Europe/Rome"]
    )
    ambiguous: Literal["earlier", "later", "reject"] = Field(
        default="earlier",
        description="Which instant a time means that comes twice when clocks are put back.",
    )
    missing: Literal["reject", "forward"] = Field(
        default="reject",
        description="What becomes of a time that clocks skip: refused, or later by what they skip.",
    )
    fields: tuple[Text, ...] = Field(
        default=(),
        description="Fields that are joined with a blank, instead of the column's own.",
        examples=[["date", "time"]],
    )

    @field_validator("format")
    @classmethod
    def _validate_format(cls, declared: str | tuple[str, ...]) -> tuple[str, ...]:
        formats = (declared,) if isinstance(declared, str) else declared
        for text in formats:
            expand_time_format(text)
        return formats

    @field_validator("zone")
    @classmethod
    def _validate_zone(cls, zone: str) -> str:
        return check_zone(zone)

    @property
    def reading(self) -> TimeReading:
        """How the times are read."""
        formats = (self.format,) if isinstance(self.format, str) else self.format
        return TimeReading(
            unit=self.unit,
            formats=formats,
            zone=self.zone,
            ambiguous=self.ambiguous,
            missing=self.missing,
            parts=self.fields,
        )
