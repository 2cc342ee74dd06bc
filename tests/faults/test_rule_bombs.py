"""Rules that only the end of the process can stop are identified and quarantined; other rules miss
no row.
"""

import json
import subprocess
import sys
import time

import pytest

from tests.faults.harness import RULES, WORKSPACE, Stage, stage

BACKTRACKS = "RLIKE '(.*)(.*)(.*)(.*)(.*)(.*)[^a]b$'"
BOMBS = {
    # Evaluated for each row, in a task that looks at nothing else; and while the plan is made, in
    # no task at all.
    "regular expression": f"SELECT host, n, ts FROM cpu WHERE repeat('a', 80 + CAST(n % 2 AS INT)) {BACKTRACKS}",
    "in the planner": f"SELECT host, n, ts FROM cpu WHERE repeat('a', 80) {BACKTRACKS}",
    "memory": "SELECT host, n, ts FROM cpu WHERE size(sequence(1, n + 200000000)) < 0",
    "three times all numbers": "SELECT host, n, ts FROM cpu WHERE exists(sequence(1, 20000), x -> "
    "exists(sequence(1, 20000), y -> exists(sequence(1, 20000), z -> x * y + z = -n)))",
}

pytestmark = pytest.mark.faults


def _state(system: Stage) -> str:
    row = system.connection.execute(
        "SELECT state FROM deployments WHERE rule = 'load/Bomb'"
    ).fetchone()
    return "not started" if row is None else str(row[0])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_rule_that_crashes_the_process_is_quarantined_without_loss(bomb: str, engine: str) -> None:
    """With executors, a task may end that the rule is evaluated in, but no other rule."""
    with stage(seed=11, rate=200, engine=engine) as system:
        settings = f"{WORKSPACE}engine: {engine}\nlimits: {{statement: 8s}}\n"
        (system.root / "moirae.yaml").write_text(settings)
        rule = (
            f"  - alert: Bomb\n    expr: {json.dumps(BOMBS[bomb])}\n    key: [host]\n    id: [n]\n"
        )
        (system.root / "rules.yaml").write_text(RULES + rule)
        system.up()
        began = time.monotonic()
        system.producer.start()
        system.wait(lambda: _state(system) == "quarantined", 900)
        took = time.monotonic() - began
        print(f"{bomb}, {engine}: quarantined after {took:.0f} s, start included", flush=True)
        before = system.archived_units()
        system.wait(lambda: system.archived_units() > before + 30, 400)
        status = subprocess.run(
            [
                sys.executable,
                "-m",
                "moirae",
                "status",
                "--workspace",
                str(system.root / "moirae.yaml"),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        system.producer.stop()
        assert system.down() < 60
        assert status.returncode == 1
        assert "rules in quarantine: load/Bomb" in status.stdout
        states = dict(
            system.connection.execute(
                "SELECT rule, state FROM deployments WHERE state <> 'stopped'"
            ).fetchall()
        )
        assert states == {
            "load/High": "running",
            "load/Mean": "running",
            "load/Bomb": "quarantined",
        }
        kinds = system.connection.execute(
            "SELECT DISTINCT kind FROM rule_errors WHERE rule = 'load/Bomb'"
        ).fetchall()
        assert kinds == [("memory",) if bomb == "memory" else ("time",)]
        system.drain()
        figures = system.check()
        print(figures)
        assert figures["events"] > 0
