"""`moirae setup`: jars from a folder are verified."""

import hashlib
from pathlib import Path
from unittest.mock import patch

import pytest

from archiver.errors import ArchiverError
from archiver.spark import install


def test_jars_are_copied_from_a_folder_only_if_they_are_the_locked_ones(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "installed" / "jars"
    source.mkdir()
    target.parent.mkdir()
    (source / "a.jar").write_bytes(b"a")
    (source / "other.jar").write_bytes(b"b")
    lock = {"a.jar": hashlib.sha256(b"a").hexdigest()}
    with (
        patch.object(install, "JARS", target),
        patch.object(install, "INSTALL_FOLDER", target.parent),
    ):
        install._provide_jars(lock, source)
        assert [path.name for path in target.iterdir()] == ["a.jar"]
        (target / "a.jar").write_bytes(b"changed")
        (source / "a.jar").write_bytes(b"x")
        with pytest.raises(ArchiverError, match=r"a\.jar: checksum differs"):
            install._provide_jars(lock, source)
        (source / "a.jar").unlink()
        with pytest.raises(ArchiverError, match=r"source/a\.jar: is missing"):
            install._provide_jars(lock, source)
