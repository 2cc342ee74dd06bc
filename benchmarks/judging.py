"""G11: what many rules of one shape cost beside one. G12: rows a second and core, archived, de-duplicated and judged.

Both drive the archive and the judge of the live process batch by batch, over a database and a Spark session of their
own, so that nothing but the work of a batch is measured. Runs of all set-ups are interleaved.
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

from archiver.chunk import CutPolicy
from archiver.engine.session import jvm, start_session
from archiver.ingest import Archive
from archiver.times import span, to_micros
from archiver.units import Unit
from benchmarks.results import Result, kernel, result
from moirae import database
from moirae.deployments.registry import Registry
from moirae.judging.guard import Guard
from moirae.live.judge import Judge
from moirae.live.relations import Relations
from moirae.live.schemas import schema
from moirae.rules.admission import Admission
from moirae.rules.definition import Definition
from moirae.rules.model import Alert
from moirae.rules.ruleset import Rule
from moirae.settings import from_environment

_REPETITIONS = 5
_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = to_micros(_START + timedelta(days=30))
_HOSTS = 100
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
_ROWS, _BATCHES, _WARM = 500, 24, 8
# G12: rows of a batch, at 1,000 a second of event time, and batches.
_BULK, _BULKS = 100_000, 6

Types = dict[str, str]


def _filter(i: int) -> tuple[str, Types]:
    """The first rule finds something now and then; the others look as hard and find nothing."""
    where = f"host = 'h{i % _HOSTS}' AND cpu > {90 if i == 0 else 100 + i}"
    return f"SELECT host, n, ts, cpu FROM cpu WHERE {where}", {"host": "string", "n": "bigint", "cpu": "double"}


def _window(i: int) -> tuple[str, Types]:
    text = "SELECT host, window.end AS ts, avg(cpu) AS mean FROM cpu GROUP BY host, window(ts, '10 seconds') "
    return f"{text}HAVING avg(cpu) > {70 if i == 0 else 100 + i}", {"host": "string", "mean": "double"}


def _shape(i: int) -> tuple[str, Types]:
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
class Setup:
    """Some rules, judged here or by Spark alone."""

    name: str
    rules: int
    make: Callable[[int], tuple[str, Types]]
    local: bool = True

    def definitions(self) -> list[Definition]:
        """Its rules; none of them is like another."""
        made = []
        for i in range(self.rules):
            expr, types = self.make(i)
            rule = Rule("bench", Alert(alert=f"R{i}", expr=expr, keep_firing_for=timedelta(seconds=1)))
            made.append(Definition(rule, types, ("host",), ("n",) if "n" in types else ("host",)))
        return made


_G11 = (
    Setup("filters: 1", 1, _filter),
    Setup("filters: 100", 100, _filter),
    Setup("filters: 1000", 1000, _filter),
    Setup("windows: 1", 1, _window),
    Setup("windows: 100", 100, _window),
    Setup("windows: 1000", 1000, _window),
    Setup("20 shapes", 20, _shape),
    Setup("filters: 1, by Spark", 1, _filter, local=False),
    Setup("filters: 1000, by Spark", 1000, _filter, local=False),
    Setup("20 shapes, by Spark", 20, _shape, local=False),
)
_G12 = (
    Setup("no rules", 0, _shape),
    Setup("20 rules", 20, _shape),
)


def run() -> list[Result]:
    """Measure both, interleaved: all set-ups stand side by side."""
    noise: list[float] = []
    batches: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    spark = start_session("benchmark", "local[2]", Path(tempfile.mkdtemp(prefix="moirae-bench-")), {})
    try:
        with ExitStack() as open_until_the_end:
            stages = {setup: open_until_the_end.enter_context(_stage(spark, setup)) for setup in (*_G11, *_G12)}
            for repetition in range(_REPETITIONS):
                noise.append(kernel())
                for setup in _G11:
                    batches.setdefault(setup.name, []).append(_batch_seconds(stages[setup], repetition))
                for setup in _G12:
                    rates.setdefault(setup.name, []).append(_rate(stages[setup], repetition))
                last = {name: round(values[-1], 4) for name, values in (batches | rates).items()}
                print(f"{repetition + 1}/{_REPETITIONS} {last}", file=sys.stderr)
    finally:
        spark.stop()
    return _rows(batches, rates, noise)


def _rows(batches: dict[str, list[float]], rates: dict[str, list[float]], noise: Sequence[float]) -> list[Result]:
    def ratio(many: str, one: str) -> list[float]:
        return [a / b for a, b in zip(batches[many], batches[one], strict=True)]

    def seconds(*names: str) -> dict[str, float]:
        return {f"{name}, s": round(statistics.median(batches[name]), 4) for name in names}

    rows = []
    for kind in ("filters", "windows"):
        for count in (100, 1000):
            many, one = f"{kind}: {count}", f"{kind}: 1"
            what = f"{count} rules of one shape ÷ one rule, {kind}: time of a batch of 500 rows"
            rows.append(result("G11", what, ratio(many, one), "≤ 1.2", seconds(one, many), noise))
    what = "20 rules of 20 shapes ÷ one rule: time of a batch"
    rows.append(result("G11", what, ratio("20 shapes", "filters: 1"), "–", seconds("20 shapes"), noise))
    for many in ("filters: 1000, by Spark", "20 shapes, by Spark"):
        what = f"{many} ÷ one rule by Spark: time of a batch"
        one = "filters: 1, by Spark"
        rows.append(result("G11", what, ratio(many, one), "–", seconds(one, many), noise))
    beside = {name: round(statistics.median(values), 0) for name, values in rates.items() if name != "20 rules"}
    what = "rows/s/core, ingest to archived, de-duplicated and judged by 20 rules"
    return [*rows, result("G12", what, rates["20 rules"], "≥ 100,000", beside, noise)]


def _batch_seconds(take: Callable[[Unit], None], repetition: int) -> float:
    """Median seconds of a batch: archive, detect, settle; the first ones warm up."""
    seconds = []
    for number in range(repetition * _BATCHES, (repetition + 1) * _BATCHES):
        unit = _unit(number, _ROWS, 500)
        began = time.perf_counter()
        take(unit)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[_WARM:])


def _rate(take: Callable[[Unit], None], repetition: int) -> float:
    """Rows per second of processor time, of this process and the JVM together; the first batch warms up."""
    units = [_unit(repetition * _BULKS + number, _BULK, 1000) for number in range(_BULKS)]
    take(units[0])
    began = _processor()
    for unit in units[1:]:
        take(unit)
    return _BULK * (_BULKS - 1) / (_processor() - began)


def _processor() -> float:
    process = jvm()
    times = [psutil.Process().cpu_times()] + ([psutil.Process(process.pid).cpu_times()] if process else [])
    return float(sum(one.user + one.system for one in times))


def _unit(number: int, rows: int, rate: int) -> Unit:
    rng = random.Random(number)
    start = _START + timedelta(seconds=number * rows / rate)
    lines = [
        json.dumps(
            {
                "ts": (start + timedelta(seconds=i / rate)).isoformat(),
                "host": f"h{rng.randrange(_HOSTS)}",
                "n": number * rows + i,
                "cpu": round(rng.uniform(0, 100), 2),
            }
        ).encode()
        for i in range(rows)
    ]
    return Unit("cpu", f"{number:06d}", "jsonl", lambda: iter(lines))


@contextmanager
def _stage(spark: SparkSession, setup: Setup) -> Iterator[Callable[[Unit], None]]:
    """A fresh workspace whose rules run; yields what takes a batch, as the live process does."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)
    try:
        (root / "moirae.yaml").write_text(_WORKSPACE)
        settings = from_environment(root / "moirae.yaml")
        with database.connect(settings, "benchmark") as connection:
            Registry(connection).apply(setup.definitions())
            schemas = [schema(name, declared) for name, declared in settings.streams.items()]
            policy = CutPolicy(settings.chunks.rows, span(settings.chunks.age))
            archive = Archive(root / "archive", schemas, policy, connection, lambda: None)
            relations = Relations(connection, settings.relations)
            admission, guard = Admission(spark, settings), Guard(spark, settings, connection)
            judge = Judge(spark.newSession(), archive, connection, relations, admission, guard, setup.local)
            judge.reload(_START)

            def take(unit: Unit) -> None:
                left = judge.detect(archive.ingest([unit], _NOW).on_time)
                judge.settle(at_once=left)
                judge.follow()

            yield take
    finally:
        shutil.rmtree(root, ignore_errors=True)
