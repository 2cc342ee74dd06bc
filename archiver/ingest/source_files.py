"""Reading source files: JSON Lines or CSV, also with gzip, or Parquet."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.ingest.source_units import BATCH_RECORDS


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, without line endings; a `.gz` file is decompressed.

    Raises `SourceDamaged` if the file is truncated, missing or not permitted, and
    `SourceUnreachable` if the disk fails.
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

    Raises `SourceDamaged` if the file is invalid, missing or not permitted, and
    `SourceUnreachable` if the disk fails.
    """
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_RECORDS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _to_read_error(path, error) from error
        raise SourceDamaged(f"not a readable Parquet file: {str(error)[:200]}") from error


def _to_read_error(path: Path, error: OSError) -> SourceDamaged | SourceUnreachable:
    """`SourceDamaged` for an error of the file, `SourceUnreachable` for one of its disk.

    The first becomes a dead letter; the second may be temporary.
    """
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return SourceDamaged("the file does not exist or is a directory")
    if isinstance(error, PermissionError):
        return SourceDamaged("cannot read the file: permission denied")
    return SourceUnreachable(f"{path}: cannot read the file: {error.strerror or error}")
