"""Evaluation of plain stateless rules on executors: a task reads archived files by itself.

Only event rows return to the driver. The result over several files is the sum of the results over
each of them, since the rules look at one row at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import pyarrow as pa

from archiver.delta import DataFile, TableFiles
from archiver.executors import Jobs
from archiver.time_range import TimeRange
from archiver.times import micros_column
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.local import LocalEvaluator, RuleEventRows
from moirae.evaluation.plan import ActiveRule

# Rows of files that one task reads; a task with fewer rows takes less time than its start.
_MAX_TASK_ROWS = 200_000
_MIN_TASK_ROWS = 25_000


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

    def read(self, files: Sequence[DataFile]) -> pa.Table:
        """The rows of some of the files, with the declared columns."""
        columns = list(self.table.schema.columns)
        tables = [self.table.arrow_schema.empty_table().select(columns)]
        tables += [self.table.read_on_time(file.path, columns) for file in files]
        rows = pa.concat_tables(tables)
        is_inside = self.time_range.mask(micros_column(rows, self.table.schema.time))
        return rows.filter(pa.array(is_inside)).combine_chunks()


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
    generation: int


@dataclass
class _TaskResult:
    """Event rows by the number of the batch; without batches that failed."""

    event_rows: dict[int, RuleEventRows] = field(default_factory=dict)


class ExecutorRules:
    """Evaluates batches of plain stateless rules by jobs. `time_limit`: seconds of a statement."""

    def __init__(self, jobs: Jobs, time_limit: float) -> None:
        self._jobs = jobs
        self._time_limit = time_limit
        self._relations: dict[str, pa.Table] = {}
        self._generations = count()
        self._generation = next(self._generations)

    def reset(self) -> None:
        """Rules have changed; queries that exceeded their limit are tried again."""
        self._generation = next(self._generations)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._relations[name] = versions
        self.reset()

    def evaluate(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows
    ) -> list[tuple[RuleBatch, RuleEventRows]]:
        """The event rows of each batch; batches that fail or take too long are left out.

        All rules are stateless and read only this stream.
        """
        tasks = list(divide_files(rows.files, self._jobs.cores))
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
        results = self._jobs.map(partial(_evaluate_files, context), tasks)
        evaluated: list[tuple[RuleBatch, RuleEventRows]] = []
        for batch in batches:
            parts = [result.event_rows.get(batch.number) for result in results]
            complete_parts = [part for part in parts if part is not None]
            if len(complete_parts) == len(parts):
                evaluated.append((batch, [row for part in complete_parts for row in part]))
        return evaluated


def is_executable(batch: RuleBatch, rules: Sequence[ActiveRule], streams: Sequence[str]) -> bool:
    """Whether tasks can evaluate a batch over parts of the rows of one of some streams."""
    if len(batch.duckdb_query.streams) != 1:
        return False
    if not all(rules[index].shape.is_stateless for index in batch.rule_indexes):
        return False
    shapes = {rules[index].shape.streams for index in batch.rule_indexes}
    return all(len(names) == 1 and names <= set(streams) for names in shapes)


def divide_files(files: Sequence[DataFile], cores: int) -> Iterator[list[DataFile]]:
    """Files by task, in order."""
    total = sum(file.rows for file in files)
    task_rows = min(_MAX_TASK_ROWS, max(_MIN_TASK_ROWS, total // (2 * cores)))
    members: list[DataFile] = []
    row_count = 0
    for file in files:
        members.append(file)
        row_count += file.rows
        if row_count >= task_rows:
            yield members
            members = []
            row_count = 0
    if members:
        yield members


def _evaluate_files(context: _EvaluationContext, files: Sequence[DataFile]) -> _TaskResult:
    evaluator = _EVALUATORS.get(context)
    rows = context.rows.read(files)
    result = _TaskResult()
    for batch, event_rows in evaluator.evaluate(context.batches, {context.stream: rows}):
        result.event_rows[batch.number] = event_rows
    return result


class _WorkerEvaluators:
    """The evaluator of a worker process, for one generation of rules and relations."""

    def __init__(self, create: Callable[[float], LocalEvaluator]) -> None:
        self._create = create
        self._generation: int | None = None
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
