"""The workspace file `moirae.yaml`. No other module reads environment variables."""

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

from moirae.config.archive import (
    BackupSettings,
    Chunks,
    parse_archive_location,
    parse_landing_location,
)
from moirae.config.durations import Duration, PositiveDuration
from moirae.config.external_alerts import EXTERNAL_ALERTS, external_alerts_stream
from moirae.config.incidents import AlertSettings, IncidentSettings
from moirae.config.limits import Limits
from moirae.config.notifications import Heartbeat, InhibitRule, Route, find_route_problems
from moirae.config.paths import (
    LocalFolder,
    LocalGlob,
    PathOrUrl,
    Secret,
    SecretText,
    WorkspaceEnvironment,
    is_url,
)
from moirae.config.receivers import Receiver
from moirae.config.server import Server
from moirae.config.streams import Relation, Stream
from moirae.config.time_intervals import NamedTimeIntervals
from moirae.documents import read_document, sort_problems, validate
from moirae.documents.types import (
    ConfigModel,
    Flag,
    NonNegativeInt,
    PositiveInt,
    TableName,
    Text,
    TextNumberOrFlag,
    Title,
    ValueProblem,
    raise_problems,
)
from moirae.errors import Problem, ProblemsError, UsageError

FILE_NAME = "moirae.yaml"
# A history query takes at most so many times its time limit: see `recall/worker/work_clock.py`.
MAX_QUERY_SLOWDOWN = 10

_HOST_AND_PORT = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}"
_MASTER_PATTERN = re.compile(
    r"local|local\[(\*|[1-9]\d*)(, *\d+)?\]|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]"
    rf"|spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*|yarn|k8s://\S+",
    re.ASCII,
)
_DSN_PATTERN = re.compile(r"postgres(ql)?://\S+|\s*\w+\s*=.*", re.DOTALL)


class SparkCores(ConfigModel):
    """Cores of a cluster for each process: each is an application of its own."""

    live: PositiveInt = Field(description="Cores for the live process.")
    recall: PositiveInt = Field(description="Cores for each recall process, and for back-tests.")


class Spark(ConfigModel):
    """Spark settings."""

    master: Text = Field(
        default="local[2]",
        description="Spark master: local[N] on one machine, or the URL of a cluster.",
    )
    cores: SparkCores | None = Field(
        default=None,
        description="Cores of a cluster; null: what spark.conf says. Not for local masters.",
        validate_default=True,
    )
    secret: Secret | None = Field(
        default=None,
        description="Secret that processes, executors and a standalone master share; ${VAR} is "
        "replaced. A standalone master requires it.",
    )
    conf: Mapping[Text, TextNumberOrFlag] = Field(
        default_factory=dict,
        description="Further Spark settings by name, such as spark.driver.memory.",
    )
    large_batch: PositiveInt = Field(
        default=20_000,
        description="Rows from which engine auto has executors archive a micro-batch, estimated "
        "from its bytes.",
    )

    @field_validator("master")
    @classmethod
    def _validate_master(cls, value: str) -> str:
        if _MASTER_PATTERN.fullmatch(value) is None:
            raise ValueError(
                f"{value[:80]!r} is no Spark master, such as local[2], yarn or spark://host:7077"
            )
        return value

    @property
    def is_cluster(self) -> bool:
        """Whether executors run on other machines."""
        return not self.master.startswith("local")

    @field_validator("cores")
    @classmethod
    def _validate_cores(cls, value: SparkCores | None, info: ValidationInfo) -> SparkCores | None:
        if value is not None and str(info.data.get("master", "spark")).startswith("local"):
            raise ValueError("the cores of a local master are in its name, such as local[2]")
        return value


