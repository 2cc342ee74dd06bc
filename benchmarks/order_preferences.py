"""AQ6: how much of an answer a budget gives, by the order in which chunks are read.

After Nile's Figures 11 and 12 (its promising regions are chunks here). The rows of the event's host
are bursty: a few chunks hold most of them. Chunks are ranked as for recalls, by counts that were
collected from the files of an archive; the budget is a share of the chunks.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import StreamTable
from archiver.read import Reader
from archiver.time_range import TimeRange
from benchmarks.long_history import CHUNK_MICROS, SCHEMA, START
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from recall.engines import Template
from recall.requests import ChunkRange, Order, RecallEvent, SqlQuestion, plan_pieces
from recall.scheduling import rank_pieces
from recall.worker import KeyCounts

_CHUNKS = 200
_DRAWS = 50  # of the order `weighted`
_BUDGETS = (0.1, 0.25, 0.5)
_ORDERS: Sequence[Order] = ("newest", "oldest", "promising", "mixed", "weighted")
_END = START + _CHUNKS * CHUNK_MICROS
_Counts = npt.NDArray[np.int64]


def run() -> list[BenchmarkResult]:
    """Rank one history in each order."""
    noise = [time_noise_kernel()]
    counts = np.minimum(np.random.default_rng(1).zipf(1.5, _CHUNKS), 3_000)
    with TemporaryDirectory() as folder:
        _write(Path(folder), counts)
        read_by_order = {order: _read_shares(Path(folder), counts, order) for order in _ORDERS}
    noise.append(time_noise_kernel())
    results: list[BenchmarkResult] = []
    for number, budget in enumerate(_BUDGETS):
        shares = {order: float(shares[number]) for order, shares in read_by_order.items()}
        print(f"AQ6 {budget:.0%} of the chunks: {shares}", file=sys.stderr)
        results.append(
            make_result(
                "AQ6",
                f"share of the answer's rows in {budget:.0%} of the chunks, most promising first",
                [shares["promising"]],
                target="no order reads more",
                details={order: round(share, 3) for order, share in shares.items()},
                noise=noise,
            )
        )
    return results


def _write(root: Path, counts: _Counts) -> None:
    """A file for each chunk, with so many rows of the host `a` and a few of another one."""
    table = StreamTable(root, SCHEMA)
    arrow = SCHEMA.arrow_schema()
    for chunk, count in enumerate(counts):
        hosts = ["a"] * int(count) + ["b"] * 5
        columns = {field.name: pa.nulls(len(hosts), field.type) for field in arrow}
        times = START + chunk * CHUNK_MICROS + np.arange(len(hosts))
        columns["ts"] = pa.array(times, arrow.field("ts").type)
        columns["host"] = pa.array(hosts)
        columns["_late"] = pa.array([False] * len(hosts))
        columns["chunk"] = pa.array([chunk] * len(hosts), pa.int32())
        names = [name for name in arrow.names if name != "_append"]
        table.append(pa.table(columns).select(names), chunk)


def _read_shares(root: Path, counts: _Counts, order: Order) -> npt.NDArray[np.float64]:
    """The share of the host's rows that each budget reads, as a mean over draws."""
    question = SqlQuestion(
        range=None,
        every=1.0,
        order=order,
        sql="SELECT avg(p.v) AS mean FROM past p WHERE p.host = event.host",
        streams={"past": "ts"},
        relations=(),
        derived={},
        attributes={"host": "string"},
        own={},
        columns={},
    )
    event = RecallEvent(UUID(int=1), _END, {}, {"host": "a"})
    chunks = [ChunkRange(chunk, _chunk_range(chunk)) for chunk in range(_CHUNKS)]
    pieces = plan_pieces(chunks, _END, question)
    key_counts = KeyCounts(Reader(root, [SCHEMA]))
    template = Template(question)
    key_counts.upper_bounds(template, event, pieces)
    while key_counts.index_next_file():
        pass
    bounds = key_counts.upper_bounds(template, event, pieces)
    shares = []
    for draw in range(_DRAWS if order == "weighted" else 1):
        ranked, _ = rank_pieces(pieces, bounds, order, seed=str(draw))
        rows = counts[[piece.chunk for piece in ranked]].cumsum()
        shares.append([rows[round(budget * _CHUNKS) - 1] / rows[-1] for budget in _BUDGETS])
    means: npt.NDArray[np.float64] = np.asarray(shares).mean(axis=0)
    return means


def _chunk_range(chunk: int) -> TimeRange:
    low = START + chunk * CHUNK_MICROS
    return TimeRange(low if chunk else None, low + CHUNK_MICROS)
