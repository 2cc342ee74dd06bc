"""A task on an executor: statements over the rows of a part of archived files."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from archiver.time_range import ALL_TIME
from archiver.times import micros_column
from recall.errors import MemoryExceeded, SparkRequired, StatementTimeout
from recall.statements.duckdb_statements import NO_EXTERNAL_ACCESS, DuckDBStatements
from recall.statements.file_rows import FilePart, FileRows
from recall.statements.statement import Statement

FailureReason = Literal["time", "memory", "unsupported"]


@dataclass(frozen=True)
class PartStatement:
    """`source`: the computed table that it reads, None for the rows themselves.

    `time_limit`: seconds of processor time. `max_rows`: of the result; None: no limit.
    """

    statement: Statement
    time_limit: float
    source: str | None = None
    max_rows: int | None = None


@dataclass(frozen=True)
class PartJob:
    """What all tasks of a job need.

    `view`: the name of the rows. `sources`: tables that are computed once, before the statements.
    `relations`: tables that stay registered; tasks of one `generation` have the same.
    """

    rows: FileRows
    view: str
    statements: Sequence[PartStatement]
    sources: Mapping[str, PartStatement]
    relations: Mapping[str, pa.Table]
    generation: str


@dataclass(frozen=True)
class PartOutcome:
    """What a task returns of a statement.

    `result`: its rows, with `ts` in the event range of the part if that has a bound; None if it
    failed. `seconds`: of processor time.
    """

    seconds: float
    result: pa.Table | None = None
    failure: FailureReason | None = None
    message: str = ""


def run_on_part(job: PartJob, part: FilePart) -> list[PartOutcome]:
    """The outcome of each statement."""
    duckdb = _DATABASE.open(job)
    rows = job.rows.read(part)
    failed_sources: dict[str, PartOutcome] = {}
    registered = [job.view]
    duckdb.register(job.view, rows)
    try:
        for name, source in job.sources.items():
            outcome = _run(duckdb, source)
            if outcome.result is None:
                failed_sources[name] = outcome
                continue
            duckdb.register(name, outcome.result)
            registered.append(name)
        outcomes: list[PartOutcome] = []
        for statement in job.statements:
            failed = failed_sources.get(statement.source or "")
            outcomes.append(failed or _in_range(_run(duckdb, statement), part))
        return outcomes
    finally:
        for name in registered:
            duckdb.unregister(name)


def _run(duckdb: DuckDBStatements, statement: PartStatement) -> PartOutcome:
    started_at = time.thread_time()
    result: pa.Table | None = None
    failure: FailureReason | None = None
    message = ""
    try:
        result = duckdb.run(statement.statement, statement.time_limit)
    except StatementTimeout as error:
        failure = "time"
        message = str(error)
    except MemoryExceeded as error:
        failure = "memory"
        message = str(error)
    except SparkRequired as error:
        failure = "unsupported"
        message = str(error)
    if result is not None and statement.max_rows is not None and len(result) > statement.max_rows:
        result = None
        failure = "unsupported"
        message = f"result with more than {statement.max_rows:,} rows"
    return PartOutcome(time.thread_time() - started_at, result, failure, message)


def _in_range(outcome: PartOutcome, part: FilePart) -> PartOutcome:
    if outcome.result is None or part.event_range == ALL_TIME:
        return outcome
    is_inside = part.event_range.mask(micros_column(outcome.result, "ts"))
    return PartOutcome(outcome.seconds, outcome.result.filter(pa.array(is_inside)))


class _WorkerDatabase:
    """The database of a worker process, with the relations of one generation."""

    def __init__(self) -> None:
        self._generation: str | None = None
        self._duckdb: DuckDBStatements | None = None

    def open(self, job: PartJob) -> DuckDBStatements:
        """The database with the relations of a job."""
        if self._duckdb is None or self._generation != job.generation:
            if self._duckdb is not None:
                self._duckdb.close()
            self._duckdb = DuckDBStatements(NO_EXTERNAL_ACCESS)
            self._generation = job.generation
        for name, rows in job.relations.items():
            self._duckdb.register(name, rows)
        return self._duckdb


_DATABASE = _WorkerDatabase()
