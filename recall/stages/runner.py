"""The loop that evaluates stages and conditions, and ends events with their boundary.

It runs in a thread of the recall process with a connection of its own. What is to be done is read
from the database: revisions behind those that were evaluated, and events whose recalls have ended.
The rows of open events are kept in memory, and rebuilt from the stored revisions after a restart,
or after another process has evaluated the event. An evaluation is stored in one transaction with
the numbers of the revisions that it is over, unless another process was faster.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import orjson
import structlog
from cachetools import LRUCache
from deltalake.exceptions import DeltaError

import sql
from archiver.errors import ArchiverError
from archiver.ingest import Catalog
from archiver.periodic import Periodic
from archiver.times import Micros
from recall.errors import EngineLost, ExecutorsAway
from recall.event_plans import ColumnTypes, EventPlan
from recall.ledger import retry_on_deadlock
from recall.requests import RecallEvent
from recall.stages.evaluation import StageEvaluator
from recall.stages.event_evaluation import EventEvaluator
from recall.stages.event_rows import EventRows
from recall.stages.state import EventKey, EventOutcome, EventState, PlannedEvent, may_end
from recall.stages.store import EvaluationStore
from sql.stages import AppendedRevisions, RecalledEventGateway, RecalledEventRow, RowRevisionGateway

_LOG = structlog.get_logger()

_WAKE_INTERVAL = 0.5  # seconds between two rounds that nothing has woken
_END_INTERVAL = 0.5  # seconds between two searches for events that end
_RETRY_DELAY = 2.0  # seconds after a round that failed
_MAX_ENDING = 1_000  # events in one search
_MAX_PLANS = 1_000  # in memory
_BATCH_EVENTS = 200  # evaluated together
_EXIT_SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h
_TRANSIENT_ERRORS = (sql.DatabaseError, ArchiverError, DeltaError, OSError, ExecutorsAway)


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """The settings of a runner."""

    stream_columns: Mapping[str, ColumnTypes]
    """Of the declared streams, with Spark's types."""
    lateness: Mapping[str, Micros]
    """Of the declared streams, from which their watermarks follow."""


