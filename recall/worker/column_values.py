"""The least and greatest values of columns in the files of the archive, collected while it is idle.

They promise where outliers are, and bound what has not been read. NaN is not among the values.
"""

import math
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from cachetools import LRUCache
from deltalake.exceptions import DeltaError

from archiver.errors import ArchiverError
from archiver.read import Reader
from recall.engines import Template
from recall.requests import Piece
from recall.scheduling import NO_VALUES, ValueRange, enclose_values

_LOG = structlog.get_logger()

# How long files are read before a recall starts: the values of the others are not known to it.
_READ_TIME = 0.2  # seconds
_MAX_FILES = 100_000  # in memory
_ERRORS = (ArchiverError, DeltaError, OSError, pa.ArrowException)


class ColumnValues:
    """The values of columns that recalls are ordered by, by file; files never change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # By path and column; None: not known.
        self._by_file: LRUCache[tuple[str, str], ValueRange | None] = LRUCache(_MAX_FILES)
        # (stream, column) pairs in the order of their first use.
        self._requested: dict[tuple[str, str], None] = {}

    def find(self, template: Template, pieces: Sequence[Piece]) -> list[ValueRange | None]:
        """The values that the column of a question's order has in pieces; None: not known."""
        column = template.question.extreme
        assert column is not None
        (stream,) = template.partial.inputs.streams
        self._requested[stream, column] = None
        deadline = time.monotonic() + _READ_TIME
        try:
            self._reader.refresh([stream])
            return [self._find_in_piece(stream, column, piece, deadline) for piece in pieces]
        except _ERRORS as error:
            _report(error)
            return [None] * len(pieces)

    def index_next_file(self) -> bool:
        """Read the values of one more file, newest files first; False: none is left."""
        for stream, column in self._requested:
            try:
                self._reader.refresh([stream])
                for path in reversed(self._reader.local_paths(stream)):
                    if (path, column) not in self._by_file:
                        self._by_file[path, column] = self._read(stream, path, column)
                        return len(self._by_file) < _MAX_FILES
            except _ERRORS as error:
                _report(error)
        return False

    def _find_in_piece(
        self, stream: str, column: str, piece: Piece, deadline: float
    ) -> ValueRange | None:
        values: list[ValueRange | None] = [NO_VALUES]
        for path in self._reader.local_paths(stream, piece.range, piece.chunk):
            key = path, column
            if key not in self._by_file:
                if time.monotonic() > deadline:
                    return None
                self._by_file[key] = self._read(stream, path, column)
            values.append(self._by_file[key])
        return enclose_values(values)

    def _read(self, stream: str, path: str, column: str) -> ValueRange | None:
        """The values of a column in a file; None: they have no bounds."""
        schema = self._reader.schema(stream)
        names = [column, *([schema.was[column]] if column in schema.was else [])]
        with pq.ParquetFile(self._reader.open_data_file(stream, path)) as file:
            stored = [name for name in names if name in file.schema_arrow.names]
            if not stored:
                return NO_VALUES
            values = NO_VALUES
            for part in file.iter_batches(columns=stored[:1]):
                enclosed = enclose_values([values, _measure(part[0])])
                if enclosed is None:
                    return None
                values = enclosed
            return values


def _measure(values: pa.Array) -> ValueRange | None:
    """The least and the greatest of some values; None: infinite, or no numbers or times."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    elif not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        if not pa.types.is_decimal(values.type):
            return None
        values = values.cast(pa.float64())
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    bounds = pc.min_max(values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return NO_VALUES
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    return ValueRange(low, high)


def _report(error: Exception) -> None:
    _LOG.warning("values of files not known", action="column_values_failed", error=str(error))
