"""The workspace file: settings, streams, relations and durations."""

from moirae.config.archive import BackupSettings, parse_archive_location
from moirae.config.changed_declarations import (
    Declarations,
    describe_changed_declarations,
    digest_declarations,
)
from moirae.config.changes import DeclaredChanges
from moirae.config.durations import (
    DURATION_SCHEMA,
    Duration,
    PositiveDuration,
    format_duration,
    parse_duration,
)
from moirae.config.external_alerts import EXTERNAL_ALERTS
from moirae.config.matchers import Matcher
from moirae.config.notifications import (
    GROUP_BY_ALL,
    INCIDENT_LABEL,
    Heartbeat,
    InhibitRule,
    Route,
)
from moirae.config.paths import interpolate
from moirae.config.positions import locate
from moirae.config.push_sources import LokiSource, OtlpSource, RemoteWriteSource
from moirae.config.receivers import Receiver
from moirae.config.settings import (
    FILE_NAME,
    Settings,
    load_settings_from_environment,
    read_backup_key,
)
from moirae.config.shared_values import digest_shared_values, list_differences
from moirae.config.spark_settings import build_spark_settings
from moirae.config.streams import (
    FileSource,
    HttpSource,
    Kafka,
    KafkaSource,
    Relation,
    RelationFile,
    Stream,
    TableSource,
)
from moirae.config.syslog import Syslog, SyslogSource
from moirae.config.table_schemas import relation_schema, stream_schema
from moirae.config.time_intervals import NamedTimeIntervals

__all__ = [
    "BackupSettings",
    "DURATION_SCHEMA",
    "Declarations",
    "DeclaredChanges",
    "Duration",
    "EXTERNAL_ALERTS",
    "FILE_NAME",
    "FileSource",
    "GROUP_BY_ALL",
    "INCIDENT_LABEL",
    "Heartbeat",
    "HttpSource",
    "Kafka",
    "InhibitRule",
    "KafkaSource",
    "Matcher",
    "NamedTimeIntervals",
    "PositiveDuration",
    "Receiver",
    "Relation",
    "RelationFile",
    "LokiSource",
    "OtlpSource",
    "Syslog",
    "SyslogSource",
    "RemoteWriteSource",
    "Route",
    "Settings",
    "Stream",
    "build_spark_settings",
    "TableSource",
    "describe_changed_declarations",
    "digest_declarations",
    "digest_shared_values",
    "list_differences",
    "format_duration",
    "interpolate",
    "locate",
    "load_settings_from_environment",
    "parse_archive_location",
    "parse_duration",
    "read_backup_key",
    "relation_schema",
    "stream_schema",
]
