"""Samples as Prometheus sends them by remote write 1.0: a snappy block of Protocol Buffers."""

import math
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
from cachetools import LRUCache

from moirae.errors import RequestRejected
from moirae.server.protocols.pushed_rows import PushedRows, Selectors, find_streams
from moirae.server.protocols.write_messages import WriteMessages

MAX_SERIES = 50_000  # of a request
_MAX_SERIES_BYTES = 1 << 20
_MAX_LABELS = 200  # of a series
_MAX_CACHED_SERIES = 20_000
_STALE = 0x7FF0000000000002  # the bits of the value that ends a series
# Fields of rows that are no labels. A label of the name gets a prefix.
_OWN_FIELDS = frozenset({"ts", "metric", "value"})
_MAX_MILLISECONDS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)
_MIN_MILLISECONDS = 0


@dataclass(frozen=True)
class _Series:
    """The streams that take a series, and its rows up to their values; None: it is invalid."""

    streams: Sequence[str]
    prefix: bytes | None


def decompress_block(body: bytes, max_bytes: int) -> bytes:
    """The content of a snappy block. Raises `RequestRejected` before more than `max_bytes` are
    allocated.
    """
    size = _read_size(body)
    if size > max_bytes:
        raise RequestRejected(413, f"decompressed body too large: limit {max_bytes} bytes")
    if size == 0:
        return b""
    try:
        content: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise RequestRejected(400, "the body is not a valid snappy block") from error
    if len(content) != size:
        raise RequestRejected(400, "the body is not a valid snappy block")
    return content


def _read_size(body: bytes) -> int:
    """The number of bytes of a block's content, with which it begins."""
    size = 0
    for position, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return size
    raise RequestRejected(400, "the body is not a valid snappy block")


class SeriesReader:
    """Reads requests. `selectors`: by stream, the selectors of the series that it takes; none: all."""

    def __init__(self, messages: WriteMessages, selectors: Mapping[str, Selectors]) -> None:
        self._messages = messages
        self._selectors = selectors
        self._series: LRUCache[tuple[tuple[str, str], ...], _Series] = LRUCache(_MAX_CACHED_SERIES)
        self._lock = threading.Lock()

    def read(self, content: bytes) -> PushedRows:
        """The samples of a request. What cannot be stored is refused by series.

        Raises `RequestRejected` if the request cannot be read.
        """
        request = self._messages.request()
        try:
            request.ParseFromString(content)
        except self._messages.error as error:
            raise RequestRejected(400, "the body is not a WriteRequest") from error
        if len(request.timeseries) > MAX_SERIES:
            raise RequestRejected(413, f"too many series: limit {MAX_SERIES} per request")
        written = PushedRows()
        for series_content in request.timeseries:
            self._read_series(series_content, written)
        return written

    def _read_series(self, content: bytes, written: PushedRows) -> None:
        series = self._messages.series()
        try:
            if len(content) > _MAX_SERIES_BYTES:
                raise ValueError
            series.ParseFromString(content)
        except (self._messages.error, ValueError):
            written.skipped["", "invalid series"] += 1
            return
        labels = tuple((label.name, label.value) for label in series.labels)
        described = self._find(labels)
        if described.prefix is None:
            written.skipped["", "invalid series"] += 1
            return
        counts = {"exemplars": len(series.exemplars), "histograms": len(series.histograms)}
        lines = list(_write_samples(described.prefix, series.samples, counts))
        written.add(described.streams, lines)
        for stream in described.streams:
            for reason, count in counts.items():
                if count:
                    written.skipped[stream, reason] += count

    def _find(self, labels: tuple[tuple[str, str], ...]) -> _Series:
        """The series of some labels; requests are read by several threads."""
        with self._lock:
            described = self._series.get(labels)
        if described is None:
            described = self._describe(labels)
            with self._lock:
                self._series[labels] = described
        return described

    def _describe(self, pairs: tuple[tuple[str, str], ...]) -> _Series:
        labels = dict(pairs)
        is_valid = len(labels) == len(pairs) <= _MAX_LABELS and all(labels) and bool(labels)
        if not is_valid:
            return _Series((), None)
        streams = find_streams(self._selectors, labels)
        metric = labels.pop("__name__", None)
        row: dict[str, Any] = {"metric": metric}
        for name, value in labels.items():
            row[f"label_{name}" if name in _OWN_FIELDS else name] = value
        return _Series(streams, orjson.dumps(row)[:-1])


def _write_samples(prefix: bytes, samples: Any, skipped: dict[str, int]) -> Iterator[bytes]:
    """The rows of samples. `skipped`: gets the number of those that are no rows, by reason."""
    for sample in samples:
        value, timestamp = sample.value, sample.timestamp
        if math.isnan(value):
            bits = struct.unpack(">Q", struct.pack(">d", value))[0]
            reason = "stale markers" if bits == _STALE else "nan"
            skipped[reason] = skipped.get(reason, 0) + 1
        elif not _MIN_MILLISECONDS <= timestamp < _MAX_MILLISECONDS:
            skipped["invalid times"] = skipped.get("invalid times", 0) + 1
        else:
            yield b'%b,"value":%b,"ts":"%b"}\n' % (
                prefix,
                _write_value(value),
                _write_time(timestamp),
            )


def _write_value(value: float) -> bytes:
    if math.isinf(value):
        return b'"Infinity"' if value > 0 else b'"-Infinity"'
    return repr(value).encode()


def _write_time(milliseconds: int) -> bytes:
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return b"%b.%03dZ" % (moment.isoformat()[:19].encode(), rest)
