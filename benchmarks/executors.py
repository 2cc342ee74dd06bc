"""S1 to S3 and S5: ingest and rules on executors, compared with the same work in the live process.

The archive writer and the detector of the live process run batch by batch over files, with 20 rules
and a database of their own, as in `benchmarks.rule_evaluation`. For S1 to S3 the executor is a
process of its own on one core, so that its processor time is known. Both sides decode line by line
for the goals; the rows without a target are the same with both sides decoding in blocks. Setups
alternate.
"""

import json
import pickle
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from archiver.chunks import CutPolicy
from archiver.executors import ExecutorIngest, SparkJobs
from archiver.executors.jobs import SparkParts
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import EnginePolicy
from archiver.spark import jvm_process, start_session
from archiver.times import duration_to_micros, to_micros
from benchmarks.fixtures import temporary_folder, temporary_workspace
from benchmarks.line_decoding import WORKER_CONF, decode_line_by_line
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.rule_evaluation import START, WORKSPACE, EvaluationSetup, rule_of_own_shape
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.config import load_settings_from_environment, stream_schema
from moirae.deployments import RuleRegistry
from moirae.evaluation import ExecutorRules, Guard, RuleEngines
from moirae.live import Relations, build_detection
from moirae.live.sources import files
from moirae.rules.checks import RuleAdmission
from moirae.runtime import database
from recall.engines.routing import EngineChoice
from recall.statements import WORKER_DAEMON

_REPETITIONS = 5
_NOW = to_micros(START + timedelta(days=300))
_SMALL_BATCH = 200_000  # rows
_LARGE_BATCH = 1_000_000  # rows
_ROWS_PER_SECOND = 1_000  # of event time
_HOST_COUNT = 100
_RULES = EvaluationSetup("20 rules", 20, rule_of_own_shape)
_STATEMENT_LIMIT = 60.0  # seconds

_Step = Callable[[SourceUnit], None]


@dataclass(frozen=True)
class _Cost:
    """Of one batch: processor time in seconds, wall-clock seconds, and bytes to and from tasks."""

    driver: float
    executors: float
    seconds: float
    bytes_moved: int

    @property
    def total(self) -> float:
        """Processor time of all processes."""
        return self.driver + self.executors


@dataclass(frozen=True)
class _Decoding:
    """How both sides decode."""

    context: Callable[[], AbstractContextManager[None]]
    worker_conf: Mapping[str, str]
    suffix: str
    has_targets: bool

    def target(self, text: str) -> str:
        """The target, if the goal is measured with this decoding."""
        return text if self.has_targets else "–"


_LINES = _Decoding(decode_line_by_line, WORKER_CONF, "", has_targets=True)
_BLOCKS = _Decoding(
    nullcontext, {"spark.python.daemon.module": WORKER_DAEMON}, ", decoding in blocks", False
)


def run() -> list[BenchmarkResult]:
    """Measure all goals."""
    results: list[BenchmarkResult] = []
    for decoding in (_LINES, _BLOCKS):
        with decoding.context():
            results += _measure_costs(decoding) + _measure_bulk_load(decoding)
    return results


def _measure_costs(decoding: _Decoding) -> list[BenchmarkResult]:
    noise: list[float] = []
    costs: defaultdict[str, list[_Cost]] = defaultdict(list)
    with (
        temporary_folder() as folder,
        _session("local-cluster[1,1,1024]", folder, decoding) as spark,
    ):
        jobs = MeteredJobs(spark.sparkContext)
        sources = _Sources(folder / "landing")
        with (
            _live_workspace(spark, "spark", jobs) as on_executors,
            _live_workspace(spark, "local", None) as in_process,
        ):
            _warm_up(sources, [on_executors, in_process])
            for repetition in range(_REPETITIONS):
                noise.append(time_noise_kernel())
                for name, rows, step, repeated in (
                    ("spark 200,000", _SMALL_BATCH, on_executors, 0.0),
                    ("spark repeated", _SMALL_BATCH, on_executors, 0.1),
                    ("spark 1,000,000", _LARGE_BATCH, on_executors, 0.0),
                    ("local 200,000", _SMALL_BATCH, in_process, 0.0),
                    ("local 1,000,000", _LARGE_BATCH, in_process, 0.0),
                ):
                    unit = sources.write(rows, repeated)
                    cost = _measure_cost(step, unit, jobs)
                    costs[name].append(cost)
                    _print_progress(repetition, name, cost, rows)
    return _make_cost_results(decoding, costs, noise)


