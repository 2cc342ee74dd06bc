"""Answers with summaries equal those of the full recall: over any range, whatever happened before.

Chunks close and expire, rows come late, files are clustered, and summaries are computed at any time
between. Numbers include NULL, NaN and infinities; rows lie on the borders of chunks and of ranges.
"""

import math
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from archiver.times import to_micros
from recall.engines.answers import to_json_value
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import PartialQuery, Template
from recall.operators import aggregate_values
from recall.replay.differences import describe_difference
from recall.requests import ChunkRange, Piece, RecallEvent, SqlQuestion
from recall.summaries import plan
from recall.summaries.answers import compute_partials
from recall.summaries.model import SummaryShape, plan_shapes
from recall.summaries.nodes import NodeBuilder
from recall.summaries.shape import declared_shape, find_use
from recall.summaries.store import SummaryStore
from tests.integration.history import no_relations, no_spark

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "slice": "int",
    "v": "double",
    "n": "bigint",
    "f": "float",
    "ok": "boolean",
}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
CHUNK_SECONDS = 10
CHUNKS = 24
ATTRIBUTES = {"host": "string", "slice": "bigint"}
QUERIES = (
    "SELECT count(*) AS n, sum(x.n) AS total, avg(x.v) AS mean, min(x.v) AS low, max(x.f) AS top "
    "FROM s x WHERE x.host = event.host",
    "SELECT stddev(v) AS sd, variance(n) AS var, var_pop(f) AS pop, count(v) AS c FROM s "
    "WHERE event.host = host AND slice = event.slice",
    "SELECT slice, count(*) FILTER (WHERE v > 1) AS many, bool_or(ok) AS any, max(ts) AS last FROM s "
    "WHERE host = event.host GROUP BY slice HAVING count(*) > 1",
    "SELECT host, slice, sum(v) / count(*) AS mean FROM s WHERE n > 0 GROUP BY host, slice "
    "ORDER BY host, slice LIMIT 5",
    "SELECT avg(n) + event.slice AS shifted, count(*) AS c FROM s WHERE slice = 1 AND v IS NOT NULL",
    "SELECT count(DISTINCT slice) AS slices, count(*) AS c FROM s WHERE host IN (event.host, 'b', 'a')",
    "SELECT ok, count(DISTINCT host) AS hosts, count(DISTINCT n) AS ns FROM s "
    "WHERE slice IN (1, event.slice) GROUP BY ok",
    "SELECT sum(n) AS total FROM s WHERE host IN ('a', '')",
    "SELECT DISTINCT host FROM s WHERE slice = event.slice",
)
ROW = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["a", "b", "", None]),
        "slice": st.sampled_from([1, 2, None]),
        "v": st.one_of(
            st.none(),
            st.sampled_from([math.nan, math.inf, -0.0, 0.0, 1e200]),
            st.floats(-1000, 1000),
        ),
        "n": st.one_of(st.none(), st.integers(-5, 5), st.just(1 << 53)),
        "f": st.sampled_from([None, math.nan, 0.5, 3.25]),
        "ok": st.sampled_from([None, True, False]),
    }
)
# The second of each row in its chunk: often the first or the last.
ROWS = st.lists(st.tuples(st.sampled_from([0, 0, 3, CHUNK_SECONDS - 1]), ROW), max_size=12)
ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, CHUNKS - 1), ROWS),
    st.tuples(st.just("cluster"), st.integers(0, CHUNKS - 1), st.none()),
    st.tuples(st.just("close"), st.integers(1, 6), st.none()),
    st.tuples(st.just("expire"), st.integers(0, 3), st.none()),
    st.tuples(st.just("build"), st.none(), st.none()),
    st.tuples(
        st.just("ask"),
        st.integers(0, len(QUERIES) - 1),
        st.tuples(st.integers(0, CHUNKS * CHUNK_SECONDS), st.integers(0, CHUNKS * CHUNK_SECONDS)),
    ),
)


def template(sql: str) -> Template:
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, (), {}, ATTRIBUTES, {}, {}))


def wanted_shapes() -> list[SummaryShape]:
    shapes = [find_use(template(sql), SCHEMA.query_columns).shape for sql in QUERIES[:-1]]
    shapes.append(declared_shape("s", "ts", SCHEMA.query_columns, ("host", "slice"), ("v",)))
    return list(plan_shapes(dict.fromkeys(shapes, True)))


def second(number: int) -> int:
    return to_micros(START + timedelta(seconds=number))


def chunk_range(chunk: int) -> TimeRange:
    start = None if chunk == 0 else second(chunk * CHUNK_SECONDS)
    return TimeRange(start, second((chunk + 1) * CHUNK_SECONDS))


