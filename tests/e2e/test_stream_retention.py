"""`keep` of a stream: the files of its old rows are deleted, those of other streams stay, and answers
say which stream ended where.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
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
server: {listen: "127.0.0.1:0"}
"""
RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT ts, host, v FROM cpu WHERE v > 90
    key: [host]
    recall:
      own: {sql: SELECT count(*) AS n FROM cpu c WHERE c.host = event.host}
      other: {sql: SELECT count(*) AS n FROM net n WHERE n.host = event.host}
      late: {sql: SELECT count(*) AS n FROM cpu c WHERE c.host = event.host, range: 1h}
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
    """Of all data files of a stream that are on disk; files may be written or deleted meanwhile."""
    oldest = []
    for folder, _, names in os.walk(root / ".moirae" / "archive" / "streams" / stream):
        for name in names:
            if name.endswith(".parquet") and "_delta_log" not in folder:
                with suppress(FileNotFoundError, pa.ArrowInvalid):
                    rows = pq.read_table(Path(folder) / name, columns=["ts"], partitioning=None)
                    oldest.append(min(rows["ts"].to_pylist()))
    return min(oldest, default=START)


def test_files_of_a_stream_are_deleted_before_those_of_others() -> None:
    with workspace(WORKSPACE, RULES) as root:
        for stream in ("cpu", "net"):
            _write(root, stream, range(MINUTES))
        newest = START + timedelta(minutes=MINUTES - 1)
        with _running(root):
            wait_until(lambda: _oldest_row(root, "cpu") > newest - timedelta(hours=8), 400)
            assert _oldest_row(root, "net") == START
            _write(root, "cpu", range(MINUTES, MINUTES + 1), 99.0)
            with Commands(root) as commands:
                answers: dict[str, Any] = {}

                def is_answered() -> bool:
                    answers.update(_answers(commands))
                    return len(answers) == 3 and all(map(_is_final, answers.values()))

                wait_until(is_answered, 120)
                ended = answers["own"]["coverage"]["ended"]
                assert ended.keys() == {"cpu"}
                until = datetime.fromtimestamp(ended["cpu"] / 1e6, UTC)
                # The end of a chunk: of the last one whose rows are all older than 6 h.
                assert START + timedelta(hours=16) < until <= newest - timedelta(hours=6)
                kept = (newest - until) // timedelta(minutes=1) + 1  # all are before the event
                assert answers["own"]["rows"] == [{"n": kept}]
                assert "ended" not in answers["other"]["coverage"]
                assert answers["other"]["rows"] == [{"n": MINUTES}]
                assert "ended" not in answers["late"]["coverage"]
                (alert,) = commands.json("alerts", "list")
                shown = commands.output("recalls", "show", alert["id"])
                assert f"rows of cpu before {until:%Y-%m-%d %H:%M}Z expired" in shown
                assert "rows of net" not in shown


def _answers(commands: Commands) -> dict[str, Any]:
    """By recall, the last answer about the only event."""
    listed = commands.run("alerts", "list", "-o", "json").stdout
    alerts = json.loads(listed) if listed else []
    if not alerts:
        return {}
    return {
        answer["recall"]: answer for answer in commands.json("recalls", "show", alerts[0]["id"])
    }


def _is_final(answer: dict[str, Any]) -> bool:
    return answer["coverage"] is not None and answer["coverage"]["final"]
