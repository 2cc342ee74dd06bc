"""G3: how many revisions are exact over what they say they cover: each is computed again from the
rows of that span.

Ten SQL recalls about a long history, a revision as often as there is something new.
"""

import statistics
import sys
from typing import Any

import numpy as np

from benchmarks.long_history import (
    CHUNK_COUNT,
    add_recalls,
    count_tasks,
    create_engines,
    create_history,
    create_manager,
    draw_chunk,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.engines import PartialCache

_REPETITIONS = 5
_ROWS = 10_000


def run() -> list[BenchmarkResult]:
    """Measure."""
    noise, exact, counts = [], [], []
    times, _, apps, values = (
        np.concatenate(kind)
        for kind in zip(*(draw_chunk(n, _ROWS) for n in range(CHUNK_COUNT)), strict=True)
    )
    with create_history(_ROWS) as past:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            add_recalls(past.connection, [(number, f"p.v > {number}") for number in range(10)])
            past.connection.execute("UPDATE tasks SET request = jsonb_set(request, '{every}', '0')")
            ours = create_manager(
                past.root,
                past.connection,
                [create_engines(past.root, PartialCache()) for _ in range(2)],
            )
            while count_tasks(past.connection, "state <> 'done'"):
                ours.run_once()
                ours.wait_for_query()
            ours.shut_down()
            found = past.connection.execute(
                "SELECT t.event->'attributes'->>'app', t.recall, r.coverage, r.answer"
                " FROM revisions r JOIN tasks t ON t.id = r.task"
            ).fetchall()
            hits = []
            for app, recall, coverage, answer in found:
                mine = (apps == int(app[1:])) & (values > int(recall.removeprefix("recall")))
                hits.append(_is_equal(answer, values[mine & _is_covered(times, coverage)]))
            exact.append(statistics.mean(hits))
            counts.append(len(hits))
            print(
                f"G3 {repetition + 1}/{_REPETITIONS} {exact[-1]:.1%} of {len(hits)} revisions",
                file=sys.stderr,
            )
    what = "revisions that are exact over the history that they say they cover"
    return [
        make_result("G3", what, exact, "1 (all)", {"revisions": statistics.median(counts)}, noise)
    ]


def _is_covered(times: np.ndarray[Any, Any], coverage: dict[str, Any]) -> np.ndarray[Any, Any]:
    low, high = coverage["read_from"], coverage["read_to"]
    inside: np.ndarray[Any, Any] = (
        times < high if high is not None else np.zeros(len(times), dtype=bool)
    )
    return inside if low is None else inside & (times >= low)


def _is_equal(answer: list[dict[str, Any]], values: np.ndarray[Any, Any]) -> bool:
    (row,) = answer
    if row["n"] != len(values):
        return False
    expected = [values.mean(), values.std(ddof=1)] if len(values) > 1 else []
    return np.allclose([row["mean"], row["sd"]][: len(expected)], expected, rtol=1e-9)
