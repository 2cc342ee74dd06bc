"""Streaming queries: Spark discovers new files and topic records; callbacks handle each batch."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moirae.live.sources import kafka
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries.batch_files import read_batch_files
from moirae.live.sources.queries.checkpoint import read_offsets

# The `content` column is not selected, so that Spark does not read the files.
_FILE_COLUMNS = "path string, modificationTime timestamp, length long, content binary"

# Bytes of new files in one micro-batch: bounds its duration, and what is repeated after a crash.
_MAX_BATCH_BYTES = str(64 << 20)
# Between listings of the sources. Shorter costs a core, longer costs latency.
_TRIGGER_INTERVAL = "100 milliseconds"
# Spark ignores files that are older than the newest one by this much: in effect, none.
_MAX_FILE_AGE = "36500d"

FilesHandler = Callable[[Sequence[DiscoveredFile]], None]
# Receives the new records, and the offsets at their end as Spark stores them: JSON by topic.
RecordsHandler = Callable[[DataFrame, str], None]


def start_file_query(
    spark: SparkSession,
    globs: Mapping[str, str],
    checkpoint: Path,
    handle_files: FilesHandler,
    drain: bool,
) -> StreamingQuery:
    """Start one query over the files of all streams; `globs`: by stream.

    `handle_files` receives the files of each micro-batch, at least once. `drain`: process the
    present files, then end.
    """
    streams = sorted(globs)
    sources = [_read_files(spark, stream, globs[stream]) for stream in streams]

    def handle_batch(frame: DataFrame, number: int) -> None:
        files = read_batch_files(checkpoint, number, streams)
        if files is None:
            files = list(map(_to_discovered_file, frame.collect()))
        if files:
            handle_files(files)

    writer = reduce(DataFrame.unionAll, sources).writeStream.queryName("ingest")
    return _start(writer.foreachBatch(handle_batch), checkpoint, drain)


def start_topic_query(
    spark: SparkSession,
    stream: str,
    options: Mapping[str, str],
    checkpoint: Path,
    handle_records: RecordsHandler,
    drain: bool,
) -> StreamingQuery:
    """Start a query over the topic of one stream.

    `options`: of Spark's Kafka source. `handle_records` receives the records of each micro-batch
    as a data frame (`kafka.RECORD_COLUMNS`), at least once. `drain`: process the present records,
    then end.
    """
    records = (
        spark.readStream.format("kafka").options(**options).load().select(*kafka.RECORD_COLUMNS)
    )

    def handle_batch(frame: DataFrame, number: int) -> None:
        handle_records(frame, _read_end_offsets(checkpoint, number))

    writer = records.writeStream.queryName(f"ingest {stream}").foreachBatch(handle_batch)
    return _start(writer, checkpoint, drain)


def _read_end_offsets(checkpoint: Path, batch: int) -> str:
    """The end offsets of a micro-batch; empty if unknown."""
    with suppress(OSError, ValueError):
        offsets = read_offsets(checkpoint, batch)
        return offsets[-1] if offsets else ""
    return ""


def _start(writer: DataStreamWriter, checkpoint: Path, drain: bool) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(checkpoint))
    if drain:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=_TRIGGER_INTERVAL)
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
        # Spark lists the folder once; it would list a glob in the path file by file.
        pattern, reader = folder, reader.option("pathGlobFilter", name)
    modified = F.unix_micros("modificationTime").alias("modified")
    return reader.load(pattern).select(F.lit(stream).alias("stream"), "path", modified, "length")


def glob_base(pattern: str) -> Path:
    """The folder above the first wildcard of a glob."""
    path = Path(pattern)
    while glob.has_magic(str(path)):
        path = path.parent
    return path if str(path) != pattern else path.parent


def _parse_path(uri: str) -> Path:
    """The path of Spark's `file:/…` URI, in which nothing is escaped."""
    return Path("/" + uri.removeprefix("file:").lstrip("/"))


def _to_discovered_file(row: Row) -> DiscoveredFile:
    return DiscoveredFile(row.stream, _parse_path(row.path), row.modified, row.length)
