"""A model as it is stored: arrays, with the terms, tags and places that they are about. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from recall.learning.fixed_voters import FixedVoters
from recall.learning.forecast_record import ForecastRecord
from recall.learning.learned_model import (
    UNKNOWN_TAG,
    LearnedModel,
    PastFacts,
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

MODEL_FORMAT = 7
"""Models of another format are built again from the same events and tags."""
_TAG_PREFIX = "tag_model."
_HISTORY_PREFIX = "history."
_VOTES_PREFIX = "votes."
_SEPARATOR = "\x1f"

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

    def find_facts(
        self, positions: npt.NDArray[np.int32], times: npt.NDArray[np.int64]
    ) -> PastFacts:
        """What is known about events by their positions; -1: only their `times`."""
        known_events = np.flatnonzero(positions >= 0)
        tags = np.full(len(positions), UNKNOWN_TAG, dtype=np.int32)
        place_numbers = np.full(len(positions), -1, dtype=np.int64)
        tags[known_events] = self.tags[positions[known_events]]
        place_numbers[known_events] = self.places[positions[known_events]]
        return PastFacts(times, place_numbers, tags)


class ResolvedRows(NamedTuple):
    """The rows of a segment that a model has learned from, ascending, with their facts.

    `position_by_row`: of all rows, among the resolved events; -1: not one of them.
    """

    rows: npt.NDArray[np.int64]
    facts: PastFacts
    position_by_row: npt.NDArray[np.int32]


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
            rows = np.flatnonzero(position_by_row >= 0)
            times = segment.arrays["ts"][rows]
            facts = self.resolved_events.find_facts(position_by_row[rows], times)
            resolved = ResolvedRows(rows, facts, position_by_row)
            self._resolved_rows[segment] = resolved
        return resolved

    @cached_property
    def _evidence(self) -> TagEvidence:
        return TagEvidence(self.model.tag_model, self.vocabulary.attributes.copy())

    @cached_property
    def _voters(self) -> FixedVoters:
        return self.model.votes.fix(self._counts)

    def log_probabilities(self, context: ContextVector) -> Floats:
        """By tag, of the tag model. `context`: with the terms of the model's vocabulary."""
        return self._evidence.log_probabilities(context)

    def forecast_tags(self, context: ContextVector, log_probabilities: Floats) -> TagForecast:
        """What all predictors say. `log_probabilities`: of the tag model, for the same context."""
        frequencies = self.model.history.frequencies()
        votes = self.model.votes.share(self._voters.score(context), frequencies)
        return self.model.forecast_tags(context, log_probabilities, votes)

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
            "best_tag": model.mixture.best_tag.weights,
            "stage_mixture": model.mixture.stages.weights,
            "forecasts": model.record.to_array(),
            "temperature": np.array(model.calibration.temperature),
            "noise": np.array(model.calibration.noise),
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
        calibration.noise = float(arrays["noise"])
        calibration.best_weights = arrays["best_weights"]
        calibration.novelty_weights = arrays["novelty_weights"]
        mixture = TagMixture(use_time=True)
        mixture.tags.weights = arrays["tag_mixture"]
        mixture.pool.weights = arrays["tag_pool"]
        mixture.novelty.weights = arrays["novelty_mixture"]
        mixture.best_tag.weights = arrays["best_tag"]
        mixture.stages.weights = arrays["stage_mixture"]
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
