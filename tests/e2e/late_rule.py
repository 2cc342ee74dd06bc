"""Generated or real data, a rule added to it late, and the expected events, computed by DuckDB."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from tests import cpu_scenario

DATA = Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data"))


@dataclass(frozen=True)
class Case:
    """Data, and a rule that is added when all before `split` is archived; what comes from `later`
    on is new.

    `files`: below `DATA`; None: the day that `cpu_scenario` generates. `events`: the condition of
    the rule, `keys` its fingerprint, `keep` and `wait` (minutes) the life of its alerts. From
    `late` on not all is settled or decided when everything is read. `step`: hours in one landing
    file.
    """

    files: str | None
    scale: tuple[int, str]
    columns: dict[str, str]
    stream: str
    chunks: str
    split: str
    later: str
    end: str
    late: str
    before: str
    events: str
    keys: tuple[str, ...]
    keep: int
    wait: int
    rest: str
    step: int
    patience: int = 400


PLANETLAB_CELLS = "--host host --block 3600"
PLANETLAB = {
    "columns": {"ts": "timestamp", "host": "string", "slice": "string", "cpu_pct": "int"},
    "stream": "id: [host, slice], key: [host]",
    "before": "SELECT host, slice, ts FROM s WHERE cpu_pct > 98",
    "events": "cpu_pct >= 80",
    "keys": ("host", "slice"),
    "keep": 7,
    "wait": 10,
    "rest": """
    context:
      beside: {sql: "SELECT slice FROM s WHERE host = event.host AND cpu_pct > 20", within: 6m}""",
}
FIVE_DAYS = {
    "files": "planetlab/cpu_*.csv.gz",
    "split": "2011-04-03T18:00",
    "later": "2011-04-03T20:00",
    "end": "2011-04-03T23:59",
    "late": "2011-04-03T23:20",
    "step": 6,
    **PLANETLAB,
}
CASES = {
    "generated": Case(
        files=None,
        scale=(1, PLANETLAB_CELLS),
        chunks="{rows: 1_500, age: 30m, recent: 3}",
        split="2026-01-01T09:00",
        later="2026-01-01T09:45",
        end="2026-01-01T10:30",
        late="2026-01-01T10:00",
        step=100,
        **PLANETLAB,
    ),
    "planetlab, hours": Case(
        files="planetlab/cpu_20110303.csv.gz",
        scale=(1, PLANETLAB_CELLS),
        chunks="{rows: 8_000, age: 30m, recent: 3}",
        split="2011-03-03T04:45",
        later="2011-03-03T05:30",
        end="2011-03-03T06:20",
        late="2011-03-03T05:50",
        step=100,
        **PLANETLAB,
    ),
    "planetlab, five days": Case(
        scale=(1, PLANETLAB_CELLS),
        chunks="{rows: 100_000, age: 6h, recent: 3}",
        patience=900,
        **FIVE_DAYS,
    ),
    "planetlab, five days, ten times": Case(
        scale=(10, PLANETLAB_CELLS),
        chunks="{rows: 1_000_000, age: 6h, recent: 3}",
        patience=2400,
        **FIVE_DAYS,
    ),
    "bgl, ten times": Case(
        files="bgl/events.jsonl.gz",
        scale=(10, "--host host,rack --block 21600"),
        columns={
            "ts": "timestamp",
            "host": "string",
            "rack": "string",
            "component": "string",
            "level": "string",
            "template_id": "string",
            "failure_class": "string",
            "message": "string",
        },
        stream="key: [rack], lateness: 1m",
        chunks="{rows: 100_000, age: 5d, recent: 3, keep: 365d}",
        split="2005-09-24",
        later="2005-09-25",
        end="2005-10-01",
        late="2005-09-30T23:00",
        before="SELECT rack, ts FROM s WHERE failure_class = 'fatal_kernel_panic'",
        events="failure_class NOT IN ('', 'lustre_mount_failed', 'rts_kernel_terminated', "
        "'rts_panic_stopping_execution', 'rts_internal_error')",
        keys=("rack", "failure_class"),
        keep=30,
        wait=0,
        rest="""
    context:
      beside: {sql: "SELECT DISTINCT template_id FROM s WHERE rack = event.rack AND failure_class = ''", within: 1h}""",
        step=24,
        patience=900,
    ),
}


class HistoryWorkspace:
    """A workspace, and the rows that are to land in it."""

    def __init__(self, root: Path, case: Case) -> None:
        self.root, self.case = root, case
        columns = ", ".join(f"{name}: {kind}" for name, kind in case.columns.items())
        (root / "moirae.yaml").write_text(
            "home: .moirae\nstreams:\n"
            f"  s: {{columns: {{{columns}}}, time: ts, {case.stream}, source: {{files: landing/*.jsonl.gz}}}}\n"
            f"chunks: {case.chunks}\nrules: [rules.yaml]\n"
        )
        self._rules = (
            f'groups:\n- name: g\n  rules:\n  - {{alert: Before, expr: "{case.before}"}}\n'
        )
        (root / "rules.yaml").write_text(self._rules)
        (root / "landing").mkdir()
        self.rows = duckdb.connect()
        self._load()

    def _load(self) -> None:
        """All rows; times as they are written."""
        factor, options = self.case.scale
        kinds = {
            name: "INTEGER" if kind == "int" else "VARCHAR"
            for name, kind in self.case.columns.items()
        }
        self.rows.execute(
            f"CREATE TABLE s ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})"
        )
        for file in self._files():
            if factor > 1:
                scaled_file = self.root / f"scaled-{file.name}"
                command = [
                    sys.executable,
                    str(DATA / "tools" / "scaleup.py"),
                    str(file),
                    str(scaled_file),
                ]
                subprocess.run(
                    [*command, "--factor", str(factor), *options.split()],
                    check=True,
                    capture_output=True,
                )
                file = scaled_file
            read = "read_json" if ".jsonl" in file.name else "read_csv"
            names = ", ".join(self.case.columns)
            csv_options = ", header = true" if read == "read_csv" else ""
            self.rows.execute(
                f"INSERT INTO s SELECT {names} FROM {read}('{file}', columns = {kinds}{csv_options})"
            )
        self.rows.execute(f"DELETE FROM s WHERE ts >= '{self.case.end}'")

    def _files(self) -> list[Path]:
        if self.case.files is not None:
            return sorted(DATA.glob(self.case.files))
        generated = self.root / "cpu_generated.csv.gz"
        cpu_scenario.write_csv(generated, cpu_scenario.samples(1))
        return [generated]

    def land(self, low: str, high: str) -> None:
        """The rows between two times, some hours in a file."""
        span = f"time_bucket(INTERVAL {self.case.step} hour, ts::timestamp)"
        within = f"ts >= '{low}' AND ts < '{high}'"
        for (begin,) in self.rows.execute(
            f"SELECT DISTINCT {span} FROM s WHERE {within} ORDER BY 1"
        ).fetchall():
            # A file is read once: what comes later to the same hours has another name.
            hidden = self.root / "landing" / f".{begin:%Y%m%dT%H}-{low.replace(':', '')}.jsonl.gz"
            query = f"SELECT * FROM s WHERE {within} AND {span} = '{begin}'"
            self.rows.execute(f"COPY ({query}) TO '{hidden}' (FORMAT json, COMPRESSION gzip)")
            hidden.rename(hidden.with_name(hidden.name[1:]))

    def add(self) -> None:
        """The rule that comes late."""
        case = self.case
        text = f"""
  - alert: Added
    expr: SELECT {", ".join(case.keys)}, ts FROM s WHERE {case.events}
    keep_firing_for: {case.keep}m
    for: {case.wait}m{case.rest}
    recall: {{alike: {{similar: {{k: 5}}}}}}
