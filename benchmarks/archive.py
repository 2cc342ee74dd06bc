"""G13, G14: what many small appends and a long history cost, by the real tables, reader and local
engine.

G13: bytes written for a chunk of 1,000 small appends, closed and clustered, ÷ the bytes that then
make it up; beside it, the same rows by Delta's own writer and Z-order. G14: an append, a look at
the newest version and a first answer at a chunk of 1,000 appends ÷ the same at a chunk of the same
rows in twenty; and at ten times a history ÷ at it.
"""

import multiprocessing
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from archiver.delta import StreamTable
from archiver.read import Reader
from benchmarks import sequenced_table as numbered
from benchmarks.archived_rows import SCHEMA, archived_rows
from benchmarks.fixtures import temporary_folder
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.engines import LocalEngine, Template
from recall.requests import Piece, RecallEvent, SqlQuestion

_REPETITIONS = 5
_APPEND_COUNT, _ROWS_PER_APPEND = 1_000, 500
_CHUNK_COUNTS, _ROWS_PER_CHUNK = (10, 100), 20_000
_MEMORY_BUDGET = 256 << 20
_HOST_COUNT = 20
_SQL = "SELECT avg(h.v) AS mean, count(*) AS n FROM past h WHERE h.host = event.host"
_QUESTION = SqlQuestion(
    None, 1.0, "newest", _SQL, {"past": "ts"}, (), {}, {"host": "string"}, {}, {}
)


@dataclass
class _ArchiveHistory:
    """A table with its reader. Row number n happens at n milliseconds."""

    root: Path
    rows: int = 0

    def __post_init__(self) -> None:
        self.table = StreamTable(self.root, SCHEMA)
        self.reader = Reader(self.root, [SCHEMA], _MEMORY_BUDGET)
        self._engine = LocalEngine(self.reader)

    def append(self, count: int, chunk: int) -> float:
        """Seconds of an append."""
        rows = archived_rows(self.rows, count, chunk, _HOST_COUNT)
        self.rows += count
        began = time.perf_counter()
        self.table.append(rows, 0)
        return time.perf_counter() - began

    def refresh(self) -> float:
        """Seconds to see the newest version: which files make it up."""
        began = time.perf_counter()
        self.reader.refresh()
        return time.perf_counter() - began

    def answer(self, low: int | None = None, high: int | None = None) -> float:
        """Seconds of an answer from a piece of history, in rows."""
        until = (self.rows if high is None else high) * 1000
        asked = RecallEvent(UUID(int=1), until, {}, {"host": "h3"})
        began = time.perf_counter()
        self.reader.refresh()
        found = self._engine.compute_partial(
            Template(_QUESTION), [(asked, Piece(0, low and low * 1000, until))], {}
        )
        seconds = time.perf_counter() - began
        assert found
        return seconds


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    with temporary_folder() as root:
        return [*_many_appends(), *_long_history(), *numbered.run(root, _REPETITIONS)]


