"""Makes a packed workspace of the version that is installed: `python -m
tests.compatibility.make_small_workspace before_declarations`.

Writes `<name>/workspace.tar.xz` and `<name>/answers.json` beside this file. The workspace has read
files of three streams, one of them posted batches, in two rounds of `moirae up --drain`. Its tables
record no declarations, and Spark's checkpoint says which files were read. A package is never made
again. `make_workspace.py` makes larger ones.
"""

import argparse
import gzip
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.commands import Commands
from tests.compatibility.workspace import (
    MORE,
    answers,
    dump,
    moirae,
    pack,
    public_folder,
    running_database,
)

START = datetime(2025, 3, 3, tzinfo=UTC)
WORKSPACE = """\
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [host]
    key: [host]
    lateness: 2m
    source: {files: landing/cpu/*.jsonl}
  jobs:
    columns: {ts: timestamp, host: string, user: string}
    time: ts
    lateness: 2m
    source: {files: landing/jobs/*.csv.gz}
  posted:
    columns: {ts: timestamp, host: string, load: float}
    time: ts
    lateness: 2m
    source: {http: true}
chunks: {rows: 100, age: 1h, recent: 2, keep: null}
rules: [rules/*.yaml]
"""
RULES = """\
groups:
- name: hosts
  rules:
  - alert: CpuHigh
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 90
    key: [host]
    labels: {severity: ticket}
    annotations: {summary: "{{ event.host }}: CPU at {{ event.cpu }} %"}
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, count(*) AS n FROM cpu h WHERE h.host = event.host"}
"""


def cpu_rows(first: int, last: int) -> list[dict[str, Any]]:
    """A row a minute; `rack` is not declared."""
    rows = []
    for number in range(first, last):
        ts = (START + timedelta(minutes=number)).isoformat()
        cpu = 95.5 if number % 40 == 0 else number % 50 / 4
        host = f"ash-{number % 3}"
        rows.append({"ts": ts, "host": host, "n": number, "cpu": cpu, "rack": str(number % 2)})
    return rows


def lines_of(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def job_lines(first: int, last: int) -> bytes:
    lines = ["ts,host,user,process"]
    for number in range(first, last):
        ts = (START + timedelta(minutes=number)).isoformat()
        lines.append(f"{ts},ash-{number % 3},elm,run-{number}")
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def post_rows(first: int, last: int) -> list[dict[str, Any]]:
    times = [(START + timedelta(minutes=number)).isoformat() for number in range(first, last)]
    return [{"ts": ts, "host": "ash-1", "load": 0.1, "cores": 8} for ts in times]


def write(root: Path, name: str, content: bytes) -> None:
    """A file of the workspace, with a fixed time of modification."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (0, START.timestamp()))


def run_round(root: Path, number: int) -> None:
    """Files of each stream and a posted batch, which a drain reads."""
    first, last = 100 * number, 100 * number + 100
    write(root, f"landing/cpu/{number}.jsonl", lines_of(cpu_rows(first, last)))
    write(root, f"landing/jobs/{number}.csv.gz", job_lines(first, last))
    batch = root / "batch.jsonl"
    batch.write_bytes(lines_of(post_rows(first, last)))
    moirae(root, "ingest", "posted", str(batch))
    batch.unlink()
    moirae(root, "up", "--drain")


def make(folder: Path) -> None:
    """Make, pack and describe a workspace."""
    folder.mkdir(parents=True, exist_ok=True)
    with public_folder() as root, running_database(root) as server:
        write(root, "moirae.yaml", WORKSPACE.encode())
        write(root, "rules/hosts.yaml", RULES.encode())
        run_round(root, 0)
        run_round(root, 1)
        # What comes later: rows of before in other files, and rows after them.
        write(root, f"{MORE}/cpu/again.jsonl", lines_of(cpu_rows(50, 150)))
        write(root, f"{MORE}/cpu/new.jsonl", lines_of(cpu_rows(205, 240)))
        write(root, f"{MORE}/jobs/again.csv.gz", job_lines(150, 200))
        write(root, f"{MORE}/posted/again.jsonl", lines_of(post_rows(150, 200)))
        with Commands(root) as process:
            described = answers(process)
        pack(root, folder / "workspace.tar.xz", dump(server))
    text = json.dumps(described, indent=1, sort_keys=True)
    (folder / "answers.json").write_text(f"{text}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    make(Path(__file__).parent / parser.parse_args().name)
