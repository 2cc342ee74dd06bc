"""Files are rewritten, renamed and deleted while the process that reads them is killed at any
moment: each row of a file that stays is archived once, no row twice, and each record is accounted
for.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.changing import FileReader, main, open_reader
from tests.faults.copies import start_copy
from tests.faults.harness import workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
_ROUND = 0.05  # seconds between two changes
_ROWS = 40  # of a new file, at most
WORKSPACE = """
home: .moirae
streams:
  app:
    columns: {ts: timestamp, n: bigint}
    time: ts
    lateness: 1h
    source: {files: landing/*.jsonl}
"""
LOGS = WORKSPACE.replace("    source:", "    identity: place\n    source:")


class Changer:
    """Changes files of a folder, and knows the rows of those that are there, and of all there were.

    A file may be replaced by a longer one, written anew in place, appended to, renamed or deleted.
    """

    copies = 1
    """How many equal lines each row has."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.written: set[int] = set()
        self._rows: dict[Path, list[int]] = {}
        self._folder = folder
        self._rng = rng
        self._row_count = 0
        self._file_count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def present(self) -> set[int]:
        """The rows of the files that are there."""
        return {number for numbers in self._rows.values() for number in numbers}

    def __enter__(self) -> "Changer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_ROUND):
            self._create()
            if len(self._rows) > 3:
                self._rng.choice(self._changes())(self._rng.choice(list(self._rows)))

    def _changes(self) -> list[Callable[[Path], None]]:
        return [self._replace, self._rewrite, self._append, self._rename, self._delete]

    def _make_rows(self) -> list[int]:
        first = self._row_count
        self._row_count += self._rng.randrange(1, _ROWS)
        numbers = list(range(first, self._row_count))
        self.written.update(numbers)
        return numbers

    def _name(self) -> Path:
        self._file_count += 1
        return self._folder / f"{self._file_count}.jsonl"

    def _create(self) -> None:
        path = self._name()
        self._put(path, self._make_rows())

    def _replace(self, path: Path) -> None:
        """By a file with the same rows and further ones."""
        self._put(path, self._rows[path] + self._make_rows())

    def _put(self, path: Path, numbers: list[int]) -> None:
        part = self._folder / f".{path.name}"
        part.write_bytes(self._lines(numbers))
        part.rename(path)
        self._rows[path] = numbers

    def _rewrite(self, path: Path) -> None:
        """With other rows, in two parts: a reader may see a line that ends early."""
        numbers = self._make_rows()
        content = self._lines(numbers)
        cut = self._rng.randrange(len(content))
        with path.open("wb", buffering=0) as file:
            file.write(content[:cut])
            time.sleep(0.005)
            file.write(content[cut:])
        self._rows[path] = numbers

    def _append(self, path: Path) -> None:
        numbers = self._make_rows()
        with path.open("ab") as file:
            file.write(self._lines(numbers))
        self._rows[path] = self._rows[path] + numbers

    def _rename(self, path: Path) -> None:
        target = self._name()
        path.rename(target)
        self._rows[target] = self._rows.pop(path)

    def _delete(self, path: Path) -> None:
        path.unlink()
        del self._rows[path]

    def _lines(self, numbers: list[int]) -> bytes:
        rows = [{"ts": f"2026-01-01T00:00:{number % 60:02}Z", "n": number} for number in numbers]
        return "".join(f"{json.dumps(row)}\n" * self.copies for row in rows).encode()


class LogChanger(Changer):
    """Files are appended to, renamed, rotated and deleted, as logs are; there are equal lines."""

    copies = 2

    def _changes(self) -> list[Callable[[Path], None]]:
        return [self._append, self._append, self._rename, self._rotate, self._delete]

    def _rotate(self, path: Path) -> None:
        """Rename a file that has grown, and create another one under its name."""
        self._append(path)
        self._rename(path)
        self._put(path, self._make_rows())


@pytest.mark.parametrize(
    ("kills", "engine"),
    [
        pytest.param(3, "local", marks=pytest.mark.slow),
        pytest.param(60, "local", marks=pytest.mark.faults),
        pytest.param(20, "spark", marks=pytest.mark.faults),
    ],
)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_log", [False, True])
def test_each_line_of_changing_files_is_archived_once(
    kills: int, engine: str, is_log: bool
) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    changer_type = LogChanger if is_log else Changer
    with workspace(LOGS if is_log else WORKSPACE, "groups: []\n") as root:
        if engine == "spark":
            (root / "spark").touch()
        (root / "landing").mkdir()
        file = root / "moirae.yaml"
        with open_reader(file).connection, changer_type(root / "landing", rng) as changer:
            for _ in range(kills):
                copy = start_copy(main, file)
                time.sleep(rng.uniform(0.5, 3))
                copy.kill()
        reader = open_reader(file)
        archived: Counter[int] = Counter()
        deadline = time.monotonic() + 600
        while not archived.keys() >= changer.present and time.monotonic() < deadline:
            reader.update()
            archived = Counter(reader.archive.tables["app"].read(["n"])["n"].to_pylist())
        assert archived.keys() >= changer.present
        assert archived.keys() <= changer.written
        wrong = {number: n for number, n in archived.items() if n != changer.copies}
        assert not wrong, "rows are archived more or less often than there are lines"
        _check_accounts(reader, archived.total())
        written = len(changer.written) * changer.copies
        print(f"{archived.total():,} of {written:,} lines, {kills} kills")


def _check_accounts(reader: FileReader, archived: int) -> None:
    """Each record of a unit is archived, a duplicate or a dead letter."""
    row = reader.connection.execute(
        "SELECT sum(archived)::int, sum(read)::int, sum(duplicates)::int, sum(malformed)::int, "
        "sum(conflicts)::int FROM units"
    ).fetchone()
    assert row is not None
    assert row[0] == archived
    assert row[1] == row[0] + row[2] + row[3]
    assert row[4] == 0
    letters = reader.connection.execute("SELECT count(*)::int FROM dead_letters").fetchone()
    assert letters == (row[3],)
