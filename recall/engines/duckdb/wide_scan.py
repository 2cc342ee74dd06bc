"""The engine of wide scans: DuckDB in tasks on executors, over the pinned files of the archive.

Tasks get names of files, open the files themselves, and return partial answers, which are merged
here. It serves the same queries as the local engine. If it fails, one statement of Spark runs.
"""

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from sqlglot import exp

from archiver.executors import Jobs
from archiver.read import Reader, StreamSnapshot
from recall.engines.duckdb.engine import split_answers
from recall.engines.duckdb.portable import PortableQueries
from recall.engines.pending_events import create_pending_table, list_pending, list_ranges
from recall.engines.template import (
    PENDING_TABLE,
    RANGES_TABLE,
    EventPieces,
    EventTables,
    PartialQuery,
    Template,
    merge_partials,
    row_limit,
)
from recall.errors import SparkRequired, StatementTimeout
from recall.operators import MAX_ROWS
from recall.statements import (
    MAX_PART_ROWS,
    NO_EXTERNAL_ACCESS,
    DuckDBStatements,
    FilePart,
    FileRows,
    PartJob,
    PartOutcome,
    PartStatement,
    Statement,
    divide_files,
    run_on_part,
)

MAX_COLLECTED_ROWS = 200_000
"""Rows of partial answers of concurrent tasks that the driver holds at a time, besides those that
it has merged. It merges so many in about two seconds. A query with more is left to Spark, which
aggregates them on executors.
"""

_TASKS_PER_CORE = 4  # tasks of a job, for each core
# All queries send the same relations to workers: none.
_GENERATION = "recall"

_PartialAnswers = dict[str, pa.Table]


class WideScanEngine:
    """Runs queries by jobs, one at a time.

    `jobs` returns the jobs of the session. `time_limit`: seconds of processor time of a query in
    one task.
    """

    def __init__(self, jobs: Callable[[], Jobs], reader: Reader, time_limit: float) -> None:
        self._jobs = jobs
        self._reader = reader
        self._time_limit = time_limit
        self._queries = PortableQueries(reader)
        # Evaluates rows that this process holds in memory anyway.
        self._duckdb = DuckDBStatements(NO_EXTERNAL_ACCESS)

    def supports(self, template: Template) -> bool:
        """Whether tasks can run a query."""
        return self._queries.supports(template)

    def count_rows(self, query: PartialQuery) -> int:
        """How many rows the pinned files of a supported query have."""
        return sum(file.rows for file in self._snapshot(query).files)

    def cancel(self) -> None:
        """Interrupt what runs in this process; may be called from any thread."""
        self._duckdb.interrupt()

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> _PartialAnswers:
        """See `SparkEngine.compute_partial`. Raises `SparkRequired`, `StatementTimeout`."""
        query = PartialQuery(template, event_pieces, event_tables)
        jobs = self._jobs()
        stream = self._queries.stream_of(query.template)
        snapshot = self._snapshot(query)
        statement = self._build_statement(query)
        answers: _PartialAnswers = {}
        if snapshot.rows:
            rows = pa.concat_tables(snapshot.rows)
            self._merge(query, answers, [self._run_here(stream, rows, statement)])
        if not snapshot.files:
            return answers
        assert snapshot.table is not None
        columns = _read_columns(query.template, snapshot)
        file_rows = FileRows(
            snapshot.table.files, snapshot.files, query.range, columns, include_late=True
        )
        parts = divide_files(file_rows, jobs.cores)
        _check_parts(query.template, parts)
        task_count = _TASKS_PER_CORE * jobs.cores
        max_rows = MAX_COLLECTED_ROWS // min(task_count, len(parts))
        job = PartJob(
            rows=file_rows,
            view=f"_in_{stream}",
            statements=[PartStatement(statement, self._time_limit, max_rows=max_rows)],
            sources={},
            relations={},
            generation=_GENERATION,
        )
        for first in range(0, len(parts), task_count):
            outcomes = jobs.map(partial(run_on_part, job), parts[first : first + task_count])
            tables = [self._result(outcome) for (outcome,) in outcomes]
            self._merge(query, answers, tables)
        return answers

    def _snapshot(self, query: PartialQuery) -> StreamSnapshot:
        snapshot = self._reader.snapshot(self._queries.stream_of(query.template), query.range)
        return snapshot.within(query.ranges)

    def _build_statement(self, query: PartialQuery) -> Statement:
        """The partial query over a registered part of the stream's rows."""
        portable = self._queries.get(query.template)
        attributes = query.template.question.attributes
        pending = create_pending_table(list_pending(query.event_pieces), attributes)
        tables = {PENDING_TABLE: pending}
        if query.template.reads_ranges:
            ranges = list_ranges(query.event_pieces)
            tables[RANGES_TABLE] = create_pending_table(ranges, attributes)
        limit = row_limit(len(query.event_pieces))
        return Statement(f"FROM ({portable.filtered_sql}) LIMIT {limit}", tables)

    def _run_here(self, stream: str, rows: pa.Table, statement: Statement) -> pa.Table:
        view = f"_in_{stream}"
        self._duckdb.register(view, rows)
        try:
            return self._duckdb.run(statement)
        finally:
            self._duckdb.unregister(view)

    def _result(self, outcome: PartOutcome) -> pa.Table:
        if outcome.result is not None:
            return outcome.result
        if outcome.failure == "time":
            raise StatementTimeout(self._time_limit)
        raise SparkRequired(outcome.message)

    def _merge(
        self, query: PartialQuery, answers: _PartialAnswers, tables: Sequence[pa.Table]
    ) -> None:
        """Merge results of statements into the partial answers, by event ID."""
        for table in tables:
            for eid, rows in split_answers(query, table).items():
                merged = merge_partials(query.template, answers.get(eid), rows)
                assert merged is not None
                answers[eid] = merged


def _check_parts(template: Template, parts: Sequence[FilePart]) -> None:
    """Raises `SparkRequired` if a task would read too much, or all would return too much."""
    if any(part.row_count > MAX_PART_ROWS for part in parts):
        raise SparkRequired(f"a task would read more than {MAX_PART_ROWS:,} rows")
    # Plain rows of parts are concatenated; the query of the answer cuts them.
    if len(parts) * (template.split.limit or 0) > MAX_ROWS:
        raise SparkRequired(f"tasks would return more than {MAX_ROWS:,} rows of an event")


def _read_columns(template: Template, snapshot: StreamSnapshot) -> list[str]:
    """The columns of the stream that a query names, and its time."""
    assert snapshot.table is not None
    schema = snapshot.table.schema
    names = {column.name.lower() for column in template.split.partial.find_all(exp.Column)}
    names.add(schema.time.lower())
    return [name for name in schema.query_columns if name.lower() in names]
