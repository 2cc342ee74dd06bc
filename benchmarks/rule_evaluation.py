"""G11: cost of many rules of one shape ÷ one rule. G12: rows per second and core with 20 rules.

Both run the archive writer and the detector of the live process batch by batch, with their own
database and a shared Spark session, so that only the work of a batch is measured: archive,
deduplicate, evaluate. Runs of all setups alternate.
"""

import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import psutil
from pyspark.sql import SparkSession

from archiver.chunks import CutPolicy
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.spark import jvm_process
from archiver.times import duration_to_micros, to_micros
from benchmarks.fixtures import spark_session, temporary_workspace
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.config import load_settings_from_environment, stream_schema
from moirae.deployments import RuleRegistry
from moirae.evaluation import Guard, RuleEngines
from moirae.live import Relations, build_detection
from moirae.rules import Definition, Rule
from moirae.rules.checks import RuleAdmission
from moirae.rules.model import AlertSpec
from moirae.runtime import database
from recall.engines.routing import EngineChoice

_REPETITIONS = 5
START = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = to_micros(START + timedelta(days=30))
_HOST_COUNT = 100
WORKSPACE = """
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
# G11
_ROWS_PER_BATCH = 500
_ROWS_PER_SECOND = 500  # of event time
_BATCHES_PER_RUN = 24
_WARM_UP_BATCHES = 8  # of these
# G12
_ROWS_PER_BULK_BATCH = 100_000
_BULK_ROWS_PER_SECOND = 1_000  # of event time
_BULK_BATCHES = 6  # of which the first warms up

# The SQL of a rule, and its attributes with their types.
RuleSource = tuple[str, dict[str, str]]


def _filter_rule(i: int) -> RuleSource:
    """A filter. Rule 0 has events now and then; the others evaluate as much and have none."""
    threshold = 100 + i
    if i == 0:
        threshold = 90
    return (
        f"SELECT host, n, ts, cpu FROM cpu WHERE host = 'h{i % _HOST_COUNT}' AND cpu > {threshold}",
        {"host": "string", "n": "bigint", "cpu": "double"},
    )


def _window_rule(i: int) -> RuleSource:
    """A window. Rule 0 has events now and then; the others evaluate as much and have none."""
    threshold = 100 + i
    if i == 0:
        threshold = 70
    return (
        "SELECT host, window.end AS ts, avg(cpu) AS mean FROM cpu "
        f"GROUP BY host, window(ts, '10 seconds') HAVING avg(cpu) > {threshold}",
        {"host": "string", "mean": "double"},
    )


def rule_of_own_shape(i: int) -> RuleSource:
    """One of 20 rules, ten filters and ten windows, that differ in more than constants."""
    if i < 10:
        terms = " + ".join(["cpu"] * (i + 1))
        return (
            f"SELECT host, n, ts, {terms} AS x FROM cpu WHERE cpu > 99.9",
            {"host": "string", "n": "bigint", "x": "double"},
        )
    terms = " + ".join(["n"] * (i - 9))
    return (
        f"SELECT host, window.end AS ts, max({terms}) AS top FROM cpu "
        "GROUP BY host, window(ts, '10 seconds') HAVING avg(cpu) > 80",
        {"host": "string", "top": "bigint"},
    )


@dataclass(frozen=True)
class EvaluationSetup:
    """A number of rules, evaluated by the local engine where possible, or by Spark only."""

    name: str
    rule_count: int
    make_rule: Callable[[int], RuleSource]
    local_engine: bool = True

    def definitions(self) -> list[Definition]:
        """The rules, all different."""
        definitions = []
        for i in range(self.rule_count):
            expr, types = self.make_rule(i)
            spec = AlertSpec(alert=f"R{i}", expr=expr, keep_firing_for=timedelta(seconds=1))
            event_id = ("host",)
            if "n" in types:
                event_id = ("n",)
            definition = Definition(Rule("bench", spec), types, key=("host",), id=event_id)
            definitions.append(definition)
        return definitions


_G11_SETUPS = (
    EvaluationSetup("1 filter", 1, _filter_rule),
    EvaluationSetup("100 filters", 100, _filter_rule),
    EvaluationSetup("1000 filters", 1000, _filter_rule),
    EvaluationSetup("1 window", 1, _window_rule),
    EvaluationSetup("100 windows", 100, _window_rule),
    EvaluationSetup("1000 windows", 1000, _window_rule),
    EvaluationSetup("20 shapes", 20, rule_of_own_shape),
    EvaluationSetup("1 filter in Spark", 1, _filter_rule, local_engine=False),
    EvaluationSetup("1000 filters in Spark", 1000, _filter_rule, local_engine=False),
    EvaluationSetup("20 shapes in Spark", 20, rule_of_own_shape, local_engine=False),
)
_G12_SETUPS = (
    EvaluationSetup("without rules", 0, rule_of_own_shape),
    EvaluationSetup("20 rules", 20, rule_of_own_shape),
)


@dataclass(frozen=True)
class _Comparison:
    """The time of a batch with many rules ÷ with one. The first two are names of setups."""

    many: str
    single: str
    description: str
    target: str = "–"


_COMPARISONS = (
    _Comparison(
        "100 filters",
        "1 filter",
        "100 filters of one shape ÷ one filter: time of a batch of 500 rows",
        target="≤ 1.2",
    ),
    _Comparison(
        "1000 filters",
        "1 filter",
        "1000 filters of one shape ÷ one filter: time of a batch of 500 rows",
        target="≤ 1.2",
    ),
    _Comparison(
        "100 windows",
        "1 window",
        "100 windows of one shape ÷ one window: time of a batch of 500 rows",
        target="≤ 1.2",
    ),
    _Comparison(
        "1000 windows",
        "1 window",
        "1000 windows of one shape ÷ one window: time of a batch of 500 rows",
        target="≤ 1.2",
    ),
    _Comparison(
        "20 shapes",
        "1 filter",
        "20 rules of 20 shapes ÷ one filter: time of a batch of 500 rows",
    ),
    _Comparison(
        "1000 filters in Spark",
        "1 filter in Spark",
        "1000 filters of one shape ÷ one filter, all in Spark: time of a batch of 500 rows",
    ),
    _Comparison(
        "20 shapes in Spark",
        "1 filter in Spark",
        "20 rules of 20 shapes ÷ one filter, all in Spark: time of a batch of 500 rows",
    ),
)


def run() -> list[BenchmarkResult]:
    """Measure both goals; the workspaces of all setups are open at the same time."""
    noise: list[float] = []
    batch_seconds: defaultdict[str, list[float]] = defaultdict(list)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    with spark_session({}) as spark, ExitStack() as workspaces:
        ingest_by_setup: dict[EvaluationSetup, Callable[[SourceUnit], None]] = {}
        for setup in (*_G11_SETUPS, *_G12_SETUPS):
            ingest_by_setup[setup] = workspaces.enter_context(_live_workspace(spark, setup))
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            for setup in _G11_SETUPS:
                seconds = _time_batch(ingest_by_setup[setup], repetition)
                batch_seconds[setup.name].append(seconds)
                _print_progress(repetition, f"{setup.name} {seconds:.4f} s")
            for setup in _G12_SETUPS:
                rate = _rows_per_cpu_second(ingest_by_setup[setup], repetition)
                rates[setup.name].append(rate)
                _print_progress(repetition, f"{setup.name} {rate:.0f} rows/s per core")
    return _make_results(batch_seconds, rates, noise)


def _print_progress(repetition: int, text: str) -> None:
    print(f"{repetition + 1}/{_REPETITIONS} {text}", file=sys.stderr)


def _make_results(
    batch_seconds: Mapping[str, Sequence[float]],
    rates: Mapping[str, Sequence[float]],
    noise: Sequence[float],
) -> list[BenchmarkResult]:
    results = []
    for comparison in _COMPARISONS:
        many = batch_seconds[comparison.many]
        single = batch_seconds[comparison.single]
        result = make_result(
            "G11",
            comparison.description,
            [seconds / reference for seconds, reference in zip(many, single, strict=True)],
            target=comparison.target,
            details={
                "one_rule_s": rounded_median(single, 4),
                "many_rules_s": rounded_median(many, 4),
            },
            noise=noise,
        )
        results.append(result)
    throughput = make_result(
        "G12",
        "rows/s per core: decode, deduplicate, archive and evaluate 20 rules",
        rates["20 rules"],
        target="≥ 100,000",
        details={"without_rules": rounded_median(rates["without rules"], 0)},
        noise=noise,
    )
    return [*results, throughput]


def _time_batch(ingest: Callable[[SourceUnit], None], repetition: int) -> float:
    """The median seconds of a batch, from its lines to settled events."""
    first = repetition * _BATCHES_PER_RUN
    seconds = []
    for number in range(first, first + _BATCHES_PER_RUN):
        unit = _make_unit(number, _ROWS_PER_BATCH, _ROWS_PER_SECOND)
        seconds.append(measure_seconds(partial(ingest, unit)))
    return statistics.median(seconds[_WARM_UP_BATCHES:])


def _rows_per_cpu_second(ingest: Callable[[SourceUnit], None], repetition: int) -> float:
    """Rows per second of processor time, which this process and the JVM use together."""
    first = repetition * _BULK_BATCHES
    units = []
    for number in range(first, first + _BULK_BATCHES):
        units.append(_make_unit(number, _ROWS_PER_BULK_BATCH, _BULK_ROWS_PER_SECOND))
    ingest(units[0])
    cpu_seconds_before = _cpu_seconds()
    for unit in units[1:]:
        ingest(unit)
    cpu_seconds = _cpu_seconds() - cpu_seconds_before
    return _ROWS_PER_BULK_BATCH * (_BULK_BATCHES - 1) / cpu_seconds


def _cpu_seconds() -> float:
    """Processor time of this process and the JVM."""
    processes = [psutil.Process()]
    jvm = jvm_process()
    if jvm is not None:
        processes.append(psutil.Process(jvm.pid))
    seconds = 0.0
    for process in processes:
        times = process.cpu_times()
        seconds += times.user + times.system
    return seconds


def _make_unit(number: int, row_count: int, rows_per_second: int) -> SourceUnit:
    """The unit with a number, whose rows follow those of the unit before."""
    rng = random.Random(number)
    start = START + timedelta(seconds=number * row_count / rows_per_second)
    lines = []
    for i in range(row_count):
        row = {
            "ts": (start + timedelta(seconds=i / rows_per_second)).isoformat(),
            "host": f"h{rng.randrange(_HOST_COUNT)}",
            "n": number * row_count + i,
            "cpu": round(rng.uniform(0, 100), 2),
        }
        lines.append(json.dumps(row).encode())
    return SourceUnit("cpu", f"{number:06d}", format=JSONL, read=lambda: iter(lines))


@contextmanager
def _live_workspace(
    spark: SparkSession, setup: EvaluationSetup
) -> Iterator[Callable[[SourceUnit], None]]:
    """A new workspace with active rules; yields a function that ingests a unit as a batch.

    A batch is processed as in the live process.
    """
    with temporary_workspace(WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            RuleRegistry(connection).apply(setup.definitions())
            schemas = [stream_schema(name, stream) for name, stream in settings.streams.items()]
            archive = ArchiveWriter(
                root / "archive",
                schemas,
                policy=CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age)),
                connection=connection,
                fence=lambda: None,
            )
            session = spark.newSession()
            guard = Guard(session, settings, connection)
            detector, follow_up = build_detection(
                spark=session,
                archive=archive,
                connection=connection,
                relations=Relations(connection, settings.relations),
                admission=RuleAdmission(lambda: session, settings),
                guard=guard,
                engines=RuleEngines(EngineChoice("auto" if setup.local_engine else "spark")),
            )
            detector.reload(START)

            def ingest(unit: SourceUnit) -> None:
                detector.detect_and_settle(archive.ingest([unit], _NOW))
                follow_up.run()
                if guard.quarantined:
                    raise RuntimeError(f"rules in quarantine: {sorted(guard.quarantined)}")

            yield ingest
