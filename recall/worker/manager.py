"""The Recall Manager: the main loop of a recall process.

The loop executes commands, claims tasks, gives turns (up to N history queries at once) and records
results. Each result moves its task's cursor, partial answer and revision in one transaction, so
that a piece counts once even if the process is killed.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import sql
from archiver.periodic import Periodic, Schedule
from recall.corpora import Corpora
from recall.corpus_parts import PartHolder
from recall.engines.routing import EngineRouter
from recall.ledger import LEASE_DURATION, Ledger
from recall.ledger.commands import CommandExecutor
from recall.scheduling import StrideScheduler
from recall.summaries import SummaryStore
from recall.worker.active_tasks import ActiveTasks
from recall.worker.claims import TaskClaimer
from recall.worker.comparisons import ComparisonRunner
from recall.worker.dispatcher import Dispatcher
from recall.worker.key_counts import KeyCounts
from recall.worker.live_rows import LiveEngines, LiveRowReader
from recall.worker.load import LoadMonitor
from recall.worker.metrics import RecallMetrics
from recall.worker.part_comparisons import PartComparisons
from recall.worker.piece_ranking import PieceRanking
from recall.worker.preparation import BackgroundWork, HistoryPreparation
from recall.worker.query_slots import Job, Workers
from recall.worker.turn_recorder import TurnRecorder
from sql.processes import SignalListener

# Between two rounds of an idle loop that is not woken: signals may get lost with a connection.
_POLL_INTERVAL = 2.0  # seconds
# Between two rounds while queries run, unless one of them ends.
_BUSY_INTERVAL = 0.05  # seconds
# Between two checks whether an idle loop is to stop.
_STOP_CHECK_INTERVAL = 0.25  # seconds
# Limit for turns without an engine in one round.
_DISPATCH_TIME_LIMIT = 0.05  # seconds
# Between two checks which claimed tasks have changed in the ledger.
_SYNC_INTERVAL = 0.25  # seconds
# Between two searches for abandoned tasks and missed feedback deadlines.
_RECLAIM_INTERVAL = 1.0  # seconds
# Between two searches for events without progress.
_STALLED_INTERVAL = 5.0  # seconds
# Between two times at which the figures of recalls are stored.
_FLOWS_INTERVAL = 1.0  # seconds
_LOAD_INTERVAL = 2.0  # seconds
# Between two times at which parts of corpora are claimed.
_PARTS_INTERVAL = 2.0  # seconds
_HEARTBEAT_INTERVAL = LEASE_DURATION.total_seconds() / 3  # seconds


@dataclass(frozen=True, kw_only=True)
class ManagerConfig:
    """The settings of a Recall Manager."""

    engines: Sequence[EngineRouter]
    """One for each history query that may run at once."""
    query_timeout: float
    """Seconds that a history query may work."""
    min_queries: int | None = None
    """How many history queries may run however busy the machine is; None: all."""
    stride: StrideScheduler[UUID] = field(default_factory=StrideScheduler)
    background: BackgroundWork | None = None
    """Work on history apart from recalls."""
    metrics: RecallMetrics = field(default_factory=RecallMetrics)
    event_timeout: timedelta = timedelta(hours=1)
    """Wall-clock time after which an event without progress ends."""
    on_answers: Callable[[], None] = lambda: None
    """Called after answers were stored."""
    live_engines: LiveEngines | None = None
    """What live rows of queries that follow are read with; None: live rows are not read."""
    summaries: SummaryStore | None = None
    """Summaries of chunks that answer recalls; None: there are none."""
    only_task: UUID | None = None
    """The only task to work on; None: all tasks."""
    parts: PartHolder | None = None
    """Claims parts of corpora; None: each corpus that is used is in memory as a whole."""


class RecallManager:
    """The main loop of one process."""

    def __init__(
        self,
        connection: sql.Connection,
        ledger: Ledger,
        corpora: Corpora,
        *,
        key_counts: KeyCounts,
        config: ManagerConfig,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._signals = SignalListener(connection)
        self._workers = Workers(config.engines, config.query_timeout, self._signals.wake)
        self._active_tasks = ActiveTasks(config.stride)
        self._recorder = TurnRecorder(
            connection, ledger, self._active_tasks, config.metrics, on_answers=config.on_answers
        )
        self._ranking = PieceRanking(key_counts)
        self._claimer = TaskClaimer(
            connection,
            ledger,
            active_tasks=self._active_tasks,
            recorder=self._recorder,
            corpora=corpora,
            ranking=self._ranking,
            summaries=config.summaries,
        )
        self._live_rows: LiveRowReader | None = None
        if config.live_engines is not None:
            self._live_rows = LiveRowReader(
                ledger,
                self._active_tasks,
                self._recorder,
                config.live_engines,
                config.query_timeout,
            )
        self._preparation = HistoryPreparation(
            self._active_tasks, self._recorder, self._workers, config.background
        )
        parts: PartComparisons | None = None
        if config.parts is not None:
            parts = PartComparisons(
                connection,
                ledger,
                lease=config.parts.lease,
                corpora=corpora,
                active_tasks=self._active_tasks,
            )
        comparisons = ComparisonRunner(
            corpora,
            self._active_tasks,
            pin_pieces=self._recorder.pin_pieces,
            incomplete_chunks=self._preparation.incomplete_chunks,
            abandoned_chunks=self._preparation.abandoned_chunks,
            parts=parts,
        )
        self._dispatcher = Dispatcher(
            connection,
            active_tasks=self._active_tasks,
            recorder=self._recorder,
            comparisons=comparisons,
            preparation=self._preparation,
            workers=self._workers,
            summaries=config.summaries,
        )
        self._commands = CommandExecutor(connection, len(config.engines))
        lease_tasks = [
            Periodic("renew lease", _HEARTBEAT_INTERVAL, ledger.renew_lease),
            Periodic("reclaim", _RECLAIM_INTERVAL, self._reclaim),
            Periodic("end events without progress", _STALLED_INTERVAL, self._end_stalled),
            Periodic("store flows", _FLOWS_INTERVAL, self._recorder.store_flows),
        ]
        if config.parts is not None:
            lease_tasks += [
                Periodic("renew parts", _HEARTBEAT_INTERVAL, config.parts.renew),
                Periodic("hold parts", _PARTS_INTERVAL, corpora.hold_parts),
            ]
        self._lease_tasks = Schedule(lease_tasks)
        self._sync_task = Periodic("sync", _SYNC_INTERVAL, self._sync)
        self._load_tasks = Schedule([])
        if config.min_queries is not None:
            monitor = LoadMonitor(connection, config.min_queries, len(config.engines))
            update = partial(self._update_concurrency, monitor)
            self._load_tasks = Schedule([Periodic("load", _LOAD_INTERVAL, update)])

    def run(self, stop: threading.Event, heartbeat: Callable[[str], None]) -> None:
        """Run until `stop` is set. `heartbeat` is called in every round, with the activity."""
        while not stop.is_set():
            self.run_once()
            heartbeat(self._workers.activity)
            if (
                not self.wait_for_query()
                and not self._active_tasks.idle_task_ids()
                and not self._ranking.index_next_file()
            ):
                self._wait_for_signal(stop)
        self.shut_down()
        self._ledger.release_all()
        if self._config.parts is not None:
            self._config.parts.release_all()

    def wait_for_query(self) -> bool:
        """Wait briefly for a running query to end; returns whether any is running.

        New tasks and commands end the wait as well.
        """
        is_running = bool(self._running_jobs()) or self._dispatcher.is_waiting
        if is_running:
            self._signals.wait(_BUSY_INTERVAL)
        return is_running

    def _wait_for_signal(self, stop: threading.Event) -> None:
        """Wait for a task or a command, up to the poll interval."""
        deadline = time.monotonic() + _POLL_INTERVAL
        while not stop.is_set() and time.monotonic() < deadline:
            if self._signals.wait(_STOP_CHECK_INTERVAL):
                return

    def shut_down(self) -> None:
        """Start no more queries. Results of running ones are discarded and read again later."""
        self._recorder.store_flows()
        self._preparation.shut_down()
        self._workers.close()
        if self._live_rows is not None:
            self._live_rows.workers.close()
        self._signals.close()

    def run_once(self) -> None:
        """One round of the loop."""
        self._workers.interrupt_spark(self._running_jobs())
        self._workers.enforce_timeouts(self._running_jobs(), self._count_timeout)
        for job, seconds in self._workers.pop_delays(self._running_jobs()):
            self._recorder.add_delay(job.task_ids, seconds)
        # Answers first: none waits for statements that concern other tasks.
        self._dispatcher.collect_finished()
        self._dispatcher.exchange_comparisons()
        self._preparation.collect_finished()
        self._lease_tasks.run_due()
        if self._commands.execute_pending():
            self._sync()
            self._config.on_answers()
        else:
            self._sync_task.run_if_due()
        self._load_tasks.run_due()
        self._claim_and_dispatch()
        self._preparation.prepare_when_idle()
        if self._live_rows is not None:
            self._live_rows.collect_finished()
            self._live_rows.start_due()

    def _claim_and_dispatch(self) -> None:
        """Tasks of new events get their turns before tasks in the background are looked for."""
        if self._config.only_task is not None:
            self._claimer.claim_task(self._config.only_task)
            self._dispatch()
            self._recorder.pin_planned()
            return
        for level in (0, 1):
            self._claimer.claim(level)
            self._dispatch()
            self._recorder.pin_planned()

    def _dispatch(self) -> None:
        deadline = time.monotonic() + _DISPATCH_TIME_LIMIT
        while time.monotonic() < deadline:
            if self._dispatcher.dispatch() is None:
                break

    def _count_timeout(self, job: Job[Any]) -> None:
        self._recorder.count_timeout(job.task_ids, job.description, self._config.query_timeout)

    def _reclaim(self) -> None:
        """Take over abandoned tasks; finalize those whose feedback is overdue."""
        self._ledger.reclaim_abandoned()
        self._commands.finalize_without_feedback()

    def _end_stalled(self) -> None:
        """End events without progress."""
        if self._commands.end_without_progress(self._config.event_timeout):
            self._config.on_answers()

    def _sync(self) -> None:
        """Follow changes of the claimed tasks in the ledger."""
        self._claimer.sync_with_ledger()
        self._dispatcher.cancel_unwanted()
        if self._live_rows is not None:
            self._live_rows.cancel_unwanted()

    def _update_concurrency(self, monitor: LoadMonitor) -> None:
        self._workers.concurrency = monitor.update_concurrency()

    def _running_jobs(self) -> list[Job[Any]]:
        jobs: list[Job[Any]] = [*self._dispatcher.jobs, *self._preparation.jobs]
        if self._live_rows is not None:
            jobs += self._live_rows.jobs
        return jobs
