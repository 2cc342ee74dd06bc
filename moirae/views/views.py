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

from archiver.catalog import Catalog
from archiver.chunk import Chunk
from archiver.place import Root
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.times import span
from moirae.alerts.source import source
from moirae.deployments.registry import Registry
from moirae.judging import around
from moirae.judging.around import Asking, asking
from moirae.judging.plan import Running, horizon
from moirae.rules.definition import event_shape, tables_of
from moirae.rules.requests import asks
from moirae.views.claim import claimed
from moirae.views.derived import DerivedStream, DerivedStreams, StreamWork, needed
from moirae.views.find import Finder, Related
from moirae.views.indexes import Indexes, IndexWork, compared
from moirae.views.plan import TRIES, View, Work, decide, goal, overlap, span_to_find
from moirae.views.store import ViewStore
from moirae.views.trying import Trying
from recall.corpora import Name
from recall.query.shape import Unsupported

_LOG = structlog.get_logger()

# Seconds between two looks for something to do, and at what is deployed.
_LOOK = 1.0


@dataclass(frozen=True)
class _Known:
    """A version of a rule that runs and has a past; microseconds of event time."""

    rule: Running
    askings: Sequence[Asking]
    live_from: int
    corpus_from: int

    def found_to(self, marks: Mapping[str, int | None]) -> int | None:
        """Up to where the past can be found: where all that decides it, and all contexts, are archived."""
        to = [horizon(self.rule.shape, marks)]
        if self.askings:
            to.append(around.horizon(self.rule, self.askings, marks))
        known = [one for one in to if one is not None]
        return min(known) - overlap(self.rule.definition).after if len(known) == len(to) else None


