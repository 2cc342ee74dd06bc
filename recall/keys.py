"""Which keys a piece of history holds, known from files that were looked through while nobody asked anything."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from deltalake.exceptions import DeltaError

from archiver.errors import ArchiverError
from archiver.reader import Reader
from recall.engines.template import Template
from recall.request import Asked, Piece

_LOG = structlog.get_logger()

# Keys of a file, beyond which it is not summarised; files in memory.
_KEYS, _FILES = 4096, 20_000


class Keys:
    """How many rows each file has of each key; files never change. `None`: too many keys, or it cannot be read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._wanted: dict[tuple[str, str], None] = {}
        self._files: dict[tuple[str, str], Mapping[str, int] | None] = {}
        self._said = ""
        self._unopened = list(reader.streams)

    def promises(self, template: Template, asked: Asked, pieces: Sequence[Piece]) -> list[float | None]:
        """How many rows with the event's key each piece holds at most; None: not known."""
        pin = self._pin(template)
        if pin is None:
            return [None] * len(pieces)
        stream, column, attribute = pin
        value = asked.attributes.get(attribute)
        self._wanted[stream, column] = None
        try:
            self._reader.refresh([stream])
            return [self._rows(stream, column, value, piece) for piece in pieces]
        except (ArchiverError, DeltaError, OSError) as error:
            self._say(error)
            return [None] * len(pieces)

    def _pin(self, template: Template) -> tuple[str, str, str] | None:
        """(stream, column, attribute) where rows of one stream with one key are all that counts."""
        used, types = template.partial.used, template.question.attributes
        if len(used.streams) != 1 or used.derived:
            return None
        (stream,) = used.streams
        columns = self._reader.schema(stream).columns
        pins = (pin for pin in used.pins if pin[0] == stream and columns.get(pin[1]) == types.get(pin[2]) == "string")
        return next(pins, None)

    def _rows(self, stream: str, column: str, value: str | None, piece: Piece) -> float | None:
        total = 0
        chunk, low, high = piece
        for file in self._reader.files(stream, low, high, chunk):
            found = self._files.get((file, column))
            if found is None:
                return None
            total += found.get(value, 0) if value is not None else 0
        return float(total)

    def learn(self) -> bool:
        """Look through one more file; False: there is none. What cannot be read is for the queries to say."""
        try:
            if self._unopened:
                self._reader.table(self._unopened[-1])  # before somebody waits for it
                self._unopened.pop()
                return True
            self._reader.refresh({stream for stream, _ in self._wanted})
            files = {stream: self._reader.files(stream, None, None) for stream, _ in self._wanted}
        except (ArchiverError, DeltaError, OSError) as error:
            self._say(error)
            return False
        for stream, column in self._wanted:
            for file in reversed(files[stream]):
                if (file, column) not in self._files and len(self._files) < _FILES:
                    self._files[file, column] = self._summary(stream, file, column)
                    return True
        there = {(file, column) for stream, column in self._wanted for file in files[stream]}
        for gone in self._files.keys() - there:
            del self._files[gone]
        return False

    def _summary(self, stream: str, file: str, column: str) -> dict[str, int] | None:
        try:
            return _counts(self._reader.source(stream, file), column)
        except (ArchiverError, OSError, pa.ArrowException) as error:
            self._say(error)
            return None

    def _say(self, error: Exception) -> None:
        if str(error) != self._said:
            self._said = str(error)
            _LOG.warning("history is not summarised", action="keys_failed", error=self._said)


def _counts(file: Any, column: str) -> dict[str, int] | None:
    if column not in pq.read_schema(file).names:
        return {}
    with pq.ParquetFile(file, read_dictionary=[column]) as parquet:
        values = parquet.read(columns=[column])[column]
    counts = pc.value_counts(values.cast("string"))
    if len(counts) > _KEYS:
        return None
    return {str(one["values"]): one["counts"] for one in counts.to_pylist() if one["values"] is not None}
