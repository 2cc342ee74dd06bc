"""Engines of history agree: DuckDB and Spark give one answer to generated queries, over rows with
nulls and NaN.

The division into pieces makes no difference: merged partial answers equal the query over all rows.
"""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import archiver.read.reader
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.executors import Jobs, SparkJobs
from archiver.read.reader import Reader
from archiver.storage.base import StorageRoot
from archiver.storage.file_cache import FileCache
from archiver.storage.s3 import S3Storage
from archiver.times import to_micros
from recall.engines.answers import compute_answers, to_json_value
from recall.engines.duckdb import wide_scan
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.duckdb.one_event import write_one_event_query
from recall.engines.duckdb.wide_scan import WideScanEngine
from recall.engines.routing import choice
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import PartialQuery, Template, merge_partials
from recall.errors import SparkRequired
from recall.requests import Piece, RecallEvent, SqlQuestion
from recall.statements import file_rows
from tests.inline_jobs import InlineJobs

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "v": "double",
    "n": "bigint",
    "ok": "boolean",
    "f": "float",
}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
EVENTS = [
    RecallEvent(
        UUID(int=number + 1),
        to_micros(START + timedelta(minutes=at)),
        {"host": host},
        {"host": host, "limit": limit},
    )
    for number, (at, host, limit) in enumerate(
        [(60, "a", 3.0), (45, "b", float("nan")), (90, "a", None), (30, "z", 0.0)]
    )
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 rows over 100 minutes in several files of several chunks."""
    root = tmp_path_factory.mktemp("archive")
    append_rows(root)
    return root


def append_rows(root: StorageRoot) -> None:
    """Append the rows of `archive` to a table."""
    table = StreamTable(root, SCHEMA)
    rng = random.Random(7)
    numbers = [None, float("nan"), -0.0, 0.0, 1.5, 1e300, -3.25]
    for chunk in range(4):
        rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for number in range(150):
            rows["ts"].append(START + timedelta(seconds=chunk * 1500 + number * 10))
            rows["host"].append(rng.choice(["a", "b", "c", None, "d'"]))
            rows["v"].append(rng.choice(numbers) if rng.random() < 0.2 else rng.gauss(5, 3))
            rows["n"].append(
                rng.choice([None, 0, 1, -7, 1 << 40]) if rng.random() < 0.3 else rng.randrange(10)
            )
            rows["ok"].append(rng.choice([True, False, None]))
            rows["f"].append([None, math.nan, -0.0, 0.1, 0.5, 3.0, 16777216.0][number % 7])
        arrow = SCHEMA.arrow_schema()
        columns = {name: pa.array(values, arrow.field(name).type) for name, values in rows.items()}
        blank = {f.name: pa.nulls(150, f.type) for f in arrow if f.name not in columns}
        full = {**blank, **columns, "_late": pa.array([number % 10 == 0 for number in range(150)])}
        table.append(
            pa.table({**full, "chunk": pa.array([chunk] * 150, pa.int32())}).select(arrow.names),
            chunk,
        )


@pytest.fixture(scope="module")
def engines(archive: Path, spark: SparkSession) -> tuple[SparkEngine, LocalEngine]:
    """Both engines over the same archive: one from files, one with the newest two chunks in memory."""
    return engine(spark, archive, 0), LocalEngine(reader(archive, 1 << 20))


@pytest.fixture(scope="module")
def files(archive: Path) -> LocalEngine:
    """This process, with nothing in memory."""
    return LocalEngine(reader(archive, 0))


@pytest.fixture(scope="module")
def tasks(archive: Path) -> WideScanEngine:
    """Tasks that read one file each, with the newest two chunks in the memory of the driver."""
    return executors(reader(archive, 1 << 20), InlineJobs())


def executors(reader: Reader, jobs: Jobs) -> WideScanEngine:
    """An engine that runs DuckDB in tasks."""
    return WideScanEngine(lambda: jobs, reader, 60.0)


@pytest.fixture
def keys_in_tasks(spark: SparkSession, _store: Mapping[str, str]) -> Iterator[None]:
    """Executors whose environment has the keys of the bucket."""
    with patch.dict(spark.sparkContext.environment, _store):
        yield


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task reads one file."""
    monkeypatch.setattr(file_rows, "MIN_TASK_ROWS", 1)


def engine(spark: SparkSession, archive: StorageRoot, memory: int) -> SparkEngine:
    """An engine that runs Spark over the archive."""
    return SparkEngine(spark.newSession, reader(archive, memory), lambda _: pa.table({}))


def reader(archive: StorageRoot, memory: int) -> Reader:
    """A reader that caches the newest two chunks in up to `memory` bytes."""
    new_reader = Reader(archive, [SCHEMA], memory)
    new_reader.refresh_present({2, 3})
    return new_reader


def make_template(sql: str) -> Template:
    """The template of a query over the stream `s`."""
    attributes = {"host": "string", "limit": "double"}
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, (), {}, attributes, {}, {}))


