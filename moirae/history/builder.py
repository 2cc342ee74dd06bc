"""Builds views: the past of rules, computed chunk by chunk.

*Materialisation*: present and recent chunks get views, newest first, while no recall is active.
*Replica*: any chunk gets a view when a recall reads it. Both execute the same tasks.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sql
from archiver.chunks import Chunk
from archiver.clock import unix_now
from archiver.delta import StreamSchema, read_altered_types
from archiver.ingest import Catalog
from archiver.periodic import Periodic, Schedule, Timer
from archiver.read import Reader
from archiver.storage import StorageRoot
from archiver.times import Micros, duration_to_micros
from moirae.alerts import AlertStream, make_alerting_rule
from moirae.evaluation import store_lost_rows
from moirae.evaluation.plan import ActiveRule, RuleVersion
from moirae.history.attempts import Attempts
from moirae.history.corpus_indexes import IndexBuilder, IndexTask
from moirae.history.derived_streams import (
    DerivedStreamBuilder,
    DerivedStreamTask,
)
from moirae.history.finder import PastFinder, RelationVersions
from moirae.history.lock import try_lock
from moirae.history.plan import (
    MAX_ATTEMPTS,
    View,
    ViewTask,
    decide,
    event_overlap,
    range_to_find,
    view_end,
)
from moirae.history.store import ViewStore
from moirae.history.versions import DeployedVersions, VersionWithPast
from recall.corpus_parts import NoParts
from recall.engines.routing import EngineSetting
from recall.errors import LimitExceeded
from sql.rules import LostVerdictGateway

_LOG = structlog.get_logger()

_POLL_INTERVAL = 1.0  # seconds between two checks for tasks
_VACUUM_INTERVAL = 60.0  # seconds
_DELETION_INTERVAL = 60.0  # seconds between two checks for files of removed derived streams


class HistoryBuilder:
    """Plans tasks on one connection in one thread, and executes them on another in any thread.

    One task is executed at a time.
    """

    def __init__(
        self,
        planning_connection: sql.Connection,
        execution_connection: sql.Connection,
        root: StorageRoot,
        schemas: Iterable[StreamSchema],
        relations: RelationVersions,
        history: float = 0.0,
        engine: EngineSetting = "auto",
    ) -> None:
        """`history`: seconds that superseded versions of archived derived streams stay readable.

        `engine`: the key `recall.engine` of the workspace.
        """
        self._planning = ViewStore(planning_connection)
        self._catalog = Catalog(planning_connection)
        self._execution = ViewStore(execution_connection)
        self._execution_catalog = Catalog(execution_connection)
        self._lock_connection = execution_connection
        declared_streams = list(schemas)
        self._lateness = {
            schema.name: duration_to_micros(schema.lateness) for schema in declared_streams
        }
        self._reader = Reader(root, declared_streams)
        self._create_finder = partial(
            PastFinder,
            reader=self._reader,
            relations=replace(relations, alerts=AlertStream(execution_connection)),
            setting=engine,
            store_losses=partial(store_lost_rows, LostVerdictGateway(execution_connection)),
        )
        self._execution_lock = threading.Lock()
        self._attempts = Attempts()
        self._stream_builder = DerivedStreamBuilder(
            planning_connection,
            execution_connection,
            root,
            self._reader,
            relations,
            self._attempts,
            history,
        )
        self._index_builder = IndexBuilder(planning_connection, execution_connection, root)
        times = {schema.name: schema.time for schema in declared_streams}
        self._deployed = DeployedVersions(
            planning_connection, times, relations.names, read_altered_types(root, declared_streams)
        )
        self._idle_timer = Timer(_POLL_INTERVAL)
        self._cleanup = Schedule(
            [
                Periodic("delete derived streams", _DELETION_INTERVAL, self._delete_unneeded_files),
                Periodic("vacuum", _VACUUM_INTERVAL, self._vacuum),
            ]
        )

    # Planning

    def hold_no_corpora(self) -> None:
        """Keep no corpus in memory whose index is written."""
        self._index_builder.parts = NoParts()

    def next_task(self) -> ViewTask | DerivedStreamTask | IndexTask | None:
        """The next task that no recall requested.

        First views of present and recent chunks, newest first, then derived streams, then indexes.
        """
        now = time.monotonic()
        if not self._idle_timer.is_due(now):
            return None
        deployed = self._deployed
        deployed.refresh()
        if deployed.versions or deployed.derived_streams or deployed.corpus_keys:
            watermarks = self._catalog.watermarks(self._lateness)
            chunks = self._catalog.chunks()
            task = (
                self._next_view_task(chunks, watermarks)
                or self._stream_builder.next_task(deployed.derived_streams, chunks, watermarks)
                or self._index_builder.next_task(deployed.corpus_keys, chunks)
            )
            if task is not None:
                return task
        self._stream_builder.remove_unneeded(deployed.derived_streams)
        self._cleanup.run_due()
        self._idle_timer.restart(now)
        return None

    def _delete_unneeded_files(self) -> None:
        self._stream_builder.delete_unneeded_files(self._deployed.derived_streams, unix_now())

    def _vacuum(self) -> None:
        self._stream_builder.vacuum(self._deployed.derived_streams, time.monotonic())

    def _next_view_task(
        self, chunks: Sequence[Chunk], watermarks: Mapping[str, Micros | None]
    ) -> ViewTask | None:
        views = {version: self._planning.views(*version) for version in self._deployed.versions}
        for chunk in reversed(chunks):
            if chunk.state not in ("present", "recent"):
                continue
            for version, deployed in self._deployed.versions.items():
                view = views[version].get(chunk.id)
                task = self._plan_view(deployed, chunk, watermarks, view, is_requested=False)
                if task is not None:
                    return task
        return None

    def required_task(self, rule: str, version: str, chunk: int) -> ViewTask | None:
        """The view that a recall needs before it reads a chunk, or None if the view is complete."""
        rule_version = RuleVersion(rule, version)
        deployed = self._deployed.find(rule_version)
        if deployed is None or self._deployed.is_complete(rule_version, chunk):
            return None
        chunks = {record.id: record for record in self._catalog.chunks()}
        record = chunks.get(chunk)
        if record is None or record.state == "expired":
            return None
        view = self._planning.views(rule, version).get(chunk)
        if _is_complete(view, view_end(record, deployed.corpus_from)):
            self._deployed.mark_complete(rule_version, chunk)
            return None
        watermarks = self._catalog.watermarks(self._lateness)
        return self._plan_view(deployed, record, watermarks, view, is_requested=True)

    def incomplete_chunks(self, rule: str, version: str) -> set[int]:
        """The chunks without a complete view of a rule version."""
        deployed = self._deployed.versions.get(RuleVersion(rule, version))
        if deployed is None:
            return set()
        views = self._planning.views(rule, version)
        incomplete: set[int] = set()
        for chunk in self._catalog.chunks():
            if chunk.state == "expired":
                continue
            if not _is_complete(views.get(chunk.id), view_end(chunk, deployed.corpus_from)):
                incomplete.add(chunk.id)
        return incomplete

    def abandoned_chunks(self, rule: str, version: str) -> set[int]:
        """The incomplete chunks whose view is not attempted again."""
        views = self._planning.views(rule, version)
        abandoned = {chunk for chunk, view in views.items() if view.attempts >= MAX_ATTEMPTS}
        if not abandoned:
            return abandoned
        return abandoned & self.incomplete_chunks(rule, version)

    def _plan_view(
        self,
        deployed: VersionWithPast,
        chunk: Chunk,
        watermarks: Mapping[str, Micros | None],
        view: View | None,
        is_requested: bool,
    ) -> ViewTask | None:
        findable_until = deployed.findable_until(watermarks)
        time_range = range_to_find(
            chunk, deployed.corpus_from, findable_until, view or View(None, 0)
        )
        if time_range is None:
            return None
        return ViewTask(
            rule=deployed.rule.name,
            version=deployed.rule.version,
            chunk=chunk.id,
            range=time_range,
            live_from=deployed.live_from,
            is_requested=is_requested,
        )

    # Execution

    def execute(
        self, task: ViewTask | DerivedStreamTask | IndexTask, session: Callable[[], SparkSession]
    ) -> None:
        """Execute a task, unless another process does."""
        with self._execution_lock, try_lock(self._lock_connection, *_lock_name(task)) as is_locked:
            if not is_locked:
                time.sleep(_POLL_INTERVAL)  # the other process may finish meanwhile
            elif isinstance(task, IndexTask):
                self._index_builder.execute(task)
            elif isinstance(task, DerivedStreamTask):
                self._stream_builder.execute(task, session())
            else:
                self._execute_view(task, session())

    def shut_down(self) -> None:
        """Prepare an orderly end: the current task does not count as an attempt."""
        self._attempts.shut_down()

    def _execute_view(self, task: ViewTask, spark: SparkSession) -> None:
        """Compute a view. Errors are stored with the view."""
        deployed = self._deployed.versions.get(RuleVersion(task.rule, task.version))
        view = self._execution.views(task.rule, task.version).get(task.chunk)
        if deployed is None or (
            view is not None and view.complete_until not in (None, task.range.start)
        ):
            return  # the version was stopped, or another process computed the view
        is_started = self._attempts.begin(
            partial(self._execution.count_attempt, task), partial(self._planning.undo_attempt, task)
        )
        if is_started:
            try:
                self._attempt(task, deployed.rule, spark)
            finally:
                self._attempts.finish()

    def _attempt(self, task: ViewTask, rule: ActiveRule, spark: SparkSession) -> None:
        try:
            count = self._find_past(task, rule, spark)
        except (
            PySparkException,
            Py4JJavaError,
            pa.ArrowException,
            LookupError,
            ValueError,
            LimitExceeded,
        ) as error:
            if self._attempts.is_shut_down:
                return
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._execution.record_failure(task, message)
            _LOG.error(
                "view failed",
                action="view_failed",
                rule=task.rule,
                chunk=task.chunk,
                error=message,
            )
            return
        _LOG.info(
            "view complete", action="view_complete", rule=task.rule, chunk=task.chunk, events=count
        )

    def _find_past(self, task: ViewTask, rule: ActiveRule, spark: SparkSession) -> int:
        """Compute and store a view. Returns the number of its events."""
        started_at = time.monotonic()
        definition, store = rule.definition, self._execution
        newest = self._newest_event_time()
        first_times = self._execution_catalog.first_times()
        finder = self._create_finder(spark, first_times=first_times)
        overlap = event_overlap(definition)
        search_range = task.range.shift(start=-overlap.before, end=overlap.after)
        events = finder.find_events(rule, search_range)
        if definition.is_absence:
            # Silence after the end of the input is not absence.
            events = [event for event in events if event.ts <= newest]
        alerting_rule = make_alerting_rule(definition)
        past = decide(events, task, alerting_rule.timing, definition)
        missing = store.events_without_context(task, past.corpus)
        store.put_events(alerting_rule, past)
        store.put_contexts(task, missing, finder.compute_contexts(rule, missing))
        store.enter_corpus(task, past.corpus)
        chunks = {chunk.id: chunk for chunk in self._execution_catalog.chunks()}
        store.mark_complete(
            task,
            chunks[task.chunk].from_ts,
            alerting_rule.timing.keep_firing_for,
            time.monotonic() - started_at,
        )
        return len(past.events)

    def _newest_event_time(self) -> Micros:
        progress = self._execution_catalog.stream_progress().values()
        times = [stream.newest for stream in progress if stream.newest is not None]
        return max(times, default=0)


def _is_complete(view: View | None, end: Micros | None) -> bool:
    """Whether a view reaches its end. `end` None: the chunk has no past."""
    if end is None:
        return True
    return view is not None and view.complete_until is not None and view.complete_until >= end


def _lock_name(task: ViewTask | DerivedStreamTask | IndexTask) -> tuple[str | int, ...]:
    """The name of the advisory lock of a task."""
    if isinstance(task, IndexTask):
        return "index", *map(str, task.key)
    if isinstance(task, DerivedStreamTask):
        return "stream", task.stream.name, task.stream.version, task.chunk
    return "view", task.rule, task.version, task.chunk
