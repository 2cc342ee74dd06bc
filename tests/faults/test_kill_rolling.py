"""A reader sees each row that is not expired once while chunks go from present to expired, and the
process that maintains them is killed at any moment.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from archiver.delta.table import StreamTable
from archiver.ingest.ledger import Catalog
from archiver.time_range import TimeRange
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.inspect.doctor import run_checks
from moirae.runtime import database
from sql.archive import UnitGateway
from tests.faults.copies import start_copy
from tests.faults.harness import workspace
from tests.faults.rolling import RETENTION, START, main, rows
from tests.workspaces import one_stream

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
WORKSPACE = one_stream(rows=1000, keep="6s")


class Look:
    """One reader: what is done, which chunks are kept, then one version of the table, read file by
    file.
    """

    def __init__(self, root: Path) -> None:
        settings = self.settings = load_settings_from_environment(root / "moirae.yaml")
        self.connection = database.connect_database(settings, "reader")
        self.catalog = Catalog(self.connection)
        self.units = UnitGateway(self.connection)
        self._declared = stream_schema("s", settings.streams["s"])
        self._root = Path(settings.archive)
        self._table: StreamTable | None = None

    def read(self) -> int:
        """How many rows were found to be right; 0 where nothing is there, or reading took longer
        than it may.
        """
        done = self.units.finished_names("s")
        if not done:
            return 0
        if self._table is None:
            self._table = StreamTable(self._root, self._declared)
        since = max(
            (c.to_ts or START for c in self.catalog.chunks() if c.state == "expired"), default=START
        )
        began = time.monotonic()
        self._table.refresh()
        files = self._table.data_files(TimeRange(since))
        try:
            parts = [self._table.read_file(file.path, ["n", "ts"]) for file in files]
        except FileNotFoundError:
            assert time.monotonic() - began > RETENTION, (
                "a file of a version that a reader may still read is gone"
            )
            return 0
        counts = Counter(n for part in parts for n in part["n"].to_pylist())
        expected = {n for unit in done for n, ts in rows(int(unit)) if ts >= since}
        assert max(counts.values(), default=1) == 1, "a row is seen twice"
        missing = expected - counts.keys()
        assert not missing, f"{len(missing)} rows are not seen, such as {sorted(missing)[:3]}"
        return len(expected)


@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(1200)
def test_reader_sees_each_row_once(kills: int) -> None:
    """The short run passes all states; in the end `moirae doctor` reports no problem."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with workspace(WORKSPACE, "groups: []\n") as root:
        look, seen = Look(root), 0
        for number in range(kills + 1):
            process = start_copy(main, root / "moirae.yaml")
            try:
                before = len(look.units.finished_names("s"))
                goal = before + (rng.randrange(5, 60) if number < kills else 30)
                while len(look.units.finished_names("s")) < goal or (
                    number == kills and not _expired(look)
                ):
                    assert process.is_alive(), "the process that changes chunks has crashed"
                    seen += look.read()
            finally:
                process.kill()
                process.join()
            seen += look.read()
            print(f"kill {number + 1}: {goal} units, {seen} rows seen", flush=True)
        assert seen > 1000
        states = Counter(chunk.state for chunk in look.catalog.chunks())
        assert states["expired"] and states["recent"] == 2 and states["old"]
        wrong = [
            (finding.check, finding.problems)
            for finding in run_checks(look.settings, look.connection)
            if finding.problems
        ]
        assert not [one for one in wrong if "source" not in one[0]] and len(wrong) <= 1, wrong
        look.connection.close()


def _expired(look: Look) -> bool:
    """Whether a chunk has gone from disk."""
    gone = [
        record.chunk.id
        for record in look.catalog.chunk_records()
        if "forget" in record.completed_versions
    ]
    folder = Path(look.settings.archive) / "streams" / "s"
    return any(not (folder / f"chunk={chunk}").exists() for chunk in gone)
