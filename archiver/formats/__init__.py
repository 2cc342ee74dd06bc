"""What formats of records there are: names, options, patterns, paths and times. No I/O.

`archiver.ingest.decoding` has two ways through such a description: in blocks, and record by record.
"""

from archiver.formats.field_paths import (
    MISSING,
    find_first,
    find_value,
    is_path,
    parse_path,
    without_fields,
)
from archiver.formats.format import (
    COMPRESSION_SUFFIXES,
    CSV,
    FORMAT_NAMES,
    JSONL,
    LOG_FORMATS,
    PARQUET,
    PLAIN_CSV,
    REGISTERED_NAMES,
    CsvDialect,
    FileFormatName,
    Format,
    FormatName,
    RecordReading,
    RegisteredName,
    infer_format_name,
    landed_format,
    landed_suffix,
    media_format,
    media_types,
    strip_compression,
)
from archiver.formats.text_patterns import REQUEST_PATTERN, TextPattern, find_pattern
from archiver.formats.time_formats import (
    ISO,
    MONTHS,
    TimeFormat,
    compile_time_format,
    expand_time_format,
)
from archiver.formats.time_reading import DEFAULT_TIME_READING, TimeReading, TimeUnit

__all__ = [
    "COMPRESSION_SUFFIXES",
    "CSV",
    "CsvDialect",
    "DEFAULT_TIME_READING",
    "FileFormatName",
    "FORMAT_NAMES",
    "Format",
    "FormatName",
    "ISO",
    "JSONL",
    "LOG_FORMATS",
    "MISSING",
    "MONTHS",
    "PARQUET",
    "PLAIN_CSV",
    "REGISTERED_NAMES",
    "REQUEST_PATTERN",
    "RecordReading",
    "RegisteredName",
    "TextPattern",
    "TimeFormat",
    "TimeReading",
    "TimeUnit",
    "compile_time_format",
    "expand_time_format",
    "find_first",
    "find_pattern",
    "find_value",
    "infer_format_name",
    "is_path",
    "landed_format",
    "landed_suffix",
    "media_format",
    "media_types",
    "parse_path",
    "strip_compression",
    "without_fields",
]
