"""A workspace over real and hostile input, and everything in it that must not depend on where it runs.

Input is in object storage: rows of PlanetLab and of Blue Gene/L from `DATA`, or generated ones, and
files with repeated, conflicting, late and broken records. More such records are posted.
"""

import csv
import gzip
import io
import json
import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from psycopg import Connection

from tests import cpu_scenario
from tests.commands import Commands
from tests.ingest_scenario import Sizes, write_batches
from tests.store import put_object

DATA = Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[2] / "shared" / "data"))

WORKSPACE = """
home: home
server: {{listen: "127.0.0.1:0"}}
archive: {archive}
landing: {landing}
engine: {engine}
recall: {{engine: {engine}}}
streams:
  cpu:
    columns: {{ts: timestamp, host: string, slice: string, cpu_pct: int}}
    time: ts
    id: [host, slice]
    key: [host]
    source: {{files: "{bucket}/in/cpu/*.csv.gz"}}
  ras:
    columns: {{ts: timestamp, host: string, rack: string, level: string, template_id: string,
              failure_class: string, message: string}}
    time: ts
    key: [rack]
    lateness: 1m
    source: {{files: "{bucket}/in/ras/*.jsonl.gz"}}
  a:
    columns: {{ts: timestamp, host: string, n: bigint, v: double}}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 1m
    punctuation: closed
    source: {{files: "{bucket}/in/a/*", format: jsonl}}
  b:
    columns: {{ts: timestamp, host: string, n: bigint, v: double}}
    time: ts
    lateness: 0s
    source: {{http: true}}
relations:
  sites: {{columns: {{host: string, site: string}}, key: [host], source: {{file: "{bucket}/in/sites.csv"}}}}
chunks: {{rows: {chunk_rows}, age: 100d}}
rules: [rules.yaml]
{spark}
"""
RULES = """
groups:
- name: cluster
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, sum(cpu_pct) AS cpu FROM cpu GROUP BY host, window(ts, '15 minutes')
    archive: true
  rules:
  - alert: Busy
    expr: SELECT host, slice, ts, cpu_pct FROM cpu WHERE cpu_pct >= 85
    for: 5m
    keep_firing_for: 7m
    context:
      beside: {sql: "SELECT slice FROM cpu WHERE host = event.host AND cpu_pct > 20", within: 10m}
      site: {sql: "SELECT site FROM sites WHERE host = event.host"}
      own: {sql: "SELECT event.cpu_pct AS cpu_pct", numeric: [cpu_pct]}
    surroundings:
      before: {sql: "SELECT ts, cpu FROM load WHERE host = event.host", within: 1h}
    recall:
      norm: {sql: "SELECT avg(h.cpu_pct) AS mean, stddev(h.cpu_pct) AS sd, count(*) AS n FROM cpu h WHERE h.host = event.host"}
      slices: {sql: "SELECT h.slice, count(*) AS n, max(h.cpu_pct) AS top FROM cpu h WHERE h.host = event.host GROUP BY h.slice"}
      ranked: {sql: "SELECT h.ts, h.cpu_pct, rank() OVER (ORDER BY h.cpu_pct DESC, h.ts, h.slice) AS place FROM cpu h WHERE h.host = event.host AND h.cpu_pct > 90"}
      similar: {similar: {contexts: [beside, site], k: 5}}
    where: event.cpu_pct > norm.mean
    then: [{stream: candidates, sql: "SELECT n.host, n.mean FROM norm n", within: 1m}]
  - alert: NodeBusy
    expr: SELECT host, window.end AS ts, max(cpu) AS top FROM load GROUP BY host, window(ts, '1 hour') HAVING max(cpu) > 150
    keep_firing_for: 2h
  - alert: OfSite
    expr: SELECT c.host, c.ts, s.site FROM cpu c JOIN sites s ON s.host = c.host WHERE c.cpu_pct >= 95
    key: [host]
  - alert: Failure
    expr: SELECT rack, failure_class, ts FROM ras WHERE failure_class <> ''
    key: [rack, failure_class]
    keep_firing_for: 30m
    context:
      beside: {sql: "SELECT DISTINCT template_id FROM ras WHERE rack = event.rack", within: 1h}
    recall:
      earlier: {sql: "SELECT count(*) AS n, max(h.ts) AS last FROM ras h WHERE h.rack = event.rack AND h.failure_class = event.failure_class"}
      similar: {similar: {k: 5}}
  # Nothing but Spark evaluates these two.
  - alert: Words
    expr: SELECT host, ts, size(regexp_extract_all(message, '([a-z]+)', 1)) AS words FROM ras WHERE length(message) > 250
    key: [host]
  - alert: Joined
    expr: >-
      SELECT x.host, x.slice, x.ts FROM cpu x JOIN load l ON l.host = x.host
      AND l.ts BETWEEN x.ts - INTERVAL 15 MINUTES AND x.ts WHERE x.cpu_pct >= 85 AND l.cpu > 120
    key: [host]
  - alert: Hostile
    expr: SELECT host, n, ts, v FROM a WHERE v > 0.9
    key: [host]
    id: [n]
    recall:
      values: {sql: "SELECT count(*) AS n, sum(h.n) AS total, min(h.ts) AS first FROM a h WHERE h.host = event.host"}
  - alert: Posted
    expr: SELECT host, n, ts FROM b WHERE v < 0.1
    key: [host]
    id: [n]
"""
_CPU_COLUMNS = ("ts", "host", "slice", "cpu_pct")
_RAS_COLUMNS = ("ts", "host", "rack", "level", "template_id", "failure_class", "message")
_TIMING = ("by_summary", "summarised")
_RANDOM_PART = re.compile(r"-[0-9a-f]{32}")
_FIRST_FAILURES = 145_000  # lines of the log of Blue Gene/L before which failures are rare