"""
        (self.root / "rules.yaml").write_text(self._rules + text)

    def _events(self) -> str:
        case, keys = self.case, ", ".join(self.case.keys)
        landed = f"(ts < '{case.split}' OR ts >= '{case.later}')"
        return (
            f"SELECT DISTINCT {keys}, ts::timestamp AS ts FROM s WHERE {case.events} AND {landed}"
        )

    def events(self) -> list[tuple[Any, ...]]:
        """What the rule finds before it is late, by hand: key values and time."""
        query = f"SELECT * FROM ({self._events()}) WHERE ts < '{self.case.late}'"
        return sorted(self.rows.execute(query).fetchall())

    def first_event_times(self) -> list[datetime]:
        """The first events of alerts that fire, by gaps and islands: their times."""
        case, keys = self.case, ", ".join(self.case.keys)
        query = f"""
        WITH events AS ({self._events()}),
        gaps AS (SELECT *, ts - lag(ts) OVER (PARTITION BY {keys} ORDER BY ts) > INTERVAL {case.keep} minute AS gap
                 FROM events),
        islands AS (SELECT *, count(*) FILTER (WHERE gap) OVER (PARTITION BY {keys} ORDER BY ts) AS n FROM gaps)
        SELECT min(ts) AS first FROM islands GROUP BY {keys}, n
        HAVING max(ts) - min(ts) >= INTERVAL {case.wait} minute AND min(ts) < '{case.late}' ORDER BY first"""
        return [first for (first,) in self.rows.execute(query).fetchall()]

    # What the workspace says

    def moirae(self, *arguments: str) -> str:
        command = [
            sys.executable,
            "-m",
            "moirae",
            *arguments,
            "--workspace",
            str(self.root / "moirae.yaml"),
        ]
        patience = self.case.patience
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def exported(self, what: str) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for line in self.moirae("export", what, "--format", "jsonl").splitlines()
        ]

    def past(self) -> dict[str, Any]:
        rules = json.loads(self.moirae("rules", "list", "-o", "json"))
        return next((rule["history"] or {} for rule in rules if rule["rule"] == "g/Added"), {})

    def materialised(self) -> dict[str, Any] | None:
        """What is known of the past when all recent chunks have a view: the present one may be too
        young to have any of its past decided.
        """
        past = self.past()
        recent = past.get("chunks", {}).get("recent")
        return past if recent and recent["found"] == recent["chunks"] else None

    def have_recalls_ended(self) -> bool:
        """All recalls have ended, and with them all chunks have a view."""
        recalls = json.loads(self.moirae("recalls", "list", "--limit", "1000", "-o", "json"))
        chunks = self.past()["chunks"].values()
        ended = all(row["state"] in ("done", "failed") for row in recalls)
        return bool(recalls) and ended and all(row["found"] == row["chunks"] for row in chunks)

    def until(self, what: str, holds: Callable[[], Any]) -> Any:
        began = time.monotonic()
        while time.monotonic() < began + self.case.patience:
            result = holds()
            if result:
                print(f"{time.monotonic() - began:.0f} s until {what}", flush=True)
                return result
            time.sleep(1)
        raise AssertionError(f"not within {self.case.patience} s: {what}; {self.past()}")