def _many_appends() -> list[BenchmarkResult]:
    noise, written, naive = [], [], []
    ratios: dict[str, list[float]] = {"append": [], "look": [], "first answer": []}
    with temporary_folder() as root:
        many, few = _ArchiveHistory(root / "many"), _ArchiveHistory(root / "few")
        for _ in range(_APPEND_COUNT):
            many.append(_ROWS_PER_APPEND, 0)
        for _ in range(20):
            few.append(_APPEND_COUNT * _ROWS_PER_APPEND // 20, 0)
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for history in (many, few):
                history.reader.refresh_present({0})
                history.answer()
            pairs = [(_step_ratio(many, few, what)) for what in ratios]
            for what, pair in zip(ratios, pairs, strict=True):
                ratios[what].append(pair)
            written.append(_write_amplification(root / f"ours{repetition}"))
            naive.append(_naive_write_amplification(root / f"naive{repetition}"))
            told = ", ".join(f"{what} {values[-1]:.2f}" for what, values in ratios.items())
            print(
                f"{repetition + 1}/{_REPETITIONS} {told}, written {written[-1]:.2f}",
                file=sys.stderr,
            )
    beside = {"naive": round(statistics.median(naive), 2)}
    return [
        make_result(
            "G13",
            "archive bytes written ÷ live bytes: 1,000 appends, clustered",
            written,
            "≤ 1.5",
            beside,
            noise,
        ),
        *(
            make_result(
                "G14",
                f"{what} at 1,000 appends to a chunk ÷ the same rows in 20",
                values,
                "≤ 1.1",
                {},
                noise,
            )
            for what, values in ratios.items()
        ),
    ]


def _step_ratio(one: _ArchiveHistory, other: _ArchiveHistory, what: str) -> float:
    """The ratio of medians of one step, taken in turns."""
    steps: dict[str, Callable[[_ArchiveHistory], float]] = {
        "append": lambda history: history.append(_ROWS_PER_APPEND, 0),
        "look": _ArchiveHistory.refresh,
        "first answer": _ArchiveHistory.answer,
    }
    taken: dict[int, list[float]] = {id(one): [], id(other): []}
    for turn in range(40):
        if what == "look":
            one.append(10, 0)
            other.append(10, 0)
        # Who goes second finds the processor's caches warm.
        for history in (one, other) if turn % 2 else (other, one):
            taken[id(history)].append(steps[what](history))
        for history in (one, other):
            history.reader.refresh_present({0})
    return statistics.median(taken[id(one)]) / statistics.median(taken[id(other)])


def _write_amplification(root: Path) -> float:
    """All bytes that came to lie on disk, log and all, ÷ those of the clustered files."""
    history = _ArchiveHistory(root)
    for _ in range(_APPEND_COUNT):
        history.append(_ROWS_PER_APPEND, 0)
    history.table.cluster(0)
    ratio = _folder_bytes(history.table.data_folder) / history.table.files_by_chunk()[0].bytes
    shutil.rmtree(root)
    return ratio


def _naive_write_amplification(root: Path) -> float:
    """The same by the library alone, a fifth of the appends: it takes longer with each."""
    for number in range(_APPEND_COUNT // 5):
        write_deltalake(
            root,
            archived_rows(number * _ROWS_PER_APPEND, _ROWS_PER_APPEND, 0, _HOST_COUNT),
            mode="append",
            partition_by=["chunk"],
        )
    table = DeltaTable(root)
    table.optimize.z_order(["host", "ts"])
    ratio = _folder_bytes(root) / int(
        pa.table(table.get_add_actions(flatten=True))["size_bytes"][0].as_py()
    )
    shutil.rmtree(root)
    return ratio


def _long_history() -> list[BenchmarkResult]:
    noise: list[float] = []
    ratios: dict[str, list[float]] = {
        "append": [],
        "first answer": [],
        "memory": [],
        "all of it": [],
    }
    with temporary_folder() as root:
        histories = [_ArchiveHistory(root / str(count)) for count in _CHUNK_COUNTS]
        for history, count in zip(histories, _CHUNK_COUNTS, strict=True):
            for chunk in range(count):
                history.append(_ROWS_PER_CHUNK, chunk)
                history.table.cluster(chunk)
            for _ in range(20):
                history.append(_ROWS_PER_APPEND, count)
            history.reader.refresh_present({count})
        for _ in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            pairs: dict[str, list[Sequence[float]]] = {what: [] for what in ratios}
            for _ in range(20):
                pairs["append"].append(
                    [
                        h.append(_ROWS_PER_APPEND, c)
                        for h, c in zip(histories, _CHUNK_COUNTS, strict=True)
                    ]
                )
                for history, count in zip(histories, _CHUNK_COUNTS, strict=True):
                    history.reader.refresh_present({count})
                pairs["first answer"].append(
                    [h.answer(h.rows - _ROWS_PER_CHUNK) for h in histories]
                )
            pairs["all of it"].append(
                [_read_all(h, count) for h, count in zip(histories, _CHUNK_COUNTS, strict=True)]
            )
            pairs["memory"].append([_peak_memory(h.root) for h in histories])
            for what, found in pairs.items():
                ratios[what].append(
                    statistics.median(b for _, b in found) / statistics.median(a for a, _ in found)
                )
            told = ", ".join(f"{what} {values[-1]:.2f}" for what, values in ratios.items())
            print(f"history ×10: {told}", file=sys.stderr)
    targets = {"all of it": "≤ 10.5"}
    return [
        make_result(
            "G14", f"history ×10: {what} ÷ before", values, targets.get(what, "≤ 1.1"), {}, noise
        )
        for what, values in ratios.items()
    ]


def _read_all(history: _ArchiveHistory, chunks: int) -> float:
    """Seconds to read all of it, a chunk a query, newest first."""
    pieces = [
        (chunk * _ROWS_PER_CHUNK, (chunk + 1) * _ROWS_PER_CHUNK)
        for chunk in reversed(range(chunks))
    ]
    return sum(history.answer(low, high) for low, high in pieces)


def _peak_memory(root: Path) -> float:
    """The most memory that a process takes which opens the history and asks its newest chunk."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return float(pool.apply(_open_and_read_peak, (root,)))


def _open_and_read_peak(root: Path) -> int:
    history = _ArchiveHistory(root)
    (newest,) = [max(history.table.files_by_chunk())]
    history.rows = history.table.files_by_chunk()[newest].newest // 1000 + 1
    history.reader.refresh_present({newest})
    history.answer(history.rows - _ROWS_PER_CHUNK)
    # Linux counts a process's `ru_maxrss` from before it was another program: that of its parent
    # would be told.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return int(peak[1])


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