def answer(
    engine: Any, spark: SparkEngine, template: Template, borders: list[int]
) -> dict[str, list[dict[str, Any]]]:
    """The merged answer over the pieces between some borders (minutes), newest first."""
    edges = [
        None,
        *(to_micros(START + timedelta(minutes=b)) for b in sorted(set(borders))),
        1 << 57,
    ]
    partials_by_event: dict[UUID, pa.Table | None] = {event.eid: None for event in EVENTS}
    for low, high in reversed(list(pairwise(edges))):
        assert high is not None
        shares = [(e, Piece(0, low, min(high, e.ts))) for e in EVENTS if low is None or low < e.ts]
        partials = engine.compute_partial(template, shares, {}) if shares else {}
        for event, _ in shares:
            partials_by_event[event.eid] = merge_partials(
                template, partials_by_event[event.eid], partials.get(str(event.eid))
            )
    return EngineRouter(spark, None, PartialCache()).compute_answers(
        template, [(event, partials_by_event[event.eid]) for event in EVENTS], {}
    )


def are_equal(actual: Any, expected: Any) -> bool:
    """Equal, fractions to nine digits."""
    if isinstance(actual, float) and isinstance(expected, float):
        return actual == expected or math.isclose(
            actual, expected, rel_tol=1e-9, abs_tol=1e-9 * max(1.0, abs(actual))
        )
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(
            are_equal(actual[name], expected[name]) for name in actual
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(
            are_equal(a, b) for a, b in zip(actual, expected, strict=True)
        )
    return bool(actual == expected)


def sort_rows(partial: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    """Rows of partial answers by event, sorted; lists in them are sorted, too."""
    sorted_rows = {}
    for eid, table in partial.items():
        groups = [name for name in table.column_names if name.startswith("_g")]
        rows = [
            {
                name: sorted(value, key=repr) if isinstance(value, list) else to_json_value(value)
                for name, value in row.items()
            }
            for row in table.to_pylist()
        ]
        sorted_rows[eid] = sorted(rows, key=lambda row: repr([row[name] for name in groups]))
    return sorted_rows


NUMBERS = st.sampled_from(
    [
        *["s.v", "s.n", "s.v + s.n", "s.v * 2", "-s.v", "(s.n - 3)", "s.v - event.limit"],
        *["s.v / 4", "s.n / 2", "s.v / 2.5", "s.v * 0.1", "s.n % 3", "s.n + 3 * 2"],
        *["s.f", "-s.f", "s.f + s.f", "s.f - event.limit"],
    ]
)
PLAIN = st.one_of(
    st.sampled_from(
        [
            "s.v > 2",
            "s.n >= 3",
            "s.host = 'a'",
            "s.v = event.limit",
            "s.ok",
            "s.v IS NULL",
            "s.n IN (1, 2)",
            "s.n > 2.5",
            "s.v > 0.1",
            "s.f > 0.5",
            "s.f >= 16777216",
            "s.f < s.v",
            "s.ok < (s.n > 3)",
            "1 = 1",
            "CASE WHEN s.ok THEN s.n > 3 WHEN s.v IS NULL THEN true END",
        ]
    ),
    st.sampled_from(["s.n BETWEEN 2 AND 7", "s.host LIKE '%a%'", "s.host IN ('b', event.host)"]),
)
CONDITIONS = st.one_of(
    PLAIN,
    st.builds("NOT ({})".format, PLAIN),
    st.builds("({} AND {})".format, PLAIN, PLAIN),
    st.builds("({} OR {})".format, PLAIN, PLAIN),
)
AGGREGATES = st.one_of(
    st.just("count(*)"),
    st.builds("{}({})".format, st.sampled_from(["count", "sum", "avg", "min", "max"]), NUMBERS),
    st.builds(
        "{}({})".format,
        st.sampled_from(["stddev", "variance", "var_pop", "stddev_pop"]),
        st.just("s.n"),
    ),
    st.builds("{}({}) FILTER (WHERE {})".format, st.sampled_from(["count", "max"]), NUMBERS, PLAIN),
    st.sampled_from(
        [
            "min(s.host)",
            "max(s.ts)",
            "count(s.ok)",
            "count_if(s.ok)",
            "bool_and(s.ok)",
            "bool_or(s.v > 9)",
        ]
    ),
    st.builds("count(DISTINCT {})".format, st.sampled_from(["s.host", "s.n", "s.ok", "s.ts"])),
    st.sampled_from(
        [
            "sum(CASE WHEN s.ok THEN s.v WHEN s.n > 3 THEN 0 ELSE 1 END)",
            "avg(CASE WHEN s.ok THEN s.v ELSE 0.5 END)",
            "sum(CASE WHEN s.ok THEN s.f ELSE 1 END)",
        ]
    ),
)


@st.composite
def recall_queries(draw: st.DrawFn) -> str:
    """The query of a recall in the SQL that both engines support."""
    outputs = [
        f"{aggregate} AS c{number}"
        for number, aggregate in enumerate(draw(st.lists(AGGREGATES, min_size=1, max_size=4)))
    ]
    where = " AND ".join(
        draw(st.lists(CONDITIONS, max_size=2))
        + draw(st.sampled_from([[], ["s.host = event.host"]]))
    )
    group = draw(st.sampled_from(["", "s.host", "s.ok", "s.host, s.n", "s.n % 3"]))
    keys = (
        [f"{key.strip()} AS k{number}" for number, key in enumerate(group.split(","))]
        if group
        else []
    )
    return (
        f"SELECT {', '.join([*keys, *outputs])} FROM s"
        + (f" WHERE {where}" if where else "")
        + (f" GROUP BY {group}" if group else "")
    )


def _any_pieces(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
@_any_pieces(1)
@example(
    "SELECT avg(s.v) AS mean, stddev(s.v) AS sd, count(*) AS n FROM s WHERE s.host = event.host",
    [10, 20, 40],
)
@example(
    "SELECT s.host AS h, max(s.v) - min(s.v) AS r FROM s GROUP BY s.host HAVING count(*) > 3 "
    "ORDER BY r LIMIT 2",
    [50],
)
@given(recall_queries(), st.lists(st.integers(0, 100), max_size=4))
def test_engines_agree_for_any_pieces(
    engines: tuple[SparkEngine, LocalEngine],
    files: LocalEngine,
    tasks: WideScanEngine,
    sql: str,
    borders: list[int],
) -> None:
    _engines_agree(engines, files, tasks, sql, borders)


@pytest.mark.slow
@_any_pieces(40)
@given(recall_queries(), st.lists(st.integers(0, 100), max_size=4))
def test_engines_agree_for_many_pieces(
    engines: tuple[SparkEngine, LocalEngine],
    files: LocalEngine,
    tasks: WideScanEngine,
    sql: str,
    borders: list[int],
) -> None:
    _engines_agree(engines, files, tasks, sql, borders)


def _engines_agree(
    engines: tuple[SparkEngine, LocalEngine],
    files: LocalEngine,
    tasks: WideScanEngine,
    sql: str,
    borders: list[int],
) -> None:
    """Spark over one piece, Spark over pieces, DuckDB over pieces, also if these are whole files,
    and DuckDB in tasks over one piece and over pieces.
    """
    spark, local = engines
    template = make_template(sql)
    expected = answer(spark, spark, template, [])
    assert are_equal(answer(spark, spark, template, borders), expected), sql
    try:
        local_answer = answer(local, spark, template, borders)
    except SparkRequired:
        return
    assert are_equal(local_answer, expected), sql
    assert are_equal(answer(files, spark, template, [25, 50, 75]), expected), sql
    assert are_equal(answer(tasks, spark, template, []), expected), sql
    assert are_equal(answer(tasks, spark, template, borders), expected), sql


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.ts, s.host, s.v, s.n, s.ok FROM s ORDER BY s.ts DESC LIMIT 40",
        "SELECT s.ts, s.host AS h, s.v * 2 AS twice FROM s WHERE s.ok ORDER BY twice, s.ts LIMIT 30",
        "SELECT s.host, s.n, s.v FROM s ORDER BY s.host, s.n DESC, s.v, s.ts LIMIT 500",
        "SELECT s.ok, s.ts FROM s WHERE s.host = event.host ORDER BY s.ok DESC, s.ts LIMIT 25",
    ],
)
def test_engines_agree_about_plain_rows(
    engines: tuple[SparkEngine, LocalEngine], files: LocalEngine, tasks: WideScanEngine, sql: str
) -> None:
    """In their order, with nulls and NaN; also if DuckDB sorts the merged rows."""
    spark, local = engines
    template = make_template(sql)
    expected = answer(spark, spark, template, [])
    for engine in (local, files):
        assert engine.supports(template)
        assert answer(engine, spark, template, [25, 50, 75]) == expected
    assert answer(tasks, spark, template, []) == expected
    partials = local.compute_partial(template, [(e, Piece(0, None, e.ts)) for e in EVENTS], {})
    router = EngineRouter(spark, local, PartialCache(), setting="local")
    merged = [(event, partials.get(str(event.eid))) for event in EVENTS]
    assert router.compute_answers(template, merged, {}) == expected


@pytest.mark.parametrize("names", [EVENTS[:1], EVENTS])
def test_most_frequent_values_of_pieces_are_those_of_all_rows(
    archive: Path, names: list[RecallEvent]
) -> None:
    local = LocalEngine(reader(archive, 1 << 20))
    top = make_template("SELECT top(s.n, 3) FROM s WHERE s.host = event.host")
    every = make_template(
        "SELECT s.n AS n, count(*) AS c FROM s WHERE s.host = event.host GROUP BY s.n"
    )
    assert local.supports(top)
    for event in names:
        among = EVENTS if len(names) > 1 else [event]
        merged: pa.Table | None = None
        for low, high in ((0, 20), (20, 60), (60, 100)):
            edges = [to_micros(START + timedelta(minutes=minutes)) for minutes in (low, high)]
            piece = Piece(0, edges[0], edges[1])
            partials = local.compute_partial(top, [(other, piece) for other in among], {})
            merged = merge_partials(top, merged, partials.get(str(event.eid)), 60.0)
        whole = Piece(0, None, to_micros(START + timedelta(minutes=100)))
        counts = local.compute_partial(every, [(event, whole)], {}).get(str(event.eid))
        expected = []
        if counts is not None:
            rows = zip(counts["_g0"].to_pylist(), counts["_a0_0"].to_pylist(), strict=True)
            ordered = sorted(rows, key=lambda row: (-row[1], row[0] is not None, row[0] or 0))
            expected = [(value, count, count, True) for value, count in ordered[:3]]
        answers: dict[str, list[dict[str, Any]]] = compute_answers(
            top, [(event, merged)], lambda events, values: local.merge(top, events, values)
        )
        rows_found = [tuple(row.values()) for row in answers.get(str(event.eid), [])]
        assert rows_found == expected


@pytest.mark.slow
def test_both_engines_list_the_same_most_frequent_values(
    engines: tuple[SparkEngine, LocalEngine], tasks: WideScanEngine
) -> None:
    spark, local = engines
    template = make_template("SELECT top(s.host, 2) FROM s WHERE s.ok")
    expected = answer(spark, spark, template, [])
    assert [len(rows) for rows in expected.values()] == [2] * len(EVENTS)
    for engine in (local, tasks, spark):
        assert answer(engine, spark, template, [25, 50]) == expected


@_any_pieces(15)
@example("SELECT count(*) AS c, min(event.ts) AS t FROM s GROUP BY event.limit", None, 60)
@example("SELECT s.ok AS o, avg(s.v - event.limit) AS a FROM s GROUP BY s.ok, event.host", 10, 40)
@given(
    recall_queries(),
    st.one_of(st.none(), st.integers(0, 100)),
    st.sampled_from([25, 50, 75, 40, 100]),
)
def test_event_alone_has_its_answer_among_others(
    archive: Path, sql: str, low: int | None, high: int
) -> None:
    """Alone, its values are parameters of the statement; among others, the columns of a table."""
    template = make_template(sql)
    start = None if low is None else to_micros(START + timedelta(minutes=low))
    piece = Piece(0, start, to_micros(START + timedelta(minutes=high)))
    for local in (LocalEngine(reader(archive, 0)), LocalEngine(reader(archive, 1 << 20))):
        if not local.supports(template):
            return
        assert write_one_event_query(template, rows_in_range=False) is not None
        among_others = local.compute_partial(template, [(event, piece) for event in EVENTS], {})
        alone: dict[str, pa.Table] = {}
        for event in EVENTS:
            alone |= local.compute_partial(template, [(event, piece)], {})
        assert are_equal(sort_rows(alone), sort_rows(among_others)), sql


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(recall_queries(), min_size=2, max_size=5, unique=True),
    st.integers(1, 99),
    st.booleans(),
)
def test_queries_of_one_scan_have_the_answers_of_single_queries(
    engines: tuple[SparkEngine, LocalEngine],
    files: LocalEngine,
    texts: list[str],
    border: int,
    in_memory: bool,
) -> None:
    """With different columns, groups and events; over old rows, new rows, and whole files."""
    local = engines[1] if in_memory else files
    templates = [make_template(sql) for sql in texts]
    supported = [template for template in templates if local.supports(template)]
    at = to_micros(START + timedelta(minutes=border))
    whole_file = to_micros(START + timedelta(minutes=25)), to_micros(START + timedelta(minutes=50))
    for low, high in ((None, at), (at, 1 << 60), whole_file):
        pieces = [Piece(0, low, min(high, event.ts)) for event in EVENTS]
        queries = [
            PartialQuery(template, list(zip(EVENTS, pieces, strict=True))[index % 3 :], {})
            for index, template in enumerate(supported)
        ]
        partials = local.compute_partials(queries) if queries else []
        single_partials = [
            local.compute_partial(ask.template, ask.event_pieces, {}) for ask in queries
        ]
        assert are_equal(list(map(sort_rows, partials)), list(map(sort_rows, single_partials))), (
            texts
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS c FROM s WHERE s.host = 5",
        "SELECT sum(s.v / s.n) AS c FROM s",
        "SELECT sum(s.n + 2.5) AS c FROM s",
        "SELECT count(*) AS c FROM s WHERE s.f > 0.1",
        "SELECT count(*) AS c FROM s WHERE s.f > s.n",
        "SELECT sum(s.f + 1) AS c FROM s",
        "SELECT count(*) AS c FROM s WHERE upper(s.host) = 'A'",
        "SELECT s.v AS v, count(*) AS c FROM s GROUP BY s.v",
        "SELECT s.f AS v, s.ts AS t FROM s ORDER BY s.ts LIMIT 3",
        "SELECT count(*) AS c FROM s WHERE s.host RLIKE '^a'",
        "SELECT collect_set(s.host) AS c FROM s",
    ],
)
def test_unsupported_query_is_run_by_spark(
    engines: tuple[SparkEngine, LocalEngine], sql: str
) -> None:
    """The local engine reports that it does not support the query."""
    with pytest.raises(SparkRequired):
        engines[1].compute_partial(
            make_template(sql), [(EVENTS[0], Piece(0, None, EVENTS[0].ts))], {}
        )


