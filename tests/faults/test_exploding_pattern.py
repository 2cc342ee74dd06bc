"""A rule with an exploding pattern among 591 good ones delays none of them; its losses are named."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.detection_stream import DetectionStream
from benchmarks.exploding_pattern import (
    SETTINGS,
    CraftedRows,
    await_live,
    await_losses,
    choose_rules,
    measure,
)
from benchmarks.rule_checks import write_rule_files
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from sql.rules import LostVerdictGateway
from tests.sigma_collection import require_collection, write_workspace

pytestmark = pytest.mark.faults

_MEASURED = 30.0  # seconds of a window; two with crafted rows, two without
_NOISE = 0.5  # seconds by which the p99 of a quiet minute may differ from another


@pytest.mark.timeout(1_800)
def test_rule_with_an_exploding_pattern_delays_no_other_rule(public_folder: Path) -> None:
    collection = require_collection()
    write_workspace(public_folder, [], SETTINGS)
    write_rule_files(public_folder, choose_rules(collection))
    settings = load_settings_from_environment(public_folder / "moirae.yaml")
    crafted = CraftedRows()
    stream = DetectionStream(public_folder / "landing", collection, crafted.edit)
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)]
    with (
        database.connect_database(settings, "test") as connection,
        (public_folder / "up.log").open("w") as log,
    ):
        up = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            await_live(connection)
            stream.start()
            p99 = measure(connection, crafted, pairs=2, seconds=_MEASURED).details
            stream.stop()
            await_losses(connection, crafted.count)
        finally:
            stream.stop()
            up.send_signal(signal.SIGTERM)
            up.wait(120)
        (losses,) = LostVerdictGateway(connection).count_by_rule()
        assert "needs more than" in losses.reason
        states = connection.execute("SELECT DISTINCT state FROM deployments").fetchall()
        assert states == [("running",)]
        assert p99["exploding_p99_s"] <= 2 * p99["plain_p99_s"] + _NOISE
