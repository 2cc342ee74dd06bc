"""A rule that is added to a history has its past: of recent chunks by itself, of old ones when a recall comes by.

Some hours of PlanetLab, through the real processes, against an independent computation with DuckDB.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

DATA = Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "planetlab"
DAY = DATA / "cpu_20110303.csv.gz"

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, slice: string, cpu_pct: int}
    time: ts
    id: [host, slice]
    key: [host]
    source: {files: "landing/*.csv"}
chunks: {rows: 8_000, age: 30m, recent: 3}
rules: [rules.yaml]
"""
BEFORE = """
groups:
- name: planetlab
  rules:
  - {alert: Full, expr: "SELECT host, slice, ts FROM cpu WHERE cpu_pct > 98"}
"""
ADDED = """
  - alert: SliceBusy
    expr: SELECT host, slice, ts, cpu_pct FROM cpu WHERE cpu_pct >= 80
    for: 10m
    keep_firing_for: 7m
    context:
      beside: {sql: "SELECT slice FROM cpu WHERE host = event.host AND cpu_pct > 20", within: 6m}
    recall:
      alike: {similar: {k: 5}}
"""
# Rows of the first and the second file.
HISTORY, NEW = 60_000, 20_000
# By the end of both, events before this time are settled, and alerts that began before this one are decided.
SETTLED, DECIDED = "2011-03-03T06:15", "2011-03-03T05:50"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not DAY.is_file(), reason=f"no PlanetLab data at {DATA}"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="moirae-past-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE)
    (root / "rules.yaml").write_text(BEFORE)
    (root / "landing").mkdir()
    yield root
    shutil.rmtree(root, ignore_errors=True)


def _moirae(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _until(what: str, holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"not within minutes: {what}")


def _busy(lines: list[str]) -> set[tuple[str, str, str]]:
    rows = (line.rstrip("\n").split(",") for line in lines)
    return {(host, piece, ts.removesuffix("Z")) for ts, host, piece, share in rows if int(share) >= 80}


def _firsts(folder: Path) -> set[tuple[str, str, str]]:
    """First events of the alerts that have fired, by gaps and islands."""
    query = f"""
    WITH events AS (SELECT host, slice, ts::timestamp AS ts FROM read_csv('{folder}/*.csv') WHERE cpu_pct >= 80),
    gaps AS (SELECT *, ts - lag(ts) OVER (PARTITION BY host, slice ORDER BY ts) > INTERVAL 7 minute AS gap FROM events),
    islands AS (SELECT *, count(*) FILTER (WHERE gap) OVER (PARTITION BY host, slice ORDER BY ts) AS n FROM gaps)
    SELECT host, slice, strftime(min(ts), '%Y-%m-%dT%H:%M:%S') FROM islands GROUP BY host, slice, n
    HAVING max(ts) - min(ts) >= INTERVAL 10 minute"""
    return set(duckdb.sql(query).fetchall())


def _exported(root: Path, what: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _moirae(root, "export", what, "--format", "jsonl").splitlines()]


def _time(text: str) -> str:
    return text[:19].replace(" ", "T")


def _events(root: Path) -> set[tuple[str, str, str]]:
    busy = [e for e in _exported(root, "events") if e["rule"].endswith("SliceBusy")]
    found = {(e["key"]["host"], e["key"]["slice"], _time(e["ts"])) for e in busy}
    assert len(found) == len(busy)
    return found


def _corpus(root: Path) -> list[str]:
    return sorted(ts for one in _exported(root, "contexts") if (ts := _time(one["ts"])) < DECIDED)


def _past(root: Path) -> dict[str, Any]:
    rules = json.loads(_moirae(root, "rules", "list", "-o", "json"))
    return next((rule["past"] or {} for rule in rules if rule["rule"].endswith("SliceBusy")), {})


def test_a_rule_added_later_has_its_past(place: Path) -> None:
    with gzip.open(DAY, "rt") as day:
        header, *lines = [next(day) for _ in range(HISTORY + NEW + 1)]
    (place / "landing" / "1.csv").write_text(header + "".join(lines[:HISTORY]))
    _moirae(place, "up", "--drain")
    (place / "rules.yaml").write_text(BEFORE + ADDED)
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(place / "moirae.yaml")]
    with (place / "log").open("w") as log:
        up = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        recent = _until("recent chunks have views", lambda: _materialised(place))
        assert recent["events"] > 0
        # What lies close behind the end of a drained input is late.
        later = [line for line in lines[HISTORY:] if line >= "2011-03-03T05:30"]
        (place / "landing" / "2.part").write_text(header + "".join(later))
        (place / "landing" / "2.part").rename(place / "landing" / "2.csv")
        _until("old chunks have views, as recalls came by", lambda: _asked(place))
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(60)
    past = _past(place)
    assert not any(chunks["failed"] for chunks in past["chunks"].values()), past
    kept = [line for line in lines[:HISTORY] + later if line < SETTLED]
    assert {event for event in _events(place) if event[2] < SETTLED} == _busy(kept)
    assert _corpus(place) == sorted(ts for _, _, ts in _firsts(place / "landing") if ts < DECIDED)
    hits = {hit["event"] for hit in _exported(place, "similar")}
    past_hits = [
        e for e in json.loads(_moirae(place, "events", "list", "--limit", "100000", "-o", "json")) if e["past"]
    ]
    known = [event["eid"] for event in past_hits if event["eid"] in hits]
    assert known
    shown = json.loads(_moirae(place, "events", "show", known[0], "-o", "json"))
    assert shown["past"] and shown["contexts"]["beside"]
    listed = json.loads(_moirae(place, "alerts", "list", "--limit", "10000", "-o", "json"))
    assert not any(alert["past"] for alert in listed)
    _moirae(place, "doctor")


def _materialised(root: Path) -> dict[str, Any] | None:
    past = _past(root)
    chunks = [past["chunks"][state] for state in ("present", "recent") if state in past.get("chunks", {})]
    return past if chunks and all(one["found"] == one["chunks"] for one in chunks) else None


def _asked(root: Path) -> bool:
    """All recalls have ended, and with them all chunks have a view."""
    recalls = json.loads(_moirae(root, "recalls", "list", "--limit", "1000", "-o", "json"))
    chunks = _past(root)["chunks"].values()
    ended = all(one["state"] in ("done", "failed") for one in recalls)
    return bool(recalls) and ended and all(one["found"] == one["chunks"] for one in chunks)
