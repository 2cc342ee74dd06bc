"""One real day of PlanetLab through the real processes, against an independent computation with DuckDB."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

DATA = (
    Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "planetlab"
)
DAY = DATA / "cpu_20110303.csv.gz"

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {{ts: timestamp, host: string, slice: string, cpu_pct: int}}
    time: ts
    id: [host, slice]
    key: [host]
    source: {{files: "{folder}/{name}"}}
chunks: {{rows: 50_000, age: 1h}}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: planetlab
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, sum(cpu_pct) AS cpu FROM cpu GROUP BY host, window(ts, '15 minutes')
  rules:
  - alert: SliceBusy
    expr: SELECT host, slice, ts, cpu_pct FROM cpu WHERE cpu_pct >= 80
    for: 10m
    keep_firing_for: 7m
  - alert: NodeBusy
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top FROM load
      GROUP BY host, window(ts, '1 hour') HAVING max(cpu) > 400
    keep_firing_for: 2h
"""

pytestmark = pytest.mark.skipif(not DAY.is_file(), reason=f"no PlanetLab data at {DATA}")


@pytest.fixture(scope="module")
def drained() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-planetlab-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE.format(folder=DATA, name=DAY.name))
    (root / "rules.yaml").write_text(RULES)
    _moirae(root, "up", "--drain")
    yield root
    shutil.rmtree(root, ignore_errors=True)


def _moirae(root: Path, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout


def _told(root: Path, *arguments: str, code: int = 0) -> Any:
    return json.loads(_moirae(root, *arguments, "-o", "json", code=code))


def _exported(root: Path, what: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in _moirae(root, "export", what, "--format", "jsonl").splitlines()
    ]


SLICE_BUSY = f"SELECT host, slice, ts::timestamp AS ts FROM read_csv('{DAY}') WHERE cpu_pct >= 80"
NODE_BUSY = f"""
WITH load AS (
  SELECT host, time_bucket(INTERVAL 15 minute, ts::timestamp) + INTERVAL 15 minute AS ts, sum(cpu_pct) AS cpu
  FROM read_csv('{DAY}') GROUP BY ALL
)
SELECT host, time_bucket(INTERVAL 1 hour, ts) + INTERVAL 1 hour AS ts FROM load GROUP BY ALL HAVING max(cpu) > 400
"""


def _alerts(events: str, keys: str, keep: str, wait: str) -> str:
    """Consecutive events by gaps and islands: an independent form of the alert's life."""
    return f"""
WITH events AS ({events}),
gaps AS (SELECT *, ts - lag(ts) OVER (PARTITION BY {keys} ORDER BY ts) > INTERVAL {keep} AS gap FROM events),
islands AS (SELECT *, count(*) FILTER (WHERE gap) OVER (PARTITION BY {keys} ORDER BY ts) AS island FROM gaps)
SELECT {keys}, min(ts) AS starts, max(ts) + INTERVAL {keep} AS ends FROM islands GROUP BY {keys}, island
HAVING max(ts) - min(ts) >= INTERVAL {wait}
"""


def _rows(query: str) -> set[tuple[str, ...]]:
    return {tuple(str(value) for value in row) for row in duckdb.sql(query).fetchall()}


def _time(text: str) -> str:
    return text.replace("T", " ").removesuffix("Z").removesuffix("+00:00")


def test_events_equal_an_independent_computation(drained: Path) -> None:
    events = _exported(drained, "events")
    assert len({event["eid"] for event in events}) == len(events)
    busy = {
        (e["key"]["host"], e["key"]["slice"], _time(e["ts"]))
        for e in events
        if e["rule"].endswith("SliceBusy")
    }
    nodes = {(e["key"]["host"], _time(e["ts"])) for e in events if e["rule"].endswith("NodeBusy")}
    assert busy == _rows(SLICE_BUSY)
    assert nodes == _rows(NODE_BUSY)
    assert len(busy) > 1000
    assert len(nodes) > 10


def test_alerts_equal_an_independent_computation(drained: Path) -> None:
    alerts = [alert for alert in _exported(drained, "alerts") if alert["state"] == "resolved"]
    slices = {
        (a["key"]["host"], a["key"]["slice"], _time(a["starts_at"]), _time(a["ends_at"]))
        for a in alerts
        if a["rule"].endswith("SliceBusy")
    }
    nodes = {
        (a["key"]["host"], _time(a["starts_at"]), _time(a["ends_at"]))
        for a in alerts
        if a["rule"].endswith("NodeBusy")
    }
    assert slices == _rows(_alerts(SLICE_BUSY, "host, slice", "7 minute", "10 minute"))
    assert nodes == _rows(_alerts(NODE_BUSY, "host", "2 hour", "0 minute"))
    assert len(slices) > 10


def test_the_identity_holds(drained: Path) -> None:
    status = json.loads(_moirae(drained, "status", "-o", "json"))
    ((rows,),) = duckdb.sql(f"SELECT count(*) FROM read_csv('{DAY}')").fetchall()
    account = status["accounting"]
    assert account["read"] == rows
    assert account["read"] == account["archived"] + account["duplicates"] + account["dead_lettered"]
    _moirae(drained, "doctor")


def test_what_is_kept_can_be_listed(drained: Path) -> None:
    archived = _told(drained, "status")["accounting"]["archived"]
    chunks = _told(drained, "chunks", "list")
    assert sum(chunk["rows"] for chunk in chunks) == archived
    assert [chunk["id"] for chunk in chunks] == sorted(chunk["id"] for chunk in chunks)
    assert {"present", "recent"} <= {chunk["state"] for chunk in chunks}
    fullest = max(chunks, key=lambda chunk: chunk["rows"])
    shown = _told(drained, "chunks", "show", str(fullest["id"]))
    assert (shown["id"], shown["rows"], shown["bytes"]) == (
        fullest["id"],
        fullest["rows"],
        fullest["bytes"],
    )
    (stream,) = _told(drained, "streams", "list")
    assert (stream["stream"], stream["archived"]) == ("cpu", archived)
    assert stream["bytes"] == sum(chunk["bytes"] for chunk in chunks) > 0
    explained = _told(drained, "rules", "explain", "planetlab/NodeBusy")
    assert explained["reads"]["streams"] == ["cpu"]


def test_a_change_of_rules_is_told_before_it_is_made(drained: Path) -> None:
    """By `diff`, and by `apply --dry-run`; a bad file changes nothing."""
    before = _told(drained, "rules", "list")
    assert {step["action"] for step in _told(drained, "rules", "diff")} <= {"stay"}
    (drained / "rules.yaml").write_text(RULES.replace(">= 80", ">= 90"))
    try:
        for command, code in ((("diff",), 3), (("apply", "--dry-run"), 0)):
            changed = [
                step
                for step in _told(drained, "rules", *command, code=code)
                if step["action"] != "stay"
            ]
            assert [(step["action"], step["rule"]) for step in changed] == [
                ("change", "planetlab/SliceBusy")
            ]
        (drained / "rules.yaml").write_text(RULES.replace("cpu_pct >= 80", "nothing >= 80"))
        _moirae(drained, "rules", "diff", code=1)
        _moirae(drained, "rules", "apply", code=1)
    finally:
        (drained / "rules.yaml").write_text(RULES)
    assert _told(drained, "rules", "list") == before
