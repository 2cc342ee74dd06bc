"""The dispatcher: starts the planned turns of active tasks and collects the results of queries.

`recall.scheduling.turn_plan` decides which turns, `TurnRecorder` stores their results.
"""

from collections.abc import Hashable, Sequence
from typing import Any
from uuid import UUID

import sql
from recall.engines import EventTables, Template
from recall.errors import Cancelled, EngineLost, ExecutorsAway
from recall.ledger import Task, TurnResult
from recall.query import sql_names
from recall.scheduling import (
    EngineSlots,
    PlannedTask,
    SchedulableTask,
    Turn,
    plan_turns,
    shorten_turn,
)
from recall.summaries import SummaryStore
from recall.worker.active_tasks import ActiveTasks, TurnTask
from recall.worker.comparisons import ComparisonRunner
from recall.worker.history_queries import ReadBatch, read_batches
from recall.worker.preparation import HistoryPreparation
from recall.worker.query_slots import Job, Workers, summarise_error
from recall.worker.turn_recorder import TurnRecorder
from sql.events import ContextGateway


class Dispatcher:
    """Runs the turns of active tasks, with at most one history query per engine."""

    def __init__(
        self,
        connection: sql.Connection,
        *,
        active_tasks: ActiveTasks,
        recorder: TurnRecorder,
        comparisons: ComparisonRunner,
        preparation: HistoryPreparation,
        workers: Workers,
        summaries: SummaryStore | None = None,
    ) -> None:
        self.jobs: list[Job[list[TurnResult]]] = []
        self._connection = connection
        self._active_tasks = active_tasks
        self._recorder = recorder
        self._comparisons = comparisons
        self._preparation = preparation
        self._workers = workers
        self._summaries = summaries
        self._turns_by_job: dict[Job[list[TurnResult]], list[TurnTask]] = {}
        self._awaiting_executors: set[UUID] = set()  # tasks

    # Starting turns

    def dispatch(self) -> list[Task] | None:
        """Start the turns that are next: queries on free engines, and one turn of comparisons.

        Returns the tasks that have ended with them; None if no task is ready or no slot is free.
        """
        tasks = self._active_tasks.schedulable_tasks()
        turns = plan_turns(
            tasks,
            self._active_tasks.stride,
            self._engine_slots(),
            blocked=self._blocked_task_ids(),
            scan_streams=self._find_scan_streams(),
        )
        if not turns:
            return None
        ended = []
        for turn in turns:
            try:
                if turn.needs_engine:
                    self._start_query(turn)
                else:
                    ended += self._compare_or_prepare(turn, tasks)
            except (sql.DatabaseError, EngineLost):
                raise
            except Exception as error:  # a fault of this task must not stop the others
                failed = self._active_tasks.tasks.get(turn.first.task.id)
                if failed is not None:
                    self._recorder.fail(failed.task, summarise_error(error))
                break  # the plan of the other turns counted on this one
        return ended

    def _blocked_task_ids(self) -> set[UUID]:
        if not self._workers.are_executors_away():
            self._awaiting_executors.clear()
        return {*self._preparation.waiting_task_ids, *self._awaiting_executors}

    def _engine_slots(self) -> EngineSlots:
        return EngineSlots(
            free=self._workers.free_slots,
            concurrency=self._workers.concurrency,
            running=len(self.jobs),
            runs_suspect=any(map(self._is_suspect, self.jobs)),
        )

    def _is_suspect(self, job: Job[list[TurnResult]]) -> bool:
        """Whether an attempt at the next piece of a task has failed, this one or an earlier one."""
        return job.has_timed_out or any(turn.progress.tries for turn in self._turns_by_job[job])

    def _find_scan_streams(self) -> dict[Hashable, str]:
        """By question, the one stream that its query reads, if it can share a scan with others."""
        templates: dict[Hashable, Template] = {}
        for active_task in self._active_tasks.tasks.values():
            if active_task.template is not None:
                templates.setdefault(active_task.question_key, active_task.template)
        streams: dict[Hashable, str] = {}
        if len(templates) < 2 or not self._workers.free_slots:
            return streams
        if not all(task.is_answered for task in self._active_tasks.schedulable_tasks()):
            return streams  # none joins: a first answer must not wait for what is found out here
        for question, template in templates.items():
            stream = self._find_scan_stream(template)
            if stream is not None:
                streams[question] = stream
        return streams

    def _find_scan_stream(self, template: Template) -> str | None:
        try:
            return self._workers.shared_scan_stream(template)
        except Exception:  # reported when the failing query runs separately
            return None

    def _start_query(self, turn: Turn) -> None:
        batches: list[ReadBatch] = []
        for parts in turn.batches:
            turns = self._turn_tasks(parts)
            event_tables: EventTables = {}
            if not batches:  # queries that name contexts are not joined
                event_tables = self._load_event_tables(turns)
            batches.append(ReadBatch(turns, event_tables))
        all_turns = [turn_task for batch in batches for turn_task in batch.turns]
        self._active_tasks.stride.charge_pieces(turn.charges)
        job = self._workers.start(
            [turn_task.spec.id for turn_task in all_turns],
            "history query",
            lambda slot: read_batches(slot, batches, self._summaries),
        )
        self.jobs.append(job)
        self._turns_by_job[job] = all_turns
        # While it runs: the database takes as long to store this as a short query takes.
        self._recorder.begin_query([turn_task.spec for turn_task in all_turns])

    def _turn_tasks(self, parts: Sequence[PlannedTask]) -> list[TurnTask]:
        tasks = self._active_tasks.tasks
        return [TurnTask(tasks[part.task.id], part.end) for part in parts]

    def _compare_or_prepare(self, turn: Turn, tasks: Sequence[SchedulableTask]) -> list[Task]:
        """Compare in this thread, unless the next piece must be prepared first.

        If only a later piece of the turn is not prepared, the turn ends before it. Returns the
        tasks that have ended.
        """
        first = self._active_tasks.tasks[turn.first.task.id]
        required = self._preparation.find_required(first, turn.first.end)
        if required is not None:
            piece_number, work = required
            if piece_number == first.progress.next:
                self._preparation.prepare(first, work)
                return []
            blocked = self._preparation.waiting_task_ids
            turn = shorten_turn(turn, piece_number, tasks, blocked)
        self._active_tasks.stride.charge_pieces(turn.charges)
        return self._compare(self._turn_tasks(turn.batches[0]))

    def _compare(self, turns: Sequence[TurnTask]) -> list[Task]:
        """Compare; returns the tasks that have ended.

        If a comparison fails, it is repeated for each task separately.
        """
        try:
            comparison = self._comparisons.begin(turns)
            turns = comparison.turns
            if not turns:  # all wait for what other processes compare
                return []
            results = self._comparisons.compare(comparison)
        except sql.DatabaseError:
            raise
        except Exception as error:
            self._comparisons.forget(turns)
            if len(turns) == 1:
                failed = self._active_tasks.find(turns[0].spec)
                if failed is not None:
                    self._recorder.fail(failed.task, summarise_error(error))
                return []
            ended = []
            for turn in turns:
                ended += self._compare([self._repeat(turn)])
            return ended
        ended = self._recorder.record(turns, results)
        if ended:  # a task that is added again under the same ID begins anew
            self._comparisons.forget_inactive()
        return ended

    def _repeat(self, turn: TurnTask) -> TurnTask:
        """A turn after a failed attempt; it reads nothing if that has pinned other pieces."""
        active_task = self._active_tasks.tasks[turn.spec.id]
        if active_task.progress is turn.progress:
            return turn
        return TurnTask(active_task, active_task.progress.next)

    def _load_event_tables(self, turns: Sequence[TurnTask]) -> EventTables:
        """The rows of the contexts and surroundings that a question names, for its events."""
        template = turns[0].active_task.template
        assert template is not None
        if not template.reads_event_tables:
            return {}
        names = template.partial.inputs.event_tables | template.merge.inputs.event_tables
        tables: dict[str, dict[str, Any]] = {name: {} for name in names - {sql_names.MERGED_TABLE}}
        if not tables:
            return {}
        eids = [turn.spec.event.eid for turn in turns]
        for row in ContextGateway(self._connection).list_of_events(eids):
            for name, rows_by_event in tables.items():
                rows = row.contexts.get(name) or row.surroundings.get(name) or []
                rows_by_event[str(row.eid)] = rows
        return tables

    # Comparisons with parts of corpora in other processes

    @property
    def is_waiting(self) -> bool:
        """Whether a task waits for what another process compares."""
        return self._comparisons.is_waiting

    def exchange_comparisons(self) -> None:
        """Compare what other processes ask, and collect what they have compared."""
        self._comparisons.exchange()

    # Collecting results

    def cancel_unwanted(self) -> None:
        """Cancel queries none of whose tasks is active any more, and forget such comparisons."""
        for job in self.jobs:
            if not any(self._active_tasks.find(turn.spec) for turn in self._turns_by_job[job]):
                job.cancel()
        self._comparisons.forget_inactive()

    def collect_finished(self) -> list[Task]:
        """Record the results of finished queries; returns the tasks that have ended."""
        ended = []
        for job in self._workers.pop_finished(self.jobs):
            self.jobs.remove(job)
            turns = self._turns_by_job.pop(job)
            try:
                results = job.future.result()
            except EngineLost:
                self._recorder.count_lost_engine(job.task_ids, job.description)
                raise
            except Cancelled as error:
                # A query that has lost its executors may run without them.
                if isinstance(error, ExecutorsAway) and error.__cause__ is None:
                    self._awaiting_executors.update(turn.spec.id for turn in turns)
                self._recorder.requeue([turn.spec for turn in turns])
                continue
            ended += self._recorder.record(turns, results)
        return ended
