"""The workspace file: settings, streams, relations and durations."""

from moirae.config.durations import (
    DURATION_SCHEMA,
    Duration,
    PositiveDuration,
    format_duration,
    parse_duration,
)
from moirae.config.paths import interpolate
from moirae.config.positions import locate
from moirae.config.settings import FILE_NAME, Settings, load_settings_from_environment
from moirae.config.streams import (
    FileFormat,
    FileSource,
    HttpSource,
    Kafka,
    KafkaSource,
    Relation,
    RelationFile,
    Stream,
    TableSource,
    infer_format,
)
from moirae.config.table_schemas import stream_schema

__all__ = [
    "DURATION_SCHEMA",
    "Duration",
    "FILE_NAME",
    "FileFormat",
    "FileSource",
    "HttpSource",
    "Kafka",
    "KafkaSource",
    "PositiveDuration",
    "Relation",
    "RelationFile",
    "Settings",
    "Stream",
    "TableSource",
    "format_duration",
    "infer_format",
    "interpolate",
    "locate",
    "load_settings_from_environment",
    "parse_duration",
    "stream_schema",
]
