"""Row counts per key of the archive's files, collected while the process is idle.

They bound how many rows of a piece can match an event, and so decide the order of reading.
"""

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
from recall.query.lift import AttributeFilter
from recall.requests import Piece, RecallEvent

_LOG = structlog.get_logger()

# A file with more keys is not indexed.
_MAX_KEYS_PER_FILE = 4096
# Files in memory.
_MAX_FILES = 20_000


class KeyCounts:
    """How many rows each file has of each key; files never change.

    The counts of a file are None if it has too many keys or cannot be read.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        # (stream, column) pairs in the order of their first use.
        self._requested_columns: dict[tuple[str, str], None] = {}
        self._counts_by_file: dict[tuple[str, str], Mapping[str, int] | None] = {}
        self._last_error = ""
        self._unopened_streams = list(reader.streams)

    def upper_bounds(
        self, template: Template, event: RecallEvent, pieces: Sequence[Piece]
    ) -> list[float | None]:
        """How many rows with the event's key each piece has at most; None: not known."""
        key_column = self._find_key_column(template)
        if key_column is None:
            return [None] * len(pieces)
        stream, column, attribute = key_column
        value = event.attributes.get(attribute)
        self._requested_columns[stream, column] = None
        try:
            self.reader.refresh([stream])
            return [self._upper_bound(stream, column, value, piece) for piece in pieces]
        except (ArchiverError, DeltaError, OSError) as error:
            self._log_once(error)
            return [None] * len(pieces)

    def _find_key_column(self, template: Template) -> AttributeFilter | None:
        """The key column, if only the rows of one stream with one key matter."""
        inputs, types = template.partial.inputs, template.question.attributes
        if len(inputs.streams) != 1 or inputs.derived:
            return None
        (only_stream,) = inputs.streams
        columns = self.reader.schema(only_stream).columns
        for key_filter in inputs.attribute_filters:
            column_type = columns.get(key_filter.column)
            is_text = column_type == types.get(key_filter.attribute) == "string"
            if key_filter.stream == only_stream and is_text:
                return key_filter
        return None

    def _upper_bound(
        self, stream: str, column: str, value: str | None, piece: Piece
    ) -> float | None:
        total = 0
        for file in self.reader.local_paths(stream, piece.range, piece.chunk):
            counts = self._counts_by_file.get((file, column))
            if counts is None:
                return None
            if value is not None:
                total += counts.get(value, 0)
        return float(total)

    def index_next_file(self) -> bool:
        """Count the keys of one more file, newest files first; False: none is left.

        Errors are logged once; a query of the same file reports them.
        """
        try:
            if self._unopened_streams:
                # Loads the table's log before a query has to wait for it.
                self.reader.table(self._unopened_streams[-1])
                self._unopened_streams.pop()
                return True
            streams = {stream for stream, _ in self._requested_columns}
            self.reader.refresh(streams)
            files_by_stream = {stream: self.reader.local_paths(stream) for stream in streams}
        except (ArchiverError, DeltaError, OSError) as error:
            self._log_once(error)
            return False
        current = set()
        for stream, column in self._requested_columns:
            for file in reversed(files_by_stream[stream]):
                key = file, column
                if key not in self._counts_by_file and len(self._counts_by_file) < _MAX_FILES:
                    self._counts_by_file[key] = self._count_file(stream, file, column)
                    return True
                current.add(key)
        for removed in self._counts_by_file.keys() - current:
            del self._counts_by_file[removed]
        return False

    def _count_file(self, stream: str, file: str, column: str) -> dict[str, int] | None:
        try:
            names = [column]
            if column in self.reader.schema(stream).was:
                names.append(self.reader.schema(stream).was[column])
            return _count_keys(self.reader.open_data_file(stream, file), names)
        except (ArchiverError, OSError, pa.ArrowException) as error:
            self._log_once(error)
            return None

    def _log_once(self, error: Exception) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            _LOG.warning(
                "keys of a file not counted", action="key_count_failed", error=self._last_error
            )


def _count_keys(file: Any, names: Sequence[str]) -> dict[str, int] | None:
    """Rows by value of a string column, without NULL; None: too many values.

    `names`: of the column, the present one first; a file may store it under its name before.
    """
    stored_names = pq.read_schema(file).names
    stored = [name for name in names if name in stored_names]
    if not stored:
        return {}
    column = stored[0]
    with pq.ParquetFile(file, read_dictionary=[column]) as parquet:
        values = parquet.read(columns=[column])[column]
    counts = pc.value_counts(values.cast("string"))
    if len(counts) > _MAX_KEYS_PER_FILE:
        return None
    return {
        str(entry["values"]): entry["counts"]
        for entry in counts.to_pylist()
        if entry["values"] is not None
    }
