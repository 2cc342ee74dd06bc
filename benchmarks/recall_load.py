"""HS8: what one recall process sustains, with norms and similar past events over much history.

Alerts come one for each that is answered, so that a fixed number is open, each with a norm and a
similarity recall. `python -m benchmarks.recall_load CHUNKS SECONDS` measures one length of history,
in an installation that may be an earlier one.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

import numpy as np
import orjson
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros
from benchmarks.long_history import (
    CHUNK_MICROS,
    START,
    BenchmarkHistory,
    create_engines,
    create_history,
    create_manager,
    make_question,
)
from recall.engines.routing import PartialCache
from recall.ledger import Ledger
from recall.requests import AnyQuestion, RecallEvent, RecallRequest, SimilarQuestion
from recall.worker import RecallManager

RULE = "bench/alert"
_VERSION = "1"
_ROWS_PER_CHUNK = 1_000
_PAST_EVENTS = 40  # of each chunk
_OPEN_ALERTS = 4
_TERMS = 400  # different ones
_CONTEXT_TERMS = 12  # of an event
_SIMILAR = SimilarQuestion(None, 1.0, "newest", contexts=("running",), k=10, measure="tfidf", gap=0)
_ADD_CONTEXT = """
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)
VALUES (%s, %s, %s, %s, %s, '{}', true, %s)
"""


class AlertSource:
    """Alerts behind the end of a history, each with its settled context."""

    def __init__(self, connection: sql.Connection, chunk_count: int) -> None:
        self._connection = connection
        self._end = START + chunk_count * CHUNK_MICROS
        self._rng = np.random.default_rng(1)
        self._number = 0

    def add_past(self, chunk_count: int) -> None:
        """The past events of all chunks."""
        interval = CHUNK_MICROS // _PAST_EVENTS
        times = range(START, START + chunk_count * CHUNK_MICROS, interval)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(_ADD_CONTEXT, list(map(self._make_context, times)))

    def add_alert(self) -> None:
        """An alert with its two recalls, which begin at once."""
        with self._connection.transaction():
            ts = self._end + self._number
            context = self._make_context(ts)
            self._connection.execute(_ADD_CONTEXT, context)
            eid = context[2]
            app = f"a{self._number % 50}"
            event = RecallEvent(eid, ts, key={"app": app}, attributes={"app": app})
            questions: dict[str, AnyQuestion] = {
                "norm": make_question("p.v > 5"),
                "similar": _SIMILAR,
            }
            requests = []
            for name, question in questions.items():
                requests.append(RecallRequest(RULE, _VERSION, name, question, event, level=0))
            Ledger(self._connection).add(requests)

    def _make_context(self, ts: int) -> tuple[str, str, UUID, datetime, Jsonb, int]:
        self._number += 1
        terms = self._rng.zipf(1.3, _CONTEXT_TERMS) % _TERMS
        rows = [{"process": f"p{term}"} for term in terms.tolist()]
        contexts = Jsonb({"running": rows})
        eid = UUID(int=self._number)
        return RULE, _VERSION, eid, from_micros(ts), contexts, self._number


@contextmanager
def open_world(chunk_count: int) -> Iterator[tuple[BenchmarkHistory, AlertSource]]:
    """A history with past events."""
    with create_history(_ROWS_PER_CHUNK, chunk_count) as history:
        source = AlertSource(history.connection, chunk_count)
        source.add_past(chunk_count)
        history.connection.execute("ANALYZE")
        yield history, source


def make_manager(history: BenchmarkHistory) -> RecallManager:
    """A manager with two query slots."""
    engines = [create_engines(history.root, PartialCache()) for _ in range(2)]
    return create_manager(history.root, history.connection, engines)


def count_open(connection: sql.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM tasks WHERE state <> 'done'").fetchone()
    assert row is not None
    return int(row[0])


def _measure(chunk_count: int, seconds: float) -> dict[str, float]:
    with open_world(chunk_count) as (history, source):
        manager = make_manager(history)
        connection = history.connection
        for _ in range(_OPEN_ALERTS):
            source.add_alert()
        _serve(manager, source, connection, seconds / 2)  # warms up
        cpu, began_at = time.process_time(), time.monotonic()
        ended = _serve(manager, source, connection, seconds)
        elapsed = time.monotonic() - began_at
        cpu = time.process_time() - cpu
        manager.shut_down()
    return {"tasks": ended, "seconds": elapsed, "rate": ended / elapsed, "cpu": cpu / elapsed}


def _serve(
    manager: RecallManager, source: AlertSource, connection: sql.Connection, seconds: float
) -> int:
    """Run for some seconds; returns how many tasks have ended."""
    deadline = time.monotonic() + seconds
    ended = 0
    open_count = count_open(connection)
    while time.monotonic() < deadline:
        manager.run_once()
        manager.wait_for_query()
        now_open = count_open(connection)
        ended += open_count - now_open
        while now_open <= 2 * (_OPEN_ALERTS - 1):
            source.add_alert()
            now_open += 2
        open_count = now_open
    return ended


if __name__ == "__main__":
    print(orjson.dumps(_measure(int(sys.argv[1]), float(sys.argv[2]))).decode())
