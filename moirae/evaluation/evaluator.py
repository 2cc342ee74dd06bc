"""Who judges: this process what is plain, all rules of one shape by one query; Spark the others,
and whatever fails here, in one statement. Where that fails, each half of its rules is judged again,
down to the one at fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.errors import StatementTimeout
from moirae.evaluation.batches import ColumnsByStream, RuleBatcher, RuleBatches
from moirae.evaluation.guard import Guard
from moirae.evaluation.limits import find_failing_row
from moirae.evaluation.local import LocalEvaluator, RuleEventRows
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice, view_name
from moirae.evaluation.stream_rows import LiveStreamRows

# What some of the rules of a query find, by their places.
_EventRowsByRule = dict[int, list[EventRow]]


@dataclass(frozen=True)
class EvaluationResult:
    """What rules find: those that find anything. `failed`: the names of those that could not be
    judged.
    """

    event_rows: list[tuple[ActiveRule, list[EventRow]]]
    failed: frozenset[str] = frozenset()


class RuleEvaluator:
    """What rules find in rows, by whichever engine; who fails is charged (see
    `moirae.evaluation.guard`).
    """

    def __init__(
        self,
        spark: SparkSession,
        rows: LiveStreamRows,
        guard: Guard,
        columns: ColumnsByStream,
        allow_local: bool,
    ) -> None:
        """`columns`: of each stream, with types. `local`: whether plain rules may be judged in this
        process.
        """
        self._spark = spark
        self._rows = rows
        self._guard = guard
        self._batcher = RuleBatcher(columns)
        self._local = LocalEvaluator() if allow_local else None
        self._panes = PaneCache(self._local, rows) if self._local is not None else None

    def set_active_rules(self, active_rules: Sequence[ActiveRule]) -> None:
        """Other rules run than before."""
        self._batcher.remove_inactive(active_rules)
        if self._local is not None:
            self._local.clear_constants()
        if self._panes is not None:
            self._panes.remove_inactive(active_rules)

    def evaluate_slice(self, rule_slice: RuleSlice) -> EvaluationResult:
        """What the rules of a slice find in it."""
        merged, left = self._evaluate_panes(rule_slice)
        whole = self._evaluate_all_rows(replace(rule_slice, rules=left))
        found = [
            (rule, rule_slice.select_event_rows(finds))
            for rule, finds in [*merged, *whole.event_rows]
        ]
        return EvaluationResult([(rule, finds) for rule, finds in found if finds], whole.failed)

    def _evaluate_panes(
        self, part: RuleSlice
    ) -> tuple[list[tuple[ActiveRule, list[EventRow]]], tuple[ActiveRule, ...]]:
        """What rules over sliding windows find, and the other rules."""
        answers = (
            self._panes.evaluate(part, self._batcher.batch(part.rules))
            if self._panes is not None
            else []
        )
        if not answers:
            return [], part.rules
        found: _EventRowsByRule = {}
        for _, finds in answers:
            _add_event_rows(found, finds)
        served = {place for group, _ in answers for place in group.rule_indexes}
        left = tuple(rule for place, rule in enumerate(part.rules) if place not in served)
        return [(part.rules[place], finds) for place, finds in found.items()], left

    def _evaluate_all_rows(self, part: RuleSlice) -> EvaluationResult:
        """The others, over all rows of the slice's input."""
        if not part.rules:
            return EvaluationResult([])
        streams = part.streams
        inputs = {
            name: self._rows.read_range(name, part.input_low, part.input_high) for name in streams
        }
        count = sum(
            self._rows.estimate_count(name, part.input_low, part.input_high) for name in streams
        )
        return self.evaluate(part.rules, inputs, count)

    def evaluate(
        self,
        rules: Sequence[ActiveRule],
        inputs: Mapping[str, pa.Table | DataFrame],
        row_count: int,
    ) -> EvaluationResult:
        """What each rule finds in about so many rows."""
        groups = self._guard.isolate_suspects(rules, lambda rule: rule.name)
        answers = [self._evaluate_group(group, inputs, row_count) for group in groups]
        finds = [pair for answer in answers for pair in answer.event_rows]
        return EvaluationResult(finds, frozenset().union(*(answer.failed for answer in answers)))

    def _evaluate_group(
        self, rules: Sequence[ActiveRule], inputs: Mapping[str, pa.Table | DataFrame], count: int
    ) -> EvaluationResult:
        found: _EventRowsByRule = {}
        left = self._evaluate_locally(rules, inputs, found)
        failed: set[int] = set()
        if left:
            for name, rows in inputs.items():
                frame = self._rows.to_frame(rows) if isinstance(rows, pa.Table) else rows
                frame.createOrReplaceTempView(view_name(name))
            failed = self._evaluate_with_spark(rules, left, found, inputs, count)
        finds = [(rules[place], found[place]) for place in sorted(found) if place not in failed]
        return EvaluationResult(finds, frozenset(rules[place].name for place in failed))

    def _evaluate_locally(
        self,
        rules: Sequence[ActiveRule],
        inputs: Mapping[str, pa.Table | DataFrame],
        found: _EventRowsByRule,
    ) -> Sequence[int]:
        """Fills in what this process can judge by itself; returns the places of the other rules."""
        tables = {name: rows for name, rows in inputs.items() if isinstance(rows, pa.Table)}
        if self._local is None:
            return range(len(rules))
        shares = self._batcher.batch(rules)
        held = {view_name(name) for name in tables}
        groups = [group for group in shares.batches if group.duckdb_query.streams <= held]
        served = set()
        for group, finds in self._local.evaluate(groups, tables):
            served.add(group.number)
            _add_event_rows(found, finds)
        others = [
            place
            for group in shares.batches
            if group.number not in served
            for place in group.rule_indexes
        ]
        return sorted([*shares.unbatched, *others])

    def _evaluate_with_spark(
        self,
        rules: Sequence[ActiveRule],
        places: Sequence[int],
        found: _EventRowsByRule,
        inputs: Mapping[str, pa.Table | DataFrame],
        count: int,
    ) -> set[int]:
        """Fills in what Spark finds for some of the rules; returns the places of those that failed.

        Where a statement fails each half of its rules is asked for again, down to the rule at
        fault; where it was stopped each rule by itself, as the one at fault takes all the time it
        may each time.
        """
        asked = [rules[place] for place in places]
        shares = self._batcher.batch(asked)
        tables = {
            group.constants_table: group.constants
            for group in shares.batches
            if len(group.rule_indexes) > 1
        }
        for name, constants in tables.items():
            self._rows.to_frame(constants).createOrReplaceTempView(name)
        try:
            statement = self._batcher.build_statement(asked, shares)
            table = self._guard.run(asked, count, lambda: self._spark.sql(statement).toArrow())
        except (PySparkException, Py4JJavaError, StatementTimeout) as error:
            if len(places) == 1:
                self._report_failure(asked[0], error, inputs)
                return {places[0]}
            half = 1 if isinstance(error, StatementTimeout) else len(places) // 2
            parts = [places[i : i + half] for i in range(0, len(places), half)]
            return set().union(
                *(self._evaluate_with_spark(rules, part, found, inputs, count) for part in parts)
            )
        finally:
            for name in tables:
                self._spark.catalog.dropTempView(name)
        for index, ts, text in zip(
            table["rule"].to_pylist(),
            micros_column(table, "ts").tolist(),
            table["attributes"].to_pylist(),
            strict=True,
        ):
            found.setdefault(places[index], []).append(EventRow(ts, orjson.loads(text)))
        return set()

    def _report_failure(
        self, rule: ActiveRule, error: Exception, inputs: Mapping[str, pa.Table | DataFrame]
    ) -> None:
        stream, *more = rule.shape.streams
        rows = inputs[stream]
        event = None
        if (
            rule.shape.is_stateless
            and not more
            and isinstance(rows, pa.Table)
            and not isinstance(error, StatementTimeout)
        ):
            event = self._find_failing_row(rule, stream, rows)
        self._guard.record_failure(rule, error, event)

    def _find_failing_row(
        self, rule: ActiveRule, stream: str, rows: pa.Table
    ) -> dict[str, Any] | None:
        """The row at which a rule fails."""

        def fails(part: pa.Table) -> bool:
            statement = self._batcher.build_statement([rule], RuleBatches((), (0,)))
            self._rows.to_frame(part).createOrReplaceTempView(view_name(stream))
            try:
                self._guard.run([rule], len(part), lambda: self._spark.sql(statement).toArrow())
            except (PySparkException, Py4JJavaError):
                return True
            except StatementTimeout:
                return False
            return False

        row = rows if len(rows) == 1 else find_failing_row(rows, fails)
        self._rows.to_frame(rows).createOrReplaceTempView(view_name(stream))
        plain = None if row is None else orjson.loads(orjson.dumps(row.to_pylist()[0], default=str))
        return None if plain is None else {"stream": stream, "row": plain}


def _add_event_rows(found: _EventRowsByRule, finds: RuleEventRows) -> None:
    for place, one in finds:
        found.setdefault(place, []).append(one)
