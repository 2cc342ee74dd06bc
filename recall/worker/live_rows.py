"""Queries that follow: rows that are archived after history was read extend their answers.

History was read piece by piece, each piece as of a number of appends to its stream. The rows that
belong to a piece and came with a later append are live rows: so each row counts once, whatever the
clocks say. Every second the live rows since the last time are read, as one partial answer, and
merged with what the task holds. The new position is stored in the transaction of the answer.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pyarrow as pa
from cachetools import LRUCache
from sqlglot import exp

from archiver.read import AppendedRows, RowsAfter
from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.engines import PartialQuery, Template, merge_partials
from recall.engines.routing import EngineRouter
from recall.errors import Cancelled, EngineLost, ExecutorsAway
from recall.ledger import Ledger, Revision, TurnResult
from recall.operators import MAX_ROWS
from recall.query import parse
from recall.requests import LiveCoverage, Piece, compute_coverage, relate_to_request
from recall.scheduling import TurnStatistics
from recall.worker.active_tasks import ActiveTask, ActiveTasks, TurnTask
from recall.worker.history_queries import deserialise_partial, serialise_partial
from recall.worker.query_slots import Job, QuerySlot, Workers, summarise_error
from recall.worker.turn_recorder import TurnRecorder
from sql.recalls import Read

# Between two reads of the live rows of a query.
_INTERVAL = 1.0  # seconds
# Without live rows the progress is stored this often, so that silent clients are noticed.
_PROGRESS_INTERVAL = 10.0  # seconds
# The end of time, as the end of a range of event time: year 9999, in microseconds.
_END_OF_TIME = 253_402_300_799_000_000
_MAX_TEMPLATES = 100
_NO_COST = TurnStatistics(pieces=0, rows=0, results=0, seconds=0.0)


@dataclass(frozen=True)
class LiveEngines:
    """What live rows are read with, one query at a time. `router` reads through `reader`."""

    router: EngineRouter
    reader: AppendedRows


class LiveRowReader:
    """Reads the live rows of following tasks, one task at a time, on an engine of its own."""

    def __init__(
        self,
        ledger: Ledger,
        active_tasks: ActiveTasks,
        recorder: TurnRecorder,
        engines: LiveEngines,
        query_timeout: float,
    ) -> None:
        """`query_timeout`: seconds that reading the live rows of a task may take."""
        self.jobs: list[Job[TurnResult | None]] = []
        self.workers = Workers([engines.router], query_timeout)
        self._ledger = ledger
        self._active_tasks = active_tasks
        self._recorder = recorder
        self._reader = engines.reader
        # Both by task, by the monotonic clock: the last read, and the last one that was stored.
        self._read_at: dict[UUID, float] = {}
        self._stored_at: dict[UUID, float] = {}
        # By query: what reads live rows of plain rows.
        self._templates: LRUCache[str, Template] = LRUCache(_MAX_TEMPLATES)
        # By job: the task as it was when the job began.
        self._tasks_by_job: dict[Job[TurnResult | None], ActiveTask] = {}

    def start_due(self) -> None:
        """Start to read for the task that has waited longest, if one is due."""
        following = {task.spec.id: task for task in self._active_tasks.following()}
        for ended_id in self._read_at.keys() - following.keys():
            del self._read_at[ended_id]
            self._stored_at.pop(ended_id, None)
        if not self.workers.free_slots:
            return
        now = time.monotonic()
        due = []
        for task_id, active_task in following.items():
            read_at = self._read_at.get(task_id, 0.0)
            if not active_task.is_busy and now - read_at >= _INTERVAL:
                due.append((read_at, task_id))
        if due:
            _, task_id = min(due)
            self._read_at[task_id] = now
            self._start(following[task_id])

    def _start(self, active_task: ActiveTask) -> None:
        rows_after = find_live_rows(active_task, self._ledger.list_reads(active_task.spec.id))
        template = self._live_template(active_task)
        reader = self._reader

        def read(slot: QuerySlot) -> TurnResult | None:
            reader.rows_after = rows_after
            return read_live_rows(slot, active_task, template)

        self._active_tasks.set_busy(active_task.spec, True)
        job = self.workers.start([active_task.spec.id], "live rows", read)
        self.jobs.append(job)
        self._tasks_by_job[job] = active_task

    def _live_template(self, active_task: ActiveTask) -> Template:
        """The query of a task; one of plain rows without its limit, as each live row counts."""
        template = active_task.template
        assert template is not None
        if not template.split.selects_rows:
            return template
        key = template.query_key
        if key not in self._templates:
            query = parse(template.question.sql)
            assert isinstance(query, exp.Select)
            text = query.limit(MAX_ROWS).sql(dialect="spark")
            self._templates[key] = Template(replace(template.question, sql=text))
        return self._templates[key]

    def collect_finished(self) -> None:
        """Store the results of finished reads."""
        for job in list(self.workers.pop_finished(self.jobs)):
            self.jobs.remove(job)
            active_task = self._tasks_by_job.pop(job)
            spec = active_task.spec
            self._active_tasks.set_busy(spec, False)
            try:
                result = job.future.result()
            except EngineLost:
                raise
            except ExecutorsAway:
                self._store(active_task, None)
            except Cancelled:
                self._fail(active_task, "reading live rows took too long")
            except Exception as error:
                self._fail(active_task, f"live rows: {summarise_error(error)}")
            else:
                self._store(active_task, result)

    def _store(self, active_task: ActiveTask, result: TurnResult | None) -> None:
        now = time.monotonic()
        if result is None:
            if now - self._stored_at.setdefault(active_task.spec.id, now) < _PROGRESS_INTERVAL:
                return
            result = unchanged_result(active_task, _NO_COST)
        self._stored_at[active_task.spec.id] = now
        turn = TurnTask(active_task, active_task.progress.next)
        self._recorder.record([turn], [result])

    def _fail(self, active_task: ActiveTask, reason: str) -> None:
        current = self._active_tasks.find(active_task.spec)
        if current is not None:
            self._recorder.fail(current.task, reason)

    def cancel_unwanted(self) -> None:
        """Cancel reads for tasks that are not active any more."""
        for job in self.jobs:
            if self._active_tasks.find(self._tasks_by_job[job].spec) is None:
                job.cancel()


def find_live_rows(active_task: ActiveTask, reads: Sequence[Read]) -> dict[str, RowsAfter]:
    """The rows that a task has not read yet, by stream.

    `reads`: what its history queries have read. Pieces that failed are left out, as in its answer.
    """
    template, progress = active_task.template, active_task.progress
    assert template is not None
    # Rows at and after the time of the event are in no piece: all of them are live.
    ranges: list[tuple[TimeRange, Mapping[str, int]]] = [
        (TimeRange(active_task.spec.event.ts, None), {})
    ]
    for read in reads:
        if read.append_counts is not None:
            for piece in active_task.pieces[read.first : read.end]:
                ranges.append((piece.range, read.append_counts))
    position = progress.live_appends or {}
    rows_after = {}
    for stream in template.partial.inputs.streams:
        stream_ranges = []
        for time_range, append_counts in ranges:
            append = max(append_counts.get(stream, 0), position.get(stream, 0))
            stream_ranges.append((time_range, append))
        rows_after[stream] = RowsAfter(stream_ranges)
    return rows_after


def read_live_rows(
    slot: QuerySlot, active_task: ActiveTask, template: Template
) -> TurnResult | None:
    """The result of reading the live rows of a task; None: there are no new appends.

    `template`: its query. The reader of the engine knows which rows are meant.
    """
    try:
        return _read_live_rows(slot.engines, active_task, template)
    except Exception as error:
        slot.raise_if_interrupted(error)
        raise


def _read_live_rows(
    engines: EngineRouter, active_task: ActiveTask, template: Template
) -> TurnResult | None:
    began = time.monotonic()
    event = active_task.spec.event
    appends_rows = template.split.selects_rows
    query = PartialQuery(template, [(event, _all_time(active_task.pieces))], {})
    with engines.snapshot([query]) as append_counts:
        if append_counts == active_task.progress.live_appends:
            return None
        partial = engines.compute_partials([query])[0].get(str(event.eid))
    rows = 0 if partial is None else len(partial)
    statistics = TurnStatistics(pieces=0, rows=rows, results=0, seconds=time.monotonic() - began)
    result = replace(unchanged_result(active_task, statistics), live_appends=append_counts)
    if partial is None:
        return result
    merged: pa.Table | None = partial
    if not appends_rows:
        accumulator = deserialise_partial(active_task.progress.partial_answer)
        merged = merge_partials(template, accumulator, partial)
        result = replace(result, partial_answer=serialise_partial(merged))
    answers = engines.compute_answers(template, [(event, merged)], {})
    revision = Revision(
        _live_coverage(active_task, rows, appends_rows), answers.get(str(event.eid), [])
    )
    return replace(result, revision=revision)


def unchanged_result(active_task: ActiveTask, statistics: TurnStatistics) -> TurnResult:
    """The result of a turn that leaves the task as it is."""
    progress = active_task.progress
    return TurnResult(
        next=progress.next,
        failed=progress.failed,
        partial_answer=progress.partial_answer,
        statistics=statistics,
        state="running",
    )


def _live_coverage(active_task: ActiveTask, rows: int, appends_rows: bool) -> LiveCoverage:
    progress = active_task.progress
    pieces, spec = active_task.pieces, active_task.spec
    history = relate_to_request(
        compute_coverage(pieces, progress.next, progress.failed, progress.skipped),
        spec.question,
        spec.event,
        pieces,
    )
    return LiveCoverage(
        **{**vars(history), "final": False, "live_rows": rows, "appends": appends_rows}
    )


def _all_time(pieces: Sequence[Piece]) -> Piece:
    """All time from the beginning of some pieces, as one piece."""
    lows = [piece.low for piece in pieces]
    low: Micros | None = None
    if None not in lows:
        low = min((low for low in lows if low is not None), default=None)
    return Piece(-1, low, _END_OF_TIME)
