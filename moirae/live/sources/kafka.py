"""Records of Kafka topics as source units: of each partition what a micro-batch brings, in order of the offsets."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.ingest import PartitionProgress, SourceUnit
from moirae.config import KafkaSource, Stream

# What Spark's frame of new records is asked for.
RECORD_COLUMNS = ("partition", "offset", "value")


def reader_options(source: KafkaSource) -> dict[str, str]:
    """Options of Spark's source. Where its checkpoint is lost it begins anew: the ledger knows what was archived."""
    return {
        "kafka.bootstrap.servers": source.kafka.servers,
        "subscribe": source.kafka.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200000",
        # Records that the topic has dropped before they were read are a loss: it is told, loudly.
        "failOnDataLoss": "true",
        "groupIdPrefix": "moirae",
    }


def make_units(
    name: str, declared: Stream, records: pa.Table, progress: Mapping[str, PartitionProgress]
) -> list[SourceUnit]:
    """One unit for each partition, without records that were archived before. `records`: of `COLUMNS`, in any order."""
    source = declared.source
    assert isinstance(source, KafkaSource)
    ordered = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    made: list[SourceUnit] = []
    for partition in pc.unique(ordered["partition"]).to_pylist():
        known = progress.get(str(partition))
        mine = ordered.filter(pc.equal(ordered["partition"], partition))
        mine = mine.filter(pc.greater_equal(mine["offset"], known.next if known else 0))
        if len(mine):
            made.append(_make_unit(name, declared, source, str(partition), mine))
    return made


def _make_unit(
    name: str, declared: Stream, source: KafkaSource, partition: str, records: pa.Table
) -> SourceUnit:
    offsets: Sequence[int] = records["offset"].to_pylist()
    values = [
        value or b"" for value in records["value"].to_pylist()
    ]  # a message without value is an empty line
    fields = list(declared.columns) if source.format == "csv" else None
    unit = f"{source.kafka.topic}/{partition}/{offsets[0]}-{offsets[-1]}"
    return SourceUnit(name, unit, source.format, lambda: iter(values), offsets, fields, partition)


def has_unread_records(
    progress: Mapping[str, Any] | None, topic: str, partition: str | None
) -> bool:
    """Whether a partition, or any, may hold records that no batch has brought, by what Spark told last."""
    sources = (progress or {}).get("sources") or [{}]
    latest, reached = (
        _parse_offsets(sources[0].get(name)) for name in ("latestOffset", "endOffset")
    )
    if latest is None or reached is None:
        return True
    if partition is None:
        return latest != reached
    return bool(latest.get(topic, {}).get(partition) != reached.get(topic, {}).get(partition))


def _parse_offsets(value: Any) -> Mapping[str, Any] | None:
    found = orjson.loads(value) if isinstance(value, str) and value.startswith("{") else value
    return found if isinstance(found, dict) else None
