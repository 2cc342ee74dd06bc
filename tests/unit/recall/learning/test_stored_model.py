"""Models as arrays: storing and restoring, tags of resolved events, places."""

from io import BytesIO

import numpy as np
import pytest

from recall.learning.build import build_model
from recall.learning.stored_model import ResolvedEvents, StoredModel, name_place
from tests.unit.recall.learning.events import HOUR, make_events


def test_restored_model_predicts_the_same() -> None:
    events, tags = make_events(200)
    built = build_model(events, tags, HOUR)
    assert built is not None
    restored = StoredModel.from_bytes(built.model.to_bytes())
    for event in events[:20]:
        assert restored.forecast(event.term_counts, 3) == built.model.forecast(event.term_counts, 3)
    weights = built.model.model.pair_model.weights
    np.testing.assert_array_equal(restored.model.pair_model.weights, weights)
    assert restored.place_number("n3") == built.model.place_number("n3") >= 0
    assert restored.place_number("elsewhere") == -1


def test_stored_form_has_no_pickled_objects_and_other_formats_are_refused() -> None:
    events, tags = make_events(30)
    built = build_model(events, tags, HOUR)
    assert built is not None
    with np.load(BytesIO(built.model.to_bytes()), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    buffer = BytesIO()
    np.savez(buffer, **{**arrays, "format": np.array(99)})
    with pytest.raises(ValueError, match="unknown format 99"):
        StoredModel.from_bytes(buffer.getvalue())


def test_tags_and_places_are_found_by_event() -> None:
    resolved = ResolvedEvents(
        np.array([b"a", b"cc"]), np.array([1, 2]), np.array([3, 4]), np.array([7, 8])
    )
    positions = resolved.find(np.array([b"cc", b"b", b"a", b"zzz"]))
    facts = resolved.find_facts(positions, np.arange(4))
    assert facts.tags.tolist() == [4, -1, 3, -1]
    assert facts.places.tolist() == [8, -1, 7, -1]
    assert facts.times.tolist() == [0, 1, 2, 3]


def test_place_does_not_depend_on_the_order_of_key_columns() -> None:
    assert name_place(["n1", 3]) == name_place([3, "n1"]) != name_place(["n1", 4])
