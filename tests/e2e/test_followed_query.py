"""`moirae query --follow` beside a running `moirae up`: history, then live rows, each row once."""

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.commands import Commands
from tests.faults.harness import Stage, stage

pytestmark = pytest.mark.slow


def _follow(system: Stage, text: str, changes: int) -> list[dict[str, Any]]:
    """What a query prints up to a number of changes after history. Then Ctrl-C ends it."""
    command = [sys.executable, "-m", "moirae", "query", text, "--follow", "--limit", "10000"]
    process = subprocess.Popen(
        [*command, "-o", "json", "--workspace", str(system.root / "moirae.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(changes + 1)]
        process.send_signal(signal.SIGINT)
        interrupted_at = time.monotonic()
        rest, errors = process.communicate(timeout=60)
        assert time.monotonic() - interrupted_at < 15
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (130, "")
    return lines + [json.loads(line) for line in rest.splitlines()]


def test_rows_and_aggregates_follow_history() -> None:
    with stage(1, rate=20) as system:
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 20, 250)
        history, *live = _follow(system, "SELECT n FROM cpu", 5)
        numbers = [row["n"] for row in history["rows"]]
        for change in live:
            assert change["appended"]
            numbers += [row["n"] for row in change["appended"]]
        # Files are archived whole and in order.
        last_file = max(numbers) // 10_000
        written = [row["n"] for row in system.producer.rows if row["n"] // 10_000 <= last_file]
        assert sorted(numbers) == written
        revisions = _follow(system, "SELECT count(*) AS n, count(DISTINCT n) AS m FROM cpu", 3)
        counts = [revision["rows"][0]["n"] for revision in revisions]
        assert counts == sorted(set(counts))
        assert counts[0] >= len(numbers)
        with Commands(system.root) as commands:
            recalls = json.loads(
                commands.run("recalls", "list", "--rule", "query", "-o", "json").stdout
            )
        assert [recall["state"] for recall in recalls] == ["cancelled"] * 2
