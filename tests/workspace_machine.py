"""A state machine of a workspace that lives: streams, columns, sources, relations and rules change
between starts, processes are killed, records come again.

After each start the accounting holds, no record is archived twice, and all readers of a table read
the same rows. What cannot be is refused before anything starts.
"""

import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import duckdb
from deltalake import DeltaTable
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings_from_environment
from moirae.inspect.doctor import run_checks
from moirae.runtime import database
from moirae.runtime.storage.landing_folder import LandingFolder
from tests.faults.harness import workspace
from tests.landing import put_file

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("alpha", "beta", "gamma")
# By optional field: the types that it may be declared with, each of which may become the next one.
TYPES = {"v": ("int", "bigint", "double"), "f": ("float", "double"), "note": ("string",)}


@dataclass
class Stream:
    """A stream, and what was delivered to it. `folder`: of its files. `widths`: positions in `TYPES`,
    of all that were declared; `declared`: the optional columns now.
    """

    name: str
    folder: str
    has_id: bool
    was: str | None = None
    widths: dict[str, int] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    source: str = "first"
    is_declared: bool = True
    delivered: list[dict[str, Any]] = field(default_factory=list)
    records: int = 0
    files: int = 0

    def document(self) -> dict[str, Any]:
        """As the workspace file has it."""
        columns = {"ts": "timestamp", "host": "string", "n": "bigint"}
        for name in sorted(self.declared):
            columns[name] = TYPES[name][self.widths[name]]
        source: dict[str, Any] = {"files": f"landing/{self.folder}/{self.source}/*.jsonl"}
        if self.source == "http":
            source = {"http": True}
        document: dict[str, Any] = {"columns": columns, "time": "ts", "source": source}
        if self.has_id:
            document["id"] = ["host", "n"]
        if self.was is not None:
            document["was"] = self.was
        return document

    def deliver(self, root: Path, rng: random.Random, new: int, again: int) -> None:
        """Put a file of new and of repeated records where the source finds it."""
        records = [rng.choice(self.delivered) for _ in range(again if self.delivered else 0)]
        for _ in range(new):
            number = len(self.delivered)
            ts = (START + timedelta(seconds=number)).isoformat()
            record = {"ts": ts, "host": f"h{number % 3}", "n": number, "v": rng.randrange(200)}
            record |= {"f": rng.random(), "note": rng.choice(("x", 'a "b"', "ä"))}
            self.delivered.append(record)
            records.append(record)
        rng.shuffle(records)
        self.records += len(records)
        self.files += 1
        folder = root / "landing" / self.folder / self.source
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        if self.source == "http":
            landing = LandingFolder(root / ".moirae", self.name)
            with landing.open_batch(f"batch-{self.files:04d}", ".jsonl") as batch:
                batch.write(lines.encode())
        else:
            put_file(folder / f"{self.files:04d}.jsonl", lines)


class Start(NamedTuple):
    """How a start ended. `errors`: what it printed."""

    exit_code: int
    errors: str


class Starter(Protocol):
    """Starts a workspace, in processes of its own or in this one."""

    def drain(self, root: Path) -> Start:
        """Read all input, and end."""

    def start_and_kill(self, root: Path, moment: float) -> None:
        """Start it, and kill all of it after a part of its time, which is between 0 and 1."""


