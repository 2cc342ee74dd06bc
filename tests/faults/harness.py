"""A workspace under load in which faults are injected: its producer records what it wrote, its
checker compares by ID.

Everything is started here and stopped by process ID. Randomness comes from a seed that is printed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable
from psycopg import Connection

from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import Unreachable
from moirae.runtime import database
from tests.landing import put_file

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 2s
    source: {files: landing/cpu/*.jsonl}
chunks: {rows: 3000, age: 10s}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: load
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 97
    key: [host]
    id: [n]
    keep_firing_for: 3s
  - alert: Mean
    expr: |
      SELECT host, window.end AS ts, avg(cpu) AS cpu, count(*) AS rows FROM cpu
      GROUP BY host, window(ts, '2 seconds') HAVING avg(cpu) > 55
    key: [host]
    keep_firing_for: 4s
"""
HOSTS = 10


@dataclass
class Producer:
    """Writes files of rows at a steady rate, and remembers every row of every file that has
    appeared.
    """

    landing: Path
    rate: int
    seed: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    failure: BaseException | None = None
    """What has ended it before its time."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    STEP = 0.1

    def start(self) -> None:
        """In a thread of its own."""
        self.landing.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """After the file at hand."""
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self.failure = error

    def _produce(self) -> None:
        rng, due, number = random.Random(self.seed), time.monotonic(), 0
        while not self._stop.is_set():
            number += 1
            now = datetime.now(UTC)
            rows = [self._row(rng, now, number, i) for i in range(int(self.rate * self.STEP))]
            records = [*rows, *self._further_records(rng, now)]
            lines = "".join(json.dumps(record) + "\n" for record in records)
            put_file(self.landing / f"{number:08d}.jsonl", lines)
            self.rows += rows
            due += self.STEP
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _further_records(self, rng: random.Random, now: datetime) -> Sequence[dict[str, Any]]:
        """The records of a file that are no rows."""
        return ()

    def _row(self, rng: random.Random, now: datetime, number: int, i: int) -> dict[str, Any]:
        ts = now - timedelta(microseconds=rng.randrange(100_000))
        return {
            "ts": ts.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "host": f"h{rng.randrange(HOSTS)}",
            "n": number * 10_000 + i,
            "cpu": round(rng.uniform(0, 100), 2),
        }


def _runs_tasks(process: psutil.Process) -> bool:
    """Whether it runs tasks; not if it has ended, also if its parent has not noticed that yet."""
    with suppress(psutil.Error):
        return any("worker_daemon" in part for part in process.cmdline())
    return False


class Stage:
    """One workspace with its processes."""

    def __init__(self, root: Path, seed: int, rate: int = 500) -> None:
        self.root = root
        self.settings: Settings = load_settings_from_environment(root / "moirae.yaml")
        self.producer = Producer(root / "landing" / "cpu", rate, seed)
        self.connection: Connection[Any] = database.connect_database(self.settings, "faults")
        self._up: subprocess.Popen[bytes] | None = None
        self.log = root / "up.log"

    def up(self) -> None:
        """Start `moirae up`."""
        with self.log.open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "moirae",
                "up",
                "--parent",
                str(os.getpid()),
                "--workspace",
                str(self.root / "moirae.yaml"),
            ]
            self._up = subprocess.Popen(command, stdout=log, stderr=log)

    def down(self) -> float:
        """SIGTERM; returns the seconds it took to end."""
        assert self._up is not None
        began = time.monotonic()
        self._up.send_signal(signal.SIGTERM)
        self._up.wait(60)
        return time.monotonic() - began

    def end(self) -> None:
        """All of it, wherever it stands."""
        self.producer.stop()
        if self._up is not None and self._up.poll() is None:
            self._up.terminate()
            self._up.wait(60)
        self.connection.close()
        database.release_database(self.settings)

    def connect_again(self, seconds: float) -> None:
        """The database was away; it may take some time until it is back."""
        deadline = time.monotonic() + seconds
        while True:
            self.connection.close()
            try:
                self.connection = database.connect_database(self.settings, "faults")
                return
            except Unreachable:
                assert time.monotonic() < deadline, (
                    f"no database for {seconds} s; {self.log.read_text()[-3000:]}"
                )
                time.sleep(0.2)

    def alive(self) -> set[str]:
        """The roles that have sent a heartbeat recently."""
        rows = self.connection.execute(
            "SELECT role FROM processes WHERE beat_at > clock_timestamp() - interval '6 s'"
        )
        return {row[0] for row in rows}

    def drain(self) -> None:
        """`moirae up --drain`, which must succeed."""
        command = [
            sys.executable,
            "-m",
            "moirae",
            "up",
            "--drain",
            "--workspace",
            str(self.root / "moirae.yaml"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    def live(self) -> psutil.Process | None:
        """The live process now, if there is one."""
        return self.process("live")

    def process(self, role: str) -> psutil.Process | None:
        """The process of a role now, if there is one: its number may be that of somebody else's by
        now.
        """
        row = self.connection.execute(
            "SELECT pid FROM processes WHERE role = %s", (role,)
        ).fetchone()
        if row is not None:
            with suppress(psutil.Error):
                process = psutil.Process(row[0])
                if str(self.root / "moirae.yaml") in process.cmdline():
                    return process
        return None

    def jvm(self) -> psutil.Process | None:
        """The JVM of the live process now, if there is one."""
        live = self.live()
        try:
            children = live.children(recursive=True) if live else []
            return next((c for c in children if "java" in c.name()), None)
        except psutil.NoSuchProcess:
            return None

    def python_worker(self) -> psutil.Process | None:
        """A process that runs tasks of the live process, if there is one."""
        jvm = self.jvm()
        try:
            children = jvm.children(recursive=True) if jvm else []
        except psutil.NoSuchProcess:
            return None
        workers = list(filter(_runs_tasks, children))
        return workers[-1] if workers else None

    def archived_units(self) -> int:
        """Finished source units."""
        row = self.connection.execute("SELECT count(*) FROM units WHERE done").fetchone()
        assert row is not None
        return int(row[0])

    def wait(self, what: Callable[[], bool], seconds: float) -> None:
        """Until something holds."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, (
                f"waited {seconds} s in vain; {self.log.read_text()[-3000:]}"
            )
            time.sleep(0.1)

    def check(self, besides: Sequence[str] = ()) -> dict[str, int]:
        """Every accepted id exactly once in the archive; events and alerts as of an undisturbed
        run. Figures.

        `besides`: rules that are not looked at.
        """
        assert self.producer.failure is None, self.producer.failure
        expected = {(row["host"], row["n"]) for row in self.producer.rows}
        table = DeltaTable(self.root / ".moirae" / "archive" / "streams" / "cpu").to_pyarrow_table()
        archived = list(zip(table["host"].to_pylist(), table["n"].to_pylist(), strict=True))
        assert len(archived) == len(set(archived)), "a row is archived twice"
        assert set(archived) == expected, (
            f"{len(expected - set(archived))} accepted rows are not in the archive"
        )
        late = sum(table["_late"].to_pylist())
        on_time = table.filter(~table["_late"].to_numpy(zero_copy_only=False)).to_pylist()
        events = self._events(on_time)
        query = "SELECT rule, eid, ts, key->>'host' FROM events WHERE settled AND rule <> ALL(%s)"
        stored = self.connection.execute(query, (list(besides),)).fetchall()
        found = [(rule, ts, host) for rule, _, ts, host in stored]
        missing, unexpected = set(events) - set(found), set(found) - set(events)
        assert not missing, f"{len(missing)} events are missing: {sorted(missing)[:5]}"
        assert not unexpected, f"{len(unexpected)} unexpected events: {sorted(unexpected)[:5]}"
        assert len(found) == len(events)
        assert len({(r, e) for r, e, *_ in stored}) == len(stored)
        self._check_alerts(events, besides)
        return {"rows": len(expected), "late": late, "events": len(events)}

    def _events(self, rows: list[dict[str, Any]]) -> list[tuple[str, datetime, str]]:
        high = [("load/High", row["ts"], row["host"]) for row in rows if row["cpu"] > 97]
        windows: dict[tuple[str, int], list[float]] = {}
        for row in rows:
            windows.setdefault((row["host"], int(row["ts"].timestamp() // 2)), []).append(
                row["cpu"]
            )
        mean = [
            ("load/Mean", datetime.fromtimestamp(2 * (number + 1), UTC), host)
            for (host, number), values in windows.items()
            if sum(values) / len(values) > 55
        ]
        return high + mean

    def _check_alerts(
        self, events: list[tuple[str, datetime, str]], besides: Sequence[str]
    ) -> None:
        keep = {"load/High": timedelta(seconds=3), "load/Mean": timedelta(seconds=4)}
        expected: set[tuple[str, str, datetime, datetime]] = set()
        for rule in keep:
            for host in {h for r, _, h in events if r == rule}:
                times = sorted(ts for r, ts, h in events if (r, h) == (rule, host))
                start = last = times[0]
                for ts in [*times[1:], None]:
                    if ts is None or ts > last + keep[rule]:
                        expected.add((rule, host, start, last + keep[rule]))
                        start = ts or start
                    last = ts or last
        query = "SELECT rule, key->>'host', starts_at, ends_at FROM alerts WHERE state = 'resolved' AND rule <> ALL(%s)"
        stored = self.connection.execute(query, (list(besides),)).fetchall()
        assert len(stored) == len(set(stored))
        assert set(stored) == expected
        unsettled = self.connection.execute(
            "SELECT count(*) FROM alerts WHERE state NOT IN ('resolved', 'withdrawn')"
        )
        assert unsettled.fetchone() == (0,)


@contextmanager
def workspace(settings: str, rules: str) -> Iterator[Path]:
    """A workspace in a folder that the database's own user can reach; it ends with it."""
    root = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(settings)
    (root / "rules.yaml").write_text(rules)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def stage(seed: int, rate: int = 500, engine: str = "auto", rules: str = RULES) -> Iterator[Stage]:
    """A stage; everything in it ends with it."""
    with workspace(f"{WORKSPACE}engine: {engine}\n", rules) as root:
        system = Stage(root, seed, rate)
        try:
            yield system
        finally:
            system.end()


def kill(process: psutil.Process | None) -> bool:
    """kill -9; whether there was something to kill."""
    if process is None:
        return False
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


def ended(process: psutil.Process) -> bool:
    """Whether a process does nothing any more; who should have reaped it may be gone."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
