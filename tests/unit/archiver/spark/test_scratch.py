"""What a JVM puts aside goes with its process, or with the next one's start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.spark.scratch import scratch_folder

_MAKE = "import sys; from archiver.spark.scratch import scratch_folder; print(scratch_folder(), flush=True); sys.stdin.read()"


def _process(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a directory."""
    made = subprocess.Popen(
        [sys.executable, "-c", _MAKE],
        env={**os.environ, "TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    return made, Path(made.stdout.readline().strip())


@pytest.fixture
def first(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process, directory = _process(tmp_path)
    yield process, directory
    process.kill()
    process.wait()


def test_what_a_killed_process_has_left_is_removed_and_a_living_ones_is_not(
    tmp_path: Path, first: tuple[subprocess.Popen[str], Path]
) -> None:
    process, directory = first
    (directory / "blockmgr" / "00").mkdir(parents=True)
    (directory / "liblz4.so").write_bytes(b"x")
    for lives in (True, False):
        other, own = _process(tmp_path)
        assert own != directory and own.is_dir() and own.stat().st_mode & 0o077 == 0
        assert directory.exists() is lives
        other.kill()
        other.wait()
        process.kill()
        process.wait()


@pytest.mark.parametrize("what", ["open to all", "a file", "a link to nowhere"])
def test_a_name_that_others_have_taken_is_not_used(tmp_path: Path, what: str) -> None:
    taken = tmp_path / f"moirae-{os.getuid()}"
    if what == "a file":
        taken.touch()
    elif what == "a link to nowhere":
        taken.symlink_to(tmp_path / "nowhere")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    process, directory = _process(tmp_path)
    process.kill()
    process.wait()
    assert directory.parent.parent == tmp_path and directory.parent != taken


def test_a_process_has_one(tmp_path: Path) -> None:
    assert scratch_folder() == scratch_folder()
