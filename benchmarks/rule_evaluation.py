"""G11: what many rules of one shape cost beside one. G12: rows a second and core, archived,
de-duplicated and judged.

Both drive the archive and the judge of the live process batch by batch, over a database and a
Spark session of their own, so that nothing but the work of a batch is measured. Runs of all
set-ups are interleaved.
"""

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from archiver.chunks import CutPolicy
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.spark import jvm_process, start_session
from archiver.times import duration_to_micros, to_micros
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.config import load_settings_from_environment, stream_schema
from moirae.deployments import RuleRegistry
from moirae.evaluation import Guard
from moirae.live import Detector, Relations
from moirae.rules import Definition, Rule, RuleAdmission
from moirae.rules.model import AlertSpec
from moirae.runtime import database

_REPETITIONS = 5
_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = to_micros(_START + timedelta(days=30))
_HOST_COUNT = 100
_WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
"""
# G11: rows of a batch (a second of 500 a second), and batches of a run; the first ones warm up.
_ROWS_PER_BATCH, _BATCHES_PER_RUN, _WARM_UP_BATCHES = 500, 24, 8
# G12: rows of a batch, at 1,000 a second of event time, and batches.
_ROWS_PER_BULK_BATCH, _BULK_BATCHES = 100_000, 6

ColumnTypes = dict[str, str]


def _filter_rule(i: int) -> tuple[str, ColumnTypes]:
    """The first rule finds something now and then; the others look as hard and find nothing."""
    where = f"host = 'h{i % _HOST_COUNT}' AND cpu > {90 if i == 0 else 100 + i}"
    return f"SELECT host, n, ts, cpu FROM cpu WHERE {where}", {
        "host": "string",
        "n": "bigint",
        "cpu": "double",
    }


def _window_rule(i: int) -> tuple[str, ColumnTypes]:
    text = "SELECT host, window.end AS ts, avg(cpu) AS mean FROM cpu GROUP BY host, window(ts, '10 seconds') "
    return f"{text}HAVING avg(cpu) > {70 if i == 0 else 100 + i}", {
        "host": "string",
        "mean": "double",
    }


def _rule_of_shape(i: int) -> tuple[str, ColumnTypes]:
    """One of 20 shapes: filters and windows that differ in more than constants."""
    if i < 10:
        terms = " + ".join(["cpu"] * (i + 1))
        return f"SELECT host, n, ts, {terms} AS x FROM cpu WHERE cpu > 99.9", {
            "host": "string",
            "n": "bigint",
            "x": "double",
        }
    terms = " + ".join(["n"] * (i - 9))
    text = f"SELECT host, window.end AS ts, max({terms}) AS top FROM cpu GROUP BY host, window(ts, '10 seconds') "
    return f"{text}HAVING avg(cpu) > 80", {"host": "string", "top": "bigint"}


@dataclass(frozen=True)
class EvaluationSetup:
    """Some rules, judged here or by Spark alone."""

    name: str
    rules: int
    make_rule: Callable[[int], tuple[str, ColumnTypes]]
    local_engine: bool = True

    def definitions(self) -> list[Definition]:
        """Its rules; none of them is like another."""
        made = []
        for i in range(self.rules):
            expr, types = self.make_rule(i)
            rule = Rule(
                "bench", AlertSpec(alert=f"R{i}", expr=expr, keep_firing_for=timedelta(seconds=1))
            )
            made.append(Definition(rule, types, ("host",), ("n",) if "n" in types else ("host",)))
        return made


_G11 = (
    EvaluationSetup("filters: 1", 1, _filter_rule),
    EvaluationSetup("filters: 100", 100, _filter_rule),
    EvaluationSetup("filters: 1000", 1000, _filter_rule),
    EvaluationSetup("windows: 1", 1, _window_rule),
    EvaluationSetup("windows: 100", 100, _window_rule),
    EvaluationSetup("windows: 1000", 1000, _window_rule),
    EvaluationSetup("20 shapes", 20, _rule_of_shape),
    EvaluationSetup("filters: 1, by Spark", 1, _filter_rule, local_engine=False),
    EvaluationSetup("filters: 1000, by Spark", 1000, _filter_rule, local_engine=False),
    EvaluationSetup("20 shapes, by Spark", 20, _rule_of_shape, local_engine=False),
)
_G12 = (
    EvaluationSetup("no rules", 0, _rule_of_shape),
    EvaluationSetup("20 rules", 20, _rule_of_shape),
)


def run() -> list[BenchmarkResult]:
    """Measure both, interleaved: all set-ups stand side by side."""
    noise: list[float] = []
    batches: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    spark = start_session(
        "benchmark", "local[2]", Path(tempfile.mkdtemp(prefix="moirae-bench-")), {}
    )
    try:
        with ExitStack() as open_until_the_end:
            stages = {
                setup: open_until_the_end.enter_context(_live_stage(spark, setup))
                for setup in (*_G11, *_G12)
            }
            for repetition in range(_REPETITIONS):
                noise.append(time_noise_kernel())
                for setup in _G11:
                    batches.setdefault(setup.name, []).append(
                        _batch_seconds(stages[setup], repetition)
                    )
                for setup in _G12:
                    rates.setdefault(setup.name, []).append(
                        _rows_per_cpu_second(stages[setup], repetition)
                    )
                last = {name: round(values[-1], 4) for name, values in (batches | rates).items()}
                print(f"{repetition + 1}/{_REPETITIONS} {last}", file=sys.stderr)
    finally:
        spark.stop()
    return _result_rows(batches, rates, noise)


def _result_rows(
    batches: dict[str, list[float]], rates: dict[str, list[float]], noise: Sequence[float]
) -> list[BenchmarkResult]:
    def ratio(many: str, one: str) -> list[float]:
        return [a / b for a, b in zip(batches[many], batches[one], strict=True)]

    def seconds(*names: str) -> dict[str, float]:
        return {f"{name}, s": round(statistics.median(batches[name]), 4) for name in names}

    rows = []
    for kind in ("filters", "windows"):
        for count in (100, 1000):
            many, one = f"{kind}: {count}", f"{kind}: 1"
            what = f"{count} rules of one shape ÷ one rule, {kind}: time of a batch of 500 rows"
            rows.append(
                make_result("G11", what, ratio(many, one), "≤ 1.2", seconds(one, many), noise)
            )
    what = "20 rules of 20 shapes ÷ one rule: time of a batch"
    rows.append(
        make_result("G11", what, ratio("20 shapes", "filters: 1"), "–", seconds("20 shapes"), noise)
    )
    for many in ("filters: 1000, by Spark", "20 shapes, by Spark"):
        what = f"{many} ÷ one rule by Spark: time of a batch"
        one = "filters: 1, by Spark"
        rows.append(make_result("G11", what, ratio(many, one), "–", seconds(one, many), noise))
    beside = {
        name: round(statistics.median(values), 0)
        for name, values in rates.items()
        if name != "20 rules"
    }
    what = "rows/s/core, ingest to archived, de-duplicated and judged by 20 rules"
    return [*rows, make_result("G12", what, rates["20 rules"], "≥ 100,000", beside, noise)]


def _batch_seconds(take: Callable[[SourceUnit], None], repetition: int) -> float:
    """Median seconds of a batch: archive, detect, settle; the first ones warm up."""
    seconds = []
    for number in range(repetition * _BATCHES_PER_RUN, (repetition + 1) * _BATCHES_PER_RUN):
        unit = _make_unit(number, _ROWS_PER_BATCH, 500)
        began = time.perf_counter()
        take(unit)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[_WARM_UP_BATCHES:])


def _rows_per_cpu_second(take: Callable[[SourceUnit], None], repetition: int) -> float:
    """Rows per second of processor time, of this process and the JVM together; the first batch
    warms up.
    """
    units = [
        _make_unit(repetition * _BULK_BATCHES + number, _ROWS_PER_BULK_BATCH, 1000)
        for number in range(_BULK_BATCHES)
    ]
    take(units[0])
    began = _cpu_seconds()
    for unit in units[1:]:
        take(unit)
    return _ROWS_PER_BULK_BATCH * (_BULK_BATCHES - 1) / (_cpu_seconds() - began)


def _cpu_seconds() -> float:
    process = jvm_process()
    times = [psutil.Process().cpu_times()] + (
        [psutil.Process(process.pid).cpu_times()] if process else []
    )
    return float(sum(one.user + one.system for one in times))


def _make_unit(number: int, rows: int, rate: int) -> SourceUnit:
    rng = random.Random(number)
    start = _START + timedelta(seconds=number * rows / rate)
    lines = [
        json.dumps(
            {
                "ts": (start + timedelta(seconds=i / rate)).isoformat(),
                "host": f"h{rng.randrange(_HOST_COUNT)}",
                "n": number * rows + i,
                "cpu": round(rng.uniform(0, 100), 2),
            }
        ).encode()
        for i in range(rows)
    ]
    return SourceUnit("cpu", f"{number:06d}", "jsonl", lambda: iter(lines))


@contextmanager
def _live_stage(
    spark: SparkSession, setup: EvaluationSetup
) -> Iterator[Callable[[SourceUnit], None]]:
    """A fresh workspace whose rules run; yields what takes a batch, as the live process does."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)
    try:
        (root / "moirae.yaml").write_text(_WORKSPACE)
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            RuleRegistry(connection).apply(setup.definitions())
            schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
            policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
            archive = ArchiveWriter(root / "archive", schemas, policy, connection, lambda: None)
            relations = Relations(connection, settings.relations)
            admission, guard = RuleAdmission(spark, settings), Guard(spark, settings, connection)
            judge = Detector(
                spark.newSession(),
                archive,
                connection,
                relations,
                admission,
                guard,
                setup.local_engine,
            )
            judge.reload(_START)

            def take(unit: SourceUnit) -> None:
                left = judge.detect(archive.ingest([unit], _NOW).on_time)
                judge.settle(include_filters=left)
                judge.follow_up()

            yield take
    finally:
        shutil.rmtree(root, ignore_errors=True)
