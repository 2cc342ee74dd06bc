"""Files as source units: JSON Lines or CSV, also with gzip, or Parquet."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from archiver.ingest import SourceUnit, read_lines, read_tables
from moirae.config import FileFormat


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
        unit = make_unit(file.stream, name, formats[file.stream], file.path, file.size)
        units.append(unit)
    return units


def make_unit(stream: str, name: str, file_format: FileFormat, path: Path, size: int) -> SourceUnit:
    """The source unit of one file of `size` bytes, which is read when the unit is."""
    is_parquet = file_format == "parquet"
    return SourceUnit(
        stream=stream,
        name=name,
        line_format=None if file_format == "parquet" else file_format,
        read=partial(read_tables, path) if is_parquet else partial(read_lines, path),
        path=path,
        size=size,
    )


def list_files(pattern: str) -> list[Path]:
    """Complete files that match a glob; names of incomplete files begin with `.` or `_`."""
    paths = map(Path, glob.iglob(pattern))
    return [path for path in paths if not path.name.startswith((".", "_"))]


def unit_name(path: Path, base: Path) -> str:
    """The name of a file in the ledger: relative to the workspace, so that it can be moved."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)
