"""The router: which engine reads a piece, and the cache of partial answers in front of both."""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

import orjson
import pyarrow as pa

from archiver.delta import DataFile
from archiver.read import WIDE_SCAN_ROWS
from recall.engines.answers import AnswerRows, MergedPartials, compute_answers
from recall.engines.derived_streams import DerivedStreamReader
from recall.engines.duckdb import (
    LocalEngine,
    WideScanEngine,
    is_merge_portable,
    to_portable,
)
from recall.engines.routing.choice import EngineChoice, EngineSetting
from recall.engines.routing.cost_model import EngineCosts
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.spark import SparkEngine
from recall.engines.template import EventPieces, EventTables, PartialQuery, Template, relabel_event
from recall.errors import ExecutorsAway, SparkRequired
from recall.requests import Piece, RecallEvent

_Result = TypeVar("_Result")

_WITHOUT_EXECUTORS = EngineChoice("local")
# Partial answers by event ID; an event without matching rows has none.
PartialAnswers = dict[str, pa.Table]


class EngineRouter:
    """The engines of one worker.

    `local` None: Spark runs all queries, as with the setting `spark`. `partial_cache` and `costs`
    are shared by all workers. With the setting `local`, the local engine runs all queries that it
    supports; with `auto`, the engine that was faster for the query and the size of its rows.
    While `are_executors_away`, the local engine runs what it supports, whatever the setting.
    `derived`: the archived derived streams, read by all engines. `choice`: which engines the
    worker may use. `wide_scans`: runs those that are left to Spark; None: Spark's statements do.
    """

    def __init__(
        self,
        spark: SparkEngine,
        local: LocalEngine | None,
        partial_cache: PartialCache,
        costs: EngineCosts | None = None,
        setting: EngineSetting = "auto",
        derived: DerivedStreamReader | None = None,
        wide_scans: WideScanEngine | None = None,
    ) -> None:
        self._derived = derived
        self._wide_scans = wide_scans
        self.spark = spark
        self._setting_choice = EngineChoice("spark" if local is None else setting)
        self._local_engine = local
        self.are_executors_away: Callable[[], bool] = lambda: False
        """Whether nothing runs the jobs of a cluster; whoever owns the sessions sets it."""
        self._partial_cache = partial_cache
        self._costs = costs if costs is not None else EngineCosts()

    @property
    def choice(self) -> EngineChoice:
        """Which engines the worker may use now."""
        if self._local_engine is not None and self.are_executors_away():
            return _WITHOUT_EXECUTORS
        return self._setting_choice

    @property
    def _local(self) -> LocalEngine | None:
        """The local engine, if the worker may use it now."""
        return self._local_engine if self.choice.allows_duckdb else None

    def cancel(self) -> None:
        """Cancel the running query; may be called from any thread."""
        self.spark.cancel()
        if self._wide_scans is not None:
            self._wide_scans.cancel()
        if self._local_engine is not None:
            self._local_engine.cancel()

    @contextmanager
    def snapshot(self, partial_queries: Sequence[PartialQuery]) -> Iterator[dict[str, int]]:
        """Pin the latest version of the archive; yields how many appends of each stream it has.

        Together with the pieces, the numbers of appends identify the rows that were read
        (`archiver.read.time_travel`).
        """
        spans = []
        for query in partial_queries:
            spans.append((query.template, query.range))
        try:
            yield self.spark.acquire(spans)
        finally:
            self.spark.release()

    def pinned_files(self, stream: str) -> Sequence[DataFile]:
        """The files of a stream in the version that `snapshot` has pinned."""
        return self.spark.pinned_files(stream)

    def shared_scan_stream(self, template: Template) -> str | None:
        """The stream that the query can scan together with other queries; None: it runs alone."""
        local = self._local
        if local is None or template.reads_event_tables:
            return None
        if not local.supports(template) or self._costs.is_excluded(template.query_key):
            return None
        return next(iter(template.partial.inputs.streams), None)

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> PartialAnswers:
        """The partial answers of some events from their pieces, over the pinned snapshot.

        Events with the same parameters and piece are computed once, also across calls.
        """
        return self.compute_partials([PartialQuery(template, event_pieces, event_tables)])[0]

    def compute_partials(self, partial_queries: Sequence[PartialQuery]) -> list[PartialAnswers]:
        """`compute_partial` for different queries; those of one stream share a scan if local."""
        lookups = list(map(self._look_up, partial_queries))
        misses = [lookup for lookup in lookups if lookup.query.event_pieces]
        computed = self._compute_uncached([lookup.query for lookup in misses])
        # Answers are cached one by one: if a later query fails, earlier ones are not repeated.
        for lookup, answers in zip(misses, computed, strict=True):
            self._store_answers(lookup, answers)
        return list(map(_answers_by_event, partial_queries, lookups))

    def compute_answers(
        self, template: Template, partials: MergedPartials, event_tables: EventTables
    ) -> dict[str, AnswerRows]:
        """The answers from merged partial answers, by event ID, rows in order."""

        def merge(events: Sequence[RecallEvent], values: pa.Table) -> dict[str, AnswerRows]:
            return _retry_without_executors(
                lambda: self.choice.run(
                    lambda: self._merge_locally(template, events, values),
                    lambda: self.spark.merge(template, events, values, event_tables),
                )
            )

        return compute_answers(template, partials, merge)

    def _merge_locally(
        self, template: Template, events: Sequence[RecallEvent], values: pa.Table
    ) -> dict[str, AnswerRows]:
        assert self._local_engine is not None
        return self._local_engine.merge(template, events, values)

    def _cache_key(
        self, template: Template, parameters: Sequence[str], event: RecallEvent, piece: Piece
    ) -> Hashable:
        values = orjson.dumps([event.attributes.get(name) for name in parameters])
        files = self.spark.list_files(template, piece.range)
        return template.query_key, values, piece.range, files

    def _look_up(self, query: PartialQuery) -> "_CacheLookup":
        """Look up a query; of events with the same key, one is left to compute."""
        parameters = query.template.parameters
        keys: dict[UUID, Hashable] = {}
        if parameters is None:
            # Each event has a partial answer of its own.
            for event, _ in query.event_pieces:
                keys[event.eid] = event.eid
            return _CacheLookup(query, keys, {})
        for event, piece in query.event_pieces:
            keys[event.eid] = self._cache_key(query.template, parameters, event, piece)
        cached = self._partial_cache.get(set(keys.values()))
        misses: dict[Hashable, tuple[RecallEvent, Piece]] = {}
        for event, piece in query.event_pieces:
            if keys[event.eid] not in cached:
                misses[keys[event.eid]] = event, piece
        return _CacheLookup(replace(query, event_pieces=list(misses.values())), keys, cached)

    def _store_answers(self, lookup: "_CacheLookup", answers: Mapping[str, pa.Table]) -> None:
        """Add computed answers to a lookup, and to the cache."""
        for event, _ in lookup.query.event_pieces:
            key = lookup.keys[event.eid]
            lookup.answers[key] = answers.get(str(event.eid))
            if lookup.query.template.parameters is not None:
                self._partial_cache.put(key, lookup.answers[key])

    def _compute_uncached(
        self, partial_queries: Sequence[PartialQuery]
    ) -> Iterator[PartialAnswers]:
        """Compute queries in order: in shared scans where possible, else one by one."""
        answers_by_number: dict[int, PartialAnswers] = {}
        if len(partial_queries) > 1:
            answers_by_number = self._compute_in_shared_scans(partial_queries)
        for number, query in enumerate(partial_queries):
            if number in answers_by_number:
                yield answers_by_number[number]
            else:
                yield _retry_without_executors(partial(self._compute_single, query))

    def _compute_in_shared_scans(
        self, partial_queries: Sequence[PartialQuery]
    ) -> dict[int, PartialAnswers]:
        """Compute the queries that share a stream; the answers by position of the query."""
        sizes_by_stream: dict[str, dict[int, float]] = {}
        local = self._local
        for number, query in enumerate(partial_queries):
            stream = self.shared_scan_stream(query.template)
            if local is not None and stream is not None:
                megabytes = local.estimate_megabytes(query.template, query.event_pieces)
                if self._prefers_local(query, megabytes):
                    sizes_by_stream.setdefault(stream, {})[number] = megabytes
        answers_by_number: dict[int, PartialAnswers] = {}
        for sizes in sizes_by_stream.values():
            if len(sizes) > 1:
                queries = [partial_queries[number] for number in sizes]
                with suppress(SparkRequired):
                    answers = self._compute_locally(queries, list(sizes.values()))
                    answers_by_number.update(zip(sizes, answers, strict=True))
        return answers_by_number

    def _compute_single(self, query: PartialQuery) -> PartialAnswers:
        if self._derived is not None:
            template = self._derived.read_archived(query.template, query.range)
            query = replace(query, template=template)
        local = self._local
        if local is None or not local.supports(query.template):
            return self._compute_with_spark(query)
        megabytes = local.estimate_megabytes(query.template, query.event_pieces)

        if not self._prefers_local(query, megabytes):
            return self._measure_spark(query, megabytes)

        def compute_locally() -> PartialAnswers:
            try:
                return self._compute_locally([query], [megabytes])[0]
            except SparkRequired:
                self._costs.exclude_from_shared_scans(query.template.query_key)
                raise

        return self.choice.run(compute_locally, lambda: self._measure_spark(query, megabytes))

    def _measure_spark(self, query: PartialQuery, megabytes: float) -> PartialAnswers:
        """Run a query that both engines support with Spark, and record its cost."""
        began = time.monotonic()
        was_running = self.spark.is_spark_running
        answers = self._compute_with_spark(query)
        if was_running:  # else the time contains the start of Spark
            model = self._costs.model_for(query.template.query_key, "spark")
            model.update(megabytes, time.monotonic() - began)
        return answers

    def _compute_with_spark(self, query: PartialQuery) -> PartialAnswers:
        """Run a query on executors: in tasks if it is a wide scan, else as one statement."""
        if (
            self._wide_scans is not None
            and self._wide_scans.supports(query.template)
            and self.choice.runs_in_tasks(self._wide_scans.count_rows(query))
        ):
            with suppress(SparkRequired):
                return self._wide_scans.compute_partial(
                    query.template, query.event_pieces, query.event_tables
                )
        return self.spark.compute_partial(query.template, query.event_pieces, query.event_tables)

    def _prefers_local(self, query: PartialQuery, megabytes: float) -> bool:
        """Whether the local engine runs a query that both engines support."""
        if not self.choice.measures_costs:
            return True
        engine = self._costs.cheaper_engine(
            query.template.query_key, megabytes, self.spark.is_spark_running
        )
        return engine == "local"

    def _compute_locally(
        self, partial_queries: Sequence[PartialQuery], sizes: Sequence[float]
    ) -> list[PartialAnswers]:
        """Run queries in one scan and record their costs; `sizes` in megabytes."""
        assert self._local_engine is not None
        began = time.monotonic()
        answers = self._local_engine.compute_partials(partial_queries)
        seconds_per_query = (time.monotonic() - began) / len(partial_queries)
        for query, megabytes in zip(partial_queries, sizes, strict=True):
            model = self._costs.model_for(query.template.query_key, "local")
            model.update(megabytes, seconds_per_query)
        return answers


