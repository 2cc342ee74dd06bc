"""Evaluation of plain rules on executors, in tasks that read archived files.

Only event rows return to the driver. Rules that look at one row at a time are evaluated file by
file. For others, a slice of event time is divided into smaller ones: rows of a rule depend on the
input near them only (see `recall.query.shape`).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, starmap
from uuid import uuid4

import pyarrow as pa

from archiver.errors import TaskLost
from archiver.executors import Jobs, divide_times
from archiver.threads import start_thread
from archiver.time_range import TimeRange
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.limited_joins import MAX_JOINED_ROWS
from moirae.evaluation.limits import statement_limit
from moirae.evaluation.local import RuleEventRows, parse_event_rows
from moirae.evaluation.plan import ActiveRule, RuleSlice, input_view, relation_view
from recall.engines.isolation import run_isolated, split_in_halves
from recall.errors import MemoryExceeded, SparkRequired, StatementTimeout
from recall.statements import (
    MAX_PART_ROWS,
    MIN_TASK_ROWS,
    FilePart,
    FileRows,
    PartJob,
    PartOutcome,
    PartStatement,
    Statement,
    divide_files,
    run_on_part,
)

CHARGED_ERRORS = (StatementTimeout, MemoryExceeded, TaskLost)
"""What a rule is charged for. Other failing batches are left to Spark."""

BatchOutcome = tuple[RuleBatch, RuleEventRows | Exception]
"""A batch, and its event rows or why it failed."""


@dataclass(frozen=True, eq=False)
class _StartedJob:
    """A job that runs before its results are asked for.

    `results`: with the time at which it ended.
    """

    batches: Sequence[RuleBatch]
    rows: FileRows
    rule_slice: RuleSlice
    parts: Sequence[FilePart]
    started_at: float
    results: Future[tuple[list[BatchOutcome], float]]

    def evaluates(
        self, batches: Sequence[RuleBatch], rows: FileRows, rule_slice: RuleSlice | None
    ) -> bool:
        """Whether the job is that of these batches over these rows."""
        return (
            list(map(id, batches)) == list(map(id, self.batches))
            and rule_slice == self.rule_slice
            and rows == self.rows
        )


class ExecutorRules:
    """Evaluates batches of plain rules by jobs.

    `time_limit`: seconds of processor time of a statement, besides what many rows and rules add.
    """

    def __init__(self, jobs: Jobs, time_limit: float, max_event_rows: int | None = None) -> None:
        """`max_event_rows`: of a batch; more are left to Spark. None: no limit."""
        self._jobs = jobs
        self._max_event_rows = max_event_rows
        self._time_limit = time_limit
        self._relations: dict[str, pa.Table] = {}
        self._generation = uuid4().hex
        self._started: _StartedJob | None = None
        self._head_start = 0.0

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._relations[relation_view(name)] = versions
        self._generation = uuid4().hex
        self._started = None

    def evaluate(
        self,
        batches: Sequence[RuleBatch],
        stream: str,
        rows: FileRows,
        rule_slice: RuleSlice | None = None,
    ) -> Iterator[BatchOutcome]:
        """The outcome of each batch. A batch with an error that is charged has one rule.

        All rules are executable, see `is_executable`, and read only this stream. `rule_slice`: the
        slice that they are evaluated over; None: new rows.
        """
        if self._started is not None and not self._started.evaluates(batches, rows, rule_slice):
            self._started = None
        parts: Sequence[FilePart]
        if self._started is None:
            parts = self._divide(rows, rule_slice)
        else:
            parts = self._started.parts
        if _exceed_limit(parts):
            error = SparkRequired(f"a task would read more than {MAX_PART_ROWS:,} rows")
            yield from ((batch, error) for batch in batches)
        elif not parts:
            yield from ((batch, []) for batch in batches)
        else:
            yield from self._run_isolated(batches, stream, rows, parts)

    def start(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, rule_slice: RuleSlice
    ) -> None:
        """Start the job of `evaluate` with these arguments, which then waits for its results."""
        parts = self._divide(rows, rule_slice)
        if not parts or _exceed_limit(parts):
            return

        def run() -> tuple[list[BatchOutcome], float]:
            return self._run_job(batches, stream, rows, parts), time.monotonic()

        started_at = time.monotonic()
        results = start_thread(run, "rules of a slice")
        self._started = _StartedJob(batches, rows, rule_slice, parts, started_at, results)

    def take_head_start(self) -> float:
        """Seconds for which jobs ran before `evaluate` was called, since the last call."""
        seconds = self._head_start
        self._head_start = 0.0
        return seconds

    def _divide(self, rows: FileRows, rule_slice: RuleSlice | None) -> list[FilePart]:
        if rule_slice is None or rule_slice.is_stateless:
            return divide_files(rows, self._jobs.cores)
        return divide_slice(rule_slice, rows, self._jobs.cores)

    def _run_isolated(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, parts: Sequence[FilePart]
    ) -> Iterator[BatchOutcome]:
        """Evaluate batches; those that fail for what is charged are divided into single rules."""
        run = partial(self._await_or_run_job, stream=stream, rows=rows, parts=parts)
        for group, results in run_isolated(batches, run, (TaskLost,), _split_rules):
            if isinstance(results, Exception):
                (batch,) = group
                yield batch, results
                continue
            for batch, outcome in results:
                halves = _split_rules([batch], None)
                if not isinstance(outcome, CHARGED_ERRORS) or not halves:
                    yield batch, outcome
                    continue
                for half in halves:
                    yield from self._run_isolated(half, stream, rows, parts)

    def _await_or_run_job(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, parts: Sequence[FilePart]
    ) -> list[BatchOutcome]:
        """The results of the job that was started, else of a new one."""
        started = self._started
        if started is None:
            return self._run_job(batches, stream, rows, parts)
        self._started = None
        awaited_at = time.monotonic()
        outcomes, ended_at = started.results.result()
        self._head_start += min(awaited_at, ended_at) - started.started_at
        return outcomes

    def _run_job(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, parts: Sequence[FilePart]
    ) -> list[BatchOutcome]:
        limits = [
            statement_limit(self._time_limit, rows.row_count, len(batch.rule_indexes))
            for batch in batches
        ]
        sources = _shared_sources(batches)
        statements: list[PartStatement] = []
        for batch, limit in zip(batches, limits, strict=True):
            statement = _build_statement(batch, limit, sources)
            statements.append(self._limit_event_rows(statement, len(parts)))
        has_relations = any(batch.duckdb_query.has_relations for batch in batches)
        job = PartJob(
            rows=rows,
            view=input_view(stream),
            statements=statements,
            sources={
                table: PartStatement(Statement(f"SELECT * FROM {source}"), max(limits))
                for source, table in sources.items()
            },
            relations=self._relations if has_relations else {},
            generation=self._generation,
        )
        outcomes_by_part = self._jobs.map(partial(run_on_part, job), parts)
        results: list[BatchOutcome] = []
        for batch, limit, outcomes in zip(
            batches, limits, zip(*outcomes_by_part, strict=True), strict=True
        ):
            results.append((batch, _merge_outcomes(batch, outcomes, limit)))
        return results

    def _limit_event_rows(self, statement: PartStatement, part_count: int) -> PartStatement:
        if self._max_event_rows is None:
            return statement
        max_rows = self._max_event_rows // part_count
        if statement.max_rows is not None:
            max_rows = min(max_rows, statement.max_rows)
        return replace(statement, max_rows=max_rows)


def _exceed_limit(parts: Sequence[FilePart]) -> bool:
    return any(part.row_count > MAX_PART_ROWS for part in parts)


def _split_rules(
    batches: Sequence[RuleBatch], _error: Exception | None
) -> list[Sequence[RuleBatch]]:
    """Halves of several batches, or of the rules of one; nothing for a single rule."""
    if len(batches) > 1:
        return split_in_halves(batches, TaskLost())
    (batch,) = batches
    rule_count = len(batch.rule_indexes)
    if rule_count < 2:
        return []
    middle = rule_count // 2
    return [[_select_rules(batch, 0, middle)], [_select_rules(batch, middle, rule_count)]]


def _select_rules(batch: RuleBatch, start: int, end: int) -> RuleBatch:
    return replace(
        batch,
        rule_indexes=batch.rule_indexes[start:end],
        rule_names=batch.rule_names[start:end],
        constants=batch.constants.slice(start, end - start),
    )


def _shared_sources(batches: Sequence[RuleBatch]) -> dict[str, str]:
    """The tables of the subqueries that several batches read: each is computed once in a part."""
    readers: dict[str, int] = {}
    for batch in batches:
        if batch.duckdb_query.source_is_query:
            source = batch.duckdb_query.source
            readers[source] = readers.get(source, 0) + 1
    shared = [source for source, count in readers.items() if count > 1]
    return {source: f"_rows_{number}" for number, source in enumerate(shared)}


def _build_statement(
    batch: RuleBatch, time_limit: float, sources: Mapping[str, str]
) -> PartStatement:
    """`sources`: the tables of subqueries."""
    query = batch.duckdb_query
    source_table = sources.get(query.source)
    text = query.sql(batch.constants_table, source_table)
    max_rows = None
    if query.has_relations:
        max_rows = MAX_JOINED_ROWS
        text = f"SELECT * FROM ({text}) LIMIT {max_rows + 1}"
    statement = Statement(text, {batch.constants_table: batch.constants})
    return PartStatement(statement, time_limit, source_table, max_rows)


def _merge_outcomes(
    batch: RuleBatch, outcomes: Sequence[PartOutcome], time_limit: float
) -> RuleEventRows | Exception:
    """The event rows of a batch in all parts, or the first error."""
    for outcome in outcomes:
        if outcome.failure == "memory":
            return MemoryExceeded(outcome.message)
        if outcome.failure == "unsupported":
            return SparkRequired(outcome.message)
    # The time of all tasks counts, as that of a statement of Spark does.
    if sum(outcome.seconds for outcome in outcomes) > time_limit:
        return StatementTimeout(time_limit)
    event_rows: RuleEventRows = []
    for outcome in outcomes:
        if outcome.result is None:
            return StatementTimeout(time_limit)
        try:
            event_rows += parse_event_rows(batch, outcome.result)
        except SparkRequired as error:
            return error
    return event_rows


def is_executable(
    batch: RuleBatch, rules: Sequence[ActiveRule], streams: Sequence[str], in_slice: bool
) -> bool:
    """Whether tasks can evaluate a batch over parts of the rows of one of some streams.

    `in_slice`: over a slice of event time; otherwise over new rows.
    """
    if len(batch.duckdb_query.streams) != 1:
        return False
    shapes = [rules[index].shape for index in batch.rule_indexes]
    if not in_slice and not all(shape.is_stateless for shape in shapes):
        return False
    return all(len(shape.streams) == 1 and shape.streams.issubset(streams) for shape in shapes)


def divide_slice(rule_slice: RuleSlice, rows: FileRows, cores: int) -> list[FilePart]:
    """Smaller slices that together have the events of a slice, with the files that each reads."""
    if not rows.files:
        return []
    reach = max(rule.shape.reach for rule in rule_slice.rules)
    lag = max(0, *(rule.shape.lag for rule in rule_slice.rules))
    span = max(file.newest for file in rows.files) - min(file.oldest for file in rows.files)
    count = min(2 * cores, rows.row_count // MIN_TASK_ROWS)
    if reach + lag:
        # Each part reads the input before it again.
        count = min(count, span // (reach + lag))
    times = [time for time in divide_times(rows.files, count) if rule_slice.range.contains(time)]
    bounds = [rule_slice.range.start, *times, rule_slice.range.end]
    parts: list[FilePart] = []
    for event_range in starmap(TimeRange, pairwise(bounds)):
        if event_range.is_empty:
            continue
        input_range = event_range.shift(start=-reach, end=lag).intersect(rows.time_range)
        files = [
            file for file in rows.files if input_range.overlaps_times(file.oldest, file.newest)
        ]
        if files:
            parts.append(FilePart(files, input_range, event_range))
    return parts
