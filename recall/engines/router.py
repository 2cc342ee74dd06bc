"""Which engine reads a piece: this process where it is known to answer as Spark does, else Spark."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

import orjson
import pyarrow as pa

from recall.engines.answers import AnswerRows, MergedPartials, MergeFunction, compute_answers
from recall.engines.cost_model import EngineCosts
from recall.engines.derived_streams import DerivedStreamReader
from recall.engines.local import LocalEngine
from recall.engines.partial_cache import PartialCache
from recall.engines.portable import to_portable
from recall.engines.spark import SparkEngine
from recall.engines.template import EventPieces, EventTables, PartialQuery, Template, relabel_event
from recall.errors import SparkRequired
from recall.requests import Piece, RecallEvent, enclosing_range

EngineSetting = Literal["auto", "spark", "local"]


class EngineRouter:
    """The engines of one worker. `local` None: the workspace says that Spark reads all. `kept` and
    `costs`: shared by workers; with `local` chosen, it reads whatever it serves.
    """

    def __init__(
        self,
        spark: SparkEngine,
        local: LocalEngine | None,
        partial_cache: PartialCache,
        costs: EngineCosts | None = None,
        setting: EngineSetting = "auto",
        derived: DerivedStreamReader | None = None,
    ) -> None:
        """`derived`: what is archived of derived streams, for readers that both engines share."""
        self._derived = derived
        self.spark = spark
        self._local = local
        self._partial_cache = partial_cache
        self._costs = costs if costs is not None else EngineCosts()
        self._setting = setting

    @property
    def has_local_engine(self) -> bool:
        """Whether what is sure to be the same may be computed in this process."""
        return self._local is not None

    def cancel(self) -> None:
        """End what these engines are asked now; may be called by another thread."""
        self.spark.cancel()
        if self._local is not None:
            self._local.cancel()

    @contextmanager
    def snapshot(self, partial_queries: Sequence[PartialQuery]) -> Iterator[dict[str, int]]:
        """See what was archived since, and no more as long as something is asked of it: how many
        appends that is of each stream that the questions read. With the pieces, this tells the rows
        that their answers come from (`archiver.read.time_travel`).
        """
        try:
            yield self.spark.acquire(
                [
                    (ask.template, *enclosing_range(piece for _, piece in ask.event_pieces))
                    for ask in partial_queries
                ]
            )
        finally:
            self.spark.release()

    def shared_scan_stream(self, template: Template) -> str | None:
        """The stream of a question that may be read together with others about it; None: it is
        asked by itself.
        """
        if (
            self._local is None
            or not self._local.supports(template)
            or self._costs.is_excluded(template.query_key)
        ):
            return None
        return (
            None
            if template.reads_event_tables
            else next(iter(template.partial.inputs.streams), None)
        )

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows
        has none. It is of the archive as it is looked at.

        Events that ask the same of the same piece are answered once, also those that ask later.
        """
        return self.compute_partials([PartialQuery(template, event_pieces, event_tables)])[0]

    def compute_partials(
        self, partial_queries: Sequence[PartialQuery]
    ) -> list[dict[str, pa.Table]]:
        """See `partial`: of questions of different texts. Those about one stream that this process
        answers are read in one scan.
        """
        wanted = [self._look_up(ask) for ask in partial_queries]
        left = [one for one in wanted if one.query.event_pieces]
        # Each is kept as it comes: where a later one fails, those before it are not read again.
        for one, more in zip(
            left, self._compute_uncached([one.query for one in left]), strict=True
        ):
            self._store_answers(one, more)
        return [
            _answers_by_event(ask, one) for ask, one in zip(partial_queries, wanted, strict=True)
        ]

    def compute_answers(
        self, template: Template, partials: MergedPartials, event_tables: EventTables
    ) -> dict[str, AnswerRows]:
        """What each event's merged partial answers say, as rows in their order."""
        merges: list[MergeFunction] = [] if self._local is None else [self._local.merge]
        merges.append(
            lambda asking, events, values: self.spark.merge(asking, events, values, event_tables)
        )
        return compute_answers(template, partials, merges)

    def _cache_key(
        self, template: Template, parameters: Sequence[str], asked: RecallEvent, piece: Piece
    ) -> Hashable:
        _, low, high = piece
        values = orjson.dumps([asked.attributes.get(name) for name in parameters])
        return template.query_key, values, low, high, self.spark.list_files(template, low, high)

    def _look_up(self, ask: PartialQuery) -> "_CacheLookup":
        """What of a question is not known yet: one event for all that ask the same."""
        parameters = ask.template.parameters
        if parameters is None:
            return _CacheLookup(ask, {asked.eid: asked.eid for asked, _ in ask.event_pieces}, {})
        keys = {
            asked.eid: self._cache_key(ask.template, parameters, asked, piece)
            for asked, piece in ask.event_pieces
        }
        found = self._partial_cache.get(set(keys.values()))
        left = {
            keys[asked.eid]: (asked, piece)
            for asked, piece in ask.event_pieces
            if keys[asked.eid] not in found
        }
        return _CacheLookup(replace(ask, event_pieces=list(left.values())), keys, found)

    def _store_answers(self, one: "_CacheLookup", more: Mapping[str, pa.Table]) -> None:
        """Take in what was read, and keep it for those who ask later."""
        for asked, _ in one.query.event_pieces:
            key = one.keys[asked.eid]
            one.answers[key] = more.get(str(asked.eid))
            if one.query.template.parameters is not None:
                self._partial_cache.put(key, one.answers[key])

    def _compute_uncached(self, asks: Sequence[PartialQuery]) -> Iterator[dict[str, pa.Table]]:
        """What questions find: together where several are about one stream, which this process
        answers sooner.
        """
        found = self._compute_in_shared_scans(asks) if len(asks) > 1 else {}
        for number, ask in enumerate(asks):
            yield found[number] if number in found else self._compute_single(ask)

    def _compute_in_shared_scans(
        self, asks: Sequence[PartialQuery]
    ) -> dict[int, dict[str, pa.Table]]:
        """By their places, what those questions find that are read with others."""
        found: dict[int, dict[str, pa.Table]] = {}
        here: dict[str, dict[int, float]] = {}
        for number, ask in enumerate(asks):
            stream = self.shared_scan_stream(ask.template)
            if self._local is not None and stream is not None:
                size = self._local.estimate_megabytes(ask.template, ask.event_pieces)
                if self._prefers_local(ask, size):
                    here.setdefault(stream, {})[number] = size
        for sizes in here.values():
            if len(sizes) > 1:
                with suppress(SparkRequired):
                    answers = self._compute_locally(
                        [asks[number] for number in sizes], list(sizes.values())
                    )
                    found |= zip(sizes, answers, strict=True)
        return found

    def _compute_single(self, ask: PartialQuery) -> dict[str, pa.Table]:
        if self._derived is not None:
            ask = replace(
                ask,
                template=self._derived.read_archived(
                    ask.template, *enclosing_range(piece for _, piece in ask.event_pieces)
                ),
            )
        if self._local is None or not self._local.supports(ask.template):
            return self.spark.compute_partial(ask.template, ask.event_pieces, ask.event_tables)
        size = self._local.estimate_megabytes(ask.template, ask.event_pieces)
        if self._prefers_local(ask, size):
            try:
                return self._compute_locally([ask], [size])[0]
            except SparkRequired:
                self._costs.exclude_from_shared_scans(ask.template.query_key)
        began, started = time.monotonic(), self.spark.is_spark_running
        found = self.spark.compute_partial(ask.template, ask.event_pieces, ask.event_tables)
        if started:
            self._costs.model_for(ask.template.query_key, "spark").update(
                size, time.monotonic() - began
            )
        return found

    def _prefers_local(self, ask: PartialQuery, size: float) -> bool:
        """Whether this process is to answer what both engines can; `size` in megabytes."""
        return self._setting == "local" or (
            self._costs.cheaper_engine(ask.template.query_key, size, self.spark.is_spark_running)
            == "local"
        )

    def _compute_locally(
        self, asks: Sequence[PartialQuery], sizes: Sequence[float]
    ) -> list[dict[str, pa.Table]]:
        assert self._local is not None
        began = time.monotonic()
        found = self._local.compute_partials(asks)
        each = (time.monotonic() - began) / len(asks)
        for ask, size in zip(asks, sizes, strict=True):
            self._costs.model_for(ask.template.query_key, "local").update(size, each)
        return found


