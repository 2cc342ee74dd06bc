"""Views made: the one way in which the past of a rule is found, whether for itself or because a recall asks for it.

As *materialisation* present and recent chunks get views by themselves, newest first, while no recall wants anything; as
a *replica* any chunk does when a recall comes by there. Both are the same work, done once.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import structlog
from psycopg import Connection
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.chunks import Chunk
from archiver.delta import StreamSchema
from archiver.ingest import Catalog
from archiver.read import Reader
from archiver.storage import StorageRoot
from archiver.times import duration_to_micros
from moirae.alerts import make_alerting_rule
from moirae.deployments import RuleRegistry
from moirae.evaluation import (
    ActiveRule,
    LiftedContextQuery,
    context_horizon,
    horizon,
    prepare_context_query,
)
from moirae.history.attempts import Attempts
from moirae.history.corpus_indexes import IndexBuilder, IndexTask, corpora_of_rules
from moirae.history.derived_streams import (
    DerivedStreamBuilder,
    DerivedStreamTask,
    DerivedStreamVersion,
    select_archived_streams,
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
from moirae.rules import build_context_queries, build_rule_tables, infer_event_shape
from recall.corpora import CorpusKey
from recall.query import Unsupported

_LOG = structlog.get_logger()

# Seconds between two looks for something to do, and at what is deployed.
_POLL_INTERVAL = 1.0


@dataclass(frozen=True)
class _VersionWithPast:
    """A version of a rule that runs and has a past; microseconds of event time."""

    rule: ActiveRule
    context_queries: Sequence[LiftedContextQuery]
    live_from: int
    corpus_from: int

    def findable_until(self, watermarks: Mapping[str, int | None]) -> int | None:
        """Up to where the past can be found: where all that decides it, and all contexts, are archived."""
        to = [horizon(self.rule.shape, watermarks)]
        if self.context_queries:
            to.append(context_horizon(self.rule, self.context_queries, watermarks))
        known = [one for one in to if one is not None]
        return (
            min(known) - event_overlap(self.rule.definition).after
            if len(known) == len(to)
            else None
        )


class HistoryBuilder:
    """Looks for work on one connection, in one thread; does it on another, in any thread, one at a time."""

    def __init__(
        self,
        planning_connection: Connection[Any],
        execution_connection: Connection[Any],
        root: StorageRoot,
        schemas: Iterable[StreamSchema],
        relations: RelationVersions,
    ) -> None:
        self._planning, self._registry, self._catalog = (
            ViewStore(planning_connection),
            RuleRegistry(planning_connection),
            Catalog(planning_connection),
        )
        self._execution, self._execution_catalog, self._lock_connection = (
            ViewStore(execution_connection),
            Catalog(execution_connection),
            execution_connection,
        )
        self._schemas = {schema.name: schema for schema in schemas}
        self._lateness = {
            name: duration_to_micros(schema.lateness) for name, schema in self._schemas.items()
        }
        self._relations = relations
        self._reader = Reader(root, self._schemas.values())
        self._execution_lock = threading.Lock()
        self._attempts = Attempts()
        self._stream_builder = DerivedStreamBuilder(
            planning_connection, execution_connection, root, self._reader, relations, self._attempts
        )
        self._derived_streams: list[DerivedStreamVersion] = []
        self._index_builder = IndexBuilder(planning_connection, execution_connection, root)
        self._corpus_keys: list[CorpusKey] = []
        self._versions: dict[tuple[str, str], _VersionWithPast] = {}
        self._last_deployed: tuple[Mapping[tuple[str, str], tuple[int, int]], int] | None = None
        self._refreshed_for: set[tuple[str, str]] = set()
        self._complete_views: set[tuple[str, str, int, int]] = set()
        self._last_refresh = self._idle_since = -_POLL_INTERVAL

    # What is to be done

    def next_task(self) -> ViewTask | DerivedStreamTask | IndexTask | None:
        """What nobody asked for: a view of the newest chunk that is not old and has none, then derived streams, then
        the corpora of closed chunks."""
        now = time.monotonic()
        if now - self._idle_since < _POLL_INTERVAL:
            return None
        self._refresh_versions(now)
        if self._versions or self._derived_streams or self._corpus_keys:
            marks, chunks = self._catalog.watermarks(self._lateness), self._catalog.chunks()
            views = {key: self._planning.views(*key) for key in self._versions}
            for chunk in reversed([c for c in chunks if c.state in ("present", "recent")]):
                for key, known in self._versions.items():
                    work = self._plan_view(
                        known, chunk, marks, views[key].get(chunk.id), asked=False
                    )
                    if work is not None:
                        return work
            rows = self._stream_builder.next_task(self._derived_streams, chunks, marks)
            if rows is not None:
                return rows
            index = self._index_builder.next_task(self._corpus_keys, chunks)
            if index is not None:
                return index
        self._stream_builder.remove_unneeded(self._derived_streams, time.time())
        self._stream_builder.vacuum(self._derived_streams, time.monotonic())
        self._idle_since = now
        return None

    def required_task(self, rule: str, version: str, chunk: int) -> ViewTask | None:
        """The view that a recall of a rule's version needs before it can look at a chunk; None: it has all there is."""
        key = (rule, version)
        now = time.monotonic()
        if key not in self._refreshed_for or now - self._last_refresh >= _POLL_INTERVAL:
            self._refresh_versions(now)
            self._refreshed_for.add(key)
        known = self._versions.get(key)
        if known is None or (*key, chunk, known.corpus_from) in self._complete_views:
            return None
        part = next((c for c in self._catalog.chunks() if c.id == chunk), None)
        if part is None or part.state == "expired":
            return None
        view = self._planning.views(*key).get(chunk)
        wanted = view_end(part, known.corpus_from)
        if wanted is None or (
            view is not None and view.complete_until is not None and view.complete_until >= wanted
        ):
            self._complete_views.add((*key, chunk, known.corpus_from))
            return None
        return self._plan_view(
            known, part, self._catalog.watermarks(self._lateness), view, asked=True
        )

    def incomplete_chunks(self, rule: str, version: str) -> set[int]:
        """The chunks whose part of a rule's past is not whole."""
        known = self._versions.get((rule, version))
        if known is None:
            return set()
        views = self._planning.views(rule, version)
        chunks = [chunk for chunk in self._catalog.chunks() if chunk.state != "expired"]
        wanted = {chunk.id: view_end(chunk, known.corpus_from) for chunk in chunks}
        found = {
            chunk: view.complete_until
            for chunk, view in views.items()
            if view.complete_until is not None
        }
        return {
            chunk
            for chunk, to in wanted.items()
            if to is not None and (chunk not in found or found[chunk] < to)
        }

    def abandoned_chunks(self, rule: str, version: str) -> set[int]:
        """Those of them whose view is given up."""
        views = self._planning.views(rule, version)
        given_up = {chunk for chunk, view in views.items() if view.attempts >= MAX_ATTEMPTS}
        return given_up & self.incomplete_chunks(rule, version) if given_up else given_up

    def _refresh_versions(self, now: float) -> None:
        self._last_refresh = now
        deployed, revision = self._planning.deployed_versions(), self._registry.revision()
        if (deployed, revision) == self._last_deployed:
            return
        self._last_deployed, self._versions = (deployed, revision), {}
        # What is known of versions that run no more is asked again should they come back.
        self._refreshed_for.clear()
        self._complete_views.clear()
        times = {name: schema.time for name, schema in self._schemas.items()}
        definitions = [
            definition
            for definition in self._registry.desired_rules()
            if definition.rule.spec.enabled
        ]
        self._derived_streams = select_archived_streams(definitions, times, self._relations.names)
        self._corpus_keys = corpora_of_rules(definitions)
        for definition in definitions:
            found = deployed.get((definition.name, definition.version))
            if found is not None:
                tables = build_rule_tables(definition.rule, times, self._relations.names)
                try:
                    running = ActiveRule(
                        definition, tables, infer_event_shape(definition.rule, tables)
                    )
                    askings = [
                        prepare_context_query(running, ask, "pending")
                        for ask in build_context_queries(definition)
                    ]
                except Unsupported as error:
                    _LOG.error(
                        "no past", action="view_refused", rule=definition.name, error=str(error)
                    )
                    continue
                self._versions[definition.name, definition.version] = _VersionWithPast(
                    running, askings, *found
                )

    def _plan_view(
        self,
        known: _VersionWithPast,
        chunk: Chunk,
        marks: Mapping[str, int | None],
        view: View | None,
        asked: bool,
    ) -> ViewTask | None:
        part = range_to_find(
            chunk, known.corpus_from, known.findable_until(marks), view or View(None, 0)
        )
        if part is None:
            return None
        definition = known.rule.definition
        return ViewTask(
            definition.name, definition.version, chunk.id, *part, known.live_from, asked
        )

    # Doing it

    def execute(
        self, task: ViewTask | DerivedStreamTask | IndexTask, session: Callable[[], SparkSession]
    ) -> None:
        """Find what `work` names and store it, unless another process does."""
        with self._execution_lock, try_lock(self._lock_connection, *_lock_name(task)) as mine:
            if not mine:
                time.sleep(_POLL_INTERVAL)  # a while later it may be done
            elif isinstance(task, IndexTask):
                self._index_builder.execute(task)
            elif isinstance(task, DerivedStreamTask):
                self._stream_builder.execute(task, session())
            else:
                self._execute_view(task, session())

    def shut_down(self) -> None:
        """The process ends in good order: what is under way is left to the next, and was no try."""
        self._attempts.shut_down()

    def _execute_view(self, work: ViewTask, spark: SparkSession) -> None:
        """What cannot be found is said in the view."""
        known = self._versions.get((work.rule, work.version))
        view = self._execution.views(work.rule, work.version).get(work.chunk)
        if known is None or (view is not None and view.complete_until not in (None, work.low)):
            return  # it is not deployed any more, or another has been here
        if self._attempts.begin(
            partial(self._execution.count_attempt, work), partial(self._planning.undo_attempt, work)
        ):
            try:
                self._attempt(work, known.rule, spark)
            finally:
                self._attempts.finish()

    def _attempt(self, work: ViewTask, rule: ActiveRule, spark: SparkSession) -> None:
        try:
            count = self._find_past(work, rule, spark)
        except (
            PySparkException,
            Py4JJavaError,
            pa.ArrowException,
            LookupError,
            ValueError,
        ) as error:
            if self._attempts.is_shut_down:
                return
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._execution.record_failure(work, message)
            _LOG.error(
                "past not found",
                action="view_failed",
                rule=work.rule,
                chunk=work.chunk,
                error=message,
            )
            return
        _LOG.info("past found", action="view_found", rule=work.rule, chunk=work.chunk, events=count)

    def _find_past(self, work: ViewTask, rule: ActiveRule, spark: SparkSession) -> int:
        began = time.monotonic()
        definition, store = rule.definition, self._execution
        newest = max(
            (
                p.newest
                for p in self._execution_catalog.stream_progress().values()
                if p.newest is not None
            ),
            default=0,
        )
        finder = PastFinder(spark, self._reader, self._relations)
        beside = event_overlap(definition)
        low = None if work.low is None else work.low - beside.before
        events = finder.find_events(rule, low, work.high + beside.after)
        if definition.rule.spec.absent is not None:
            # What falls silent with the end of its input is not absent.
            events = [event for event in events if event.ts <= newest]
        of_rule = make_alerting_rule(definition)
        decided = decide(events, work, of_rule.timing, definition.rule.spec.recall_on == "every")
        missing = store.events_without_context(work, decided.corpus)
        store.put_events(of_rule, decided)
        store.put_contexts(work, missing, finder.compute_contexts(rule, missing))
        store.enter_corpus(work, decided.corpus)
        chunk = next(c for c in self._execution_catalog.chunks() if c.id == work.chunk)
        store.mark_complete(
            work, chunk.from_ts, of_rule.timing.keep_firing_for, time.monotonic() - began
        )
        return len(decided.events)


def _lock_name(work: ViewTask | DerivedStreamTask | IndexTask) -> tuple[str | int, ...]:
    """What several processes may want to do at the same time."""
    if isinstance(work, IndexTask):
        return "index", *map(str, work.key)
    if isinstance(work, DerivedStreamTask):
        return "stream", work.stream.name, work.stream.version, work.chunk
    return "view", work.rule, work.version, work.chunk
