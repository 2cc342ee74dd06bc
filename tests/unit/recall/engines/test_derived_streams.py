"""Versions of derived streams."""

from recall.engines.derived_streams import compute_derived_version

DERIVED = {
    "means": "SELECT ts, v FROM raw",
    "peaks": "SELECT ts, v FROM means WHERE v > 1",
    "counts": "SELECT ts, v FROM raw",
}


def test_version_changes_with_the_sql_of_inputs() -> None:
    changed = {**DERIVED, "means": "SELECT ts, v + 1 AS v FROM raw"}
    version = compute_derived_version("peaks", DERIVED)
    assert version != compute_derived_version("peaks", changed)
    assert len(version) == 16


def test_version_ignores_other_derived_streams() -> None:
    changed = {**DERIVED, "counts": "SELECT ts FROM raw"}
    assert compute_derived_version("peaks", DERIVED) == compute_derived_version("peaks", changed)


def test_version_follows_altered_columns_of_the_streams_that_are_read() -> None:
    plain = compute_derived_version("peaks", DERIVED)
    assert compute_derived_version("peaks", DERIVED, {"other": {"v": "double"}}) == plain
    streams = {"raw": {"v": "double"}}
    assert compute_derived_version("peaks", DERIVED, streams) != plain
