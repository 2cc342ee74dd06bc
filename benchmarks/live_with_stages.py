"""T2: live latency with stages, compared with the same recalls without stages.

The real processes run on one workspace: a stream of 500 rows per second with a filter, whose
latency is measured, and a rule with a recall over 200,000 archived rows for each of five alerts a
second. In every second run the rule has three chained stages too, one of which joins live rows.
"""

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.fixtures import moirae_up, temporary_workspace
from benchmarks.live_latency import MEASURED_RULE, WORKSPACE, LiveProducer, measure_p99, start_live
from benchmarks.live_stream import Row
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 5
_WARM_UP_SECONDS = 20.0
_MEASURED_SECONDS = 30.0
_ARCHIVED_ROWS = 200_000
_ARCHIVED_ROW_INTERVAL = 8.5  # seconds of event time
_ARCHIVED_DAYS = 20  # age of the oldest archived row
_RULES = (
    MEASURED_RULE
    + """\
  - alert: Recalled
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 101
    key: [n]
    id: [n]
    keep_firing_for: 1s
    recall:
      norm:
        sql: SELECT h.host AS other, avg(h.v) AS mean, count(*) AS n FROM past h GROUP BY h.host
"""
)
_STAGES = """
    then:
    - stream: light
      sql: SELECT m.other, m.mean FROM norm m WHERE m.mean < 60
    - stream: joined
      sql: SELECT l.other, max_by(c.cpu, c.ts) AS cpu FROM light l JOIN cpu c ON c.host = l.other GROUP BY l.other
      within: 2s
      delay: 1s
    - stream: summary
      sql: SELECT count(*) AS n, max(j.cpu) AS top FROM joined j
"""


def run() -> list[BenchmarkResult]:
    """Measure all runs, without and with stages in turn."""
    noise: list[float] = []
    latencies: dict[bool, list[float]] = {False: [], True: []}
    for repetition in range(_REPETITIONS):
        for has_stages in (False, True):
            noise.append(time_noise_kernel())
            latencies[has_stages].append(_measure_run(repetition, has_stages))
        print(
            f"{repetition + 1}/{_REPETITIONS} p99 without stages {latencies[False][-1]:.3f} s, "
            f"with stages {latencies[True][-1]:.3f} s",
            file=sys.stderr,
        )
    pairs = zip(latencies[True], latencies[False], strict=True)
    return [
        make_result(
            "T2",
            "live p99 latency with stages ÷ without, the same recalls",
            [with_stages / without for with_stages, without in pairs],
            target="≤ 1.1",
            details={
                "without_p99_s": rounded_median(latencies[False], 3),
                "with_p99_s": rounded_median(latencies[True], 3),
            },
            noise=noise,
        )
    ]


def _measure_run(seed: int, has_stages: bool) -> float:
    """The p99 of live latency in seconds."""
    with _create_workspace(seed, has_stages) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        producer = LiveProducer(root / "landing" / "cpu", seed, _AlertWriter())
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
        ):
            try:
                start_live(connection, producer)
                time.sleep(_WARM_UP_SECONDS)
                p99 = measure_p99(connection, "bench/High", _MEASURED_SECONDS)
            finally:
                producer.stop()
            row = connection.execute("SELECT count(*) FROM tasks WHERE revision > 0").fetchone()
            assert row is not None
            assert row[0] > 0, "no recall has an answer"
            row = connection.execute("SELECT count(*) FROM stages WHERE revision > 0").fetchone()
            assert row is not None
            assert (row[0] > 0) == has_stages, "the stages have no rows"
    return p99


class _AlertWriter:
    """Makes the last row of every second file one for which the rule with the recall fires."""

    def __init__(self) -> None:
        self._files = 0

    def __call__(self, rows: list[Row]) -> None:
        self._files += 1
        if self._files % 2 == 0:
            rows[-1]["cpu"] = 150.0


@contextmanager
def _create_workspace(seed: int, has_stages: bool) -> Iterator[Path]:
    """A workspace whose archived rows are still in its landing folder."""
    rules = _RULES + (_STAGES if has_stages else "")
    with temporary_workspace(WORKSPACE, rules) as root:
        for name in ("cpu", "past"):
            (root / "landing" / name).mkdir(parents=True)
        rng = random.Random(seed)
        start = datetime.now(UTC) - timedelta(days=_ARCHIVED_DAYS)
        with (root / "landing" / "past" / "all.jsonl").open("w") as file:
            for number in range(_ARCHIVED_ROWS):
                ts = start + timedelta(seconds=number * _ARCHIVED_ROW_INTERVAL)
                host, value = rng.randrange(10), rng.uniform(0, 100)
                file.write(f'{{"ts": "{ts.isoformat()}", "host": "h{host}", "v": {value:.2f}}}\n')
        yield root
