"""Records of Kafka topics as source units: one per partition and micro-batch, ordered by offset."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from archiver.ingest import PartitionProgress, SourceUnit
from archiver.ingest.engines import TopicRecords
from moirae.config import KafkaSource, Stream

MAX_BATCH_RECORDS = 200_000  # of one micro-batch
# Columns of Spark's frame of new records.
RECORD_COLUMNS = ("partition", "offset", "value")


def reader_options(source: KafkaSource) -> dict[str, str]:
    """Options of Spark's Kafka source.

    Without a checkpoint it reads from the earliest offset: archived records are skipped by the
    progress in the ledger.
    """
    return {
        "kafka.bootstrap.servers": source.kafka.servers,
        "subscribe": source.kafka.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(MAX_BATCH_RECORDS),
        # Records that were deleted from the topic before they were read are an error.
        "failOnDataLoss": "true",
        "groupIdPrefix": "moirae",
    }


def make_units(
    name: str, declared: Stream, records: pa.Table, progress: Mapping[str, PartitionProgress]
) -> list[SourceUnit]:
    """One source unit for each partition, without archived records.

    `records`: of `RECORD_COLUMNS`, in any order. `progress`: what is archived, by partition.
    """
    source = declared.source
    assert isinstance(source, KafkaSource)
    ordered = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    units: list[SourceUnit] = []
    for partition in pc.unique(ordered["partition"]).to_pylist():
        partition_progress = progress.get(str(partition))
        next_offset = 0 if partition_progress is None else partition_progress.next
        rows = ordered.filter(pc.equal(ordered["partition"], partition))
        rows = rows.filter(pc.greater_equal(rows["offset"], next_offset))
        if len(rows):
            units.append(_make_unit(name, declared, source, str(partition), rows))
    return units


def _make_unit(
    name: str, declared: Stream, source: KafkaSource, partition: str, records: pa.Table
) -> SourceUnit:
    offsets: Sequence[int] = records["offset"].to_pylist()
    # A record without a value counts as an empty line.
    values = [value or b"" for value in records["value"].to_pylist()]
    fields = declared.field_names if source.format == "csv" else None
    unit = f"{source.kafka.topic}/{partition}/{offsets[0]}-{offsets[-1]}"
    return SourceUnit(name, unit, source.format, lambda: iter(values), offsets, fields, partition)


def topic_records(name: str, declared: Stream, frame: DataFrame) -> TopicRecords:
    """Records of a micro-batch that executors read. `frame`: of `RECORD_COLUMNS`."""
    source = declared.source
    assert isinstance(source, KafkaSource)
    fields = declared.field_names if source.format == "csv" else None
    return TopicRecords(name, source.kafka.topic, source.format, fields, frame)


def estimate_records(end_offsets: str, progress: Mapping[str, PartitionProgress]) -> int:
    """About how many records of a micro-batch are not archived.

    `end_offsets`: as Spark stores them, by topic and partition; 0 is returned without any.
    `progress`: what is archived, by partition.
    """
    count = 0
    for partitions in (_parse_offsets(end_offsets) or {}).values():
        for partition, end in partitions.items():
            next_offset = progress[partition].next if partition in progress else 0
            count += max(0, end - next_offset)
    return min(count, MAX_BATCH_RECORDS)


def has_unread_records(
    progress: Mapping[str, Any] | None, topic: str, partition: str | None
) -> bool:
    """Whether a partition may have records that are in no batch yet; partition None: any of them.

    `progress`: the last progress that Spark reported. Returns True if it contains no offsets.
    """
    sources = (progress or {}).get("sources") or [{}]
    latest_offsets = _parse_offsets(sources[0].get("latestOffset"))
    end_offsets = _parse_offsets(sources[0].get("endOffset"))
    if latest_offsets is None or end_offsets is None:
        return True
    if partition is None:
        return latest_offsets != end_offsets
    latest = latest_offsets.get(topic, {}).get(partition)
    end = end_offsets.get(topic, {}).get(partition)
    return bool(latest != end)


def _parse_offsets(value: Any) -> Mapping[str, Any] | None:
    """The offsets of an object or its JSON text; None for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        value = orjson.loads(value)
    return value if isinstance(value, dict) else None
