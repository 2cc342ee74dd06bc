"""Files as source units: JSON lines or CSV, plain or packed, in order of modification time, then name."""

import glob
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from archiver.decode import Format
from archiver.ingest import SourceDamaged, Unit


@dataclass(frozen=True)
class Appeared:
    """A file that was listed: stream, path, time of modification in microseconds."""

    stream: str
    path: Path
    modified: int


def units(appeared: Sequence[Appeared], formats: dict[str, Format], base: Path) -> list[Unit]:
    """Units of the files, by stream, each in the order that decides what is late. Named relative to `base`."""
    ordered = sorted(appeared, key=lambda f: (f.stream, f.modified, str(f.path)))
    return [Unit(f.stream, name(f.path, base), formats[f.stream], partial(lines, f.path)) for f in ordered]


def listed(pattern: str) -> list[Path]:
    """Files that a glob matches now. Names that begin with a dot or an underscore are not complete yet."""
    return [Path(found) for found in glob.iglob(pattern) if not Path(found).name.startswith((".", "_"))]


def name(path: Path, base: Path) -> str:
    """A file's name in the ledger: relative to the workspace, so that the workspace can move."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def lines(path: Path) -> Iterator[bytes]:
    """Lines without their ends. Raises `SourceDamaged` where a packed file breaks off or the file is gone."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\r\n")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise SourceDamaged("the file is gone, or is none") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceDamaged(f"packed file is damaged: {error}") from error
