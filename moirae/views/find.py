"""The past of a rule found by its own queries, over rows of the archive: events with what decides them, contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.admission import column
from archiver.reader import Reader
from moirae.alerts.event import Event, distinct
from moirae.alerts.event import Found as Find
from moirae.judging.around import Around, Found
from moirae.judging.plan import Running, bound, branches, view
from moirae.judging.rows import OldRows
from recall.request import Asked

# Events whose contexts are computed by one statement.
_EVENTS = 500


@dataclass(frozen=True)
class Related:
    """The relations of a workspace: `table` gives all versions of one."""

    table: Callable[[str], pa.Table]
    names: frozenset[str]


class Finder:
    """Rules asked of the archive as it is now, on a Spark session with other views than these: those are replaced."""

    def __init__(self, spark: SparkSession, reader: Reader, relations: Related) -> None:
        self._spark = spark
        self._rows = OldRows(spark, reader)
        self._around = Around(spark, self._rows)
        reader.refresh()
        for name in relations.names:
            spark.createDataFrame(relations.table(name)).createOrReplaceTempView(f"relation_{name}")

    def events(self, rule: Running, low: int | None, high: int) -> list[Event]:
        """All events with ts in [low, high), microseconds; what they are made of must be archived."""
        shape = rule.shape
        since = None if low is None else low - shape.reach
        for stream in shape.streams:
            self._rows.archived(stream, since, high + shape.lag).createOrReplaceTempView(view(stream))
        table = self._spark.sql(" UNION ALL ".join(branches([(0, rule, bound(rule))]))).toArrow()
        rows = zip(column(table, "ts").tolist(), table["attributes"].to_pylist(), strict=True)
        finds = [Find(ts, orjson.loads(text)) for ts, text in rows if (low is None or ts >= low) and ts < high]
        return distinct(rule.rule, rule.definition.id, rule.definition.key, finds)

    def contexts(self, rule: Running, events: Sequence[Event]) -> dict[UUID, Found]:
        """Of some events; empty where the rule has none, or where they cannot be computed."""
        found: dict[UUID, Found] = {}
        for first in range(0, len(events), _EVENTS):
            asked = [Asked(e.eid, e.ts, e.key, e.attributes) for e in events[first : first + _EVENTS]]
            computed = self._around.compute([(rule, asked)]) if self._around.of(rule) else {}
            found |= {one.eid: computed.get((rule.rule, one.eid)) or self._around.found(rule, {}) for one in asked}
        return found
