"""RS3: live latency at 500 rows per second with 1,200 different rules ÷ with 20 of them.

The latency is that of one more rule, from the time of a row to its alert; the rows match no other.
Also the cores that the Python process of the live role uses with all rules. Setups alternate.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psutil
from psycopg import Connection

from benchmarks.detection_stream import MARKER, DetectionStream
from benchmarks.fixtures import moirae_up, temporary_folder
from benchmarks.live_latency import measure_p99, wait_until
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.rule_checks import make_many_rules, write_rule_files
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from tests.sigma_collection import (
    Collection,
    DetectionRule,
    find_folder,
    read_collection,
    write_workspace,
)

_REPETITIONS = 2
_FEW_RULES = 20
_WARM_UP_SECONDS = 20.0
_MEASURED_SECONDS = 30.0
_START_TIMEOUT = 300.0  # seconds


class _Sample(NamedTuple):
    """`p99`: seconds from a row to its alert. `cores`: of the live Python process."""

    p99: float
    cores: float


def run() -> list[BenchmarkResult]:
    """RS3; nothing where this machine has no detection rules."""
    folder = find_folder()
    if folder is None:
        print("RS3: shared/data/sigma is not on this machine", file=sys.stderr)
        return []
    collection = read_collection(folder)
    many_rules = list(make_many_rules(collection.rules))
    few_rules = many_rules[:: len(many_rules) // _FEW_RULES][:_FEW_RULES]
    few, many, noise = [], [], []
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        few.append(_measure(few_rules, collection))
        many.append(_measure(many_rules, collection))
    ratios = [a.p99 / b.p99 for a, b in zip(many, few, strict=True)]
    cores = [sample.cores for sample in many]
    details = {
        "many_p99_s": rounded_median([sample.p99 for sample in many], 3),
        "few_p99_s": rounded_median([sample.p99 for sample in few], 3),
    }
    description = f"live p99 with {len(many_rules):,} different rules ÷ with {_FEW_RULES}"
    return [
        make_result("RS3", description, ratios, target="≤ 1.5", details=details, noise=noise),
        make_result("RS3", "cores of the live Python process", cores, target="≤ 0.5", noise=noise),
    ]


def _measure(rules: Sequence[DetectionRule], collection: Collection) -> _Sample:
    with temporary_folder() as root:
        root.chmod(0o755)  # PostgreSQL may run as another user
        write_workspace(root, [])
        write_rule_files(root, [MARKER, *rules])
        settings = load_settings_from_environment(root / "moirae.yaml")
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "up.log"),
        ):
            stream = DetectionStream(root / "landing", collection)
            stream.start()
            try:
                sample = _measure_stream(connection)
            finally:
                stream.stop()
    print(
        f"RS3 {len(rules)} rules: p99 {sample.p99:.3f} s, {sample.cores:.2f} cores", file=sys.stderr
    )
    return sample


def _measure_stream(connection: Connection[Any]) -> _Sample:
    wait_until(connection, "SELECT count(*) >= 1 FROM units WHERE done", _START_TIMEOUT)
    time.sleep(_WARM_UP_SECONDS)
    row = connection.execute("SELECT pid FROM processes WHERE role = 'live'").fetchone()
    assert row is not None
    process = psutil.Process(row[0])
    started_at, before = time.monotonic(), sum(process.cpu_times()[:2])
    p99 = measure_p99(connection, f"detection0/{MARKER.name}", _MEASURED_SECONDS)
    cores = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - started_at)
    return _Sample(p99, cores)
