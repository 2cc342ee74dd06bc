from recall.stages.answer_rows import add_coverage
from recall.stages.conditions import RecallState

COVERAGE = {"share": 0.25, "read_from": None, "read_to": 1_000_000, "final": False}
ESTIMATES = [{"n": {"value": 8.0, "low": 4.0, "high": None}}]
COVERED = {
    "coverage": 0.25,
    "covered_from": None,
    "covered_to": "1970-01-01T00:00:01.000000Z",
    "final": False,
}


def test_rows_carry_what_they_were_computed_from() -> None:
    (row,) = add_coverage([{"n": 2}], COVERAGE, ESTIMATES)
    assert row == {**COVERED, "n": 2, "n_estimate": 8.0, "n_low": 4.0, "n_high": None}


def test_columns_of_the_answer_hide_those_of_coverage() -> None:
    rows = add_coverage([{"final": 3, "n": 2, "n_low": 1}], COVERAGE, ESTIMATES)
    assert (rows[0]["final"], rows[0]["n_low"]) == (3, 1)


def test_coverage_stored_by_an_earlier_version_has_no_share() -> None:
    stored = {"read_from": None, "read_to": None, "final": True}
    assert add_coverage([{}], stored, None)[0]["coverage"] is None


def test_condition_reads_a_coverage_without_rows() -> None:
    assert RecallState("running", 1, [], COVERAGE, None).judged_rows == [COVERED]
    assert RecallState("failed", 1, [{"n": 2}], COVERAGE, None).judged_rows == []


def test_rows_that_are_added_to_keep_their_place() -> None:
    """An answer with estimates has all rows; one that only adds rows has not."""
    whole = RecallState("running", 2, [{"n": 3}], COVERAGE, ESTIMATES)
    assert [row["n"] for row in whole.cover_rows([{"n": 2}])] == [3]
    adding = RecallState("running", 2, [{"n": 3}], {**COVERAGE, "appends": True}, ESTIMATES)
    assert [row["n"] for row in adding.cover_rows([{"n": 2}, {"n": 3}])] == [2, 3]