class WorkspaceMachine(RuleBasedStateMachine):
    """Each step changes the workspace, and starts it."""

    spark: SparkSession | None
    starter: Starter

    @initialize(seed=st.integers(0, 1 << 16))
    def make_workspace(self, seed: int) -> None:
        self.stack = ExitStack()
        self.rng = random.Random(seed)
        self.root = self.stack.enter_context(workspace("home: .moirae\nstreams: {}\n", ""))
        self.streams: dict[str, Stream] = {}
        self.threshold = 100
        self.has_relation = False
        for name in NAMES[:2]:
            self._add(name)
        self._write()
        self.settings = load_settings_from_environment(self.root / "moirae.yaml")
        self.connection = database.connect_database(self.settings, "tests")
        self._drain()

    def teardown(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()
            database.release_database(self.settings)
        if hasattr(self, "stack"):
            self.stack.close()

    @rule(name=st.sampled_from(NAMES))
    def add_or_remove_stream(self, name: str) -> None:
        """A stream that comes back goes on."""
        stream = self.streams.get(name)
        if stream is None:
            self._add(name)
        elif not stream.is_declared or len(self._declared()) > 1:
            stream.is_declared = not stream.is_declared
        self._deliver()
        self._drain()

    @rule(name=st.sampled_from(sorted(TYPES)))
    def add_or_remove_column(self, name: str) -> None:
        """Of all streams. The field is in the records all the time."""
        for stream in self._declared():
            if name in stream.declared:
                stream.declared.remove(name)
            else:
                stream.declared.add(name)
                stream.widths.setdefault(name, 0)
        self._deliver()
        self._drain()

    @rule(name=st.sampled_from(["v", "f"]))
    def widen_column(self, name: str) -> None:
        for stream in self._declared():
            stream.declared.add(name)
            width = stream.widths.get(name, -1) + 1
            stream.widths[name] = min(width, len(TYPES[name]) - 1)
        self._deliver()
        self._drain()

    @rule(source=st.sampled_from(["first", "second", "http"]))
    def change_source(self, source: str) -> None:
        """Files of the source before were read."""
        for stream in self._declared():
            stream.source = source
        self._write()
        self._deliver()
        self._drain()

    @rule()
    def rename_streams(self) -> None:
        """Their files stay where they are."""
        for stream in self._declared():
            old_name = stream.name
            stream.name = f"{stream.folder}_now" if old_name == stream.folder else stream.folder
            stream.was = old_name
        self._deliver()
        self._drain()

    @rule()
    def change_rules(self) -> None:
        self.threshold += 10
        self.has_relation = not self.has_relation
        self._deliver()
        self._drain()

    @rule(moment=st.floats(0, 1))
    def kill_at_any_moment(self, moment: float) -> None:
        """All processes at once, then a drain, possibly with other columns."""
        self._deliver()
        self.starter.start_and_kill(self.root, moment)
        # The database may have been a child of what was killed.
        self.connection.close()
        self.connection = database.connect_database(self.settings, "tests")
        if moment > 0.5:
            for stream in self._declared():
                stream.declared ^= {"note"}
                stream.widths.setdefault("note", 0)
        self._drain()

    @rule(kind=st.sampled_from(["narrower type", "other id", "other time"]))
    def declare_what_cannot_be(self, kind: str) -> None:
        """Refused before anything starts; the workspace goes on when it is corrected."""
        stream = self._declared()[0]
        before = self._counts()
        versions = self._table_versions()
        document = stream.document()
        if kind == "narrower type":
            document["columns"]["n"] = "int"
        elif kind == "other id":
            document["id"] = ["n"]
        else:
            document["columns"]["other"] = "timestamp"
            document["time"] = "other"
        self._write({stream.name: document})
        start = self.starter.drain(self.root)
        assert start.exit_code > 0, start
        assert stream.name in start.errors and "Traceback" not in start.errors, start
        assert self._counts() == before and self._table_versions() == versions
        self._deliver()
        self._drain()

    def _add(self, name: str) -> None:
        self.streams[name] = Stream(name, name, has_id=self.rng.random() < 0.5)
        self._write()
        self._deliver()

    def _declared(self) -> list[Stream]:
        return [stream for stream in self.streams.values() if stream.is_declared]

    def _deliver(self) -> None:
        self._write()
        for stream in self._declared():
            stream.deliver(self.root, self.rng, new=self.rng.randint(1, 30), again=10)

    def _write(self, documents: dict[str, Any] | None = None) -> None:
        """Write the workspace file and the rules. `documents`: of streams, instead of theirs."""
        streams = {stream.name: stream.document() for stream in self._declared()}
        document: dict[str, Any] = {
            "home": ".moirae",
            "server": {"listen": "127.0.0.1:0"},
            "streams": streams | (documents or {}),
            "chunks": {"rows": 60, "age": "1m"},
            "rules": ["rules.yaml"],
        }
        if self.has_relation:
            (self.root / "hosts.csv").write_text("host,site\nh0,a\nh1,b\n")
            columns = {"host": "string", "site": "string"}
            source = {"file": "hosts.csv"}
            document["relations"] = {
                "hosts": {"columns": columns, "key": ["host"], "source": source}
            }
        (self.root / "moirae.yaml").write_text(json.dumps(document))
        print(json.dumps(document["streams"]))  # pytest shows it with a failure
        rules = []
        for stream in self._declared():
            query = f"SELECT host, ts, n FROM {stream.name} WHERE n > {self.threshold}"
            if self.has_relation:
                query = f"SELECT s.host, s.ts, s.n, h.site FROM {stream.name} s JOIN hosts h ON s.host = h.host"
            rules.append({"alert": f"High_{stream.name}", "expr": query, "key": ["host"]})
        groups = [{"name": "rules", "rules": rules}]
        (self.root / "rules.yaml").write_text(json.dumps({"groups": groups}))

    def _drain(self) -> None:
        """All that was delivered is read, and everything holds."""
        self._write()
        start = self.starter.drain(self.root)
        print(start.errors[-3000:] if start.exit_code else "drained")
        assert start.exit_code == 0
        self.settings = load_settings_from_environment(self.root / "moirae.yaml")
        problems = [
            finding for finding in run_checks(self.settings, self.connection) if finding.problems
        ]
        assert not problems, problems
        counts = self._counts()
        for stream in self.streams.values():
            archived = len(stream.delivered)
            expected = (stream.records, archived, stream.records - archived)
            assert counts[stream.name] == expected, (stream, counts)
            self._compare_readers(stream)

    def _counts(self) -> dict[str, tuple[int, int, int]]:
        """By stream: records read, archived, and duplicates. Nothing else is counted."""
        rows = self.connection.execute(
            "SELECT stream, sum(read)::int, sum(archived)::int, sum(duplicates)::int FROM units"
            " GROUP BY stream"
        )
        return {stream: (read, archived, again) for stream, read, archived, again in rows}

    def _folder(self, name: str) -> Path:
        return self.root / ".moirae" / "archive" / "streams" / name

    def _table_versions(self) -> dict[str, int]:
        return {
            stream.name: DeltaTable(self._folder(stream.name)).version()
            for stream in self.streams.values()
        }

    def _compare_readers(self, stream: Stream) -> None:
        """DuckDB, delta-rs and Spark read the same rows: each record once, with its values."""
        folder = self._folder(stream.name)
        archived = DeltaTable(folder).to_pyarrow_dataset()
        names = ["n", "host", *sorted(stream.declared)]
        columns = ", ".join(names)
        with duckdb.connect() as connection:
            connection.register("archived", archived)
            query = f"SELECT {columns} FROM archived ORDER BY n"
            by_duckdb = connection.execute(query).fetchall()
        by_delta_rs = archived.to_table(columns=names).sort_by("n").to_pylist()
        rows = [tuple(row.values()) for row in by_delta_rs]
        assert by_duckdb == rows
        if self.spark is not None:
            frame = self.spark.read.format("delta").load(str(folder))
            assert [tuple(row) for row in frame.select(names).orderBy("n").collect()] == rows
        assert [row[0] for row in rows] == list(range(len(stream.delivered)))


def machine_type(starter: Starter, spark: SparkSession | None = None) -> type[WorkspaceMachine]:
    """A machine that starts its workspaces so. `spark`: reads tables, too."""
    return type("Machine", (WorkspaceMachine,), {"spark": spark, "starter": starter})


def run_machine(
    starter: Starter, examples: int, steps: int, spark: SparkSession | None = None
) -> None:
    """Run some sequences of so many steps; the same ones each time. `spark`: reads tables, too."""
    run_state_machine_as_test(
        machine_type(starter, spark),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
        ),
    )


def run_sequence(
    starter: Starter, seed: int, steps: int, spark: SparkSession | None = None
) -> None:
    """Run one sequence of so many steps, drawn by `seed`: each kind of step before any twice.

    Hypothesis begins with its simplest sequence, which is too simple where there is time for one.
    """
    machine = machine_type(starter, spark)()
    rng = random.Random(seed)
    machine.make_workspace(seed=seed)
    kinds: list[Callable[[], None]] = [
        lambda: machine.add_or_remove_stream(name=rng.choice(NAMES)),
        lambda: machine.add_or_remove_column(name=rng.choice(sorted(TYPES))),
        lambda: machine.widen_column(name=rng.choice(["v", "f"])),
        lambda: machine.change_source(source=rng.choice(["second", "http"])),
        machine.rename_streams,
        machine.change_rules,
        lambda: machine.kill_at_any_moment(moment=rng.random()),
        lambda: machine.declare_what_cannot_be(
            kind=rng.choice(["narrower type", "other id", "other time"])
        ),
    ]
    pending: list[Callable[[], None]] = []
    try:
        for _ in range(steps):
            if not pending:
                pending = rng.sample(kinds, len(kinds))
            pending.pop()()
    finally:
        machine.teardown()
