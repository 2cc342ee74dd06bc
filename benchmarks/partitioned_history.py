"""AQ5: the paper's Figure 7 and section 4.4: partitioned history, and turns by results.

Figure 7: a query for the rows of one host over the newest chunks. Partitioned: one open chunk, 24
recent ones clustered by host, older ones in the order of their times. Indexed: all chunks are
clustered. Traditional: one table of PostgreSQL with an index over host and time. Section 4.4: three
recalls that find few, more and many rows compete; tickets are lost for results as by default.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from psycopg import Connection

from archiver.read import Reader
from archiver.times import from_micros
from benchmarks.long_history import (
    CHUNK_MICROS,
    END,
    NORM,
    SCHEMA,
    START,
    BenchmarkHistory,
    ask_history,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
    draw_chunk,
    make_event,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines import LocalEngine, Template
from recall.engines.routing import PartialCache
from recall.ledger import Ledger, SchedulingPolicy
from recall.requests import Piece, RecallEvent, RecallRequest

_REPETITIONS = 5
_CHUNKS = 100
_RECENT = 24
_ROWS_PER_CHUNK = 20_000
_LENGTHS = (1, 5, 25, 50, 100)  # chunks, the newest ones
_HOST = "h7"
_PLOT = Path(__file__).parents[1] / "docs" / "images" / "partitioned_history.svg"
_LABELS = {
    "partitioned": "present, recent with index, old without",
    "indexed": "all chunks indexed",
    "table": "one traditional table, indexed",
}
# Of recalls that compete: values above it are results.
_THRESHOLDS = {"few": 99.95, "more": 99.5, "many": 95.0}
_PIECES_READ = 90  # by all of them together, before any is final

_Evaluate = Callable[[int], object]


def run() -> list[BenchmarkResult]:
    """Measure the three layouts alternately, then the turns."""
    noise: list[float] = []
    seconds: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    shares: list[Mapping[str, float]] = []
    first_clustered = _CHUNKS - 1 - _RECENT
    with (
        create_history(_ROWS_PER_CHUNK, _CHUNKS, first_clustered=first_clustered) as partitioned,
        create_history(_ROWS_PER_CHUNK, _CHUNKS) as indexed,
    ):
        _create_table(indexed.connection)
        layouts: dict[str, _Evaluate] = {
            "partitioned": _query_archive(partitioned),
            "indexed": _query_archive(indexed),
            "table": partial(_query_table, indexed.connection),
        }
        for evaluate in layouts.values():
            evaluate(_CHUNKS)
        for _ in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for length in _LENGTHS:
                for layout, evaluate in layouts.items():
                    taken = measure_seconds(partial(evaluate, length))
                    seconds[layout, length].append(taken)
            shares.append(_measure_shares(indexed))
    medians = {key: rounded_median(values, 5) for key, values in seconds.items()}
    for key, value in medians.items():
        print(f"AQ5 {key}: {1000 * value:.1f} ms", file=sys.stderr)
    _draw(medians)
    return _make_results(seconds, medians, shares, noise)


def _make_results(
    seconds: Mapping[tuple[str, int], Sequence[float]],
    medians: Mapping[tuple[str, int], float],
    shares: Sequence[Mapping[str, float]],
    noise: Sequence[float],
) -> list[BenchmarkResult]:
    results: list[BenchmarkResult] = []
    for length in _LENGTHS:
        pairs = zip(seconds["partitioned", length], seconds["indexed", length], strict=True)
        table = medians["table", length]
        results.append(
            make_result(
                "AQ5",
                f"a query over {length} chunks of partitioned history ÷ of all chunks indexed",
                [partitioned / full for partitioned, full in pairs],
                target="1 in recent chunks",
                details={
                    "partitioned_ms": round(1000 * medians["partitioned", length], 2),
                    "indexed_ms": round(1000 * medians["indexed", length], 2),
                    "table_ms": round(1000 * table, 2),
                    "indexed_by_table": round(medians["indexed", length] / table, 2),
                },
                noise=noise,
            )
        )
    results.append(
        make_result(
            "AQ5",
            "pieces read for the recall with few results ÷ for that with many, while they compete",
            [share["few"] / share["many"] for share in shares],
            target="> 1",
            details={
                name: rounded_median([share[name] for share in shares], 3) for name in _THRESHOLDS
            },
            noise=noise,
        )
    )
    return results


# Figure 7


def _query_archive(history: BenchmarkHistory) -> _Evaluate:
    """Evaluates the query over the newest chunks of an archive."""
    engine = LocalEngine(Reader(history.root, [SCHEMA]))
    template = Template(ask_history(f"{NORM} WHERE p.host = event.host", attribute="host"))
    event = RecallEvent(make_event(0).eid, END, key={}, attributes={"host": _HOST})

    def evaluate(length: int) -> object:
        first = _CHUNKS - length
        low = START + first * CHUNK_MICROS if first else None
        return engine.compute_partial(template, [(event, Piece(first, low, END))], {})

    return evaluate


def _create_table(connection: Connection[Any]) -> None:
    """One table with all rows, in the order in which they came, and an index."""
    connection.execute("CREATE TABLE traditional (ts timestamptz, host text, app text, v float8)")
    with connection.cursor() as cursor, cursor.copy("COPY traditional FROM STDIN") as copy:
        for chunk in range(_CHUNKS):
            rows = draw_chunk(chunk, _ROWS_PER_CHUNK)
            for ts, host, app, v in zip(*map(list, rows), strict=True):
                copy.write_row((from_micros(int(ts)), f"h{host}", f"a{app}", float(v)))
    connection.execute("CREATE INDEX ON traditional (host, ts)")
    connection.execute("VACUUM ANALYZE traditional")


def _query_table(connection: Connection[Any], length: int) -> object:
    start = from_micros(START + (_CHUNKS - length) * CHUNK_MICROS)
    return connection.execute(
        "SELECT avg(v), stddev(v), count(*) FROM traditional WHERE host = %s AND ts >= %s",
        (_HOST, start),
    ).fetchone()


def _draw(medians: Mapping[tuple[str, int], float]) -> None:
    """Plot the times by length of history."""
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "moirae"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for layout, label in _LABELS.items():
        times = [1000 * medians[layout, length] for length in _LENGTHS]
        axes.plot(_LENGTHS, times, marker="o", label=label)
    axes.axvline(1 + _RECENT, color="grey", linestyle=":", label="oldest recent chunk")
    axes.set_xlabel("length of history (chunks)")
    axes.set_ylabel("time to answer (ms)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    _PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(_PLOT, metadata={"Date": None})
    pyplot.close(figure)


# Section 4.4


def _measure_shares(history: BenchmarkHistory) -> dict[str, float]:
    """The share of the pieces that each of three competing recalls has read."""
    connection = history.connection
    connection.execute("TRUNCATE tasks CASCADE")
    for number, (name, threshold) in enumerate(_THRESHOLDS.items()):
        sql = f"SELECT p.ts, p.v FROM past p WHERE p.app = event.app AND p.v > {threshold} LIMIT 100000"
        request = RecallRequest(
            rule="bench/r",
            version="1",
            recall=name,
            question=ask_history(sql, attribute="app"),
            event=make_event(1, number),
            level=0,
        )
        Ledger(connection).add([request])
    engines = create_engines(history.root, PartialCache(max_bytes=0))
    price = SchedulingPolicy().tickets_per_result
    manager = create_manager(history.root, connection, [engines], tickets_per_result=price)
    run_manager_until(manager, partial(_have_read, connection, _PIECES_READ))
    manager.shut_down()
    assert not count_tasks(connection, "state = 'done'"), "a recall was final before"
    read = dict(connection.execute("SELECT recall, next FROM tasks").fetchall())
    return {name: read[name] / sum(read.values()) for name in _THRESHOLDS}


def _have_read(connection: Connection[Any], pieces: int) -> bool:
    row = connection.execute("SELECT coalesce(sum(next), 0) FROM tasks").fetchone()
    assert row is not None
    return int(row[0]) >= pieces
