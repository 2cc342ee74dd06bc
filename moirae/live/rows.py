"""Rows of streams as Spark sees them: what has just come, what is in memory, what lies in files."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from archiver.ingest import Archive
from archiver.reader import read, within


class Rows:
    """On-time rows of the archive, for one Spark session."""

    def __init__(self, spark: SparkSession, archive: Archive) -> None:
        self._spark = spark
        self._archive = archive

    def new(self, stream: str, fresh: pa.Table | None) -> DataFrame:
        """Rows at hand, or none."""
        schema = self._archive.tables[stream].schema
        columns = list(schema.columns)
        return self.frame(fresh.select(columns) if fresh is not None else schema.arrow().empty_table().select(columns))

    def archived(
        self, stream: str, low: int | None, high: int | None, only: Mapping[str, Sequence[Any]] | None = None
    ) -> DataFrame:
        """Rows with event times in [low, high), microseconds; `only` those with one of some values in a column."""
        recent = self._archive.recent[stream].slice(low, high)
        if recent is not None:
            for name, wanted in (only or {}).items():
                recent = recent.filter(pc.is_in(recent[name], pa.array(wanted, recent.schema.field(name).type)))
            return self.frame(recent)
        table = self._archive.tables[stream]
        found = read(self._spark, table, low, high, False, only or {})
        return self.new(stream, None) if found is None else within(found, table.schema.time, low, high)

    def frame(self, rows: pa.Table) -> DataFrame:
        """An Arrow table."""
        return self._spark.createDataFrame(rows)
