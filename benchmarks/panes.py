"""P1: what a slide of a long window costs when windows are merged of panes, beside aggregating each
window anew.

One rule in the live process's own judges, over rows in memory, slide by slide: by `Panes`, whose
panes of the slides before are at hand; by `LocalJudge` over all rows of the slice, which puts each
into all windows that hold it; and over the rows of the one window that has closed, which is the
least that can be done without panes.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from archiver.times import to_micros
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.evaluation import ActiveRule, RuleBatcher, RuleCohort, RuleSlice
from moirae.evaluation.local import LocalEvaluator
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import advance_cohorts, due_slices, input_view
from moirae.rules import Definition, Rule
from moirae.rules.model import AlertSpec
from recall.query import Tables, infer_shape

_REPETITIONS = 5
_START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
_MICROS_PER_SECOND = 1_000_000
_ROWS_PER_SECOND, _HOST_COUNT = 500, 100
# Slides by panes in a repetition; aggregating anew, one is enough.
_SLIDES = 8
_COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "cpu": "double"}


class InMemoryRows:
    """Rows at `_RATE` a second, in memory."""

    def __init__(self, seconds: int) -> None:
        rng, count = np.random.default_rng(1), seconds * _ROWS_PER_SECOND
        self._ts = _START + np.arange(count) * (_MICROS_PER_SECOND // _ROWS_PER_SECOND)
        hosts = pa.array([f"h{i}" for i in range(_HOST_COUNT)]).take(
            pa.array(rng.integers(0, _HOST_COUNT, count))
        )
        values = [pa.array(self._ts, pa.timestamp("us", "UTC")), hosts]
        values += [pa.array(np.arange(count)), pa.array(rng.uniform(0, 100, count).round(2))]
        self._rows = pa.table(dict(zip(_COLUMNS, values, strict=True)))

    def between(self, low: int | None, high: int) -> pa.Table:
        """Those of a span of event time, microseconds."""
        first = 0 if low is None else int(np.searchsorted(self._ts, low))
        return self._rows.slice(first, int(np.searchsorted(self._ts, high)) - first)

    def count_in_memory(self, stream: str, low: int | None, high: int | None) -> None:
        """See `moirae.evaluation.panes.PaneInput`: panes are to be kept however few they are."""

    def read_tables(self, stream: str, low: int | None, high: int) -> Iterator[pa.Table]:
        """See `moirae.evaluation.panes.PaneInput`."""
        yield self.between(low, high)


def run() -> list[BenchmarkResult]:
    """Measure windows of an hour that slide by a minute, and of three minutes."""
    return [_measure_window(60, "≤ 0.02"), _measure_window(3, "≤ 1")]


def _measure_window(slides: int, target: str) -> BenchmarkResult:
    """Windows that are so many slides of a minute long."""
    rows = InMemoryRows((slides + 2 + _SLIDES) * 60)
    noise, ratios, seconds = [], [], dict[str, list[float]]()
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        took = _measure_repetition(rows, slides)
        for name, value in took.items():
            seconds.setdefault(name, []).append(value)
        ratios.append(took["panes, s"] / took["anew, s"])
        last = {name: round(value, 4) for name, value in took.items()}
        print(f"P1 {slides} slides {repetition + 1}/{_REPETITIONS} {last}", file=sys.stderr)
    what = f"a slide of a window {slides} slides long: merged of panes ÷ aggregated anew ({_ROWS_PER_SECOND} rows/s, a minute)"
    beside = {name: round(statistics.median(values), 4) for name, values in seconds.items()}
    return make_result("P1", what, ratios, target, beside, noise)


def _measure_repetition(rows: InMemoryRows, slides: int) -> dict[str, float]:
    """Seconds of one slide, each way; and of making all panes, as after a restart."""
    local, sharing, standings = (
        LocalEvaluator(),
        RuleBatcher({"cpu": _COLUMNS}),
        [_make_cohort(slides)],
    )
    panes = PaneCache(local, rows)
    took: dict[str, list[float]] = {
        "all panes, s": [],
        "panes, s": [],
        "anew, s": [],
        "one window's rows, s": [],
    }
    for slide in range(_SLIDES):
        (part,) = due_slices(
            standings, {"cpu": _START + (slides + 1 + slide) * 60 * _MICROS_PER_SECOND}
        )
        shares = sharing.batch(part.rules)
        name = "panes, s" if slide else "all panes, s"
        took[name].append(_measure_seconds(partial(panes.evaluate, part, shares)))
        assert part.high is not None
        standings = advance_cohorts(standings, {rule.name for rule in part.rules}, part.high)
    held = _slice_rows(rows, part)
    took["anew, s"].append(_measure_seconds(lambda: local.evaluate(shares.batches, {"cpu": held})))
    took["one window's rows, s"].append(_aggregate_one_window(held, slides))
    return {name: statistics.median(values) for name, values in took.items()}


def _make_cohort(slides: int) -> RuleCohort:
    expr = (
        "SELECT host, window.end AS ts, avg(cpu) AS mean, max(cpu) AS top, count(*) AS n FROM cpu "
        f"GROUP BY host, window(ts, '{slides} minutes', '1 minute') HAVING avg(cpu) > 99"
    )
    tables = Tables({"cpu": "ts"})
    types = {"host": "string", "mean": "double", "top": "double", "n": "bigint"}
    rule = Rule("bench", AlertSpec(alert="Long", expr=expr))
    found = infer_shape(expr, tables)
    running = ActiveRule(Definition(rule, types, ("host",), ("host",)), tables, found)
    return RuleCohort(found, _START + slides * 60 * _MICROS_PER_SECOND, (running,))


def _slice_rows(rows: InMemoryRows, part: RuleSlice) -> pa.Table:
    assert part.input_high is not None
    return rows.between(part.input_low, part.input_high)


def _aggregate_one_window(held: pa.Table, slides: int) -> float:
    """The same aggregates of the last rows, without any windows."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as duck:
        duck.register(
            input_view("cpu"), held.slice(max(0, len(held) - slides * 60 * _ROWS_PER_SECOND))
        )
        query = "SELECT host, avg(cpu), max(cpu), count(*) FROM in_cpu GROUP BY host HAVING avg(cpu) > 99"
        return _measure_seconds(lambda: duck.sql(query).to_arrow_table())


def _measure_seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
