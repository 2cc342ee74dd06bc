"""A model as it is stored: arrays, with the terms, tags and places that they are about. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from recall.learning.learned_model import (
    UNKNOWN_TAG,
    LearnedModel,
    ResolutionForecast,
    TagIds,
)
from recall.learning.pair_model import PairModel
from recall.learning.tag_calibration import TagCalibration
from recall.learning.tag_model import TagModel
from recall.similarity import GroupedRows, Segment, Vocabulary

_FORMAT_VERSION = 1
_TAG_PREFIX = "tag_model."
_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class ResolvedEvents:
    """The events that a model has learned from, ascending by ID.

    `places`: numbers of places.
    """

    eids: npt.NDArray[np.bytes_]
    tags: TagIds
    places: npt.NDArray[np.int64]

    def find(self, eids: npt.NDArray[np.bytes_]) -> tuple[TagIds, npt.NDArray[np.int64]]:
        """The tags and places of events by ID; -1: unknown."""
        tags = np.full(len(eids), UNKNOWN_TAG, dtype=np.int32)
        place_numbers = np.full(len(eids), -1, dtype=np.int64)
        if not len(self.eids):
            return tags, place_numbers
        positions = np.minimum(np.searchsorted(self.eids, eids), len(self.eids) - 1)
        matches = self.eids[positions] == eids
        tags[matches] = self.tags[positions[matches]]
        place_numbers[matches] = self.places[positions[matches]]
        return tags, place_numbers


class StoredModel:
    """A model that no longer changes, with a vocabulary of its own."""

    def __init__(
        self,
        model: LearnedModel,
        vocabulary: Vocabulary,
        resolved_events: ResolvedEvents,
        place_names: Sequence[str],
    ) -> None:
        """`place_names`: by number."""
        self.model = model
        self.vocabulary = vocabulary
        self.resolved_events = resolved_events
        # By segment: its rows with a tag, by tag.
        self._tagged_rows: WeakKeyDictionary[Segment, GroupedRows] = WeakKeyDictionary()
        self._place_names = list(place_names)
        self._place_numbers = {name: number for number, name in enumerate(place_names)}

    def place_number(self, name: str) -> int:
        """The number of a place; -1: no event was resolved there."""
        return self._place_numbers.get(name, -1)

    def tagged_rows(self, segment: Segment) -> GroupedRows:
        """The rows of a segment by tag."""
        grouped = self._tagged_rows.get(segment)
        if grouped is None:
            tags, _ = self.resolved_events.find(segment.arrays["eids"])
            order = np.argsort(tags, kind="stable")
            heads = np.searchsorted(tags[order], np.arange(len(self.model.tag_model.tags) + 1))
            grouped = GroupedRows(heads.astype(np.int64), order.astype(np.int64))
            self._tagged_rows[segment] = grouped
        return grouped

    def forecast(self, term_counts: Mapping[str, int], count: int) -> ResolutionForecast:
        """The `count` most probable tags of an event with these terms."""
        context = self.vocabulary.encode(term_counts)
        return self.model.forecast(context, self.vocabulary.attributes, count)

    def to_bytes(self) -> bytes:
        """The stored form: a compressed archive of NumPy arrays, without pickled objects."""
        model = self.model
        arrays: dict[str, npt.NDArray[Any]] = {
            "format": np.array(_FORMAT_VERSION),
            "terms": np.array(
                self.vocabulary.decode_terms(range(len(self.vocabulary))), dtype=np.str_
            ),
            "places": np.array(self._place_names, dtype=np.str_),
            "eids": self.resolved_events.eids,
            "event_tags": self.resolved_events.tags,
            "event_places": self.resolved_events.places,
            "pair_weights": model.pair_model.weights,
            "temperature": np.array(model.calibration.temperature),
            "best_weights": model.calibration.best_weights,
            "novelty_weights": model.calibration.novelty_weights,
            "novelty_counts": np.array(
                [model.calibration.event_count, model.calibration.new_tag_count]
            ),
        }
        for name, array in model.tag_model.to_arrays().items():
            arrays[_TAG_PREFIX + name] = array
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "StoredModel":
        """Restore what `to_bytes` returned. Raises `ValueError` for another format."""
        with np.load(BytesIO(stored), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if int(arrays["format"]) != _FORMAT_VERSION:
            raise ValueError(f"learned model has the unknown format {arrays['format']}")
        tag_arrays = {}
        for name, array in arrays.items():
            if name.startswith(_TAG_PREFIX):
                tag_arrays[name.removeprefix(_TAG_PREFIX)] = array
        calibration = TagCalibration()
        calibration.temperature = float(arrays["temperature"])
        calibration.best_weights = arrays["best_weights"]
        calibration.novelty_weights = arrays["novelty_weights"]
        calibration.event_count, calibration.new_tag_count = arrays["novelty_counts"].tolist()
        vocabulary = Vocabulary()
        vocabulary.encode_terms(arrays["terms"].tolist())
        model = LearnedModel(
            TagModel.from_arrays(tag_arrays, use_recency=True),
            PairModel(arrays["pair_weights"]),
            calibration,
            use_time=True,
        )
        resolved_events = ResolvedEvents(
            arrays["eids"], arrays["event_tags"], arrays["event_places"]
        )
        return cls(model, vocabulary, resolved_events, arrays["places"].tolist())


def name_place(key_values: Iterable[Any]) -> str:
    """The place of an event: its key values, in no order."""
    return _SEPARATOR.join(sorted(map(str, key_values)))
