"""G6, G7: ten recalls at once over one archive, by the real manager, ledger and reader, in this
process.

G6: the slowest first answer, beside the same ten recalls one after the other (FIFO). G7: how
evenly pieces of history are given out half way (Jain's index), and how far shares are from tickets
of 1:2:4. Questions differ, so that no two share a query.
"""

import statistics
import sys
import time
from collections.abc import Iterable
from uuid import UUID

from benchmarks.long_history import (
    CHUNK_COUNT,
    BenchmarkHistory,
    add_recalls,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.engines import PartialCache
from recall.scheduling import StrideScheduler
from recall.worker import RecallManager

_REPETITIONS = 5
_ROWS = 10_000


class _Fifo(StrideScheduler[UUID]):
    """Who came first goes first, to the end."""

    def next_task(self, ready: Iterable[UUID]) -> UUID | None:
        waiting = set(ready)
        return next((task for task in self._entries if task in waiting), None)


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    noise, ratios, stride_seconds, fifo_seconds, jain, off = [], [], [], [], [], []
    with create_history(_ROWS) as past:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            ours = _slowest_first_answer(past, StrideScheduler())
            theirs = _slowest_first_answer(past, _Fifo())
            ratios.append(ours / theirs)
            stride_seconds.append(ours)
            fifo_seconds.append(theirs)
            jain.append(_jain_index(_served_shares(past, [100] * 10)))
            shares = _served_shares(past, [100, 200, 400])
            wanted = [sum(shares) * part / 7 for part in (1, 2, 4)]
            off.append(max(abs(a - b) / b for a, b in zip(shares, wanted, strict=True)))
            told = f"stride {ours:.3f} s, FIFO {theirs:.3f} s, Jain {jain[-1]:.4f}, 1:2:4 off by {off[-1]:.1%}"
            print(f"{repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    beside = {
        "stride_seconds": round(statistics.median(stride_seconds), 3),
        "fifo_seconds": round(statistics.median(fifo_seconds), 3),
    }
    return [
        make_result(
            "G6",
            "slowest first answer of 10 recalls at once ÷ the same by FIFO",
            ratios,
            "≤ 1/25 = 0.04",
            beside,
            noise,
        ),
        make_result(
            "G7",
            "Jain's index of pieces served to 10 equal recalls, half way",
            jain,
            "≥ 0.98",
            {},
            noise,
        ),
        make_result(
            "G7",
            "tickets 1:2:4: largest relative distance of a share, half way",
            off,
            "≤ 0.10",
            {},
            noise,
        ),
    ]


def _create_manager(
    past: BenchmarkHistory, stride: StrideScheduler[UUID], tickets: list[int], workers: int = 2
) -> RecallManager:
    add_recalls(past.connection, [(number, f"p.v > {number}") for number, _ in enumerate(tickets)])
    for number, some in enumerate(tickets):
        past.connection.execute(
            "UPDATE tasks SET tickets = %s WHERE recall = %s", (some, f"recall{number}")
        )
    return create_manager(
        past.root,
        past.connection,
        [create_engines(past.root, PartialCache()) for _ in range(workers)],
        stride,
    )


def _slowest_first_answer(past: BenchmarkHistory, stride: StrideScheduler[UUID]) -> float:
    ours = _create_manager(past, stride, [100] * 10)
    began = time.monotonic()
    while count_tasks(past.connection, "first_at IS NULL"):
        ours.run_once()
        ours.wait_for_query()
    seconds = time.monotonic() - began
    ours.shut_down()
    return seconds


def _served_shares(past: BenchmarkHistory, tickets: list[int]) -> list[int]:
    """Pieces served to each when half of what the busiest can have is given out."""
    # One query at a time: of two places, a task that is served by one query at a time cannot fill
    # more than one.
    ours = _create_manager(past, StrideScheduler(), tickets, workers=1)
    goal = CHUNK_COUNT * sum(tickets) // (2 * max(tickets))
    while True:
        ours.run_once()
        ours.wait_for_query()
        rows = past.connection.execute("SELECT next FROM tasks ORDER BY recall").fetchall()
        served = [int(row[0]) for row in rows]
        if sum(served) >= goal:
            ours.shut_down()
            return served


def _jain_index(shares: list[int]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
