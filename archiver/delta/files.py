"""Data files of a table: what the log knows about them, and what their names say."""

from dataclasses import dataclass, field

from archiver.time_range import TimeRange
from archiver.times import Micros

# File names of this program begin with one of these. Statistics of such files are exact; other
# writers of Delta may truncate times to milliseconds.
UNCLUSTERED_PREFIX = "a-"
CLUSTERED_PREFIX = "c-"
# Rows of other programs that maintenance has rewritten: see `StreamTable.adopt_foreign_files`.
ADOPTED_PREFIX = "f-"
# After the prefix, in names of files that are rewritten for changed columns: see
# `archiver.delta.column_rewrite`. Other names have digits there, or hexadecimal ones.
REWRITTEN_MARK = "r"
# After the prefix, in names of files that hold nothing that can be computed, nor lines that no one
# needs: see `archiver.delta.data_files.rows`.
COMPACT_MARK = "s"
_MAX_TRUNCATION = 999  # microseconds


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. `path` is relative to the table.

    `is_foreign`: another program appended its rows. They are history only: no events come of them,
    and the ledger does not count them. `digest`: of a file that was just written; else the log has
    it, see `archiver.delta.digests`. `ids`: of its rows, see `RowIds.tag`; None: not known.
    `place_bytes`: those of `bytes` that are not the user's columns, of a file that was just written.
    """

    path: str
    chunk: int
    rows: int
    bytes: int
    oldest: Micros
    newest: Micros
    is_foreign: bool = False
    digest: str | None = None
    ids: str | None = None
    place_bytes: int | None = None

    @property
    def has_exact_bounds(self) -> bool:
        """Whether every row has an event time from `oldest` to `newest`.

        False for files of other writers: their statistics may be truncated, and times null.
        """
        return is_written_by_moirae(self.path)

    @property
    def is_clustered(self) -> bool:
        """Whether maintenance has clustered the rows, by its name."""
        return not is_unclustered(self.path)

    def overlaps(self, time_range: TimeRange) -> bool:
        """Whether the file may hold event times in a range."""
        return time_range.overlaps_times(self.oldest, self.newest)


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A superseded file. `removed_at`: milliseconds since 1970. `bytes`: 0 if unknown."""

    removed_at: int
    bytes: int


@dataclass
class ChunkFiles:
    """The files of one chunk in one table, with their total rows and bytes.

    `oldest` and `newest` bound the event times.
    """

    files_by_path: dict[str, DataFile] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    oldest: Micros = 0
    newest: Micros = 0

    @property
    def file_count(self) -> int:
        return len(self.files_by_path)

    def overlaps(self, time_range: TimeRange) -> bool:
        """Whether a file may hold event times in a range."""
        return time_range.overlaps_times(self.oldest, self.newest)

    def add(self, file: DataFile) -> None:
        """Add a committed file; a file of the same path is replaced."""
        self.remove(file.path)
        if self.files_by_path:
            self.oldest = min(self.oldest, file.oldest)
            self.newest = max(self.newest, file.newest)
        else:
            self.oldest = file.oldest
            self.newest = file.newest
        self.files_by_path[file.path] = file
        self.rows += file.rows
        self.bytes += file.bytes

    def remove(self, path: str) -> None:
        """Remove a file that was replaced or deleted. The time bounds are not narrowed."""
        file = self.files_by_path.pop(path, None)
        if file is not None:
            self.rows -= file.rows
            self.bytes -= file.bytes


def upper_bound(path: str, newest: Micros) -> Micros:
    """The latest event time a file may hold, by its statistics."""
    return newest if is_written_by_moirae(path) else newest + _MAX_TRUNCATION


def is_written_by_moirae(path: str) -> bool:
    """Whether a file holds rows that this program archived, by its name."""
    return _name(path).startswith((UNCLUSTERED_PREFIX, CLUSTERED_PREFIX))


def is_unclustered(path: str) -> bool:
    """Whether a file has not been clustered, by its name."""
    return not _name(path).startswith(CLUSTERED_PREFIX)


def is_compact(path: str) -> bool:
    """Whether a file holds nothing that can be computed, by its name."""
    return _name(path).startswith(CLUSTERED_PREFIX + COMPACT_MARK)


def is_rewritten(path: str, mark: str) -> bool:
    """Whether a file is rewritten for changed columns, for those of a mark."""
    _, _, name = _name(path).partition("-")
    return name.startswith(mark)


def is_adopted(path: str) -> bool:
    """Whether a file holds rows of other programs that maintenance has rewritten."""
    return _name(path).startswith(ADOPTED_PREFIX)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