class RecallSettings(ConfigModel):
    """Recall settings."""

    history_queries: PositiveInt = Field(
        default=2,
        description="Maximum number of concurrent history queries in each recall process.",
    )
    history_queries_least: PositiveInt = Field(
        default=1,
        description="Number of concurrent history queries that is allowed under any load.",
    )
    processes: PositiveInt = Field(
        default=1, le=8, description="Number of recall processes that `moirae up` starts."
    )
    tickets_per_result: NonNegativeInt = Field(
        default=1,
        description="Tickets, of 100, that a recall loses for each result; 0: none.",
    )
    present_memory: PositiveInt = Field(
        default=256,
        description="Megabytes of rows of present chunks that a recall process keeps in memory.",
    )
    corpus_memory: PositiveInt | None = Field(
        default=None,
        description="Megabytes of past contexts that each recall process keeps in memory for "
        "similarity recalls: processes divide larger corpora among them; null: each keeps the "
        "corpora that it compares with, as a whole.",
    )
    query_timeout: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="Time after which a history query is cancelled. The start of Spark does not "
        "count, nor does time in which a busy machine does not let the process work.",
    )
    feedback_timeout: PositiveDuration = Field(
        default=timedelta(minutes=10),
        description="Wall-clock time without feedback after which a suspended recall ends with "
        "its last "
        "answer.",
    )
    event_timeout: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="Wall-clock time without progress of any recall of an event after which the "
        "event ends with its last answers.",
    )
    engine: Literal["auto", "spark", "local"] = Field(
        default="auto",
        description="Engine for history queries and plain rules: spark, local (DuckDB in the "
        "process), or "
        "auto.",
    )

    @property
    def longest_query(self) -> float:
        """Seconds after which a history query has ended, however busy the machine is."""
        return self.query_timeout.total_seconds() * MAX_QUERY_SLOWDOWN


def _default_archive(value: Any, info: ValidationInfo) -> Any:
    if value is not None:
        return value
    return f"{info.data.get('home', '')}/archive"  # an invalid home is reported


