"""What evaluates rules and contexts in the live process, over the same rows and limits."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from archiver.ingest import ArchiveWriter
from moirae.evaluation import ContextEvaluator, ExecutorRules, Guard, LiveStreamRows, RuleEvaluator
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
    executor_rules: ExecutorRules | None,
) -> Evaluators:
    """Build them.

    `relations`: the types of their columns, by name. `executor_rules`: evaluates plain rules over
    archived files.
    """
    rows = LiveStreamRows(spark, archive)
    columns = {name: table.schema.columns for name, table in archive.tables.items()}
    return Evaluators(
        rows=rows,
        guard=guard,
        rules=RuleEvaluator(
            spark=spark,
            rows=rows,
            guard=guard,
            columns=columns,
            relations=relations,
            engine_choice=engine_choice,
            executor_rules=executor_rules,
        ),
        contexts=ContextEvaluator(spark, rows, guard),
    )
