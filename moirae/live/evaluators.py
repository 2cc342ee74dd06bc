"""What evaluates rules and contexts in the live process, over the same rows and limits."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from archiver.ingest import ArchiveWriter
from moirae.evaluation import ContextEvaluator, Guard, LiveStreamRows, RuleEvaluator
from recall.engines import EngineChoice


@dataclass(frozen=True, kw_only=True)
class Evaluators:
    """The evaluators of one Spark session."""

    rows: LiveStreamRows
    guard: Guard
    rules: RuleEvaluator
    contexts: ContextEvaluator


def build_evaluators(
    spark: SparkSession,
    archive: ArchiveWriter,
    guard: Guard,
    *,
    relations: Mapping[str, Mapping[str, str]],
    engine_choice: EngineChoice,
) -> Evaluators:
    """`relations`: the types of their columns, by name."""
    rows = LiveStreamRows(spark, archive)
    columns = {name: table.schema.columns for name, table in archive.tables.items()}
    return Evaluators(
        rows=rows,
        guard=guard,
        rules=RuleEvaluator(
            rows=rows,
            guard=guard,
            columns=columns,
            relations=relations,
            engine_choice=engine_choice,
        ),
        contexts=ContextEvaluator(spark, rows, guard),
    )
