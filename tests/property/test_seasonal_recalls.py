"""Answers over ranges of history equal the query over all rows, filtered by what clocks show.

Rows lie 20 minutes apart around a day on which the clocks of Rome change, in chunks of any length.
"""

import itertools
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
from archiver.times import Micros, to_micros
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import PartialQuery, Template, merge_partials
from recall.history_ranges import Recurrence, Season
from recall.requests import ChunkRange, Piece, RecallEvent, SqlQuestion, join_pieces, plan_pieces
from recall.summaries.answers import compute_partials
from recall.summaries.model import plan_shapes
from recall.summaries.nodes import NodeBuilder
from recall.summaries.shape import find_use
from recall.summaries.store import SummaryStore
from tests.integration.history import no_relations, no_spark
from tests.unit.recall.test_history_ranges import belongs

STEP = 1_200_000_000  # microseconds
DAYS = 16
COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
SQL = "SELECT count(*) AS c, sum(x.n) AS total FROM s x WHERE x.host = event.host"
WHOLE = (
    "SELECT count(*) AS c, sum(x.n) AS total FROM s x WHERE x.host = event.host AND NOT EXISTS "
    "(SELECT 1 FROM s y WHERE y.ts = x.ts AND y.host <> x.host)"
)
HOSTS = ("a", "b", "c")


class Archive:
    """Rows around a time in closed chunks that end after `cuts` rows, with their summaries."""

    def __init__(self, root: Path, middle: datetime, cuts: Sequence[int]) -> None:
        start = to_micros(middle - timedelta(days=DAYS // 2))
        count = DAYS * 72
        self.rows = [(start + STEP * row, HOSTS[row % 5 % 3], row % 7) for row in range(count)]
        bounds = [0, *sorted(set(cuts) - {0}), count]
        table = StreamTable(root, SCHEMA)
        self.chunks: list[ChunkRange] = []
        for chunk, (first, end) in enumerate(itertools.pairwise(bounds)):
            low = None if first == 0 else self.rows[first][0]
            self.chunks.append(ChunkRange(chunk, TimeRange(low, start + STEP * end)))
            table.append(_to_table(self.rows[first:end], chunk), chunk)
        self.root = root
        self.store = SummaryStore(root, Reader(root, [SCHEMA]))

    def build_summaries(self) -> None:
        shape = find_use(Template(question()), SCHEMA.query_columns).shape
        self.store.replace(list(plan_shapes({shape: True})), self.chunks)
        self.store.reader.refresh()
        nodes = NodeBuilder(self.store, settle_time=0.0)
        for summary in self.store.summaries:
            while nodes.update(summary, is_required=True):
                pass

    def engines(self, spark: SparkSession | None) -> EngineRouter:
        reader = Reader(self.root, [SCHEMA])
        local = LocalEngine(reader) if spark is None else None
        session = no_spark if spark is None else lambda: spark
        return EngineRouter(SparkEngine(session, reader, no_relations), local, PartialCache())

    def expect(self, event: RecallEvent, asked: SqlQuestion) -> tuple[int, int | None]:
        """Count and sum over the rows of the event's host that are asked for, one row at a time."""
        assert asked.range is not None and asked.season is not None
        season = Season.from_json(asked.season)
        values = [
            n
            for ts, host, n in self.rows
            if event.ts - asked.range <= ts < event.ts - asked.offset
            and host == event.attributes["host"]
            and belongs(ts, event.ts, season)
        ]
        return len(values), sum(values) if values else None


def _to_table(rows: Sequence[tuple[Micros, str, int]], chunk: int) -> pa.Table:
    arrow = SCHEMA.arrow_schema()
    columns: dict[str, Any] = {f.name: pa.nulls(len(rows), f.type) for f in arrow}
    for position, name in enumerate(("ts", "host", "n")):
        columns[name] = pa.array([row[position] for row in rows], arrow.field(name).type)
    columns["_late"] = pa.array([False] * len(rows))
    columns["chunk"] = pa.array([chunk] * len(rows), pa.int32())
    return pa.table(columns).select([name for name in arrow.names if name != "_append"])


def question(sql: str = SQL, **range_: Any) -> SqlQuestion:
    season = range_.pop("season", Season("hour_of_day"))
    return SqlQuestion(
        range=range_.pop("range", STEP),
        offset=range_.pop("offset", 0),
        every=1.0,
        order="newest",
        sql=sql,
        streams={"s": "ts"},
        relations=(),
        derived={},
        attributes={"host": "string"},
        own={},
        columns={"c": "bigint", "total": "bigint"},
        season=season.to_json(),
    )


def answer(
    archive: Archive,
    engines: EngineRouter,
    events: Sequence[RecallEvent],
    asked: SqlQuestion,
    turns: int,
    with_summaries: bool = False,
) -> list[tuple[int, int | None]]:
    """The answers about some events, whose pieces are read in some turns, for all events at once."""
    template = Template(asked)
    pieces = {e.eid: plan_pieces(archive.chunks, e.ts, asked) for e in events}
    merged: dict[str, Any] = {}
    if template.split.whole is not None:
        turns = 1
    for turn in range(turns):
        event_pieces: list[tuple[RecallEvent, Piece]] = []
        for event in events:
            if part := pieces[event.eid][turn::turns]:
                event_pieces.append((event, join_pieces(part)))
        if not event_pieces:
            continue
        query = PartialQuery(template, event_pieces, {})
        with engines.snapshot([query]):
            store = archive.store if with_summaries else None
            (read,) = compute_partials(engines, store, [query])
        for eid, partial in read.partials.items():
            merged[eid] = merge_partials(template, merged.get(eid), partial)
    answers = engines.compute_answers(template, [(e, merged.get(str(e.eid))) for e in events], {})
    rows = [answers.get(str(event.eid), [{"c": 0, "total": None}])[0] for event in events]
    return [(row["c"], row["total"]) for row in rows]


CHANGES = st.sampled_from(
    [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)]
)


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example("hour_of_day", None, datetime(2026, 3, 29, 1, tzinfo=UTC), 580, 500, 0, [300], 2)
@example("hour_of_week", 90, datetime(2026, 10, 25, 1, tzinfo=UTC), 1082, 900, 3, [72 * 8], 1)
@given(
    same=st.sampled_from(["hour_of_day", "hour_of_week", "day_of_week"]),
    around=st.none() | st.integers(1, 300),
    change=CHANGES,
    event_row=st.integers(0, DAYS * 72),
    last=st.integers(1, DAYS * 72),
    offset=st.integers(0, 200),
    cuts=st.lists(st.integers(1, DAYS * 72 - 1), max_size=40),
    turns=st.integers(1, 4),
)
def test_answers_equal_the_query_over_all_rows(
    same: Recurrence,
    around: int | None,
    change: datetime,
    event_row: int,
    last: int,
    offset: int,
    cuts: list[int],
    turns: int,
) -> None:
    around = None if same == "day_of_week" else around
    season = Season(same, "Europe/Rome", None if around is None else around * 60_000_000)
    asked = question(season=season, range=last * STEP, offset=min(offset, last - 1) * STEP)
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder), change, cuts)
        archive.build_summaries()
        events = make_events(archive, event_row)
        expected = [archive.expect(event, asked) for event in events]
        engines = archive.engines(None)
        assert answer(archive, engines, events, asked, turns) == expected
        assert answer(archive, engines, events, asked, turns, with_summaries=True) == expected


