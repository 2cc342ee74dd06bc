"""A model as it is stored: arrays, with the terms, tags and places that they are about. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from recall.learning.forecast_record import ForecastRecord
from recall.learning.learned_model import (
    UNKNOWN_TAG,
    LearnedModel,
    TagIds,
)
from recall.learning.pair_model import PairModel
from recall.learning.resolution_forecast import ResolutionForecast
from recall.learning.tag_calibration import TagCalibration
from recall.learning.tag_evidence import TagEvidence
from recall.learning.tag_mixture import TagForecast, TagHistory, TagMixture
from recall.learning.tag_model import TagModel
from recall.learning.votes import Votes
from recall.similarity.measures import ContextVector, CorpusCounts, Floats, Vocabulary
from recall.similarity.segments import Segment

MODEL_FORMAT = 4
"""Models of another format are built again from the same events and tags."""
_TAG_PREFIX = "tag_model."
_HISTORY_PREFIX = "history."
_VOTES_PREFIX = "votes."
_SEPARATOR = "\x1f"
_NO_ROWS = np.zeros(0, dtype=np.int64)

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class ResolvedEvents:
    """The events that a model has learned from, ascending by ID.

    `times`: event times. `places`: numbers of places.
    """

    eids: npt.NDArray[np.bytes_]
    times: npt.NDArray[np.int64]
    tags: TagIds
    places: npt.NDArray[np.int64]

    def find(self, eids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int32]:
        """The positions of events by ID; -1: not among these."""
        if not len(self.eids):
            return np.full(len(eids), -1, dtype=np.int32)
        positions = np.minimum(np.searchsorted(self.eids, eids), len(self.eids) - 1)
        positions[self.eids[positions] != eids] = -1
        return positions.astype(np.int32)

    def tags_and_places(
        self, positions: npt.NDArray[np.int32]
    ) -> tuple[TagIds, npt.NDArray[np.int64]]:
        """The tags and places of events by their positions; -1: unknown."""
        known_events = np.flatnonzero(positions >= 0)
        tags = np.full(len(positions), UNKNOWN_TAG, dtype=np.int32)
        place_numbers = np.full(len(positions), -1, dtype=np.int64)
        tags[known_events] = self.tags[positions[known_events]]
        place_numbers[known_events] = self.places[positions[known_events]]
        return tags, place_numbers

    @cached_property
    def _by_tag(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of events by tag, the newest first, and by tag the first of them."""
        order = np.lexsort((np.arange(len(self.eids))[::-1], -self.times, self.tags))
        tag_count = int(self.tags.max(initial=-1)) + 1
        return order, np.searchsorted(self.tags[order], np.arange(tag_count + 1))

    @cached_property
    def time_ranks(self) -> npt.NDArray[np.int64]:
        """By position, the number of the event in (time, ID) order."""
        ranks = np.empty(len(self.times), dtype=np.int64)
        ranks[np.argsort(self.times, kind="stable")] = np.arange(len(self.times))
        return ranks

    def newest_of_tags(self, tag_ids: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.int64]:
        """The positions of `count` events, in no order.

        These are all events of the first tags, and of the next one the newest.
        """
        order, heads = self._by_tag
        ends = np.cumsum(heads[tag_ids + 1] - heads[tag_ids])
        tag_ids = tag_ids[: np.searchsorted(ends, count) + 1]
        sizes = heads[tag_ids + 1] - heads[tag_ids]
        sizes[-1] -= max(sizes.sum() - count, 0)
        firsts = heads[tag_ids] - (np.cumsum(sizes) - sizes)
        numbers = np.repeat(firsts, sizes) + np.arange(sizes.sum())
        newest: npt.NDArray[np.int64] = order[numbers]
        return newest