@pytest.mark.slow
def test_common_queries_are_run_by_duckdb(engines: tuple[SparkEngine, LocalEngine]) -> None:
    """The mean of a host, the most common recall."""
    template = make_template(
        "SELECT avg(s.v) AS mean, stddev(s.n) AS sd, count(*) AS n FROM s WHERE s.host = event.host"
    )
    partials = engines[1].compute_partial(
        template, [(event, Piece(0, None, event.ts)) for event in EVENTS], {}
    )
    assert set(partials) == {str(event.eid) for event in EVENTS[:3]}


@pytest.mark.slow
def test_spark_reads_memory_and_files_alike(
    engines: tuple[SparkEngine, LocalEngine], archive: Path, spark: SparkSession
) -> None:
    cached_engine = engine(spark, archive, 1 << 20)
    for sql in (
        "SELECT count(*) AS n, avg(s.n) AS mean, max(s.ts) AS last FROM s WHERE s.host = "
        "event.host",
        "SELECT s.ts AS at, s.n AS n, s.ok AS ok FROM s ORDER BY s.ts DESC LIMIT 5",
    ):
        template = make_template(sql)
        assert answer(cached_engine, cached_engine, template, [40, 60]) == answer(
            engines[0], engines[0], template, [40, 60]
        )


@pytest.mark.slow
def test_tasks_of_spark_read_pinned_files(
    engines: tuple[SparkEngine, LocalEngine], archive: Path, spark: SparkSession
) -> None:
    """In worker processes; only partial answers return to this process."""
    history, _ = engines
    on_executors = executors(reader(archive, 0), SparkJobs(spark.sparkContext))
    template = make_template(
        "SELECT s.host AS h, count(*) AS n, avg(s.v) AS m FROM s GROUP BY s.host"
    )
    assert are_equal(
        answer(on_executors, history, template, []), answer(history, history, template, [])
    )


