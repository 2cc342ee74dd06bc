"""G13, G14: what many small appends and a long history cost, by the real tables, reader and local engine.

G13: bytes written for a chunk of 1,000 small appends, closed and clustered, ÷ the bytes that then make it up; beside
it, the same rows by Delta's own writer and Z-order. G14: an append, a look at the newest version and a first answer at
a chunk of 1,000 appends ÷ the same at a chunk of the same rows in twenty; and at ten times a history ÷ at it.
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

from archiver.reader import Reader
from archiver.table import StreamTable
from benchmarks import numbered
from benchmarks.appended import SCHEMA, appended
from benchmarks.places import folder
from benchmarks.results import Result, kernel, result
from recall.engines.local import LocalEngine
from recall.engines.template import Template
from recall.request import Asked, SqlQuestion

_REPETITIONS = 5
_APPENDS, _ROWS = 1_000, 500
_CHUNKS, _CHUNK_ROWS = (10, 100), 20_000
_MEMORY = 256 << 20
_HOSTS = 20
_SQL = "SELECT avg(h.v) AS mean, count(*) AS n FROM past h WHERE h.host = event.host"
_QUESTION = SqlQuestion(None, 1.0, "newest", _SQL, {"past": "ts"}, (), {}, {"host": "string"}, {}, {})


@dataclass
class _History:
    """A table with its reader. Row number n happens at n milliseconds."""

    root: Path
    rows: int = 0

    def __post_init__(self) -> None:
        self.table = StreamTable(self.root, SCHEMA)
        self.reader = Reader(self.root, [SCHEMA], _MEMORY)
        self._engine = LocalEngine(self.reader)

    def append(self, count: int, chunk: int) -> float:
        """Seconds of an append."""
        rows = appended(self.rows, count, chunk, _HOSTS)
        self.rows += count
        began = time.perf_counter()
        self.table.append(rows, 0)
        return time.perf_counter() - began

    def look(self) -> float:
        """Seconds to see the newest version: which files make it up."""
        began = time.perf_counter()
        self.reader.refresh()
        return time.perf_counter() - began

    def answer(self, low: int | None = None, high: int | None = None) -> float:
        """Seconds of an answer from a piece of history, in rows."""
        until = (self.rows if high is None else high) * 1000
        asked = Asked(UUID(int=1), until, {}, {"host": "h3"})
        began = time.perf_counter()
        self.reader.refresh()
        found = self._engine.partial(Template(_QUESTION), [(asked, (0, low and low * 1000, until))], {})
        seconds = time.perf_counter() - began
        assert found
        return seconds


def run() -> list[Result]:
    """Measure, interleaved."""
    with folder() as root:
        return [*_many_appends(), *_long_history(), *numbered.run(root, _REPETITIONS)]


def _many_appends() -> list[Result]:
    noise, written, naive = [], [], []
    ratios: dict[str, list[float]] = {"append": [], "look": [], "first answer": []}
    with folder() as root:
        many, few = _History(root / "many"), _History(root / "few")
        for _ in range(_APPENDS):
            many.append(_ROWS, 0)
        for _ in range(20):
            few.append(_APPENDS * _ROWS // 20, 0)
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            for history in (many, few):
                history.reader.follow({0})
                history.answer()
            pairs = [(_beside(many, few, what)) for what in ratios]
            for what, pair in zip(ratios, pairs, strict=True):
                ratios[what].append(pair)
            written.append(_written(root / f"ours{repetition}"))
            naive.append(_naive(root / f"naive{repetition}"))
            told = ", ".join(f"{what} {values[-1]:.2f}" for what, values in ratios.items())
            print(f"{repetition + 1}/{_REPETITIONS} {told}, written {written[-1]:.2f}", file=sys.stderr)
    beside = {"naive": round(statistics.median(naive), 2)}
    return [
        result("G13", "archive bytes written ÷ live bytes: 1,000 appends, clustered", written, "≤ 1.5", beside, noise),
        *(
            result("G14", f"{what} at 1,000 appends to a chunk ÷ the same rows in 20", values, "≤ 1.1", {}, noise)
            for what, values in ratios.items()
        ),
    ]


def _beside(one: _History, other: _History, what: str) -> float:
    """The ratio of medians of one step, taken in turns."""
    steps: dict[str, Callable[[_History], float]] = {
        "append": lambda history: history.append(_ROWS, 0),
        "look": _History.look,
        "first answer": _History.answer,
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
            history.reader.follow({0})
    return statistics.median(taken[id(one)]) / statistics.median(taken[id(other)])


def _written(root: Path) -> float:
    """All bytes that came to lie on disk, log and all, ÷ those of the clustered files."""
    history = _History(root)
    for _ in range(_APPENDS):
        history.append(_ROWS, 0)
    history.table.cluster(0)
    ratio = _bytes(history.table.path) / history.table.chunks()[0].bytes
    shutil.rmtree(root)
    return ratio


def _naive(root: Path) -> float:
    """The same by the library alone, a fifth of the appends: it takes longer with each."""
    for number in range(_APPENDS // 5):
        write_deltalake(root, appended(number * _ROWS, _ROWS, 0, _HOSTS), mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    table.optimize.z_order(["host", "ts"])
    ratio = _bytes(root) / int(pa.table(table.get_add_actions(flatten=True))["size_bytes"][0].as_py())
    shutil.rmtree(root)
    return ratio


def _long_history() -> list[Result]:
    noise: list[float] = []
    ratios: dict[str, list[float]] = {"append": [], "first answer": [], "memory": [], "all of it": []}
    with folder() as root:
        histories = [_History(root / str(count)) for count in _CHUNKS]
        for history, count in zip(histories, _CHUNKS, strict=True):
            for chunk in range(count):
                history.append(_CHUNK_ROWS, chunk)
                history.table.cluster(chunk)
            for _ in range(20):
                history.append(_ROWS, count)
            history.reader.follow({count})
        for _ in range(_REPETITIONS):
            noise.append(kernel())
            pairs: dict[str, list[Sequence[float]]] = {what: [] for what in ratios}
            for _ in range(20):
                pairs["append"].append([h.append(_ROWS, c) for h, c in zip(histories, _CHUNKS, strict=True)])
                for history, count in zip(histories, _CHUNKS, strict=True):
                    history.reader.follow({count})
                pairs["first answer"].append([h.answer(h.rows - _CHUNK_ROWS) for h in histories])
            pairs["all of it"].append([_all(h, count) for h, count in zip(histories, _CHUNKS, strict=True)])
            pairs["memory"].append([_memory(h.root) for h in histories])
            for what, found in pairs.items():
                ratios[what].append(statistics.median(b for _, b in found) / statistics.median(a for a, _ in found))
            told = ", ".join(f"{what} {values[-1]:.2f}" for what, values in ratios.items())
            print(f"history ×10: {told}", file=sys.stderr)
    targets = {"all of it": "≤ 10.5"}
    return [
        result("G14", f"history ×10: {what} ÷ before", values, targets.get(what, "≤ 1.1"), {}, noise)
        for what, values in ratios.items()
    ]


def _all(history: _History, chunks: int) -> float:
    """Seconds to read all of it, a chunk a query, newest first."""
    pieces = [(chunk * _CHUNK_ROWS, (chunk + 1) * _CHUNK_ROWS) for chunk in reversed(range(chunks))]
    return sum(history.answer(low, high) for low, high in pieces)


def _memory(root: Path) -> float:
    """The most memory that a process takes which opens the history and asks its newest chunk."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return float(pool.apply(_peak, (root,)))


def _peak(root: Path) -> int:
    history = _History(root)
    (newest,) = [max(history.table.chunks())]
    history.rows = history.table.chunks()[newest].newest // 1000 + 1
    history.reader.follow({newest})
    history.answer(history.rows - _CHUNK_ROWS)
    # Linux counts a process's `ru_maxrss` from before it was another program: that of its parent would be told.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return int(peak[1])


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