class Archive:
    """A stream with closed chunks from `first` on, before `open`; and its summaries."""

    def __init__(self, root: Path, spark: SparkSession | None) -> None:
        self.table = StreamTable(root, SCHEMA)
        self.first, self.open = 0, 8
        self.store = SummaryStore(root, Reader(root, [SCHEMA]))
        self.nodes = NodeBuilder(self.store, settle_time=0.0)
        self.shapes = wanted_shapes()
        reader = Reader(root, [SCHEMA])
        local = LocalEngine(reader) if spark is None else None
        session = no_spark if spark is None else lambda: spark
        self.engines = EngineRouter(
            SparkEngine(session, reader, no_relations), local, PartialCache()
        )
        self.summarised = 0

    def append(self, chunk: int, rows: Sequence[tuple[int, dict[str, Any]]]) -> None:
        if not rows or chunk < self.first:
            return
        arrow = SCHEMA.arrow_schema()
        columns: dict[str, Any] = {f.name: pa.nulls(len(rows), f.type) for f in arrow}
        for name in COLUMNS.keys() - {"ts"}:
            values = [row[name] for _, row in rows]
            columns[name] = pa.array(values, arrow.field(name).type)
        times = [START + timedelta(seconds=chunk * CHUNK_SECONDS + at) for at, _ in rows]
        columns["ts"] = pa.array(times, arrow.field("ts").type)
        columns["_late"] = pa.array([chunk < self.open] * len(rows))
        columns["chunk"] = pa.array([chunk] * len(rows), pa.int32())
        names = [name for name in arrow.names if name != "_append"]
        self.table.append(pa.table(columns).select(names), chunk)

    def act(self, action: tuple[Any, Any, Any]) -> None:
        match action:
            case "append", chunk, rows:
                self.append(chunk, rows)
            case "cluster", chunk, _:
                if self.first <= chunk < self.open:
                    self.table.cluster(chunk)
            case "close", number, _:
                self.open = min(self.open + number, CHUNKS)
            case "expire", number, _:
                for chunk in range(self.first, min(self.first + number, self.open)):
                    self.table.delete_chunk(chunk)
                    self.first = chunk + 1
            case "build", _, _:
                self.build()
            case "ask", query, (begin, length):
                self.ask(QUERIES[query], begin, length)

    def follow(self) -> None:
        """Use the summaries that there are."""
        chunks = [ChunkRange(chunk, chunk_range(chunk)) for chunk in range(self.first, self.open)]
        self.store.replace(self.shapes, chunks)
        self.store.reader.refresh()
        for summary in self.store.summaries:
            self.nodes.follow(summary)

    def build(self) -> None:
        self.follow()
        for summary in self.store.summaries:
            while self.nodes.update(summary, is_required=True):
                pass

    def ask(self, sql: str, begin: int, length: int) -> None:
        """Compare with the full recall, for several events in one query."""
        low = max(begin, self.first * CHUNK_SECONDS)
        asked = template(sql)
        event_pieces: list[tuple[RecallEvent, Piece]] = []
        for number, (host, slice_) in enumerate([("a", 1), ("", 2), (None, 1), ("z", None)]):
            event = RecallEvent(
                UUID(int=number + 1), second(low + length), {}, {"host": host, "slice": slice_}
            )
            start = None if begin == 0 and self.first == 0 else second(low)
            event_pieces.append((event, Piece(0, start, second(low + length - number))))
        query = PartialQuery(asked, event_pieces, {})
        with self.engines.snapshot([query]):
            (full,) = compute_partials(self.engines, None, [query])
            (fast,) = compute_partials(self.engines, self.store, [query])
        self.summarised += sum(fast.chunks.values())
        for event, _ in event_pieces:
            eid = str(event.eid)
            rows = [
                merged_values(asked, partials.get(eid), eid)
                for partials in (full.partials, fast.partials)
            ]
            difference = describe_difference(*rows, ordered=False)
            assert difference is None, (sql, event, difference)


def merged_values(asked: Template, partial: pa.Table | None, eid: str) -> list[dict[str, Any]]:
    """What HAVING, outputs and ORDER BY of an answer are computed from."""
    table = aggregate_values(asked.split, partial, eid, {})
    if table is None:
        return []
    return [
        {name: to_json_value(value) for name, value in row.items()} for row in table.to_pylist()
    ]


SPREAD = [
    (at, {"host": host, "slice": slice_, "v": float(at), "n": at, "f": 0.5, "ok": at > 3})
    for at in (0, 3, CHUNK_SECONDS - 1)
    for host in ("a", "b", "")
    for slice_ in (1, 2)
]


def run(
    actions: Sequence[tuple[Any, Any, Any]],
    spark: SparkSession | None,
    queries: Sequence[str] = QUERIES,
) -> Archive:
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder), spark)
        for chunk in range(CHUNKS):
            archive.append(chunk, SPREAD[chunk % 4 :])
        for action in actions:
            archive.act(action)
        for number, sql in enumerate(queries):
            archive.ask(sql, number * 7, CHUNKS * CHUNK_SECONDS)
        return archive


BUILT = [("close", 12, None), ("build", None, None)]


@pytest.fixture(autouse=True)
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FANOUT", 3)


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example([*BUILT, ("append", 5, SPREAD), ("ask", 0, (0, 240))])
@example([*BUILT, ("cluster", 5, None), ("expire", 3, None), ("ask", 2, (33, 150))])
@given(st.lists(ACTIONS, max_size=15))
def test_answers_with_summaries_equal_the_full_recall(
    small_levels: None, actions: Sequence[tuple[Any, Any, Any]]
) -> None:
    run(actions, None)


def test_all_queries_are_answered_by_summaries(small_levels: None) -> None:
    """Without this the property holds for nothing: all closed chunks, of each query and event."""
    archive = run(BUILT, None)
    for sql in QUERIES:
        before = archive.summarised
        assert archive.store.find(template(sql)) is not None, sql
        assert before > 0


@pytest.mark.services
@pytest.mark.parametrize(
    "queries", [QUERIES[:2], pytest.param(QUERIES[2:], marks=pytest.mark.slow)]
)
def test_spark_reads_what_summaries_do_not_answer(
    small_levels: None, queries: Sequence[str], spark: SparkSession
) -> None:
    archive = run([*BUILT, ("append", 5, SPREAD), ("ask", 2, (3, 200))], spark, queries)
    assert archive.summarised > 0
