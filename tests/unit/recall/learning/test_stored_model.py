"""Models as arrays: storing and restoring, tags of resolved events, places."""

from io import BytesIO

import numpy as np
import pytest

from recall.learning.build import build_model
from recall.learning.stored_model import ResolvedEvents, ResolvedRows, StoredModel, name_place
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
    tags, places = resolved.tags_and_places(positions)
    assert tags.tolist() == [4, -1, 3, -1]
    assert places.tolist() == [8, -1, 7, -1]


def test_place_does_not_depend_on_the_order_of_key_columns() -> None:
    assert name_place(["n1", 3]) == name_place([3, "n1"]) != name_place(["n1", 4])


def test_newest_events_of_the_first_tags_are_chosen() -> None:
    eids = np.array([b"a", b"b", b"c", b"d", b"e"])
    tags = np.array([0, 1, 0, 1, 0], dtype=np.int32)
    resolved = ResolvedEvents(eids, np.array([5, 4, 3, 2, 5]), tags, np.zeros(5, dtype=np.int64))
    for count, expected in ((1, b"b"), (2, b"bd"), (3, b"bde"), (4, b"bdea"), (9, b"bdeac")):
        chosen = resolved.newest_of_tags(np.array([1, 0]), count)
        assert sorted(eids[chosen].tolist()) == sorted(bytes([number]) for number in expected)


def test_rows_are_found_by_the_time_of_their_events_as_ids_are_in_no_order() -> None:
    numbers = np.random.default_rng(3).permutation(1000).tolist()
    eids = np.array([f"{number:04}".encode() for number in numbers])  # in time order
    by_id = np.argsort(eids)
    tags, places = np.zeros(1000, dtype=np.int32), np.zeros(1000, dtype=np.int64)
    resolved = ResolvedEvents(eids[by_id], np.arange(1000)[by_id], tags, places)
    assert resolved.time_ranks[resolved.find(eids)].tolist() == list(range(1000))
    segment_eids = np.concatenate([eids[300:340], [b"none"]])
    rows = ResolvedRows(resolved.find(segment_eids), resolved.time_ranks)
    assert rows.find(np.array([0, 299, 300, 305, 339, 340, 999])).tolist() == [0, 5, 39]
    assert rows.find(np.array([0, 999])).tolist() == []
    assert len(rows._row_by_rank) == 40  # memory for the events of the segment alone


def test_segment_without_resolved_events_has_no_rows() -> None:
    rows = ResolvedRows(np.full(3, -1, dtype=np.int32), np.arange(5))
    assert rows.find(np.arange(5)).tolist() == []
