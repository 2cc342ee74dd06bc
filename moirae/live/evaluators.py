"""What evaluates rules and contexts in the live process, over the same rows and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

import sql
from archiver.ingest import ArchiveWriter
from moirae.alerts import AlertStream
from moirae.evaluation import (
    ContextEvaluator,
    Guard,
    LiveStreamRows,
    RevisionRows,
    RuleEngines,
    RuleEvaluator,
    VerdictLosses,
)
from recall.engines import RowFilters


@dataclass(frozen=True, kw_only=True)
class Evaluators:
    """The evaluators of one Spark session."""

    rows: LiveStreamRows
    guard: Guard
    losses: VerdictLosses
    rules: RuleEvaluator
    contexts: ContextEvaluator


def get_stream_columns(archive: ArchiveWriter) -> dict[str, Mapping[str, str]]:
    """The declared columns of each stream, with their types."""
    return {name: table.schema.query_columns for name, table in archive.tables.items()}


def build_evaluators(
    spark: SparkSession,
    archive: ArchiveWriter,
    guard: Guard,
    *,
    connection: sql.Connection,
    relations: Mapping[str, Mapping[str, str]],
    engines: RuleEngines,
) -> Evaluators:
    """`relations`: the types of their columns, by name."""
    losses = VerdictLosses(connection, guard.loss_limits)
    rows = LiveStreamRows(
        spark,
        archive,
        RevisionRows(connection, archive.root),
        AlertStream(connection),
        engines.max_read_rows,
    )
    return Evaluators(
        rows=rows,
        guard=guard,
        losses=losses,
        rules=RuleEvaluator(
            rows=rows,
            guard=guard,
            losses=losses,
            columns=get_stream_columns(archive),
            relations=relations,
            engines=replace(engines, filters=RowFilters(lambda: spark)),
        ),
        contexts=ContextEvaluator(spark, rows, guard, engines.choice),
    )
