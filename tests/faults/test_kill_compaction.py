"""An archive of a released version and one of today are compacted while live, recall and readers run,
and all of them are killed at random: no row, event, alert or answer changes, and damage is found.

`MOIRAE_FAULT_KILLS` says how often (50 for the whole test), `MOIRAE_FAULT_SEED` when; `-k` chooses an
archive.
"""

import gzip
import json
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from deltalake import DeltaTable

from archiver.delta import is_compact
from moirae.config import load_settings_from_environment
from tests.commands import Commands
from tests.compatibility import make_small_workspace as small
from tests.compatibility.workspace import (
    EXPORTS,
    MORE,
    answers,
    holds,
    lasting,
    public_folder,
    restore,
    rows_by_id,
    running_database,
    unpack,
)
from tests.faults.compacting import Rows, compact_slowly, read_rows, read_tables
from tests.faults.copies import start_copy
from tests.faults.harness import Stage, kill

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "6"))
_KILLS_OF_WORLD = 13  # then an archive that is not compacted takes the place of one that is
_LONGEST_RUN = 4.0  # seconds between two kills
_FEED_INTERVAL = 0.1  # seconds
_REPEATED = 8  # events whose answers are computed again
_PACKAGE = Path(__file__).parents[1] / "compatibility" / "v0_1_0"

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


class World(Protocol):
    """A stopped workspace, what comes while it runs, and what must be the case in the end."""

    root: Path
    feed: Iterator[tuple[str, bytes]]
    """Names below the folder of landing files, and contents, in the order of time."""
    asked: Sequence[str]
    """Events with recalls."""

    def check(self, now: dict[str, Any]) -> None:
        """Compare what the command line says."""


