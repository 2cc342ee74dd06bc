"""Each complete line of growing files is archived once, while they grow and rotate in all ways and
the process that reads them is killed at any moment. Equal lines are lines of their own.
"""

import gzip
import os
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.copies import start_copy
from tests.faults.harness import workspace
from tests.faults.tailing import main, open_reader
from tests.growing_files import STREAM, TEXT

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
LINES_PER_SECOND = 500
_ROUND = 0.02  # seconds between two writes


class Producer:
    """Writes lines to `app.log` and rotates it: a third of the lines equal the one before.

    What is rotated stays until the end: a file that is deleted before it is read is lost.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.lines: Counter[str] = Counter()
        self._folder = folder
        self._rng = rng
        self._log = folder / "app.log"
        self._rotations = 0
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        rotate_at = time.monotonic() + 2
        written_at = time.monotonic()
        while not self._stop.is_set():
            time.sleep(_ROUND)
            now = time.monotonic()
            self._write(max(1, round((now - written_at) * LINES_PER_SECOND)))
            written_at = now
            if now > rotate_at:
                self._rotate()
                rotate_at = now + self._rng.uniform(1, 4)

    def _write(self, count: int) -> None:
        texts = []
        for _ in range(count):
            if self._rng.random() > 0.33:
                self._number += 1
            texts.append(f"line {self._number}")
        content = "".join(f"2026-01-01T00:00:00Z {text}\n" for text in texts).encode()
        # A line may be written in two parts.
        cut = self._rng.randrange(len(content)) if self._rng.random() < 0.2 else len(content)
        with self._log.open("ab", buffering=0) as file:
            file.write(content[:cut])
            if cut < len(content):
                time.sleep(0.005)
                file.write(content[cut:])
        self.lines.update(texts)

    def _rotate(self) -> None:
        self._rotations += 1
        target = self._folder / f"app.log.{self._rotations}"
        kind = self._rng.choice(["rename", "copytruncate", "compress"])
        if kind == "copytruncate":
            shutil.copy(self._log, target)
            os.truncate(self._log, 0)
            return
        self._log.rename(target)
        if kind == "compress":
            packed = self._folder / f"app.log.{self._rotations}.gz"
            part = self._folder / "packing"
            part.write_bytes(gzip.compress(target.read_bytes()))
            part.rename(packed)
            target.unlink()


@pytest.mark.parametrize(
    ("kills", "engine"),
    [
        pytest.param(3, "local", marks=pytest.mark.slow),
        pytest.param(100, "local", marks=pytest.mark.faults),
        pytest.param(25, "spark", marks=pytest.mark.faults),
    ],
)
@pytest.mark.timeout(3600)
def test_each_line_is_archived_once(tmp_path: Path, kills: int, engine: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    logs = tmp_path / "logs"
    logs.mkdir()
    stream = STREAM.format(files=f"{logs}/app.log*", format=TEXT, options="")
    with workspace(f"home: .moirae\n{stream}", "groups: []\n") as root:
        if engine == "spark":
            (root / "spark").touch()
        file = root / "moirae.yaml"
        with open_reader(file, spark=False).connection, Producer(logs, rng) as producer:
            for _ in range(kills):
                copy = start_copy(main, file)
                time.sleep(rng.uniform(0.5, 2.5))
                copy.kill()
        reader = open_reader(file, spark=engine == "spark", drain=True)
        expected = producer.lines
        deadline = time.monotonic() + 600
        archived: Counter[str] = Counter()
        while archived.total() < expected.total() and time.monotonic() < deadline:
            reader.input.update()
            time.sleep(0.05)
            archived = Counter(
                reader.archive.tables["app"].read(["message"])["message"].to_pylist()
            )
        assert archived.total() == expected.total(), (archived.total(), expected.total())
        assert archived == expected
        lost = reader.connection.execute("SELECT count(*) FROM lost_records").fetchone()
        assert lost == (0,)
        print(f"{expected.total():,} lines, {kills} kills")
