"""Files that cannot be read: errors of the file and errors of its disk."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from archiver.errors import SourceDamaged, SourceUnreachable
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


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_lines_before_the_damage_of_a_compressed_file_are_read(tmp_path: Path, suffix: str) -> None:
    # Random digits: as long as their block is.
    lines = [f"{number:x}".encode() for number in Random(1).choices(range(1 << 40), k=60_000)]
    content = b"\n".join(lines) + b"\n"
    compressed = (
        gzip.compress(content)
        if suffix == ".gz"
        else pa.compress(content, codec="zstd", asbytes=True)
    )
    path = tmp_path / f"x.log{suffix}"
    for damaged in (compressed[: len(compressed) * 2 // 3], compressed + b"garbage"):
        path.write_bytes(damaged)
        read: list[bytes] = []
        with pytest.raises(SourceDamaged, match="damaged"):
            read.extend(read_lines(path))  # keeps what comes before the error
        assert len(read) > len(lines) // 2
        assert read == lines[: len(read)]
