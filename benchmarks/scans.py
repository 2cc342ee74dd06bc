"""G2, G8, G15, G16: recalls to their end over the archive of `benchmarks.recalls`, by the real manager and ledger.

G2: a recall alone, beside one full scan by the same engine and one query for each chunk. G8: ten recalls of one
question, beside one, and beside ten one after the other. G15: chunks that a task reads after it was cancelled. G16:
chunks read twice because of a kill; the killed manager's queries end unheard.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from psycopg import Connection

from archiver.reader import Reader
from benchmarks.recalls import CHUNK, END, SCHEMA, archive, ask, engines, manager, questioned
from benchmarks.results import Result, kernel, result
from moirae import database
from moirae.settings import Settings
from recall import commands
from recall.commands import Target
from recall.engines.chosen import Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.template import Own, Template
from recall.request import Asked, Piece, pieces

_REPETITIONS = 5
_FRESH = "h.v > 0"


def run() -> list[Result]:
    """Measure, interleaved."""
    noise, final, by_chunk, ten, separate, cancelled, redone = [], [], [], [], [], [], []
    with archive() as (root, connection, settings):
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            scan, each = _scan(root), _each_chunk(root, connection)
            one = _to_the_end(root, connection, 1)
            final.append(one / scan)
            by_chunk.append(each / scan)
            ten.append(_to_the_end(root, connection, 10) / one)
            separate.append(sum(_to_the_end(root, connection, 1, host) for host in range(10)) / one)
            cancelled.append(_cancelled(root, connection))
            redone.append(_redone(root, connection, settings))
            told = f"final {final[-1]:.2f}, by chunk {by_chunk[-1]:.2f}, ten {ten[-1]:.2f}, apart {separate[-1]:.2f}"
            print(f"{repetition + 1}/{_REPETITIONS} {told}, redone {redone[-1]}", file=sys.stderr)
    beside = {"query_by_chunk": round(statistics.median(by_chunk), 2)}
    apart = {"one_after_the_other": round(statistics.median(separate), 2)}
    return [
        result("G2", "final answer of a recall alone ÷ one full scan, local reader", final, "≤ 1.25", beside, noise),
        result("G8", "ten recalls of one question ÷ one", ten, "≤ 1.5", apart, noise),
        result("G15", "chunks that count for a task after it was cancelled", cancelled, "≤ 1", {}, noise),
        result("G16", "chunks read again after a kill, 10 recalls at once", redone, "≤ 2", {}, noise),
    ]


def _scan(root: Path) -> float:
    """One query over all of history."""
    engine = LocalEngine(Reader(root, [SCHEMA]))
    began = time.monotonic()
    engine.partial(Template(questioned(_FRESH)), [(_event(0), (0, None, END))], {})
    return time.monotonic() - began


def _each_chunk(root: Path, connection: Connection[Any]) -> float:
    """One query for each chunk, as plainly as may be."""
    rows = connection.execute(
        "SELECT id, (extract(epoch FROM from_ts) * 1e6)::bigint, (extract(epoch FROM to_ts) * 1e6)::bigint "
        "FROM chunks ORDER BY id"
    ).fetchall()
    engine, question = LocalEngine(Reader(root, [SCHEMA])), questioned(_FRESH)
    template = Template(question)
    began = time.monotonic()
    for piece in pieces(rows, END, question):
        engine.partial(template, [(_event(0), piece)], {})
    return time.monotonic() - began


def _event(host: int) -> Asked:
    return Asked(UUID(int=1), END, {}, {"host": f"h{host}"})


def _to_the_end(root: Path, connection: Connection[Any], count: int, first: int = 0) -> float:
    """Recalls of one question about some hosts, until all are final."""
    ask(connection, [(first + number, _FRESH) for number in range(count)])
    ours = manager(root, connection, [engines(root, Kept())])
    began = time.monotonic()
    while _standing(connection)[1]:
        ours.round()
        ours.rest()
    seconds = time.monotonic() - began
    ours.finish()
    return seconds


def _standing(connection: Connection[Any]) -> tuple[int, int]:
    """Pieces read, and tasks that go on."""
    row = connection.execute(
        "SELECT coalesce(sum(next - skipped), 0), count(*) FILTER (WHERE state IN ('waiting', 'running')) FROM tasks"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _cancelled(root: Path, connection: Connection[Any]) -> float:
    """Half way through ten recalls one is cancelled: the pieces that are counted for it after that."""
    ask(connection, [(number, f"h.v > {number}") for number in range(10)])
    connection.execute("TRUNCATE commands")
    ours = manager(root, connection, [engines(root, Kept()) for _ in range(2)])
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
    """Engines that tell how many chunks they were asked for."""

    asked = 0

    def partial(self, template: Template, shares: Any, own: Own) -> dict[str, pa.Table]:
        _Counting.asked += sum(_chunks(piece) for _, piece in shares)
        return super().partial(template, shares, own)


def _chunks(piece: Piece) -> int:
    _, low, high = piece
    return round((high - (END - 100 * CHUNK if low is None else low)) / CHUNK)


def _redone(root: Path, connection: Connection[Any], settings: Settings) -> float:
    """Ten recalls, killed twice on the way: chunks asked for beyond those there are, for each kill."""
    ask(connection, [(number, f"h.v > {number}") for number in range(10)])
    _Counting.asked = 0
    for goal in (200, 500, None):
        with _another(root, settings) as ours:
            while _standing(connection)[1] if goal is None else _standing(connection)[0] < goal:
                ours.round()
                ours.rest()
    rows = connection.execute(
        "SELECT r.answer->0->>'n' FROM tasks t JOIN revisions r ON r.task = t.id AND r.number = t.revision AND r.final"
    ).fetchall()
    assert len(rows) == 10, json.dumps(rows)
    return (_Counting.asked - 10 * 100) / 2


@contextmanager
def _another(root: Path, settings: Settings) -> Iterator[Any]:
    """A manager on a connection of its own, which ends without a word."""
    with database.connect(settings, "benchmark recall") as connection:
        kept = Kept()
        workers: list[Engines] = []
        for _ in range(2):
            plain = engines(root, kept)
            workers.append(_Counting(plain.spark, LocalEngine(Reader(root, [SCHEMA])), kept))
        ours = manager(root, connection, workers)
        yield ours
        ours.finish()
