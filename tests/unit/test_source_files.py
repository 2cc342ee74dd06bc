"""Files that cannot be read: what is wrong with the file, and what is wrong with its disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archiver.errors import SourceDamaged
from moirae.errors import Unreachable
from moirae.live.sources.files import read_lines, read_tables

_NOBODY = 65534


@contextmanager
def _without_rights() -> Iterator[None]:
    mine = os.geteuid()
    if mine != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.mark.parametrize("read", [read_lines, read_tables])
def test_a_file_that_is_closed_to_us_is_damaged(tmp_path: Path, read: type) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    path.chmod(0)
    with _without_rights(), pytest.raises(SourceDamaged, match="permission denied"):
        list(read(path))


def test_a_disk_that_fails_is_an_error_that_names_the_file() -> None:
    path = Path("/proc/self/mem")  # reading where nothing is mapped is an input/output error
    if not path.exists():
        pytest.skip("no /proc here")
    with pytest.raises(Unreachable, match="/proc/self/mem"):
        list(read_lines(path))
