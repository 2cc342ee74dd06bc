"""T1: latency from a row revision of a recall to that of the stages over it; state per open event.

1,000 open events get 100 revisions each, one a second, of a recall with four rows. Two chained
stages follow: a filter, and an aggregate over it.
"""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

import sql
from archiver.read import Reader, SnapshotReader
from archiver.times import Micros
from benchmarks.fixtures import temporary_workspace
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import connect_database
from moirae.runtime.storage import open_storage
from recall.engines.routing import EngineChoice
from recall.event_plans import EventPlan, Stage
from recall.ledger import EventOutput, Ledger, RevisionStreams
from recall.requests import RecallEvent, RecallRequest, SqlQuestion
from recall.revisions import diff, key_rows
from recall.stages import StageConfig, StageEvaluator, StageRunner

_EVENTS = 1_000
_REVISIONS = 100
_INTERVAL = 1.0  # seconds between two revisions of an event
_BATCH = 50  # events of one transaction
_HOSTS = "abcd"
_START: Micros = 1_767_225_600_000_000
_WORKSPACE = "home: .moirae\nrules: []\n"
_COLUMNS = {"host": "string", "mean": "double"}
_PLAN = EventPlan(
    recalls=("norm",),
    stages=(
        Stage(
            name="light",
            sql="SELECT n.host, n.mean FROM norm n WHERE n.mean >= 0",
            inputs={"norm": _COLUMNS},
            columns=_COLUMNS,
            row_key=None,
        ),
        Stage(
            name="top",
            sql="SELECT max(l.mean) AS mean, count(*) AS n FROM light l",
            inputs={"light": _COLUMNS},
            columns={"mean": "double", "n": "bigint"},
            row_key=(),
        ),
    ),
)
# From the revision of the recall with a value to that of the last stage with it, in milliseconds.
_LATENCIES = """
SELECT extract(epoch FROM o.at - i.at)::float8 * 1000
FROM row_revisions i JOIN revision_streams si ON si.id = i.stream AND si.name = 'norm'
JOIN revision_streams so ON so.name = 'top'
JOIN row_revisions o ON o.stream = so.id AND o.eid = i.eid AND o.row->'mean' = i.row->'mean'
WHERE i.row->>'host' = 'a'
"""


def run() -> list[BenchmarkResult]:
    """Measure S1."""
    noise = [time_noise_kernel()]
    with temporary_workspace(_WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        latencies, rows_in_memory = _measure(settings)
    noise.append(time_noise_kernel())
    latencies.sort()
    p50 = statistics.median(latencies)
    p99 = latencies[int(len(latencies) * 0.99)]
    result = make_result(
        "T1",
        f"from a revision of a recall to the second of two stages, p99 of {_EVENTS:,} open events "
        f"with {_REVISIONS} revisions each, one per {_INTERVAL:g} s (ms)",
        [p99],
        target="≤ 1000",
        details={
            "p50_ms": round(p50, 1),
            "stored_outputs": float(len(latencies)),
            "rows_per_open_event": rows_in_memory / _EVENTS,
        },
        noise=noise,
    )
    return [result]


def _measure(settings: Settings) -> tuple[list[float], int]:
    """The latencies in milliseconds, and the rows in memory while all events are open."""
    with connect_database(settings, "benchmark") as connection:
        _request(connection)
        with _running(settings) as runner:
            for number in range(_REVISIONS):
                started_at = time.monotonic()
                _append_revisions(connection, number)
                runner.wake()
                time.sleep(max(0.0, started_at + _INTERVAL - time.monotonic()))
            time.sleep(2 * _INTERVAL)
            rows_in_memory = runner.rows_in_memory
        latencies = [latency for (latency,) in connection.execute(_LATENCIES).fetchall()]
    return latencies, rows_in_memory


def _request(connection: sql.Connection) -> None:
    question = SqlQuestion(
        None, 1.0, "newest", "SELECT 1 AS one FROM s", {"s": "ts"}, (), {}, {}, {}, {}
    )
    requests = []
    for number in range(_EVENTS):
        event = RecallEvent(UUID(int=number + 1), _START + number, {}, {})
        requests.append(RecallRequest("g/r", "1", "norm", question, event, 0, _PLAN))
    with connection.transaction():
        Ledger(connection).add(requests)


def _append_revisions(connection: sql.Connection, number: int) -> None:
    """The next revision of each event: the mean of the host a is new in each, and the highest."""
    streams = RevisionStreams(connection)
    for start in range(0, _EVENTS, _BATCH):
        changes = []
        for event in range(start, start + _BATCH):
            output = EventOutput("g/r", "1", "norm", UUID(int=event + 1), _START + event)
            before = key_rows(_rows(number - 1), ("host",)) if number else {}
            changes.append((output, diff(before, key_rows(_rows(number), ("host",)))))
        with connection.transaction():
            streams.append_all(changes)


def _rows(number: int) -> list[dict[str, object]]:
    return [{"host": host, "mean": 1000.0 + number if host == "a" else 1.0} for host in _HOSTS]


@contextmanager
def _running(settings: Settings) -> Iterator[StageRunner]:
    """A runner in a thread."""
    reader = SnapshotReader(Reader(open_storage(settings), []))
    evaluator = StageEvaluator(
        reader,
        relations=_no_relations,
        session=_no_spark,
        choice=EngineChoice("local"),
        max_rows=100_000,
    )
    config = StageConfig(stream_columns={}, lateness={})
    connection = connect_database(settings, "benchmark stages")
    runner = StageRunner(connection, evaluator, config)
    stop = threading.Event()
    thread = threading.Thread(target=runner.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield runner
    finally:
        stop.set()
        runner.wake()
        thread.join()
        connection.close()


def _no_spark() -> SparkSession:
    raise AssertionError("this needs Spark")


def _no_relations(name: str) -> pa.Table:
    raise AssertionError(name)
