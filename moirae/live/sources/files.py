"""Files as source units: JSON Lines or CSV, also with gzip, or Parquet."""

import glob
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.errors import SourceDamaged
from archiver.ingest import BATCH_RECORDS, SourceUnit
from moirae.config import FileFormat
from moirae.errors import Unreachable


@dataclass(frozen=True)
class DiscoveredFile:
    """A listed file of a stream. `modified`: modification time in microseconds; `size`: bytes."""

    stream: str
    path: Path
    modified: int
    size: int


def make_units(
    discovered: Sequence[DiscoveredFile], formats: dict[str, FileFormat], base: Path
) -> list[SourceUnit]:
    """Source units of the files, by stream, modification time and path.

    This order decides which rows are late. Units are named relative to `base`.
    """
    units: list[SourceUnit] = []
    for file in sorted(discovered, key=lambda f: (f.stream, f.modified, str(f.path))):
        name = unit_name(file.path, base)
        units.append(make_unit(file.stream, name, formats[file.stream], file.path))
    return units


def make_unit(stream: str, name: str, file_format: FileFormat, path: Path) -> SourceUnit:
    """The source unit of one file, which is read when the unit is."""
    if file_format == "parquet":
        return SourceUnit(stream, name, None, partial(read_tables, path))
    return SourceUnit(stream, name, file_format, partial(read_lines, path))


def list_files(pattern: str) -> list[Path]:
    """Complete files that match a glob; names of incomplete files begin with `.` or `_`.

    Paths are normalized, as Spark's are: a file has one name.
    """
    paths = map(Path, glob.iglob(os.path.normpath(pattern)))
    return [path for path in paths if not path.name.startswith((".", "_"))]


def stat_files(stream: str, paths: Iterable[Path]) -> list[DiscoveredFile]:
    """Those of the paths that are files, not folders, and still exist."""
    discovered: list[DiscoveredFile] = []
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                modified = status.st_mtime_ns // 1_000_000 * 1000  # Spark has milliseconds, too
                discovered.append(DiscoveredFile(stream, path, modified, status.st_size))
    return discovered


def unit_name(path: Path, base: Path) -> str:
    """The name of a file in the ledger: relative to the workspace, so that it can be moved."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, without line endings; a `.gz` file is decompressed.

    Raises `SourceDamaged` if the file is truncated, missing or not permitted, and `Unreachable` if
    the disk fails.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceDamaged(f"damaged gzip file: {error}") from error
    except OSError as error:
        raise _to_read_error(path, error) from error


def read_tables(path: Path) -> Iterator[pa.Table]:
    """The rows of a Parquet file, in tables of at most `BATCH_RECORDS` rows.

    Raises `SourceDamaged` if the file is invalid, missing or not permitted, and `Unreachable` if
    the disk fails.
    """
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_RECORDS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _to_read_error(path, error) from error
        raise SourceDamaged(f"not a readable Parquet file: {str(error)[:200]}") from error


def _to_read_error(path: Path, error: OSError) -> SourceDamaged | Unreachable:
    """`SourceDamaged` for an error of the file, `Unreachable` for one of its disk.

    The first becomes a dead letter; the second may be temporary.
    """
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return SourceDamaged("the file does not exist or is a directory")
    if isinstance(error, PermissionError):
        return SourceDamaged("cannot read the file: permission denied")
    return Unreachable(f"{path}: cannot read the file: {error.strerror or error}")
