"""Which keys a piece of history holds, known from files that were looked through while nobody asked anything."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from deltalake.exceptions import DeltaError

from archiver.errors import ArchiverError
from archiver.read import Reader
from recall.engines import Template
from recall.requests import Piece, RecallEvent

_LOG = structlog.get_logger()

# Keys of a file, beyond which it is not summarised; files in memory.
_MAX_KEYS_PER_FILE, _MAX_FILES = 4096, 20_000


class KeyCounts:
    """How many rows each file has of each key; files never change. `None`: too many keys, or it cannot be read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._requested_columns: dict[tuple[str, str], None] = {}
        self._counts_by_file: dict[tuple[str, str], Mapping[str, int] | None] = {}
        self._last_error = ""
        self._unopened_streams = list(reader.streams)

    def upper_bounds(
        self, template: Template, event: RecallEvent, pieces: Sequence[Piece]
    ) -> list[float | None]:
        """How many rows with the event's key each piece holds at most; None: not known."""
        pin = self._find_key_column(template)
        if pin is None:
            return [None] * len(pieces)
        stream, column, attribute = pin
        value = event.attributes.get(attribute)
        self._requested_columns[stream, column] = None
        try:
            self._reader.refresh([stream])
            return [self._max_rows(stream, column, value, piece) for piece in pieces]
        except (ArchiverError, DeltaError, OSError) as error:
            self._log_once(error)
            return [None] * len(pieces)

    def _find_key_column(self, template: Template) -> tuple[str, str, str] | None:
        """(stream, column, attribute) where rows of one stream with one key are all that counts."""
        used, types = template.partial.inputs, template.question.attributes
        if len(used.streams) != 1 or used.derived:
            return None
        (stream,) = used.streams
        columns = self._reader.schema(stream).columns
        pins = (
            pin
            for pin in used.attribute_filters
            if pin[0] == stream and columns.get(pin[1]) == types.get(pin[2]) == "string"
        )
        return next(pins, None)

    def _max_rows(self, stream: str, column: str, value: str | None, piece: Piece) -> float | None:
        total = 0
        chunk, low, high = piece
        for file in self._reader.local_paths(stream, low, high, chunk):
            found = self._counts_by_file.get((file, column))
            if found is None:
                return None
            total += found.get(value, 0) if value is not None else 0
        return float(total)

    def index_next_file(self) -> bool:
        """Look through one more file; False: there is none. What cannot be read is for the queries to say."""
        try:
            if self._unopened_streams:
                self._reader.table(self._unopened_streams[-1])  # before somebody waits for it
                self._unopened_streams.pop()
                return True
            self._reader.refresh({stream for stream, _ in self._requested_columns})
            files = {
                stream: self._reader.local_paths(stream, None, None)
                for stream, _ in self._requested_columns
            }
        except (ArchiverError, DeltaError, OSError) as error:
            self._log_once(error)
            return False
        for stream, column in self._requested_columns:
            for file in reversed(files[stream]):
                if (file, column) not in self._counts_by_file and len(
                    self._counts_by_file
                ) < _MAX_FILES:
                    self._counts_by_file[file, column] = self._count_file(stream, file, column)
                    return True
        there = {
            (file, column) for stream, column in self._requested_columns for file in files[stream]
        }
        for gone in self._counts_by_file.keys() - there:
            del self._counts_by_file[gone]
        return False

    def _count_file(self, stream: str, file: str, column: str) -> dict[str, int] | None:
        try:
            return _count_keys(self._reader.open_data_file(stream, file), column)
        except (ArchiverError, OSError, pa.ArrowException) as error:
            self._log_once(error)
            return None

    def _log_once(self, error: Exception) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            _LOG.warning("history is not summarised", action="keys_failed", error=self._last_error)


def _count_keys(file: Any, column: str) -> dict[str, int] | None:
    if column not in pq.read_schema(file).names:
        return {}
    with pq.ParquetFile(file, read_dictionary=[column]) as parquet:
        values = parquet.read(columns=[column])[column]
    counts = pc.value_counts(values.cast("string"))
    if len(counts) > _MAX_KEYS_PER_FILE:
        return None
    return {
        str(one["values"]): one["counts"] for one in counts.to_pylist() if one["values"] is not None
    }
