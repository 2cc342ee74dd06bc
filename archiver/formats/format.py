"""Formats of records: what they are named, where a record begins and ends, and their options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

FileFormatName = Literal[
    "jsonl",
    "json",
    "csv",
    "parquet",
    "text",
    "combined",
    "common",
    "syslog",
    "logfmt",
    "klog",
    "cri",
    "docker",
]
"""The formats of files."""
RegisteredName = Literal["avro", "protobuf"]
"""The formats of messages whose schemas are in a registry."""
FormatName = FileFormatName | RegisteredName
"""The formats that streams may declare."""

FORMAT_NAMES: tuple[FileFormatName, ...] = get_args(FileFormatName)
REGISTERED_NAMES: tuple[RegisteredName, ...] = get_args(RegisteredName)
# Formats of log lines: two equal lines are two records.
LOG_FORMATS = frozenset({"text", "combined", "common", "syslog", "logfmt", "klog", "cri", "docker"})

_NAMES_BY_SUFFIX: dict[str, FileFormatName] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_NAMES_BY_MEDIA_TYPE: dict[str, FormatName] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}
COMPRESSION_SUFFIXES = (".gz", ".zst")


@dataclass(frozen=True)
class CsvDialect:
    """How CSV is written. `names`: the fields instead of those of a header; `header`: has one.

    `null_values`: texts that are no values, besides the empty one.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    header: bool = True
    names: tuple[str, ...] = ()
    decimal: str = "."
    null_values: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether records are written as in RFC 4180."""
        written = (self.delimiter, self.quote, self.escape, self.comment)
        return written == (",", '"', None, None)


PLAIN_CSV = CsvDialect()


@dataclass(frozen=True)
class Format:
    """One format with its options.

    `records`: path to the rows inside a JSON document. `outer`: paths to fields of the document that
    each row gets, unless it has a field of that name. `pattern`: of a record of text, in RE2's
    syntax, with named groups. `starts_with`: pattern of the first line of a record; None: each line
    is one. `encoding`: Python's name, None: UTF-8, or what the mark at the beginning says.
    `registry`: the URL of the schemas of messages.
    """

    name: FormatName
    records: str | None = None
    csv: CsvDialect = PLAIN_CSV
    pattern: str | None = None
    starts_with: str | None = None
    encoding: str | None = None
    registry: str | None = None
    outer: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether files are read as tables, not as bytes."""
        return self.name == "parquet"

    @property
    def has_documents(self) -> bool:
        """Whether files are JSON documents, whose lines mean nothing."""
        return self.name == "json"

    @property
    def is_csv(self) -> bool:
        """Whether records need field names."""
        return self.name == "csv"

    @property
    def has_header(self) -> bool:
        """Whether the first record of a file is not a row."""
        return self.is_csv and self.csv.header

    @property
    def is_linewise(self) -> bool:
        """Whether each line is a record; CSV: unless a quoted field has line breaks."""
        has_plain_lines = self.starts_with is None and self.encoding is None
        if self.is_csv:
            return has_plain_lines and self.csv.is_plain
        framed = ("parquet", "json", "cri", "docker", *REGISTERED_NAMES)
        return has_plain_lines and self.name not in framed

    def encode(self) -> dict[str, Any]:
        """The format as JSON, without options that are not set."""
        document: dict[str, Any] = {"name": self.name}
        for option in ("records", "pattern", "starts_with", "encoding", "registry"):
            if getattr(self, option) is not None:
                document[option] = getattr(self, option)
        if self.outer:
            document["outer"] = list(self.outer)
        if self.csv != PLAIN_CSV:
            document["csv"] = {
                option.name: getattr(self.csv, option.name)
                for option in fields(CsvDialect)
                if getattr(self.csv, option.name) != option.default
            }
        return document

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> "Format":
        """The format of a document that `encode` returned."""
        options = dict(document)
        dialect = dict(options.pop("csv", {}))
        for option in {"names", "null_values"} & dialect.keys():
            dialect[option] = tuple(dialect[option])
        outer = tuple(options.pop("outer", ()))
        return cls(**options, csv=CsvDialect(**dialect), outer=outer)


JSONL = Format("jsonl")
CSV = Format("csv")
PARQUET = Format("parquet")


@dataclass(frozen=True)
class RecordReading:
    """How the records of one unit are read.

    `fields`: the field names of CSV records; None: of another format. `clock`: when the unit was
    first read, in microseconds since 1970: tells the years that times leave out; None: unknown.
    `unit`: the name of the unit in the identities of rows that are identified by their place.
    """

    format: Format
    fields: tuple[str, ...] | None = None
    clock: int | None = field(default=None, compare=False)
    unit: str = ""


def infer_format_name(name: str) -> FileFormatName:
    """The format that a file's suffix tells, compressed or not. Raises `ValueError`."""
    suffix = re.search(r"\.[^./*?]+$", strip_compression(name))
    if suffix is None or suffix[0].lower() not in _NAMES_BY_SUFFIX:
        raise ValueError(f"unknown file suffix; set `format` to one of {', '.join(FORMAT_NAMES)}")
    return _NAMES_BY_SUFFIX[suffix[0].lower()]


def strip_compression(name: str) -> str:
    """A file's name without the suffix of its compression."""
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def landed_suffix(name: FormatName) -> str:
    """The suffix of a batch in the landing folder, which tells its format."""
    return f".{name}"


def landed_format(file_name: str, declared: Format) -> Format:
    """The format of a batch in the landing folder. `declared`: of the source of its stream."""
    suffix = re.search(r"\.([^./*?]+)$", strip_compression(file_name))
    name = suffix[1] if suffix is not None else None
    if name == declared.name:
        return declared
    if name in FORMAT_NAMES and name != "json":
        return Format(name)
    return Format(infer_format_name(file_name))


def media_format(media_type: str) -> FormatName | None:
    """The format of a body of a media type; None: unknown."""
    return _NAMES_BY_MEDIA_TYPE.get(media_type)


def media_types() -> list[str]:
    """The media types of bodies."""
    return list(_NAMES_BY_MEDIA_TYPE)