def make_events(archive: Archive, row: int) -> list[RecallEvent]:
    """One for each host, at times that differ a little."""
    ts = archive.rows[0][0] + row * STEP
    return [
        RecallEvent(UUID(int=number + 1), ts + number * STEP // 2, {}, {"host": host})
        for number, host in enumerate(HOSTS)
    ]


@pytest.mark.services
@pytest.mark.parametrize("sql", [SQL, WHOLE])
def test_spark_reads_the_same_ranges(sql: str, spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path, datetime(2026, 10, 25, 1, tzinfo=UTC), [100, 400, 410, 800])
    season = Season("hour_of_day", "Europe/Rome")
    asked = question(sql, season=season, range=12 * 72 * STEP, offset=STEP)
    events = make_events(archive, 1080)
    expected = [archive.expect(event, asked) for event in events]
    assert answer(archive, archive.engines(spark), events, asked, 2) == expected
    assert all(count for count, _ in expected)


def test_chunks_without_a_time_of_the_season_are_not_opened(tmp_path: Path) -> None:
    """Of 16 days in chunks of two hours, those that hold the hour of each day."""
    archive = Archive(tmp_path, datetime(2026, 7, 1, tzinfo=UTC), range(6, DAYS * 72, 6))
    asked = question(season=Season("hour_of_day"), range=(DAYS * 72 - 1) * STEP)
    events = make_events(archive, DAYS * 72 - 1)[:1]
    (event,) = events
    pieces = plan_pieces(archive.chunks, event.ts, asked)
    assert len(pieces) == DAYS
    assert answer(archive, archive.engines(None), events, asked, 1) == [
        archive.expect(event, asked)
    ]
    snapshot = Reader(tmp_path, [SCHEMA]).snapshot("s", TimeRange(None, event.ts))
    opened = snapshot.within(join_pieces(pieces).ranges).files
    assert len(opened) == DAYS < len(snapshot.files)
