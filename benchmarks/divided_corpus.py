"""S11: memory of a recall process that holds half of a corpus ÷ of one that holds all of it.

Recall processes answer similarity recalls over a stored corpus: one alone, and two that may hold a
little more than half of it each. Memory is what a process has resident at most while it answers,
above what it has before its first task. Of the two, the larger one counts. Both must answer alike:
the same ten best events with the same scores.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import psutil
from psycopg import Connection
from psycopg.types.json import Jsonb

from archiver.read import Reader
from archiver.storage import StorageRoot, as_storage
from archiver.times import from_micros
from benchmarks.contexts import (
    MICROS_PER_SECOND,
    K,
    add_contexts,
    create_index,
    draw_contexts,
)
from benchmarks.fixtures import temporary_workspace
from benchmarks.long_history import fail_on_relation, fail_on_spark
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database
from moirae.runtime.storage import open_storage
from recall.corpora import Corpora, build_corpus_key
from recall.corpus_parts import PartHolder
from recall.engines import LocalEngine, SparkEngine
from recall.engines.routing import EngineRouter, PartialCache
from recall.ledger import Ledger
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.similarity import Index, IndexStore, compile_kernels
from recall.worker import KeyCounts, ManagerConfig, RecallManager
from sql.similarity import PartGateway

_REPETITIONS = 3
_CHUNKS = 20
_CONTEXTS_PER_CHUNK = 25_000
_CONTEXTS = _CHUNKS * _CONTEXTS_PER_CHUNK
_TASKS = 40
# What each of two processes may hold, as a share of the corpus.
_SHARE = 0.55
_TIMEOUT = 240.0  # seconds
_POLL_INTERVAL = 0.02  # seconds
_RULE = "bench/similar"
_VERSION = "1"
_QUESTION = SimilarQuestion(None, 1.0, "newest", ("own",), K, "tfidf", 0)
_WORKSPACE = "home: .moirae\nstreams: {}\n"
_READY = "ready"


class _Run(NamedTuple):
    """`answers`: by task, the events with their scores. `megabytes`: by process."""

    answers: list[list[tuple[str, float]]]
    megabytes: list[float]
    seconds: float


def run() -> list[BenchmarkResult]:
    """Measure one process and two in turn."""
    ratios: list[float] = []
    noise: list[float] = []
    details: dict[str, float] = {}
    with temporary_workspace(_WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        connection = database.connect_database(settings, "benchmark")
        corpus_bytes = _store_corpus(settings, connection)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            single = _measure(settings, connection, 1, None)
            double = _measure(settings, connection, 2, int(corpus_bytes * _SHARE))
            assert double.answers == single.answers
            assert all(len(hits) == K for hits in single.answers)
            ratios.append(max(double.megabytes) / single.megabytes[0])
            details = {
                "one_mb": round(single.megabytes[0], 1),
                "two_mb": round(max(double.megabytes), 1),
                "one_s": round(single.seconds, 2),
                "two_s": round(double.seconds, 2),
                "corpus_mb": round(corpus_bytes / 1e6, 1),
            }
            print(
                f"S11 {repetition + 1}/{_REPETITIONS} {ratios[-1]:.3f} {details}", file=sys.stderr
            )
        connection.close()
    return [
        make_result(
            "S11",
            f"memory of two recall processes with {_CONTEXTS:,} contexts ÷ of one, top {K} equal",
            ratios,
            target="≤ 0.6",
            details=details,
            noise=noise,
        )
    ]


def _store_corpus(settings: Settings, connection: Connection[Any]) -> int:
    """Store an index, the chunks of its events, and the contexts of newer events.

    Returns the memory that the index takes.
    """
    rng = np.random.default_rng(1)
    index = create_index()
    drawn = [draw_contexts(rng, _CONTEXTS_PER_CHUNK) for _ in range(_CHUNKS)]
    for chunk, bags in enumerate(drawn):
        add_contexts(index, chunk + 1, bags)
    for chunk in range(_CHUNKS):
        bounds = [(chunk + n) * _CONTEXTS_PER_CHUNK * MICROS_PER_SECOND for n in (0, 1)]
        is_newest = chunk == _CHUNKS - 1
        connection.execute(
            "INSERT INTO chunks (id, from_ts, to_ts, state) VALUES (%s, %s, %s, %s)",
            (
                chunk + 1,
                from_micros(bounds[0] + 1) if chunk else None,
                None if is_newest else from_micros(bounds[1] + 1),
                "present" if is_newest else "old",
            ),
        )
    for number in range(_TASKS):
        sizes, terms = drawn[number % _CHUNKS]
        past_terms = terms[: sizes[0]][: K * 2]
        _, random_terms = draw_contexts(rng, 1)
        rows = [{"t": str(term)} for term in {*past_terms.tolist(), *random_terms[:K].tolist()}]
        connection.execute(
            "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled)"
            " VALUES (%s, %s, %s, %s, %s, '{}', true)",
            (
                _RULE,
                _VERSION,
                _event(number).eid,
                from_micros(_event(number).ts),
                Jsonb({"own": rows}),
            ),
        )
    _store(settings).save(index, index.last_sequence, time.time())
    return _measure_index(index)


def _measure_index(index: Index) -> int:
    index.refresh_bounds()
    return sum(index.chunk_bytes().values())


def _store(settings: Settings) -> IndexStore:
    key = build_corpus_key(_RULE, _VERSION, _QUESTION)
    folder = as_storage(open_storage(settings)).work_folder / "indexes"
    return IndexStore.for_corpus(folder, key.rule, key.version, key[2:])


def _event(number: int) -> RecallEvent:
    ts = (_CONTEXTS + 10 + number) * MICROS_PER_SECOND
    return RecallEvent(UUID(int=number + 1), ts, {}, {})


def _measure(
    settings: Settings, connection: Connection[Any], processes: int, corpus_bytes: int | None
) -> _Run:
    """Answer all tasks twice, the second time with all parts in memory."""
    connection.execute("TRUNCATE corpus_parts")
    with ExitStack() as stack:
        workers = [
            stack.enter_context(_worker(settings, f"recall {number + 1}", corpus_bytes))
            for number in range(processes)
        ]
        idle = [worker.memory_info().rss for worker in workers]
        _answer(connection)
        _await_holders(connection, processes if corpus_bytes else 0)
        peaks = list(idle)
        stop = threading.Event()
        sampler = threading.Thread(target=_sample, args=(workers, peaks, stop))
        sampler.start()
        started_at = time.monotonic()
        answers = _answer(connection)
        seconds = time.monotonic() - started_at
        stop.set()
        sampler.join()
    megabytes = [(peak - least) / 1e6 for peak, least in zip(peaks, idle, strict=True)]
    return _Run(answers, megabytes, seconds)


def _sample(workers: Sequence[psutil.Process], peaks: list[int], stop: threading.Event) -> None:
    while not stop.wait(_POLL_INTERVAL):
        for number, worker in enumerate(workers):
            peaks[number] = max(peaks[number], worker.memory_info().rss)


def _answer(connection: Connection[Any]) -> list[list[tuple[str, float]]]:
    """Ask about all events; returns the final answers."""
    connection.execute("TRUNCATE tasks, revisions CASCADE")
    requests = []
    for number in range(_TASKS):
        requests.append(RecallRequest(_RULE, _VERSION, "similar", _QUESTION, _event(number), 0))
    Ledger(connection).add(requests)
    _wait(connection, f"SELECT count(*) = {_TASKS} FROM tasks WHERE state = 'done'")
    answers = []
    for request in requests:
        task = task_id(_RULE, _VERSION, "similar", request.event.eid)
        row = connection.execute(
            "SELECT answer FROM revisions WHERE task = %s ORDER BY number DESC LIMIT 1", (task,)
        ).fetchone()
        assert row is not None
        answers.append([(hit["past_eid"], hit["score"]) for hit in row[0]])
    return answers


def _await_holders(connection: Connection[Any], processes: int) -> None:
    """Wait until all parts are held, by so many processes; 0: none is claimed."""
    deadline = time.monotonic() + _TIMEOUT
    while processes:
        holders = {row.holder for row in PartGateway(connection).list_held()}
        if None not in holders and len(holders) == processes:
            return
        assert time.monotonic() < deadline, holders
        time.sleep(_POLL_INTERVAL)


def _wait(connection: Connection[Any], condition: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        row = connection.execute(condition).fetchone()
        if row is not None and row[0]:
            return
        assert time.monotonic() < deadline, condition
        time.sleep(_POLL_INTERVAL)


@contextmanager
def _worker(settings: Settings, name: str, corpus_bytes: int | None) -> Iterator[psutil.Process]:
    """A recall process, until it is stopped by the end of its input."""
    command = [sys.executable, "-m", "benchmarks.divided_corpus", str(settings.file), name]
    process = subprocess.Popen(
        [*command, str(corpus_bytes or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == _READY
        yield psutil.Process(process.pid)
    finally:
        process.communicate("")


def create_engine(root: StorageRoot) -> EngineRouter:
    """An engine that has nothing to do: comparisons need none."""
    reader = Reader(root, [])
    spark = SparkEngine(fail_on_spark, reader, fail_on_relation)
    return EngineRouter(spark, LocalEngine(reader), PartialCache(0))


def _serve(workspace: Path, name: str, corpus_bytes: int | None) -> None:
    """Run as a recall process until standard input ends."""
    settings = load_settings_from_environment(workspace)
    connection = database.connect_database(settings, name)
    root = open_storage(settings)
    lease = Ledger.acquire_lease(connection)
    parts: PartHolder | None = None
    if corpus_bytes is not None:
        parts = PartHolder(connection, lease=lease, max_bytes=corpus_bytes, name=name)
    manager = RecallManager(
        connection,
        Ledger(connection, lease),
        Corpora(connection, root, parts),
        key_counts=KeyCounts(Reader(root, [])),
        config=ManagerConfig(engines=[create_engine(root)], query_timeout=_TIMEOUT, parts=parts),
    )
    compile_kernels()
    stop = threading.Event()

    def stop_at_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=stop_at_end, daemon=True).start()
    manager.run_once()
    print(_READY, flush=True)
    manager.run(stop, lambda _: None)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if sys.argv[3] else None)
