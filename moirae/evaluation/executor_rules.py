"""Evaluation of plain rules on executors, in tasks that read archived files.

Only event rows return to the driver. Rules that look at one row at a time are evaluated file by
file. For others, a slice of event time is divided into smaller ones: rows of a rule depend on the
input near them only (see `recall.query.shape`).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import pairwise, starmap
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from archiver.errors import TaskLost
from archiver.executors import Jobs, divide_times
from archiver.threads import start_thread
from archiver.time_range import TimeRange
from moirae.evaluation.duckdb_rules import parse_event_rows, shared_sources
from moirae.evaluation.engine import (
    Charged,
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.limited_joins import MAX_JOINED_ROWS
from moirae.evaluation.limits import statement_limit
from moirae.evaluation.plan import RuleSlice, input_view, relation_view
from moirae.evaluation.rule_groups import RuleGroup
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

_CHARGED_ERRORS = (StatementTimeout, MemoryExceeded, TaskLost)
_CONSTANTS_TABLE = "constants"
# Spark's setting for the bytes that all tasks of a job may return to the driver (default: 1 GiB).
_RESULT_LIMIT = "spark.driver.maxResultSize"


class _GroupOutcome(NamedTuple):
    """The event rows of a group, or why it failed."""

    group: RuleGroup
    result: RuleEventRows | Exception


class _Job(NamedTuple):
    """The tasks of some groups: the stream, its rows, and the part of each task."""

    groups: Sequence[RuleGroup]
    stream: str
    rows: FileRows
    rule_slice: RuleSlice | None
    parts: Sequence[FilePart]


class _StartedJob(NamedTuple):
    """A job that runs before its results are needed.

    `results`: with the time at which it ended.
    """

    job: _Job
    started_at: float
    results: Future[tuple[list[_GroupOutcome], float]]


class PastTasks(NamedTuple):
    """How the past of rules is evaluated: what exceeds a limit is left to Spark.

    `accepts`: whether tasks evaluate so many rows. `max_event_rows`: of a group.
    """

    accepts: Callable[[int], bool]
    max_event_rows: int


class ExecutorRules(RuleEngine):
    """Evaluates plain rules of one stream over archived files, by jobs.

    `time_limit`: seconds of processor time of a statement, besides what many rows and rules add.
    """

    def __init__(self, jobs: Jobs, time_limit: float, past: PastTasks | None = None) -> None:
        """`past`: the tasks evaluate the past of rules; None: what is live."""
        self.jobs = jobs
        self._past = past
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

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: plain rules of one stream over archived files.

        New rows are evaluated by rules that look at one row at a time only.
        """
        streams: set[str] = set()
        for stream, source in request.sources.items():
            is_accepted = self._past is None or self._past.accepts(source.count)
            if source.files is not None and is_accepted:
                streams.add(stream)
        in_slice = request.rule_slice is not None
        return [
            group
            for group in groups
            if is_executable(group, in_slice) and group.streams.issubset(streams)
        ]

    def prepare(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> None:
        """See `RuleEngine`: start the job of groups that read one stream."""
        jobs = list(self._make_jobs(groups, request))
        if len(jobs) != 1 or not jobs[0].parts or _exceed_limit(jobs[0].parts):
            return

        def run() -> tuple[list[_GroupOutcome], float]:
            return self._run_job(jobs[0]), time.monotonic()

        started_at = time.monotonic()
        self._started = _StartedJob(jobs[0], started_at, start_thread(run, "rules of a slice"))

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`."""
        for job in self._make_jobs(groups, request):
            if _exceed_limit(job.parts):
                reason = f"a task would read more than {MAX_PART_ROWS:,} rows"
                yield Declined(job.groups, request, reason)
            elif not job.parts:
                yield Events(job.groups, [])
            else:
                yield from self._collect(job, request)

    def _make_jobs(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[_Job]:
        """A job for the groups of each stream."""
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in groups:
            (stream,) = group.streams
            groups_by_stream.setdefault(stream, []).append(group)
        rule_slice = request.rule_slice
        for stream, members in groups_by_stream.items():
            rows = request.sources[stream].files
            assert rows is not None
            if rule_slice is None or rule_slice.is_stateless:
                parts = divide_files(rows, self.jobs.cores)
            else:
                parts = divide_slice(rule_slice, rows, self.jobs.cores)
            yield _Job(members, stream, rows, rule_slice, parts)

    def take_head_start(self) -> float:
        """Seconds for which jobs ran before `run` was called, since the last call."""
        seconds = self._head_start
        self._head_start = 0.0
        return seconds

    def _collect(self, job: _Job, request: EvaluationRequest) -> Iterator[Outcome]:
        """The outcomes of a job. What exceeds a limit is charged; other failures are declined."""
        try:
            results = self._await_or_run_job(job)
        except TaskLost as error:
            yield self._fail(job.groups, request, error)
            return
        except (PySparkException, Py4JJavaError) as error:
            if _RESULT_LIMIT not in str(error):
                raise
            yield Declined(job.groups, request, "more event rows than the driver takes")
            return
        for group, result in results:
            if isinstance(result, _CHARGED_ERRORS):
                yield self._fail([group], request, result)
            elif isinstance(result, Exception):
                yield Declined([group], request, str(result))
            else:
                yield Events([group], result)

    def _fail(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest, error: Exception
    ) -> Outcome:
        """The outcome of groups that exceeded a limit."""
        if self._past is None:
            return Charged(groups, error)
        return Declined(groups, request, str(error))

    def _await_or_run_job(self, job: _Job) -> list[_GroupOutcome]:
        """The results of the job that was started, if it is this one, else of a new one."""
        started = self._started
        self._started = None
        if started is None or started.job[:-1] != job[:-1]:
            return self._run_job(job)
        awaited_at = time.monotonic()
        outcomes, ended_at = started.results.result()
        self._head_start += min(awaited_at, ended_at) - started.started_at
        return outcomes

    def _run_job(self, job: _Job) -> list[_GroupOutcome]:
        limits = [
            statement_limit(self._time_limit, job.rows.row_count, len(group.rules))
            for group in job.groups
        ]
        sources = {
            source: f"_rows_{number}" for number, source in enumerate(shared_sources(job.groups))
        }
        statements: list[PartStatement] = []
        for group, limit in zip(job.groups, limits, strict=True):
            statement = _build_statement(group, limit, sources)
            statements.append(self._limit_event_rows(statement, len(job.parts)))
        has_relations = any(group.plain_query.has_relations for group in job.groups)
        part_job = PartJob(
            rows=job.rows,
            view=input_view(job.stream),
            statements=statements,
            sources={
                table: PartStatement(Statement(f"SELECT * FROM {source}"), max(limits))
                for source, table in sources.items()
            },
            relations=self._relations if has_relations else {},
            generation=self._generation,
        )
        outcomes_by_part = self.jobs.map(partial(run_on_part, part_job), job.parts)
        results: list[_GroupOutcome] = []
        for group, limit, outcomes in zip(
            job.groups, limits, zip(*outcomes_by_part, strict=True), strict=True
        ):
            results.append(_GroupOutcome(group, _merge_outcomes(group, outcomes, limit)))
        return results

    def _limit_event_rows(self, statement: PartStatement, part_count: int) -> PartStatement:
        if self._past is None:
            return statement
        max_rows = self._past.max_event_rows // part_count
        if statement.max_rows is not None:
            max_rows = min(max_rows, statement.max_rows)
        return replace(statement, max_rows=max_rows)


def _exceed_limit(parts: Sequence[FilePart]) -> bool:
    return any(part.row_count > MAX_PART_ROWS for part in parts)


def _build_statement(
    group: RuleGroup, time_limit: float, sources: Mapping[str, str]
) -> PartStatement:
    """`sources`: the tables of subqueries."""
    query = group.plain_query
    source_table = sources.get(query.source)
    text = query.sql(_CONSTANTS_TABLE, source_table)
    max_rows = None
    if query.has_relations:
        max_rows = MAX_JOINED_ROWS
        text = f"SELECT * FROM ({text}) LIMIT {max_rows + 1}"
    statement = Statement(text, {_CONSTANTS_TABLE: group.constants})
    return PartStatement(statement, time_limit, source_table, max_rows)


def _merge_outcomes(
    group: RuleGroup, outcomes: Sequence[PartOutcome], time_limit: float
) -> RuleEventRows | Exception:
    """The event rows of a group in all parts, or the first error."""
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
            event_rows += parse_event_rows(group, outcome.result)
        except SparkRequired as error:
            return error
    return event_rows


def is_executable(group: RuleGroup, in_slice: bool) -> bool:
    """Whether tasks can evaluate a group over parts of the archived rows of its stream.

    `in_slice`: over a slice of event time; otherwise over new rows.
    """
    if group.query is None or len(group.query.streams) != 1:
        return False
    shapes = [rule.shape for rule in group.rules]
    if not in_slice and not all(shape.is_stateless for shape in shapes):
        return False
    return all(len(shape.streams) == 1 for shape in shapes)


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
