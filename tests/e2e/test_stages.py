"""Stages from a rule file to an export: the paper's figures 2 and 10 through the real system.

A node is overloaded. Its rule recalls how much each process of the lightly loaded nodes has used in
the past, keeps nodes whose processes are all light, and joins the time of their last ping.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

START = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.slow

WORKSPACE = """
home: .moirae
streams:
  load:
    columns: {ts: timestamp, node: string, cpu: double}
    time: ts
    key: [node]
    source: {files: landing/load/*.jsonl}
  usage:
    columns: {ts: timestamp, node: string, process: string, cpu: double}
    time: ts
    key: [node]
    source: {files: landing/usage/*.jsonl}
  ping:
    columns: {ts: timestamp, node: string, rtt: double}
    time: ts
    key: [node]
    source: {files: landing/ping/*.jsonl}
chunks: {rows: 400, age: 1h}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - alert: Overloaded
    expr: SELECT node, ts, cpu FROM load WHERE cpu > 90
    key: [node]
    context:
      light: {sql: SELECT node FROM load WHERE cpu < 30, within: 1m}
    recall:
      past:
        sql: |
          SELECT u.node AS node, u.process AS process, avg(u.cpu) AS mean FROM usage u
          GROUP BY u.node, u.process
      norm:
        sql: SELECT avg(h.cpu) AS mean FROM load h WHERE h.node = event.node
    where: event.cpu > 2 * norm.mean
    then:
    - stream: heaviest
      sql: |
        SELECT p.node AS candidate, max(p.mean) AS mean FROM past p
        JOIN light l ON l.node = p.node GROUP BY p.node
    - stream: candidates
      sql: SELECT h.candidate FROM heaviest h WHERE h.mean < 10
    - stream: targets
      sql: |
        SELECT c.candidate, max_by(p.rtt, p.ts) AS rtt FROM candidates c
        JOIN ping p ON p.node = c.candidate GROUP BY c.candidate
      within: 1m
      delay: 30s
      analysis: present
"""
# Their processes use this much in the past: those of n3 only long ago, those of n4 only recently.
PAST_USAGE = {"n2": (2.0, 2.0), "n3": (40.0, 2.0), "n4": (1.0, 15.0)}
MINUTES = 120


def _moirae(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def _streams() -> dict[str, list[dict[str, Any]]]:
    load, usage, ping = [], [], []
    for minute in range(MINUTES):
        for node in ("n1", "n2", "n3", "n4"):
            cpu = 95.0 if (node, minute) == ("n1", MINUTES - 10) else 20.0
            load.append({"ts": _at(minute), "node": node, "cpu": cpu})
            ping.append({"ts": _at(minute), "node": node, "rtt": float(minute)})
            if node in PAST_USAGE:
                old, recent = PAST_USAGE[node]
                value = old if minute < MINUTES - 30 else recent
                usage.append({"ts": _at(minute), "node": node, "process": "p", "cpu": value})
    return {"load": load, "usage": usage, "ping": ping}


@pytest.fixture(scope="module")
def drained() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-stages-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE)
    (root / "rules.yaml").write_text(RULES)
    for name, rows in _streams().items():
        folder = root / "landing" / name
        folder.mkdir(parents=True)
        (folder / "day.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _moirae(root, "up", "--drain")
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def exported(drained: Path) -> dict[str, dict[str, Any]]:
    lines = _moirae(drained, "export", "recalls").splitlines()
    return {line["recall"]: line for line in map(json.loads, lines)}


def test_stages_lead_to_the_light_nodes_with_their_last_ping(
    exported: dict[str, dict[str, Any]],
) -> None:
    assert exported["heaviest"]["state"] == "done"
    means = {row["candidate"]: row["mean"] for row in exported["heaviest"]["answer"]}
    assert means.keys() == {"n2", "n3", "n4"}
    assert exported["candidates"]["answer"] == [{"candidate": "n2"}, {"candidate": "n4"}] or (
        exported["candidates"]["answer"] == [{"candidate": "n4"}, {"candidate": "n2"}]
    )
    last = float(MINUTES - 1)
    targets = sorted(exported["targets"]["answer"], key=lambda row: str(row["candidate"]))
    assert targets == [{"candidate": "n2", "rtt": last}, {"candidate": "n4", "rtt": last}]
    assert exported["targets"]["final"] is True


def test_alert_is_kept_by_its_history(drained: Path) -> None:
    alerts = json.loads(_moirae(drained, "alerts", "list", "-o", "json"))
    assert [(alert["history"], alert["history_final"]) for alert in alerts] == [("kept", True)]


def test_revisions_can_be_followed_from_a_number(drained: Path) -> None:
    command = ("recalls", "follow", "Overloaded/candidates", "--until-now", "-o", "json")
    lines = [json.loads(line) for line in _moirae(drained, *command).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["op"] == "boundary"
    rest = _moirae(drained, *command, "--after", str(len(lines) - 1)).splitlines()
    assert [json.loads(line) for line in rest] == lines[-1:]


def test_stages_are_shown_with_the_recalls(drained: Path) -> None:
    (alert,) = json.loads(_moirae(drained, "alerts", "list", "-o", "json"))
    answers = json.loads(_moirae(drained, "recalls", "show", alert["eid"], "-o", "json"))
    kinds = {answer["recall"]: answer["kind"] for answer in answers}
    assert kinds["targets"] == "stage"
    assert kinds["past"] == "sql"
    assert "candidates  stage, revision" in _moirae(drained, "recalls", "show", alert["eid"])


def test_explanation_lists_the_stages(drained: Path) -> None:
    explanation = json.loads(_moirae(drained, "rules", "explain", "g/Overloaded", "-o", "json"))
    stages = explanation["stages"]
    assert list(stages) == ["heaviest", "candidates", "targets"]
    assert stages["targets"]["engine"] == "recall process"
