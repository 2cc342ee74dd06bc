"""G13, G14: cost of many small appends and of a long history, for streams.

G13: bytes written for a chunk of 1,000 small appends that is then clustered ÷ the bytes of the
appended files and of the clustered one: each row is written twice whatever follows; for comparison,
the same rows by Delta's own writer and Z-order. G14: an append, a refresh of the reader and a first
answer at a chunk of 1,000 appends ÷ the same at a chunk of the same rows in 20 appends; and at ten
times a history ÷ at the history. Tables, reader and local engine are the product's own. The same
goals for the event table: `benchmarks.sequenced_table`.
"""

import multiprocessing
import re
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from archiver.delta import StreamTable
from archiver.read import Reader
from benchmarks import sequenced_table
from benchmarks.archived_rows import ROW_INTERVAL, SCHEMA, archived_rows
from benchmarks.fixtures import folder_bytes, temporary_folder
from benchmarks.long_history import ask_history
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines import LocalEngine, Template
from recall.requests import Piece, RecallEvent

_REPETITIONS = 5
_HOST_COUNT = 20
_MEMORY_BUDGET = 256 << 20  # bytes, for rows of the present chunk
# The chunk of many appends, and the one of the same rows in few.
_APPEND_COUNT = 1_000
_FEW_APPEND_COUNT = 20
_ROWS_PER_APPEND = 500
_DELTA_APPEND_COUNT = 200  # for Delta's own writer, whose appends take longer and longer
_STEP_PAIRS = 40  # timings of a step for each of two histories
# The history, and the one that is ten times as long.
_CHUNK_COUNTS = (10, 100)
_ROWS_PER_CHUNK = 20_000
_STEPS_PER_REPETITION = 20
_QUESTION = ask_history(
    "SELECT avg(h.v) AS mean, count(*) AS n FROM past h WHERE h.host = event.host", attribute="host"
)


class _ArchiveHistory:
    """An archived stream and its reader. Rows are identified by their numbers.

    The chunks before `open_chunk` are closed.
    """

    def __init__(self, root: Path, open_chunk: int = 0) -> None:
        self.root = root
        self.open_chunk = open_chunk
        self.row_count = 0
        self.table = StreamTable(root, SCHEMA)
        self.reader = Reader(root, [SCHEMA], _MEMORY_BUDGET)
        self._engine = LocalEngine(self.reader)

    def append(self, count: int, chunk: int) -> float:
        """Append new rows to a chunk; return the seconds."""
        rows = archived_rows(self.row_count, count, chunk=chunk, hosts=_HOST_COUNT)
        self.row_count += count
        return measure_seconds(partial(self.table.append, rows, 0))

    def refresh(self) -> float:
        """Load the list of files of the newest version; return the seconds."""
        return measure_seconds(self.reader.refresh)

    def answer(self, low: int | None = None, high: int | None = None) -> float:
        """Answer a recall from rows [low, high), None: without bound; return the seconds."""
        high_ts = ROW_INTERVAL * (self.row_count if high is None else high)
        low_ts = None
        if low is not None:
            low_ts = low * ROW_INTERVAL
        event = RecallEvent(UUID(int=1), high_ts, key={}, attributes={"host": "h3"})
        started_at = time.perf_counter()
        self.reader.refresh()
        piece = Piece(0, low_ts, high_ts)
        answers = self._engine.compute_partial(Template(_QUESTION), [(event, piece)], {})
        seconds = time.perf_counter() - started_at
        assert answers
        return seconds


def run() -> list[BenchmarkResult]:
    """Measure both goals, for streams and for the event table."""
    results = _measure_many_appends() + _measure_long_history()
    with temporary_folder() as root:
        return results + sequenced_table.run(root, _REPETITIONS)


