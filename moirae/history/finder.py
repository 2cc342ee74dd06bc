"""The past of a rule found by its own queries, over rows of the archive: events with what decides them, contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.read import Reader
from archiver.times import micros_column
from moirae.alerts import Event, deduplicate
from moirae.alerts import EventRow as Find
from moirae.evaluation import (
    ActiveRule,
    ArchivedStreamRows,
    ContextEvaluator,
    EventContexts,
    bind_event_query,
    build_branches,
    view_name,
)
from recall.requests import RecallEvent

# Events whose contexts are computed by one statement.
_EVENTS_PER_STATEMENT = 500


@dataclass(frozen=True)
class RelationVersions:
    """The relations of a workspace: `table` gives all versions of one."""

    read: Callable[[str], pa.Table]
    names: frozenset[str]


class PastFinder:
    """Rules asked of the archive as it is now, on a Spark session with other views than these: those are replaced."""

    def __init__(self, spark: SparkSession, reader: Reader, relations: RelationVersions) -> None:
        self._spark = spark
        self._rows = ArchivedStreamRows(spark, reader)
        self._context_evaluator = ContextEvaluator(spark, self._rows)
        reader.refresh()
        for name in relations.names:
            spark.createDataFrame(relations.read(name)).createOrReplaceTempView(f"relation_{name}")

    def find_events(self, rule: ActiveRule, low: int | None, high: int) -> list[Event]:
        """All events with ts in [low, high), microseconds; what they are made of must be archived."""
        shape = rule.shape
        since = None if low is None else low - shape.reach
        for stream in shape.streams:
            self._rows.read_range(stream, since, high + shape.lag).createOrReplaceTempView(
                view_name(stream)
            )
        table = self._spark.sql(
            " UNION ALL ".join(build_branches([(0, rule, bind_event_query(rule))]))
        ).toArrow()
        rows = zip(
            micros_column(table, "ts").tolist(), table["attributes"].to_pylist(), strict=True
        )
        finds = [
            Find(ts, orjson.loads(text))
            for ts, text in rows
            if (low is None or ts >= low) and ts < high
        ]
        return deduplicate(rule.name, rule.definition.id, rule.definition.key, finds)

    def compute_contexts(
        self, rule: ActiveRule, events: Sequence[Event]
    ) -> dict[UUID, EventContexts]:
        """Of some events; empty where the rule has none, or where they cannot be computed."""
        found: dict[UUID, EventContexts] = {}
        for first in range(0, len(events), _EVENTS_PER_STATEMENT):
            asked = [
                RecallEvent(e.eid, e.ts, e.key, e.attributes)
                for e in events[first : first + _EVENTS_PER_STATEMENT]
            ]
            computed = (
                self._context_evaluator.compute([(rule, asked)])
                if self._context_evaluator.queries_of(rule)
                else {}
            )
            found |= {
                one.eid: computed.get((rule.name, one.eid))
                or self._context_evaluator.parse_contexts(rule, {})
                for one in asked
            }
        return found
