"""G2, G8, G15, G16: recalls run to their end over a long history, by the real manager and ledger.

G2: a single recall, compared with one full scan by the same engine and with one query for each
chunk. The table is open and the query prepared, as in a process that has run recalls before;
answers are not cached. G8: ten concurrent recalls of one query, compared with one recall and with
ten in sequence. AQ4: ten of ten queries, compared with one. G15: pieces that are recorded for a task after its
cancellation. G16: chunks that are read twice because of a kill, by ten recalls and by a single
one. The results of a killed manager's running queries are lost; final answers are verified against
the rows.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from psycopg import Connection

from archiver.read import Reader
from archiver.time_range import TimeRange
from benchmarks.long_history import (
    CHUNK_COUNT,
    CHUNK_MICROS,
    END,
    SCHEMA,
    START,
    BenchmarkHistory,
    add_recalls,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
    draw_chunk,
    make_event,
    make_question,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.runtime import database
from recall.engines import LocalEngine, PartialQuery, SparkEngine, Template
from recall.engines.routing import EngineRouter, PartialCache
from recall.ledger import commands
from recall.ledger.commands import Target
from recall.requests import ChunkRange, Piece, plan_pieces
from recall.worker import RecallManager

_REPETITIONS = 5
_ROWS_PER_CHUNK = 200_000
_RECALLS = 10  # at once
_CONCURRENT_QUERIES = 2  # of one manager
_CONDITION = "p.v >= 0"
# Pairs of app and condition: one query for ten apps, and ten queries.
_SAME_QUERY = tuple((app, _CONDITION) for app in range(_RECALLS))
_DIFFERENT_QUERIES = tuple((app, f"p.v > {app}") for app in range(_RECALLS))
_PIECES_BEFORE_CANCEL = 300
_ROUNDS_AFTER_CANCEL = 5
_KILLS = 2

# The number of queries by event ID and chunk.
ReadCounts = Counter[tuple[UUID, int]]


def run() -> list[BenchmarkResult]:
    """Measure all goals alternately."""
    noise: list[float] = []
    samples: defaultdict[str, list[float]] = defaultdict(list)
    with create_history(_ROWS_PER_CHUNK) as history:
        uncached_engines = create_engines(history.root, PartialCache(max_bytes=0))
        manager = create_manager(history.root, history.connection, [uncached_engines])
        engine = LocalEngine(Reader(history.root, [SCHEMA]))
        _time_full_scan(engine)
        _time_to_final(history, manager, _SAME_QUERY[:1])
        _time_to_final(history, manager, _DIFFERENT_QUERIES)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            figures = _measure_times(history, manager, engine)
            figures["G15"] = _pieces_after_cancel(history)
            figures["G16 ten"] = _chunks_read_again(history, _RECALLS)
            figures["G16 single"] = _chunks_read_again(history, 1)
            for name, value in figures.items():
                samples[name].append(value)
            latest = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
            print(f"{repetition + 1}/{_REPETITIONS} {latest}", file=sys.stderr)
        manager.shut_down()
    return _make_results(samples, noise)


def _make_results(
    samples: Mapping[str, Sequence[float]], noise: Sequence[float]
) -> list[BenchmarkResult]:
    return [
        make_result(
            "G2",
            "final answer of a single recall ÷ one full scan, local engine",
            samples["G2"],
            target="≤ 1.25",
            details={
                "query_per_chunk": rounded_median(samples["query per chunk"], 2),
                "million_rows": _ROWS_PER_CHUNK * CHUNK_COUNT / 1e6,
            },
            noise=noise,
        ),
        make_result(
            "G8",
            "10 concurrent recalls of one query ÷ one recall",
            samples["G8 same query"],
            target="≤ 1.5",
            details={"in_sequence": rounded_median(samples["in sequence"], 2)},
            noise=noise,
        ),
        make_result(
            "AQ4",
            "10 concurrent recalls of 10 queries ÷ one recall",
            samples["AQ4 different queries"],
            target="≤ 6",
            noise=noise,
        ),
        make_result(
            "AQ4",
            "slowest first answer of 10 concurrent recalls of 10 queries ÷ of one recall",
            samples["AQ4 first answers"],
            target="≤ 5",
            noise=noise,
        ),
        make_result(
            "G15",
            "pieces recorded for a task after its cancellation",
            samples["G15"],
            target="≤ 1",
            noise=noise,
        ),
        make_result(
            "G16",
            "chunks read again per kill, 10 concurrent recalls",
            samples["G16 ten"],
            target="≤ 2",
            noise=noise,
        ),
        make_result(
            "G16",
            "chunks read again per kill, a single recall",
            samples["G16 single"],
            target="≤ 2",
            noise=noise,
        ),
    ]


def _measure_times(
    history: BenchmarkHistory, manager: RecallManager, engine: LocalEngine
) -> dict[str, float]:
    """G2 relative to the full scan, G8 relative to a single recall, and what they compare with."""
    full_scan = _time_full_scan(engine)
    query_per_chunk = _time_query_per_chunk(engine)
    single_recall = _time_to_final(history, manager, _SAME_QUERY[:1])
    same_query = _time_to_final(history, manager, _SAME_QUERY)
    different_queries = _time_to_final(history, manager, _DIFFERENT_QUERIES)
    first_answer = _time_to_first(history, manager, _SAME_QUERY[:1])
    first_answers = _time_to_first(history, manager, _DIFFERENT_QUERIES)
    in_sequence = 0.0
    for recall in _SAME_QUERY:
        in_sequence += _time_to_final(history, manager, [recall])
    return {
        "G2": single_recall / full_scan,
        "query per chunk": query_per_chunk / full_scan,
        "G8 same query": same_query / single_recall,
        "AQ4 different queries": different_queries / single_recall,
        "AQ4 first answers": first_answers / first_answer,
        "in sequence": in_sequence / single_recall,
    }


def _time_full_scan(engine: LocalEngine) -> float:
    """Seconds of one query over the whole history."""
    template = Template(make_question(_CONDITION))
    event_pieces = [(make_event(0), Piece(0, None, END))]
    return measure_seconds(partial(engine.compute_partial, template, event_pieces, {}))


def _time_query_per_chunk(engine: LocalEngine) -> float:
    """Seconds of one query for each chunk, without merging their answers."""
    question = make_question(_CONDITION)
    chunks: list[ChunkRange] = []
    for number in range(CHUNK_COUNT):
        start = START + number * CHUNK_MICROS
        chunks.append(ChunkRange(number, TimeRange(start, start + CHUNK_MICROS)))
    chunks[0] = ChunkRange(0, TimeRange(None, START + CHUNK_MICROS))
    chunks[-1] = ChunkRange(CHUNK_COUNT - 1, TimeRange(END - CHUNK_MICROS))
    template = Template(question)
    started_at = time.perf_counter()
    for piece in plan_pieces(chunks, END, question):
        engine.compute_partial(template, [(make_event(0), piece)], {})
    return time.perf_counter() - started_at


def _time_to_final(
    history: BenchmarkHistory, manager: RecallManager, recalls: Sequence[tuple[int, str]]
) -> float:
    """Seconds until all recalls are final; one query runs at a time, like the full scan."""
    add_recalls(history.connection, recalls)
    are_final = partial(_are_final, history.connection)
    return measure_seconds(partial(run_manager_until, manager, are_final))


def _time_to_first(
    history: BenchmarkHistory,
    manager: RecallManager,
    recalls: Sequence[tuple[int, str]],
) -> float:
    """Seconds until all recalls have an answer."""
    add_recalls(history.connection, recalls)
    have_answers = partial(_have_answers, history.connection)
    return measure_seconds(partial(run_manager_until, manager, have_answers))


def _have_answers(connection: Connection[Any]) -> bool:
    return count_tasks(connection, "revision = 0") == 0


def _are_final(connection: Connection[Any]) -> bool:
    """Whether all tasks have ended."""
    return count_tasks(connection, "state IN ('waiting', 'running')") == 0


def _has_read(connection: Connection[Any], piece_count: int) -> bool:
    """Whether all tasks together have read so many pieces."""
    row = connection.execute("SELECT coalesce(sum(next - skipped), 0) FROM tasks").fetchone()
    assert row is not None
    return int(row[0]) >= piece_count


def _pieces_after_cancel(history: BenchmarkHistory) -> float:
    """Cancel one of ten recalls half way; return how many pieces are recorded for it later."""
    connection = history.connection
    add_recalls(connection, _DIFFERENT_QUERIES)
    connection.execute("TRUNCATE commands")
    engines = [create_engines(history.root, PartialCache()) for _ in range(_CONCURRENT_QUERIES)]
    manager = create_manager(history.root, connection, engines)
    run_manager_until(manager, partial(_has_read, connection, _PIECES_BEFORE_CANCEL))
    row = connection.execute(
        "SELECT id, next FROM tasks WHERE state = 'running' ORDER BY recall LIMIT 1"
    ).fetchone()
    assert row is not None
    task, pieces_before = row
    commands.submit_command(
        connection,
        key="benchmark",
        command="cancel",
        target=Target(task=str(task)),
        author="benchmark",
    )
    for _ in range(_ROUNDS_AFTER_CANCEL):
        manager.run_once()
        manager.wait_for_query()
    manager.shut_down()
    row = connection.execute("SELECT next, state FROM tasks WHERE id = %s", (task,)).fetchone()
    assert row is not None
    pieces, state = row
    assert state == "cancelled", state
    return float(pieces - pieces_before)


class _CountingEngines(EngineRouter):
    """Engines that count how often each chunk is read for each event."""

    def __init__(
        self,
        spark: SparkEngine,
        local: LocalEngine,
        partial_cache: PartialCache,
        read_counts: ReadCounts,
    ) -> None:
        super().__init__(spark, local, partial_cache)
        self._read_counts = read_counts

    def compute_partials(
        self, partial_queries: Sequence[PartialQuery]
    ) -> list[dict[str, pa.Table]]:
        for query in partial_queries:
            for event, piece in query.event_pieces:
                for chunk in _chunks_of_piece(piece):
                    self._read_counts[event.eid, chunk] += 1
        return super().compute_partials(partial_queries)


def _chunks_of_piece(piece: Piece) -> range:
    first = 0
    if piece.low is not None:
        first = round((piece.low - START) / CHUNK_MICROS)
    return range(first, round((piece.high - START) / CHUNK_MICROS))


def _chunks_read_again(history: BenchmarkHistory, recall_count: int) -> float:
    """Kill the manager of some recalls twice; return how many chunks are read again per kill."""
    connection = history.connection
    add_recalls(connection, _DIFFERENT_QUERIES[:recall_count])
    read_counts: ReadCounts = Counter()
    piece_count = CHUNK_COUNT * recall_count
    for pieces_before_kill in (piece_count // 5, piece_count // 2):
        with _killed_manager(history, read_counts) as manager:
            run_manager_until(manager, partial(_has_read, connection, pieces_before_kill))
    with _killed_manager(history, read_counts) as manager:
        run_manager_until(manager, partial(_are_final, connection))
    _verify_counts(history, recall_count)
    chunks_read_again = {chunk for (_, chunk), count in read_counts.items() if count > 1}
    return len(chunks_read_again) / _KILLS


def _verify_counts(history: BenchmarkHistory, recall_count: int) -> None:
    """Compare the row counts in the final answers with the rows."""
    answers = history.connection.execute(
        "SELECT (r.answer->0->>'n')::bigint FROM tasks t JOIN revisions r ON r.task = t.id "
        "AND r.number = t.revision AND r.final"
    ).fetchall()
    actual_counts = sorted(count for (count,) in answers)
    expected_counts = np.zeros(recall_count, dtype=int)
    for chunk in range(CHUNK_COUNT):
        rows = draw_chunk(chunk, history.rows_per_chunk)
        for app in range(recall_count):
            expected_counts[app] += np.sum((rows.apps == app) & (rows.values > app))
    assert actual_counts == sorted(expected_counts.tolist()), actual_counts


@contextmanager
def _killed_manager(history: BenchmarkHistory, read_counts: ReadCounts) -> Iterator[RecallManager]:
    """A manager with its own connection, which ends without releasing its tasks."""
    with database.connect_database(history.settings, "benchmark recall") as connection:
        partial_cache = PartialCache()
        engines: list[EngineRouter] = []
        for _ in range(_CONCURRENT_QUERIES):
            spark = create_engines(history.root, partial_cache).spark
            local = LocalEngine(Reader(history.root, [SCHEMA]))
            engines.append(_CountingEngines(spark, local, partial_cache, read_counts))
        manager = create_manager(history.root, connection, engines)
        yield manager
        manager.shut_down()
