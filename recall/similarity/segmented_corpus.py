"""The corpus of one rule version, chunk by chunk: contexts of past events, ready to be compared.

Each chunk has several segments. New events make a new segment, and small ones are merged as in a
log-structured merge tree (O'Neil et al. 1996), so that an event is copied a logarithmic number of
times. E and C_k are counted over the whole corpus. No I/O.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np

from archiver.times import Micros
from recall.similarity.comparison import Comparison
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.journal import Journal
from recall.similarity.measures import ContextVector, CorpusCounts, Floats, Ids, Vocabulary
from recall.similarity.numeric import NO_VALUES, Scales, build_scales, flatten_values
from recall.similarity.segments import (
    MAX_SEGMENT_ROWS,
    PinnedCounts,
    SearchBuffers,
    Segment,
    StoredArrays,
    merge_segments,
)
from recall.similarity.spans import SegmentSpans

_MIN_CAPACITY = 1024  # terms


class SegmentedCorpus:
    """The corpus of one rule version, by some of its contexts, with the bounds of its segments.

    `numeric`: attributes compared as numbers, with their bandwidths (None: Silverman's rule).
    """

    def __init__(self, numeric: Mapping[str, float | None] | None = None) -> None:
        self.numeric = dict(sorted((numeric or {}).items()))
        self.vocabulary = Vocabulary()
        self.last_sequence = 0
        """The sequence number of the newest event."""
        self.segments: list[Segment] = []
        self._spans: SegmentSpans | None = None
        self._event_count = 0
        self._newest_ts: Micros | None = None
        # C_k by term, with spare capacity. Copied before a change once it was shared.
        self._document_frequencies = np.zeros(0)
        self._counts_shared = False
        self._journal = Journal()
        self._search_buffers = SearchBuffers()
        # The chunks whose segments stay in memory; None: all.
        self._held_chunks: Collection[int] | None = None
        self._open_stored: Callable[[Segment], StoredArrays | None] = lambda segment: None

    def __len__(self) -> int:
        return self._event_count

    # Adding events

    def add(self, chunk: int, events: Iterable[CorpusEvent]) -> None:
        """Add events of one chunk, in any order."""
        ordered = sorted(events, key=lambda event: event.key)
        for first in range(0, len(ordered), MAX_SEGMENT_ROWS):
            part = ordered[first : first + MAX_SEGMENT_ROWS]
            self.add_segment(Segment.from_events(chunk, part, self.vocabulary))

    def add_segment(self, segment: Segment) -> None:
        """Add a segment of new events, whose terms are numbered by this index's vocabulary."""
        self._make_counts_writable()
        self._document_frequencies[segment.term_ids] += segment.document_frequencies()
        if self._journal.is_full:
            self.refresh_bounds()
            for existing in self.segments:
                existing.journal_position = 0
            self._journal.clear()
        self._journal.record(segment.term_ids)
        self._event_count += len(segment)
        newest_ts = int(segment.arrays["ts"][-1])
        if self._newest_ts is None or newest_ts > self._newest_ts:
            self._newest_ts = newest_ts
        self.last_sequence = max(self.last_sequence, segment.newest_sequence)
        self.segments.append(segment)
        self._merge_small_segments(segment.chunk)
        self.segments.sort(key=lambda segment: (segment.chunk, segment.key_range[0]))
        self._spans = None

    @property
    def spans(self) -> SegmentSpans:
        """The segments as they are now; the same object until events are added."""
        if self._spans is None:
            self._spans = SegmentSpans(self.segments)
        return self._spans

    def _make_counts_writable(self) -> None:
        """Have an unshared array of C_k with an element for every term."""
        width, capacity = len(self.vocabulary), len(self._document_frequencies)
        if capacity >= width and not self._counts_shared:
            return
        if capacity < width:
            capacity = max(width, 2 * capacity, _MIN_CAPACITY)
        writable = np.zeros(capacity)
        writable[: len(self._document_frequencies)] = self._document_frequencies
        self._document_frequencies = writable
        self._counts_shared = False

    def _merge_small_segments(self, chunk: int) -> None:
        """Merge the two smallest segments of a chunk, until one is twice as large as the other."""
        while True:
            segments = [segment for segment in self.segments if segment.chunk == chunk]
            if len(segments) < 2:
                return
            smallest, second = sorted(segments, key=len)[:2]
            if len(second) >= 2 * len(smallest):
                return
            if len(smallest) + len(second) > MAX_SEGMENT_ROWS:
                return
            merged = merge_segments([smallest, second])
            self.segments.remove(smallest)
            self.segments.remove(second)
            self.segments.append(merged)

    # Memory

    def hold(
        self, chunks: Collection[int] | None, open_stored: Callable[[Segment], StoredArrays | None]
    ) -> None:
        """Hold the segments of some chunks in memory (None: all), and release the others.

        Released segments are read from their files when they are needed, and then released again:
        answers stay the same. `open_stored`: maps the file of a segment; None: it has none.
        """
        self._held_chunks, self._open_stored = chunks, open_stored
        self.release_unheld()

    def release_unheld(self) -> None:
        """Give back the memory of all segments that are not held."""
        if self._held_chunks is not None:
            for segment in self.segments:
                self.release(segment)

    def release(self, segment: Segment) -> None:
        """Give back the memory of a segment, unless it is held or not stored."""
        if self._held_chunks is None or segment.chunk in self._held_chunks:
            return
        stored = segment.stored or self._open_stored(segment)
        if stored is not None:
            segment.release(stored)

    def chunk_bytes(self) -> dict[int, int]:
        """By chunk, the bytes of its segments in memory if they are held."""
        sizes: dict[int, int] = {}
        for segment in self.segments:
            sizes[segment.chunk] = sizes.get(segment.chunk, 0) + segment.memory_bytes
        return sizes

    # E and C_k

    def pin_counts(self, event: CorpusEvent) -> PinnedCounts:
        """E and C_k of the events up to and including `event`, by (ts, event ID).

        Of these, the events that entered the corpus up to `event.sequence` are counted. The event
        itself counts once, whether or not it is in the corpus yet.
        """
        width = len(self.vocabulary)
        event_count, newest_ts = self._event_count, self._newest_ts
        excluded: Floats | None = None
        for segment in self.segments:
            counted = segment.counted_rows(event.key, event.sequence)
            if counted is None:
                continue
            if excluded is None:
                excluded = np.zeros(width)
            excluded[segment.term_ids] += segment.document_frequencies(~counted)
            event_count -= int(np.count_nonzero(~counted))
        changed_terms, changes = np.empty(0, dtype=np.int32), np.zeros(0)
        if excluded is not None:
            changed_terms = np.flatnonzero(excluded).astype(np.int32)
            changes = -excluded[changed_terms]
            newest_ts = self._newest_counted_ts(event)
        if not self._contains(event):
            event_count += 1
            newest_ts = event.ts
            event_terms = self.vocabulary.encode(event.term_counts).terms
            changed_terms, changes = _count_terms_once(changed_terms, changes, event_terms)
        self._counts_shared = True
        return PinnedCounts(
            event_count, self._document_frequencies, changed_terms, changes, newest_ts
        )

    def _newest_counted_ts(self, event: CorpusEvent) -> Micros | None:
        """The newest time of the events that are counted for `event`; None: there are none."""
        newest_ts: Micros | None = None
        for segment in self.segments:
            ts = segment.arrays["ts"]
            counted = segment.counted_rows(event.key, event.sequence)
            if counted is not None:
                ts = ts[counted]
            if len(ts) and (newest_ts is None or ts[-1] > newest_ts):
                newest_ts = int(ts[-1])
        return newest_ts

    def full_counts(self, comparison: Comparison) -> CorpusCounts:
        """The pinned counts of a comparison, for every term."""
        if comparison.counts is None:
            pinned = comparison.pinned_counts
            frequencies = np.zeros(len(self.vocabulary))
            size = min(len(frequencies), len(pinned.base_frequencies))
            frequencies[:size] = pinned.base_frequencies[:size]
            frequencies[pinned.changed_terms] += pinned.frequency_changes
            comparison.counts = CorpusCounts(
                pinned.event_count, frequencies, pinned.newest_ts, self.vocabulary.attributes
            )
        return comparison.counts

    def _encode(self, comparison: Comparison) -> ContextVector:
        if comparison.context is None:
            comparison.context = self.vocabulary.encode(comparison.event.term_counts)
        return comparison.context

    def pinned_scales(self, comparison: Comparison) -> Scales:
        """The scales of numeric attributes, from the values that are counted for a comparison."""
        if comparison.scales is None:
            event = comparison.event
            parts = []
            for segment in self.segments:
                values = segment.values
                counted = segment.counted_rows(event.key, event.sequence)
                if counted is not None:
                    values = values.select(counted[values.rows])
                parts.append(values)
            event_values = NO_VALUES
            if not self._contains(event):
                event_values = flatten_values([event.numeric_values])
            comparison.scales = build_scales(parts, event_values, list(self.numeric.values()))
        return comparison.scales

    def _contains(self, event: CorpusEvent) -> bool:
        """Whether the event is in the corpus and entered it up to `event.sequence`."""
        for segment, row in self._find_rows(event.key):
            if segment.arrays["numbers"][row] <= event.sequence:
                return True
        return False

    def _find_rows(self, key: EventKey) -> Iterator[tuple[Segment, int]]:
        for segment in self.segments:
            if segment.key_range[0] <= key <= segment.key_range[1]:
                row = segment.find_row(key)
                if segment.key(row) == key:
                    yield segment, row

    def context(self, key: EventKey) -> ContextVector:
        """The context of an event. Raises `KeyError` if it is not in the corpus."""
        for segment, row in self._find_rows(key):
            return segment.context(row)
        raise KeyError(key)

    # Bounds of segments

    def refresh_bounds(self) -> None:
        """Bring the bounds of all segments in memory up to date with E and C_k."""
        log_event_count = self._log_event_count
        for segment in self.segments:
            if not segment.is_released:
                self._refresh_segment_bounds(segment, log_event_count)

    def _refresh_segment_bounds(self, segment: Segment, log_event_count: float) -> None:
        if segment.has_stale_bounds(log_event_count):
            segment.rebuild_bounds(log_event_count, self._document_frequencies)
        elif segment.is_released:
            segment.restore_bounds(self._document_frequencies)
        elif segment.journal_position < len(self._journal):
            terms, logs = self._journal.since(segment.journal_position, self._document_frequencies)
            segment.update_bounds(terms, logs)
        segment.journal_position = len(self._journal)

    @property
    def _log_event_count(self) -> float:
        return math.log10(max(self._event_count, 1))


def _count_terms_once(changed_terms: Ids, changes: Floats, event_terms: Ids) -> tuple[Ids, Floats]:
    """Changes of C_k by which the terms of one more event are counted."""
    if not len(changed_terms):
        return event_terms, np.ones(len(event_terms))
    terms = np.union1d(changed_terms, event_terms).astype(np.int32)
    sums = np.isin(terms, event_terms).astype(np.float64)
    sums[np.searchsorted(terms, changed_terms)] += changes
    return terms, sums
