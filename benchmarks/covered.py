"""G3: how many revisions are exact over what they say they cover: each is computed again from the rows of that span.

Ten SQL recalls over the archive of `benchmarks.recalls`, a revision as often as there is something new.
"""

import random
import statistics
import sys
from typing import Any

import numpy as np

from archiver.times import to_micros
from benchmarks import recalls
from benchmarks.results import Result, kernel, result
from recall.schedule import Stride

_REPETITIONS = 5
_SECOND = 1_000_000


def run() -> list[Result]:
    """Measure."""
    noise, exact, counts = [], [], []
    seconds, hosts, values = _rows()
    with recalls.archive() as (root, connection, _):
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            manager = recalls._manager(root, connection, Stride(), [100] * 10)
            connection.execute("UPDATE tasks SET request = jsonb_set(request, '{every}', '0')")
            while recalls._count(connection, "state <> 'done'"):
                manager.round()
                manager.rest()
            manager.finish()
            found = connection.execute(
                "SELECT t.event->'attributes'->>'host', t.recall, r.coverage, r.answer"
                " FROM revisions r JOIN tasks t ON t.id = r.task"
            ).fetchall()
            hits = []
            for host, recall, coverage, answer in found:
                mine = (hosts == int(host[1:])) & (values > int(recall.removeprefix("recall")))
                mine &= _covered(seconds, coverage)
                hits.append(_equal(answer, values[mine]))
            exact.append(statistics.mean(hits))
            counts.append(len(hits))
            print(f"G3 {repetition + 1}/{_REPETITIONS} {exact[-1]:.1%} of {len(hits)} revisions", file=sys.stderr)
    what = "revisions that are exact over the history that they say they cover"
    return [result("G3", what, exact, "1 (all)", {"revisions": statistics.median(counts)}, noise)]


def _rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What is in the archive: seconds since its first row, number of the host, value."""
    rng, count = random.Random(1), recalls._CHUNKS * recalls._ROWS
    drawn = [(rng.randrange(20), round(rng.uniform(0, 100), 2)) for _ in range(count)]
    return np.arange(count), np.array([host for host, _ in drawn]), np.array([value for _, value in drawn])


def _covered(seconds: np.ndarray[Any, Any], coverage: dict[str, Any]) -> np.ndarray[Any, Any]:
    times = to_micros(recalls._START) + seconds * _SECOND
    low, high = coverage["read_from"], coverage["read_to"]
    inside: np.ndarray[Any, Any] = times < high if high is not None else np.zeros(len(times), dtype=bool)
    return inside if low is None else inside & (times >= low)


def _equal(answer: list[dict[str, Any]], values: np.ndarray[Any, Any]) -> bool:
    (row,) = answer
    if row["n"] != len(values):
        return False
    expected = [values.mean(), values.std(ddof=1)] if len(values) > 1 else []
    return np.allclose([row["mean"], row["sd"]][: len(expected)], expected, rtol=1e-9)
