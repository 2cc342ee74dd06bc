"""Files that cannot be read: errors of the file and errors of its disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archiver.errors import SourceUnreachable
from archiver.ingest.source_files import read_lines, read_tables

_NOBODY = 65534


@contextmanager
def _as_unprivileged_user() -> Iterator[None]:
    user_id = os.geteuid()
    if user_id != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(user_id)


@pytest.mark.parametrize("read", [read_lines, read_tables])
def test_file_without_permission_may_be_read_later(tmp_path: Path, read: type) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    path.chmod(0)
    with _as_unprivileged_user(), pytest.raises(SourceUnreachable) as raised:
        list(read(path))
    assert str(raised.value) == f"{path}: cannot read the file: Permission denied"


def test_link_to_nothing_may_be_read_later(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.symlink_to(tmp_path / "target")
    for read in (read_lines, read_tables):
        with pytest.raises(SourceUnreachable, match="a symbolic link whose target does not exist"):
            list(read(path))
    (tmp_path / "target").write_bytes(b"{}\n")
    assert list(read_lines(path)) == [b"{}"]


def test_disk_error_is_unreachable_and_names_the_file() -> None:
    path = Path("/proc/self/mem")  # reading where nothing is mapped is an input/output error
    if not path.exists():
        pytest.skip("no /proc here")
    with pytest.raises(SourceUnreachable, match="/proc/self/mem"):
        list(read_lines(path))
