"""Streams and relations as declared in the workspace file: columns and sources."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

import re2
from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from archiver.formats import (
    DEFAULT_TIME_READING,
    LOG_FORMATS,
    REGISTERED_NAMES,
    Format,
    Redaction,
    RegisteredName,
    TimeReading,
)
from archiver.globs import PathGlob, matches_part, parse_glob
from moirae.config.changes import DeclaredChanges, find_changes_problems
from moirae.config.columns import (
    ColumnsModel,
    check_column_names,
    check_time_column,
    column_types,
)
from moirae.config.durations import Duration, PositiveDuration
from moirae.config.formats import (
    InferredFileFormat,
    MessageFormat,
    PostedFormat,
    RecordFormatModel,
    RelationFormat,
    TimeOptions,
    infer_missing_format,
)
from moirae.config.paths import (
    InterpolatedText,
    LocalGlob,
    LocalPath,
    SecretText,
    is_url,
    resolve_text,
)
from moirae.config.punctuations import check_punctuation
from moirae.config.push_sources import LokiSource, OtlpSource, RemoteWriteSource
from moirae.config.summaries import DeclaredSummary, find_summary_problems
from moirae.config.syslog import SyslogSource
from moirae.documents.types import (
    ConfigModel,
    Flag,
    OnlyTrue,
    TableName,
    Text,
    ValueProblem,
    discriminate_by_key,
    name_pattern,
    raise_problems,
)

_InferredTextFormat = Annotated[
    RelationFormat,
    BeforeValidator(infer_missing_format, json_schema_input_type=RelationFormat | None),
    Field(
        default=None,
        validate_default=True,
        description="jsonl or csv (with a header line); default: by the suffix of the file.",
    ),
]


_MOVE = "move:"  # before the folder that archived files are moved to


def _is_listed(folder: str, path_glob: PathGlob) -> bool:
    """Whether files of a folder may match a glob."""
    *parts, _ = path_glob.parts
    names = os.path.relpath(folder, path_glob.folder).split(os.sep)
    if names == ["."]:
        names = []
    return len(names) == len(parts) and all(map(matches_part, parts, names))


class FileSource(RecordFormatModel):
    """Files in order of modification time, then name. They must be complete when they appear."""

    files: LocalGlob = Field(
        description="Glob of the files, relative to the workspace file, or s3://BUCKET/GLOB; .gz "
        "and .zst are decompressed.",
        examples=["landing/cpu/*.jsonl"],
    )
    format: InferredFileFormat
    tail: Flag = Field(
        default=False,
        description="true: the files grow and rotate; they are read line by line while they do.",
    )
    ordered: Flag = Field(
        default=False,
        description="true: names of new objects come after those of older ones, as names that "
        "begin with a time do. Most listings then start after the last name.",
    )
    after: Annotated[str, *name_pattern(r"keep|delete|move:.+", "keep, delete or move:FOLDER")] = (
        Field(
            default="keep",
            description="What becomes of files that are archived: keep; delete; or move:FOLDER, "
            "relative to the workspace file. Files that were changed since stay.",
            examples=["move:archived"],
        )
    )

    @model_validator(mode="after")
    def _validate_after(self) -> FileSource:
        if self.after == "keep":
            return self
        if self.tail:
            message = "files that grow are never complete; set it to keep"
            raise_problems([ValueProblem(("after",), message)])
        if self.is_in_object_storage:
            message = "objects of S3 storage stay; set it to keep"
            raise_problems([ValueProblem(("after",), message)])
        if any(
            _is_listed(folder, glob) for folder in self._target() for glob in parse_glob(self.files)
        ):
            message = "files in this folder are files of the stream: they would be read again"
            raise_problems([ValueProblem(("after",), message)])
        return self

    def _target(self) -> list[str]:
        """The folder that files are moved to, if they are."""
        return [self.after.removeprefix(_MOVE)] if self.after.startswith(_MOVE) else []

    @field_validator("after")
    @classmethod
    def _resolve_after(cls, after: str, info: ValidationInfo) -> str:
        if not after.startswith(_MOVE):
            return after
        return f"{_MOVE}{resolve_text(after.removeprefix(_MOVE), info)}"

    @model_validator(mode="after")
    def _validate_ordered(self) -> FileSource:
        if self.ordered and not self.is_in_object_storage:
            message = "files in folders are found without their order; remove it"
            raise_problems([ValueProblem(("ordered",), message)])
        return self

    @model_validator(mode="after")
    def _validate_tail(self) -> FileSource:
        if not self.tail:
            return self
        if self.is_in_object_storage:
            raise_problems([ValueProblem(("tail",), "objects of S3 storage do not grow")])
        if self.format in ("parquet", "json"):
            message = f"format {self.format} has no lines that could be read while a file grows"
            raise_problems([ValueProblem(("tail",), message)])
        if self.encoding is not None and len("\n".encode(self.encoding)) > 1:
            message = f"lines in {self.encoding} cannot be read while a file grows"
            raise_problems([ValueProblem(("tail",), message)])
        return self

    @field_validator("files")
    @classmethod
    def _validate_files(cls, files: str) -> str:
        if is_url(files) and re.fullmatch(r"s3://[^/*?[]+/.+", files) is None:
            raise ValueError("must be a path or s3://BUCKET/GLOB")
        return files

    @property
    def is_in_object_storage(self) -> bool:
        """Whether the files are objects of S3-compatible storage."""
        return is_url(self.files)


class HttpSource(RecordFormatModel):
    """Rows posted to the HTTP server."""

    http: OnlyTrue = Field(description="true: rows are posted to /api/v1/ingest/<stream>.")
    format: PostedFormat = Field(
        default="jsonl", description="Format of bodies with Content-Type text/plain."
    )


class Kafka(ConfigModel):
    """One Kafka topic."""

    servers: InterpolatedText = Field(
        description="Bootstrap servers: host:port, separated by commas; ${VAR} is replaced."
    )
    topic: Text = Field(description="Name of the topic.")
    properties: LocalPath | None = Field(
        default=None,
        description="File of Java properties with further settings of Kafka's client, such as "
        "those of SASL and TLS, relative to the workspace file; ${VAR} is replaced there.",
        examples=["kafka.properties"],
    )


class KafkaSource(RecordFormatModel):
    """Messages of a Kafka topic. Lateness is decided within each partition."""

    kafka: Kafka = Field(description="Servers and topic.")
    format: MessageFormat | RegisteredName = Field(
        default="jsonl",
        description="Format of message values; csv: the columns in declared order; avro, protobuf: "
        "with schemas of a registry.",
    )
    registry: InterpolatedText | None = Field(
        default=None,
        description="Of avro and protobuf: URL of the schema registry (Confluent's API). User and "
        "password come from MOIRAE_REGISTRY_USER and MOIRAE_REGISTRY_PASSWORD.",
        examples=["http://registry:8081"],
    )

    @field_validator("registry")
    @classmethod
    def _validate_registry(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a URL such as http://registry:8081")
        if parts.username is not None:
            raise ValueError(
                "must have no user and password: set the environment variables "
                "MOIRAE_REGISTRY_USER and MOIRAE_REGISTRY_PASSWORD"
            )
        return url

    @model_validator(mode="after")
    def _require_registry(self) -> KafkaSource:
        is_registered = self.format in REGISTERED_NAMES
        if is_registered and self.registry is None:
            raise ValueError(f"format {self.format} needs `registry`: the URL of its schemas")
        if self.registry is not None and not is_registered:
            raise ValueError(
                f"`registry` is an option of format avro or protobuf, not of {self.format}"
            )
        return self

    @cached_property
    def record_format(self) -> Format:
        """See `RecordFormatModel.record_format`."""
        return replace(super().record_format, registry=self.registry)


StreamSource = Annotated[
    Annotated[FileSource, Tag("<files>")]
    | Annotated[HttpSource, Tag("<http>")]
    | Annotated[KafkaSource, Tag("<kafka>")]
    | Annotated[RemoteWriteSource, Tag("<remote_write>")]
    | Annotated[OtlpSource, Tag("<otlp>")]
    | Annotated[LokiSource, Tag("<loki>")]
    | Annotated[SyslogSource, Tag("<syslog>")],
    discriminate_by_key(
        "a source is exactly one of {files: GLOB}, {http: true}, {kafka: {servers: …, topic: "
        "…}}, {remote_write: true}, {otlp: logs}, {loki: true} and {syslog: "
        "{listen: …}}",
        files=FileSource,
        http=HttpSource,
        kafka=KafkaSource,
        remote_write=RemoteWriteSource,
        otlp=OtlpSource,
        loki=LokiSource,
        syslog=SyslogSource,
    ),
]


DeclaredTime = Annotated[
    Annotated[str, Tag("<column>")] | Annotated[TimeOptions, Tag("<options>")],
    Discriminator(
        lambda value: "<options>" if isinstance(value, TimeOptions | Mapping) else "<column>"
    ),
]


class Redact(ConfigModel):
    """A secret in the texts of a column, and what is written instead.

    It also applies to undeclared fields, and to records that cannot be read.
    """

    column: Text = Field(description="Column of type string, or _extra: undeclared fields only.")
    pattern: Text = Field(
        description="Regular expression in RE2's syntax; each match is replaced.",
        examples=[r"password=\S+"],
    )
    with_: str = Field(
        alias="with",
        default="[redacted]",
        max_length=1_000,
        description=r"Replacement; \1 is the first group of the pattern.",
    )

    @field_validator("pattern")
    @classmethod
    def _validate_pattern(cls, pattern: str) -> str:
        try:
            compiled = re2.compile(pattern)
        except re2.error as error:
            raise ValueError(f"not a regular expression of RE2: {error}") from None
        if compiled.search("") is not None:
            raise ValueError("matches the empty text: every text would change")
        return pattern

    @field_validator("with_")
    @classmethod
    def _validate_replacement(cls, replacement: str, info: ValidationInfo) -> str:
        pattern = info.data.get("pattern")
        if pattern is None:
            return replacement
        groups = re2.compile(pattern).groups
        numbers = [int(number) for number in re.findall(r"\\(\d)", replacement)]
        if any(number == 0 or number > groups for number in numbers):
            raise ValueError(f"names a group that the pattern does not have: it has {groups}")
        if re.search(r"\\([^\d]|$)", replacement):
            raise ValueError("a backslash is followed by the number of a group")
        return replacement


class Stream(ColumnsModel):
    """A stream: rows with a timestamp, archived once, queried live and as history."""

    declared_time: DeclaredTime = Field(
        alias="time",
        description="Timestamp column with the event time, in UTC; or a mapping that says how it "
        "is read.",
    )
    id: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Columns that identify a row together with the event time; default: see "
        "`identity`.",
    )
    declared_identity: Literal["row", "place"] | None = Field(
        default=None,
        alias="identity",
        description="What identifies a row without `id`: row: its content; place: that and its "
        "record's file and line, so that equal lines are rows of their own. Default: place for formats of "
        "log lines and for growing files, else row.",
    )
    key: tuple[str, ...] = Field(
        default=(), max_length=64, description="Columns by which rows are clustered inside chunks."
    )
    lateness: Duration = Field(
        default=timedelta(minutes=1),
        description="Event time by which a row may lie behind the newest row of earlier source "
        "units "
        "without being late.",
    )
    future: Duration = Field(
        default=timedelta(minutes=5),
        description="Time by which a row may lie ahead of the clock; rows further ahead are "
        "quarantined.",
    )
    idle: PositiveDuration = Field(
        default=timedelta(seconds=10),
        description="Wall-clock time without rows after which the stream no longer holds back "
        "the watermark "
        "of others; older rows that follow are late.",
    )
    source: StreamSource = Field(
        description="Source of the rows: files, http, kafka, remote_write, otlp, loki or syslog."
    )
    punctuation: Text | None = Field(
        default=None,
        validate_default=True,
        description="Field of JSON records that close event time: one with this field alone says "
        "that no row before that time will follow, and with the fields of the key none of that key. "
        "So does a Kafka header of this name. Default: none does.",
        examples=["closed"],
    )

    keep: PositiveDuration | None = Field(
        default=None,
        description="Event time before the newest after which the rows of this stream expire, "
        "chunk by chunk; those of other streams stay until chunks.keep. Default: chunks.keep.",
    )
    redact: tuple[Redact, ...] = Field(
        default=(),
        max_length=64,
        description="What is replaced in texts before anything is written.",
    )
    summaries: tuple[DeclaredSummary, ...] = Field(
        default=(),
        max_length=32,
        description="Summaries of closed chunks that are kept whether or not a rule asks for them.",
    )

    changes: DeclaredChanges | None = Field(
        default=None,
        description="The rows are changes, which are listed with alerts near them.",
    )

    was: TableName | None = Field(
        default=None,
        description="Name that the stream had before: its history goes on under the new one.",
    )

    @field_validator("declared_time")
    @classmethod
    def _validate_time(cls, time: str | TimeOptions, info: ValidationInfo) -> str | TimeOptions:
        if isinstance(time, str):
            check_time_column(time, info)
            return time
        try:
            check_time_column(time.column, info)
        except ValueError as error:
            raise_problems([ValueProblem(("column",), str(error))])
        return time

    @field_validator("punctuation")
    @classmethod
    def _validate_punctuation(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is None:
            return None
        source, declared = info.data.get("source"), info.data.get("declared_columns")
        time = info.data.get("declared_time")
        if source is None or declared is None or time is None:
            return name
        if isinstance(time, TimeOptions):
            if time.fields:
                raise ValueError("the event time must be read from one field")
            time = time.column
        return check_punctuation(name, source.record_format.name, declared, time)

    @field_validator("redact")
    @classmethod
    def _validate_redact(
        cls, redact: tuple[Redact, ...], info: ValidationInfo
    ) -> tuple[Redact, ...]:
        declared = info.data.get("declared_columns")
        types = None if declared is None else {**column_types(declared), "_extra": "string"}
        problems: list[ValueProblem] = []
        for index, entry in enumerate(redact):
            if types is not None and types.get(entry.column) != "string":
                message = f"{entry.column!r} is no column of type string, and not _extra"
                problems.append(ValueProblem((index, "column"), message))
        raise_problems(problems)
        return redact

    @field_validator("summaries")
    @classmethod
    def _validate_summaries(
        cls, summaries: tuple[DeclaredSummary, ...], info: ValidationInfo
    ) -> tuple[DeclaredSummary, ...]:
        declared = info.data.get("declared_columns")
        if declared is not None:
            raise_problems(find_summary_problems(summaries, column_types(declared)))
        return summaries

    @field_validator("changes")
    @classmethod
    def _validate_changes(
        cls, changes: DeclaredChanges | None, info: ValidationInfo
    ) -> DeclaredChanges | None:
        declared = info.data.get("declared_columns")
        if changes is not None and declared is not None:
            raise_problems(list(find_changes_problems(changes, column_types(declared))))
        return changes

    @property
    def redactions(self) -> tuple[Redaction, ...]:
        """What is replaced in texts before anything is written."""
        return tuple(Redaction(entry.column, entry.pattern, entry.with_) for entry in self.redact)

    @property
    def query_columns(self) -> dict[str, str]:
        """The columns that queries may name: the declared ones and the undeclared fields."""
        return {**self.columns, "_extra": "string"}

    @property
    def time(self) -> str:
        """The column with the event time."""
        if isinstance(self.declared_time, str):
            return self.declared_time
        return self.declared_time.column

    @property
    def time_reading(self) -> TimeReading:
        """How event times are read."""
        if isinstance(self.declared_time, str):
            return DEFAULT_TIME_READING
        return self.declared_time.reading

    @property
    def identity(self) -> Literal["row", "place"]:
        """What identifies rows without `id`."""
        if self.declared_identity is not None:
            return self.declared_identity
        source = self.source
        if isinstance(source, FileSource) and source.tail:
            return "place"
        is_log = isinstance(source, LokiSource) or (
            isinstance(source, OtlpSource) and source.otlp == "logs"
        )
        return "place" if is_log or source.record_format.name in LOG_FORMATS else "row"

    @property
    def measured(self) -> tuple[str, ...]:
        """Columns that do not identify a row without `id`: of a sample, its value."""
        source = self.source
        has_samples = isinstance(source, RemoteWriteSource) or (
            isinstance(source, OtlpSource) and source.otlp == "metrics"
        )
        if not has_samples:
            return ()
        return tuple(name for name in self.columns if self.fields.get(name, (name,))[0] == "value")

    @field_validator("id", "key")
    @classmethod
    def _validate_id_and_key(
        cls, names: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        if names is None:
            return None
        return check_column_names(names, info)


class RelationFile(ConfigModel):
    """The file of a relation. A changed file is a new version, once it is complete."""

    file: LocalPath = Field(
        description="Path relative to the workspace file, or s3://BUCKET/KEY; .gz is decompressed.",
        examples=["hosts.csv"],
    )
    format: _InferredTextFormat

    @field_validator("file")
    @classmethod
    def _validate_file(cls, file: str) -> str:
        if is_url(file) and re.fullmatch(r"s3://[^/]+/.+", file) is None:
            raise ValueError("must be a path or s3://BUCKET/KEY")
        return file

    @property
    def is_in_object_storage(self) -> bool:
        """Whether the file is an object of S3-compatible storage."""
        return is_url(self.file)


class TableSource(ConfigModel):
    """The PostgreSQL table or view of a relation, polled for changed rows."""

    table: Annotated[
        str,
        *name_pattern(
            r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?", "NAME or SCHEMA.NAME"
        ),
    ] = Field(
        description="Name of the table or view, optionally with its schema.",
        examples=["inventory.hosts"],
    )
    database: SecretText = Field(description="PostgreSQL DSN; ${VAR} is replaced.")
    every: PositiveDuration = Field(default=timedelta(minutes=1), description="Polling interval.")


RelationSource = Annotated[
    Annotated[RelationFile, Tag("<file>")] | Annotated[TableSource, Tag("<table>")],
    discriminate_by_key(
        "a relation's source is exactly one of {file: PATH} and {table: NAME, database: DSN}",
        file=RelationFile,
        table=TableSource,
    ),
]


class Relation(ColumnsModel):
    """A small, slowly changing table. Each version of a row is stored with its validity."""

    reserved_columns: ClassVar[frozenset[str]] = frozenset({"chunk", "valid_to"})

    key: tuple[str, ...] = Field(
        min_length=1, max_length=64, description="Columns that identify a row across its versions."
    )
    source: RelationSource = Field(description="Source of the rows: file or table.")
    valid_from: str | None = Field(
        default=None,
        description="Timestamp column from which a row is valid; default: the first version is "
        "valid from "
        "the beginning of time, later ones from the change of the file.",
    )
    shrink: Literal["hold", "allow"] = Field(
        default="hold",
        description="hold: a version with fewer than half the rows, and at least 20 fewer, waits "
        "for `moirae relations accept`; allow: it is used at once.",
    )

    _validate_key = field_validator("key")(check_column_names)

    @field_validator("valid_from")
    @classmethod
    def _validate_valid_from(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is None:
            return None
        return check_time_column(name, info)
