"""Events that wait for an answer, as a table that a lifted query joins (see `recall.query.lift`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recall.query.lift import EID, HIGH, LOW, MOMENT, attribute_column
from recall.request import Asked

# The first moment that Spark knows, in microseconds.
_BEGINNING = -62_135_596_800_000_000
_MICROS = pa.timestamp("us", tz="UTC")
# Attributes that need no parsing.
PLAIN = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
# How values are written as JSON and read from it, exactly.
JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
WRITTEN = {**JSON, "ignoreNullFields": "false"}


@dataclass(frozen=True)
class Waiting:
    """An event, and the times [low, high) in which its rows of streams lie; microseconds, low None: from the first."""

    asked: Asked
    low: int | None
    high: int


def pending(spark: SparkSession, events: Sequence[Waiting], attributes: Mapping[str, str]) -> DataFrame:
    """The table of some events; `attributes` with their Spark types."""
    table = plain_pending(events, {name: kind for name, kind in attributes.items() if kind in PLAIN})
    other = {name: kind for name, kind in attributes.items() if kind not in PLAIN}
    if not other:
        return spark.createDataFrame(table)
    texts = pa.array([orjson.dumps(dict(event.asked.attributes)).decode() for event in events])
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in other.items())
    frame = spark.createDataFrame(table.append_column("_json", texts))
    frame = frame.withColumn("_json", F.from_json("_json", ddl, JSON))
    return frame.withColumns({attribute_column(name): F.col("_json").getField(name) for name in other}).drop("_json")


def plain_pending(events: Sequence[Waiting], attributes: Mapping[str, str]) -> pa.Table:
    """The same, where all attributes are of `PLAIN` types."""
    columns = {
        EID: pa.array([str(event.asked.eid) for event in events]),
        MOMENT: pa.array([event.asked.ts for event in events], _MICROS),
        LOW: pa.array([_BEGINNING if event.low is None else event.low for event in events], _MICROS),
        HIGH: pa.array([event.high for event in events], _MICROS),
    }
    for name, type_name in attributes.items():
        kind = PLAIN[type_name]
        values = [plain_value(event.asked.attributes.get(name), kind) for event in events]
        columns[attribute_column(name)] = pa.array(values, kind)
    return pa.table(columns)


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """A value from JSON, where numbers that are none are texts."""
    return float(value) if value is not None and pa.types.is_floating(kind) else value


def own_table(
    spark: SparkSession, rows: Mapping[str, Sequence[Mapping[str, Any]]], columns: Mapping[str, str]
) -> DataFrame:
    """A table of the rule's own, such as a context: rows by event, with the Spark types of their columns."""
    flat = [(eid, orjson.dumps(dict(row)).decode()) for eid, found in rows.items() for row in found]
    table = pa.table(
        {EID: pa.array([e for e, _ in flat], pa.string()), "_json": pa.array([j for _, j in flat], pa.string())}
    )
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    frame = spark.createDataFrame(table).withColumn("_json", F.from_json("_json", ddl, JSON))
    return frame.select(EID, *[F.col("_json").getField(name).alias(name) for name in columns])
