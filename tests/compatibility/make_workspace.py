"""Makes a packed workspace of the version that is installed: `python -m
tests.compatibility.make_workspace v0_1_0`.

Writes `<name>/workspace.tar.xz` and `<name>/answers.json` beside this file. Done once for each
release; a package is never made again, as the tests must open what that release wrote. All rows
are made up here from a seed, at fixed times. Identifiers follow from them; times by the clock
(when an alert was written, say) and revision numbers do not.

The workspace has lived through four rounds of `moirae up --drain`, with notes, a changed relation
and changed rules between them, and a recall process that has found the past of the changed rules.
Then it is packed. A copy of it takes in some more rows, and what comes of them is written down
too.
"""

import argparse
import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from moirae import __version__
from tests.commands import Commands
from tests.compatibility.workspace import (
    EXPORTS,
    MORE,
    answers,
    bring_more,
    dump,
    moirae,
    pack,
    printed,
    public_folder,
    restore,
    run_all,
    running_database,
    unpack,
)

SEED = 7
START = datetime(2025, 3, 3, tzinfo=UTC)
# Host to its site and its usual share of the processor in percent. The last one is busy as a rule.
HOSTS = {
    "ash-1": ("ash", 30.0),
    "ash-2": ("ash", 35.0),
    "birch-1": ("birch", 25.0),
    "birch-2": ("birch", 40.0),
    "cedar-1": ("cedar", 75.0),
}
STEP = timedelta(minutes=10)

WORKSPACE = """\
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double, memory: double}
    time: ts
    id: [host]
    key: [host]
    lateness: 2m
    source: {files: landing/cpu/*.jsonl}
  process:
    columns: {ts: timestamp, host: string, user: string, process: string}
    time: ts
    key: [host]
    lateness: 2m
    source: {files: landing/process/*.csv.gz}
relations:
  hosts:
    columns: {host: string, site: string, cores: int}
    key: [host]
    source: {file: hosts.csv}
chunks: {rows: 900, age: 1d, recent: 2, keep: null}
rules: [rules/*.yaml]
"""

NODES = """\
groups:
- name: nodes
  rules:
  # A filter, judged row by row.
  - alert: CpuHigh
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 95
    key: [host]
    for: 10m
    keep_firing_for: 20m
    labels: {severity: ticket}
    annotations: {summary: "{{ event.host }}: CPU at {{ event.cpu | round(1) }} %"}

  # Joined with a relation; with contexts, surroundings, recalls of both kinds and a condition.
  - alert: NodeOverloaded
    expr: |
      SELECT c.host, c.ts, c.cpu, h.site FROM cpu c JOIN hosts h ON c.host = h.host
      WHERE c.cpu > 88
    key: [host]
    keep_firing_for: 30m
    labels: {severity: page}
    annotations: {summary: "{{ event.host }} ({{ event.site }}): CPU at {{ event.cpu | round(1) }} %"}
    context:
      processes: {sql: "SELECT DISTINCT process FROM process WHERE host = event.host", within: 2h}
      users: {sql: "SELECT DISTINCT user FROM process WHERE host = event.host", within: 2h}
      site: {sql: "SELECT site FROM hosts WHERE host = event.host"}
      value: {sql: "SELECT event.cpu AS cpu", numeric: [cpu]}
    surroundings:
      before: {sql: "SELECT ts, cpu FROM cpu WHERE host = event.host", within: 30m}
    recall:
      norm:
        sql: |
          SELECT avg(h.cpu) AS mean, stddev(h.cpu) AS sd, max(h.cpu) AS highest, count(*) AS samples
          FROM cpu h WHERE h.host = event.host
        range: 7d
      similar: {similar: {contexts: [processes, users, site], measure: attributes, k: 5, gap: 1h}}
      near: {similar: {contexts: [processes, value], k: 3}}
    where: event.cpu > norm.mean + 2.5 * norm.sd

  - alert: Retired
    expr: SELECT host, ts FROM cpu WHERE cpu < 0
    enabled: false
"""
LOAD = """\
groups:
- name: load
  derived:
  - stream: load
    expr: |
      SELECT host, window.end AS ts, avg(cpu) AS cpu, max(memory) AS memory
      FROM cpu GROUP BY host, window(ts, '30 minutes')
    archive: true
  rules:
  # Windows of a derived stream.
  - alert: LoadHigh
    expr: SELECT host, ts, cpu FROM load WHERE cpu > 91
    key: [host]
    keep_firing_for: 45m
    labels: {severity: ticket}
    annotations: {summary: "{{ event.host }}: {{ event.cpu | round(0) }} % over half an hour"}
    recall:
      usual: {sql: "SELECT avg(h.cpu) AS mean, count(*) AS rows FROM cpu h WHERE h.host = event.host", range: 2d}

  # Recalls that only Spark answers: one reads a relation, one a derived stream.
  - alert: MemoryHigh
    expr: SELECT host, ts, memory FROM cpu WHERE memory > 90
    key: [host]
    id: [host]
    keep_firing_for: 1h
    labels: {severity: page}
    context:
      users: {sql: "SELECT DISTINCT user FROM process WHERE host = event.host", within: 1h}
    recall:
      peers:
        sql: |
          SELECT s.site AS site, avg(h.memory) AS mean, count(DISTINCT h.host) AS hosts
          FROM cpu h JOIN hosts s ON s.host = h.host GROUP BY s.site
        range: 1d
        order: oldest
      usual:
        sql: SELECT avg(h.cpu) AS mean, count(*) AS windows FROM load h WHERE h.host = event.host
        range: 2d
"""
# From the third round on: another threshold, hence another version, and a rule more.
LOAD_CHANGED = (
    LOAD.replace("cpu > 91", "cpu > 89")
    + """\
  - alert: HostSilent
    absent: 90m
    stream: cpu
    key: [host]
    keep_firing_for: 1h
    labels: {severity: ticket}
    annotations: {summary: "nothing from {{ event.host }} for 90 minutes"}
"""
)

