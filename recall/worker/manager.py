"""The Recall Manager: who reads which piece of history next, and what becomes of what was read.

One loop: carry out commands, claim tasks, give turns (at most N history queries at once), take results in. Each result
moves its task's cursor, partial answer and revision in one transaction, so that a piece counts once whenever the
process is killed.
"""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from psycopg import Connection

from recall.corpora import Corpora
from recall.engines import EngineRouter
from recall.ledger import LEASE_DURATION, CommandExecutor, Ledger
from recall.scheduling import StrideScheduler
from recall.worker.active_tasks import ActiveTasks
from recall.worker.comparisons import ComparisonRunner
from recall.worker.conditions import ConditionEvaluator
from recall.worker.dispatcher import Dispatcher
from recall.worker.key_counts import KeyCounts
from recall.worker.load import LoadMonitor
from recall.worker.preparation import BackgroundWork, HistoryPreparation
from recall.worker.query_slots import Job, Workers, wait_for_any

# All in seconds. Between two looks for what is new; the longest stretch of turns that need no engine; between two
# looks at what has become of tasks; at what is left lying, or waits for feedback in vain; at how busy the machine is;
# between two signs of life.
(
    _POLL_INTERVAL,
    _DISPATCH_TIME_LIMIT,
    _SYNC_INTERVAL,
    _RECLAIM_INTERVAL,
    _LOAD_INTERVAL,
    _HEARTBEAT_INTERVAL,
) = (
    0.05,
    0.05,
    0.25,
    1.0,
    2.0,
    LEASE_DURATION.total_seconds() / 3,
)


class RecallManager:
    """The loop of one process. `engines`: a Spark session each, as many as may be in use at once; `least`: how many may
    be however busy the machine is (absent: all). `stuck`: seconds that a history query may take. `background`: what is
    to be done with history beside recalls."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        corpora: Corpora,
        key_counts: KeyCounts,
        engines: list[EngineRouter],
        query_timeout: float,
        min_queries: int | None = None,
        stride: StrideScheduler[UUID] | None = None,
        background: BackgroundWork | None = None,
    ) -> None:
        self._ledger = ledger
        self._workers = Workers(engines, ledger, query_timeout)
        self._active_tasks = ActiveTasks(
            connection,
            ledger,
            corpora,
            key_counts,
            stride if stride is not None else StrideScheduler(),
        )
        self._preparation = HistoryPreparation(self._active_tasks, self._workers, background)
        comparisons = ComparisonRunner(
            corpora, ledger, self._preparation.incomplete_chunks, self._preparation.abandoned_chunks
        )
        self._dispatcher = Dispatcher(
            connection, ledger, self._active_tasks, comparisons, self._preparation, self._workers
        )
        self._conditions = ConditionEvaluator(ledger, self._workers)
        self._commands = CommandExecutor(connection, len(engines))
        self._load_monitor = (
            None if min_queries is None else LoadMonitor(connection, min_queries, len(engines))
        )
        self._key_counts = key_counts
        self._next_runs: dict[str, float] = {}

    def run(self, stop: threading.Event, heartbeat: Callable[[], None]) -> None:
        """Until told to stop. `beat` is called again and again."""
        while not stop.is_set():
            self.run_once()
            heartbeat()
            if (
                not self.wait_for_query()
                and not self._active_tasks.idle_task_ids()
                and not self._key_counts.index_next_file()
            ):
                stop.wait(_POLL_INTERVAL)
        self.shut_down()
        self._ledger.release_all()

    def wait_for_query(self) -> bool:
        """Until a query that is under way has ended; False: there is none."""
        return wait_for_any(self._running_jobs(), _POLL_INTERVAL)

    def shut_down(self) -> None:
        """Begin nothing more; what is under way counts for nothing, and is read again by the next process."""
        self._preparation.shut_down()
        self._workers.close()

    def run_once(self) -> None:
        """One look at everything."""
        if self._is_due("sign", _HEARTBEAT_INTERVAL):
            self._ledger.renew_lease()
        if self._is_due("sweep", _RECLAIM_INTERVAL):
            self._ledger.reclaim_abandoned()
            self._commands.finalize_without_feedback()
        if self._commands.execute_pending() or self._is_due("follow", _SYNC_INTERVAL):
            self._active_tasks.sync_with_ledger()
            self._dispatcher.cancel_unwanted()
        if self._load_monitor is not None and self._is_due("load", _LOAD_INTERVAL):
            self._workers.concurrency = self._load_monitor.update_concurrency()
        self._workers.enforce_timeouts(self._running_jobs())
        self._active_tasks.claim()
        self._preparation.collect_finished()
        self._conditions.add_ended(self._dispatcher.collect_finished())
        self._conditions.evaluate_pending()
        enough = time.monotonic() + _DISPATCH_TIME_LIMIT
        while time.monotonic() < enough:
            ended = self._dispatcher.dispatch()
            if ended is None:
                break
            self._conditions.add_ended(ended)
        self._preparation.prepare_when_idle()

    def _is_due(self, what: str, seconds: float) -> bool:
        """Whether it is time again for what is done now and then."""
        now = time.monotonic()
        if now < self._next_runs.get(what, 0.0):
            return False
        self._next_runs[what] = now + seconds
        return True

    def _running_jobs(self) -> list[Job[Any]]:
        return [*self._dispatcher.jobs, *self._conditions.jobs, *self._preparation.jobs]
