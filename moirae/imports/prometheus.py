"""Samples of the past from Prometheus, as the streams of remote write would have stored them.

They are read window by window, oldest first, so that rows are not late because of each other. A row
is the one that remote write would have brought, so whichever comes second is a duplicate.
"""

import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import orjson

from archiver.formats import Format, landed_suffix
from moirae.config import RemoteWriteSource, Settings, Stream
from moirae.config.matchers import Selectors, format_matchers
from moirae.errors import MoiraeError, TooManySamples, UsageError
from moirae.imports.prometheus_api import Labels, StoredSeries
from moirae.runtime.storage import Landings, measure_disk_space, redact_batch
from moirae.server.protocols.pushed_rows import PushedRows, list_selectors
from moirae.server.protocols.remote_write import SeriesRows

_FIRST_WINDOW = 3_600_000  # milliseconds
_MAX_WINDOW = 86_400_000
_MIN_WINDOW = 1_000
_FEW_SAMPLES = 25_000  # of a window; the next one is longer
_MANY_SAMPLES = 100_000  # the next one is shorter
_MAX_PENDING_BYTES = 256 << 20  # of a stream, not archived yet
_PENDING_INTERVAL = 0.5  # seconds
_SUFFIX = landed_suffix("jsonl")


class SampleSource(Protocol):
    """Where samples are read."""

    url: str

    def read_samples(self, selector: str, start: int, end: int) -> list[StoredSeries]:
        """See `PrometheusApi.read_samples`."""


@dataclass(frozen=True)
class ImportTarget:
    """The streams that take samples, and what is asked for them."""

    streams: Mapping[str, Stream]
    selectors: Sequence[str]

    @property
    def taken(self) -> Mapping[str, Selectors]:
        """By stream, the selectors of the series that it takes."""
        return list_selectors(self.streams, RemoteWriteSource)


class Covered(NamedTuple):
    """The time whose samples are in the landing folders or archived, in milliseconds."""

    start: int
    reached: int


@dataclass
class ImportProgress:
    """`reached`: milliseconds up to which all samples are in the landing folders."""

    reached: int
    rows: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def find_targets(settings: Settings, selectors: Sequence[str]) -> ImportTarget:
    """The streams of remote write. `selectors`: empty: what the streams take. Raises `UsageError`."""
    streams = {
        name: stream
        for name, stream in settings.streams.items()
        if isinstance(stream.source, RemoteWriteSource)
    }
    if not streams:
        raise UsageError("no stream takes samples: declare one with source: {remote_write: true}")
    target = ImportTarget(streams, selectors)
    if selectors:
        return target
    for name, alternatives in target.taken.items():
        if not alternatives:
            raise UsageError(f"stream {name} takes all series: say which to import by --match")
    selected = [format_matchers(matchers) for taken in target.taken.values() for matchers in taken]
    return ImportTarget(streams, list(dict.fromkeys(selected)))


