"""What a condition says of an alert."""

import pytest

from recall.stages.conditions import RecallState, decide, find_undecided

ANSWERED = RecallState("running", 2, [{"n": 1}])


def test_recall_is_decided_by_its_first_answer_or_its_end() -> None:
    recalls = {
        "answered": ANSWERED,
        "waiting": RecallState("waiting", 0, []),
        "failed": RecallState("failed", 0, []),
    }
    names = ["answered", "waiting", "failed", "missing"]
    assert find_undecided(names, recalls) == ["missing", "waiting"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_failed_recall_has_no_rows(state: str) -> None:
    assert RecallState(state, 2, [{"n": 1}]).usable_rows == []
    assert ANSWERED.usable_rows == [{"n": 1}]


@pytest.mark.parametrize(
    ("value", "final", "history"),
    [
        (True, False, "kept"),
        (False, False, "withdrawn"),
        (None, False, "waiting"),
        (None, True, "no_history"),
        (False, True, "withdrawn"),
    ],
)
def test_verdict_by_value(value: bool | None, final: bool, history: str) -> None:
    verdict = decide(value, ["norm"], {"norm": ANSWERED}, final=final)
    assert (verdict.history, verdict.final) == (history, final)
    assert "norm (revision 2, running)" in verdict.reason