class StageRunner:
    """Evaluates what follows from the answers of recalls, on a connection of its own."""

    def __init__(
        self,
        connection: sql.Connection,
        stages: StageEvaluator,
        config: StageConfig,
    ) -> None:
        self._connection = connection
        self._events = RecalledEventGateway(connection)
        self._revisions = RowRevisionGateway(connection)
        self._catalog = Catalog(connection)
        self._lateness = config.lateness
        self._rows = EventRows(connection)
        self._evaluator = EventEvaluator(connection, self._rows, stages, config.stream_columns)
        self._store = EvaluationStore(connection)
        self._wake = threading.Event()
        # The number up to which each stream was searched for changed events, by its ID; None: all
        # open events may have changed.
        self._searched: dict[int, int] | None = None
        # Open events that are evaluated again as live rows arrive or contexts change: when, by the
        # monotonic clock.
        self._live: dict[EventKey, float] = {}
        self._plans: LRUCache[str, EventPlan] = LRUCache(_MAX_PLANS)
        self._end_task = Periodic("end events", _END_INTERVAL, self.end_events)

    @property
    def rows_in_memory(self) -> int:
        """The rows of all open events in memory."""
        return self._rows.row_count

    # The loop

    def wake(self) -> None:
        """Start the next round at once; may be called from any thread."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. What fails is retried."""
        while not stop.is_set():
            self._wake.clear()
            try:
                self.run_once()
            except _TRANSIENT_ERRORS as error:
                self._searched = None  # what was found may not have been evaluated
                _LOG.warning("stages not evaluated", action="stages_failed", error=str(error))
                if stop.wait(_RETRY_DELAY) or self._connection.closed:
                    return
            except EngineLost:
                _LOG.error("Spark has exited, process exits", action="engine_lost")
                os._exit(_EXIT_SOFTWARE_ERROR)
            self._wake.wait(_WAKE_INTERVAL)

    def run_once(self) -> None:
        """One round: evaluate what has changed, and end events."""
        changed = self._find_changed()
        if changed is None or changed:
            self._evaluate_changed(changed)
        self._evaluate_live()
        self._end_task.run_if_due()

    def _find_changed(self) -> Collection[EventKey] | None:
        """The events with revisions since the last search; None: all may have."""
        searched = self._searched
        if searched is None:
            streams = self._revisions.list_streams()
            # Numbers above these may have been committed since: they are found by the next search.
            self._searched = {stream.id: stream.last_seq for stream in streams}
            return None
        # Most recalls have neither stages nor a condition: their streams are not read.
        streams = self._revisions.list_streams_of_open_events()
        self._searched = {**searched, **{stream.id: stream.last_seq for stream in streams}}
        behind: dict[int, int] = {}
        for stream in streams:
            if stream.last_seq > searched.get(stream.id, 0):
                behind[stream.id] = searched.get(stream.id, 0)
        if not behind:
            return ()
        rows = self._revisions.list_changed_events(behind)
        return {(row.rule, row.version, row.eid) for row in rows}

    def _skip_own(self, new_revisions: Sequence[AppendedRevisions]) -> None:
        """Do not search revisions for changed events that this process has just appended."""
        if self._searched is None:
            return
        for revisions in new_revisions:
            if self._searched.get(revisions.id, 0) == revisions.before:
                self._searched[revisions.id] = revisions.last

    def _evaluate_changed(self, changed: Collection[EventKey] | None) -> None:
        eids = None if changed is None else {key[2] for key in changed}
        planned = list(self._parse(self._events.list_open(eids)))
        if changed is not None:
            planned = [event for event in planned if event.key in changed]
        for group in _group(planned):
            self._evaluate(group, new_rows=False)

    def _evaluate_live(self) -> None:
        """Evaluate the open events whose streams or contexts may have new rows.

        Each at most every `every` seconds.
        """
        now = time.monotonic()
        due = {key for key, due_at in self._live.items() if due_at <= now}
        if not due:
            return
        rows = self._events.list_open({key[2] for key in due})
        planned = [event for event in self._parse(rows) if event.key in due]
        for key in due - {event.key for event in planned}:
            del self._live[key]  # it has ended
        for group in _group(planned):
            self._evaluate(group, new_rows=True)

    def _parse(self, rows: Iterable[RecalledEventRow]) -> Iterable[PlannedEvent]:
        for row in rows:
            if row.plan not in self._plans:
                self._plans[row.plan] = EventPlan.from_json(orjson.loads(row.plan))
            event = RecallEvent.from_json(row.eid, row.event)
            yield PlannedEvent(row, self._plans[row.plan], (row.rule, row.plan), event)

    # EventOutcome

    def _evaluate(self, group: Sequence[PlannedEvent], *, new_rows: bool) -> None:
        """Evaluate events of one plan and store the outcome."""
        evaluations: list[EventOutcome] = []
        with self._isolated(group):
            evaluations = self._evaluator.evaluate(group, new_rows=new_rows)
            worth_storing = [item for item in evaluations if item.is_worth_storing]
            if worth_storing:
                outdated_keys, new_revisions = retry_on_deadlock(
                    partial(self._store.store, worth_storing)
                )
                for key in outdated_keys:
                    self._evaluator.forget(key)
                self._skip_own(new_revisions)
        due_at = time.monotonic() + group[0].plan.every
        for item in evaluations:
            if item.may_read_more:
                self._live[item.planned.key] = due_at
            else:
                self._live.pop(item.planned.key, None)

    @contextmanager
    def _isolated(self, group: Sequence[PlannedEvent]) -> Iterator[None]:
        """After an error the rows in memory may not be the stored ones: they are loaded again.

        Unexpected errors are logged: a fault of these events must not stop the others.
        """
        try:
            yield
        except Exception as error:
            for planned in group:
                self._evaluator.forget(planned.key)
            if isinstance(error, (*_TRANSIENT_ERRORS, EngineLost)):
                raise
            self._searched = None
            _LOG.exception("stages not evaluated", action="stages_failed", rule=group[0].row.rule)

    # Boundaries

    def end_events(self) -> None:
        """End the events to whose answers nothing can be added."""
        ending = list(self._parse(self._events.list_ending(_MAX_ENDING)))
        if not ending:
            return
        # Read before the rows: those before the watermark are then archived.
        watermarks = self._catalog.watermarks(self._lateness)
        ready = []
        for planned in ending:
            lags = {}
            for name, query in self._evaluator.queries_of(planned).items():
                lags[name] = max(query.lifted.inputs.lag, 0)
            if planned.row.timed_out or may_end(planned.plan, planned.event.ts, watermarks, lags):
                ready.append(planned)
        for group in _group(ready):
            self._end_group(group)

    def _end_group(self, group: Sequence[PlannedEvent]) -> None:
        with self._isolated(group):
            if group[0].plan.is_evaluated:
                evaluations = self._evaluator.evaluate(group, final=True)
            else:
                evaluations = [EventOutcome(planned, EventState()) for planned in group]
            for item in evaluations:
                retry_on_deadlock(partial(self._store.end, item))
                # Ended, or evaluated by another process since.
                self._evaluator.forget(item.planned.key)
                self._live.pop(item.planned.key, None)


def _group(planned: Iterable[PlannedEvent]) -> Iterable[Sequence[PlannedEvent]]:
    """Events of one rule and plan, in batches."""
    groups: dict[tuple[str, str], list[PlannedEvent]] = defaultdict(list)
    for event in planned:
        groups[event.plan_key].append(event)
    for group in groups.values():
        for start in range(0, len(group), _BATCH_EVENTS):
            yield group[start : start + _BATCH_EVENTS]
