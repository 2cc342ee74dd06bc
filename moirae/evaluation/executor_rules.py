"""Evaluation of plain rules on executors, in tasks that read archived files.

Only event rows return to the driver. Rules that look at one row at a time are evaluated file by
file. A slice of event time is divided into smaller ones: rows of a rule depend on the input near
them only (see `recall.query.shape`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, starmap
from uuid import uuid4

import pyarrow as pa

from archiver.delta import DataFile, TableFiles
from archiver.executors import Jobs, divide_times
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import micros_column
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.local import LocalEvaluator, RuleEventRows
from moirae.evaluation.plan import ActiveRule, RuleSlice

# Rows of files that one task reads; a task with fewer rows takes less time than its start.
_MAX_TASK_ROWS = 200_000
_MIN_TASK_ROWS = 25_000
# Rows of files that a task may read at all; what needs more is left to Spark.
_MAX_PART_ROWS = 1_000_000


@dataclass(frozen=True)
class FileRows:
    """The on-time rows of data files of a stream with event times in a range."""

    table: TableFiles
    files: Sequence[DataFile]
    time_range: TimeRange

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows."""
        return sum(file.rows for file in self.files)

    def read(self, part: "SlicePart") -> pa.Table:
        """The rows of a part of them, with the declared columns."""
        columns = list(self.table.schema.columns)
        tables = [self.table.arrow_schema.empty_table().select(columns)]
        tables += [self.table.read_on_time(file.path, columns) for file in part.files]
        rows = pa.concat_tables(tables)
        is_inside = part.input_range.mask(micros_column(rows, self.table.schema.time))
        return rows.filter(pa.array(is_inside)).combine_chunks()


@dataclass(frozen=True)
class SlicePart:
    """What one task evaluates: events in a range, from the rows of files in another range."""

    files: Sequence[DataFile]
    input_range: TimeRange
    event_range: TimeRange = ALL_TIME


@dataclass(frozen=True)
class _EvaluationContext:
    """What all tasks of a job need. `time_limit`: seconds of processor time of a statement.

    `generation`: tasks of one generation have the same rules and relations.
    """

    stream: str
    rows: FileRows
    batches: Sequence[RuleBatch]
    relations: Mapping[str, pa.Table]
    time_limit: float
    generation: str


@dataclass
class _TaskResult:
    """Event rows by the number of the batch; without batches that failed."""

    event_rows: dict[int, RuleEventRows] = field(default_factory=dict)


class ExecutorRules:
    """Evaluates batches of plain rules by jobs. `time_limit`: seconds of a statement in a task."""

    def __init__(self, jobs: Jobs, time_limit: float) -> None:
        self._jobs = jobs
        self._time_limit = time_limit
        self._relations: dict[str, pa.Table] = {}
        self._generation = uuid4().hex

    def reset(self) -> None:
        """Rules have changed; queries that exceeded their limit are tried again."""
        self._generation = uuid4().hex

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._relations[name] = versions
        self.reset()

    def evaluate(
        self,
        batches: Sequence[RuleBatch],
        stream: str,
        rows: FileRows,
        rule_slice: RuleSlice | None = None,
    ) -> list[tuple[RuleBatch, RuleEventRows]]:
        """The event rows of each batch; batches that fail or take too long are left out.

        All rules are executable, see `is_executable`, and read only this stream. `rule_slice`: the
        slice that they are evaluated over; None: new rows.
        """
        if rule_slice is None:
            tasks = list(divide_files(rows, self._jobs.cores))
        else:
            tasks = divide_slice(rule_slice, rows, self._jobs.cores)
        if any(sum(file.rows for file in task.files) > _MAX_PART_ROWS for task in tasks):
            return []
        if not tasks:
            return [(batch, []) for batch in batches]
        has_relations = any(batch.duckdb_query.has_relations for batch in batches)
        context = _EvaluationContext(
            stream=stream,
            rows=rows,
            batches=batches,
            relations=self._relations if has_relations else {},
            time_limit=self._time_limit,
            generation=self._generation,
        )
        results = self._jobs.map(partial(_evaluate_part, context), tasks)
        evaluated: list[tuple[RuleBatch, RuleEventRows]] = []
        for batch in batches:
            parts = [result.event_rows.get(batch.number) for result in results]
            complete_parts = [part for part in parts if part is not None]
            if len(complete_parts) == len(parts):
                evaluated.append((batch, [row for part in complete_parts for row in part]))
        return evaluated


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


def divide_files(rows: FileRows, cores: int) -> Iterator[SlicePart]:
    """Files by task, in order."""
    task_rows = min(_MAX_TASK_ROWS, max(_MIN_TASK_ROWS, rows.row_count // (2 * cores)))
    members: list[DataFile] = []
    row_count = 0
    for file in rows.files:
        members.append(file)
        row_count += file.rows
        if row_count >= task_rows:
            yield SlicePart(members, rows.time_range)
            members = []
            row_count = 0
    if members:
        yield SlicePart(members, rows.time_range)


def divide_slice(rule_slice: RuleSlice, rows: FileRows, cores: int) -> list[SlicePart]:
    """Smaller slices that together have the events of a slice, with the files that each reads."""
    if not rows.files:
        return []
    reach = max(rule.shape.reach for rule in rule_slice.rules)
    lag = max(0, *(rule.shape.lag for rule in rule_slice.rules))
    span = max(file.newest for file in rows.files) - min(file.oldest for file in rows.files)
    count = min(2 * cores, rows.row_count // _MIN_TASK_ROWS)
    if reach + lag:
        # Each part reads the input before it again.
        count = min(count, span // (reach + lag))
    times = [time for time in divide_times(rows.files, count) if rule_slice.range.contains(time)]
    bounds = [rule_slice.range.start, *times, rule_slice.range.end]
    parts: list[SlicePart] = []
    for event_range in starmap(TimeRange, pairwise(bounds)):
        if event_range.is_empty:
            continue
        input_range = event_range.shift(start=-reach, end=lag).intersect(rows.time_range)
        files = [
            file for file in rows.files if input_range.overlaps_times(file.oldest, file.newest)
        ]
        if files:
            parts.append(SlicePart(files, input_range, event_range))
    return parts


def _evaluate_part(context: _EvaluationContext, part: SlicePart) -> _TaskResult:
    evaluator = _EVALUATORS.get(context)
    rows = context.rows.read(part)
    result = _TaskResult()
    for batch, event_rows in evaluator.evaluate(context.batches, {context.stream: rows}):
        selected = [row for row in event_rows if part.event_range.contains(row[1].ts)]
        result.event_rows[batch.number] = selected
    return result


class _WorkerEvaluators:
    """The evaluator of a worker process, for one generation of rules and relations."""

    def __init__(self, create: Callable[[float], LocalEvaluator]) -> None:
        self._create = create
        self._generation: str | None = None
        self._evaluator: LocalEvaluator | None = None

    def get(self, context: _EvaluationContext) -> LocalEvaluator:
        """The evaluator with the relations of a job."""
        if self._evaluator is None or self._generation != context.generation:
            self._evaluator = self._create(context.time_limit)
            self._generation = context.generation
        for name, versions in context.relations.items():
            self._evaluator.set_relation(name, versions)
        return self._evaluator


def _create_evaluator(time_limit: float) -> LocalEvaluator:
    return LocalEvaluator(time_limit=time_limit)


_EVALUATORS = _WorkerEvaluators(_create_evaluator)
