"""G3: share of revisions that are exact over their coverage.

Ten SQL recalls over a long history, which store a revision whenever there is a new result. Each is
recomputed from the rows of the time range that it covers.
"""

import statistics
import sys
from typing import Any

import numpy as np

from archiver.time_range import TimeRange
from benchmarks.long_history import (
    CHUNK_COUNT,
    BenchmarkHistory,
    add_recalls,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
    draw_chunk,
    run_manager_until,
)
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from recall.engines.routing import PartialCache

_REPETITIONS = 5
_RECALLS = 10
_ROWS_PER_CHUNK = 10_000

_Array = np.ndarray[Any, Any]


def run() -> list[BenchmarkResult]:
    """Measure the goal."""
    noise: list[float] = []
    exact_shares: list[float] = []
    revision_counts: list[int] = []
    chunks = [draw_chunk(number, _ROWS_PER_CHUNK) for number in range(CHUNK_COUNT)]
    times, _, apps, values = map(np.concatenate, zip(*chunks, strict=True))
    with create_history(_ROWS_PER_CHUNK) as history:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            _run_recalls(history)
            revisions = history.connection.execute(
                "SELECT t.event->'attributes'->>'app', t.recall, r.coverage, r.answer"
                " FROM revisions r JOIN tasks t ON t.id = r.task"
            ).fetchall()
            exact_count = 0
            for app, recall, coverage, answer in revisions:
                threshold = int(recall.removeprefix("recall"))
                is_read = (apps == int(app[1:])) & (values > threshold)
                is_read &= _is_covered(times, coverage)
                exact_count += _is_exact(answer, values[is_read])
            exact_shares.append(exact_count / len(revisions))
            revision_counts.append(len(revisions))
            print(
                f"G3 {repetition + 1}/{_REPETITIONS} {exact_shares[-1]:.1%} "
                f"of {len(revisions)} revisions",
                file=sys.stderr,
            )
    return [
        make_result(
            "G3",
            "share of revisions that are exact over their coverage",
            exact_shares,
            target="1 (all)",
            details={"revisions": statistics.median(revision_counts)},
            noise=noise,
        )
    ]


def _run_recalls(history: BenchmarkHistory) -> None:
    """Run new recalls to their end, with a revision for each new result."""
    connection = history.connection
    add_recalls(connection, [(number, f"p.v > {number}") for number in range(_RECALLS)])
    connection.execute("UPDATE tasks SET request = jsonb_set(request, '{every}', '0')")
    engines = [create_engines(history.root, PartialCache()) for _ in range(2)]
    manager = create_manager(history.root, connection, engines)
    run_manager_until(manager, lambda: not count_tasks(connection, "state <> 'done'"))
    manager.shut_down()


def _is_covered(times: _Array, coverage: dict[str, Any]) -> _Array:
    """Which event times (microseconds) are in [read_from, read_to) of a coverage."""
    if coverage["read_to"] is None:
        return np.zeros(len(times), dtype=bool)
    return TimeRange(coverage["read_from"], coverage["read_to"]).mask(times)


def _is_exact(answer: list[dict[str, Any]], values: _Array) -> bool:
    """Whether an answer has the count, mean and standard deviation of the values."""
    (row,) = answer
    if row["n"] != len(values):
        return False
    if len(values) < 2:
        return True
    actual = [row["mean"], row["sd"]]
    return np.allclose(actual, [values.mean(), values.std(ddof=1)], rtol=1e-9)
