"""Copies that are hashed on the way."""

import errno
import os
from hashlib import sha256
from io import BufferedReader, BytesIO
from pathlib import Path
from unittest.mock import patch

import pytest

from moirae.backup.hashed_files import copy_hashed

CONTENT = os.urandom(1_000_003)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def test_file_is_copied_and_hashed(source: Path, tmp_path: Path) -> None:
    with source.open("rb") as file, (tmp_path / "target").open("wb") as target:
        target.write(b"before")
        entry = copy_hashed(file, target)
        target.write(b"after")
    assert (tmp_path / "target").read_bytes() == b"before" + CONTENT + b"after"
    assert (entry.bytes, entry.sha256) == (len(CONTENT), sha256(CONTENT).hexdigest())


def test_rest_of_a_file_is_copied_from_where_it_was_read_to(source: Path, tmp_path: Path) -> None:
    with source.open("rb") as file, (tmp_path / "target").open("wb") as target:
        file.read(10)
        entry = copy_hashed(file, target)
    assert (tmp_path / "target").read_bytes() == CONTENT[10:]
    assert entry.sha256 == sha256(CONTENT[10:]).hexdigest()


def test_what_is_no_file_of_a_disk_is_copied(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(CONTENT[:1000])
    copied = BytesIO()
    with os.fdopen(reader, "rb") as pipe, (tmp_path / "target").open("wb") as target:
        assert copy_hashed(pipe, target).bytes == 1000
    with (tmp_path / "target").open("rb") as file:
        copy_hashed(file, copied)
    with (tmp_path / "again").open("wb") as target:
        assert copy_hashed(BufferedReader(BytesIO(copied.getvalue())), target).bytes == 1000
    assert copied.getvalue() == CONTENT[:1000]


def test_file_system_without_copies_by_the_kernel_is_written(source: Path, tmp_path: Path) -> None:
    refused = OSError(errno.EINVAL, "refused")
    with (
        patch.object(os, "sendfile", side_effect=refused),
        source.open("rb") as file,
        (tmp_path / "target").open("wb") as target,
    ):
        copy_hashed(file, target)
    assert (tmp_path / "target").read_bytes() == CONTENT


def test_full_disk_ends_the_copy(source: Path, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        patch.object(os, "sendfile", side_effect=full),
        source.open("rb") as file,
        (tmp_path / "target").open("wb") as target,
        pytest.raises(OSError, match="No space left"),
    ):
        copy_hashed(file, target)