# Kind of an incident: user, processes, whether memory fills up, what was done about it, in a word.
KINDS = {
    "backup": ("root", ("rsync", "gzip"), False, "Moved the backup to the night.", "schedule"),
    "search": (
        "poplar",
        ("hashsweep", "python3"),
        False,
        "Lowered its priority and told the owner.",
        "priority",
    ),
    "leak": ("elm", ("simulator", "python3"), True, "Restarted the simulator.", "restart"),
}
# Hours after the start, host, kind.
INCIDENTS = (
    (9, "ash-1", "backup"),
    (15, "birch-1", "search"),
    (20, "cedar-1", "search"),
    (33, "birch-1", "backup"),
    (39, "ash-2", "leak"),
    (44, "ash-1", "search"),
    (58, "birch-2", "backup"),
    (63, "birch-1", "leak"),
    (68, "ash-2", "search"),
    (81, "birch-1", "search"),
    (87, "cedar-1", "backup"),
    (93, "ash-1", "leak"),
    (106, "ash-1", "backup"),
    (118, "birch-2", "search"),
)
LASTS = timedelta(minutes=50)
# Hours in which a host says nothing: between a rule's absence and the next row.
SILENT = ("birch-2", 75.0, 78.0)
# Rounds, in hours after the start, and what comes after packing. A drain settles what may follow
# from its rows, hours of silence too; rows of that time would be late, so that the next round
# begins later.
ROUNDS = ((0.0, 48.0), (50.0, 74.0), (76.0, 98.0), (102.0, 112.0))
AFTER = (116.0, 124.0)


# Rows


@dataclass
class Rows:
    """Makes rows in the order of time."""

    rng: random.Random = field(default_factory=lambda: random.Random(SEED))

    def cpu(self, low: float, high: float) -> list[dict[str, Any]]:
        """Rows of the stream `cpu` between two times, in hours after the start."""
        rows = []
        for ts in _times(low, high, STEP):
            for host, (_, usual) in HOSTS.items():
                hours = (ts - START) / timedelta(hours=1)
                kind = _incident(ts, host)
                cpu, memory = usual + self.rng.gauss(0, 5), 40 + self.rng.gauss(0, 4)
                if kind is not None:
                    cpu = self.rng.uniform(90, 99)
                    memory = self.rng.uniform(91, 97) if KINDS[kind][2] else memory
                if host == SILENT[0] and SILENT[1] <= hours < SILENT[2]:
                    continue
                row = {
                    "ts": _text(ts),
                    "host": host,
                    "cpu": round(min(cpu, 100.0), 2),
                    "memory": round(memory, 2),
                }
                rows.append(row)
        return rows

    def process(self, low: float, high: float) -> list[dict[str, Any]]:
        """Rows of the stream `process`."""
        rows = []
        for ts in _times(low, high, timedelta(hours=1)):
            for host in HOSTS:
                running = [("root", "cron"), (self.rng.choice(["oak", "poplar", "elm"]), "bash")]
                kind = _incident(ts + timedelta(minutes=30), host)
                if kind is not None:
                    running += [(KINDS[kind][0], process) for process in KINDS[kind][1]]
                rows += [
                    {"ts": _text(ts), "host": host, "user": user, "process": name}
                    for user, name in running
                ]
        return rows