@pytest.mark.slow
def test_router_leaves_wide_scans_to_tasks(
    engines: tuple[SparkEngine, LocalEngine], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With engine `spark`, from some rows of pinned files on, with the answer of one statement."""
    history, _ = engines
    jobs = InlineJobs()
    template = make_template("SELECT count(*) AS n FROM s WHERE s.host = event.host")
    pieces = [(event, Piece(0, None, event.ts)) for event in EVENTS]
    expected = EngineRouter(history, None, PartialCache()).compute_partial(template, pieces, {})
    for least, tasks_expected in ((601, 0), (600, 4)):
        monkeypatch.setattr(choice, "WIDE_SCAN_ROWS", least)
        jobs.task_count = 0
        router = EngineRouter(
            history, None, PartialCache(), wide_scans=executors(reader(archive, 0), jobs)
        )
        partials = router.compute_partial(template, pieces, {})
        assert sort_rows(partials) == sort_rows(expected)
        assert jobs.task_count == tasks_expected


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["MAX_COLLECTED_ROWS", "MAX_ROWS", "MAX_PART_ROWS"])
def test_tasks_leave_queries_beyond_a_limit_to_spark(
    archive: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Rows that the driver would hold, rows of an answer, rows of a task."""
    monkeypatch.setattr(wide_scan, limit, 100)
    on_executors = executors(reader(archive, 0), InlineJobs())
    template = make_template("SELECT s.ts, s.host FROM s ORDER BY s.ts LIMIT 40")
    with pytest.raises(SparkRequired, match="more than"):
        on_executors.compute_partial(template, [(EVENTS[0], Piece(0, None, 1 << 60))], {})


@pytest.mark.slow
@pytest.mark.usefixtures("keys_in_tasks")
def test_object_storage_is_read_like_a_folder(
    spark: SparkSession, engines: tuple[SparkEngine, LocalEngine], bucket: str, tmp_path: Path
) -> None:
    """By both engines, through a cache that holds leased files only."""
    append_rows(S3Storage(bucket, FileCache(tmp_path / "written", 1, 60.0), tmp_path))
    storage = S3Storage(bucket, FileCache(tmp_path / "read", 1, 60.0), tmp_path)
    history, sql = (
        engines[0],
        "SELECT count(*) AS n, sum(s.v) AS total, max(s.host) AS host FROM s WHERE s.n > 2",
    )
    expected = answer(history, history, make_template(sql), [20, 60])
    for compared in (
        engine(spark, storage, 0),
        engine(spark, storage, 1 << 20),
        LocalEngine(reader(storage, 0)),
        executors(reader(storage, 0), SparkJobs(spark.sparkContext)),
    ):
        assert are_equal(answer(compared, history, make_template(sql), [20, 60]), expected)


@pytest.mark.slow
def test_limited_rows_are_equal_for_any_pieces(engines: tuple[SparkEngine, LocalEngine]) -> None:
    """Rows with a limit, by default newest first, or ordered by the query."""
    spark, _ = engines
    for sql in (
        "SELECT s.ts AS at, s.n AS n FROM s WHERE s.host = event.host LIMIT 3",
        "SELECT s.ts AS at, s.n AS n FROM s WHERE s.host = event.host ORDER BY s.n DESC, s.ts "
        "LIMIT 4",
    ):
        template = make_template(sql)
        expected = answer(spark, spark, template, [])
        assert answer(spark, spark, template, [10, 30, 55]) == expected
        assert len(expected[str(EVENTS[0].eid)]) in (3, 4)


@pytest.mark.slow
@pytest.mark.usefixtures("keys_in_tasks")
def test_tasks_open_files_of_object_storage_for_wide_statements(
    spark: SparkSession,
    engines: tuple[SparkEngine, LocalEngine],
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver reads none of them, also for a query that only Spark can run."""
    append_rows(S3Storage(bucket, FileCache(tmp_path / "written", 1, 60.0), tmp_path))
    storage = S3Storage(bucket, FileCache(tmp_path / "read", 1, 60.0), tmp_path)
    history, _ = engines
    template = make_template(
        "SELECT percentile(s.v, 0.5) AS p, count(s.f) AS n FROM s WHERE s.n > 2"
    )
    expected = answer(history, history, template, [])
    on_storage = engine(spark, storage, 0)
    monkeypatch.setattr(archiver.read.reader, "WIDE_SCAN_ROWS", 600)
    with patch.object(StreamTable, "lease_paths", side_effect=AssertionError):
        assert are_equal(answer(on_storage, history, template, []), expected)
