"""G2, G8, G15, G16: recalls to their end over a long history, by the real manager and ledger.

G2: a recall alone, beside one full scan by the same engine and one query for each chunk; the table
is open and the question known, as in a process that has recalled before, and no answer is kept.
G8: ten recalls of one question, beside one, and beside ten one after the other; and ten of ten
questions. G15: chunks that a task reads after it was cancelled. G16: chunks read twice because of
a kill, by ten recalls and by one alone; a killed manager's queries end unheard, and answers are
held against the rows that were drawn.
"""

import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from psycopg import Connection

from archiver.read import Reader
from benchmarks.long_history import (
    CHUNK_COUNT,
    CHUNK_MICROS,
    END,
    SCHEMA,
    START,
    BenchmarkHistory,
    add_recalls,
    create_engines,
    create_history,
    create_manager,
    draw_chunk,
    make_event,
    make_question,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.runtime import database
from recall.engines import EngineRouter, LocalEngine, PartialCache, PartialQuery, Template
from recall.ledger import Target, commands
from recall.requests import Piece, plan_pieces
from recall.worker import RecallManager

_REPETITIONS = 5
_ROWS = 200_000
_CONDITION = "p.v >= 0"


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    noise, final, by_chunk, ten, different, separate, cancelled, redone, redone_alone = (
        [] for _ in range(9)
    )
    different_questions = [(app, f"p.v > {app}") for app in range(10)]
    with create_history(_ROWS) as past:
        ours = create_manager(
            past.root, past.connection, [create_engines(past.root, PartialCache(max_bytes=0))]
        )
        engine = LocalEngine(Reader(past.root, [SCHEMA]))
        _time_full_scan(engine)
        _time_to_final(past, ours, [(0, _CONDITION)])
        _time_to_final(past, ours, different_questions)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            scan, each = _time_full_scan(engine), _time_query_per_chunk(engine)
            one = _time_to_final(past, ours, [(0, _CONDITION)])
            final.append(one / scan)
            by_chunk.append(each / scan)
            ten.append(_time_to_final(past, ours, [(app, _CONDITION) for app in range(10)]) / one)
            different.append(_time_to_final(past, ours, different_questions) / one)
            separate.append(
                sum(_time_to_final(past, ours, [(app, _CONDITION)]) for app in range(10)) / one
            )
            cancelled.append(_chunks_after_cancel(past))
            redone.append(_chunks_read_again(past, 10))
            redone_alone.append(_chunks_read_again(past, 1))
            told = f"scan {scan:.3f} s, final {final[-1]:.2f}, by chunk {by_chunk[-1]:.2f}, ten {ten[-1]:.2f}"
            apart = f"of ten questions {different[-1]:.2f}, apart {separate[-1]:.2f}, redone {redone[-1]}"
            print(f"{repetition + 1}/{_REPETITIONS} {told}, {apart}", file=sys.stderr)
        ours.shut_down()
    beside = {
        "query_by_chunk": round(statistics.median(by_chunk), 2),
        "million_rows": _ROWS * CHUNK_COUNT / 1e6,
    }
    apart_beside = {"one_after_the_other": round(statistics.median(separate), 2)}
    return [
        make_result(
            "G2",
            "final answer of a recall alone ÷ one full scan, local reader",
            final,
            "≤ 1.25",
            beside,
            noise,
        ),
        make_result("G8", "ten recalls of one question ÷ one", ten, "≤ 1.5", apart_beside, noise),
        make_result("G8", "ten recalls of ten questions ÷ one", different, "–", {}, noise),
        make_result(
            "G15",
            "chunks that count for a task after it was cancelled",
            cancelled,
            "≤ 1",
            {},
            noise,
        ),
        make_result(
            "G16", "chunks read again after a kill, 10 recalls at once", redone, "≤ 2", {}, noise
        ),
        make_result(
            "G16",
            "chunks read again after a kill, a recall alone: its run",
            redone_alone,
            "≤ 2",
            {},
            noise,
        ),
    ]


def _time_full_scan(engine: LocalEngine) -> float:
    """One query over all of history."""
    began = time.monotonic()
    engine.compute_partial(
        Template(make_question(_CONDITION)), [(make_event(0), Piece(0, None, END))], {}
    )
    return time.monotonic() - began


def _time_query_per_chunk(engine: LocalEngine) -> float:
    """One query for each chunk, as plainly as may be."""
    edges = [None, *(START + number * CHUNK_MICROS for number in range(1, CHUNK_COUNT)), None]
    asked = make_question(_CONDITION)
    template = Template(asked)
    began = time.monotonic()
    for piece in plan_pieces([(n, edges[n], edges[n + 1]) for n in range(CHUNK_COUNT)], END, asked):
        engine.compute_partial(template, [(make_event(0), piece)], {})
    return time.monotonic() - began


def _time_to_final(
    past: BenchmarkHistory, ours: RecallManager, asked: Sequence[tuple[int, str]]
) -> float:
    """Some recalls, until all are final; one query at a time, as the scan is."""
    add_recalls(past.connection, asked)
    began = time.monotonic()
    while _count_progress(past.connection)[1]:
        ours.run_once()
        ours.wait_for_query()
    return time.monotonic() - began


def _count_progress(connection: Connection[Any]) -> tuple[int, int]:
    """Pieces read, and tasks that go on."""
    row = connection.execute(
        "SELECT coalesce(sum(next - skipped), 0), count(*) FILTER (WHERE state IN ('waiting', "
        "'running')) FROM tasks"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _chunks_after_cancel(past: BenchmarkHistory) -> float:
    """Half way through ten recalls one is cancelled: the pieces that are counted for it after that."""
    connection = past.connection
    add_recalls(connection, [(app, f"p.v > {app}") for app in range(10)])
    connection.execute("TRUNCATE commands")
    ours = create_manager(
        past.root, connection, [create_engines(past.root, PartialCache()) for _ in range(2)]
    )
    while _count_progress(connection)[0] < 300:
        ours.run_once()
        ours.wait_for_query()
    row = connection.execute(
        "SELECT id, next FROM tasks WHERE state = 'running' ORDER BY recall LIMIT 1"
    ).fetchone()
    assert row is not None
    commands.submit_command(
        connection, "benchmark", "cancel", Target(task=str(row[0])), "benchmark"
    )
    for _ in range(5):
        ours.run_once()
        ours.wait_for_query()
    ours.shut_down()
    after = connection.execute("SELECT next, state FROM tasks WHERE id = %s", (row[0],)).fetchone()
    assert after is not None and after[1] == "cancelled"
    return float(after[0] - row[1])


class _CountingEngines(EngineRouter):
    """Engines that tell how often they were asked for each chunk, for each event."""

    queries_by_chunk: Counter[tuple[UUID, int]] = Counter()

    def partials(self, asks: Sequence[PartialQuery]) -> list[dict[str, pa.Table]]:
        _CountingEngines.queries_by_chunk.update(
            (event.eid, chunk)
            for ask in asks
            for event, piece in ask.event_pieces
            for chunk in _chunks_of(piece)
        )
        return super().compute_partials(asks)


def _chunks_of(piece: Piece) -> range:
    """The chunks in a piece."""
    low, high = piece.range
    return range(
        0 if low is None else round((low - START) / CHUNK_MICROS),
        round((high - START) / CHUNK_MICROS),
    )


def _chunks_read_again(past: BenchmarkHistory, recalls: int) -> float:
    """Some recalls, killed twice on the way: chunks read more than once for some of them, for each
    kill.
    """
    connection = past.connection
    add_recalls(connection, [(app, f"p.v > {app}") for app in range(recalls)])
    _CountingEngines.queries_by_chunk.clear()
    for goal in (CHUNK_COUNT * recalls // 5, CHUNK_COUNT * recalls // 2, None):
        with _killed_manager(past) as ours:
            while (
                _count_progress(connection)[1]
                if goal is None
                else _count_progress(connection)[0] < goal
            ):
                ours.round()
                ours.rest()
    rows = connection.execute(
        "SELECT r.answer->0->>'n' FROM tasks t JOIN revisions r ON r.task = t.id AND r.number = "
        "t.revision AND r.final"
    ).fetchall()
    apps, values = (
        np.concatenate(part)
        for part in zip(
            *(draw_chunk(n, past.rows_per_chunk)[2:] for n in range(CHUNK_COUNT)), strict=True
        )
    )
    assert sorted(int(n) for (n,) in rows) == sorted(
        int(np.sum((apps == app) & (values > app))) for app in range(recalls)
    ), json.dumps(rows)
    return (
        len({chunk for (_, chunk), times in _CountingEngines.queries_by_chunk.items() if times > 1})
        / 2
    )


@contextmanager
def _killed_manager(past: BenchmarkHistory) -> Iterator[Any]:
    """A manager on a connection of its own, which ends without a word."""
    with database.connect_database(past.settings, "benchmark recall") as connection:
        kept = PartialCache()
        workers: list[EngineRouter] = []
        for _ in range(2):
            plain = create_engines(past.root, kept)
            workers.append(
                _CountingEngines(plain.spark, LocalEngine(Reader(past.root, [SCHEMA])), kept)
            )
        ours = create_manager(past.root, connection, workers)
        yield ours
        ours.shut_down()
