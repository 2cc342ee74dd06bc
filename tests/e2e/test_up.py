"""The processes of `moirae up`: one instance at a time, restarted after a crash, stopped by a signal
or with their parent, and given changed rules while they run.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from moirae.deployments.registry import RuleRegistry
from sql.rules import RuleFileGateway, RuleGateway
from tests.commands import Commands
from tests.faults.harness import RULES, Stage, ended, kill, stage
from tests.faults.reloading import EXTRA, wait_for_extra

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    """A workspace under load. Each test leaves it running, but for the last one."""
    with stage(SEED, rate=100) as system:
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 0, 250)
        yield system


@pytest.mark.slow
def test_live_process_exits_with_its_supervisor(running: Stage) -> None:
    live, jvm = running.live(), running.jvm()
    assert live is not None
    assert jvm is not None
    assert running._up is not None
    running._up.send_signal(signal.SIGKILL)
    running._up.wait()
    running.wait(lambda: ended(live) and ended(jvm), 40)
    running.log.unlink()
    before = running.archived_units()
    running.up()
    running.wait(lambda: running.archived_units() > before, 250)


@pytest.mark.slow
def test_second_instance_refuses_to_start(running: Stage) -> None:
    running.wait(lambda: running.log.read_text().count("workspace is running") == 1, 20)
    second = subprocess.run(
        [sys.executable, "-m", "moirae", "up", "--workspace", str(running.root / "moirae.yaml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert "`moirae up` is already running in this workspace: stop it first" in second.stderr


@pytest.mark.slow
def test_changed_rule_files_are_applied_and_invalid_ones_rejected(running: Stage) -> None:
    rules = running.root / "rules.yaml"
    rule_files = RuleFileGateway(running.connection)
    rules.write_text(RULES + EXTRA.format(version=1, limit=50))
    wait_for_extra(running, "1")
    revision = RuleGateway(running.connection).revision()
    rules.write_text(RULES + EXTRA.format(version=2, limit="nothing"))
    running.wait(lambda: bool(rule_files.get_state().problems), 250)
    assert RuleGateway(running.connection).revision() == revision
    with Commands(running.root) as commands:
        shown = commands.run("status")
        assert shown.returncode == 1
        assert "rules.yaml:" in shown.stdout + shown.stderr
        assert json.loads(commands.run("status", "-o", "json").stdout)["rule_files"]["problems"]
        served = rule_files.get_state().last_served
        assert running._up is not None
        running._up.send_signal(signal.SIGHUP)
        running.wait(lambda: rule_files.get_state().last_served > served, 250)
        problems = RuleRegistry(running.connection).reload_problems(served + 1)
        assert problems == rule_files.get_state().problems
        rules.write_text(RULES)
        wait_for_extra(running, None)
        assert not json.loads(commands.run("status", "-o", "json").stdout)["rule_files"]["problems"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["live", "jvm"])
def test_killed_process_is_restarted(running: Stage, name: str) -> None:
    """More often in `tests/faults/test_kill_live.py`."""
    find_victim = {"live": running.live, "jvm": running.jvm}[name]
    time.sleep(random.Random(SEED).uniform(0, 1))
    killed = running.live()
    assert killed is not None
    running.wait(lambda: kill(find_victim()), 240)
    running.wait(lambda: running.live() not in (None, killed), 240)
    before = running.archived_units()
    running.wait(lambda: running.archived_units() > before, 250)


@pytest.mark.slow
def test_sigterm_stops_all_processes_and_no_row_was_lost(running: Stage) -> None:
    live, jvm = running.live(), running.jvm()
    assert live is not None
    assert jvm is not None
    running.producer.stop()
    assert running.down() < 30
    assert ended(live)
    assert ended(jvm)
    running.drain()
    running.check(besides=("load/Extra",))


@pytest.mark.slow
def test_lost_checkpoint_repeats_no_row_and_rows_older_than_a_drained_stream_are_late() -> None:
    with stage(seed=6) as system:
        system.producer.landing.mkdir(parents=True)
        rows = [_row(f"2026-01-01T00:00:{n:02d}Z", n, cpu=2.0 * n) for n in range(50)]
        (system.producer.landing / "a.jsonl").write_text("".join(rows))
        system.drain()
        assert _counts(system) == [(50, 50, 0, 0)]
        events = _events(system)
        assert len(events) > 0
        shutil.rmtree(system.root / ".moirae" / "checkpoints")
        late, on_time = _row("2026-01-01T00:00:50Z", 1000), _row("2026-01-02T00:00:00Z", 1001)
        (system.producer.landing / "b.jsonl").write_text(late + on_time)
        system.drain()
        assert _counts(system) == [(50, 50, 0, 0), (2, 2, 0, 1)]
        assert _events(system) == events


def _row(ts: str, n: int, cpu: float = 50.0) -> str:
    return json.dumps({"ts": ts, "host": "h1", "n": n, "cpu": cpu}) + "\n"


def _counts(system: Stage) -> list[tuple[object, ...]]:
    query = "SELECT read, archived, duplicates, late FROM units ORDER BY unit"
    return system.connection.execute(query).fetchall()


def _events(system: Stage) -> list[tuple[object, ...]]:
    query = "SELECT rule, eid, ts, settled FROM events ORDER BY rule, eid"
    return system.connection.execute(query).fetchall()