class Settings(ConfigModel):
    """A workspace: streams, relations, processes and rules."""

    home: LocalFolder = Field(
        default=Path(".moirae"),
        validate_default=True,
        description="Folder of data, checkpoints and the embedded database, relative to this file.",
    )
    database: SecretText | None = Field(
        default=None,
        description="PostgreSQL DSN; ${VAR} is replaced; null: the embedded database.",
    )
    archive: Annotated[
        PathOrUrl,
        BeforeValidator(_default_archive, json_schema_input_type=str | None),
        AfterValidator(parse_archive_location),
    ] = Field(
        default=None,
        validate_default=True,
        description="Folder of the archive, as a path or file:// URL, or s3://bucket/prefix with "
        "keys from "
        "the environment; null: <home>/archive.",
    )
    landing: Annotated[PathOrUrl, AfterValidator(parse_landing_location)] | None = Field(
        default=None,
        description="Where batches that were posted, came by syslog or by `moirae ingest` wait to "
        "be archived: s3://bucket/prefix, which all machines reach; null: <home>/landing.",
    )
    archive_cache: PositiveInt = Field(
        default=10_240,
        description="Megabytes of the local cache, <home>/cache, of an archive in object "
        "storage; exceeded "
        "while more files are in use.",
    )
    archive_history: PositiveDuration = Field(
        default=timedelta(days=1),
        description="Wall-clock time for which commits and superseded files of the archive stay, "
        "for time travel and change feeds of other programs.",
    )
    check_files: PositiveDuration = Field(
        default=timedelta(days=7),
        description="Wall-clock time within which the live process reads each data file of the "
        "archive again, slowly, and compares it with its digest.",
    )
    engine: Literal["auto", "local", "spark"] = Field(
        default="auto",
        description="Engine of live work: local (in the live process), spark (on executors), or "
        "auto: executors archive large micro-batches.",
    )
    spark: Spark = Field(default=Spark(), description="Spark settings.")
    server: Server = Field(default=Server(), description="The HTTP server.")
    streams: Mapping[TableName, Stream] = Field(
        default_factory=dict, description="Streams by name.", validate_default=True
    )
    relations: Mapping[TableName, Relation] = Field(
        default_factory=dict, description="Small, slowly changing tables by name."
    )
    chunks: Chunks = Field(default=Chunks(), description="Chunks of history, and retention.")
    recall: RecallSettings = Field(default=RecallSettings(), description="Recall settings.")
    limits: Limits = Field(
        default=Limits(), description="Limits of one rule before it is quarantined."
    )
    alerts: AlertSettings = Field(
        default=AlertSettings(), description="Retention of alerts, apart from rows."
    )
    incidents: IncidentSettings = Field(
        default=IncidentSettings(),
        description="How alerts of one failure are proposed as an incident.",
    )
    rules: tuple[LocalGlob, ...] = Field(
        default=("rules/*.yaml",),
        validate_default=True,
        description="Globs of rule files, relative to this file.",
    )
    no_input: PositiveDuration | None = Field(
        default=timedelta(minutes=10),
        description="Wall-clock time without a row of any stream after which the built-in alert "
        "NoInput fires; null: never.",
    )
    watch_rules: Flag = Field(
        default=True,
        description="Apply rule files as soon as they change.",
    )
    backup: BackupSettings | None = Field(
        default=None, description="Scheduled backups; null: none are scheduled."
    )
    notify_within: Duration = Field(
        default=timedelta(hours=1),
        description="Wall-clock time since an alert fired after which it is sent only if it still "
        "fires when all input is read.",
    )
    resolve_timeout: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="Wall-clock time after the last post about an alert of another system after which "
        "it ends, if the post names no end.",
    )
    receivers: Mapping[Title, Receiver] = Field(
        default_factory=dict, description="Receivers of notifications by name."
    )
    time_intervals: tuple[NamedTimeIntervals, ...] = Field(
        default=(), description="Time intervals that routes use."
    )
    routes: tuple[Route, ...] = Field(
        default=(),
        description="Routes of alerts to receivers; the first that matches applies. Alerts without "
        "a route are not sent.",
    )
    inhibit_rules: tuple[InhibitRule, ...] = Field(
        default=(), description="Alerts that are not sent while others fire."
    )
    heartbeat: Heartbeat | None = Field(
        default=None, description="A message at intervals as long as alerts would be sent."
    )
    allow_hosts: tuple[Text, ...] | None = Field(
        default=None,
        description="The only hosts and networks to which notifications are sent, also link-local "
        "ones; null: the hosts that receivers name.",
    )

    _file: Path = PrivateAttr(default=Path(FILE_NAME))
    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @property
    def local_archive(self) -> Path | None:
        """The folder of the archive; None for an archive in object storage."""
        if is_url(self.archive):
            return None
        return Path(self.archive)

    def model_post_init(self, context: Any, /) -> None:
        if isinstance(context, WorkspaceEnvironment):
            self._file = context.file

    @property
    def file(self) -> Path:
        """The path of the workspace file."""
        return self._file

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Problems that do not make the file invalid."""
        return self._warnings

    @property
    def declares_streams(self) -> bool:
        """Whether there are streams besides the built-in one of posted alerts."""
        return self.streams.keys() > {EXTERNAL_ALERTS}

    @property
    def table_names(self) -> frozenset[str]:
        """Names of streams and relations, which derived streams must not use."""
        return frozenset(self.streams) | frozenset(self.relations)

    def find_rule_files(self) -> tuple[Path, ...]:
        """The files that match the globs of `rules` now, sorted, without duplicates."""
        names: set[str] = set()
        for pattern in self.rules:
            names.update(glob.glob(pattern, recursive=True))
        return tuple(map(Path, sorted(names)))

    @field_validator("database")
    @classmethod
    def _validate_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        dsn = value.get_secret_value()
        if "${" not in dsn and _DSN_PATTERN.fullmatch(dsn) is None:
            # The value is not shown: it may contain a password.
            raise ValueError("not a PostgreSQL DSN, such as postgresql://user@host/name")
        return value

    @field_validator("streams")
    @classmethod
    def _validate_stream_names(cls, streams: Mapping[str, Stream]) -> Mapping[str, Stream]:
        if "event" in streams:
            message = "a stream must not be named event: SQL uses it for the new event"
            raise_problems([ValueProblem(("event",), message)])
        if EXTERNAL_ALERTS in streams:
            message = f"the stream {EXTERNAL_ALERTS} is built in: it has the alerts that are posted"
            raise_problems([ValueProblem((EXTERNAL_ALERTS,), message)])
        raise_problems(list(_find_rename_problems(streams)))
        return {**streams, EXTERNAL_ALERTS: external_alerts_stream()}

    @field_validator("relations")
    @classmethod
    def _validate_relation_names(
        cls, relations: Mapping[str, Relation], info: ValidationInfo
    ) -> Mapping[str, Relation]:
        reserved_names = {*info.data.get("streams", {}), "event"}
        problems: list[ValueProblem] = []
        for name in relations:
            if name in reserved_names:
                message = f"the name {name!r} is in use; streams and relations share one namespace"
                problems.append(ValueProblem((name,), message))
        raise_problems(problems)
        return relations

    @field_validator("time_intervals")
    @classmethod
    def _validate_interval_names(
        cls, intervals: tuple[NamedTimeIntervals, ...]
    ) -> tuple[NamedTimeIntervals, ...]:
        names = [interval.name for interval in intervals]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise_problems([ValueProblem((index, "name"), "the name is in use")])
        return intervals

    @field_validator("routes")
    @classmethod
    def _validate_routes(cls, routes: tuple[Route, ...], info: ValidationInfo) -> tuple[Route, ...]:
        if {"receivers", "time_intervals"} <= info.data.keys():  # else they are reported
            receivers, intervals = info.data["receivers"], info.data["time_intervals"]
            raise_problems(list(find_route_problems(routes, receivers, intervals)))
        return routes

    @field_validator("heartbeat")
    @classmethod
    def _validate_heartbeat(
        cls, heartbeat: Heartbeat | None, info: ValidationInfo
    ) -> Heartbeat | None:
        receivers = info.data.get("receivers")
        if heartbeat is not None and receivers is not None and heartbeat.receiver not in receivers:
            message = f"unknown receiver {heartbeat.receiver[:80]!r}"
            raise_problems([ValueProblem(("receiver",), message)])
        return heartbeat


def _find_rename_problems(streams: Mapping[str, Stream]) -> Iterator[ValueProblem]:
    names_by_previous: dict[str, str] = {}
    for name, stream in streams.items():
        if stream.was is None:
            continue
        path = (name, "was")
        if stream.was == name:
            yield ValueProblem(path, "must be another name than that of the stream")
        elif stream.was in streams:
            yield ValueProblem(
                path, f"the stream {stream.was!r} is still declared: remove it to rename it"
            )
        first = names_by_previous.setdefault(stream.was, name)
        if first != name:
            yield ValueProblem(path, f"the stream {first!r} was {stream.was!r} as well")


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Read a workspace file and make its paths absolute.

    Raises `ProblemsError` with all its problems, `UsageError` if there is no such file.
    """
    file = path
    if path.is_dir():
        file = path / FILE_NAME
    if not file.is_file():
        raise UsageError(f"{file}: no such workspace file; create one with `moirae init DIR`")
    file = file.absolute()
    document, problems = read_document(file, empty_message="no workspace: the file is empty")
    if document is None:
        raise ProblemsError(problems)
    environment = WorkspaceEnvironment(file, environ)
    settings, model_problems = validate(Settings, document, context=environment)
    if settings is None or problems:
        raise ProblemsError(sort_problems((*problems, *model_problems)))
    if settings.receivers and not settings.routes:
        position = document.key_position(("receivers",))
        message = "receivers: no route leads to a receiver: alerts are not sent"
        settings._warnings = (Problem(document.file, *position, message, "warning"),)
    return settings


def load_settings_from_environment(path: Path = Path(FILE_NAME)) -> Settings:
    """`load_settings` with the environment of this process."""
    return load_settings(path, os.environ)


def read_backup_key() -> str | None:
    """The key of backups in the environment of this process; None: there is none."""
    return os.environ.get("MOIRAE_BACKUP_KEY") or None
