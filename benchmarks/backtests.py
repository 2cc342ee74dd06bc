"""BT1 to BT3: back-tests and tests of plain rules.

BT1: a back-test of a rule that matches 0.1 % of twenty million rows of thirty days, compared with one
scan of its columns by DuckDB on as many cores; and when its first day is known. BT2: twenty values of
a threshold in one pass, compared with one. BT3: a hundred rule tests in one process, compared with
one, after the start. All are warm and alternate.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.delta import StreamSchema, StreamTable
from archiver.read import Reader
from archiver.times import from_micros, to_micros
from benchmarks.fixtures import spark_session, temporary_folder
from benchmarks.long_history import fail_on_relation
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.backtest import (
    Backtest,
    BacktestArchive,
    evaluate_together,
    plan_backtest,
    plan_together,
)
from moirae.backtest.reports import count_alerts
from moirae.backtest.tuning import check_variants
from moirae.config import Settings, load_settings_from_environment, stream_schema
from moirae.deployments import check_rule_files
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastFinder, RelationVersions
from moirae.rule_tests import RuleTestRun, find_test_files, read_test_files
from recall.engines import scan_files
from recall.statements import WORKER_DAEMON

_REPETITIONS = 5
_CHUNKS = 100
_ROWS_PER_CHUNK = 200_000
_DAYS = 30
_CORES = 2
_THRESHOLD = 99.9  # of values from 0 to 100: one row of a thousand
_VALUES = 20
_LISTED = 20  # alerts
_TESTS = 100
_START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
_CHUNK_MICROS = _DAYS * 86_400_000_000 // _CHUNKS
_WORKSPACE = """
home: .moirae
streams:
  past:
    columns: {ts: timestamp, host: string, app: string, v: double}
    time: ts
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
"""
_RULES = f"""
groups:
- name: g
  rules:
  - alert: High
    parameters: {{threshold: {_THRESHOLD}}}
    expr: SELECT host, ts, v FROM past WHERE v > :threshold
    key: [host]
    keep_firing_for: 1m
"""
_TEST = """
  - name: test {number}
    interval: 1m
    input: {{past: [{{series: {{host: a}}, values: {{v: "{low}+1x10"}}}}]}}
    alert_rule_test:
    - {{eval_time: 9m, alertname: High, exp_alerts: [{{exp_labels: {{host: a}}}}]}}
