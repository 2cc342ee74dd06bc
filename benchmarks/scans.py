"""G2, G8, G15, G16: recalls to their end over a long history, by the real manager and ledger.

G2: a recall alone, beside one full scan by the same engine and one query for each chunk; the table is open and the
question known, as in a process that has recalled before, and no answer is kept. G8: ten recalls of one
question, beside one, and beside ten one after the other; and ten of ten questions. G15: chunks that a task reads after
it was cancelled. G16: chunks read twice because of a kill, by ten recalls and by one alone; a killed manager's queries
end unheard, and answers are held against the rows that were drawn.
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

from archiver.reader import Reader
from benchmarks.history import (
    CHUNKS,
    END,
    SCHEMA,
    SPAN,
    START,
    History,
    ask,
    drawn,
    engines,
    event,
    history,
    manager,
    questioned,
)
from benchmarks.results import Result, kernel, result
from moirae import database
from recall import commands
from recall.commands import Target
from recall.engines.chosen import Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.template import Ask, Template
from recall.manager.loop import Manager
from recall.request import Piece, pieces

_REPETITIONS = 5
_ROWS = 200_000
_FRESH = "p.v >= 0"


def run() -> list[Result]:
    """Measure, interleaved."""
    noise, final, by_chunk, ten, different, separate, cancelled, redone, redone_alone = ([] for _ in range(9))
    different_questions = [(app, f"p.v > {app}") for app in range(10)]
    with history(_ROWS) as past:
        ours = manager(past.root, past.connection, [engines(past.root, Kept(room=0))])
        engine = LocalEngine(Reader(past.root, [SCHEMA]))
        _scan(engine)
        _to_the_end(past, ours, [(0, _FRESH)])
        _to_the_end(past, ours, different_questions)
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            scan, each = _scan(engine), _each_chunk(engine)
            one = _to_the_end(past, ours, [(0, _FRESH)])
            final.append(one / scan)
            by_chunk.append(each / scan)
            ten.append(_to_the_end(past, ours, [(app, _FRESH) for app in range(10)]) / one)
            different.append(_to_the_end(past, ours, different_questions) / one)
            separate.append(sum(_to_the_end(past, ours, [(app, _FRESH)]) for app in range(10)) / one)
            cancelled.append(_cancelled(past))
            redone.append(_redone(past, 10))
            redone_alone.append(_redone(past, 1))
            told = f"scan {scan:.3f} s, final {final[-1]:.2f}, by chunk {by_chunk[-1]:.2f}, ten {ten[-1]:.2f}"
            apart = f"of ten questions {different[-1]:.2f}, apart {separate[-1]:.2f}, redone {redone[-1]}"
            print(f"{repetition + 1}/{_REPETITIONS} {told}, {apart}", file=sys.stderr)
        ours.finish()
    beside = {"query_by_chunk": round(statistics.median(by_chunk), 2), "million_rows": _ROWS * CHUNKS / 1e6}
    apart_beside = {"one_after_the_other": round(statistics.median(separate), 2)}
    return [
        result("G2", "final answer of a recall alone ÷ one full scan, local reader", final, "≤ 1.25", beside, noise),
        result("G8", "ten recalls of one question ÷ one", ten, "≤ 1.5", apart_beside, noise),
        result("G8", "ten recalls of ten questions ÷ one", different, "–", {}, noise),
        result("G15", "chunks that count for a task after it was cancelled", cancelled, "≤ 1", {}, noise),
        result("G16", "chunks read again after a kill, 10 recalls at once", redone, "≤ 2", {}, noise),
        result("G16", "chunks read again after a kill, a recall alone: its run", redone_alone, "≤ 2", {}, noise),
    ]


def _scan(engine: LocalEngine) -> float:
    """One query over all of history."""
    began = time.monotonic()
    engine.partial(Template(questioned(_FRESH)), [(event(0), (0, None, END))], {})
    return time.monotonic() - began


def _each_chunk(engine: LocalEngine) -> float:
    """One query for each chunk, as plainly as may be."""
    edges = [None, *(START + number * SPAN for number in range(1, CHUNKS)), None]
    asked = questioned(_FRESH)
    template = Template(asked)
    began = time.monotonic()
    for piece in pieces([(n, edges[n], edges[n + 1]) for n in range(CHUNKS)], END, asked):
        engine.partial(template, [(event(0), piece)], {})
    return time.monotonic() - began


def _to_the_end(past: History, ours: Manager, asked: Sequence[tuple[int, str]]) -> float:
    """Some recalls, until all are final; one query at a time, as the scan is."""
    ask(past.connection, asked)
    began = time.monotonic()
    while _standing(past.connection)[1]:
        ours.round()
        ours.rest()
    return time.monotonic() - began


def _standing(connection: Connection[Any]) -> tuple[int, int]:
    """Pieces read, and tasks that go on."""
    row = connection.execute(
        "SELECT coalesce(sum(next - skipped), 0), count(*) FILTER (WHERE state IN ('waiting', 'running')) FROM tasks"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _cancelled(past: History) -> float:
    """Half way through ten recalls one is cancelled: the pieces that are counted for it after that."""
    connection = past.connection
    ask(connection, [(app, f"p.v > {app}") for app in range(10)])
    connection.execute("TRUNCATE commands")
    ours = manager(past.root, connection, [engines(past.root, Kept()) for _ in range(2)])
    while _standing(connection)[0] < 300:
        ours.round()
        ours.rest()
    row = connection.execute("SELECT id, next FROM tasks WHERE state = 'running' ORDER BY recall LIMIT 1").fetchone()
    assert row is not None
    commands.ask(connection, "benchmark", "cancel", Target(task=str(row[0])), "benchmark")
    for _ in range(5):
        ours.round()
        ours.rest()
    ours.finish()
    after = connection.execute("SELECT next, state FROM tasks WHERE id = %s", (row[0],)).fetchone()
    assert after is not None and after[1] == "cancelled"
    return float(after[0] - row[1])


class _Counting(Engines):
    """Engines that tell how often they were asked for each chunk, for each event."""

    asked: Counter[tuple[UUID, int]] = Counter()

    def partials(self, asks: Sequence[Ask]) -> list[dict[str, pa.Table]]:
        _Counting.asked.update(
            (event.eid, chunk) for ask in asks for event, piece in ask.shares for chunk in _of(piece)
        )
        return super().partials(asks)


def _of(piece: Piece) -> range:
    """The chunks in a piece."""
    _, low, high = piece
    return range(0 if low is None else round((low - START) / SPAN), round((high - START) / SPAN))


def _redone(past: History, recalls: int) -> float:
    """Some recalls, killed twice on the way: chunks read more than once for some of them, for each kill."""
    connection = past.connection
    ask(connection, [(app, f"p.v > {app}") for app in range(recalls)])
    _Counting.asked.clear()
    for goal in (CHUNKS * recalls // 5, CHUNKS * recalls // 2, None):
        with _another(past) as ours:
            while _standing(connection)[1] if goal is None else _standing(connection)[0] < goal:
                ours.round()
                ours.rest()
    rows = connection.execute(
        "SELECT r.answer->0->>'n' FROM tasks t JOIN revisions r ON r.task = t.id AND r.number = t.revision AND r.final"
    ).fetchall()
    apps, values = (
        np.concatenate(part) for part in zip(*(drawn(n, past.rows)[2:] for n in range(CHUNKS)), strict=True)
    )
    assert sorted(int(n) for (n,) in rows) == sorted(
        int(np.sum((apps == app) & (values > app))) for app in range(recalls)
    ), json.dumps(rows)
    return len({chunk for (_, chunk), times in _Counting.asked.items() if times > 1}) / 2


@contextmanager
def _another(past: History) -> Iterator[Any]:
    """A manager on a connection of its own, which ends without a word."""
    with database.connect(past.settings, "benchmark recall") as connection:
        kept = Kept()
        workers: list[Engines] = []
        for _ in range(2):
            plain = engines(past.root, kept)
            workers.append(_Counting(plain.spark, LocalEngine(Reader(past.root, [SCHEMA])), kept))
        ours = manager(past.root, connection, workers)
        yield ours
        ours.finish()
