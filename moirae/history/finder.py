"""Computes the past of a rule by its own queries over archived rows: events and contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.read import Reader
from archiver.time_range import TimeRange
from moirae.alerts import Event, deduplicate
from moirae.evaluation import (
    ActiveRule,
    ArchivedStreamRows,
    ContextEvaluator,
    EventContexts,
    find_archived_event_rows,
    relation_view,
)
from recall.requests import RecallEvent

_EVENTS_PER_STATEMENT = 500  # events whose contexts one statement computes


@dataclass(frozen=True)
class RelationVersions:
    """The relations of a workspace. `read` returns all versions of the rows of one."""

    read: Callable[[str], pa.Table]
    names: frozenset[str]


class PastFinder:
    """Evaluates rules over the archive. Replaces the temporary views of the session."""

    def __init__(self, spark: SparkSession, reader: Reader, relations: RelationVersions) -> None:
        self._spark = spark
        self._rows = ArchivedStreamRows(spark, reader)
        self._context_evaluator = ContextEvaluator(spark, self._rows)
        reader.refresh()
        for name in relations.names:
            versions = spark.createDataFrame(relations.read(name))
            versions.createOrReplaceTempView(relation_view(name))

    def find_events(self, rule: ActiveRule, time_range: TimeRange) -> list[Event]:
        """All events with ts in a range. Their input must be archived."""
        event_rows = find_archived_event_rows(self._spark, self._rows, rule, time_range)
        return deduplicate(rule.name, rule.definition.id, rule.definition.key, event_rows)

    def compute_contexts(
        self, rule: ActiveRule, events: Sequence[Event]
    ) -> dict[UUID, EventContexts]:
        """The contexts of events: empty if the rule has none, or if they cannot be computed."""
        empty = self._context_evaluator.parse_contexts(rule, {})
        contexts = dict.fromkeys((event.eid for event in events), empty)
        if not self._context_evaluator.queries_of(rule):
            return contexts
        for first in range(0, len(events), _EVENTS_PER_STATEMENT):
            batch: list[RecallEvent] = []
            for event in events[first : first + _EVENTS_PER_STATEMENT]:
                batch.append(RecallEvent(event.eid, event.ts, event.key, event.attributes))
            for (_, eid), computed in self._context_evaluator.compute([(rule, batch)]).items():
                contexts[eid] = computed
        return contexts