@dataclass(frozen=True)
class _CacheLookup:
    """What is left of a question to be read; by eid, what tells its events' answers apart; and
    those that are known.
    """

    query: PartialQuery
    keys: Mapping[UUID, Hashable]
    answers: dict[Hashable, pa.Table | None]


def _answers_by_event(ask: PartialQuery, known: _CacheLookup) -> dict[str, pa.Table]:
    """The answers to each event of a question."""
    answers = {asked.eid: known.answers.get(known.keys[asked.eid]) for asked, _ in ask.event_pieces}
    return {
        str(eid): relabel_event(str(eid), table)
        for eid, table in answers.items()
        if table is not None
    }


@dataclass(frozen=True)
class EngineDecision:
    """Who reads history for a question, and why: `either` of both, whoever is measured to be
    sooner.
    """

    engine: Literal["either", "local", "spark"]
    reason: str


def explain_engine(
    template: Template, columns: Mapping[str, Mapping[str, str]], setting: EngineSetting
) -> EngineDecision:
    """Who is to read; `columns`: of all streams, with their types; `choice`: what the workspace
    says.
    """
    if setting == "spark":
        return EngineDecision("spark", "recall.engine of the workspace is spark")
    streams = template.partial.inputs.streams
    try:
        to_portable(template, columns[next(iter(streams))] if streams else {})
    except SparkRequired as reason:
        return EngineDecision("spark", str(reason))
    if setting == "local":
        return EngineDecision("local", "recall.engine of the workspace is local")
    return EngineDecision(
        "either",
        "DuckDB in the recall process and Spark answer alike: whichever has been sooner, by file size",
    )
