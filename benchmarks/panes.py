"""P1: cost of a slide of a long window, merged from panes ÷ aggregated as a whole.

One rule is evaluated over rows in memory, slide by slide: by `PaneCache`, which has cached the
panes of earlier slides; by `DuckDBRules` over all rows of the slice, which counts each row in
every window that contains it; and over the rows of the one window that has closed, which is the
least that is possible without panes.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from archiver.time_range import TimeRange
from archiver.times import to_micros
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.evaluation import EvaluationRequest, RowSource, RuleEngine, RuleGroup, RuleGrouper
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    RuleSlice,
    advance_cohorts,
    due_slices,
    input_view,
)
from moirae.rules import Definition, Rule
from moirae.rules.model import AlertSpec
from recall.query import Tables, infer_shape

_REPETITIONS = 5
_START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
_MICROS_PER_SECOND = 1_000_000
_SLIDE_SECONDS = 60
_ROWS_PER_SECOND = 500
_HOST_COUNT = 100
_SLIDES = 8  # evaluated from panes in a repetition; the last is also aggregated as a whole
_COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "cpu": "double"}


class InMemoryRows:
    """Rows at a constant rate; implements `moirae.evaluation.panes.PaneInput`."""

    def __init__(self, seconds: int) -> None:
        rng = np.random.default_rng(1)
        count = seconds * _ROWS_PER_SECOND
        self._ts = _START + np.arange(count) * (_MICROS_PER_SECOND // _ROWS_PER_SECOND)
        host_names = pa.array(list(map("h{}".format, range(_HOST_COUNT))))
        self._rows = pa.table(
            {
                "ts": pa.array(self._ts, pa.timestamp("us", "UTC")),
                "host": host_names.take(pa.array(rng.integers(0, _HOST_COUNT, count))),
                "n": pa.array(np.arange(count)),
                "cpu": pa.array(rng.uniform(0, 100, count).round(2)),
            }
        )

    def select(self, time_range: TimeRange) -> pa.Table:
        """The rows with event times in a range."""
        start, end = time_range
        first = 0
        if start is not None:
            first = int(np.searchsorted(self._ts, start))
        last = len(self._rows)
        if end is not None:
            last = int(np.searchsorted(self._ts, end))
        return self._rows.slice(first, last - first)

    def count_in_memory(self, stream: str, time_range: TimeRange) -> None:
        """None: panes are cached even if they save few row counts."""

    def read_tables(self, stream: str, time_range: TimeRange) -> Iterator[pa.Table]:
        yield self.select(time_range)


def run() -> list[BenchmarkResult]:
    """Measure windows of an hour and of three minutes, which slide by a minute."""
    return [_measure_window(60, "≤ 0.02"), _measure_window(3, "≤ 1")]


def _measure_window(slides: int, target: str) -> BenchmarkResult:
    """Measure windows whose length is a number of slides."""
    rows = InMemoryRows((slides + 2 + _SLIDES) * _SLIDE_SECONDS)
    noise: list[float] = []
    ratios: list[float] = []
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        figures = _measure_repetition(rows, slides)
        for name, seconds in figures.items():
            samples[name].append(seconds)
        ratios.append(figures["merge_panes_s"] / figures["aggregate_s"])
        latest = ", ".join(f"{name} {seconds:.4f}" for name, seconds in figures.items())
        print(f"P1 {slides} slides {repetition + 1}/{_REPETITIONS} {latest}", file=sys.stderr)
    return make_result(
        "P1",
        f"one slide of a window of {slides} slides: merged from panes ÷ aggregated as a whole "
        f"({_ROWS_PER_SECOND} rows/s, slide of 1 min)",
        ratios,
        target=target,
        details={name: rounded_median(seconds, 4) for name, seconds in samples.items()},
        noise=noise,
    )


def _measure_repetition(rows: InMemoryRows, slides: int) -> dict[str, float]:
    """Seconds of a slide by each method, and of building all panes, as after a restart."""
    duckdb_rules = DuckDBRules()
    grouper = RuleGrouper({"cpu": _COLUMNS})
    cohorts = [_make_cohort(slides)]
    panes = PaneCache(duckdb_rules, rows)
    slide_seconds = []
    for slide in range(_SLIDES):
        watermark = _START + (slides + 1 + slide) * _SLIDE_SECONDS * _MICROS_PER_SECOND
        (rule_slice,) = due_slices(cohorts, {"cpu": watermark})
        groups = grouper.group(rule_slice.rules)
        request = _make_request(rows, rule_slice)
        slide_seconds.append(measure_seconds(partial(_evaluate, panes, groups, request)))
        assert rule_slice.range.end is not None
        evaluated = {rule.name for rule in rule_slice.rules}
        cohorts = advance_cohorts(cohorts, evaluated, rule_slice.range.end)
    slice_rows = rows.select(rule_slice.input_range)
    return {
        "build_all_panes_s": slide_seconds[0],
        "merge_panes_s": statistics.median(slide_seconds[1:]),
        "aggregate_s": measure_seconds(partial(_evaluate, duckdb_rules, groups, request)),
        "aggregate_one_window_s": _aggregate_one_window(slice_rows, slides),
    }


def _make_request(rows: InMemoryRows, rule_slice: RuleSlice) -> EvaluationRequest:
    source = RowSource.of_table(rows.select(rule_slice.input_range))
    return EvaluationRequest({"cpu": source}, rule_slice)


def _evaluate(engine: RuleEngine, groups: Sequence[RuleGroup], request: EvaluationRequest) -> None:
    list(engine.run(groups, request))


def _make_cohort(slides: int) -> RuleCohort:
    expr = (
        "SELECT host, window.end AS ts, avg(cpu) AS mean, max(cpu) AS top, count(*) AS n FROM cpu "
        f"GROUP BY host, window(ts, '{slides} minutes', '1 minute') HAVING avg(cpu) > 99"
    )
    tables = Tables({"cpu": "ts"})
    types = {"host": "string", "mean": "double", "top": "double", "n": "bigint"}
    rule = Rule("bench", AlertSpec(alert="Long", expr=expr))
    shape = infer_shape(expr, tables)
    definition = Definition(rule, types, key=("host",), id=("host",))
    settled_to = _START + slides * _SLIDE_SECONDS * _MICROS_PER_SECOND
    return RuleCohort(shape, settled_to, (ActiveRule(definition, tables, shape),))


def _aggregate_one_window(rows: pa.Table, slides: int) -> float:
    """Seconds of the same aggregates over the last rows, those of one window."""
    row_count = slides * _SLIDE_SECONDS * _ROWS_PER_SECOND
    query = (
        "SELECT host, avg(cpu), max(cpu), count(*) FROM in_cpu GROUP BY host HAVING avg(cpu) > 99"
    )
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        connection.register(input_view("cpu"), rows.slice(max(0, len(rows) - row_count)))
        return measure_seconds(lambda: connection.sql(query).to_arrow_table())