def put_real_input(bucket: str, folder: Path, rows: int, seed: int) -> list[Path]:
    """Put objects with so many rows of each data set. Returns files to be posted."""
    with gzip.open(DATA / "planetlab" / "cpu_20110303.csv.gz", "rt") as file:
        hosts = {"ttu2-1.nodes.planet-lab.org", "planetlab2.ecs.vuw.ac.nz", "plink.cs.uwaterloo.ca"}
        samples = [row for row in csv.DictReader(file) if row["host"] in hosts]
    with gzip.open(DATA / "bgl" / "events.jsonl.gz", "rt") as file:
        lines = islice(file, _FIRST_FAILURES, _FIRST_FAILURES + rows)
        records = [{name: json.loads(line)[name] for name in _RAS_COLUMNS} for line in lines]
    return _put(bucket, folder, samples[:rows], records, rows, seed)


def put_generated_input(bucket: str, folder: Path, rows: int, seed: int) -> list[Path]:
    """Put objects with so many generated rows. Returns files to be posted."""
    samples = [
        {"ts": s.ts.isoformat(), "host": s.host, "slice": s.slice, "cpu_pct": s.cpu_pct}
        for s in islice(cpu_scenario.samples(seed, hosts=3), rows)
    ]
    rng = random.Random(seed)
    records = [
        {
            "ts": (cpu_scenario.START + timedelta(seconds=30 * number)).isoformat(),
            "host": f"R0{number % 3}-M0",
            "rack": f"R0{number % 3}",
            "level": "FATAL",
            "template_id": f"B{rng.randrange(9)}",
            "failure_class": rng.choice(("", "", "panic", "cache")),
            "message": "instruction cache parity error " * rng.randrange(1, 12),
        }
        for number in range(rows)
    ]
    return _put(bucket, folder, samples, records, rows, seed)