class ResolvedRows:
    """The rows of a segment that a model has learned from."""

    def __init__(
        self, position_by_row: npt.NDArray[np.int32], time_ranks: npt.NDArray[np.int64]
    ) -> None:
        """`position_by_row`: among the resolved events; -1: not one of them.

        `time_ranks`: of the resolved events, by position.
        """
        self.position_by_row = position_by_row
        rows = np.flatnonzero(position_by_row >= 0)
        ranks = time_ranks[position_by_row[rows]]
        # Those of a segment are near one another, as its events are of one chunk. Their positions
        # are not: IDs are hashes.
        self._first = int(ranks.min()) if len(rows) else 0
        self._row_by_rank = np.full(int(ranks.max(initial=-1)) + 1 - self._first, -1)
        self._row_by_rank[ranks - self._first] = rows

    def find(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of resolved events by their time ranks, ascending. `ranks`: ascending."""
        end = self._first + len(self._row_by_rank)
        low, high = np.searchsorted(ranks, (self._first, end))
        if low == high:
            return _NO_ROWS
        rows = self._row_by_rank[ranks[low:high] - self._first]
        return np.sort(rows[rows >= 0])


class StoredModel:
    """A model that no longer changes, with a vocabulary of its own."""

    def __init__(
        self,
        model: LearnedModel,
        vocabulary: Vocabulary,
        counts: CorpusCounts,
        resolved_events: ResolvedEvents,
        place_names: Sequence[str],
    ) -> None:
        """`counts`: of the vocabulary's terms, when the model was built. `place_names`: by number."""
        self.model = model
        self.vocabulary = vocabulary
        self._counts = counts
        self.resolved_events = resolved_events
        self._resolved_rows: WeakKeyDictionary[Segment, ResolvedRows] = WeakKeyDictionary()
        self._place_names = list(place_names)
        self._place_numbers = {name: number for number, name in enumerate(place_names)}

    def place_number(self, name: str) -> int:
        """The number of a place; -1: no event was resolved there."""
        return self._place_numbers.get(name, -1)

    def resolved_rows(self, segment: Segment) -> ResolvedRows:
        """The rows of a segment that the model has learned from."""
        resolved = self._resolved_rows.get(segment)
        if resolved is None:
            position_by_row = self.resolved_events.find(segment.arrays["eids"])
            resolved = ResolvedRows(position_by_row, self.resolved_events.time_ranks)
            self._resolved_rows[segment] = resolved
        return resolved

    @cached_property
    def _evidence(self) -> TagEvidence:
        return TagEvidence(self.model.tag_model, self.vocabulary.attributes.copy())

    def log_probabilities(self, context: ContextVector) -> Floats:
        """By tag, of the tag model. `context`: with the terms of the model's vocabulary."""
        return self._evidence.log_probabilities(context)

    def forecast_tags(self, context: ContextVector, log_probabilities: Floats) -> TagForecast:
        """What all predictors say. `log_probabilities`: of the tag model, for the same context."""
        return self.model.forecast_tags(context, log_probabilities, self._counts)

    def forecast(self, term_counts: Mapping[str, int], count: int) -> ResolutionForecast:
        """The `count` most probable tags of an event with these terms."""
        context = self.vocabulary.encode(term_counts)
        forecast = self.forecast_tags(context, self.log_probabilities(context))
        return self.model.make_forecast(forecast.probabilities, forecast.new_tag, count)

    def to_bytes(self) -> bytes:
        """The stored form: a compressed archive of NumPy arrays, without pickled objects."""
        model = self.model
        arrays: dict[str, npt.NDArray[Any]] = {
            "format": np.array(MODEL_FORMAT),
            "terms": np.array(
                self.vocabulary.decode_terms(range(len(self.vocabulary))), dtype=np.str_
            ),
            "event_count": np.array(self._counts.event_count),
            "document_frequencies": self._counts.document_frequencies.astype(np.int32),
            "places": np.array(self._place_names, dtype=np.str_),
            "eids": self.resolved_events.eids,
            "event_times": self.resolved_events.times,
            "event_tags": self.resolved_events.tags,
            "event_places": self.resolved_events.places,
            "pair_weights": model.pair_model.weights,
            "tag_mixture": model.mixture.tags.weights,
            "tag_pool": model.mixture.pool.weights,
            "novelty_mixture": model.mixture.novelty.weights,
            "forecasts": model.record.to_array(),
            "temperature": np.array(model.calibration.temperature),
            "best_weights": model.calibration.best_weights,
            "novelty_weights": model.calibration.novelty_weights,
        }
        arrays.update(_with_prefix(_TAG_PREFIX, model.tag_model.to_arrays()))
        arrays.update(_with_prefix(_HISTORY_PREFIX, model.history.to_arrays()))
        arrays.update(_with_prefix(_VOTES_PREFIX, model.votes.to_arrays()))
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "StoredModel":
        """Restore what `to_bytes` returned. Raises `ValueError` for another format."""
        with np.load(BytesIO(stored), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if int(arrays["format"]) != MODEL_FORMAT:
            raise ValueError(f"learned model has the unknown format {arrays['format']}")
        calibration = TagCalibration()
        calibration.temperature = float(arrays["temperature"])
        calibration.best_weights = arrays["best_weights"]
        calibration.novelty_weights = arrays["novelty_weights"]
        mixture = TagMixture(use_time=True)
        mixture.tags.weights = arrays["tag_mixture"]
        mixture.pool.weights = arrays["tag_pool"]
        mixture.novelty.weights = arrays["novelty_mixture"]
        vocabulary = Vocabulary()
        vocabulary.encode_terms(arrays["terms"].tolist())
        model = LearnedModel(
            TagModel.from_arrays(_without_prefix(_TAG_PREFIX, arrays), use_recency=True),
            PairModel(arrays["pair_weights"]),
            calibration,
            mixture,
        )
        model.history = TagHistory.from_arrays(_without_prefix(_HISTORY_PREFIX, arrays))
        model.votes = Votes.from_arrays(_without_prefix(_VOTES_PREFIX, arrays))
        model.record = ForecastRecord(arrays["forecasts"])
        counts = CorpusCounts(
            int(arrays["event_count"]),
            arrays["document_frequencies"].astype(np.float64),
            None,
            vocabulary.attributes.copy(),
        )
        resolved_events = ResolvedEvents(
            arrays["eids"], arrays["event_times"], arrays["event_tags"], arrays["event_places"]
        )
        return cls(model, vocabulary, counts, resolved_events, arrays["places"].tolist())


def _with_prefix(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _without_prefix(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def name_place(key_values: Iterable[Any]) -> str:
    """The place of an event: its key values, in no order."""
    return _SEPARATOR.join(sorted(map(str, key_values)))