def _make_cost_results(
    decoding: _Decoding, costs: Mapping[str, Sequence[_Cost]], noise: Sequence[float]
) -> list[BenchmarkResult]:
    small, large = costs["spark 200,000"], costs["spark 1,000,000"]
    local_small, local_large = costs["local 200,000"], costs["local 1,000,000"]
    results = [
        *_make_cpu_results("S1", _LARGE_BATCH, "≤ 0.10", decoding, large, local_large, noise),
        *_make_cpu_results("S1b", _SMALL_BATCH, "≤ 0.20", decoding, small, local_small, noise),
    ]
    repeated = costs["spark repeated"]
    results.append(
        make_result(
            "S2",
            "bytes of task results and sent to tasks per row, batches of 200,000 rows"
            + decoding.suffix,
            [cost.bytes_moved / _SMALL_BATCH for cost in small],
            target=decoding.target("≤ 16"),
            details={
                "repeated_10_percent": rounded_median(
                    [cost.bytes_moved / _SMALL_BATCH for cost in repeated], 2
                ),
                "batches_of_1000000": rounded_median(
                    [cost.bytes_moved / _LARGE_BATCH for cost in large], 2
                ),
            },
            noise=noise,
        )
    )
    results.append(
        make_result(
            "S3",
            f"rows/s per executor core ÷ in process, batches of 1,000,000 rows{decoding.suffix}",
            [a.seconds / b.seconds for a, b in zip(local_large, large, strict=True)],
            target=decoding.target("≥ 0.5"),
            details={
                "spark_rows_s": rounded_median([_LARGE_BATCH / cost.seconds for cost in large], 0),
                "local_rows_s": rounded_median(
                    [_LARGE_BATCH / cost.seconds for cost in local_large], 0
                ),
            },
            noise=noise,
        )
    )
    return results


def _make_cpu_results(
    goal: str,
    rows: int,
    target: str,
    decoding: _Decoding,
    spark: Sequence[_Cost],
    local: Sequence[_Cost],
    noise: Sequence[float],
) -> list[BenchmarkResult]:
    """`target`: of the driver's share."""
    conditions = f"with 20 rules, batches of {rows:,} rows{decoding.suffix}"
    return [
        make_result(
            goal,
            f"driver's CPU ÷ all CPU {conditions}",
            [cost.driver / cost.total for cost in spark],
            target=decoding.target(target),
            details={
                "driver_cpu_s": rounded_median([cost.driver for cost in spark], 3),
                "executor_cpu_s": rounded_median([cost.executors for cost in spark], 3),
                "in_process_cpu_s": rounded_median([cost.total for cost in local], 3),
            },
            noise=noise,
        ),
        make_result(
            goal,
            f"executors' CPU per row ÷ in process {conditions}",
            [a.executors / b.total for a, b in zip(spark, local, strict=True)],
            target=decoding.target("≤ 1.5"),
            details={
                "with_the_driver": rounded_median(
                    [a.total / b.total for a, b in zip(spark, local, strict=True)], 3
                ),
            },
            noise=noise,
        ),
    ]


def _measure_bulk_load(decoding: _Decoding) -> list[BenchmarkResult]:
    """S5: wall-clock time of the same batches with `auto` and `local` on two cores."""
    noise: list[float] = []
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with temporary_folder() as folder, _session("local[2]", folder, decoding) as spark:
        jobs = SparkJobs(spark.sparkContext)
        sources = _Sources(folder / "landing")
        with (
            _live_workspace(spark, "auto", jobs) as auto,
            _live_workspace(spark, "local", None) as local,
        ):
            _warm_up(sources, [auto, local])
            for repetition in range(_REPETITIONS):
                noise.append(time_noise_kernel())
                unit = sources.write(_LARGE_BATCH, 0.0)
                for name, step in (("auto", auto), ("local", local)):
                    seconds[name].append(measure_seconds(partial(step, unit)))
                    print(
                        f"{repetition + 1}/{_REPETITIONS} {name} {seconds[name][-1]:.2f} s",
                        file=sys.stderr,
                    )
    ratios = [local / auto for local, auto in zip(seconds["local"], seconds["auto"], strict=True)]
    return [
        make_result(
            "S5",
            f"bulk load on local[2] with 20 rules: rows/s with auto ÷ local{decoding.suffix}",
            ratios,
            target=decoding.target("≥ 1.5"),
            details={
                "auto_rows_s": rounded_median([_LARGE_BATCH / time for time in seconds["auto"]], 0),
                "local_rows_s": rounded_median(
                    [_LARGE_BATCH / time for time in seconds["local"]], 0
                ),
            },
            noise=noise,
        )
    ]


def _warm_up(sources: "_Sources", steps: Iterable[_Step]) -> None:
    for step in steps:
        for _ in range(2):
            step(sources.write(_SMALL_BATCH, 0.0))


def _measure_cost(step: _Step, unit: SourceUnit, jobs: "MeteredJobs") -> _Cost:
    driver, executors = _cpu_seconds()
    bytes_before = jobs.bytes_moved
    seconds = measure_seconds(partial(step, unit))
    driver_after, executors_after = _cpu_seconds()
    return _Cost(
        driver=driver_after - driver,
        # The time of idle workers that end meanwhile is lost: their parent does not wait for them.
        executors=max(0.0, executors_after - executors),
        seconds=seconds,
        bytes_moved=jobs.bytes_moved - bytes_before,
    )


