"""Evaluates stages over the input of a test, by the engine of recall processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from archiver.read import Reader
from moirae.config import Settings
from moirae.history import RelationVersions
from recall.engines.routing import EngineChoice
from recall.event_plans import ColumnTypes
from recall.stages import StageEvaluator, StageFailure, StageInput, StageQuery


@dataclass(frozen=True)
class RuleTestStages:
    """`stream_columns`, `relation_columns`: the types of columns, by stream and by relation."""

    evaluator: StageEvaluator
    stream_columns: Mapping[str, ColumnTypes]
    relation_columns: Mapping[str, ColumnTypes]

    @classmethod
    def create(
        cls, settings: Settings, spark: SparkSession, reader: Reader, relations: RelationVersions
    ) -> "RuleTestStages":
        """Stages over an archive of the workspace's streams."""
        evaluator = StageEvaluator(
            reader,
            relations=relations.read,
            session=lambda: spark,
            choice=EngineChoice(settings.recall.engine),
            max_rows=settings.limits.stage_rows,
        )
        columns = {stream: reader.schema(stream).query_columns for stream in reader.streams}
        return cls(evaluator, columns, relations.columns)

    def evaluate(
        self, query: StageQuery, stage_input: StageInput
    ) -> list[dict[str, Any]] | StageFailure:
        """The rows of a stage for an event, or why there are none."""
        live_rows = self.evaluator.snapshot([query.stage], [stage_input.event])
        return self.evaluator.evaluate(query, [stage_input], live_rows)[stage_input.event.eid]
