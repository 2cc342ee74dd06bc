"""The clock that machines share, and which modules read the clock of their own machine."""

import ast
from pathlib import Path

import pytest

from archiver.clock import SharedClock

ROOT = Path(__file__).parents[3]

# Modules that read the clock of this machine, and why nothing shared depends on it.
LOCAL_CLOCKS = {
    "archiver/background.py": "timers of this process",
    "archiver/clock.py": "until a database was reached",
    "archiver/spark/probe.py": "compares the clocks of machines",
    "archiver/storage/file_cache.py": "files of a local cache",
    "moirae/cli/init.py": "sample rows of a first workspace",
    "moirae/inspect/cluster.py": "compares the clocks of machines",
    "moirae/inspect/stream_sample.py": "a file is sampled without a database",
    "moirae/live/sources/discovery/folders.py": "modification times of local files",
    "moirae/live/sources/growing/growing_stream.py": "modification times of local files",
    "moirae/live/sources/growing/listing.py": "modification times of local files",
    "moirae/live/sources/growing/open_files.py": "modification times of local files",
    "moirae/repair/set_aside.py": "the name of a local folder",
    "recall/corpora.py": "files of local indexes",
}
_READERS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow")}


class _Machine:
    """A machine whose clock differs from that of the database. Times are seconds."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        self.elapsed = 500.0
        self.database = 1_000_000.0
        self.clock = SharedClock(lambda: self.database + self.shift, lambda: self.elapsed)

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        self.database += seconds

    def read(self, request: float, response: float) -> None:
        """Read the database's clock; the times that request and response take."""

        def query() -> float:
            self.sleep(request)
            seconds = self.database
            self.sleep(response)
            return seconds

        assert self.clock.follow(query)

    @property
    def error(self) -> float:
        return self.clock.unix_seconds() - self.database


@pytest.mark.parametrize("shift", [-7200.0, 0.0, 86_400.0])
def test_clock_of_the_machine_counts_until_the_other_was_read(shift: float) -> None:
    machine = _Machine(shift)
    assert machine.error == shift
    machine.read(0.0, 0.0)
    assert machine.error == 0.0
    machine.sleep(3600)
    machine.shift -= 1e6  # somebody sets the clock of this machine
    assert machine.error == 0.0
    assert machine.clock.now().timestamp() == machine.database


def test_error_is_at_most_half_of_the_fastest_answer() -> None:
    machine = _Machine(100.0)
    machine.read(4.0, 0.0)
    assert machine.error == pytest.approx(2.0)
    machine.read(0.1, 0.3)
    assert abs(machine.error) <= 0.4
    before = machine.error
    machine.read(1.0, 9.0)  # a slow answer says little, and moves nothing
    assert machine.error == pytest.approx(before)


def test_clock_of_the_database_that_was_set_is_followed() -> None:
    machine = _Machine(0.0)
    machine.read(0.1, 0.1)
    machine.database += 30.0
    machine.read(0.1, 0.1)
    assert abs(machine.error) <= 0.2


def test_failed_reading_changes_nothing() -> None:
    machine = _Machine(5.0)
    assert not machine.clock.follow(lambda: None)
    assert machine.error == 5.0


def test_only_these_modules_read_the_clock_of_their_machine() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in ("archiver", "moirae", "recall", "sql")
        for path in (ROOT / package).rglob("*.py")
        if _reads_local_clock(path) and not path.is_relative_to(ROOT / "moirae/demo")
    }
    assert found == LOCAL_CLOCKS.keys()


def _reads_local_clock(path: Path) -> bool:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {alias.name for node in imports for alias in node.names}
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in imported
        and (node.value.id, node.attr) in _READERS
        for node in nodes
    )
