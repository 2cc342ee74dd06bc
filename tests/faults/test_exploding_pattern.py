"""A rule with an exploding pattern among 591 good ones delays none of them; its losses are named."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from benchmarks.detection_stream import MARKER, DetectionStream
from benchmarks.live_latency import measure_p99, wait_until
from benchmarks.rule_checks import write_rule_files
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from sql.rules import LostVerdictGateway
from tests.sigma_collection import DetectionRule, require_collection, write_workspace

pytestmark = pytest.mark.faults

_EXPLODING = DetectionRule("Exploding", "CommandLine RLIKE '^(x+x+)+y(?!z)'", "low")
_CRAFTED_FILES = 40  # one file in so many has a row for which the pattern backtracks
_MARKED = f"detection0/{MARKER.name}"
_WARM_UP = 200  # alerts of marked rows, of which there are ten a second
_MEASURED = 60.0  # seconds
_TIMEOUT = 600.0  # seconds until the first rows are archived
_NOISE = 0.5  # seconds by which the p99 of a quiet minute may differ from another


class _CraftedRows:
    """Replaces command lines, once it is told to, and counts them."""

    def __init__(self) -> None:
        self.is_active = False
        self.count = 0
        self._files = 0

    def edit(self, rows: list[dict[str, Any]]) -> None:
        self._files += 1
        if self.is_active and self._files % _CRAFTED_FILES == 0:
            rows[-1]["CommandLine"] = "x" * 4_000 + str(self.count)
            self.count += 1


@pytest.mark.timeout(1_800)
def test_rule_with_an_exploding_pattern_delays_no_other_rule(public_folder: Path) -> None:
    collection = require_collection()
    write_workspace(public_folder, [], "limits: {lost: {share: 0.5, rows: 1000}}\n")
    write_rule_files(public_folder, [MARKER, _EXPLODING, *collection.rules[:590]])
    settings = load_settings_from_environment(public_folder / "moirae.yaml")
    crafted = _CraftedRows()
    stream = DetectionStream(public_folder / "landing", collection, crafted.edit)
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)]
    with (
        database.connect_database(settings, "test") as connection,
        (public_folder / "up.log").open("w") as log,
    ):
        up = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            stream.start()
            has_alerts = f"SELECT count(*) >= {_WARM_UP} FROM alerts WHERE rule = '{_MARKED}'"
            wait_until(connection, has_alerts, _TIMEOUT)
            before, during = _measure(connection, crafted)
            stream.stop()
            is_counted = f"SELECT count(*) >= {crafted.count} FROM lost_verdicts"
            wait_until(connection, is_counted, _TIMEOUT)
        finally:
            stream.stop()
            up.send_signal(signal.SIGTERM)
            up.wait(120)
        print(f"p99 {before:.3f} s, with crafted rows {during:.3f} s; {crafted.count} rows lost")
        (losses,) = LostVerdictGateway(connection).count_by_rule()
        assert (losses.rule, losses.rows) == ("detection0/Exploding", crafted.count)
        assert "needs more than" in losses.reason
        states = connection.execute("SELECT DISTINCT state FROM deployments").fetchall()
        assert states == [("running",)]
        assert during <= 2 * before + _NOISE


def _measure(connection: Connection[Any], crafted: _CraftedRows) -> tuple[float, float]:
    """The p99 of the marked rows without and with crafted rows."""
    before = measure_p99(connection, _MARKED, _MEASURED)
    crafted.is_active = True
    during = measure_p99(connection, _MARKED, _MEASURED)
    crafted.is_active = False
    assert crafted.count > 0
    return before, during
