"""Reading source files: text in any encoding, also with gzip or zstd, or Parquet."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta import StreamSchema
from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.file_names import escape_name
from archiver.formats import Format
from archiver.ingest.source_text import iterate_blocks, open_content, split_lines
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit, UnitBatch, read_batches
from archiver.storage import ObjectPath


def read_lines(
    path: Path | ObjectPath, encoding: str | None = None, *, keep_returns: bool = False
) -> Iterator[bytes]:
    """The lines of a file in UTF-8, without line ends; `.gz` and `.zst` are decompressed.

    `keep_returns`: a carriage return at the end of a line is part of it, as in a quoted field of
    CSV. `encoding`: of the file, None: UTF-8; a mark of UTF-16 at its beginning counts anyway. Raises
    `SourceDamaged` if the file is truncated or missing, and `SourceUnreachable` if it is not
    permitted or the disk fails.
    """
    with _damage_as_error(path), open_content(path) as file:
        yield from split_lines(iterate_blocks(file, encoding), b"\n" if keep_returns else b"\r\n")


def read_blocks(path: Path | ObjectPath, encoding: str | None = None) -> Iterator[bytes]:
    """The content of a file in UTF-8, block by block; see `read_lines`."""
    with _damage_as_error(path), open_content(path) as file:
        yield from iterate_blocks(file, encoding)


def read_content(path: Path | ObjectPath) -> bytes:
    """The content of a file in UTF-8; see `read_lines`."""
    return b"".join(read_blocks(path))


def open_file(
    record_format: Format, path: Path | ObjectPath
) -> Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]:
    """What reads a file of a format, as `SourceUnit.read`."""
    if record_format.is_table:
        return partial(read_tables, path)
    if record_format.has_documents:
        return partial(read_blocks, path, record_format.encoding)
    return partial(read_lines, path, record_format.encoding, keep_returns=record_format.is_csv)


def read_file_batches(
    schema: StreamSchema, path: Path, record_format: Format, clock: int
) -> Iterator[UnitBatch]:
    """Decode a file as a unit that is first read at a time. Raises as `read_lines`."""
    unit = SourceUnit(schema.name, path.name, record_format, open_file(record_format, path))
    return read_batches(unit, schema, clock)


def read_tables(path: Path | ObjectPath) -> Iterator[pa.Table]:
    """The rows of a Parquet file, in tables of at most `BATCH_RECORDS` rows.

    Raises `SourceDamaged` if the file is invalid or missing, and `SourceUnreachable` if it is not
    permitted or the disk fails.
    """
    try:
        with path.open("rb") as content, pq.ParquetFile(content) as file:
            for batch in file.iter_batches(BATCH_RECORDS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _to_read_error(path, error) from error
        raise SourceDamaged(f"not a readable Parquet file: {str(error)[:200]}") from error


def find_open_error(path: Path) -> SourceUnreachable | None:
    """Why a file cannot be opened; None if it can, or is gone."""
    try:
        with path.open("rb"):
            return None
    except OSError as error:
        read_error = _to_read_error(path, error)
        return read_error if isinstance(read_error, SourceUnreachable) else None


@contextmanager
def _damage_as_error(path: Path | ObjectPath) -> Iterator[None]:
    """Raise the errors of reading text as `read_lines` says."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceDamaged(f"damaged gzip file: {error}") from error
    except OSError as error:
        if path.suffix == ".zst" and error.errno is None:
            raise SourceDamaged(f"damaged zstd file: {str(error)[:200]}") from error
        raise _to_read_error(path, error) from error


def _to_read_error(path: Path | ObjectPath, error: OSError) -> SourceDamaged | SourceUnreachable:
    """`SourceDamaged` for an error of the file, `SourceUnreachable` for one of its disk.

    The first becomes a dead letter; the second ends, as when permission is given.
    """
    if isinstance(error, FileNotFoundError) and isinstance(path, Path) and path.is_symlink():
        return SourceUnreachable(
            f"{escape_name(str(path))}: a symbolic link whose target does not exist"
        )
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return SourceDamaged("the file does not exist or is a directory")
    return SourceUnreachable(
        f"{escape_name(str(path))}: cannot read the file: {error.strerror or error}"
    )