@dataclass
class Released:
    """A workspace of a released version, as it was packed."""

    root: Path
    described: dict[str, Any]
    feed: Iterator[tuple[str, bytes]] = field(init=False)

    LINES = 12  # of a file

    def __post_init__(self) -> None:
        self.feed = iter(list(self._split()))
        self.asked = sorted({row["eid"] for row in self.described["before"]["recalls"]})

    def _split(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted((self.root / MORE).glob("*/*")):
            is_packed = path.suffix == ".gz"
            lines = (gzip.decompress if is_packed else bytes)(path.read_bytes()).splitlines(True)
            header = [lines.pop(0)] if is_packed else []
            for number, start in enumerate(range(0, len(lines), self.LINES)):
                content = b"".join(header + lines[start : start + self.LINES])
                name = f"{path.parent.name}/{number:03}-{path.name}"
                yield name, gzip.compress(content) if is_packed else content

    def check(self, now: dict[str, Any]) -> None:
        before, after = self.described["before"], self.described["after"]
        for kind in EXPORTS:
            expected = rows_by_id(before[kind], kind) | rows_by_id(after[kind], kind)
            actual = rows_by_id(now[kind], kind)
            assert actual.keys() == expected.keys(), kind
            for name, rows in expected.items():
                expected_rows = [lasting(row, kind) for row in rows]
                assert holds(actual[name], expected_rows), (actual[name], rows)
        for what in ("chunks", "rules"):
            assert now[what] == after[what]
        assert {name: now["streams"][name] for name in after["streams"]} == after["streams"]


@dataclass
class Present:
    """A workspace that this version made, with rows of closed chunks that come late or again."""

    root: Path
    rng: random.Random
    rows: list[dict[str, Any]] = field(default_factory=list)
    late: int = 0
    repeated: int = 0
    jobs: int = 0

    HISTORY = 400  # rows, one for each minute
    PAUSE = 60  # minutes: a drain settles what may follow, and rows of that time are late
    STEP = 5  # rows of a file

    def __post_init__(self) -> None:
        small.write(self.root, "moirae.yaml", small.WORKSPACE.encode())
        small.write(self.root, "rules/hosts.yaml", small.RULES.encode())
        for start in range(0, self.HISTORY, 50):
            rows = small.cpu_rows(start, start + 50)
            self.rows += rows
            small.write(self.root, f"landing/cpu/{start:06}.jsonl", small.lines_of(rows))
            small.write(
                self.root, f"landing/jobs/{start:06}.csv.gz", small.job_lines(start, start + 50)
            )
        self.jobs = len(self.rows)
        with Commands(self.root) as process:
            process.output("up", "--drain")
            described = answers(process)
        assert len(described["events"]) == self.HISTORY // 40
        self.asked = sorted({row["eid"] for row in described["recalls"]})
        self._before = described
        self.feed = self._feed()

    def _feed(self) -> Iterator[tuple[str, bytes]]:
        start = self.HISTORY + self.PAUSE
        while True:
            rows = small.cpu_rows(start, start + self.STEP)
            again = self.rng.sample(self.rows, 3)
            self.repeated += len(again)
            self.rows += rows
            others = []
            if self.rng.random() < 0.3:
                late = small.START + timedelta(
                    minutes=self.rng.randrange(start - 60), microseconds=start
                )
                others = [{"ts": late.isoformat(), "host": "late-1", "n": start, "cpu": 1.0}]
                self.late += 1
            yield f"cpu/{start:06}.jsonl", small.lines_of([*rows, *again, *others])
            self.jobs += self.STEP
            yield f"jobs/{start:06}.csv.gz", small.job_lines(start, start + self.STEP)
            start += self.STEP

    def check(self, now: dict[str, Any]) -> None:
        for kind, id_name in EXPORTS.items():
            known = {row[id_name] for row in self._before[kind]}
            assert known <= {row[id_name] for row in now[kind]}, kind
        counters = now["streams"]["cpu"]
        expected = {
            "archived": len(self.rows) + self.late,
            "duplicates": self.repeated,
            "late": self.late,
            "conflicts": 0,
            "rows": len(self.rows) + self.late,
        }
        assert {name: counters[name] for name in expected} == expected
        assert now["streams"]["jobs"]["rows"] == self.jobs
        high = {row["ts"].replace("+00:00", "Z"): row for row in self.rows if row["cpu"] > 90}
        assert {row["ts"]: row["key"]["host"] for row in now["events"]} == {
            ts: row["host"] for ts, row in high.items()
        }
        assert len(now["events"]) == len(high)
        assert sorted(row["starts_at"] for row in now["alerts"]) == sorted(high)
        times = {row["eid"]: row["ts"] for row in now["events"]}
        assert {row["eid"] for row in now["recalls"]} == set(times)
        for row in now["recalls"]:
            assert row["final"], row
            self._check_norm(high[times[row["eid"]]], row["answer"])

    def _check_norm(self, event: dict[str, Any], answer: Any) -> None:
        values = []
        for row in self.rows:
            if row["host"] == event["host"] and row["ts"] < event["ts"]:
                values.append(row["cpu"])
        mean = statistics.fmean(values) if values else None
        assert holds(answer, [{"mean": mean, "n": len(values)}]), (event, answer)


@contextmanager
def _open(name: str, rng: random.Random) -> Iterator[World]:
    with public_folder() as root:
        if name == "today":
            (root / ".moirae").mkdir()
            with running_database(root):
                yield Present(root, rng)
            return
        dump = unpack(_PACKAGE / "workspace.tar.xz", root)
        described = json.loads((_PACKAGE / "answers.json").read_text())
        with running_database(root) as server:
            restore(server, dump)
            yield Released(root, described)


class _Running:
    """A workspace that runs, is compacted and read, and parts of which are killed."""

    def __init__(self, world: World, rng: random.Random, columns: dict[str, list[str]]) -> None:
        self._world = world
        self._rng = rng
        self.stage = Stage(world.root, SEED)
        self._archive = Path(self.stage.settings.archive)
        self.before: Rows = read_rows(self._archive, columns)
        self.reads = world.root / "reads.log"
        self._copies = {"compactor": self._start_compactor(), "reader": self._start_reader()}
        self.stage.up()

    def _start_compactor(self) -> Any:
        log = self._world.root / "compact.log"
        return start_copy(compact_slowly, self._world.root / "moirae.yaml", log)

    def _start_reader(self) -> Any:
        return start_copy(read_tables, self._archive, self.before, self.reads)

    def run(self, seconds: float) -> None:
        """Bring files for some time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._bring_next()
            for name, copy in self._copies.items():
                log = self._world.root / "compact.log"
                assert copy.is_alive(), (name, log.read_text()[-2000:] if log.exists() else "")
            time.sleep(_FEED_INTERVAL)

    def _bring_next(self) -> bool:
        following = next(self._world.feed, None)
        if following is not None:
            name, content = following
            path = self._world.root / "landing" / name
            hidden = path.with_name(f".{path.name}")
            hidden.write_bytes(content)
            hidden.rename(path)
        return following is not None

    def kill_one(self) -> str:
        """Returns what was killed; it is started again."""
        victim = self._rng.choice(["live", "recall", "compactor", "compactor", "reader"])
        if victim in self._copies:
            self._copies[victim].kill()
            self._copies[victim].join()
            start = self._start_compactor if victim == "compactor" else self._start_reader
            self._copies[victim] = start()
        else:
            self.stage.wait(lambda: kill(self.stage.process(victim)), 120)
        return victim

    def finish(self) -> None:
        """Stop all; what is left of a released workspace's files is there for a drain."""
        for copy in self._copies.values():
            copy.kill()
            copy.join()
        if isinstance(self._world, Released):
            while self._bring_next():
                pass
        self.stage.down()


def _run_world(name: str, kills: int, rng: random.Random) -> None:
    with _open(name, rng) as world:
        settings = load_settings_from_environment(world.root / "moirae.yaml")
        archive = Path(settings.archive)
        columns = {}
        for stream, declared in settings.streams.items():
            if any((archive / "streams" / stream).glob("chunk=*/*.parquet")):
                columns[stream] = list(declared.columns)
        running = _Running(world, rng, columns)
        try:
            for number in range(kills):
                running.run(rng.uniform(0.3, _LONGEST_RUN))
                print(f"kill {number + 1}: {running.kill_one()}", flush=True)
            running.stage.wait(lambda: {"live", "recall"} <= running.stage.alive(), 120)
            running.run(2.0)
            running.finish()
            with Commands(world.root) as process:
                process.output("up", "--drain")
                process.output("archive", "compact")
                process.output("doctor")
                world.check(answers(process))
                for eid in rng.sample(world.asked, min(_REPEATED, len(world.asked))):
                    process.output("recalls", "repeat", eid)
                assert running.reads.read_text().count("read") > 0
                for stream, (names, rows) in running.before.items():
                    found = set(read_rows(archive, {stream: names})[stream][1])
                    assert set(rows) <= found
                _flip_a_byte(archive / "streams" / "cpu")
                output = process.output("doctor", code=1)
                assert "damaged" in output, output
        finally:
            running.finish()
            running.stage.end()


def _flip_a_byte(folder: Path) -> None:
    """In the middle of a compact file, of which there must be some."""
    paths = sorted(DeltaTable(folder).file_uris())
    path = next(Path(path.removeprefix("file://")) for path in paths if is_compact(path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["v0_1_0", "today"])
def test_nothing_changes_while_files_are_rewritten(name: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(f"{SEED} {name}")
    left = (KILLS + 1) // 2
    while left > 0:
        kills = min(left, _KILLS_OF_WORLD)
        _run_world(name, kills, rng)
        left -= kills
