"""G6, G7: ten concurrent recalls over one archive, by the real manager, ledger and reader.

G6: the slowest first answer, compared with the same ten recalls one after another (FIFO), chunk by
chunk. G7: how evenly pieces of history are served at half of the work (Jain's fairness index), and
how far shares deviate from tickets of 1:2:4. All queries differ, so that none is shared.
"""

import sys
from collections.abc import Iterable
from unittest.mock import patch
from uuid import UUID

from benchmarks.long_history import (
    CHUNK_COUNT,
    BenchmarkHistory,
    add_recalls,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.engines.routing import PartialCache
from recall.scheduling import StrideScheduler
from recall.worker import RecallManager

_REPETITIONS = 5
_ROWS_PER_CHUNK = 10_000
_EQUAL_TICKETS = (100,) * 10
_UNEQUAL_TICKETS = (100, 200, 400)


class _FifoScheduler(StrideScheduler[UUID]):
    """Serves tasks one after another, in the order in which they were added."""

    def next_task(self, ready: Iterable[UUID]) -> UUID | None:
        ready_tasks = set(ready)
        return next(filter(ready_tasks.__contains__, self._entries), None)


def run() -> list[BenchmarkResult]:
    """Measure both goals alternately."""
    noise: list[float] = []
    ratios: list[float] = []
    stride_seconds: list[float] = []
    fifo_seconds: list[float] = []
    jain_indexes: list[float] = []
    deviations: list[float] = []
    with create_history(_ROWS_PER_CHUNK) as history:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            stride = _slowest_first_answer(history, StrideScheduler())
            with patch("recall.scheduling.turn_plan.choose_run_length", lambda *_, **__: 1):
                fifo = _slowest_first_answer(history, _FifoScheduler())
            ratios.append(stride / fifo)
            stride_seconds.append(stride)
            fifo_seconds.append(fifo)
            jain_indexes.append(_jain_index(_served_pieces(history, _EQUAL_TICKETS)))
            served = _served_pieces(history, _UNEQUAL_TICKETS)
            deviations.append(_largest_deviation(served, _UNEQUAL_TICKETS))
            print(
                f"{repetition + 1}/{_REPETITIONS} stride {stride:.3f} s, FIFO {fifo:.3f} s, "
                f"Jain's index {jain_indexes[-1]:.4f}, 1:2:4 deviates by {deviations[-1]:.1%}",
                file=sys.stderr,
            )
    return [
        make_result(
            "G6",
            "slowest first answer of 10 concurrent recalls ÷ with FIFO scheduling",
            ratios,
            target="≤ 1/25 = 0.04",
            details={
                "stride_seconds": rounded_median(stride_seconds, 3),
                "fifo_seconds": rounded_median(fifo_seconds, 3),
            },
            noise=noise,
        ),
        make_result(
            "G7",
            "Jain's fairness index of 10 recalls with equal tickets, at half of the work",
            jain_indexes,
            target="≥ 0.98",
            noise=noise,
        ),
        make_result(
            "G7",
            "tickets 1:2:4: largest relative deviation of a share, at half of the work",
            deviations,
            target="≤ 0.10",
            noise=noise,
        ),
    ]


def _create_manager(
    history: BenchmarkHistory,
    stride: StrideScheduler[UUID],
    tickets: tuple[int, ...],
    query_slots: int,
) -> RecallManager:
    """A manager with a new recall for each number of tickets."""
    connection = history.connection
    add_recalls(connection, [(number, f"p.v > {number}") for number in range(len(tickets))])
    for number, ticket_count in enumerate(tickets):
        connection.execute(
            "UPDATE tasks SET tickets = %s WHERE recall = %s", (ticket_count, f"recall{number}")
        )
    engines = [create_engines(history.root, PartialCache()) for _ in range(query_slots)]
    return create_manager(history.root, connection, engines, stride=stride)


def _slowest_first_answer(history: BenchmarkHistory, stride: StrideScheduler[UUID]) -> float:
    """Seconds until all of ten recalls have a first answer."""
    manager = _create_manager(history, stride, _EQUAL_TICKETS, query_slots=2)

    def have_first_answers() -> bool:
        return not count_tasks(history.connection, "first_at IS NULL")

    seconds = measure_seconds(lambda: run_manager_until(manager, have_first_answers))
    manager.shut_down()
    return seconds


def _served_pieces(history: BenchmarkHistory, tickets: tuple[int, ...]) -> list[int]:
    """Pieces served to each recall when the one with most tickets should have half of its own."""
    # With two slots no task could use more than one, however many tickets it has.
    manager = _create_manager(history, StrideScheduler(), tickets, query_slots=1)
    piece_limit = CHUNK_COUNT * sum(tickets) // (2 * max(tickets))
    served: list[int] = []
    while sum(served) < piece_limit:
        manager.run_once()
        manager.wait_for_query()
        rows = history.connection.execute("SELECT next FROM tasks ORDER BY recall").fetchall()
        served = [int(row[0]) for row in rows]
    manager.shut_down()
    return served


def _jain_index(shares: list[int]) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares)


def _largest_deviation(shares: list[int], tickets: tuple[int, ...]) -> float:
    """The largest relative deviation of a share from its part of the tickets."""
    deviations = []
    for share, ticket_count in zip(shares, tickets, strict=True):
        expected_share = sum(shares) * ticket_count / sum(tickets)
        deviations.append(abs(share - expected_share) / expected_share)
    return max(deviations)
