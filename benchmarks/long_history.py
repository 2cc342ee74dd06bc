"""A long archived stream, and recalls over it by the real manager, ledger and reader.

A workspace whose archive holds one stream in many chunks, written as the archiver writes them.
Recalls run in this process. The stream's key is the host, so files are clustered by host; the rows
of an app are spread over all files.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks import Chunk
from archiver.delta import StreamSchema, StreamTable
from archiver.ingest import Catalog
from archiver.read import Reader
from archiver.times import from_micros, to_micros
from benchmarks.fixtures import temporary_workspace
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from recall.corpora import Corpora
from recall.engines import LocalEngine, SparkEngine
from recall.engines.routing import EngineRouter, PartialCache
from recall.ledger import Ledger, SchedulingPolicy
from recall.requests import RecallEvent, RecallRequest, SqlQuestion
from recall.scheduling import StrideScheduler
from recall.worker import KeyCounts, ManagerConfig, RecallManager

if TYPE_CHECKING:
    from recall.summaries import SummaryStore

CHUNK_COUNT = 100
CHUNK_MICROS = 3600 * 1_000_000  # microseconds of event time in a chunk
START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
END = START + CHUNK_COUNT * CHUNK_MICROS
_HOST_COUNT = 200
_APP_COUNT = 50
_QUERY_TIMEOUT = 600.0  # seconds
NORM = "SELECT avg(p.v) AS mean, stddev(p.v) AS sd, count(*) AS n FROM past p"
SCHEMA = StreamSchema(
    name="past",
    columns={"ts": "timestamp", "host": "string", "app": "string", "v": "double"},
    time="ts",
    id=None,
    key=("host",),
    lateness=timedelta(0),
    future=timedelta(days=1),
)
WORKSPACE = """
home: .moirae
streams:
  past:
    columns: {ts: timestamp, host: string, app: string, v: double}
    time: ts
    source: {files: landing/*.jsonl}
rules: []
"""


@dataclass(frozen=True)
class BenchmarkHistory:
    """A workspace with a long history. `root`: of the archive."""

    root: Path
    connection: Connection[Any]
    settings: Settings
    rows_per_chunk: int


class ChunkRows(NamedTuple):
    """The columns of a chunk's rows: event times (microseconds), host and app numbers, values."""

    ts: npt.NDArray[np.int64]
    hosts: npt.NDArray[np.int64]
    apps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@contextmanager
def create_history(
    rows_per_chunk: int,
    chunk_count: int = CHUNK_COUNT,
    host_count: int = _HOST_COUNT,
    first_clustered: int = 0,
) -> Iterator[BenchmarkHistory]:
    """A workspace with some chunks, of which the newest is open.

    `first_clustered`: rows of older chunks are in the order of their times, not clustered by host.
    """
    with temporary_workspace(WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        archive = Path(settings.archive)
        with database.connect_database(settings, "benchmark") as connection:
            table = StreamTable(archive, SCHEMA)
            chunks = []
            for chunk in range(chunk_count):
                rows = _archived_table(chunk, rows_per_chunk, host_count)
                if chunk < first_clustered:
                    rows = rows.sort_by("ts")
                table.append(rows, chunk)
                chunks.append(_make_chunk(chunk, is_newest=chunk == chunk_count - 1))
            Catalog(connection).put_chunks(chunks)
            yield BenchmarkHistory(archive, connection, settings, rows_per_chunk=rows_per_chunk)


def _make_chunk(number: int, is_newest: bool) -> Chunk:
    low = START + number * CHUNK_MICROS
    return Chunk(
        number,
        from_ts=low if number else None,
        to_ts=None if is_newest else low + CHUNK_MICROS,
        state="present" if is_newest else "recent",
    )


def draw_chunk(chunk: int, row_count: int, host_count: int = _HOST_COUNT) -> ChunkRows:
    """The random rows of a chunk, in time order; the same for each call."""
    rng = np.random.default_rng(chunk)
    offsets = np.sort(rng.integers(0, CHUNK_MICROS, row_count))
    return ChunkRows(
        ts=offsets + START + chunk * CHUNK_MICROS,
        hosts=rng.integers(0, host_count, row_count),
        apps=rng.integers(0, _APP_COUNT, row_count),
        values=np.round(rng.uniform(0, 100, row_count), 2),
    )


def draw_json_lines(chunk: int, row_count: int, host_count: int) -> list[bytes]:
    """The rows of `draw_chunk` as JSON lines."""
    rows = draw_chunk(chunk, row_count, host_count)
    lines: list[bytes] = []
    for ts, host, app, value in zip(*(column.tolist() for column in rows), strict=True):
        row = {"ts": from_micros(ts), "host": f"h{host}", "app": f"a{app}", "v": value}
        lines.append(orjson.dumps(row))
    return lines


def _archived_table(chunk: int, row_count: int, host_count: int) -> pa.Table:
    arrow = SCHEMA.arrow_schema()
    rows = draw_chunk(chunk, row_count, host_count)
    host_names = pa.array(list(map("h{}".format, range(host_count))))
    app_names = pa.array(list(map("a{}".format, range(_APP_COUNT))))
    columns = {
        "ts": pa.array(rows.ts, arrow.field("ts").type),
        "host": host_names.take(pa.array(rows.hosts)),
        "app": app_names.take(pa.array(rows.apps)),
        "v": pa.array(rows.values),
        "_late": pa.array(np.zeros(row_count, bool)),
        "chunk": pa.array(np.full(row_count, chunk, np.int32)),
    }
    for field in arrow:
        if field.name not in columns:
            columns[field.name] = pa.nulls(row_count, field.type)
    table = pa.table(columns).select([name for name in arrow.names if name != "_append"])
    return table.sort_by([("host", "ascending"), ("ts", "ascending")])


# Recalls


def make_question(condition: str) -> SqlQuestion:
    """Mean, standard deviation and count of the values of the event's app that meet a condition."""
    return ask_history(f"{NORM} WHERE p.app = event.app AND {condition}", attribute="app")


def ask_history(sql: str, attribute: str) -> SqlQuestion:
    """A query of all of the stream, for an event with one attribute of type string."""
    return SqlQuestion(
        range=None,
        every=1.0,
        order="newest",
        sql=sql,
        streams={"past": "ts"},
        relations=(),
        derived={},
        attributes={attribute: "string"},
        own={},
        columns={},
    )


def make_event(app: int, number: int = 0) -> RecallEvent:
    """An event of an app at the end of the history. `number` makes its ID."""
    return RecallEvent(UUID(int=number + 1), END, key={}, attributes={"app": f"a{app}"})


def add_recalls(connection: Connection[Any], recalls: Sequence[tuple[int, str]]) -> None:
    """Delete all tasks, then add `recall0`, `recall1`, … for pairs of app and condition."""
    connection.execute("TRUNCATE tasks CASCADE")
    for number, (app, condition) in enumerate(recalls):
        request = RecallRequest(
            rule="bench/r",
            version="1",
            recall=f"recall{number}",
            question=make_question(condition),
            event=make_event(app, number),
            level=0,
        )
        Ledger(connection).add([request])


def create_manager(
    root: Path,
    connection: Connection[Any],
    engines: list[EngineRouter],
    stride: StrideScheduler[UUID] | None = None,
    summaries: "SummaryStore | None" = None,
    on_answers: Callable[[], None] = lambda: None,
    tickets_per_result: int = 0,
) -> RecallManager:
    """A manager that has indexed the files of the archive; without a price for results by default.

    `on_answers`: called once answers are committed.
    """
    lease = Ledger.acquire_lease(connection)
    ledger = Ledger(connection, lease, SchedulingPolicy(tickets_per_result=tickets_per_result))
    key_counts = KeyCounts(Reader(root, [SCHEMA]))
    key_counts.index_next_file()
    config: dict[str, Any] = {
        "engines": engines,
        "query_timeout": _QUERY_TIMEOUT,
        "stride": StrideScheduler() if stride is None else stride,
        "on_answers": on_answers,
    }
    if summaries is not None:  # earlier versions have none
        config["summaries"] = summaries
    return RecallManager(
        connection,
        ledger,
        Corpora(connection, root),
        key_counts=key_counts,
        config=ManagerConfig(**config),
    )


def build_summaries(history: BenchmarkHistory, question: SqlQuestion) -> "SummaryStore":
    """The summaries that answer a query. Raises `ImportError` where there are none yet."""
    from recall.engines import Template
    from recall.summaries import SummaryBuilder, SummaryStore, find_use

    shape = find_use(Template(question), SCHEMA.query_columns).shape
    store = SummaryStore(history.root, Reader(history.root, [SCHEMA]))
    builder = SummaryBuilder(
        database.connect_database(history.settings, "benchmark summaries"),
        history.root,
        store,
        list_wanted=lambda: {shape: True},
        history=0.0,
        settle_time=0.0,
    )
    while builder.run_once():
        pass
    return store


def run_manager_until(manager: RecallManager, is_done: Callable[[], bool]) -> None:
    """Run the manager's loop; `is_done` is checked before each round."""
    while not is_done():
        manager.run_once()
        manager.wait_for_query()


def create_engines(root: Path, partial_cache: PartialCache) -> EngineRouter:
    """The engines of a worker, which run all queries in this process."""
    reader = Reader(root, [SCHEMA])
    reader.refresh_present(())
    spark = SparkEngine(fail_on_spark, reader, fail_on_relation)
    return EngineRouter(spark, LocalEngine(reader), partial_cache)


def fail_on_spark() -> SparkSession:
    raise AssertionError("Spark was started for a query that the local engine supports")


def fail_on_relation(name: str) -> pa.Table:
    """Fail: no query of a benchmark reads relations."""
    raise AssertionError(f"relation {name} was read")


def count_tasks(connection: Connection[Any], condition: str) -> int:
    """The number of tasks that meet an SQL condition."""
    row = connection.execute(f"SELECT count(*) FROM tasks WHERE {condition}".encode()).fetchone()
    assert row is not None
    return int(row[0])
