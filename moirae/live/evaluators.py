"""What evaluates rules and contexts in the live process, over the same rows and limits."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from archiver.ingest import ArchiveWriter
from moirae.evaluation import ContextEvaluator, Guard, LiveStreamRows, RuleEvaluator


@dataclass(frozen=True, kw_only=True)
class Evaluators:
    """The evaluators of one Spark session."""

    rows: LiveStreamRows
    guard: Guard
    rules: RuleEvaluator
    contexts: ContextEvaluator


def build_evaluators(
    spark: SparkSession, archive: ArchiveWriter, guard: Guard, *, local: bool
) -> Evaluators:
    """Build them; `local`: evaluate portable rules in this process instead of in Spark."""
    rows = LiveStreamRows(spark, archive)
    columns = {name: table.schema.columns for name, table in archive.tables.items()}
    return Evaluators(
        rows=rows,
        guard=guard,
        rules=RuleEvaluator(spark, rows, guard, columns, local),
        contexts=ContextEvaluator(spark, rows, guard),
    )
