"""Machines that share a workspace: the same streams, database and bucket, homes of their own.

Each is a folder of this machine with its own workspace file and processes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from deltalake import DeltaTable
from psycopg import Connection

from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import Unreachable
from moirae.runtime import database, list_processes, list_waiting_processes, machine_name
from moirae.services import tokens
from tests.store import put_object
from tests.workspaces import create_database

WORKSPACE = """
home: home
server: {{listen: "127.0.0.1:0"}}
archive: {bucket}/archive
landing: {bucket}/landing
database: {database}
streams:
  objects:
    columns: {{ts: timestamp, n: bigint}}
    time: ts
    id: [n]
    source: {{files: "{bucket}/in/*.jsonl", ordered: true}}
  posted:
    columns: {{ts: timestamp, n: bigint}}
    time: ts
    id: [n]
    source: {{http: true}}
{more}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: shared
  rules:
  - alert: Seventh
    expr: SELECT n, ts FROM posted WHERE n % 7 = 0
    key: [n]
"""
_DRAIN_TIMEOUT = 900.0  # seconds; a loaded machine takes minutes
_START = 1_767_225_600  # Unix seconds of 2026-01-01


@dataclass
class Machine:
    """One of them. `root`: its folder."""

    root: Path
    settings: Settings
    _up: psutil.Process | None = None

    @property
    def name(self) -> str:
        """The name by which processes know it."""
        return machine_name(self.settings)

    @property
    def log(self) -> str:
        """What its processes have logged."""
        file = self.root / "up.log"
        return file.read_text()[-4000:] if file.exists() else ""

    def up(self) -> None:
        """Start `moirae up`."""
        arguments = ["up", "--parent", str(os.getpid()), "--workspace", str(self.settings.file)]
        with (self.root / "up.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "moirae", *arguments], stdout=log, stderr=log
            )
        self._up = psutil.Process(process.pid)

    def processes(self) -> list[psutil.Process]:
        """`moirae up`, what it runs, and their JVMs."""
        if self._up is None:
            return []
        try:
            return [self._up, *self._up.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """kill -9 of all its processes: as if it had lost power."""
        _signal_all(self.processes(), psutil.Process.kill)
        self._reap()

    def freeze(self) -> None:
        """Stop all its processes where they are."""
        _signal_all(self.processes(), psutil.Process.suspend)

    def thaw(self) -> None:
        """Let frozen processes go on."""
        _signal_all(self.processes(), psutil.Process.resume)

    def down(self) -> None:
        """Stop `moirae up` in order."""
        if self._up is not None:
            with suppress(psutil.NoSuchProcess):
                self._up.terminate()
            self._reap()

    def drain(self) -> None:
        """`moirae up --drain`, which must succeed."""
        command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace"]
        done = subprocess.run(
            [*command, str(self.settings.file)],
            capture_output=True,
            text=True,
            timeout=_DRAIN_TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]

    def child(self, role: str) -> psutil.Process | None:
        """The process of a role that `moirae up` runs, if it runs."""
        for process in self.processes():
            with suppress(psutil.Error):
                if process.cmdline()[1:5] == ["-m", "moirae", "run", role]:
                    return process
        return None

    def has_ended(self) -> bool:
        """Whether `moirae up` has ended by itself."""
        return self._up is None or not self._up.is_running() or _is_zombie(self._up)

    def _reap(self) -> None:
        assert self._up is not None
        with suppress(psutil.NoSuchProcess):
            self._up.wait(60)
        self._up = None


def _signal_all(
    processes: Sequence[psutil.Process], send: Callable[[psutil.Process], object]
) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            send(process)


def _is_zombie(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


@dataclass
class Machines:
    """Two machines, and the input that they have accepted: numbers of rows by stream."""

    one: Machine
    two: Machine
    bucket: str
    connection: Connection[Any]
    token: str
    accepted: dict[str, set[int]] = field(
        default_factory=lambda: {"objects": set(), "posted": set()}
    )
    _number: int = 0
    """The numbers of all rows that were offered are less."""

    def _next_rows(self, count: int) -> tuple[range, bytes]:
        numbers = range(self._number, self._number + count)
        self._number += count
        rows = [{"ts": _START + number, "n": number} for number in numbers]
        return numbers, "".join(json.dumps(row) + "\n" for row in rows).encode()

    def put(self, count: int) -> None:
        """Put rows into the bucket as an object."""
        numbers, content = self._next_rows(count)
        put_object(f"{self.bucket}/in/{numbers[0]:09d}.jsonl", content)
        self.accepted["objects"].update(numbers)

    def post(self, count: int) -> bool:
        """Post rows to the server that listens. False: none has accepted them."""
        numbers, content = self._next_rows(count)
        for row in list_processes(self.connection):
            if not row["role"].startswith("server") or not row["state"].startswith("listening"):
                continue
            url = f"http://{row['state'].rpartition(' ')[2]}/api/v1/ingest/posted"
            headers = {
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/x-ndjson",
            }
            with suppress(httpx.HTTPError):
                answer = httpx.post(url, content=content, headers=headers, timeout=10)
                if answer.status_code == 202:
                    self.accepted["posted"].update(numbers)
                    return True
        return False

    def connect_again(self, seconds: float) -> None:
        """Connect to the database, which was away."""
        deadline = time.monotonic() + seconds
        while True:
            self.connection.close()
            try:
                self.connection = database.connect_database(self.one.settings, "tests")
                return
            except Unreachable:
                assert time.monotonic() < deadline, self.one.log
                time.sleep(0.2)

    def archived(self, stream: str, column: str = "n") -> list[Any]:
        """The numbers of archived rows; those that are archived twice come twice."""
        table = DeltaTable(
            f"{self.bucket}/archive/streams/{stream}", storage_options={"allow_http": "true"}
        )
        return list(table.to_pyarrow_table(columns=[column])[column].to_pylist())

    def counted(self) -> int:
        """The rows that the ledger counts as archived."""
        row = self.connection.execute("SELECT coalesce(sum(archived), 0) FROM units").fetchone()
        assert row is not None
        return int(row[0])

    def runs_live(self, machine: Machine) -> bool:
        """Whether the live process works on a machine."""
        return any(
            row["role"] == "live" and row["state"] == "running" and row["machine"] == machine.name
            for row in list_processes(self.connection)
        )

    def waits(self, machine: Machine) -> bool:
        """Whether `moirae up` of a machine waits for the other one."""
        waiting = list_waiting_processes(self.connection)
        return any(row["role"] == "up" and row["machine"] == machine.name for row in waiting)

    def wait(self, condition: Callable[[], bool], seconds: float) -> float:
        """Until a condition holds; returns the seconds it took."""
        started_at = time.monotonic()
        while not condition():
            assert time.monotonic() < started_at + seconds, (
                f"waited {seconds} s in vain\none: {self.one.log}\ntwo: {self.two.log}"
            )
            time.sleep(0.05)
        return time.monotonic() - started_at

    def wait_until_archived(self, seconds: float) -> float:
        """Until all rows that were accepted are counted; returns the seconds it took."""
        total = sum(map(len, self.accepted.values()))
        return self.wait(lambda: self.counted() >= total, seconds)

    def check(self) -> None:
        """Each accepted row is archived once, and no other is."""
        for stream, accepted in self.accepted.items():
            archived = self.archived(stream)
            assert len(archived) == len(set(archived)), f"{stream}: a row is archived twice"
            missing = accepted - set(archived)
            assert not missing, f"{stream}: {len(missing)} accepted rows are not archived"
            # Rows without an answer may be archived.
            assert max(archived, default=-1) < self._number, f"{stream}: an unknown row is archived"


@contextmanager
def machines(
    folder: Path, bucket: str, more: str = "", rules: str = RULES, dsn: str | None = None
) -> Iterator[Machines]:
    """Two machines of a workspace; everything ends with them. The environment has the bucket's keys.

    `more`: further streams, and other keys after them. `dsn`: of a database; None: a new one.
    """
    database_dsn = json.dumps(dsn or create_database())
    text = WORKSPACE.format(bucket=bucket, database=database_dsn, more=more)
    one, two = (_make_machine(folder / name, text, rules) for name in ("one", "two"))
    with database.connect_database(one.settings, "tests") as connection:
        token = tokens.create_token(connection, "source", "operator")
        running = Machines(one, two, bucket, connection, token)
        try:
            yield running
        finally:
            one.thaw()
            two.thaw()
            one.kill() if one.processes() else None
            two.kill() if two.processes() else None


def _make_machine(root: Path, text: str, rules: str) -> Machine:
    root.mkdir()
    (root / "moirae.yaml").write_text(text)
    (root / "rules.yaml").write_text(rules)
    return Machine(root, load_settings_from_environment(root / "moirae.yaml"))
