"""RS6: live p99 of a rule while another rule's pattern explodes ÷ without, among 592 rules.

At 500 rows per second, one file in 40 has a row for which the pattern of one rule needs too many
steps. Windows with and without such rows alternate in one run. Each of these rows must be counted
and named as lost.
"""

import statistics
import sys
from collections.abc import Callable
from typing import Any

from psycopg import Connection

from benchmarks.detection_stream import MARKER, DetectionStream
from benchmarks.fixtures import moirae_up, temporary_folder
from benchmarks.live_latency import measure_p99, wait_until
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.rule_checks import write_rule_files
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from sql.rules import LostVerdictGateway
from tests.sigma_collection import (
    Collection,
    DetectionRule,
    find_folder,
    read_collection,
    write_workspace,
)

EXPLODING = DetectionRule("Exploding", "CommandLine RLIKE '^(x+x+)+y(?!z)'", "low")
SETTINGS = "limits: {lost: {share: 0.5, rows: 1000}}\n"
"""The rule stays in use, whatever it loses."""

_GOOD_RULES = 590
_CRAFTED_FILES = 40  # one file in so many has a row for which the pattern backtracks
_LENGTH = 4_000  # characters of its command line
_PAIRS = 4  # windows with crafted rows, and as many without
_SECONDS = 20.0  # of a window
_WARM_UP_ALERTS = 200  # of marked rows, of which there are ten a second
_TIMEOUT = 600.0  # seconds
_MARKED = f"detection0/{MARKER.name}"


class CraftedRows:
    """Replaces command lines while it is active, and counts them."""

    def __init__(self) -> None:
        self.is_active = False
        self.count = 0
        self._files = 0

    def edit(self, rows: list[dict[str, Any]]) -> None:
        """Replace that of the last row of some files."""
        self._files += 1
        if self.is_active and self._files % _CRAFTED_FILES == 0:
            rows[-1]["CommandLine"] = "x" * _LENGTH + str(self.count)
            self.count += 1


def choose_rules(collection: Collection) -> list[DetectionRule]:
    """The marker, the rule with the pattern, and rules of the collection."""
    return [MARKER, EXPLODING, *collection.rules[:_GOOD_RULES]]


def await_live(connection: Connection[Any]) -> None:
    """Wait until the live process reads: rows that wait for its start would be late."""
    runs = "SELECT EXISTS (SELECT FROM processes WHERE role = 'live' AND state LIKE 'running%')"
    wait_until(connection, runs, _TIMEOUT)


def await_losses(connection: Connection[Any], count: int) -> None:
    """Wait until so many rows are lost; raises where others are."""
    wait_until(connection, f"SELECT count(*) >= {count} FROM lost_verdicts", _TIMEOUT)
    (losses,) = LostVerdictGateway(connection).count_by_rule()
    assert (losses.rule, losses.rows) == (f"detection0/{EXPLODING.name}", count), losses


def run() -> list[BenchmarkResult]:
    """RS6; nothing where this machine has no detection rules."""
    folder = find_folder()
    if folder is None:
        print("RS6: shared/data/sigma is not on this machine", file=sys.stderr)
        return []
    collection = read_collection(folder)
    crafted = CraftedRows()
    with temporary_folder() as root:
        root.chmod(0o755)  # PostgreSQL may run as another user
        write_workspace(root, [], SETTINGS)
        write_rule_files(root, choose_rules(collection))
        settings = load_settings_from_environment(root / "moirae.yaml")
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "up.log"),
        ):
            await_live(connection)
            stream = DetectionStream(root / "landing", collection, crafted.edit)
            stream.start()
            try:
                result = measure(connection, crafted, _PAIRS, _SECONDS)
            finally:
                stream.stop()
            await_losses(connection, crafted.count)
    return [result]


def measure(
    connection: Connection[Any], crafted: CraftedRows, pairs: int, seconds: float
) -> BenchmarkResult:
    """Windows without and with crafted rows, in turns."""
    has_alerts = f"SELECT count(*) >= {_WARM_UP_ALERTS} FROM alerts WHERE rule = '{_MARKED}'"
    wait_until(connection, has_alerts, _TIMEOUT)
    plain: list[float] = []
    exploding: list[float] = []
    noise: list[float] = []
    for number in range(pairs):
        noise.append(time_noise_kernel())
        windows: list[tuple[bool, Callable[[float], None]]] = [
            (False, plain.append),
            (True, exploding.append),
        ]
        for is_active, add in windows if number % 2 == 0 else reversed(windows):
            crafted.is_active = is_active
            add(measure_p99(connection, _MARKED, seconds))
    crafted.is_active = False
    assert crafted.count > 0
    details = {
        "plain_p99_s": rounded_median(plain, 3),
        "exploding_p99_s": rounded_median(exploding, 3),
        "plain_range": round(max(plain) / min(plain), 3),
        "lost_rows": crafted.count,
    }
    ratios = [during / statistics.median(plain) for during in exploding]
    return make_result(
        "RS6",
        f"live p99 among {_GOOD_RULES + 2} rules with rows for which a pattern explodes ÷ without",
        ratios,
        target="≤ 1.1",
        details=details,
        noise=noise,
    )
