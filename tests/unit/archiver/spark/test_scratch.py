"""Temporary directories of JVMs are removed after their process has ended."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.spark.scratch import scratch_folder

_PROGRAM = """
import sys
from archiver.spark.scratch import scratch_folder
print(scratch_folder(), flush=True)
sys.stdin.read()
"""


def _start_process(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that creates its directory below `base`, and runs until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.fixture
def first(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process, directory = _start_process(tmp_path)
    yield process, directory
    process.kill()
    process.wait()


def test_only_directories_of_ended_processes_are_removed(
    tmp_path: Path, first: tuple[subprocess.Popen[str], Path]
) -> None:
    process, directory = first
    (directory / "blockmgr" / "00").mkdir(parents=True)
    (directory / "liblz4.so").write_bytes(b"x")
    for is_running in (True, False):
        second_process, second_directory = _start_process(tmp_path)
        assert second_directory != directory and second_directory.is_dir()
        assert second_directory.stat().st_mode & 0o077 == 0
        assert directory.exists() is is_running
        second_process.kill()
        second_process.wait()
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["writable by all", "a file", "a dangling link"])
def test_unsafe_base_folder_is_not_used(tmp_path: Path, kind: str) -> None:
    unsafe = tmp_path / f"moirae-{os.getuid()}"
    if kind == "a file":
        unsafe.touch()
    elif kind == "a dangling link":
        unsafe.symlink_to(tmp_path / "nowhere")
    else:
        unsafe.mkdir()
        unsafe.chmod(0o777)
    process, directory = _start_process(tmp_path)
    process.kill()
    process.wait()
    assert directory.parent.parent == tmp_path and directory.parent != unsafe


def test_repeated_calls_return_the_same_directory() -> None:
    assert scratch_folder() == scratch_folder()
