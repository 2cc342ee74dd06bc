"""Events that wait for an answer, as a table that a lifted query joins (see `recall.query.lift`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recall.query import sql_names
from recall.requests import RecallEvent

# The first moment that Spark knows, in microseconds.
_MIN_TIMESTAMP = -62_135_596_800_000_000
_TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
# Attributes that need no parsing.
PLAIN_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
# How values are written as JSON and read from it, exactly.
JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
JSON_WRITE_OPTIONS = {**JSON_OPTIONS, "ignoreNullFields": "false"}


@dataclass(frozen=True)
class PendingEvent:
    """An event, and the times [low, high) in which its rows of streams lie; microseconds, low None:
    from the first.
    """

    event: RecallEvent
    low: int | None
    high: int


def create_pending_frame(
    spark: SparkSession, events: Sequence[PendingEvent], attributes: Mapping[str, str]
) -> DataFrame:
    """The table of some events; `attributes` with their Spark types."""
    table = create_pending_table(
        events, {name: kind for name, kind in attributes.items() if kind in PLAIN_TYPES}
    )
    other = {name: kind for name, kind in attributes.items() if kind not in PLAIN_TYPES}
    if not other:
        return spark.createDataFrame(table)
    texts = pa.array([orjson.dumps(dict(event.event.attributes)).decode() for event in events])
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in other.items())
    frame = spark.createDataFrame(table.append_column("_json", texts))
    frame = frame.withColumn("_json", F.from_json("_json", ddl, JSON_OPTIONS))
    return frame.withColumns(
        {sql_names.attribute_column(name): F.col("_json").getField(name) for name in other}
    ).drop("_json")


def create_pending_table(events: Sequence[PendingEvent], attributes: Mapping[str, str]) -> pa.Table:
    """The same, where all attributes are of `PLAIN` types."""
    columns = {
        sql_names.EID: pa.array([str(event.event.eid) for event in events]),
        sql_names.EVENT_TS: pa.array([event.event.ts for event in events], _TIMESTAMP_TYPE),
        sql_names.LOW: pa.array(
            [_MIN_TIMESTAMP if event.low is None else event.low for event in events],
            _TIMESTAMP_TYPE,
        ),
        sql_names.HIGH: pa.array([event.high for event in events], _TIMESTAMP_TYPE),
    }
    for name, type_name in attributes.items():
        kind = PLAIN_TYPES[type_name]
        values = [to_arrow_value(event.event.attributes.get(name), kind) for event in events]
        columns[sql_names.attribute_column(name)] = pa.array(values, kind)
    return pa.table(columns)


def to_arrow_value(value: Any, kind: pa.DataType) -> Any:
    """A value from JSON, where numbers that are none are texts."""
    return float(value) if value is not None and pa.types.is_floating(kind) else value


def create_event_table(
    spark: SparkSession, rows: Mapping[str, Sequence[Mapping[str, Any]]], columns: Mapping[str, str]
) -> DataFrame:
    """A table of the rule's own, such as a context: rows by event, with the Spark types of their
    columns.
    """
    flat = [(eid, orjson.dumps(dict(row)).decode()) for eid, found in rows.items() for row in found]
    table = pa.table(
        {
            sql_names.EID: pa.array([e for e, _ in flat], pa.string()),
            "_json": pa.array([j for _, j in flat], pa.string()),
        }
    )
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    frame = spark.createDataFrame(table).withColumn(
        "_json", F.from_json("_json", ddl, JSON_OPTIONS)
    )
    return frame.select(
        sql_names.EID, *[F.col("_json").getField(name).alias(name) for name in columns]
    )
