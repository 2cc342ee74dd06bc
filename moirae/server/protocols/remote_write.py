"""Samples as Prometheus sends them by remote write, 1.0 or 2.0: a snappy block of Protocol Buffers.

`SeriesRows` makes the rows, which are the same whichever way a sample comes.
"""

import math
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from cachetools import LRUCache

from moirae.errors import RequestRejected
from moirae.server.protocols.pushed_rows import PushedRows, Selectors, find_streams
from moirae.server.protocols.write_messages import WriteMessages, load_messages, load_messages_2

MAX_SERIES = 50_000  # of a request
MAX_SYMBOLS = 500_000  # of a request of version 2.0
_MAX_SERIES_BYTES = 1 << 20
_MAX_LABELS = 200  # of a series
_MAX_LABEL_BYTES = 64 << 10  # of a series of version 2.0, whose labels others may share
_MAX_CACHED_SERIES = 20_000
_MAX_CACHED_BYTES = 2_000  # of a series that is remembered
# A series with one sample ends with it, in these bytes; times of this century have six.
_TIME_BYTES = 6
_SAMPLE = 18
_ZERO_SAMPLE = 9
_ZERO_SAMPLE_START = b"\x12\x07\x10"  # field 2, of 7 bytes, which are field 2
_SAMPLE_START = b"\x12\x10\x09"  # field 2, of 16 bytes, of which the first is field 1
_SAMPLE_MIDDLE = 0x10  # field 2
_DOUBLE = struct.Struct("<d")
_GAPS = ("stale markers", "nan")  # reasons for which a sample is no row
_INVALID = frozenset({"invalid series", "invalid times"})  # reasons that senders have to hear of
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

    def __init__(self, selectors: Mapping[str, Selectors]) -> None:
        self._rows = SeriesRows(selectors)

    def read(self, content: bytes, is_version_2: bool = False) -> PushedRows:
        """The samples of a request. What cannot be stored is refused by series.

        Raises `RequestRejected` if the request cannot be read.
        """
        messages = load_messages_2() if is_version_2 else load_messages()
        try:
            request = messages.request.FromString(content)
        except messages.error as error:
            raise RequestRejected(400, "the body is no request of remote write") from error
        if len(request.timeseries) > MAX_SERIES:
            raise RequestRejected(413, f"too many series: limit {MAX_SERIES} per request")
        read_labels = _read_labels
        if is_version_2:
            if len(request.symbols) > MAX_SYMBOLS:
                raise RequestRejected(413, f"too many symbols: limit {MAX_SYMBOLS} per request")
            read_labels = partial(_find_labels, list(request.symbols))
        pushed = PushedRows()
        times: dict[bytes, bytes | None] = {}
        for series_content in request.timeseries:
            if not is_version_2 and self._rows.add_known(series_content, pushed, times):
                continue
            try:
                if len(series_content) > _MAX_SERIES_BYTES:
                    raise ValueError
                series = messages.series.FromString(series_content)
                labels = read_labels(series, pushed)
            except (messages.error, ValueError):
                pushed.skipped["", "invalid series"] += 1
                continue
            samples = [(sample.value, sample.timestamp) for sample in series.samples]
            counts = {}
            if series.exemplars:
                counts["exemplars"] = len(series.exemplars)
            if series.histograms:
                counts["histograms"] = len(series.histograms)
            described = self._rows.add(labels, samples, pushed, counts)
            if not is_version_2:
                self._rows.remember(series_content, len(series.labels), messages, described)
        return pushed


def count_invalid(pushed: PushedRows) -> int:
    """How many series and samples of a request are invalid: its answer says so, by the protocol.

    What is valid and has no place here, such as histograms, does not count.
    """
    return sum(count for (_, reason), count in pushed.skipped.items() if reason in _INVALID)


def _read_labels(series: Any, _: PushedRows) -> tuple[tuple[str, str], ...]:
    return tuple((label.name, label.value) for label in series.labels)


def _find_labels(
    symbols: Sequence[bytes], series: Any, pushed: PushedRows
) -> tuple[tuple[str, str], ...]:
    """The labels of a series of version 2.0. Raises `ValueError`.

    Their bytes count as bytes of rows: a symbol may be a label of each series.
    """
    numbers = series.labels_refs
    if len(numbers) > 2 * _MAX_LABELS:
        raise ValueError("too many labels")
    try:
        encoded = [symbols[number] for number in numbers]
    except IndexError:
        raise ValueError("no symbol of this number") from None
    size = sum(map(len, encoded))
    if size > _MAX_LABEL_BYTES:
        raise ValueError("too large labels")
    pushed.reserve(size)
    texts = [text.decode() for text in encoded]
    return tuple(zip(texts[::2], texts[1::2], strict=True))


