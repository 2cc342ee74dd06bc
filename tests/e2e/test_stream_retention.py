"""`keep` of a stream: its old rows end, in answers with a word about it, on disk and in the counts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.commands import Commands
from tests.faults.harness import workspace
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(900)]

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    keep: 6h
    source: {files: in/cpu/*.jsonl}
  net:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    source: {files: in/net/*.jsonl}
chunks: {rows: 200, age: 1h, recent: 2, keep: 90d}
recall: {query_timeout: 1s}
archive_history: 1s
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - alert: Busy
    expr: SELECT ts, host, v FROM net WHERE v > 90
    key: [host]
    recall:
      of_cpu: {sql: "SELECT count(*) AS n FROM cpu c WHERE c.host = event.host", range: 2d}
      of_net: {sql: "SELECT count(*) AS n FROM net h WHERE h.host = event.host", range: 2d}
"""
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = 24 * 60


def _write(root: Path, stream: str, minutes: range, value: float = 1.0) -> None:
    rows = [
        {"ts": (START + timedelta(minutes=minute)).isoformat(), "host": "a", "v": value}
        for minute in minutes
    ]
    folder = root / "in" / stream
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / ".part"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    part.rename(folder / f"{minutes.start:05d}.jsonl")


@contextmanager
def _running(root: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(root / "moirae.yaml")]
    with (root / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def _oldest_row(root: Path, stream: str) -> datetime:
    """Of all data files of a stream that are on disk; files may be deleted meanwhile."""
    oldest = []
    for folder, _, names in os.walk(root / ".moirae" / "archive" / "streams" / stream):
        for name in names:
            if name.endswith(".parquet") and "_delta_log" not in folder:
                with suppress(FileNotFoundError):
                    rows = pq.read_table(Path(folder) / name, columns=["ts"], partitioning=None)
                    oldest.append(min(rows["ts"].to_pylist()))
    return min(oldest)


def test_rows_of_a_stream_end_before_those_of_others() -> None:
    with workspace(WORKSPACE, RULES) as root, Commands(root) as commands:
        for stream in ("cpu", "net"):
            _write(root, stream, range(MINUTES))
        drained = commands.run("up", "--drain")
        assert drained.returncode == 0, drained.stderr
        newest = START + timedelta(minutes=MINUTES - 1)
        with _running(root):
            wait_until(lambda: _oldest_row(root, "cpu") > newest - timedelta(hours=8), 400)
            assert _oldest_row(root, "net") == START
            _write(root, "cpu", range(MINUTES, MINUTES + 1))
            _write(root, "net", range(MINUTES, MINUTES + 1), 99.0)
            wait_until(lambda: len(_answers(commands)) == 2, 60)
            answers = _answers(commands)
            count = commands.json("query", "SELECT count(*) AS n, min(ts) AS oldest FROM cpu")
            text = commands.output("query", "SELECT count(*) AS n FROM cpu")
        assert answers["of_net"]["answer"] == [{"n": MINUTES}]
        assert not answers["of_net"]["coverage"]["ended"]
        end = answers["of_cpu"]["coverage"]["ended"]["cpu"]
        kept = MINUTES - (datetime.fromtimestamp(end / 1e6, UTC) - START) // timedelta(minutes=1)
        assert 6 * 60 - 1 <= kept < 8 * 60
        assert answers["of_cpu"]["answer"] == [{"n": kept}]
        assert answers["of_cpu"]["coverage"]["partial"]
        assert count["rows"][0]["n"] == kept + 1
        assert count["coverage"]["ended"] == {"cpu": end}
        assert "rows of cpu before" in text
        status = commands.json("status")["streams"]
        assert status["net"]["deleted"] == 0
        assert status["cpu"]["deleted"] == MINUTES - kept
        assert status["cpu"]["accounting"]["archived"] == MINUTES + 1
        assert "0 problems" in commands.output("doctor")


def _answers(commands: Commands) -> dict[str, dict[str, object]]:
    """The final answers by recall."""
    exported = commands.exported("recalls")
    return {row["recall"]: row for row in exported if row["coverage"]["final"]}
