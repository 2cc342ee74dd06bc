"""Evaluation of rules by the engines that suit them.

Plain rules are evaluated in this process, all rules of one shape by one query. Spark evaluates the
others, and whatever fails here, in one statement. If that statement fails, each half of its rules
is evaluated again, until the failing rule is isolated.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from archiver.time_range import TimeRange
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.batches import (
    ColumnsByRelation,
    ColumnsByStream,
    RuleBatch,
    RuleBatcher,
)
from moirae.evaluation.executor_rules import (
    CHARGED_ERRORS,
    BatchOutcome,
    ExecutorRules,
    is_executable,
)
from moirae.evaluation.guard import Guard
from moirae.evaluation.indexed_rules import IndexedRules
from moirae.evaluation.limits import find_failing_row
from moirae.evaluation.local import LocalEvaluator, RuleEventRows
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice, input_view, relation_view
from moirae.evaluation.statements import NumberedQuery, build_branches
from moirae.evaluation.stream_rows import ArchivedStreamRows, LiveStreamRows
from recall.engines import Statement
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.routing import EngineChoice
from recall.errors import LimitExceeded, SparkRequired, StatementTimeout
from recall.statements import FileRows, divide_files

_JOB_ERRORS = (PySparkException, Py4JJavaError)
_STATEMENT_ERRORS = (*_JOB_ERRORS, StatementTimeout)
# Spark's setting for the bytes that all tasks of a job may return to the driver (default: 1 GiB).
_RESULT_LIMIT = "spark.driver.maxResultSize"

_MAX_READ_ROWS = 2_000_000  # rows of files that the index reads in this process

MAX_PAST_EVENT_ROWS = 500_000
"""Event rows of a rule in a chunk that the driver holds to decide the past of its alerts: about 1 GB
as Python values.
"""

_Inputs = Mapping[str, pa.Table | DataFrame | FileRows]  # rows by stream
_EventRowsByIndex = dict[int, list[EventRow]]  # by the position of the rule


@dataclass(frozen=True)
class EvaluationResult:
    """Event rows of the rules that have any, and the names of rules whose evaluation failed."""

    event_rows: list[tuple[ActiveRule, list[EventRow]]]
    failed: frozenset[str] = frozenset()


class RuleEvaluator:
    """Evaluates rules in the live process. Failures are recorded by the guard."""

    def __init__(
        self,
        rows: LiveStreamRows,
        guard: Guard,
        columns: ColumnsByStream,
        relations: ColumnsByRelation,
        engine_choice: EngineChoice,
        executor_rules: ExecutorRules | None = None,
    ) -> None:
        """`columns`: the declared columns of streams; `relations`: of relations.

        `executor_rules`: evaluates plain rules over archived files; None: Spark statements do.
        """
        self._rows = rows
        self._guard = guard
        self._batcher = RuleBatcher(columns, relations)
        self._indexed = IndexedRules(columns)
        self._executor_rules = executor_rules
        self._local: LocalEvaluator | None = None
        self._panes: PaneCache | None = None
        if engine_choice.allows_duckdb:
            self._local = LocalEvaluator()
            self._panes = PaneCache(self._local, rows)

    def set_active_rules(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop what is cached for rules that are no longer active; note what the others read."""
        streams = [
            stream for rule in active_rules for stream in rule.definition.rule.revision_streams
        ]
        self._rows.revisions.set_streams(streams)
        columns = {stream.name: stream.columns for stream in streams}
        self._batcher.add_streams(columns)
        self._indexed.add_streams(columns)
        self._batcher.remove_inactive(active_rules)
        self._indexed.remove_inactive(active_rules)
        if self._local is not None:
            self._local.reset()
        if self._panes is not None:
            self._panes.remove_inactive(active_rules)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation in all engines. `versions`: all row versions, with their validity."""
        self._rows.to_frame(versions).createOrReplaceTempView(relation_view(name))
        if self._local is not None:
            self._local.set_relation(name, versions)
        if self._executor_rules is not None:
            self._executor_rules.set_relation(name, versions)

    def evaluate_slice(self, rule_slice: RuleSlice) -> EvaluationResult:
        """The event rows of the rules of a slice with ts in the slice.

        Windows of a slice without end are open: their rows are not kept in panes.
        """
        rule_rows: list[tuple[ActiveRule, list[EventRow]]] = []
        other_rules = rule_slice.rules
        if rule_slice.range.end is not None:
            rule_rows, other_rules = self._evaluate_panes(rule_slice)
        result = self._evaluate_all_rows(replace(rule_slice, rules=other_rules))
        selected: list[tuple[ActiveRule, list[EventRow]]] = []
        for rule, event_rows in [*rule_rows, *result.event_rows]:
            rows_in_slice = rule_slice.select_event_rows(event_rows)
            if rows_in_slice:
                selected.append((rule, rows_in_slice))
        return EvaluationResult(selected, result.failed)

    def start_slice(self, rule_slice: RuleSlice) -> None:
        """Start the job that evaluates a slice on executors; `evaluate_slice` waits for its end.

        Nothing is started if the slice is not one job, or if this process may evaluate a part of
        it, as it does windows that slide. Nothing is lost if the slice is not evaluated.
        """
        rules = rule_slice.rules
        if self._executor_rules is None or len(rule_slice.streams) != 1:
            return
        (stream,) = rule_slice.streams
        is_in_memory = self._rows.count_in_memory(stream, rule_slice.input_range) is not None
        is_single_group = len(self._guard.isolate_suspects(rules, lambda rule: rule.name)) == 1
        if is_in_memory or not is_single_group:
            return
        rows = self._rows.find_range(stream, rule_slice.input_range)
        if not isinstance(rows, FileRows):
            return
        rules = self._indexed.select(rules, self._batcher).remaining
        batches = self._batcher.batch(rules).batches
        if self._panes is not None and any(batch.duckdb_query.paned_query for batch in batches):
            return
        executable = self._find_executable(rules, range(len(rules)), [stream], in_slice=True)
        if executable:
            self._executor_rules.start(executable[stream], stream, rows, rule_slice)

    def _evaluate_panes(
        self, rule_slice: RuleSlice
    ) -> tuple[list[tuple[ActiveRule, list[EventRow]]], tuple[ActiveRule, ...]]:
        """The event rows of rules that are evaluated from panes, and the remaining rules."""
        rules = rule_slice.rules
        if self._panes is None:
            return [], rules
        started_at = time.monotonic()
        results = self._panes.evaluate(rule_slice, self._batcher.batch(rules))
        self._add_cost([rules[i] for batch, _ in results for i in batch.rule_indexes], started_at)
        if not results:
            return [], rules
        event_rows: _EventRowsByIndex = {}
        evaluated: set[int] = set()
        for batch, batch_rows in results:
            evaluated.update(batch.rule_indexes)
            _add_event_rows(event_rows, batch_rows)
        rule_rows = [(rules[index], rows) for index, rows in event_rows.items()]
        remaining = [rule for index, rule in enumerate(rules) if index not in evaluated]
        return rule_rows, tuple(remaining)

    def _evaluate_all_rows(self, rule_slice: RuleSlice) -> EvaluationResult:
        """The event rows of the rules of a slice in all rows of its input."""
        if not rule_slice.rules:
            return EvaluationResult([])
        time_range = rule_slice.input_range
        inputs: dict[str, pa.Table | DataFrame | FileRows] = {}
        row_count = 0
        for stream in rule_slice.streams:
            if self._executor_rules is None:
                inputs[stream] = self._rows.read_range(stream, time_range)
            else:
                inputs[stream] = self._rows.find_range(stream, time_range)
            row_count += self._rows.estimate_count(stream, time_range)
        return self.evaluate(rule_slice.rules, inputs, row_count, rule_slice)

    def evaluate(
        self,
        rules: Sequence[ActiveRule],
        inputs: _Inputs,
        row_count: int,
        rule_slice: RuleSlice | None = None,
    ) -> EvaluationResult:
        """The event rows of rules in rows by stream.

        `row_count`: estimated, for time limits. `rule_slice`: the slice that the rows are input of;
        only its events are complete. None: new rows.
        """
        event_rows: list[tuple[ActiveRule, list[EventRow]]] = []
        failed: set[str] = set()
        for group in self._guard.isolate_suspects(rules, lambda rule: rule.name):
            started_at = time.monotonic()
            result = self._evaluate_group(group, inputs, row_count, rule_slice)
            self._add_cost(group, started_at)
            event_rows += result.event_rows
            failed |= result.failed
        return EvaluationResult(event_rows, frozenset(failed))

    def _add_cost(self, rules: Sequence[ActiveRule], started_at: float) -> None:
        seconds = time.monotonic() - started_at
        if self._executor_rules is not None:
            seconds += self._executor_rules.take_head_start()
        self._guard.record_cost(rules, seconds)

    def _evaluate_group(
        self,
        rules: Sequence[ActiveRule],
        inputs: _Inputs,
        row_count: int,
        rule_slice: RuleSlice | None,
    ) -> EvaluationResult:
        selection = self._indexed.select(rules, self._batcher)
        results: list[EvaluationResult] = []
        remaining = list(selection.remaining)
        for stream, rows in inputs.items():
            members = [rule for rule in selection.indexed if stream in rule.shape.streams]
            if not members:
                continue
            try:
                results += self._evaluate_indexed(members, stream, rows)
            except SparkRequired:
                remaining += members
        if remaining:
            results.append(self._evaluate_with_engines(remaining, inputs, row_count, rule_slice))
        return _merge_results(results)

    def _evaluate_indexed(
        self, rules: Sequence[ActiveRule], stream: str, rows: pa.Table | DataFrame | FileRows
    ) -> list[EvaluationResult]:
        """The results of rules in the index, and of rows that it does not decide.

        Raises `SparkRequired`.
        """
        results: list[EvaluationResult] = []
        for table in _tables_of(rows):
            indexed = self._indexed.evaluate(rules, stream, table)
            results.append(EvaluationResult(indexed.event_rows))
            if indexed.undecided is not None:
                undecided_rules, undecided_rows = indexed.undecided
                inputs = {stream: undecided_rows}
                results.append(
                    self._evaluate_with_engines(undecided_rules, inputs, len(undecided_rows), None)
                )
        return results

    def _evaluate_with_engines(
        self,
        rules: Sequence[ActiveRule],
        inputs: _Inputs,
        row_count: int,
        rule_slice: RuleSlice | None,
    ) -> EvaluationResult:
        event_rows: _EventRowsByIndex = {}
        remaining = self._evaluate_locally(rules, inputs, event_rows)
        remaining, failed = self._evaluate_on_executors(
            rules, remaining, inputs, event_rows, rule_slice
        )
        if remaining:
            for stream, rows in inputs.items():
                self._create_input_view(stream, rows)
            failed |= self._evaluate_with_spark(rules, remaining, event_rows, inputs, row_count)
        rule_rows: list[tuple[ActiveRule, list[EventRow]]] = []
        for index in sorted(event_rows.keys() - failed):
            rule_rows.append((rules[index], event_rows[index]))
        return EvaluationResult(rule_rows, frozenset(rules[index].name for index in failed))

    def _create_input_view(self, stream: str, rows: pa.Table | DataFrame | FileRows) -> None:
        if isinstance(rows, pa.Table):
            frame = self._rows.to_frame(rows)
        elif isinstance(rows, FileRows):
            frame = self._rows.read_files(stream, rows)
        else:
            frame = rows
        frame.createOrReplaceTempView(input_view(stream))

    def _evaluate_locally(
        self, rules: Sequence[ActiveRule], inputs: _Inputs, event_rows: _EventRowsByIndex
    ) -> Sequence[int]:
        """Evaluate batches of plain rules over tables in memory; add to `event_rows`.

        Returns the positions of the remaining rules.
        """
        if self._local is None:
            return range(len(rules))
        tables: dict[str, pa.Table] = {}
        for stream, rows in inputs.items():
            if isinstance(rows, pa.Table):
                tables[stream] = rows
        table_views = set(map(input_view, tables))
        batches = self._batcher.batch(rules)
        remaining = list(batches.unbatched)
        candidates: list[RuleBatch] = []
        for batch in batches.batches:
            if batch.duckdb_query.streams <= table_views:
                candidates.append(batch)
        evaluated: set[int] = set()
        for batch, batch_rows in self._local.evaluate(candidates, tables):
            evaluated.add(batch.number)
            _add_event_rows(event_rows, batch_rows)
        for batch in batches.batches:
            if batch.number not in evaluated:
                remaining += batch.rule_indexes
        return sorted(remaining)

    def _evaluate_on_executors(
        self,
        rules: Sequence[ActiveRule],
        indexes: Sequence[int],
        inputs: _Inputs,
        event_rows: _EventRowsByIndex,
        rule_slice: RuleSlice | None,
    ) -> tuple[Sequence[int], set[int]]:
        """Evaluate batches of plain rules over archived files; add to `event_rows`.

        `indexes`: the positions of the rules to evaluate. Returns those of the remaining rules, and
        of rules that failed.
        """
        failed: set[int] = set()
        file_rows = {name: rows for name, rows in inputs.items() if isinstance(rows, FileRows)}
        if self._executor_rules is None or not file_rows or not indexes:
            return indexes, failed
        selected = set(indexes)
        candidates = self._find_executable(
            rules, indexes, list(file_rows), in_slice=rule_slice is not None
        )
        for stream, batches in candidates.items():
            results = self._executor_rules.evaluate(batches, stream, file_rows[stream], rule_slice)
            for batch, outcome in _up_to_result_limit(results):
                if isinstance(outcome, CHARGED_ERRORS):
                    (index,) = batch.rule_indexes
                    self._guard.record_failure(rules[index], outcome)
                    failed.add(index)
                    selected.remove(index)
                elif not isinstance(outcome, Exception):
                    selected.difference_update(batch.rule_indexes)
                    _add_event_rows(event_rows, outcome)
        return sorted(selected), failed

    def _find_executable(
        self,
        rules: Sequence[ActiveRule],
        indexes: Sequence[int],
        streams: Sequence[str],
        in_slice: bool,
    ) -> dict[str, list[RuleBatch]]:
        """The batches of the rules at some positions that tasks can evaluate, by stream."""
        selected = set(indexes)
        batches_by_stream: dict[str, list[RuleBatch]] = {}
        for batch in self._batcher.batch(rules).batches:
            is_selected = selected.issuperset(batch.rule_indexes)
            if is_selected and is_executable(batch, rules, streams, in_slice):
                (stream,) = rules[batch.rule_indexes[0]].shape.streams
                batches_by_stream.setdefault(stream, []).append(batch)
        return batches_by_stream

    def _evaluate_with_spark(
        self,
        rules: Sequence[ActiveRule],
        indexes: Sequence[int],
        event_rows: _EventRowsByIndex,
        inputs: _Inputs,
        row_count: int,
    ) -> set[int]:
        """Evaluate the rules at some positions with Spark; add to `event_rows`.

        Returns the positions of rules that failed.
        """

        def run(part: Sequence[int]) -> pa.Table:
            return self._run_rules([rules[index] for index in part], row_count)

        failed: set[int] = set()
        for part, outcome in run_isolated(indexes, run, _STATEMENT_ERRORS, _split_rules):
            if isinstance(outcome, Exception):
                (index,) = part
                self._record_failure(rules[index], outcome, inputs)
                failed.add(index)
                continue
            for number, ts, attributes in _read_result(outcome):
                event_row = EventRow(ts, orjson.loads(attributes))
                event_rows.setdefault(part[number], []).append(event_row)
        return failed

    def _run_rules(self, selected: Sequence[ActiveRule], row_count: int) -> pa.Table:
        """The result of one statement for some rules; `rule` is the position of the rule."""
        statement = self._batcher.build_statement(selected)
        return self._guard.run_statement(selected, row_count, statement)

    def _record_failure(self, rule: ActiveRule, error: Exception, inputs: _Inputs) -> None:
        """Record the failure of a rule, with the row over which it fails if there is one."""
        failing_row = None
        if (
            rule.shape.is_stateless
            and len(rule.shape.streams) == 1
            and not isinstance(error, StatementTimeout)
        ):
            (stream,) = rule.shape.streams
            rows = inputs[stream]
            if isinstance(rows, pa.Table):
                failing_row = self._find_failing_row(rule, stream, rows)
        self._guard.record_failure(rule, error, failing_row)

    def _find_failing_row(
        self, rule: ActiveRule, stream: str, rows: pa.Table
    ) -> dict[str, Any] | None:
        """The row over which a stateless rule fails, with its stream, as JSON values."""
        failing_row: pa.Table | None = rows
        if len(rows) != 1:
            statement = self._batcher.build_statement([rule])
            has_failure = partial(self._has_failure, rule, stream, statement)
            failing_row = find_failing_row(rows, has_failure)
            self._create_input_view(stream, rows)
        if failing_row is None:
            return None
        values = failing_row.to_pylist()[0]
        return {"stream": stream, "row": orjson.loads(orjson.dumps(values, default=str))}

    def _has_failure(
        self, rule: ActiveRule, stream: str, statement: Statement, rows: pa.Table
    ) -> bool:
        self._create_input_view(stream, rows)
        try:
            self._guard.run_statement([rule], len(rows), statement)
        except _JOB_ERRORS:
            return True
        except StatementTimeout:
            return False
        return False


def _merge_results(results: Sequence[EvaluationResult]) -> EvaluationResult:
    """All event rows by rule, but those of rules that failed over any rows."""
    if len(results) == 1:
        return results[0]
    failed = frozenset().union(*(result.failed for result in results))
    event_rows: dict[ActiveRule, list[EventRow]] = {}
    for result in results:
        for rule, rule_rows in result.event_rows:
            if rule.name not in failed:
                event_rows.setdefault(rule, []).extend(rule_rows)
    return EvaluationResult(list(event_rows.items()), failed)


def _tables_of(rows: pa.Table | DataFrame | FileRows) -> Iterator[pa.Table]:
    """Rows as tables that this process reads. Raises `SparkRequired`."""
    if isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, FileRows) and rows.row_count <= _MAX_READ_ROWS:
        for part in divide_files(rows, cores=1):
            yield rows.read(part)
    else:
        raise SparkRequired("more rows than this process reads")


def _up_to_result_limit(outcomes: Iterator[BatchOutcome]) -> Iterator[BatchOutcome]:
    """The outcomes until a job returns more than the driver takes: the rest is left to Spark."""
    try:
        yield from outcomes
    except _JOB_ERRORS as error:
        if _RESULT_LIMIT not in str(error):
            raise


def _split_rules(indexes: Sequence[int], error: Exception) -> Sequence[Sequence[int]]:
    """Halves; after a timeout each rule, as the slow one would take the whole limit each time."""
    if isinstance(error, StatementTimeout):
        return split_into_items(indexes)
    return split_in_halves(indexes, error)


def find_archived_event_rows(
    spark: SparkSession, rows: ArchivedStreamRows, rule: ActiveRule, time_range: TimeRange
) -> list[EventRow]:
    """The event rows of a rule with ts in a range, from archived rows.

    Replaces the input views of the session. Raises `LimitExceeded`.
    """
    shape = rule.shape
    input_range = time_range.shift(start=-shape.reach, end=shape.lag)
    for stream in shape.streams:
        frame = rows.read_range(stream, input_range)
        frame.createOrReplaceTempView(input_view(stream))
    (statement,) = build_branches([NumberedQuery(0, rule, rule.bind_event_query())])
    result: pa.Table = spark.sql(statement).limit(MAX_PAST_EVENT_ROWS + 1).toArrow()
    if len(result) > MAX_PAST_EVENT_ROWS:
        raise LimitExceeded(f"more than {MAX_PAST_EVENT_ROWS:,} event rows in one chunk")
    event_rows: list[EventRow] = []
    for _, ts, attributes in _read_result(result):
        if time_range.contains(ts):
            event_rows.append(EventRow(ts, orjson.loads(attributes)))
    return event_rows


def _read_result(table: pa.Table) -> Iterator[tuple[int, int, str]]:
    """The number of the rule, ts in microseconds and attributes (JSON) of each row."""
    return zip(
        table["rule"].to_pylist(),
        micros_column(table, "ts").tolist(),
        table["attributes"].to_pylist(),
        strict=True,
    )


def _add_event_rows(event_rows: _EventRowsByIndex, rule_rows: RuleEventRows) -> None:
    for index, event_row in rule_rows:
        event_rows.setdefault(index, []).append(event_row)