class SeriesRows:
    """Makes rows of samples. `selectors`: by stream, of the series that it takes; none: all."""

    def __init__(self, selectors: Mapping[str, Selectors]) -> None:
        self._selectors = selectors
        self._series: LRUCache[tuple[tuple[str, str], ...], _Series] = LRUCache(_MAX_CACHED_SERIES)
        self._series_by_content: dict[bytes, _Series] = {}
        self._lock = threading.Lock()

    def add(
        self,
        labels: tuple[tuple[str, str], ...],
        samples: Iterable[tuple[float, int]],
        pushed: PushedRows,
        counts: dict[str, int] | None = None,
    ) -> _Series:
        """Add the rows of samples, each a value and milliseconds.

        `counts`: of what else the series has that is not stored, by reason.
        """
        described = self._find(labels)
        if described.prefix is None:
            pushed.skipped["", "invalid series"] += 1
            return described
        counts = {} if counts is None else counts
        row_count = 0
        prefix = described.prefix if described.streams else b""  # the others are counted only
        for line in _write_samples(prefix, samples, counts):
            pushed.add(described.streams, line)
            row_count += 1
        if described.streams:
            # What marks a gap is taken: the gap stays one.
            pushed.taken += row_count + sum(counts.get(reason, 0) for reason in _GAPS)
        for stream in described.streams:
            for reason, count in counts.items():
                pushed.skipped[stream, reason] += count
        return described

    def remember(
        self, content: bytes, label_count: int, messages: WriteMessages, described: _Series
    ) -> None:
        """Recognise a series by the bytes of its labels, if nothing but a sample follows them."""
        length = _find_sample(content)
        labels = content[:-length]
        if described.prefix is None or not 0 < length < len(content) <= _MAX_CACHED_BYTES:
            return
        try:
            parsed = messages.series.FromString(labels)
        except messages.error:
            return
        has_others = parsed.samples or parsed.exemplars or parsed.histograms
        if has_others or len(parsed.labels) != label_count:
            return
        if len(self._series_by_content) >= _MAX_CACHED_SERIES:
            self._series_by_content = {}  # other threads may still read the old ones
        self._series_by_content[labels] = described

    def add_known(
        self, content: bytes, pushed: PushedRows, times: dict[bytes, bytes | None]
    ) -> bool:
        """Add the row of a series whose labels are known by their bytes, and that has one sample.

        They end where a field ends, so what follows is a field. `times`: of the request, as they are
        written; None: not valid. Returns False if the series has to be parsed.
        """
        length = _find_sample(content)
        described = self._series_by_content.get(content[:-length]) if length else None
        if described is None or described.prefix is None:
            return False
        value = 0.0
        if length == _SAMPLE:
            (value,) = _DOUBLE.unpack_from(content, len(content) - _SAMPLE + 3)
        encoded = content[-_TIME_BYTES:]
        try:
            written = times[encoded]
        except KeyError:
            milliseconds = _read_varint(encoded)
            is_valid = milliseconds is not None and milliseconds < _MAX_MILLISECONDS
            written = _write_time(milliseconds) if is_valid and milliseconds is not None else None
            times[encoded] = written
        if written is None or not math.isfinite(value):
            return False
        line = b'%b,"value":%r,"ts":"%b"}\n' % (described.prefix, value, written)
        pushed.taken += bool(described.streams)
        pushed.add(described.streams, line)
        return True

    def _find(self, labels: tuple[tuple[str, str], ...]) -> _Series:
        """The series of some labels; requests are read by several threads."""
        with self._lock:
            described = self._series.get(labels)
        if described is None:
            described = self._describe(labels)
            if described.prefix is None or len(described.prefix) > _MAX_CACHED_BYTES:
                return described
            with self._lock:
                self._series[labels] = described
        return described

    def _describe(self, pairs: tuple[tuple[str, str], ...]) -> _Series:
        labels = dict(pairs)
        is_valid = len(labels) == len(pairs) <= _MAX_LABELS and all(labels)
        if not is_valid or not labels.get("__name__"):
            return _Series((), None)
        streams = find_streams(self._selectors, labels)
        metric = labels.pop("__name__")
        row: dict[str, Any] = {"metric": metric}
        for name, value in labels.items():
            row[f"label_{name}" if name in _OWN_FIELDS else name] = value
        return _Series(streams, orjson.dumps(row)[:-1])


def _find_sample(content: bytes) -> int:
    """The length of what looks like the field of a sample, at the end; 0: nothing does.

    A value of 0 is left out of its field.
    """
    if content[-_SAMPLE : 3 - _SAMPLE] == _SAMPLE_START and content[-7] == _SAMPLE_MIDDLE:
        return _SAMPLE
    if content[-_ZERO_SAMPLE:-_TIME_BYTES] == _ZERO_SAMPLE_START:
        return _ZERO_SAMPLE
    return 0


def _read_varint(encoded: bytes) -> int | None:
    """An integer of `_TIME_BYTES` bytes; None if they are not one."""
    number = 0
    for position, byte in enumerate(encoded):
        number |= (byte & 0x7F) << 7 * position
        if (byte < 0x80) != (position == _TIME_BYTES - 1):
            return None
    return number


def _write_samples(
    prefix: bytes, samples: Iterable[tuple[float, int]], skipped: dict[str, int]
) -> Iterator[bytes]:
    """The rows of samples. `skipped`: gets the number of those that are no rows, by reason."""
    for value, timestamp in samples:
        if math.isnan(value):
            bits = struct.unpack(">Q", struct.pack(">d", value))[0]
            reason = _GAPS[0] if bits == _STALE else _GAPS[1]
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
