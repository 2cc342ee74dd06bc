"""The table of events that wait for an answer; a lifted query joins it (`recall.query.lift`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.query import sql_names
from recall.requests import Piece, RecallEvent

# Spark's earliest timestamp, 0001-01-01, in microseconds.
MIN_TIMESTAMP = -62_135_596_800_000_000
_TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
# Spark types that have the same values in JSON and Arrow.
PLAIN_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
# Exact JSON in Spark: timestamps with microseconds.
JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
JSON_WRITE_OPTIONS = {**JSON_OPTIONS, "ignoreNullFields": "false"}


@dataclass(frozen=True)
class PendingEvent:
    """An event, and the range of event time of its rows, with an end."""

    event: RecallEvent
    range: TimeRange


def list_pending(event_pieces: Iterable[tuple[RecallEvent, Piece]]) -> list[PendingEvent]:
    """Each event once, with the range that spans its piece."""
    return [PendingEvent(event, piece.range) for event, piece in event_pieces]


def list_ranges(event_pieces: Iterable[tuple[RecallEvent, Piece]]) -> list[PendingEvent]:
    """Each event once for each range of its piece."""
    return [PendingEvent(event, part) for event, piece in event_pieces for part in piece.ranges]


def create_pending_frame(
    spark: SparkSession, events: Sequence[PendingEvent], attributes: Mapping[str, str]
) -> DataFrame:
    """The table of some events as a Spark frame; `attributes`: their Spark types."""
    plain: dict[str, str] = {}
    nested: dict[str, str] = {}
    for name, type_name in attributes.items():
        target = plain if type_name in PLAIN_TYPES else nested
        target[name] = type_name
    table = create_pending_table(events, plain)
    if not nested:
        return spark.createDataFrame(table)
    texts = []
    for pending in events:
        texts.append(orjson.dumps(dict(pending.event.attributes)).decode())
    frame = spark.createDataFrame(table.append_column("_json", pa.array(texts)))
    frame = _parse_json_column(frame, nested)
    columns = dict(
        zip(map(sql_names.attribute_column, nested), map(_json_field, nested), strict=True)
    )
    return frame.withColumns(columns).drop("_json")


def create_pending_table(events: Sequence[PendingEvent], attributes: Mapping[str, str]) -> pa.Table:
    """The table of some events as an Arrow table; all attributes are of `PLAIN_TYPES`."""
    eids: list[str] = []
    times: list[int] = []
    lows: list[Micros] = []
    highs: list[Micros | None] = []
    for pending in events:
        eids.append(str(pending.event.eid))
        times.append(pending.event.ts)
        start, end = pending.range
        lows.append(MIN_TIMESTAMP if start is None else start)
        highs.append(end)
    columns = {
        sql_names.EID: pa.array(eids),
        sql_names.EVENT_TS: pa.array(times, _TIMESTAMP_TYPE),
        sql_names.LOW: pa.array(lows, _TIMESTAMP_TYPE),
        sql_names.HIGH: pa.array(highs, _TIMESTAMP_TYPE),
    }
    for name, type_name in attributes.items():
        arrow_type = PLAIN_TYPES[type_name]
        values = [
            to_arrow_value(pending.event.attributes.get(name), arrow_type) for pending in events
        ]
        columns[sql_names.attribute_column(name)] = pa.array(values, arrow_type)
    return pa.table(columns)


def to_arrow_value(value: Any, arrow_type: pa.DataType) -> Any:
    """A value from JSON, where NaN and infinite numbers are strings."""
    if value is not None and pa.types.is_floating(arrow_type):
        return float(value)
    return value


def create_event_table(
    spark: SparkSession,
    rows_by_event: Mapping[str, Sequence[Mapping[str, Any]]],
    columns: Mapping[str, str],
) -> DataFrame:
    """A context or surrounding as a Spark frame; `columns`: with their Spark types."""
    eids: list[str] = []
    texts: list[str] = []
    for eid, rows in rows_by_event.items():
        for row in rows:
            eids.append(eid)
            texts.append(orjson.dumps(dict(row)).decode())
    table = pa.table(
        {sql_names.EID: pa.array(eids, pa.string()), "_json": pa.array(texts, pa.string())}
    )
    frame = _parse_json_column(spark.createDataFrame(table), columns)
    return frame.select(sql_names.EID, *[_json_field(name).alias(name) for name in columns])


def _parse_json_column(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    ddl = ", ".join(starmap("`{}` {}".format, types.items()))
    return frame.withColumn("_json", F.from_json("_json", ddl, JSON_OPTIONS))


def _json_field(name: str) -> Column:
    return F.col("_json").getField(name)
