"""Streaming queries: Spark finds new files, and new records of topics; callbacks take them batch by batch."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from moirae.live.sources import kafka
from moirae.live.sources.files import DiscoveredFile

# The content stays unread here: columns that are not selected cost nothing.
_FILE_COLUMNS = "path string, modificationTime timestamp, length long, content binary"

# Bytes of new files in one micro-batch: bounds how long one takes, and how much is repeated after a crash.
_MAX_BATCH_BYTES = str(64 << 20)
# How often new files are looked for. Shorter costs a core, longer costs latency.
_TRIGGER_INTERVAL = "100 milliseconds"
# Spark ignores files that are this much older than the newest it saw: never, here.
_MAX_FILE_AGE = "36500d"

FilesHandler = Callable[[Sequence[DiscoveredFile]], None]
RecordsHandler = Callable[[pa.Table], None]


def start_file_query(
    spark: SparkSession,
    globs: Mapping[str, str],
    checkpoint: Path,
    handle_files: FilesHandler,
    drain: bool,
) -> StreamingQuery:
    """One query for all streams; `take` gets each batch's files, at least once. `drain`: what is there, then end."""
    sources = [_read_files(spark, stream, pattern) for stream, pattern in sorted(globs.items())]

    def batch(frame: DataFrame, _: int) -> None:
        rows = frame.collect()
        if rows:
            handle_files([DiscoveredFile(r.stream, _parse_path(r.path), r.modified) for r in rows])

    writer = (
        reduce(DataFrame.unionAll, sources)
        .writeStream.queryName("ingest")
        .foreachBatch(batch)
        .option("checkpointLocation", str(checkpoint))
    )
    writer = (
        writer.trigger(availableNow=True)
        if drain
        else writer.trigger(processingTime=_TRIGGER_INTERVAL)
    )
    return writer.start()


def start_topic_query(
    spark: SparkSession,
    stream: str,
    options: Mapping[str, str],
    checkpoint: Path,
    handle_records: RecordsHandler,
    drain: bool,
) -> StreamingQuery:
    """A query for the topic of one stream; `take` gets each batch's records, at least once. `drain`: as `start`."""
    records = (
        spark.readStream.format("kafka").options(**options).load().select(*kafka.RECORD_COLUMNS)
    )

    def batch(frame: DataFrame, _: int) -> None:
        rows = frame.toArrow()
        if len(rows):
            handle_records(rows)

    writer = records.writeStream.queryName(f"ingest {stream}").foreachBatch(batch)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = (
        writer.trigger(availableNow=True)
        if drain
        else writer.trigger(processingTime=_TRIGGER_INTERVAL)
    )
    return writer.start()


def _read_files(spark: SparkSession, stream: str, pattern: str) -> DataFrame:
    glob_base(pattern).mkdir(parents=True, exist_ok=True)
    reader = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_COLUMNS)
        .option("maxFileAge", _MAX_FILE_AGE)
        .option("maxBytesPerTrigger", _MAX_BATCH_BYTES)
    )
    folder, name = os.path.split(pattern)
    if not glob.has_magic(folder):
        # One listing of the folder; a glob in the path is listed file by file, each time.
        pattern, reader = folder, reader.option("pathGlobFilter", name)
    modified = F.unix_micros("modificationTime").alias("modified")
    return reader.load(pattern).select(F.lit(stream).alias("stream"), "path", modified)


def glob_base(pattern: str) -> Path:
    """The folder above the first wildcard of a glob."""
    path = Path(pattern)
    while glob.has_magic(str(path)):
        path = path.parent
    return path if str(path) != pattern else path.parent


def _parse_path(uri: str) -> Path:
    """Spark names a file as `file:/…`, the rest as it is: nothing in it is escaped."""
    return Path("/" + uri.removeprefix("file:").lstrip("/"))