def _put(
    bucket: str,
    folder: Path,
    samples: Sequence[dict[str, Any]],
    records: Sequence[dict[str, Any]],
    rows: int,
    seed: int,
) -> list[Path]:
    hosts = sorted({sample["host"] for sample in samples})
    sites = "".join(f"{host},site{number % 2}\n" for number, host in enumerate(hosts))
    put_object(f"{bucket}/in/sites.csv", f"host,site\n{sites}".encode())
    for number, part in enumerate(_divide(samples, 4)):
        text = io.StringIO()
        writer = csv.DictWriter(text, _CPU_COLUMNS)
        writer.writeheader()
        writer.writerows(part)
        put_object(f"{bucket}/in/cpu/{number:03d}.csv.gz", gzip.compress(text.getvalue().encode()))
    for number, part in enumerate(_divide(records, 3)):
        lines = "".join(json.dumps(record) + "\n" for record in part)
        put_object(f"{bucket}/in/ras/{number:03d}.jsonl.gz", gzip.compress(lines.encode()))
    write_batches(folder, seed, Sizes(batches=6, files=4, rows=max(rows // 10, 20)))
    for file in _list_files(folder / "a", ("*.jsonl", "*.jsonl.gz")):
        put_object(f"{bucket}/in/a/{file.name}", file.read_bytes())
    return _list_files(folder / "b", ("*.jsonl",))


def _divide(rows: Sequence[dict[str, Any]], parts: int) -> Iterable[Sequence[dict[str, Any]]]:
    size = -(-len(rows) // parts)
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _list_files(folder: Path, globs: Sequence[str]) -> list[Path]:
    return sorted(file for glob in globs for file in folder.glob(glob))


def collect_outcome(
    commands: Commands, connection: Connection[Any], archive: str
) -> dict[str, Any]:
    """Everything that must not depend on where a workspace runs, after it was drained."""
    names = _name_units(connection)
    outcome: dict[str, Any] = {
        f"rows of {stream}": _read_rows(names, f"{archive}/streams/{stream}")
        for stream in ("cpu", "ras", "a", "b")
    }
    counters = connection.execute(
        "SELECT id, stream, read, archived, late, duplicates, malformed, quarantined, conflicts,"
        " done FROM units"
    )
    outcome["counters"] = _sort((names[row[0]], *row[1:]) for row in counters)
    dead_letters = connection.execute("SELECT unit_id, line, reason, detail, raw FROM dead_letters")
    outcome["chunks"] = connection.execute("SELECT count(*) > 2 FROM chunks").fetchall()
    outcome["dead letters"] = _sort((names[row[0]], *row[1:]) for row in dead_letters)
    for what in ("events", "alerts", "contexts", "similar", "recalls"):
        records = commands.exported(what)
        outcome[what] = _sort(map(_round, records))
    return outcome


def _round(record: dict[str, Any]) -> str:
    """A record as text, without the last digits of floating-point numbers: engines add in any order.

    Nor with how many pieces summaries have answered, which are made while the answer is computed.
    """
    coverage = record.get("coverage")
    if isinstance(coverage, dict):
        record = {**record, "coverage": {k: v for k, v in coverage.items() if k not in _TIMING}}
    text = json.dumps(record, sort_keys=True)
    return json.dumps(json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}"))


def _sort(records: Iterable[Any]) -> list[str]:
    return sorted(map(repr, records))


def _name_units(connection: Connection[Any]) -> dict[int, str]:
    """Names of units by id, without the random part of those that a command has stored."""
    units = connection.execute("SELECT id, unit FROM units").fetchall()
    return {number: _RANDOM_PART.sub("", name) for number, name in units}


def _read_rows(names: Mapping[int, str], table: str) -> list[str]:
    """The rows, with their identities and the names of their units."""
    rows = DeltaTable(table, storage_options={"allow_http": "true"}).to_pyarrow_table().to_pylist()
    for row in rows:
        row["_unit"] = names[row["_unit"]]
    return _sort(sorted(row.items()) for row in rows)