def _retry_without_executors(compute: Callable[[], _Result]) -> _Result:
    """The second time it is known that executors are away: what can run here does."""
    try:
        return compute()
    except ExecutorsAway:
        return compute()


@dataclass(frozen=True)
class _CacheLookup:
    """The result of a cache lookup.

    `query`: what is left to compute. `keys`: the cache key by event ID. `answers`: by cache key;
    None: no matching rows.
    """

    query: PartialQuery
    keys: Mapping[UUID, Hashable]
    answers: dict[Hashable, pa.Table | None]


def _answers_by_event(query: PartialQuery, lookup: _CacheLookup) -> PartialAnswers:
    """The partial answer of each event of a query."""
    answers = {}
    for event, _ in query.event_pieces:
        table = lookup.answers.get(lookup.keys[event.eid])
        if table is not None:
            eid = str(event.eid)
            answers[eid] = relabel_event(eid, table)
    return answers


@dataclass(frozen=True)
class EngineDecision:
    """Which engine reads history for a query, and why.

    `either`: both can; measured times decide for each piece.
    """

    engine: Literal["either", "local", "spark"]
    reason: str


_SPARK_SETTING = "recall.engine of the workspace is spark"
_WIDE_SCANS = f"tasks on executors read files with {WIDE_SCAN_ROWS:,} rows or more by DuckDB"