def _times(low: float, high: float, step: timedelta) -> Iterable[datetime]:
    ts = START + timedelta(hours=low)
    while ts < START + timedelta(hours=high):
        yield ts
        ts += step


def _incident(ts: datetime, host: str) -> str | None:
    for hour, where, kind in INCIDENTS:
        begins = START + timedelta(hours=hour)
        if where == host and begins <= ts < begins + LASTS:
            return kind
    return None


def _text(ts: datetime) -> str:
    return ts.isoformat().replace("+00:00", "Z")


def _jsonl(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _csv_gz(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(text.getvalue().encode(), mtime=0)


# The workspace


@dataclass
class Maker:
    """Writes and runs one workspace. Files get times of modification that follow from their order."""

    root: Path
    rows: Rows = field(default_factory=Rows)
    written: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0

    def write(self, name: str, content: str | bytes) -> None:
        """A file of the workspace."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.files += 1
        os.utime(path, ns=(0, int((START.timestamp() + self.files) * 1e9)))

    def first_round(self) -> None:
        """Two days, in two files of each stream."""
        self.write("moirae.yaml", WORKSPACE)
        self.write("rules/nodes.yaml", NODES)
        self.write("rules/load.yaml", LOAD)
        self.write("hosts.csv", _hosts())
        low, high = ROUNDS[0]
        for name, begin, end in (("day-1", low, 24.0), ("day-2", 24.0, high)):
            self.bring(name, begin, end)
        moirae(self.root, "up", "--drain")

    def second_round(self) -> None:
        """Resolved alerts, a host that has moved, another day."""
        self.resolve()
        self.write("hosts.csv", _hosts().replace("birch-2,birch", "birch-2,cedar"))
        self.bring("day-3", *ROUNDS[1])
        moirae(self.root, "up", "--drain")

    def third_round(self) -> None:
        """More resolved alerts and a judged hit; changed rules; rows that are late, repeated,
        contradictory, broken.
        """
        self.resolve()
        similar = [json.loads(line) for line in moirae(self.root, "export", "similar").splitlines()]
        best = next(row for row in reversed(similar) if row["rank"] == 1)
        moirae(
            self.root, "similarity", "agree", best["query"], best["event"], "--author", "operator"
        )
        self.write("rules/load.yaml", LOAD_CHANGED)
        self.bring("day-4", *ROUNDS[2])
        again = self.written[100]
        late = {
            "ts": "2025-03-04T05:05:05Z",
            "host": "ash-1",
            "cpu": 50.0,
            "memory": 40.0,
            "rack": 3,
        }
        lines = [
            json.dumps(again),
            json.dumps(dict(reversed(again.items()))),
            json.dumps({**again, "cpu": -1.0}),
            json.dumps(late),
            '{"ts": "2025-03-06T20:00:00Z", "host": ',
            '{"ts": "yesterday", "host": "ash-1", "cpu": 1.0, "memory": 1.0}',
            json.dumps({"ts": "2999-01-01T00:00:00Z", "host": "ash-1", "cpu": 1.0, "memory": 1.0}),
        ]
        self.write("landing/cpu/odd.jsonl", "\n".join(lines))
        moirae(self.root, "up", "--drain")

    def fourth_round(self) -> None:
        """Copy a batch into the landing folder."""
        rows = self.rows.cpu(*ROUNDS[3])
        self.written += rows
        batch = self.root / "batch.jsonl"
        batch.write_text(_jsonl(rows))
        moirae(self.root, "ingest", "cpu", str(batch))
        batch.unlink()
        moirae(self.root, "up", "--drain")

    def bring(self, name: str, low: float, high: float) -> None:
        """A file of each stream."""
        rows = self.rows.cpu(low, high)
        self.written += rows
        self.write(f"landing/cpu/{name}.jsonl", _jsonl(rows))
        self.write(f"landing/process/{name}.csv.gz", _csv_gz(self.rows.process(low, high)))

    def more(self) -> None:
        """Rows for later: new ones that end a chunk, old ones a second time, a contradiction, and
        one that is late.
        """
        rows = self.rows.cpu(*AFTER)
        again = self.written[:200] + self.written[-50:]
        contradiction = {**self.written[300], "memory": -1.0}
        late = {"ts": "2025-03-05T05:05:05Z", "host": "birch-1", "cpu": 50.0, "memory": 40.0}
        self.write(f"{MORE}/cpu/again.jsonl", _jsonl(again))
        self.write(f"{MORE}/cpu/more.jsonl", _jsonl([contradiction, late, *rows]))
        self.write(f"{MORE}/process/more.csv.gz", _csv_gz(self.rows.process(*AFTER)))

    def resolve(self) -> None:
        """Resolve each alert that has no resolution yet."""
        commands = []
        for alert in printed(
            self.root, "alerts", "list", "--all", "--rule", "nodes/NodeOverloaded"
        ):
            ts = datetime.fromisoformat(alert["starts_at"])
            kind = _incident(ts, alert["key"]["host"])
            alert_notes = printed(self.root, "alerts", "show", alert["id"])["notes"]
            if kind is None or alert_notes:
                continue
            author = ("--author", "operator")
            commands.append(["alerts", "ack", alert["id"], *author])
            commands.append(
                ["alerts", "resolve", alert["id"], KINDS[kind][3], "--tag", KINDS[kind][4], *author]
            )
        assert commands
        with Commands(self.root) as process:
            results = run_all(process, commands)
        for code, output in results:
            assert code == 0, output

    def prepare(self) -> None:
        """Run a recall process until it has found the past of the changed rules, and what else it
        makes by itself.
        """
        command = [
            sys.executable,
            "-m",
            "moirae",
            "run",
            "recall",
            "--workspace",
            str(self.root / "moirae.yaml"),
        ]
        process = subprocess.Popen(command)
        try:
            deadline = time.monotonic() + 300
            while not self._prepared():
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(1)
        finally:
            process.terminate()
            process.wait(60)

    def _prepared(self) -> bool:
        status = printed(self.root, "status")
        views = [
            state
            for past in status["past"].values()
            for name, state in past["chunks"].items()
            if name != "old"
        ]
        indexes = status["indexes"]
        closed = [
            chunk for chunk in printed(self.root, "chunks", "list") if chunk["state"] == "recent"
        ]
        derived = sum(stream["chunks"] for stream in status["derived"])
        return (
            len(status["past"]) == 2
            and all(view["found"] == view["chunks"] for view in views)
            and bool(indexes)
            and all(index["written"] == index["events"] for index in indexes)
            and derived >= len(closed)
        )


def _hosts() -> str:
    return "host,site,cores\n" + "".join(f"{host},{site},8\n" for host, (site, _) in HOSTS.items())


# Description


def notes(root: Path) -> dict[str, list[list[str]]]:
    """What people have written about alerts, by their ids."""
    alerts = [alert["id"] for alert in printed(root, "alerts", "list", "--all", "--limit", "1000")]
    with Commands(root) as process:
        shown = run_all(process, [["alerts", "show", alert, "-o", "json"] for alert in alerts])
    notes_by_kind = {
        alert: json.loads(output)["notes"] for alert, (_, output) in zip(alerts, shown, strict=True)
    }
    columns = ("kind", "author", "text", "tag")
    return {
        alert: [[note[column] for column in columns] for note in written]
        for alert, written in notes_by_kind.items()
        if written
    }


def new_rows(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is in `after` only, of what is listed by id."""
    rows_by_kind = dict(after)
    for kind, name in EXPORTS.items():
        names_before = {row[name] for row in before[kind]}
        rows_by_kind[kind] = [row for row in after[kind] if row[name] not in names_before]
    return rows_by_kind


def make(folder: Path) -> None:
    """Make, pack and describe a workspace."""
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / "workspace.tar.xz"
    with public_folder() as root:
        with running_database(root) as server:
            maker = Maker(root)
            maker.first_round()
            maker.second_round()
            maker.third_round()
            maker.fourth_round()
            maker.prepare()
            maker.more()
            moirae(root, "doctor")
            with Commands(root) as process:
                before = answers(process) | {"notes": notes(root)}
            sql = dump(server)
        pack(root, package, sql)
    with public_folder() as root:
        text = unpack(package, root)
        with running_database(root) as server:
            restore(server, text)
            bring_more(root)
            moirae(root, "up", "--drain")
            moirae(root, "doctor")
            with Commands(root) as process:
                after = new_rows(before, answers(process))
    described = {"version": __version__, "before": before, "after": after}
    (folder / "answers.json").write_text(_written(described))


def _written(value: Any, depth: int = 0) -> str:
    """JSON with a line for each row."""
    if isinstance(value, dict) and value and depth < 3:
        pairs = [f"{json.dumps(key)}: {_written(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pairs) + "\n}" + ("\n" if depth == 0 else "")
    if isinstance(value, list) and value and depth < 3:
        return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Make a packed workspace for the compatibility tests."
    )
    parser.add_argument("name", help="its folder beside this file, such as v0_1_0")
    make(Path(__file__).parent / parser.parse_args().name)