class Views:
    """Looks for work on one connection, in one thread; does it on another, in any thread, one at a time."""

    def __init__(
        self,
        looking: Connection[Any],
        working: Connection[Any],
        root: Root,
        schemas: Iterable[StreamSchema],
        relations: Related,
    ) -> None:
        self._looking, self._registry, self._catalog = ViewStore(looking), Registry(looking), Catalog(looking)
        self._working, self._marks_of_work, self._claims = ViewStore(working), Catalog(working), working
        self._schemas = {schema.name: schema for schema in schemas}
        self._lateness = {name: span(schema.lateness) for name, schema in self._schemas.items()}
        self._relations = relations
        self._reader = Reader(root, self._schemas.values())
        self._doing = threading.Lock()
        self._trying = Trying()
        self._streams = DerivedStreams(looking, working, root, self._reader, relations, self._trying)
        self._derived: list[DerivedStream] = []
        self._indexes = Indexes(looking, working, root)
        self._compared: list[Name] = []
        self._known: dict[tuple[str, str], _Known] = {}
        self._seen: tuple[Mapping[tuple[str, str], tuple[int, int]], int] | None = None
        self._asked: set[tuple[str, str]] = set()
        self._whole: set[tuple[str, str, int, int]] = set()
        self._looked = self._idle_since = -_LOOK

    # What is to be done

    def next(self) -> Work | StreamWork | IndexWork | None:
        """What nobody asked for: a view of the newest chunk that is not old and has none, then derived streams, then
        the corpora of closed chunks."""
        now = time.monotonic()
        if now - self._idle_since < _LOOK:
            return None
        self._look(now)
        if self._known or self._derived or self._compared:
            marks, chunks = self._catalog.watermarks(self._lateness), self._catalog.chunks()
            views = {key: self._looking.views(*key) for key in self._known}
            for chunk in reversed([c for c in chunks if c.state in ("present", "recent")]):
                for key, known in self._known.items():
                    work = self._work(known, chunk, marks, views[key].get(chunk.id), asked=False)
                    if work is not None:
                        return work
            rows = self._streams.next(self._derived, chunks, marks)
            if rows is not None:
                return rows
            index = self._indexes.next(self._compared, chunks)
            if index is not None:
                return index
        self._streams.forget(self._derived, time.time())
        self._streams.sweep(self._derived, time.monotonic())
        self._idle_since = now
        return None

    def wanted(self, rule: str, version: str, chunk: int) -> Work | None:
        """The view that a recall of a rule's version needs before it can look at a chunk; None: it has all there is."""
        key = (rule, version)
        now = time.monotonic()
        if key not in self._asked or now - self._looked >= _LOOK:
            self._look(now)
            self._asked.add(key)
        known = self._known.get(key)
        if known is None or (*key, chunk, known.corpus_from) in self._whole:
            return None
        part = next((c for c in self._catalog.chunks() if c.id == chunk), None)
        if part is None or part.state == "expired":
            return None
        view = self._looking.views(*key).get(chunk)
        wanted = goal(part, known.corpus_from)
        if wanted is None or (view is not None and view.upto is not None and view.upto >= wanted):
            self._whole.add((*key, chunk, known.corpus_from))
            return None
        return self._work(known, part, self._catalog.watermarks(self._lateness), view, asked=True)

    def missing(self, rule: str, version: str) -> set[int]:
        """The chunks whose part of a rule's past is not whole."""
        known = self._known.get((rule, version))
        if known is None:
            return set()
        views = self._looking.views(rule, version)
        chunks = [chunk for chunk in self._catalog.chunks() if chunk.state != "expired"]
        wanted = {chunk.id: goal(chunk, known.corpus_from) for chunk in chunks}
        found = {chunk: view.upto for chunk, view in views.items() if view.upto is not None}
        return {chunk for chunk, to in wanted.items() if to is not None and (chunk not in found or found[chunk] < to)}

    def lost(self, rule: str, version: str) -> set[int]:
        """Those of them whose view is given up."""
        views = self._looking.views(rule, version)
        given_up = {chunk for chunk, view in views.items() if view.tries >= TRIES}
        return given_up & self.missing(rule, version) if given_up else given_up

    def _look(self, now: float) -> None:
        self._looked = now
        deployed, revision = self._looking.deployed(), self._registry.revision()
        if (deployed, revision) == self._seen:
            return
        self._seen, self._known = (deployed, revision), {}
        # What is known of versions that run no more is asked again should they come back.
        self._asked.clear()
        self._whole.clear()
        times = {name: schema.time for name, schema in self._schemas.items()}
        definitions = [definition for definition in self._registry.desired() if definition.rule.spec.enabled]
        self._derived = needed(definitions, times, self._relations.names)
        self._compared = compared(definitions)
        for definition in definitions:
            found = deployed.get((definition.name, definition.version))
            if found is not None:
                tables = tables_of(definition.rule, times, self._relations.names)
                try:
                    running = Running(definition, tables, event_shape(definition.rule, tables))
                    askings = [asking(running, ask, "pending") for ask in asks(definition)]
                except Unsupported as error:
                    _LOG.error("no past", action="view_refused", rule=definition.name, error=str(error))
                    continue
                self._known[definition.name, definition.version] = _Known(running, askings, *found)

    def _work(
        self, known: _Known, chunk: Chunk, marks: Mapping[str, int | None], view: View | None, asked: bool
    ) -> Work | None:
        part = span_to_find(chunk, known.corpus_from, known.found_to(marks), view or View(None, 0))
        if part is None:
            return None
        definition = known.rule.definition
        return Work(definition.name, definition.version, chunk.id, *part, known.live_from, asked)

    # Doing it

    def make(self, work: Work | StreamWork | IndexWork, session: Callable[[], SparkSession]) -> None:
        """Find what `work` names and store it, unless another process does."""
        with self._doing, claimed(self._claims, *_name(work)) as mine:
            if not mine:
                time.sleep(_LOOK)  # a while later it may be done
            elif isinstance(work, IndexWork):
                self._indexes.make(work)
            elif isinstance(work, StreamWork):
                self._streams.make(work, session())
            else:
                self._make(work, session())

    def end(self) -> None:
        """The process ends in good order: what is under way is left to the next, and was no try."""
        self._trying.end()

    def _make(self, work: Work, spark: SparkSession) -> None:
        """What cannot be found is said in the view."""
        known = self._known.get((work.rule, work.version))
        view = self._working.views(work.rule, work.version).get(work.chunk)
        if known is None or (view is not None and view.upto not in (None, work.low)):
            return  # it is not deployed any more, or another has been here
        if self._trying.begin(partial(self._working.begin, work), partial(self._looking.untried, work)):
            try:
                self._try(work, known.rule, spark)
            finally:
                self._trying.done()

    def _try(self, work: Work, rule: Running, spark: SparkSession) -> None:
        try:
            count = self._find(work, rule, spark)
        except (PySparkException, Py4JJavaError, pa.ArrowException, LookupError, ValueError) as error:
            if self._trying.ended:
                return
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._working.failed(work, message)
            _LOG.error("past not found", action="view_failed", rule=work.rule, chunk=work.chunk, error=message)
            return
        _LOG.info("past found", action="view_found", rule=work.rule, chunk=work.chunk, events=count)

    def _find(self, work: Work, rule: Running, spark: SparkSession) -> int:
        began = time.monotonic()
        definition, store = rule.definition, self._working
        newest = max((p.newest for p in self._marks_of_work.progress().values() if p.newest is not None), default=0)
        finder = Finder(spark, self._reader, self._relations)
        beside = overlap(definition)
        low = None if work.low is None else work.low - beside.before
        events = finder.events(rule, low, work.high + beside.after)
        if definition.rule.spec.absent is not None:
            # What falls silent with the end of its input is not absent.
            events = [event for event in events if event.ts <= newest]
        of_rule = source(definition)
        decided = decide(events, work, of_rule.timing, definition.rule.spec.recall_on == "every")
        missing = store.without_context(work, decided.corpus)
        store.put_events(of_rule, decided)
        store.put_contexts(work, missing, finder.contexts(rule, missing))
        store.enter_corpus(work, decided.corpus)
        chunk = next(c for c in self._marks_of_work.chunks() if c.id == work.chunk)
        store.done(work, chunk.from_ts, of_rule.timing.keep, time.monotonic() - began)
        return len(decided.events)


def _name(work: Work | StreamWork | IndexWork) -> tuple[str | int, ...]:
    """What several processes may want to do at the same time."""
    if isinstance(work, IndexWork):
        return "index", *map(str, work.name)
    if isinstance(work, StreamWork):
        return "stream", work.stream.name, work.stream.version, work.chunk
    return "view", work.rule, work.version, work.chunk
