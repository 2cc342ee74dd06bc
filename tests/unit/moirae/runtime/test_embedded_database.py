"""Failures of the embedded PostgreSQL: what is reported, without a server."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from moirae.errors import MoiraeError
from moirae.runtime import embedded_database

_INITDB_OUTPUT = """Failed postgres command ('initdb',) with kwargs: `{}`:
error:
Command '('initdb',)' returned non-zero exit status 1.
stdout:
creating configuration files ... ok
running bootstrap script ...
stderr:
2026-01-01 00:00:00.000 UTC [7] FATAL:  could not write to file "pg_wal/x": No space left on device
child process exited with exit code 1
initdb: removing data directory "w/.moirae/postgresql"
"""


def test_read_only_file_system_is_reported_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "postgresql.launcher").touch()
    open_file = os.open

    def refuse_writing(path: Any, flags: int, *arguments: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return open_file(path, flags, *arguments)

    monkeypatch.setattr(os, "open", refuse_writing)
    with pytest.raises(MoiraeError) as caught:
        embedded_database.start_embedded_database(tmp_path)
    assert str(caught.value) == (
        f"the embedded database in {tmp_path} did not start: "
        f"{tmp_path}/postgresql.users: Read-only file system"
    )
    assert embedded_database.release_embedded_database(tmp_path)


def test_full_disk_is_the_reason_even_if_other_errors_follow() -> None:
    output = _INITDB_OUTPUT + "PANIC:  cannot abort transaction 1, it was already committed\n"
    assert embedded_database._find_reason([output]) == "No space left on device"


def test_reason_of_a_failed_start_is_the_last_error_in_the_output() -> None:
    output = _INITDB_OUTPUT.replace("No space left on device", "Input/output error")
    reason = embedded_database._find_reason(["initdb: error: x\n", output])
    assert reason == 'could not write to file "pg_wal/x": Input/output error'
    assert embedded_database._find_reason([]) == ""
