"""The provenance of replayed answers."""

from recall.replay.outcome import append_bounds


def test_append_bounds_cover_all_successful_reads() -> None:
    reads = [(0, 2, {"a": 5, "b": 1}), (2, 3, None), (3, 4, {"a": 7})]
    assert append_bounds(reads) == {"a": (5, 7), "b": (1, 1)}
