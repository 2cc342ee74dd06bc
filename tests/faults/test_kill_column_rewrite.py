"""kill -9 while files are rewritten for changed columns: before, in and after each file and the
commit. Nothing is lost or doubled, and all readers agree.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings_from_environment
from moirae.inspect.doctor import run_checks
from moirae.runtime import database
from sql.archive import ColumnRewriteGateway, UnitGateway
from tests.faults.copies import start_copy
from tests.faults.harness import workspace
from tests.faults.rewriting import main, numbers, record

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
# Columns of the stream one after the other, each after the change of one or two of them.
COLUMNS = [
    {"host": "string", "n": "int", "v": "int", "f": "float"},
    {"host": "string", "n": "bigint", "v": "bigint", "f": "float"},
    {"machine": "{type: string, was: host}", "n": "bigint", "v": "bigint", "f": "double"},
    {
        "machine": "{type: string, from: host}",
        "n": "bigint",
        "w": "{type: double, was: v}",
        "f": "double",
    },
]
FIELDS = {"machine": "host", "w": "v"}
WORKSPACE = """
home: .moirae
streams:
  s:
    columns: {{ts: timestamp, {columns}}}
    time: ts
    id: [n]
    key: [{key}]
    lateness: 0s
    source: {{http: true}}
  other: {{columns: {{ts: timestamp, n: int}}, time: ts, id: [n], source: {{http: true}}}}
chunks: {{rows: 300, age: 1d, recent: 2}}
rules: []
"""
WAIT = 120.0  # seconds


def _write_workspace(columns: dict[str, str]) -> str:
    listed = ", ".join(f"{name}: {declared}" for name, declared in columns.items())
    return WORKSPACE.format(columns=listed, key=next(iter(columns)))


class _World:
    """The workspace from outside."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.settings = load_settings_from_environment(root / "moirae.yaml")
        self.connection = database.connect_database(self.settings, "tests")
        self.units = UnitGateway(self.connection)
        self.rewrites = ColumnRewriteGateway(self.connection)
        self._spark = spark

    def count(self, stream: str) -> int:
        return len(self.units.finished_names(stream))

    def run(self, rows_of: str, more: int, point: str | None = None, calls: int = 0) -> None:
        """Run the process until it has archived some more units, or has killed itself."""
        goal = self.count(rows_of) + more
        process = start_copy(main, self.root / "moirae.yaml", point, calls)
        deadline = time.monotonic() + WAIT
        try:
            while process.is_alive() and self.count(rows_of) < goal:
                assert time.monotonic() < deadline, self.rewrites.list_all()
                time.sleep(0.02)
            assert process.is_alive() == (point is None), "it ends by its kill point only"
        finally:
            process.kill()
            process.join()

    def read(self, columns: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of the stream; all readers have them, or only delta-rs with other columns."""
        folder = Path(self.settings.archive) / "streams" / "s"
        dataset = DeltaTable(folder).to_pyarrow_dataset()
        names = ["ts", *columns]
        if not set(names) <= set(dataset.schema.names):
            return []  # not rewritten yet
        rows: list[dict[str, Any]] = dataset.to_table(columns=names).sort_by("n").to_pylist()
        selected = ", ".join(names[1:])
        with duckdb.connect() as connection:
            connection.register("archived", dataset)
            query = f"SELECT {selected} FROM archived ORDER BY n"
            by_duckdb = connection.execute(query).fetchall()
        frame = self._spark.read.format("delta").load(str(folder)).orderBy("n")
        by_spark = [tuple(row) for row in frame.select(names[1:]).collect()]
        expected = [tuple(row.values())[1:] for row in rows]
        assert by_duckdb == expected
        assert by_spark == expected
        return rows

    def check(self, columns: dict[str, str]) -> int:
        """Each row of the finished units is there once, with its values. Returns their number."""
        units = map(int, self.units.finished_names("s"))
        expected = {number for unit in units for number in numbers(unit)}
        rows = self.read(columns)
        if rows:
            assert [row["n"] for row in rows] == sorted(expected)
        for row in rows:
            stored = record(row["n"])
            for name in columns:
                assert row[name] == stored[FIELDS.get(name, name)], row
        problems = [
            finding
            for finding in run_checks(self.settings, self.connection)
            if finding.problems and "source" not in finding.check
        ]
        assert problems == []
        return len(rows)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_rewrite_goes_on_after_each_kill(spark: SparkSession) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with workspace(_write_workspace(COLUMNS[0]), "groups: []\n") as root:
        world = _World(root, spark)
        world.run("s", 40)
        for columns in COLUMNS[1:]:
            (root / "moirae.yaml").write_text(_write_workspace(columns))
            world.settings = load_settings_from_environment(root / "moirae.yaml")
            points = [("step", rng.randint(1, 4)), ("file", rng.randint(1, 4))]
            # Before the commit all files are written, so it comes last.
            for point, calls in [*rng.sample(points, len(points)), ("commit", 1)]:
                others = world.count("other")
                world.run("s", 1, point, calls)
                print(f"killed: {point} {calls}, {world.count('other') - others} other units")
                world.check(columns)
            world.run("s", 1, "committed", 1)
            assert world.check(columns) > 0, "committed"
            # A kill at any moment, and none.
            world.run("other", rng.randint(1, 10))
            world.run("s", 12)
            print(f"{world.check(columns)} rows after {columns}")
            assert world.rewrites.list_all() == []
        world.connection.close()