def _measure_many_appends() -> list[BenchmarkResult]:
    noise: list[float] = []
    amplification: list[float] = []
    delta_amplification: list[float] = []
    ratios: dict[str, list[float]] = {"append": [], "refresh": [], "first answer": []}
    with temporary_folder() as root:
        many = _ArchiveHistory(root / "many")
        few = _ArchiveHistory(root / "few")
        for _ in range(_APPEND_COUNT):
            many.append(_ROWS_PER_APPEND, chunk=0)
        for _ in range(_FEW_APPEND_COUNT):
            few.append(_APPEND_COUNT * _ROWS_PER_APPEND // _FEW_APPEND_COUNT, chunk=0)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for history in (many, few):
                history.reader.refresh_present({0})
                history.answer()
            for step, values in ratios.items():
                values.append(_step_ratio(many, few, step))
            amplification.append(_write_amplification(root / f"moirae{repetition}"))
            delta_amplification.append(_delta_write_amplification(root / f"delta{repetition}"))
            print(
                f"{repetition + 1}/{_REPETITIONS} {_format_last(ratios)}, "
                f"bytes written ÷ appended and clustered {amplification[-1]:.2f}",
                file=sys.stderr,
            )
    results = [
        make_result(
            "G13",
            f"bytes written ÷ appended and clustered: a chunk of {_APPEND_COUNT:,} appends, clustered",
            amplification,
            target="≤ 1.5",
            details={"delta_writer": rounded_median(delta_amplification, 2)},
            noise=noise,
        )
    ]
    for step, values in ratios.items():
        description = (
            f"{step}, chunk of {_APPEND_COUNT:,} appends ÷ the same rows in {_FEW_APPEND_COUNT}"
        )
        results.append(make_result("G14", description, values, target="≤ 1.1", noise=noise))
    return results


def _format_last(ratios: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{name} {values[-1]:.2f}" for name, values in ratios.items())


_STEPS: dict[str, Callable[[_ArchiveHistory], float]] = {
    "append": lambda history: history.append(_ROWS_PER_APPEND, chunk=0),
    "refresh": _ArchiveHistory.refresh,
    "first answer": _ArchiveHistory.answer,
}


def _step_ratio(many: _ArchiveHistory, few: _ArchiveHistory, step: str) -> float:
    """The median seconds of a step at one history ÷ at the other, measured alternately."""
    many_seconds: list[float] = []
    few_seconds: list[float] = []
    samples = [(many, many_seconds), (few, few_seconds)]
    for _ in range(_STEP_PAIRS):
        if step == "refresh":
            many.append(10, chunk=0)
            few.append(10, chunk=0)
        # The second of a pair benefits from warm processor caches: the order alternates.
        samples.reverse()
        for history, seconds in samples:
            seconds.append(_STEPS[step](history))
        for history in (many, few):
            history.reader.refresh_present({0})
    return statistics.median(many_seconds) / statistics.median(few_seconds)


def _write_amplification(root: Path) -> float:
    """All bytes written to disk, including the log, ÷ those of the appended files and the clustered one.

    Clustered files store no identities: a division by their bytes alone would say how small they are.
    """
    history = _ArchiveHistory(root)
    for _ in range(_APPEND_COUNT):
        history.append(_ROWS_PER_APPEND, chunk=0)
    appended = history.table.files_by_chunk()[0].bytes
    history.table.cluster(0)
    clustered = history.table.files_by_chunk()[0].bytes
    ratio = folder_bytes(history.table.data_folder) / (appended + clustered)
    shutil.rmtree(root)
    return ratio


def _delta_write_amplification(root: Path) -> float:
    """The same by Delta's own writer and Z-order, for fewer appends."""
    for number in range(_DELTA_APPEND_COUNT):
        rows = archived_rows(
            number * _ROWS_PER_APPEND, _ROWS_PER_APPEND, chunk=0, hosts=_HOST_COUNT
        )
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    files = pa.table(table.get_add_actions(flatten=True))
    table.optimize.z_order(["host", "ts"])
    files = pa.concat_tables([files, pa.table(table.get_add_actions(flatten=True))])
    ratio = float(folder_bytes(root) / sum(files["size_bytes"].to_pylist()))
    shutil.rmtree(root)
    return ratio


def _measure_long_history() -> list[BenchmarkResult]:
    noise: list[float] = []
    ratios: dict[str, list[float]] = {
        "append": [],
        "first answer": [],
        "peak memory": [],
        "full read": [],
    }
    with temporary_folder() as root:
        histories = [_create_history(root / str(count), count) for count in _CHUNK_COUNTS]
        for _ in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            short, long = _measure_histories(histories)
            for name, values in ratios.items():
                values.append(statistics.median(long[name]) / statistics.median(short[name]))
            print(f"history ×10: {_format_last(ratios)}", file=sys.stderr)
    results = []
    for name, values in ratios.items():
        target = "≤ 1.1"
        if name == "full read":
            target = "≤ 10.5"
        description = f"{name}, ten times the history ÷ the history"
        results.append(make_result("G14", description, values, target=target, noise=noise))
    return results


def _create_history(root: Path, chunk_count: int) -> _ArchiveHistory:
    """A history of clustered chunks, and an open chunk of small appends."""
    history = _ArchiveHistory(root, open_chunk=chunk_count)
    for chunk in range(chunk_count):
        history.append(_ROWS_PER_CHUNK, chunk)
        history.table.cluster(chunk)
    for _ in range(_STEPS_PER_REPETITION):
        history.append(_ROWS_PER_APPEND, chunk_count)
    history.reader.refresh_present({chunk_count})
    return history


def _measure_histories(histories: Sequence[_ArchiveHistory]) -> list[defaultdict[str, list[float]]]:
    """Samples of each step by history, in seconds (peak memory: kB), measured alternately."""
    samples: list[defaultdict[str, list[float]]] = [defaultdict(list) for _ in histories]
    for _ in range(_STEPS_PER_REPETITION):
        for history, values in zip(histories, samples, strict=True):
            values["append"].append(history.append(_ROWS_PER_APPEND, history.open_chunk))
        for history in histories:
            history.reader.refresh_present({history.open_chunk})
        for history, values in zip(histories, samples, strict=True):
            newest_rows = history.row_count - _ROWS_PER_CHUNK
            values["first answer"].append(history.answer(newest_rows))
    for history, values in zip(histories, samples, strict=True):
        values["full read"].append(_read_all(history))
    for history, values in zip(histories, samples, strict=True):
        values["peak memory"].append(_peak_memory(history.root))
    return samples


def _read_all(history: _ArchiveHistory) -> float:
    """Seconds to read all closed chunks, newest first, with one query for each."""
    seconds = 0.0
    for chunk in reversed(range(history.open_chunk)):
        first_row = chunk * _ROWS_PER_CHUNK
        seconds += history.answer(first_row, first_row + _ROWS_PER_CHUNK)
    return seconds


def _peak_memory(root: Path) -> float:
    """Peak memory (kB) of a new process that opens the history and queries its newest chunk."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return float(pool.apply(_open_and_read_peak, (root,)))


def _open_and_read_peak(root: Path) -> int:
    history = _ArchiveHistory(root)
    files_by_chunk = history.table.files_by_chunk()
    newest_chunk = max(files_by_chunk)
    history.row_count = files_by_chunk[newest_chunk].newest // ROW_INTERVAL + 1
    history.reader.refresh_present({newest_chunk})
    history.answer(history.row_count - _ROWS_PER_CHUNK)
    # Not `ru_maxrss`, which on Linux includes the memory of the parent before `exec`.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return int(peak[1])
