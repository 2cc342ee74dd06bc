"""HS8: what one recall process sustains, with norms and similar past events over much history.

Alerts of a few apps come one for each that is answered, so that a fixed number is open, each with a
norm and a similarity recall. `python -m benchmarks.recall_load CHUNKS SECONDS` prints the tasks a second over
one length of history; it also runs in the installation before this goal, beside this one.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

import numpy as np
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros
from benchmarks.fixtures import HERE, earlier_version, run_benchmark_in
from benchmarks.long_history import (
    CHUNK_MICROS,
    START,
    BenchmarkHistory,
    build_summaries,
    create_engines,
    create_history,
    create_manager,
    make_question,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from recall.engines.routing import PartialCache
from recall.ledger import Ledger
from recall.requests import AnyQuestion, RecallEvent, RecallRequest, SimilarQuestion
from recall.worker import RecallManager

_REPETITIONS = 3
_SECONDS = 15.0
_QUEUE_SECONDS = 60.0
_ALERTS_PER_SECOND = 2
BASE_COMMIT = "9816f823"  # before summaries, and files without identities
RULE = "bench/alert"
_VERSION = "1"
_ROWS_PER_CHUNK = 1_000
_PAST_EVENTS = 40  # of each chunk
OPEN_ALERTS = 4
_APPS = 10  # with alerts
_TERMS = 400  # different ones
_CONTEXT_TERMS = 12  # of an event
_NORM = make_question("p.v > 5")
_SIMILAR = SimilarQuestion(None, 1.0, "newest", contexts=("running",), k=10, measure="tfidf", gap=0)
_ADD_CONTEXT = """
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)
VALUES (%s, %s, %s, %s, %s, '{}', true, %s)
"""
_ADD_EVENT = """
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)
VALUES (%(eid)s, %(rule)s, %(version)s, %(ts)s, %(fingerprint)s, %(key)s, %(key)s, true)
"""
_ADD_ALERT = """
INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at,
    last_at, ends_at, events, settled, raised_at)
VALUES (gen_random_uuid(), %(eid)s, %(rule)s, %(version)s, %(fingerprint)s, %(key)s, %(labels)s, %(annotations)s,
    'resolved', %(ts)s, %(ts)s, %(ts)s, %(ts)s, 1, '{"fired": true}', now())
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
            app = f"a{self._number % _APPS}"
            self._add_event(eid, ts, {"app": app})
            event = RecallEvent(eid, ts, key={"app": app}, attributes={"app": app})
            questions: dict[str, AnyQuestion] = {
                "norm": _NORM,
                "similar": _SIMILAR,
            }
            requests = []
            for name, question in questions.items():
                requests.append(RecallRequest(RULE, _VERSION, name, question, event, level=0))
            Ledger(self._connection).add(requests)

    def _add_event(self, eid: UUID, ts: int, key: dict[str, str]) -> None:
        """The event and its alert, as the live process stores them."""
        stored = {
            "rule": RULE,
            "version": _VERSION,
            "eid": eid,
            "ts": from_micros(ts),
            "fingerprint": eid.hex,
            "key": Jsonb(key),
            "labels": Jsonb({"severity": "page", **key}),
            "annotations": Jsonb({"summary": f"{key} is slow"}),
        }
        self._connection.execute(_ADD_EVENT, stored)
        self._connection.execute(_ADD_ALERT, stored)

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
    """A manager with two query slots, and the summary of the norms."""
    engines = [create_engines(history.root, PartialCache()) for _ in range(2)]
    summaries = None
    with suppress(ImportError):  # the installation before has none
        summaries = build_summaries(history, _NORM)
    return create_manager(history.root, history.connection, engines, summaries=summaries)


def count_open(connection: sql.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM tasks WHERE state <> 'done'").fetchone()
    assert row is not None
    return int(row[0])


def run() -> list[BenchmarkResult]:
    """Measure lengths of history and versions in turns."""
    noise: list[float] = []
    long_ratios: list[float] = []
    base_ratios: list[float] = []
    open_tasks: list[float] = []
    rates: dict[str, list[float]] = {"30": [], "75": [], "300": [], "75 before": []}
    with earlier_version(BASE_COMMIT) as base:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for name, (chunk_count, folder) in {
                "30": (30, HERE),
                "300": (300, HERE),
                "75": (75, HERE),
                "75 before": (75, base),
            }.items():
                rates[name].append(_measure_in(folder, chunk_count))
            last = {name: values[-1] for name, values in rates.items()}
            long_ratios.append(last["300"] / last["30"])
            base_ratios.append(last["75"] / last["75 before"])
            open_tasks.append(_measure_queue())
            print(
                f"HS8 {repetition + 1}/{_REPETITIONS}: tasks/s {last}, open {open_tasks[-1]:g}",
                file=sys.stderr,
            )
    details = {}
    for name, values in rates.items():
        details[f"tasks/s over {name} chunks"] = rounded_median(values, 2)
    return [
        make_result(
            "HS8",
            "tasks/s of one recall process over 300 chunks ÷ over 30",
            long_ratios,
            target="≥ 0.8",
            details=details,
            noise=noise,
        ),
        make_result(
            "HS8",
            f"tasks/s over 75 chunks ÷ those at {BASE_COMMIT}",
            base_ratios,
            target="≥ 5",
            noise=noise,
        ),
        make_result(
            "HS8",
            f"open tasks over 300 chunks after {_QUEUE_SECONDS:g} s of 2 alerts/s",
            open_tasks,
            target="≤ 8",
            noise=noise,
        ),
    ]


def _measure_in(folder: Path, chunk_count: int) -> float:
    """Tasks a second of the installation in a folder."""
    lines = run_benchmark_in(folder, "recall_load", str(chunk_count), str(_SECONDS))
    return float(lines[-1])


def _measure_queue() -> float:
    """The mean number of open tasks at the end of some time with two alerts a second."""
    with open_world(300) as (history, source):
        manager = make_manager(history)
        began_at = time.monotonic()
        alerts = 0
        open_tasks = []
        while (elapsed := time.monotonic() - began_at) < _QUEUE_SECONDS:
            if alerts < _ALERTS_PER_SECOND * elapsed:
                source.add_alert()
                alerts += 1
            manager.run_once()
            manager.wait_for_query()
            if elapsed > 0.75 * _QUEUE_SECONDS:
                open_tasks.append(count_open(history.connection))
        manager.shut_down()
    return statistics.mean(open_tasks)


def measure_rate(chunk_count: int, seconds: float) -> float:
    """Tasks that end in a second while a fixed number of alerts is open."""
    with open_world(chunk_count) as (history, source):
        manager = make_manager(history)
        for _ in range(OPEN_ALERTS):
            source.add_alert()
        serve_alerts(manager, source, history.connection, seconds)  # warms up
        began_at = time.monotonic()
        ended = serve_alerts(manager, source, history.connection, seconds)
        elapsed = time.monotonic() - began_at
        manager.shut_down()
    return ended / elapsed


def serve_alerts(
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
        while now_open <= 2 * (OPEN_ALERTS - 1):
            source.add_alert()
            now_open += 2
        open_count = now_open
    return ended


if __name__ == "__main__":
    print(measure_rate(int(sys.argv[1]), float(sys.argv[2])))
