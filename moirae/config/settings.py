"""The workspace file `moirae.yaml`. This module alone reads the environment; the rest gets values."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from moirae.config.durations import PositiveDuration
from moirae.config.paths import (
    LocalFolder,
    LocalPath,
    PathOrUrl,
    SecretText,
    WorkspaceEnvironment,
    is_url,
)
from moirae.config.streams import Relation, Stream
from moirae.documents import (
    ConfigModel,
    Document,
    Flag,
    KeyPath,
    LabelName,
    NonNegativeInt,
    PositiveInt,
    TableName,
    Text,
    TextNumberOrFlag,
    TextOrNumber,
    Title,
    raise_problems,
    read_document,
    sort_problems,
    validate,
)
from moirae.errors import Problem, ProblemsError, UsageError

FILE_NAME = "moirae.yaml"
# Keys that are read and change nothing.
_UNUSED = ("receivers", "routes")

_LISTEN_PATTERN = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})", re.ASCII
)
_BUCKET_PATTERN = re.compile(
    r"s3a?://(?P<path>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[A-Za-z0-9._=-]+)*/?)"
)
_DSN_PATTERN = re.compile(r"postgres(ql)?://\S+|\s*\w+\s*=.*", re.DOTALL)


class Spark(ConfigModel):
    """How Spark runs."""

    master: Text = Field(
        default="local[2]", description="Spark master: local[N] on one machine, or a cluster's URL."
    )
    conf: Mapping[Text, TextNumberOrFlag] = Field(
        default_factory=dict,
        description="Further Spark settings by name, such as spark.driver.memory.",
    )


class Server(ConfigModel):
    """The API."""

    listen: Text = Field(
        default="127.0.0.1:8765",
        description="host:port to listen on; loopback unless changed; port 0: any free one.",
    )
    hosts: tuple[Text, ...] = Field(
        default=(),
        description="Names by which the server is reached, beside localhost and addresses.",
    )

    @field_validator("listen")
    @classmethod
    def _validate_listen(cls, value: str) -> str:
        match = _LISTEN_PATTERN.fullmatch(value)
        if match is None or int(match["port"]) > 65_535:
            raise ValueError(f"{value[:80]!r} is not host:port, such as 127.0.0.1:8765")
        return value

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class Chunks(ConfigModel):
    """How history is cut into chunks and how long it is kept; all spans are event time."""

    rows: PositiveInt = Field(
        default=1_000_000, description="Rows over all streams at which the newest chunk is closed."
    )
    age: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="Span of event time at which a chunk with at least rows/100 rows is closed.",
    )
    recent: PositiveInt = Field(
        default=24, description="Number of chunks kept materialised, indexed and clustered."
    )
    keep: PositiveDuration | None = Field(
        default=timedelta(days=90),
        description="Span of event time after which chunks expire; null: never.",
    )


class RecallSettings(ConfigModel):
    """How the past is asked."""

    history_queries: PositiveInt = Field(
        default=2,
        description="History queries that may run at once, in each recall process, when live has room.",
    )
    history_queries_least: PositiveInt = Field(
        default=1,
        description="History queries that may run at once however busy the machine and live are.",
    )
    processes: PositiveInt = Field(
        default=1, le=8, description="Recall processes that `moirae up` starts."
    )
    tickets_per_result: NonNegativeInt = Field(
        default=1,
        description="Tickets, of 100, that a recall loses for each result; 0: shares stay as they are.",
    )
    present_memory: PositiveInt = Field(
        default=256,
        description="Megabytes of the newest rows that the recall process keeps in memory.",
    )
    query_timeout: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="How long one history query may take, by the clock, before it counts as stuck and is ended.",
    )
    feedback_timeout: PositiveDuration = Field(
        default=timedelta(minutes=10),
        description="Silence, by the clock, after which a suspended recall ends with its last answer.",
    )
    engine: Literal["auto", "spark", "local"] = Field(
        default="auto",
        description="What reads chunks and judges plain rules: spark, this process (local), or what suits (auto).",
    )


class Limits(ConfigModel):
    """What one rule may take of the live process before it is charged, and how often before it is quarantined."""

    statement: PositiveDuration = Field(
        default=timedelta(seconds=20),
        description="Processor time of Spark that judging a micro-batch may take; longer for many rows or rules.",
    )
    matches: PositiveInt = Field(
        default=10_000,
        description="Most events of one rule in one evaluation, for each minute of event time that they span; a "
        "rule's or group's own limit goes first.",
    )
    failures: PositiveInt = Field(
        default=3, description="Failures in a row after which a rule is quarantined."
    )


class Receiver(ConfigModel):
    """Where notifications go: exactly one of webhook, pagerduty and apprise."""

    webhook: SecretText | None = Field(
        default=None,
        description="http(s) URL that gets Alertmanager webhook v4 messages; ${VAR} is replaced.",
    )
    pagerduty: SecretText | None = Field(
        default=None, description="PagerDuty Events v2 routing key; ${VAR} is replaced."
    )
    apprise: SecretText | None = Field(
        default=None,
        validate_default=True,
        description="Apprise URL of any other channel; ${VAR} is replaced.",
    )

    @field_validator("webhook")
    @classmethod
    def _validate_webhook(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(
            ("http://", "https://", "${")
        ):
            raise ValueError("a webhook is an http:// or https:// URL")
        return value

    @field_validator("apprise")
    @classmethod
    def _validate_one_target(
        cls, value: SecretStr | None, info: ValidationInfo
    ) -> SecretStr | None:
        others = [info.data.get("webhook"), info.data.get("pagerduty")]
        complete = {"webhook", "pagerduty"} <= info.data.keys()
        if complete and sum(one is not None for one in (*others, value)) != 1:
            raise ValueError("a receiver has exactly one of webhook, pagerduty and apprise")
        return value


class Route(ConfigModel):
    """Which alerts go to which receiver; the first route that matches is taken."""

    match: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict, description="Labels an alert must have; empty: every alert."
    )
    receiver: str = Field(description="Name of a receiver.")


def _default_archive(value: Any, info: ValidationInfo) -> Any:
    if value is not None:
        return value
    return f"{info.data.get('home', '')}/archive"  # without a home the workspace is refused anyway


def _validate_archive(place: str) -> str:
    """A local file system commits by hard links, S3 by conditional requests; of other places nobody has tried it."""
    if place.startswith("file:///"):
        return place.removeprefix("file://")
    if place.startswith(("s3://", "s3a://")):
        match = _BUCKET_PATTERN.fullmatch(place)
        if match is None:  # never shown: somebody may have put a key there
            raise ValueError(
                "not s3://bucket/prefix of letters, digits and . _ - =; keys belong in the environment"
            )
        return f"s3://{match['path'].rstrip('/')}"
    if is_url(place):
        raise ValueError(
            "an archive is a folder of a local file system, or s3://bucket/prefix; others are not tested"
        )
    return place


class Settings(ConfigModel):
    """A workspace: its data, its processes and where alerts go."""

    home: LocalFolder = Field(
        default=Path(".moirae"),
        validate_default=True,
        description="Folder of data, checkpoints and the embedded database, relative to this file.",
    )
    database: SecretText | None = Field(
        default=None,
        description="PostgreSQL DSN, or ${VAR} that holds it; null: the embedded database.",
    )
    archive: Annotated[
        PathOrUrl,
        BeforeValidator(_default_archive, json_schema_input_type=str | None),
        AfterValidator(_validate_archive),
    ] = Field(
        default=None,
        validate_default=True,
        description="Folder of the archive, as a path or file:// URL, or s3://bucket/prefix, with keys from the "
        "environment; null: <home>/archive.",
    )
    archive_cache: PositiveInt = Field(
        default=10_240,
        description="Megabytes of copies of an archive in object storage, under <home>/cache; more while in use.",
    )
    spark: Spark = Field(default=Spark(), description="How Spark runs.")
    server: Server = Field(default=Server(), description="The API.")
    streams: Mapping[TableName, Stream] = Field(
        default_factory=dict, description="Declared inputs by name."
    )
    relations: Mapping[TableName, Relation] = Field(
        default_factory=dict, description="Small, slowly changing tables by name."
    )
    chunks: Chunks = Field(default=Chunks(), description="How history is cut and kept.")
    recall: RecallSettings = Field(default=RecallSettings(), description="How the past is asked.")
    limits: Limits = Field(
        default=Limits(), description="What one rule may take before it is set aside."
    )
    rules: tuple[LocalPath, ...] = Field(
        default=("rules/*.yaml",),
        validate_default=True,
        description="Globs of rule files, relative to this file.",
    )
    watch_rules: Flag = Field(
        default=True,
        description="Whether a running workspace takes in rule files as soon as they change.",
    )
    receivers: Mapping[Title, Receiver] = Field(
        default_factory=dict, description="Where notifications go, by name."
    )
    routes: tuple[Route, ...] = Field(
        default=(), description="Which alerts go to which receiver, first match wins."
    )

    _file: Path = PrivateAttr(default=Path(FILE_NAME))
    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    def model_post_init(self, context: Any, /) -> None:
        if isinstance(context, WorkspaceEnvironment):
            self._file = context.file

    @property
    def file(self) -> Path:
        """The workspace file itself."""
        return self._file

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is not wrong with the file, but may not be what its author means."""
        return self._warnings

    @property
    def table_names(self) -> frozenset[str]:
        """The names of streams and relations, which no derived stream may take."""
        return frozenset(self.streams) | frozenset(self.relations)

    def find_rule_files(self) -> tuple[Path, ...]:
        """The files that the globs of `rules` match now, sorted, each once."""
        found = {name for pattern in self.rules for name in glob.glob(pattern, recursive=True)}
        return tuple(Path(name) for name in sorted(found))

    @field_validator("database")
    @classmethod
    def _validate_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        text = value.get_secret_value() if value else "${}"
        if (
            "${" not in text and _DSN_PATTERN.fullmatch(text) is None
        ):  # never shown: it may hold a password
            raise ValueError("not a PostgreSQL DSN, such as postgresql://user@host/name")
        return value

    @field_validator("streams")
    @classmethod
    def _validate_stream_names(cls, streams: Mapping[str, Stream]) -> Mapping[str, Stream]:
        if "event" in streams:
            raise_problems(
                [
                    (
                        ("event",),
                        "a stream may not be named event: it stands for the new event in SQL",
                    )
                ]
            )
        return streams

    @field_validator("relations")
    @classmethod
    def _validate_relation_names(
        cls, relations: Mapping[str, Relation], info: ValidationInfo
    ) -> Mapping[str, Relation]:
        taken = {*info.data.get("streams", {}), "event"}
        problems: list[tuple[KeyPath, str]] = [
            ((name,), f"the name {name!r} is taken; streams and relations share one name space")
            for name in relations
            if name in taken
        ]
        raise_problems(problems)
        return relations

    @field_validator("routes")
    @classmethod
    def _validate_routes(cls, routes: tuple[Route, ...], info: ValidationInfo) -> tuple[Route, ...]:
        receivers = info.data.get("receivers")
        problems: list[tuple[KeyPath, str]] = [
            ((place, "receiver"), f"unknown receiver {route.receiver[:80]!r}")
            for place, route in enumerate(routes)
            if receivers is not None and route.receiver not in receivers
        ]
        raise_problems(problems)
        return routes


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Read a workspace file once, its paths made absolute; ProblemsError holds all that is wrong with it."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"no workspace file {file.name} here; make one with `moirae init DIR`")
    file = file.absolute()
    document, problems = read_document(file, empty_message="no workspace: the file is empty")
    if document is None:
        raise ProblemsError(problems)
    settings, found = validate(Settings, document, context=WorkspaceEnvironment(file, environ))
    if settings is None or problems:
        raise ProblemsError(sort_problems((*problems, *found)))
    settings._warnings = tuple(_unused_keys(document, settings))
    return settings


def _unused_keys(document: Document, settings: Settings) -> Iterator[Problem]:
    """Keys that are accepted and change nothing."""
    for key in _UNUSED:
        if getattr(settings, key):
            message = (
                f"{key}: not evaluated yet, the key has no effect: nobody is notified of alerts"
            )
            yield Problem(document.file, *document.key_position((key,)), message, "warning")


def load_settings_from_environment(path: Path = Path(FILE_NAME)) -> Settings:
    """`load_settings` with the environment of this process."""
    return load_settings(path, os.environ)
