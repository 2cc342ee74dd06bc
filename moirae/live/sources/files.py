"""Files as source units: JSON lines, CSV (plain or packed) or Parquet, by time of modification, then name."""

import glob
import gzip
import zlib
from collections.abc import Iterator, Sequence
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
    """A file that was listed: stream, path, time of modification in microseconds."""

    stream: str
    path: Path
    modified: int


def make_units(
    discovered: Sequence[DiscoveredFile], formats: dict[str, FileFormat], base: Path
) -> list[SourceUnit]:
    """Units of the files, by stream, each in the order that decides what is late. Named relative to `base`."""
    ordered = sorted(discovered, key=lambda f: (f.stream, f.modified, str(f.path)))
    return [
        make_unit(f.stream, unit_name(f.path, base), formats[f.stream], f.path) for f in ordered
    ]


def make_unit(stream: str, name: str, file_format: FileFormat, path: Path) -> SourceUnit:
    """One file as a unit."""
    if file_format == "parquet":
        return SourceUnit(stream, name, None, partial(read_tables, path))
    return SourceUnit(stream, name, file_format, partial(read_lines, path))


def list_files(pattern: str) -> list[Path]:
    """Files that a glob matches now. Names that begin with a dot or an underscore are not complete yet."""
    return [
        Path(found) for found in glob.iglob(pattern) if not Path(found).name.startswith((".", "_"))
    ]


def unit_name(path: Path, base: Path) -> str:
    """A file's name in the ledger: relative to the workspace, so that the workspace can move."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def read_lines(path: Path) -> Iterator[bytes]:
    """Lines without their ends. Raises `SourceDamaged` where a packed file breaks off, is gone or is closed to us, and
    `Unreachable` where the disk fails."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceDamaged(f"packed file is damaged: {error}") from error
    except OSError as error:
        raise _to_read_error(path, error) from error


def read_tables(path: Path) -> Iterator[pa.Table]:
    """Rows of a Parquet file. Raises `SourceDamaged` where it is none, is gone or is closed to us, and `Unreachable`
    where the disk fails."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_RECORDS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _to_read_error(path, error) from error
        raise SourceDamaged(f"not a Parquet file that can be read: {str(error)[:200]}") from error


def _to_read_error(path: Path, error: OSError) -> SourceDamaged | Unreachable:
    """What is wrong with the file itself is kept as a dead letter; what is wrong with its disk may pass."""
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return SourceDamaged("the file is gone, or is none")
    if isinstance(error, PermissionError):
        return SourceDamaged("the file may not be read: permission denied")
    return Unreachable(f"the file {path} cannot be read: {error.strerror or error}")