def _cpu_seconds() -> tuple[float, float]:
    """Processor time of the driver (this process and its JVM), and of the JVM's descendants."""
    jvm = jvm_process()
    assert jvm is not None
    jvm_times = psutil.Process(jvm.pid)
    driver = _own_seconds(psutil.Process()) + _own_seconds(jvm_times)
    executors = 0.0
    for process in jvm_times.children(recursive=True):
        times = process.cpu_times()
        executors += times.user + times.system + times.children_user + times.children_system
    return driver, executors


def _own_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _print_progress(repetition: int, name: str, cost: _Cost, rows: int) -> None:
    print(
        f"{repetition + 1}/{_REPETITIONS} {name}: driver {cost.driver:.2f} s, "
        f"executors {cost.executors:.2f} s, {rows / cost.seconds:,.0f} rows/s, "
        f"{cost.bytes_moved / rows:.2f} bytes/row",
        file=sys.stderr,
    )


class _Sources:
    """Files of rows in order of time; each follows the one before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._row_count = 0
        self._file_count = 0

    def write(self, rows: int, repeated: float) -> SourceUnit:
        """A unit of so many rows, a share of which repeat earlier rows of it."""
        rng = random.Random(self._file_count)
        self._file_count += 1
        path = self._folder / f"{self._file_count:06d}.jsonl"
        with path.open("w") as file:
            for position in range(rows):
                number = self._row_count + position
                if position and rng.random() < repeated:
                    number -= rng.randrange(min(position, 1_000)) + 1
                file.write(_line(number))
        self._row_count += rows
        return files.make_unit("cpu", path.name, JSONL, path, path.stat().st_size)


def _line(number: int) -> str:
    """A row, the same for each use of its number."""
    ts = (START + timedelta(seconds=number / _ROWS_PER_SECOND)).isoformat()
    cpu = number * 7919 % 10_000 / 100
    return (
        json.dumps({"ts": ts, "host": f"h{number % _HOST_COUNT}", "n": number, "cpu": cpu}) + "\n"
    )


@contextmanager
def _session(master: str, folder: Path, decoding: _Decoding) -> Iterator[SparkSession]:
    conf = {"spark.executor.memory": "1g", **decoding.worker_conf}
    spark = start_session("benchmark", master, folder / "warehouse", conf)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _live_workspace(spark: SparkSession, engine: Any, jobs: SparkJobs | None) -> Iterator[_Step]:
    """A new workspace with 20 rules; yields a function that processes a unit as the live process."""
    with temporary_workspace(WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            RuleRegistry(connection).apply(_RULES.definitions())
            archive = ArchiveWriter(
                root / "archive",
                [stream_schema(name, stream) for name, stream in settings.streams.items()],
                policy=CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age)),
                connection=connection,
                fence=lambda: None,
            )
            archive.engines.policy = EnginePolicy(engine)
            if jobs is not None:
                archive.engines.executors = ExecutorIngest(jobs, archive.engines.sizes)
            detector, follow_up = build_detection(
                spark=spark.newSession(),
                archive=archive,
                connection=connection,
                relations=Relations(connection, settings.relations),
                admission=RuleAdmission(lambda: spark, settings),
                guard=Guard(spark, settings, connection),
                engines=RuleEngines(
                    EngineChoice("spark" if engine == "spark" else "auto"),
                    None if jobs is None else ExecutorRules(jobs, _STATEMENT_LIMIT),
                ),
            )
            detector.reload(START)

            def process(unit: SourceUnit) -> None:
                detector.detect_and_settle(archive.ingest([unit], _NOW))
                follow_up.run()

            yield process


class MeteredJobs(SparkJobs):
    """Counts the bytes that are sent to tasks and that tasks return."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.bytes_moved = 0

    def map(self, function: Any, items: Sequence[Any]) -> list[Any]:
        results = super().map(function, items)
        self.count(function, len(items), [*items, *results])
        return results

    def keep(self, function: Any, items: Sequence[Any]) -> SparkParts:
        self.count(function, len(items), items)
        parts = super().keep(function, items)
        return _MeteredParts(parts, self, len(items))  # type: ignore[return-value]

    def count(self, function: Any, tasks: int, values: Sequence[Any]) -> None:
        """Count a function that so many tasks get, and single values."""
        self.bytes_moved += len(cloudpickle.dumps(function)) * tasks  # type: ignore[no-untyped-call]
        self.bytes_moved += sum(len(pickle.dumps(value)) for value in values)


class _MeteredParts:
    def __init__(self, parts: SparkParts, jobs: MeteredJobs, tasks: int) -> None:
        self._parts = parts
        self._jobs = jobs
        self._tasks = tasks

    def map(self, function: Any) -> list[Any]:
        results = self._parts.map(function)
        self._jobs.count(function, self._tasks, results)
        return results

    def shuffle(self, split: Any, keys: Sequence[Any], combine: Any) -> list[Any]:
        results = self._parts.shuffle(split, keys, combine)
        self._jobs.count(split, self._tasks, [])
        self._jobs.count(combine, len(keys), results)
        return results

    def release(self) -> None:
        self._parts.release()