class PrometheusImport:
    """One import. What it has reached is in a file of the home folder: it goes on from there."""

    def __init__(
        self,
        settings: Settings,
        target: ImportTarget,
        source: SampleSource,
        external_labels: Mapping[str, str],
    ) -> None:
        self._target = target
        self._source = source
        self._external_labels = external_labels
        self._settings = settings
        home = Path(settings.home)
        landings = Landings.of(settings)
        self._landings = {name: landings.open(name) for name in target.streams}
        self._rows = SeriesRows(target.taken)
        described = [source.url, list(target.selectors), sorted(external_labels.items())]
        described.append(sorted((name, str(taken)) for name, taken in target.taken.items()))
        digest = hashlib.sha256(orjson.dumps(described)).hexdigest()[:32]
        self._file = home / "imports" / f"prometheus-{digest}.json"

    def find_covered(self, start: int) -> Covered:
        """What earlier runs have imported from `start` on, in milliseconds. Raises `MoiraeError`."""
        try:
            stored = orjson.loads(self._file.read_bytes())
            covered = Covered(int(stored["start"]), int(stored["reached"]))
        except FileNotFoundError:
            return Covered(start, start)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise MoiraeError(f"{self._file}: is damaged: delete it to begin anew") from error
        return covered if covered.start <= start <= covered.reached else Covered(start, start)

    def run(
        self, covered: Covered, end: int, is_archiving: Callable[[], bool]
    ) -> Iterator[ImportProgress]:
        """Import the samples after what is covered, up to `end`; yields after each window.

        `is_archiving`: whether a live process takes what waits. Raises `MoiraeError`.
        """
        progress = ImportProgress(covered.reached)
        length = _FIRST_WINDOW
        while progress.reached < end:
            self._await_capacity(is_archiving)
            window_end = min(end, progress.reached + length)
            try:
                series = self._read(progress.reached, window_end)
            except TooManySamples as error:
                if length <= _MIN_WINDOW:
                    raise MoiraeError(
                        f"{self._source.url}: too much for one query: {error}"
                    ) from error
                length = max(_MIN_WINDOW, length // 4)
                continue
            sample_count = self._store(series, progress)
            progress.reached = window_end
            self._remember(Covered(covered.start, window_end))
            yield progress
            if sample_count < _FEW_SAMPLES:
                length = min(_MAX_WINDOW, 2 * length)
            elif sample_count > _MANY_SAMPLES:
                length = max(_MIN_WINDOW, length // 2)

    def _read(self, start: int, end: int) -> dict[Labels, StoredSeries]:
        """The series of all selectors, each once, with the labels with which they are sent."""
        series_by_labels: dict[Labels, StoredSeries] = {}
        for selector in self._target.selectors:
            for series in self._source.read_samples(selector, start, end):
                labels = tuple(sorted({**self._external_labels, **dict(series.labels)}.items()))
                series_by_labels.setdefault(labels, series)
        return series_by_labels

    def _store(self, series: Mapping[Labels, StoredSeries], progress: ImportProgress) -> int:
        """Write the rows of a window in the order of their times. Returns how many samples it has."""
        samples = [
            (milliseconds, labels, value)
            for labels, described in series.items()
            for value, milliseconds in described.samples
        ]
        samples.sort(key=lambda sample: sample[0])
        pushed = PushedRows(max_bytes=math.inf)
        for milliseconds, labels, value in samples:
            self._rows.add(labels, [(value, milliseconds)], pushed)
        for stream, lines in pushed.lines.items():
            if lines:
                self._write(stream, b"".join(lines))
                progress.rows[stream] += len(lines)
        for (_, reason), count in pushed.skipped.items():
            progress.skipped[reason] += count
        histograms = sum(described.histograms for described in series.values())
        if histograms:
            progress.skipped["histograms"] += histograms
        return len(samples)

    def _write(self, stream: str, lines: bytes) -> None:
        content = redact_batch(stream, self._target.streams[stream], Format("jsonl"), lines)
        # A window that is read again has the same name, and is archived once.
        name = f"import-prometheus-{hashlib.sha256(content).hexdigest()[:32]}"
        try:
            self._landings[stream].write_batch(name, _SUFFIX, content)
        except OSError as error:
            raise MoiraeError(f"cannot write the batch: {error.strerror}") from error

    def _await_capacity(self, is_archiving: Callable[[], bool]) -> None:
        """Wait until what waits to be archived is not too much. Raises `MoiraeError`."""
        for stream, landing in self._landings.items():
            while sum(batch.size for batch in landing.pending_batches()) > _MAX_PENDING_BYTES:
                if not is_archiving():
                    raise MoiraeError(
                        f"{_MAX_PENDING_BYTES >> 20} MiB of stream {stream} wait to be archived: "
                        "start `moirae up`, then run this command again; it goes on"
                    )
                time.sleep(_PENDING_INTERVAL)
        for disk in measure_disk_space(self._settings):
            if disk.full:
                raise MoiraeError(f"{disk.describe_problem()}; then run this command again")

    def _remember(self, covered: Covered) -> None:
        """Store what is reached. After a crash before it, the window is read again."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        hidden = self._file.with_suffix(".new")
        with hidden.open("wb") as file:
            file.write(orjson.dumps(covered._asdict()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, self._file)