"""


def run() -> list[BenchmarkResult]:
    """Measure all three in one session of Spark."""
    with (
        temporary_folder() as root,
        spark_session({"spark.python.daemon.module": WORKER_DAEMON}) as session,
    ):
        (root / "moirae.yaml").write_text(_WORKSPACE)
        (root / "rules.yaml").write_text(_RULES)
        settings = load_settings_from_environment(root / "moirae.yaml")
        with _open_history(root / "archive", settings, session) as history:
            results = [*_measure_scan(history), _measure_values(history)]
        return [*results, _measure_tests(root, settings, session)]


@dataclass(frozen=True)
class _History:
    archive: BacktestArchive
    settings: Settings
    spark: SparkSession

    def check(self, values: Sequence[float]) -> list[ActiveRule]:
        """The rule with each value of its threshold."""
        paths = self.settings.find_rule_files()
        (definition,), _ = check_rule_files(lambda: self.spark, self.settings, paths)
        variants: list[Mapping[str, float]] = [{"threshold": value} for value in values]
        return check_variants(lambda: self.spark, self.settings, definition.rule, variants)


@contextmanager
def _open_history(folder: Path, settings: Settings, spark: SparkSession) -> Iterator[_History]:
    schema = stream_schema("past", settings.streams["past"])
    table = StreamTable(folder, schema)
    for chunk in range(_CHUNKS):
        table.append(_make_chunk(schema, chunk), chunk)
    reader = Reader(folder, [schema])
    finder = PastFinder(spark.newSession(), reader, RelationVersions(fail_on_relation, frozenset()))
    end = _START + _CHUNKS * _CHUNK_MICROS
    yield _History(BacktestArchive.create(finder, reader, {"past": end}), settings, spark)


def _make_chunk(schema: StreamSchema, chunk: int) -> pa.Table:
    arrow = schema.arrow_schema()
    draw = np.random.default_rng(chunk)
    times = np.sort(draw.integers(0, _CHUNK_MICROS, _ROWS_PER_CHUNK))
    hosts = pa.array([f"h{number}" for number in range(200)])
    apps = pa.array([f"a{number}" for number in range(50)])
    columns = {
        "ts": pa.array(times + _START + chunk * _CHUNK_MICROS, arrow.field("ts").type),
        "host": hosts.take(pa.array(draw.integers(0, 200, _ROWS_PER_CHUNK))),
        "app": apps.take(pa.array(draw.integers(0, 50, _ROWS_PER_CHUNK))),
        "v": pa.array(np.round(draw.uniform(0, 100, _ROWS_PER_CHUNK), 3)),
        "_late": pa.array(np.zeros(_ROWS_PER_CHUNK, bool)),
        "chunk": pa.array(np.full(_ROWS_PER_CHUNK, chunk, np.int32)),
    }
    for field in arrow:
        if field.name not in columns:
            columns[field.name] = pa.nulls(_ROWS_PER_CHUNK, field.type)
    table = pa.table(columns).select([name for name in arrow.names if name != "_append"])
    return table.sort_by([("host", "ascending"), ("ts", "ascending")])


def _measure_scan(history: _History) -> Iterator[BenchmarkResult]:
    """BT1."""
    source = scan_files(history.archive.reader.snapshot("past"))
    scan = f"SELECT min(ts), max(host), sum(v) FROM {source}"
    (rule,) = history.check([_THRESHOLD])
    connection = duckdb.connect(config={"threads": _CORES})
    _run(history, [rule])
    connection.sql(scan).fetchall()
    ratios, shares, seconds, noise = [], [], [], []
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        scanned = measure_seconds(lambda: connection.sql(scan).fetchall())
        first, duration, alerts = _run(history, [rule])
        ratios.append(duration / scanned)
        shares.append(first / duration)
        seconds.append(duration)
        print(f"BT1 {duration:.2f} s, scan {scanned:.2f} s, {alerts:,} alerts", file=sys.stderr)
    details = {"seconds": rounded_median(seconds, 2)}
    yield make_result(
        "BT1",
        "back-test of a plain rule over 20 M rows ÷ scan of its columns",
        ratios,
        target="≤ 1.5",
        details=details,
        noise=noise,
    )
    yield make_result(
        "BT1", "its first day's result ÷ the whole", shares, target="≤ 0.1", noise=noise
    )


def _run(history: _History, rules: Sequence[ActiveRule]) -> tuple[float, float, int]:
    """Seconds to what is shown of the first day of all rules, of all days, and how many alerts fired.

    What a table shows: counts, and the newest alerts.
    """
    started_at = time.perf_counter()
    ranges = [plan_backtest(rule, history.archive, lambda newest: 0, None) for rule in rules]
    tested = plan_together([item for item in ranges if item is not None])
    assert tested is not None
    tests = [Backtest(rule, history.archive, tested) for rule in rules]
    first = 0.0
    for _ in evaluate_together(tests):
        if not first:
            show_alerts(tests)
            first = time.perf_counter() - started_at
    alerts = show_alerts(tests)
    errors = [test.error for test in tests if test.error is not None]
    assert not errors, errors
    return first, time.perf_counter() - started_at, alerts


def show_alerts(tests: Sequence[Backtest]) -> int:
    """Compute what is shown of tests: of one with its newest alerts. Returns how many fired."""
    count = 0
    for test in tests:
        alerts = test.fold_alerts()
        if len(tests) == 1:
            start, end = from_micros(test.range.start), from_micros(test.range.end)
            assert count_alerts(alerts, start, end).alerts == len(alerts.shown)
            assert alerts.list_newest(_LISTED)
        count += len(alerts.shown)
    return count


def _measure_values(history: _History) -> BenchmarkResult:
    """BT2."""
    values = [round(_THRESHOLD + number / 1_000, 3) for number in range(_VALUES)]
    rules = history.check(values)
    _run(history, rules)
    ratios, noise = [], []
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        _, single, _ = _run(history, rules[:1])
        _, together, _ = _run(history, rules)
        ratios.append(together / single)
        print(f"BT2 {together:.2f} s, one {single:.2f} s", file=sys.stderr)
    return make_result(
        "BT2",
        f"{_VALUES} values of a threshold in one pass ÷ one",
        ratios,
        target="≤ 1.5",
        noise=noise,
    )


def _measure_tests(root: Path, settings: Settings, spark: SparkSession) -> BenchmarkResult:
    """BT3."""
    seconds: dict[int, list[float]] = {1: [], _TESTS: []}
    noise: list[float] = []
    for repetition in range(_REPETITIONS + 1):
        noise.append(time_noise_kernel())
        for count in seconds:
            folder = root / f"tests-{repetition}-{count}"
            folder.mkdir()
            tests = [_TEST.format(number=number, low=number % 10 + 100) for number in range(count)]
            (folder / "a.yaml").write_text("rule_files: [../rules.yaml]\ntests:" + "".join(tests))
            seconds[count].append(measure_seconds(partial(_run_tests, settings, folder, spark)))
    ratios = [
        many / single for single, many in zip(seconds[1][1:], seconds[_TESTS][1:], strict=True)
    ]
    return make_result(
        "BT3",
        f"{_TESTS} tests of plain rules ÷ one, after the start",
        ratios,
        target="≤ 10",
        details={"one_s": rounded_median(seconds[1][1:], 3)},
        noise=noise,
    )


def _run_tests(settings: Settings, folder: Path, spark: SparkSession) -> None:
    documents = read_test_files(settings, find_test_files(settings, [folder / "a.yaml"]))
    results = list(RuleTestRun(settings, lambda: spark).run(documents))
    assert len(results) in (1, _TESTS)
    assert not any(result.failures for result in results), results[0].failures
