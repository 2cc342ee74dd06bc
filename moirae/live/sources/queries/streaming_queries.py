"""Streaming queries over topics: Spark finds new records; callbacks handle each batch."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moirae.live.sources import kafka
from moirae.live.sources.queries.checkpoint import read_offsets

# Between questions to the broker. Shorter costs a core, longer costs latency.
_TRIGGER_INTERVAL = "100 milliseconds"

# Receives the new records, and the offsets at their end as Spark stores them: JSON by topic.
RecordsHandler = Callable[[DataFrame, str], None]


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