def explain_engine(
    template: Template, columns: Mapping[str, Mapping[str, str]], setting: EngineSetting
) -> EngineDecision:
    """Which engine runs a query. `columns`: by stream, with their types."""
    choice = EngineChoice(setting)
    stream_columns: Mapping[str, str] = {}
    for stream in template.partial.inputs.streams:
        stream_columns = columns[stream]
        break
    try:
        to_portable(template, stream_columns)
    except SparkRequired as reason:
        if not choice.allows_duckdb:
            reason = SparkRequired(f"{_SPARK_SETTING}; one statement of Spark: {reason}")
        return EngineDecision("spark", str(reason))
    if not choice.allows_duckdb:
        return EngineDecision("spark", f"{_SPARK_SETTING}; {_WIDE_SCANS}")
    if not choice.measures_costs:
        return EngineDecision("local", "recall.engine of the workspace is local")
    return EngineDecision(
        "either",
        "both engines give the same answer: the faster one is chosen for each piece; in Spark, "
        + _WIDE_SCANS,
    )


def runs_in_duckdb(template: Template, columns: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether DuckDB can run all of a query, its merge included. Raises `Unsupported`."""
    merge_is_portable = is_merge_portable(template)
    if template.split.direct_columns is not None and not template.split.has_sketches:
        merge_is_portable = True
    return merge_is_portable and explain_engine(template, columns, "local").engine == "local"
