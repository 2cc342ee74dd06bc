"""Counts the rows of a key through the stages of a rule, and tries the rule without conditions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from archiver.read import filter_time_range
from archiver.time_range import TimeRange
from archiver.times import from_micros
from moirae.backtest import BacktestArchive
from moirae.evaluation.plan import ActiveRule, input_view, relation_view
from moirae.why.conditions import list_conditions, remove_conditions
from moirae.why.explanation import ConditionReport, StageReport, StreamReport
from moirae.why.stage_queries import StageCounts, build_key_condition, build_stage_queries
from recall.query import sql_names

_MAX_VERSIONS = 3  # rows of a relation that are shown
_QUERY_ERRORS = (PySparkException, Py4JJavaError)


@dataclass
class KeySlice:
    """The rows that a rule reads for events of a key in a range. Replaces views of the session."""

    rule: ActiveRule
    archive: BacktestArchive
    key: Mapping[str, str]
    events: TimeRange

    def __post_init__(self) -> None:
        shape = self.rule.shape
        self.input = self.events.shift(start=-shape.reach, end=shape.lag)
        self.query = self.rule.bind_event_query()
        for stream in shape.streams:
            self._read(stream, False).createOrReplaceTempView(input_view(stream))

    @property
    def _spark(self) -> SparkSession:
        return self.archive.finder.spark

    def _read(self, stream: str, include_late: bool) -> DataFrame:
        reader = self.archive.reader
        frame = reader.read_dataframe(self._spark, stream, self.input, include_late, {})
        return filter_time_range(frame, reader.schema(stream).time, self.input)

    def describe_streams(self) -> list[StreamReport]:
        """The rows of each stream."""
        return [self._describe_stream(stream) for stream in sorted(self.rule.shape.streams)]

    def _describe_stream(self, stream: str) -> StreamReport:
        schema = self.archive.reader.schema(stream)
        time = F.col(f"`{schema.time}`")
        counts: list[DataFrame] = []
        for include_late in (False, True):
            frame = self._read(stream, include_late)
            for name, text in self.key.items():
                if name in schema.query_columns:
                    frame = frame.where(F.col(f"`{name}`").cast("string") == text)
            figures = (F.lit(include_late), F.count("*"), F.min(time), F.max(time))
            counts.append(frame.agg(*figures))
        on_time, every = counts
        # One job: a job costs more than the rows of a slice.
        (_, rows, oldest, newest), (_, all_rows, _, _) = sorted(on_time.unionAll(every).collect())
        return StreamReport(stream, rows, all_rows - rows, _to_utc(oldest), _to_utc(newest))

    def describe_relations(self) -> dict[str, list[Mapping[str, Any]]]:
        """The versions of relations that are valid at the end of the range, those of the key if they
        have columns of these names.
        """
        assert self.events.end is not None
        at = F.lit(from_micros(self.events.end - 1))
        versions: dict[str, list[Mapping[str, Any]]] = {}
        for name in sorted(self.rule.shape.relations):
            frame = self._spark.table(relation_view(name))
            frame = frame.where(
                (F.col(sql_names.VALID_FROM) <= at) & (F.col(sql_names.VALID_TO) > at)
            )
            for column, text in self.key.items():
                if column in frame.columns:
                    frame = frame.where(F.col(f"`{column}`").cast("string") == text)
            frame = frame.drop(sql_names.VALID_FROM, sql_names.VALID_TO)
            as_json = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
            rows = frame.limit(_MAX_VERSIONS).select(as_json).collect()
            versions[name] = [orjson.loads(row[0]) for row in rows]
        return versions

    def describe_stages(self) -> list[StageReport]:
        """The stages in the order of their evaluation."""
        return [self._describe_stage(stage) for stage in build_stage_queries(self.query, self.key)]

    def _describe_stage(self, stage: StageCounts) -> StageReport:
        try:
            (row,) = self._spark.sql(stage.statement).collect()
        except _QUERY_ERRORS as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return StageReport(stage.name, stage.sources, error=reason)
        counts = row.asDict()
        conditions = [
            ConditionReport(
                text=text,
                passed=counts[f"row_{number}"],
                values=_name_values(counts[f"value_{number}"], stage.operands[number]),
                is_true=counts[f"is_true_{number}"],
            )
            for number, text in enumerate(stage.conditions)
        ]
        return StageReport(
            stage.name, stage.sources, counts["rows"], conditions, counts.get("groups")
        )

    def find_deciding(self) -> list[int]:
        """Positions of the conditions without which there is an event; empty: there is none anyway.

        A single one if that is enough: the first. Else as few of the first ones as are enough.
        """
        count = len(list_conditions(self.query))
        single = self._find_enough([[number] for number in range(count)])
        if single is not None:
            return single
        prefix = self._find_enough([range(number + 1) for number in range(1, count)])
        if prefix is None:
            return []
        needed = list(prefix)
        for number in prefix:
            remaining = [other for other in needed if other != number]
            if remaining and self._find_enough([remaining]) is not None:
                needed = remaining
        return needed

    def _find_enough(self, removals: Sequence[Collection[int]]) -> list[int] | None:
        """The first removal of conditions that gives an event of the key."""
        if not removals:
            return None
        statements = [
            f"SELECT {number} AS number, count(*) AS events FROM "
            f"({remove_conditions(self.query, removal).sql(dialect='spark')}) WHERE {self._select}"
            for number, removal in enumerate(removals)
        ]
        rows = self._spark.sql(" UNION ALL ".join(statements)).collect()
        counts = {row["number"]: row["events"] for row in rows}
        return next((list(item) for n, item in enumerate(removals) if counts[n]), None)

    @property
    def _select(self) -> str:
        """Selects the events of the key in the range."""
        conditions = [build_key_condition(_column(name), text) for name, text in self.key.items()]
        texts = [condition.sql(dialect="spark") for condition in conditions]
        start, end = self.events
        assert start is not None and end is not None
        texts += [
            f"ts >= timestamp_micros({start})",
            f"ts < timestamp_micros({end})",
        ]
        return " AND ".join(texts)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _name_values(text: str | None, operands: Sequence[str]) -> dict[str, Any]:
    if text is None:
        return {}
    values = orjson.loads(text)
    return {operand: values.get(str(number)) for number, operand in enumerate(operands)}


def _to_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
