"""The processes of `moirae up`: one instance at a time, stopped by a signal, restarted after a
crash.
"""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.faults.harness import Stage, ended, stage


def test_second_instance_refuses_to_start_and_sigterm_stops_the_first() -> None:
    with stage(seed=3, rate=100) as system:
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 0, 90)
        system.wait(lambda: system.log.read_text().count("workspace is running") == 1, 20)
        second = subprocess.run(
            [sys.executable, "-m", "moirae", "up", "--workspace", str(system.root / "moirae.yaml")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1
        assert "`moirae up` already runs in this workspace: stop it first" in second.stderr
        live, jvm = system.live(), system.jvm()
        assert live is not None
        assert jvm is not None
        system.producer.stop()
        assert system.down() < 30
        assert ended(live)
        assert ended(jvm)


def test_live_process_exits_with_its_supervisor() -> None:
    with stage(seed=4, rate=100) as system:
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 0, 90)
        live = system.live()
        assert live is not None
        assert system._up is not None
        system._up.send_signal(signal.SIGKILL)
        system._up.wait()
        deadline = time.monotonic() + 40
        while not ended(live) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert ended(live)


@pytest.mark.parametrize("rows", [50])
def test_rows_older_than_a_drained_stream_are_late(rows: int) -> None:
    with stage(seed=5) as system:
        system.producer.landing.mkdir(parents=True)
        first = [_row(f"2026-01-01T00:00:{i % 60:02d}Z", i) for i in range(rows)]
        (system.producer.landing / "a.jsonl").write_text("".join(first))
        system.drain()
        (system.producer.landing / "b.jsonl").write_text(
            _row("2026-01-01T00:00:50Z", 1000) + _row("2026-01-02T00:00:00Z", 1001)
        )
        system.drain()
        late_counts = system.connection.execute(
            "SELECT sum(archived)::int, sum(late)::int FROM units"
        ).fetchone()
        assert late_counts == (rows + 2, 1)


def _row(ts: str, n: int) -> str:
    return json.dumps({"ts": ts, "host": "h1", "n": n, "cpu": 50.0}) + "\n"


def test_lost_checkpoint_loses_and_repeats_no_row() -> None:
    with stage(seed=6) as system:
        system.producer.landing.mkdir(parents=True)
        rows = [
            _row(f"2026-01-01T00:00:{i % 60:02d}Z", i).replace("50.0", str(i * 2.0))
            for i in range(50)
        ]
        (system.producer.landing / "a.jsonl").write_text("".join(rows))
        system.drain()
        before = _state(system)
        shutil.rmtree(system.root / ".moirae" / "checkpoints")
        system.drain()
        assert _state(system) == before
        assert before[0] == [(50, 50, 0)]
        assert len(before[1]) > 0


def _state(system: Stage) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    counts = system.connection.execute("SELECT read, archived, duplicates FROM units").fetchall()
    events = system.connection.execute(
        "SELECT rule, eid, ts, settled FROM events ORDER BY rule, eid"
    ).fetchall()
    return counts, events
