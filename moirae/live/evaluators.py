"""What evaluates rules and contexts in the live process, over the same rows and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

import sql
from archiver.ingest import ArchiveWriter
from archiver.times import Micros
from moirae.evaluation import (
    ContextEvaluator,
    Guard,
    LiveStreamRows,
    RevisionRows,
    RuleEngines,
    RuleEvaluator,
    VerdictLosses,
)
from moirae.live.event_time import get_watermarks
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
        RevisionRows(connection, archive.root, partial(_least_watermark, archive)),
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


def _least_watermark(archive: ArchiveWriter) -> Micros | None:
    """The least watermark of the streams that have one."""
    watermarks = [mark for mark in get_watermarks(archive).values() if mark is not None]
    return min(watermarks, default=None)
